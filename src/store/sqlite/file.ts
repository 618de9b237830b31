import { closeSync, lstatSync, openSync, readlinkSync, readSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import Libsql from 'libsql'
import { Failures, type Notice } from '../notices.ts'
import { UnavailableError } from '../store.ts'
import { ReadFailures } from './read-failures.ts'

/** The file cannot be used; the message says why and what to do, in one sentence. */
export class DataFileError extends Error {}

/** A value as libsql reads and writes it. A boolean parameter would abort the process. */
export type SqlValue = string | number | Buffer | null

/**
 * One that writes needs a transaction: libsql loses errors of its commit, and if it cannot get the write lock, leaves it
 * unfinished, so that the connection reads old items from then on.
 */
export interface Statement {
  /** Returns the first row, in half the time of `all`. */
  get(parameters: readonly SqlValue[]): SqlValue[] | undefined
  all(parameters: readonly SqlValue[]): SqlValue[][]
  /** Returns the number of changed rows. For statements without `returning`. */
  run(parameters: readonly SqlValue[]): number
}

/** Every error of SQLite that is not a bug in a statement becomes an UnavailableError. */
export interface Database {
  /** Executes any number of statements. */
  exec(sql: string): void
  prepare(sql: string): Statement
  /** Begins to read (deferred) or to write (immediate), and rolls back when `execute` throws. */
  transaction<T>(kind: 'deferred' | 'immediate', execute: () => T): T
}

/** Another process holds a lock; nothing was read or written. */
export class BusyError extends UnavailableError {}

export interface DataFile extends Database {
  /** The path without symbolic links. */
  readonly path: string
  readonly writes: Failures
  /** Tells whether the path still names the file that was opened. */
  isInPlace(): boolean
  /** Throws when the file is not in place, damaged or unreadable. */
  check(): void
  close(): void
}

interface OpenOptions {
  readonly access: Access
  readonly monotonicNow: () => number
  readonly notice: Notice
  /** Inserts the starting items into a new file. */
  initialize(db: Database): void
}

/** Watches a file that is open. */
interface Watch {
  readonly reads: ReadFailures
  readonly writes: Failures
  /** Is called before each write. */
  assertInPlace(): void
}

/** "todo" in the header tells the file from other databases. */
const applicationId = 0x746f646f
const headerBytes = 100
/**
 * For the write lock, which another program may hold, such as the sqlite3 shell. Several processes of the service that
 * write all the time do not get it in turn.
 */
export const lockTimeoutMs = { exclusive: 1_000, shared: 5_000 }
/** SQLite waits synchronously: no request is served meanwhile. */
const busyTimeoutMs = 2

/** The migration at index n leads from version n to n + 1. Files depend on all of them: only append. */
const migrations = [
  `create table numbered_items (
    id integer primary key autoincrement,
    name text,
    is_complete integer not null,
    secret text,
    version integer not null
  ) strict;
  create table named_items (
    place integer primary key autoincrement,
    id text not null unique,
    name text not null,
    notes text not null,
    done integer not null
  ) strict;
  create table lists (profile text primary key, version integer not null) strict, without rowid;
  insert into lists values ('a', 1), ('b', 1);
  ${triggers('numbered_items', 'a')}
  ${triggers('named_items', 'b')}`,
]

/** Counts every change of an item, whoever makes it. */
function triggers(table: string, profile: string): string {
  const count = `update lists set version = version + 1 where profile = '${profile}';`
  return ['insert', 'update', 'delete']
    .map((event) => `create trigger ${table}_${event} after ${event} on ${table} begin ${count} end;`)
    .join('\n')
}

/** One process at a time has exclusive access, and creates the file. Shared access is possible at any time. */
export type Access = 'exclusive' | 'shared'

/** Throws DataFileError. */
export function openDataFile(path: string, { access, monotonicNow, notice, initialize }: OpenOptions): DataFile {
  // The lock and the files of SQLite stand beside the file itself, whatever links lead to it.
  const file = realFile(path)
  checkFile(file, access)
  const lock = access === 'exclusive' ? lockFile(file) : undefined
  createPrivateFile(file)
  const { dev, ino } = statSync(file)
  const isInPlace = () => {
    const stats = statSync(file, { throwIfNoEntry: false })
    return stats?.ino === ino && stats.dev === dev
  }
  const connection = new Libsql(file)
  const db = database(connection, file)
  const close = () => {
    connection.close()
    lock?.close()
  }
  try {
    db.exec(`pragma busy_timeout = ${lockTimeoutMs[access]}`)
    checkContents(db, file)
    if (versionOf(db) < migrations.length) db.transaction('immediate', () => migrate(db, initialize))
    db.exec('pragma journal_mode = wal')
    db.exec('pragma synchronous = full')
    db.exec(`pragma busy_timeout = ${busyTimeoutMs}`)
  } catch (error) {
    close()
    if (!(error instanceof UnavailableError)) throw error
    throw new DataFileError(`${error.message} ${chooseAnother}`)
  }
  const reads = new ReadFailures(notice, monotonicNow)
  const writes = new Failures('Writes', notice)
  const assertInPlace = () => {
    if (!isInPlace()) throw new UnavailableError(`The data file ${file} is gone.`)
  }
  const watched = database(connection, file, { reads, writes, assertInPlace })
  const selectVersions = watched.prepare('select version from lists')
  return {
    ...watched,
    path: file,
    writes,
    isInPlace,
    check() {
      assertInPlace()
      if (reads.isFailing) throw new UnavailableError('Reads fail.')
      // Pages in memory would hide that the file is damaged.
      db.exec('pragma shrink_memory')
      selectVersions.get([])
    },
    close() {
      reads.close()
      // SQLite would delete the -wal of another file that is at the path now.
      if (!isInPlace()) return
      try {
        // This leaves one file, without -wal and -shm.
        db.exec('pragma journal_mode = delete')
      } catch {
        // Another program is reading the file.
      }
      close()
    },
  }
}

/** The caller has begun a write transaction. */
function migrate(db: Database, initialize: (db: Database) => void): void {
  const version = versionOf(db)
  if (version === migrations.length) return
  for (const migration of migrations.slice(version)) db.exec(migration)
  db.exec(`pragma application_id = ${applicationId}`)
  db.exec(`pragma user_version = ${migrations.length}`)
  if (version === 0) initialize(db)
}

function database(connection: Libsql.Database, file: string, watch?: Watch): Database {
  const changes = () => Number((connection.prepare('select total_changes()').raw().get([]) as SqlValue[])[0])
  const exec = (sql: string) => translateErrors(() => connection.exec(sql), file)
  return {
    exec,
    prepare(sql) {
      const statement = translateErrors(() => connection.prepare(sql), file)
      if (statement.reader) statement.raw()
      const isRead = /^\s*select\b/.test(sql)
      // libsql leaves a failed statement with its parameters: `get` would use them again, `all` does not.
      let hasFailed = false
      const failed = (cause: unknown, parameters: readonly SqlValue[]) => {
        hasFailed = true
        const error = toStoreError(cause, file)
        if (isRead && error instanceof UnavailableError)
          watch?.reads.failed(error.message, () => {
            // A damaged page may be in memory.
            connection.exec('pragma shrink_memory')
            statement.all(parameters)
          })
        return error
      }
      return {
        get(parameters) {
          try {
            return (hasFailed ? statement.all(parameters)[0] : statement.get(parameters)) as SqlValue[] | undefined
          } catch (error) {
            throw failed(error, parameters)
          }
        },
        all(parameters) {
          try {
            return statement.all(parameters) as SqlValue[][]
          } catch (error) {
            throw failed(error, parameters)
          }
        },
        run: (parameters) => translateErrors(() => statement.run(parameters).changes, file),
      }
    },
    transaction(kind, execute) {
      const writes = kind === 'immediate' ? watch?.writes : undefined
      if (writes) watch?.assertInPlace()
      const changesBefore = writes?.isFailing ? changes() : 0
      try {
        exec(`begin ${kind}`)
        const result = execute()
        if (!connection.inTransaction)
          throw new UnavailableError(`The data file ${file} cannot be used: SQLite has rolled back the transaction.`)
        exec('commit')
        if (writes?.isFailing && changes() > changesBefore) writes.succeeded()
        return result
      } catch (error) {
        if (connection.inTransaction) exec('rollback')
        if (error instanceof UnavailableError && !(error instanceof BusyError)) writes?.failed(error.message)
        throw error
      }
    },
  }
}

const chooseAnother = 'Set another file with --data.'

/** Follows symbolic links to the file, which need not exist. */
function realFile(path: string): string {
  const folder = dirname(path)
  try {
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new DataFileError(
        `The folder of the data file, ${folder}, does not exist. Create it, or set another file with --data.`,
      )
    if (statSync(path, { throwIfNoEntry: false })) return realpathSync(path)
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    return isLink ? realFile(resolve(folder, readlinkSync(path))) : join(realpathSync(folder), basename(path))
  } catch (error) {
    if (error instanceof DataFileError) throw error
    throw new DataFileError(`${path} cannot be opened (${(error as NodeJS.ErrnoException).code}). ${chooseAnother}`)
  }
}

/** Creates a file that only this user may read. SQLite gives its other files the same mode. */
function createPrivateFile(file: string): void {
  try {
    closeSync(openSync(file, 'a', 0o600))
  } catch {
    throw new DataFileError(`No file can be created in ${dirname(file)} by this user. ${chooseAnother}`)
  }
}

/** Checks what it can without SQLite, which may change a file when it opens it. */
function checkFile(file: string, access: Access): void {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats && access === 'shared') throw new DataFileError(`There is no data file ${file}. ${chooseAnother}`)
  if (stats && !stats.isFile()) throw new DataFileError(`${file} is not a file. ${chooseAnother}`)
  // https://www.sqlite.org/howtocorrupt.html#_multiple_links_to_the_same_file
  if (stats && stats.nlink > 1)
    throw new DataFileError(
      `${file} has ${stats.nlink} names (hard links), under which two programs would not notice each other. Remove the others, or copy it and set the copy with --data.`,
    )
  if (!stats || stats.size === 0) return
  const header = readHeader(file)
  if (header.toString('latin1', 0, 16) !== 'SQLite format 3\0')
    throw new DataFileError(`${file} is not a data file of this service; it is left as it is. ${chooseAnother}`)
  if (header.readUInt32BE(68) !== applicationId)
    throw new DataFileError(`${file} is a database of another program; it is left as it is. ${chooseAnother}`)
  checkVersion(header.readUInt32BE(60), file)
}

/** https://www.sqlite.org/fileformat.html#the_database_header */
function readHeader(file: string): Buffer {
  const header = Buffer.alloc(headerBytes)
  try {
    const descriptor = openSync(file, 'r+')
    readSync(descriptor, header)
    closeSync(descriptor)
    return header
  } catch {
    throw new DataFileError(`${file} cannot be read and written by this user. ${chooseAnother}`)
  }
}

function checkVersion(version: number, file: string): void {
  if (version > migrations.length)
    throw new DataFileError(
      `The data file ${file} has version ${version}, but this program supports versions up to ${migrations.length}. Run the newer program that wrote it, or set another file with --data.`,
    )
}

/** Keeps other processes out. The operating system releases the lock when the process ends, however it ends. */
function lockFile(file: string): Libsql.Database {
  createPrivateFile(`${file}-lock`)
  const lock = new Libsql(`${file}-lock`)
  try {
    lock.exec('pragma journal_mode = memory')
    lock.exec('begin exclusive')
    return lock
  } catch {
    lock.close()
    throw new DataFileError(
      `The data file ${file} is in use by another process. Stop that one, or set another file with --data.`,
    )
  }
}

function checkContents(db: Database, file: string): void {
  const result = findDamage(db)
  if (result !== 'ok')
    throw new DataFileError(
      `The data file ${file} is damaged: ${result}. Restore a backup, or set another file with --data.`,
    )
  checkVersion(versionOf(db), file)
}

function findDamage(db: Database): string {
  try {
    // Its messages have several lines, the first of which names the database "main".
    return `${db.prepare('pragma quick_check(1)').get([])?.[0]}`.replace(/^\*.*\n/, '').replaceAll('\n', ' ')
  } catch (error) {
    const { cause } = error as Error
    if (cause instanceof Libsql.SqliteError && isDamage(cause)) return cause.message
    throw error
  }
}

const versionOf = (db: Database) => Number(db.prepare('pragma user_version').get([])?.[0])

/** A file that was truncated has no tables. */
const isDamage = ({ code, message }: { readonly code: string; readonly message: string }) =>
  /^SQLITE_(?:CORRUPT|NOTADB)/.test(code) || message.startsWith('no such table')

/** Errors that are bugs of a statement. */
const bugs = /^SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|MISUSE|RANGE|TOOBIG)/

function translateErrors<T>(execute: () => T, file: string): T {
  try {
    return execute()
  } catch (error) {
    throw toStoreError(error, file)
  }
}

function toStoreError(cause: unknown, file: string): unknown {
  if (!(cause instanceof Libsql.SqliteError)) return cause
  const { code, message } = cause
  if (isDamage(cause))
    return new UnavailableError(
      `The data file ${file} is damaged: ${message}. Stop the service and restore a backup.`,
      { cause },
    )
  if (bugs.test(code)) return cause
  if (code.startsWith('SQLITE_BUSY'))
    return new BusyError(`The data file ${file} is locked by another process.`, { cause })
  return new UnavailableError(`The data file ${file} cannot be used: ${message}.`, { cause })
}
