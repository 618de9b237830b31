import { isIP, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { UnavailableError } from '../store.ts'
import { CommitLostError, choosePrimaryError, leavesConnectionUsable, ReadOnlyError, sqlStateOf } from './errors.ts'
import type { Database, Host } from './url.ts'

const connectTimeoutMs = 5_000
/** PostgreSQL cancels longer statements. */
export const statementTimeoutMs = 5_000
const keepAliveDelayMs = 10_000
const endTimeoutMs = 1_000
/** How long other hosts may take to respond after the first that accepts writes: one may be a newer primary. */
const newerPrimaryTimeoutMs = 500

/** A connected client. The signal closes its socket at once, and its statements are rejected. */
export async function connect(
  database: Database,
  host: Host,
  signal: AbortSignal,
  options: { readonly pipeline?: boolean } = {},
): Promise<Client> {
  const { mode } = database.tls
  if (mode === 'disable' || host.name.startsWith('/')) return connectWith(database, host, signal, false, options)
  try {
    return await connectWith(database, host, signal, tlsOptions(host, database), options)
  } catch (error) {
    // As in libpq: an unencrypted connection is tried where an encrypted one fails.
    if (mode !== 'prefer' || sqlStateOf(error) !== undefined || signal.aborted) throw error
    return connectWith(database, host, signal, false, options)
  }
}

async function connectWith(
  database: Database,
  host: Host,
  signal: AbortSignal,
  ssl: object | false,
  { pipeline = false }: { readonly pipeline?: boolean },
): Promise<Client> {
  const socket = new Socket()
  const client = new Client({
    user: database.user,
    password: database.password,
    database: database.name,
    host: host.name,
    port: host.port,
    ssl,
    stream: () => socket,
    pipeline,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveDelayMs,
    statement_timeout: statementTimeoutMs,
    application_name: 'todo-item-service',
  })
  // The statements of a lost connection are rejected; `end` tells those who wait for nothing.
  client.on('error', () => {})
  const destroy = () => socket.destroy()
  signal.addEventListener('abort', destroy)
  client.once('end', () => signal.removeEventListener('abort', destroy))
  try {
    signal.throwIfAborted()
    await client.connect()
    return client
  } catch (error) {
    destroy()
    throw error
  }
}

function tlsOptions({ name }: Host, { tls: { mode, ca } }: Database): object {
  const isVerified = mode === 'verify-ca' || mode === 'verify-full'
  return {
    ...(ca !== undefined && { ca }),
    ...(isIP(name) === 0 && { servername: name }),
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
    rejectUnauthorized: isVerified,
  }
}

/** Runs `use` on a connection of its own. */
export async function withConnection<T>(
  database: Database,
  host: Host,
  timeoutMs: number,
  stop: AbortSignal,
  use: (client: Client) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const destroy = () => abort.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    destroy()
  }, timeoutMs)
  stop.addEventListener('abort', destroy)
  if (stop.aborted) destroy()
  try {
    const client = await connect(database, host, abort.signal)
    try {
      return await use(client)
    } finally {
      await endClient(client)
    }
  } catch (error) {
    if (!isLate || error instanceof CommitLostError) throw error
    throw new UnavailableError(`No response from ${host.name}:${host.port} within ${timeoutMs / 1000} seconds.`)
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', destroy)
    destroy()
  }
}

/** Waits for the server to close the connection, but not for long. */
export const endClient = (client: Client) =>
  Promise.race([client.end(), sleep(endTimeoutMs, undefined, { ref: false })])

/** Commits what `run` did, or nothing. Throws CommitLostError where it is not known which. */
export async function inTransaction<T>(client: Client, run: () => Promise<T>): Promise<T> {
  await client.query('begin')
  let result: T
  try {
    result = await run()
  } catch (error) {
    if (leavesConnectionUsable(error)) await client.query('rollback')
    throw error
  }
  try {
    await client.query('commit')
  } catch (error) {
    throw leavesConnectionUsable(error) ? error : new CommitLostError(error)
  }
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
      await withConnection(database, host, connectTimeoutMs, stop, (client) => readPrimary(client, host, minTimeline)),
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

async function readPrimary(client: Client, host: Host, minTimeline: number): Promise<Primary> {
  const where = `${host.name}:${host.port}`
  const { rows } = await client.query('show transaction_read_only')
  if (rows[0]?.transaction_read_only === 'on')
    throw new ReadOnlyError(`The server at ${where} is a standby, or the database is read-only.`)
  // The name of a WAL file starts with the timeline, and every role may read it.
  const state = await client
    .query(
      `select pg_walfile_name(pg_current_wal_lsn()) as file,
        exists (select from pg_stat_activity where wait_event = 'SyncRep' and usename = current_user) as waits`,
    )
    .then(
      (result) => result.rows[0],
      (error: unknown) => {
        // A database that is only compatible with PostgreSQL.
        if (sqlStateOf(error)?.match(/^(?:42|0A)/)) return undefined
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
