import { setMaxListeners } from 'node:events'
import { isIP, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { UnavailableError } from '../store.ts'
import {
  CommitLostError,
  isOutcomeUnknown,
  isUnsupported,
  leavesConnectionUsable,
  ReadOnlyError,
  sqlStateOf,
} from './errors.ts'
import type { Database, Host } from './url.ts'

const connectTimeoutMs = 5_000
/** PostgreSQL cancels longer statements. */
export const statementTimeoutMs = 5_000
const keepAliveDelayMs = 10_000
const endTimeoutMs = 1_000
/** How long other hosts may take to respond after the first that accepts writes: one may be a newer primary. */
const newerPrimaryTimeoutMs = 500

export interface Connection {
  readonly client: Client
  readonly socket: Socket
  /** Closes its socket at once, and its statements are rejected; so does the signal that `connect` got. */
  destroy(): void
}

export async function connect(database: Database, host: Host, signal: AbortSignal): Promise<Connection> {
  const { mode } = database.tls
  if (mode === 'disable' || host.name.startsWith('/')) return connectWith(database, host, signal, false)
  try {
    return await connectWith(database, host, signal, tlsOptions(host, database))
  } catch (error) {
    // As in libpq: an unencrypted connection is tried where an encrypted one fails.
    if (mode !== 'prefer' || sqlStateOf(error) !== undefined || signal.aborted) throw error
    return connectWith(database, host, signal, false)
  }
}

async function connectWith(
  database: Database,
  host: Host,
  signal: AbortSignal,
  ssl: object | false,
): Promise<Connection> {
  signal.throwIfAborted()
  const socket = new Socket()
  const client = new Client({
    user: database.user,
    password: database.password,
    database: database.name,
    host: host.name,
    port: host.port,
    ssl,
    stream: () => socket,
    pipeline: true,
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
    await client.connect()
    return { client, socket, destroy }
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

/** Runs `use` with a signal that is aborted by `stop`, and when `use` has ended. */
async function withSignal<T>(stop: AbortSignal, use: (end: AbortController) => Promise<T>): Promise<T> {
  const end = new AbortController()
  // Each attempt to connect listens for it.
  setMaxListeners(0, end.signal)
  const abort = () => end.abort()
  stop.addEventListener('abort', abort)
  if (stop.aborted) abort()
  try {
    return await use(end)
  } finally {
    stop.removeEventListener('abort', abort)
    abort()
  }
}

/** Runs `use` on a connection of its own. */
export const withConnection = <T>(
  database: Database,
  host: Host,
  timeoutMs: number,
  stop: AbortSignal,
  use: (client: Client) => Promise<T>,
): Promise<T> =>
  withSignal(stop, async (end) => {
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      end.abort()
    }, timeoutMs)
    try {
      const { client } = await connect(database, host, end.signal)
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
    }
  })

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
    throw isOutcomeUnknown(error) ? new CommitLostError(error) : error
  }
  return result
}

/** A server that accepts writes. */
export interface Primary {
  readonly host: Host
  /** Each promotion of a standby starts a new one. 0: there is one host, or it cannot tell. */
  readonly timeline: number
  /** Commits of this role wait for a synchronous standby. */
  readonly commitsWait: boolean
}

/**
 * Asks all hosts at once. Of several primaries, the one with the highest timeline has superseded the others. Throws an
 * AggregateError with the error of each host when none accepts writes.
 */
export const findPrimary = (database: Database, minTimeline: number, stop: AbortSignal) =>
  withSignal(stop, async ({ signal }): Promise<Primary> => {
    const found: Primary[] = []
    const attempts = database.hosts.map(async (host) => {
      const read = (client: Client) => readPrimary(client, host, database.hosts.length > 1, minTimeline)
      found.push(await withConnection(database, host, connectTimeoutMs, signal, read))
    })
    await Promise.any(attempts)
    await Promise.race([Promise.allSettled(attempts), sleep(newerPrimaryTimeoutMs, undefined, { signal })])
    return found.reduce((newest, other) => (other.timeline > newest.timeline ? other : newest))
  })

async function readPrimary(client: Client, host: Host, hasOthers: boolean, minTimeline: number): Promise<Primary> {
  const where = `${host.name}:${host.port}`
  const { rows } = await client.query('show transaction_read_only')
  if (rows[0]?.transaction_read_only === 'on')
    throw new ReadOnlyError(`The server at ${where} is a standby, or the database is read-only.`)
  // The name of a WAL file starts with the timeline, and every role may read it.
  const wal = hasOthers && (await selectIfSupported(client, 'pg_walfile_name(pg_current_wal_lsn())'))
  const timeline = wal ? Number.parseInt(`${wal}`.slice(0, 8), 16) : 0
  if (timeline < minTimeline)
    throw new ReadOnlyError(
      `The server at ${where} was superseded: it is at timeline ${timeline}, and ${minTimeline} was seen. Stop it, or restart this service to use it.`,
    )
  const waiting = "exists (select 1 from pg_stat_activity where wait_event = 'SyncRep' and usename = current_user)"
  return { host, timeline, commitsWait: (await selectIfSupported(client, waiting)) === true }
}

/** Undefined where the server does not support the expression. */
export async function selectIfSupported(client: Client, expression: string): Promise<unknown> {
  try {
    return (await client.query(`select ${expression} as value`)).rows[0]?.value
  } catch (error) {
    if (isUnsupported(error)) return undefined
    throw error
  }
}
