import postgres from 'postgres'
import { type Database, describeDatabase } from '../../config/database-url.ts'
import { UnavailableError } from '../store.ts'

/** The query was not sent. */
export class NotSentError extends UnavailableError {}

/** The server is a standby, or the database is read-only. */
export class ReadOnlyError extends NotSentError {}

/** The database or its schema does not fit this program. */
export class SchemaError extends Error {}

/** Retrying cannot help. */
export const isPermanent = (error: unknown) => error instanceof SchemaError

/** The SQLSTATE of an error that the server reported. */
export const sqlStateOf = (error: unknown) => (error instanceof postgres.PostgresError ? error.code : undefined)

export const isReadOnlyTransaction = (error: unknown) => sqlStateOf(error) === '25006'

const isSerializationFailure = (error: unknown) => sqlStateOf(error) === '40001'

/** The query was not sent, or the server rolled it back: it is safe to send it again. */
export const hadNoEffect = (error: unknown) =>
  error instanceof NotSentError || isReadOnlyTransaction(error) || isSerializationFailure(error)

/** The query failed and the connection is still usable; after any other error it is not. */
export const leavesConnectionUsable = (error: unknown) =>
  error instanceof postgres.PostgresError && error.severity === 'ERROR'

/** SQLSTATE classes: connection, transaction state, rollback, resources, operator intervention, system error. */
const unavailableClasses = /^(?:08|25|40|53|57|58)/

/** Every error that is not a bug in the query becomes UnavailableError. */
export function toStoreError(error: unknown): unknown {
  const sqlState = sqlStateOf(error)
  if (error instanceof UnavailableError || (sqlState && !unavailableClasses.test(sqlState))) return error
  return new UnavailableError((error as Error).message, { cause: error })
}

/** One line: why the database cannot be used, and what to do. Never contains the password. */
export function describeDatabaseError(error: unknown, database: Database): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (error instanceof SchemaError) return message
  const where = describeDatabase(database)
  const reason = message.replace(/\.?$/, '.')
  switch (code) {
    case '28P01':
      return `Authentication failed (${where}): ${reason} Check the user and the password in --database-url.`
    case '28000':
      return `The server rejected the connection (${where}): ${reason} Check --database-url and the server's pg_hba.conf; if the server requires TLS, add ?sslmode=require.`
    case '3D000':
      return `The database does not exist (${where}): ${reason} Create it, or set another one in --database-url.`
    case '42501':
      return `Missing privilege (${where}): ${reason} Grant it, or start the service once with a role that has it.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `Unknown host (${where}). Check --database-url.`
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `No server is listening (${where}). Start it, check --database-url, or wait for it with --wait-for-database.`
    case 'ECONNRESET':
      if (database.tls.mode !== 'disable')
        return `The server closed the connection when TLS was requested (${where}): ${reason} If it does not support TLS, set ?sslmode=disable.`
  }
  return `The database cannot be used (${where}): ${reason}`
}
