import { closeSync, lstatSync, openSync, readlinkSync, readSync, realpathSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import Libsql from 'libsql'
import { StartError } from '../../common/start-error.ts'
import { type Failures, failuresOf, type Notice } from '../notices.ts'
import { isRefusal, UnavailableError } from '../store.ts'
import { LongReader, type Pause } from './long-reader.ts'
import { fileVersion, migrationFrom, viewsOf } from './migrations.ts'
import { readFailures } from './read-failures.ts'

/** A value as libsql reads and writes it. A boolean parameter would abort the process. */
export type SqlValue = string | number | Buffer | null

/**
 * A prepared statement. It must write only in a transaction: otherwise libsql loses errors of the commit and, without
 * the write lock, leaves the statement unfinished, so that the connection reads old items from then on.
 */
interface Statement {
  /** Returns the first row, in half the time of `all`. */
  get(parameters: readonly SqlValue[]): SqlValue[] | undefined
  all(parameters: readonly SqlValue[]): SqlValue[][]
  /** Returns the number of changed rows. For statements without `returning`. */
  run(parameters: readonly SqlValue[]): number
}

type Prepare = (sql: string) => Statement

/** Thrown if another process holds a lock; nothing was read or written. */
export class BusyError extends UnavailableError {}

export interface OpenOptions {
  readonly access: Access
  /** Whether a file of an older version is migrated, rather than refused. */
  readonly migrates?: boolean
  readonly monotonicNow: () => number
  readonly notice: Notice
  /** Inserts the starting items into a new file. */
  initialize(file: DataFile): void
}

/** "todo" in the header tells the file from other databases. */
const applicationId = 0x746f646f
const headerBytes = 100
/**
 * How long a write waits for the write lock, which another program may hold, such as the sqlite3 shell. Several
 * processes of the service that write all the time do not get it in turn.
 */
export const lockTimeoutMs = { exclusive: 1_000, shared: 5_000, read: 5_000 }
/** SQLite waits synchronously: no request is served meanwhile. */
const busyTimeoutMs = 2

/**
 * `exclusive` is for one process at a time, which may create the file. `shared` and `read` are always possible. With
 * `read`, nothing is changed: tables of an older version are seen as those of this one.
 */
type Access = 'exclusive' | 'shared' | 'read'

const placeCheckIntervalMs = 1_000

/** An SQLite file. Every error of SQLite that is not a bug in a statement becomes an UnavailableError. */
export class DataFile {
  /** The path after following symbolic links. */
  readonly path: string
  readonly writes: Failures
  readonly #reads: ReturnType<typeof readFailures>
  readonly #lock: Libsql.Database | undefined
  readonly #opened: Stats
  readonly #connection: Libsql.Database
  readonly #longReader = new LongReader()
  readonly #selectVersions: Statement
  readonly #placeCheck: NodeJS.Timeout
  #isFoundInPlace = false

  /** Throws a StartError when the file cannot be used. */
  constructor(path: string, { access, migrates, monotonicNow, notice, initialize }: OpenOptions) {
    // The lock and the other files of SQLite are beside the file itself, not beside a link to it.
    this.path = realFile(path)
    checkFile(this.path, access)
    this.#lock = access === 'exclusive' ? lockFile(this.path) : undefined
    if (access !== 'read') createPrivateFile(this.path)
    this.#opened = statSync(this.path)
    // https://www.sqlite.org/uri.html
    this.#connection = new Libsql(access === 'read' ? `${pathToFileURL(this.path)}?mode=ro` : this.path)
    this.#reads = readFailures(notice, monotonicNow)
    this.writes = failuresOf('Writes', notice)
    try {
      this.exec(`pragma busy_timeout = ${lockTimeoutMs[access]}`)
      checkContents(this)
      const version = versionOf(this)
      if (access === 'read') for (const statement of viewsOf(version)) this.exec(statement)
      else {
        if (version > 0 && version < fileVersion && !migrates)
          throw new StartError(
            `The data file ${this.path} has version ${version}, and this program writes version ${fileVersion}. Start todo-service serve with it once: that migrates the items.`,
          )
        if (version < fileVersion) this.transaction('immediate', () => migrate(this, initialize))
        this.exec('pragma journal_mode = wal')
        this.exec('pragma synchronous = full')
      }
      this.exec(`pragma busy_timeout = ${busyTimeoutMs}`)
    } catch (error) {
      this.#disconnect()
      throw error instanceof UnavailableError ? new StartError(`${error.message} ${chooseAnother}`) : error
    }
    this.#selectVersions = this.prepare("select version from collections where space = ''")
    this.#placeCheck = setInterval(() => {
      if (this.isInPlace()) return
      clearInterval(this.#placeCheck)
      // Worker processes, which have shared access, must not all print this line.
      if (access === 'exclusive')
        notice(
          `The data file ${this.path} was deleted, moved or replaced while the service runs. Writes are rejected. The items can be read until the service stops: save them, stop it, and start it again.`,
        )
    }, placeCheckIntervalMs)
    this.#placeCheck.unref()
  }

  /** Executes one or more statements. */
  exec(sql: string): void {
    translateErrors(() => this.#connection.exec(sql), this.path, this.#connection)
  }

  prepare(sql: string): Statement {
    return this.#prepare(this.#connection, sql)
  }

  #prepare(connection: Libsql.Database, sql: string): Statement {
    const statement = translateErrors(() => connection.prepare(sql), this.path, this.#connection)
    if (statement.reader) statement.raw()
    const isRead = /^\s*select\b/.test(sql)
    // libsql leaves a failed statement with its parameters: `get` would use them again, `all` does not.
    let hasFailed = false
    const attempt = <T>(parameters: readonly SqlValue[], execute: () => T): T => {
      try {
        return translateErrors(execute, this.path, this.#connection)
      } catch (error) {
        hasFailed = true
        if (isRead && error instanceof UnavailableError)
          this.#reads.failed(error.message, () => {
            // A damaged page may still be in the cache of this connection.
            this.#connection.exec('pragma shrink_memory')
            this.#connection.prepare(sql).all(parameters)
          })
        throw error
      }
    }
    const all = (parameters: readonly SqlValue[]) =>
      attempt(parameters, () => statement.all(parameters) as SqlValue[][])
    return {
      all,
      get: (parameters) =>
        hasFailed ? all(parameters)[0] : attempt(parameters, () => statement.get(parameters) as SqlValue[] | undefined),
      run: (parameters) => attempt(parameters, () => statement.run(parameters).changes),
    }
  }

  /** Executes an operation in a transaction. Rolls back if it is refused or throws. Writes have to be `immediate`. */
  transaction<T>(kind: 'deferred' | 'immediate', execute: () => T): T {
    this.exec(`begin ${kind}`)
    try {
      const result = execute()
      if (!this.#connection.inTransaction)
        throw new UnavailableError(`The data file ${this.path} cannot be used: SQLite has rolled back the transaction.`)
      this.exec(isRefusal(result) ? 'rollback' : 'commit')
      return result
    } catch (error) {
      if (this.#connection.inTransaction) this.exec('rollback')
      throw error
    }
  }

  /** Reads a snapshot of the items. Other requests are served during `pause`. Calls must not overlap. */
  readSnapshot<T>(read: (prepare: Prepare, pause: Pause) => Promise<T>): Promise<T> {
    // A second connection could not open the file any more, and nothing is written to it.
    if (!this.isInPlace())
      return read(
        (sql) => this.prepare(sql),
        async () => {},
      )
    const prepare = (sql: string) => this.#prepare(this.#longReader.connection, sql)
    return this.#longReader.read(this.path, (pause) => read(prepare, pause))
  }

  /** Executes a write transaction. The log says when writes begin to fail, and when one succeeds again. */
  write<T>(execute: () => T): T {
    this.#assertInPlace()
    const changesBefore = this.writes.isFailing ? this.#totalChanges() : 0
    try {
      const result = this.transaction('immediate', execute)
      if (this.writes.isFailing && !isRefusal(result) && this.#totalChanges() > changesBefore) this.writes.succeeded()
      return result
    } catch (error) {
      if (error instanceof UnavailableError && !(error instanceof BusyError)) this.writes.failed(error.message)
      throw error
    }
  }

  /** Tells whether the path still names the file that was opened. */
  isInPlace(): boolean {
    const stats = statSync(this.path, { throwIfNoEntry: false })
    return stats?.ino === this.#opened.ino && stats.dev === this.#opened.dev
  }

  /** Throws if the file was moved, or is damaged or unreadable. */
  check(): void {
    this.#assertInPlace()
    if (this.#reads.isFailing()) throw new UnavailableError('Reads fail.')
    // Cached pages would hide that the file is damaged.
    this.exec('pragma shrink_memory')
    this.#selectVersions.get([])
    const assertVersion = () => assertNotMigrated(this.#connection, this.path)
    try {
      assertVersion()
    } catch (error) {
      this.#reads.failed((error as Error).message, assertVersion)
      throw error
    }
  }

  close(): void {
    clearInterval(this.#placeCheck)
    this.#reads.close()
    // If another file is at the path now, SQLite would delete the -wal of that file.
    if (!this.isInPlace()) return
    try {
      this.#longReader.end()
      // Then SQLite leaves one file, without -wal and -shm.
      this.exec('pragma journal_mode = delete')
    } catch {
      // Another program is reading the file.
    }
    this.#disconnect()
  }

  /** Looks for the file once in a turn of the event loop, because that takes a seventh of the time of a write. */
  #assertInPlace(): void {
    if (this.#isFoundInPlace) return
    if (!this.isInPlace()) throw new UnavailableError(`The data file ${this.path} is gone.`)
    this.#isFoundInPlace = true
    setImmediate(() => {
      this.#isFoundInPlace = false
    })
  }

  #totalChanges(): number {
    return Number(this.prepare('select total_changes()').get([])?.[0])
  }

  #disconnect(): void {
    this.#connection.close()
    this.#lock?.close()
  }
}

/** Called within a write transaction. */
function migrate(file: DataFile, initialize: (file: DataFile) => void): void {
  const version = versionOf(file)
  if (version === fileVersion) return
  for (const statement of migrationFrom(version)) file.exec(statement)
  file.exec(`pragma application_id = ${applicationId}`)
  file.exec(`pragma user_version = ${fileVersion}`)
  if (version === 0) initialize(file)
}

const chooseAnother = 'Set another file with --data.'

/** Follows symbolic links to the file, which need not exist. */
function realFile(path: string): string {
  const folder = dirname(path)
  try {
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new StartError(
        `The folder of the data file, ${folder}, does not exist. Create it, or set another file with --data.`,
      )
    if (statSync(path, { throwIfNoEntry: false })) return realpathSync(path)
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    return isLink ? realFile(resolve(folder, readlinkSync(path))) : join(realpathSync(folder), basename(path))
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${path} cannot be opened (${(error as NodeJS.ErrnoException).code}). ${chooseAnother}`)
  }
}

/** Creates a file that only this user may read. SQLite gives its other files the same mode. */
function createPrivateFile(file: string): void {
  try {
    closeSync(openSync(file, 'a', 0o600))
  } catch {
    throw new StartError(`No file can be created in ${dirname(file)} by this user. ${chooseAnother}`)
  }
}

/** Checks the file without SQLite, which may change a file by opening it. */
function checkFile(file: string, access: Access): void {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats && access !== 'exclusive') throw new StartError(`There is no data file ${file}. ${chooseAnother}`)
  if (stats && !stats.isFile()) throw new StartError(`${file} is not a file. ${chooseAnother}`)
  // https://www.sqlite.org/howtocorrupt.html#_multiple_links_to_the_same_file
  if (stats && stats.nlink > 1)
    throw new StartError(
      `${file} has ${stats.nlink} names (hard links), under which two programs would not notice each other. Remove the others, or copy it and set the copy with --data.`,
    )
  if (stats?.size === 0 && access !== 'exclusive')
    throw new StartError(`The data file ${file} is empty. ${chooseAnother}`)
  if (!stats || stats.size === 0) return
  const header = readHeader(file, access)
  if (header.toString('latin1', 0, 16) !== 'SQLite format 3\0')
    throw new StartError(`${file} is not a data file of this service; it is left as it is. ${chooseAnother}`)
  if (header.readUInt32BE(68) !== applicationId)
    throw new StartError(`${file} is a database of another program; it is left as it is. ${chooseAnother}`)
  checkVersion(header.readUInt32BE(60), file)
}

/** https://www.sqlite.org/fileformat.html#the_database_header */
function readHeader(file: string, access: Access): Buffer {
  const header = Buffer.alloc(headerBytes)
  try {
    const descriptor = openSync(file, access === 'read' ? 'r' : 'r+')
    readSync(descriptor, header)
    closeSync(descriptor)
    return header
  } catch {
    const how = access === 'read' ? 'read' : 'read and written'
    throw new StartError(`${file} cannot be ${how} by this user. ${chooseAnother}`)
  }
}

function checkVersion(version: number, file: string): void {
  if (version > fileVersion)
    throw new StartError(
      `The data file ${file} has version ${version}, but this program supports versions up to ${fileVersion}. Run the newer program that wrote it, or set another file with --data.`,
    )
}

/** Locks the file against other processes. The operating system releases the lock when the process ends in any way. */
function lockFile(file: string): Libsql.Database {
  createPrivateFile(`${file}-lock`)
  const lock = new Libsql(`${file}-lock`)
  try {
    lock.exec('pragma journal_mode = memory')
    lock.exec('begin exclusive')
    return lock
  } catch {
    lock.close()
    throw new StartError(
      `The data file ${file} is in use by another process. Stop that one, or set another file with --data.`,
    )
  }
}

function checkContents(file: DataFile): void {
  const result = findDamage(file)
  if (result !== 'ok')
    throw new StartError(
      `The data file ${file.path} is damaged: ${result}. Restore a backup, or set another file with --data.`,
    )
  checkVersion(versionOf(file), file.path)
}

function findDamage(file: DataFile): string {
  try {
    // SQLite's messages have several lines, the first of which names the database "main".
    return `${file.prepare('pragma quick_check(1)').get([])?.[0]}`.replace(/^\*.*\n/, '').replaceAll('\n', ' ')
  } catch (error) {
    const { cause } = error as Error
    if (cause instanceof Libsql.SqliteError && isDamage(cause)) return cause.message
    throw error
  }
}

const versionOf = (file: DataFile) => Number(file.prepare('pragma user_version').get([])?.[0])

/** A file that was truncated has no tables. */
const isDamage = ({ code, message }: { readonly code: string; readonly message: string }) =>
  /^SQLITE_(?:CORRUPT|NOTADB)/.test(code) || message.startsWith('no such table')

function assertNotMigrated(connection: Libsql.Database, file: string): void {
  const [version] = connection.prepare('pragma user_version').raw().get() as [number]
  if (version > fileVersion)
    throw new UnavailableError(
      `Another version of the program has migrated the data file ${file}: it has version ${version}, and this one needs version ${fileVersion}. Stop the service and start that version.`,
    )
}

/** The errors of SQLite that mean a bug in a statement. */
const bugs = /^SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|MISUSE|RANGE|TOOBIG)/

function translateErrors<T>(execute: () => T, file: string, connection: Libsql.Database): T {
  try {
    return execute()
  } catch (cause) {
    if (!(cause instanceof Libsql.SqliteError)) throw cause
    const { code, message } = cause
    if (/^no such (?:table|column)/.test(message)) assertNotMigrated(connection, file)
    if (isDamage(cause))
      throw new UnavailableError(
        `The data file ${file} is damaged: ${message}. Stop the service and restore a backup.`,
        { cause },
      )
    // A connection that only reads cannot roll back what a killed process has left.
    if (code === 'SQLITE_READONLY_ROLLBACK')
      throw new StartError(
        `A write to the data file ${file} was interrupted. Start todo-service serve with it once: that undoes this write.`,
      )
    if (bugs.test(code)) throw cause
    if (code.startsWith('SQLITE_BUSY'))
      throw new BusyError(`The data file ${file} is locked by another process.`, { cause })
    throw new UnavailableError(`The data file ${file} cannot be used: ${message}.`, { cause })
  }
}
