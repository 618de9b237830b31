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

/** Rolled back, and may succeed when sent again: serialization failure, deadlock, a key that was created meanwhile. */
export const isConflict = hasState(/^(?:40001|40P01|23505)$/)

/** The statement had no effect, and may succeed: a conflict, or the transaction was read-only, or its name was wrong. */
export const mayBeRetried = (error: unknown) => isConflict(error) || isReadOnlyTransaction(error) || isNameError(error)

/**
 * The name does not stand for the statement as it was prepared: a connection pooler has passed it on to another server
 * connection, the statement that was to prepare it has failed, or a table was altered.
 */
export const isNameError = (error: unknown) =>
  /^(?:26000|42P05)$/.test(sqlStateOf(error) ?? '') ||
  (error instanceof DatabaseError && error.routine === 'RevalidateCachedQuery')

/**
 * The server has reported the error and keeps the session, unlike with connection exceptions and shutdowns. pgpool-II
 * reports an internal error when it has lost its server.
 */
const leavesSession = hasState(/^(?!08|25P0[34]|57P|XX000)./)

/** A distributed database reports a connection exception where it has lost a node: other rows can be reached. */
export const leavesConnectionUsable = (error: unknown) =>
  leavesSession(error) || (error instanceof DatabaseError && /^08/.test(error.code ?? '') && error.severity === 'ERROR')

/** The statement may have been executed: statement_completion_unknown, or a connection was lost. */
export const isOutcomeUnknown = (error: unknown) => sqlStateOf(error) === '40003' || !leavesSession(error)

/** The server responds, but accepts no further connection. While it starts or stops (57), it has no others, either. */
export const isRefusal = (error: unknown) => error instanceof ProtocolError || /^(?!57)./.test(sqlStateOf(error) ?? '')

/** The server lacks disk space or memory, cannot read its files, or has found them damaged. */
export const isStorageError = hasState(/^(?:53[12]|58|XX00[12])/)

/** A table, column or schema is missing: another version of the program has other tables. */
export const isMissing = hasState(/^(?:42P01|42703|3F000)$/)

/** Another transaction holds a lock. */
export const isLocked = hasState(/^55P03$/)

/** A lock was not available in time. */
export const isLockTimeout = hasState(/^(?:55P03|57014)$/)

/** A number is greater than its type holds. */
export const isOutOfRange = hasState(/^22003$/)

/** The server lacks what was asked for: it is only compatible with PostgreSQL, or does not allow it. */
export const isUnsupported = hasState(/^(?:0A|42|55)/)

/** User, password, database or privileges: somebody has to change the settings. */
export const isSettingError = hasState(/^(?:28|3D|42)/)

/**
 * SQLSTATE classes: connection, transaction state, statement name, rollback, resources, operator intervention, system error,
 * internal error.
 */
const unavailableClasses = /^(?:08|25|26|40|53|57|58|XX)/

/** Every error that is not a bug in the statement becomes UnavailableError. */
export function toStoreError(error: unknown): Error {
  if (error instanceof StartError || error instanceof UnavailableError) return error
  if (error instanceof DatabaseError && error.code && !unavailableClasses.test(error.code) && !isMissing(error))
    return error
  return new UnavailableError(`${reasonOf(error)}.`, { cause: error })
}

/** Which of the errors of all hosts is reported: wrong settings first, then servers that answer, then those that do not. */
export function mainError(error: unknown): unknown {
  if (!(error instanceof AggregateError)) return error
  const errors: unknown[] = error.errors
  const readOnly = errors.filter((error) => error instanceof ReadOnlyError)
  const others = errors.filter((error) => !(error instanceof ReadOnlyError)).map((error) => `${reasonOf(error)}.`)
  const all = new ReadOnlyError([...readOnly.map(({ message }) => message), ...new Set(others)].join(' '))
  return errors.find(isSettingError) ?? (readOnly.length ? all : (errors.find(sqlStateOf) ?? errors[0]))
}

/** The driver's own errors have no code. */
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
