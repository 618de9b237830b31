import { connect, isIP, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql } from 'postgres'
import type { Database, Host } from '../../config/database-url.ts'
import { UnavailableError } from '../store.ts'
import { choosePrimaryError, leavesConnectionUsable, NotSentError, ReadOnlyError, sqlStateOf } from './errors.ts'

const connectTimeoutMs = 5_000
/** PostgreSQL cancels longer statements. */
export const statementTimeoutMs = 5_000
const keepAliveSeconds = 10
const endTimeoutSeconds = 1
/** How long other hosts may take to respond after the first that accepts writes: one may be a newer primary. */
const newerPrimaryTimeoutMs = 500

/** The driver's pool for one server. */
export interface Connections {
  readonly sql: Sql
  /** Closes all sockets at once and opens no more. */
  destroy(): void
}

/** With `max` 1, the connection is opened once: a transaction never goes on in another session. */
export function openConnections(database: Database, host: Host, max: number): Connections {
  const sockets = new Set<Socket>()
  let failure: Error | undefined
  let isDestroyed = false

  // Returns a socket that fails where no connection is wanted: after a rejection the driver would lose the connection.
  const openSocket = (): Socket => {
    for (const one of sockets) if (one.destroyed) sockets.delete(one)
    const error = failure
    if (error) {
      const socket = new Socket()
      setImmediate(() => socket.destroy(error))
      if (max > 1 && !isDestroyed) failure = undefined
      return socket
    }
    if (max === 1) failure = new NotSentError(closedBy(host))
    const socket = connectTo(host)
    sockets.add(socket)
    // Without an error the driver connects again and again, for instance to a proxy that has no server.
    socket.once('close', () => {
      if (socket.bytesRead === 0) failure ??= new NotSentError(closedBy(host))
    })
    return socket
  }

  // `socket` is documented in the driver's README but missing from its types.
  const options: postgres.Options<Record<string, never>> & { socket(): Socket } = {
    ...(database.user !== undefined && { user: database.user }),
    ...(database.password !== undefined && { password: database.password }),
    ...(database.name !== undefined && { database: database.name }),
    host: host.name,
    port: host.port,
    ssl: tlsOptions(host, database),
    socket: openSocket,
    max,
    connect_timeout: connectTimeoutMs / 1000,
    keep_alive: keepAliveSeconds,
    idle_timeout: 0,
    max_lifetime: 0,
    backoff: false,
    fetch_types: false,
    prepare: true,
    connection: { application_name: 'todo-item-service', statement_timeout: statementTimeoutMs },
    onnotice: () => {},
  }
  return {
    sql: postgres(options),
    destroy() {
      isDestroyed = true
      failure = new NotSentError(closedBy(host))
      for (const socket of sockets) socket.destroy()
    },
  }
}

const closedBy = ({ name, port }: Host) => `The connection to ${name}:${port} was closed.`

/** Runs `use` on a connection of its own. */
export async function withConnection<T>(
  database: Database,
  host: Host,
  timeoutMs: number,
  stop: AbortSignal,
  use: (sql: Sql) => Promise<T>,
): Promise<T> {
  const { sql, destroy } = openConnections(database, host, 1)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    destroy()
  }, timeoutMs)
  stop.addEventListener('abort', destroy)
  if (stop.aborted) destroy()
  try {
    return await use(sql)
  } catch (error) {
    if (!isLate) throw error
    throw new UnavailableError(`No response from ${host.name}:${host.port} within ${timeoutMs / 1000} seconds.`)
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', destroy)
    await sql.end({ timeout: endTimeoutSeconds })
    destroy()
  }
}

/** Commits what `run` did, or nothing. For a single connection. */
export async function inTransaction<T>(sql: Sql, run: () => Promise<T>): Promise<T> {
  await sql`begin`
  let result: T
  try {
    result = await run()
  } catch (error) {
    // The driver's sql.begin() also sends it on a lost connection, which ends the process with a TypeError.
    if (leavesConnectionUsable(error)) await sql`rollback`
    throw error
  }
  await sql`commit`
  return result
}

/** A server that accepts writes. */
export interface Primary {
  readonly host: Host
  /** Each promotion of a standby starts a new one. 0: the database has none. */
  readonly timeline: number
  /** Commits of this role wait for a synchronous standby. */
  readonly commitsWait: boolean
}

/** Asks all hosts at once. Of several primaries, the one with the highest timeline has superseded the others. */
export async function findPrimary(database: Database, minTimeline: number, stop: AbortSignal): Promise<Primary> {
  const found: Primary[] = []
  const attempts = database.hosts.map(async (host) => {
    found.push(
      await withConnection(database, host, connectTimeoutMs, stop, (sql) => readPrimary(sql, host, minTimeline)),
    )
  })
  const first = Promise.any(attempts).then(
    () => sleep(newerPrimaryTimeoutMs),
    () => {},
  )
  const results = await Promise.race([Promise.allSettled(attempts), first])
  const [newest] = found.sort((one, other) => other.timeline - one.timeline)
  if (newest) return newest
  throw choosePrimaryError((results ?? []).map((result) => (result as PromiseRejectedResult).reason))
}

async function readPrimary(sql: Sql, host: Host, minTimeline: number): Promise<Primary> {
  const where = `${host.name}:${host.port}`
  const [mode] = await sql`show transaction_read_only`
  if (mode?.transaction_read_only === 'on')
    throw new ReadOnlyError(`The server at ${where} is a standby, or the database is read-only.`)
  // The name of a WAL file starts with the timeline, and every role may read it.
  const [state] = await sql`
    select pg_walfile_name(pg_current_wal_lsn()) as file,
      exists (select from pg_stat_activity where wait_event = 'SyncRep' and usename = current_user) as waits`.catch(
    (error: unknown) => {
      // A database that is only compatible with PostgreSQL.
      if (sqlStateOf(error)?.match(/^(?:42|0A)/)) return []
      throw error
    },
  )
  const timeline = state ? Number.parseInt(state.file.slice(0, 8), 16) : 0
  if (timeline < minTimeline)
    throw new ReadOnlyError(
      `The server at ${where} was superseded: it is at timeline ${timeline}, and ${minTimeline} was seen. Stop it, or restart this service to use it.`,
    )
  return { host, timeline, commitsWait: state?.waits === true }
}

const connectTo = ({ name, port }: Host) =>
  name.startsWith('/') ? connect(`${name}/.s.PGSQL.${port}`) : connect(port, name)

function tlsOptions({ name }: Host, { tls: { mode, ca } }: Database): object | 'prefer' | false {
  if (mode === 'disable' || name.startsWith('/')) return false
  if (mode === 'prefer') return 'prefer'
  const identity = mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }
  const servername = isIP(name) ? '' : name
  return { host: name, servername, ca, rejectUnauthorized: mode !== 'require', ...identity }
}
