import postgres from 'postgres'
import { type Database, describeDatabase } from '../../config/database-url.ts'
import { UnavailableError } from '../store.ts'

/** The statement was not sent. */
export class NotSentError extends UnavailableError {}

/** The server answers, but its items must not be written: a standby, a read-only database, a superseded primary. */
export class ReadOnlyError extends UnavailableError {}

/** The database or its schema does not fit this program. */
export class SchemaError extends Error {}

/** Retrying cannot help. */
export const isPermanent = (error: unknown) => error instanceof SchemaError

/** The SQLSTATE of an error that the server reported. */
export const sqlStateOf = (error: unknown) => (error instanceof postgres.PostgresError ? error.code : undefined)

export const isReadOnlyTransaction = (error: unknown) => sqlStateOf(error) === '25006'

/** The server rolled the statement back: read-only transaction, serialization failure. */
export const wasRolledBack = (error: unknown) => ['25006', '40001'].includes(sqlStateOf(error) ?? '')

/** The connection was never established. 57P03: the server is starting up or shutting down. */
export function wasNotSent(error: unknown): boolean {
  const { code = '', syscall = '' } = error as NodeJS.ErrnoException
  return (
    error instanceof NotSentError ||
    // Several addresses of one host were tried.
    error instanceof AggregateError ||
    ['connect', 'getaddrinfo'].includes(syscall) ||
    ['CONNECT_TIMEOUT', '53300', '57P03'].includes(code)
  )
}

/** The statement failed and the connection is still usable; after any other error it is not. */
export const leavesConnectionUsable = (error: unknown) =>
  error instanceof postgres.PostgresError && error.severity === 'ERROR'

/** SQLSTATE classes: connection, transaction state, rollback, resources, operator intervention, system error. */
const unavailableClasses = /^(?:08|25|40|53|57|58)/

/** Every error that is not a bug in the statement becomes UnavailableError. */
export function toStoreError(error: unknown): unknown {
  const sqlState = sqlStateOf(error)
  if (error instanceof UnavailableError || (sqlState && !unavailableClasses.test(sqlState))) return error
  return new UnavailableError(reasonOf(error), { cause: error })
}

/** User, password, database or privileges: somebody has to change the settings. */
export const isSettingError = (error: unknown) => /^(?:28|3D|42)/.test(sqlStateOf(error) ?? '')

/** Of the errors of all hosts, the one to report: wrong settings, then servers that answer, then those that do not. */
export function choosePrimaryError(errors: readonly unknown[]): unknown {
  const readOnly = errors.filter((error) => error instanceof ReadOnlyError)
  const others = errors.filter((error) => !(error instanceof ReadOnlyError)).map((error) => `${reasonOf(error)}.`)
  const all = new ReadOnlyError([...readOnly.map(({ message }) => message), ...new Set(others)].join(' '))
  return errors.find(isSettingError) ?? (readOnly.length ? all : (errors.find(sqlStateOf) ?? errors[0]))
}

/** The driver's own errors lack the host, or name it "undefined". Without a full stop. */
function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'CONNECT_TIMEOUT') return 'The server does not respond'
  if (code === 'CONNECTION_CLOSED') return 'The server closed the connection'
  return (message || `${code}`).replace(/\.$/, '')
}

/** One line: why the database cannot be used, and what to do. Never contains the password. */
export function describeDatabaseError(error: unknown, database: Database): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (error instanceof SchemaError) return message
  const where = describeDatabase(database)
  const reason = `${reasonOf(error)}.`
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
