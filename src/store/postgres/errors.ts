import { DatabaseError } from 'pg'
import { StartError } from '../../common/start-error.ts'
import { UnavailableError } from '../store.ts'
import { ProtocolError } from './stream.ts'
import { type DatabaseSettings, describeDatabase } from './url.ts'

/** The server answers, but must not be written to: a standby, a read-only database or a superseded primary. */
export class ReadOnlyError extends UnavailableError {}

/** The SQLSTATE of an error that the server reported. Its texts, severity included, are in the server's language. */
export const sqlStateOf = (error: unknown) => (error instanceof DatabaseError ? error.code : undefined)

const hasState = (pattern: RegExp) => (error: unknown) => pattern.test(sqlStateOf(error) ?? '')

export const isReadOnlyTransaction = hasState(/^25006$/)

/** Whether a repetition may succeed after the rollback: serialization failure, deadlock, a key created meanwhile. */
export const isConflict = hasState(/^(?:40001|40P01|23505)$/)

/** Whether the statement had no effect, and may succeed later: conflict, read-only transaction, wrong name. */
export const mayBeRetried = (error: unknown) => isConflict(error) || isReadOnlyTransaction(error) || isNameError(error)

/**
 * Whether the server does not know the name of a prepared statement, or knows another statement by it: a pooler used
 * another server connection, preparing it has failed, or a table was altered.
 */
export const isNameError = (error: unknown) =>
  /^(?:26000|42P05)$/.test(sqlStateOf(error) ?? '') ||
  (error instanceof DatabaseError && error.routine === 'RevalidateCachedQuery')

/**
 * The server has reported the error and keeps the session, unlike with connection exceptions and shutdowns. pgpool-II
 * reports an internal error when it has lost its server.
 */
const leavesSession = hasState(/^(?!08|25P0[34]|57P|XX000)./)

/** A distributed database also reports a connection exception if it has lost one node; others still respond. */
export const leavesConnectionUsable = (error: unknown) =>
  leavesSession(error) || (error instanceof DatabaseError && /^08/.test(error.code ?? '') && error.severity === 'ERROR')

/** Whether the statement may have been executed: statement_completion_unknown, or a lost connection. */
export const isOutcomeUnknown = (error: unknown) => sqlStateOf(error) === '40003' || !leavesSession(error)

/** Whether the server refuses one more connection, but keeps the open ones; not while it starts or stops (57). */
export const isRefusal = (error: unknown) => error instanceof ProtocolError || /^(?!57)./.test(sqlStateOf(error) ?? '')

/** Whether the server lacks disk space or memory, cannot read its files, or has found them damaged. */
export const isStorageError = hasState(/^(?:53[12]|58|XX00[12])/)

/** Whether a table, column or schema is missing, because another version of the program has other tables. */
export const isMissing = hasState(/^(?:42P01|42703|3F000)$/)

/** Whether another transaction holds a lock. */
export const isLocked = hasState(/^55P03$/)

/** Whether a lock was not available in time. */
export const isLockTimeout = hasState(/^(?:55P03|57014)$/)

/** Whether a number is too large for its type. */
export const isOutOfRange = hasState(/^22003$/)

/** Whether the server does not support or allow the statement: it may only be compatible with PostgreSQL. */
export const isUnsupported = hasState(/^(?:0A|42|55)/)

/** Whether user, password, database or privileges are wrong, so that a person has to change the settings. */
export const isSettingError = hasState(/^(?:28|3D|42)/)

/**
 * Matches SQLSTATEs of these classes: connection, transaction state, statement name, rollback, resources, operator
 * intervention, system error, internal error.
 */
const unavailableClasses = /^(?:08|25|26|40|53|57|58|XX)/

/** Every error that is not a bug in the statement becomes UnavailableError. */
export function toStoreError(error: unknown): Error {
  if (error instanceof StartError || error instanceof UnavailableError) return error
  if (error instanceof DatabaseError && error.code && !unavailableClasses.test(error.code) && !isMissing(error))
    return error
  return new UnavailableError(`${reasonOf(error)}.`, { cause: error })
}

/** Selects the error to report: wrong settings first, then errors that a server reported, then unreachable servers. */
export function mainError(error: unknown): unknown {
  if (!(error instanceof AggregateError)) return error
  const errors: unknown[] = error.errors
  const readOnly = errors.filter((error) => error instanceof ReadOnlyError)
  const others = errors.filter((error) => !(error instanceof ReadOnlyError)).map((error) => `${reasonOf(error)}.`)
  const all = new ReadOnlyError([...readOnly.map(({ message }) => message), ...new Set(others)].join(' '))
  return errors.find(isSettingError) ?? (readOnly.length ? all : (errors.find(sqlStateOf) ?? errors[0]))
}

/** Sentences for the driver's own errors, which have no code. */
const driverMessages: Readonly<Record<string, string>> = {
  'timeout expired': 'The server does not respond',
  'Connection terminated': 'The server closed the connection',
  'Connection terminated unexpectedly': 'The server closed the connection',
}

/** The sentence has no full stop. */
function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return driverMessages[message] ?? (message || `${code}`).replace(/\.$/, '')
}

/** One line: why the database cannot be used, and what to do. Never contains the password. */
export function describeDatabaseError(
  reported: unknown,
  database: DatabaseSettings,
  /** What else helps if no server is listening. */
  advice = '',
): string {
  const error = mainError(reported)
  const { code = '', message } = error as NodeJS.ErrnoException
  const where = describeDatabase(database)
  const reason = `${reasonOf(error)}.`
  switch (code) {
    case '08P01':
      if (!message.includes('startup parameter')) break
      return `The connection pooler does not accept the service's start parameters (${where}): ${reason} With PgBouncer, set ignore_startup_parameters = statement_timeout.`
    case '28P01':
      return `Authentication failed (${where}): ${reason} Check the user and the password in --database-url.`
    case '28000':
      return `The server rejected the connection (${where}): ${reason} Check --database-url and the server's pg_hba.conf; if the server requires TLS, add ?sslmode=require.`
    case '3D000':
      return `The database does not exist (${where}): ${reason} Create it, or set another one in --database-url.`
    case '42501':
      return `Missing privilege (${where}): ${reason} Grant it, or start the service once with a role that has it.`
    case '2BP01':
      return `Tables of an older version cannot be deleted (${where}): ${reason} Drop what was made for them, such as views, and start the service again.`
    case '55P03':
      return `The tables are in use (${where}): ${reason} Wait for the end of the other program, such as a backup, or end it, and try again.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `Unknown host (${where}). Check --database-url.`
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `No server is listening (${where}). Start it, or check --database-url.${advice}`
  }
  return `The database cannot be used (${where}): ${reason}`
}
