import { setMaxListeners } from 'node:events'
import { isIP, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConnectionOptions, connect as startTls } from 'node:tls'
import { Client } from 'pg'
import { OutcomeUnknownError, UnavailableError } from '../store.ts'
import { isOutcomeUnknown, isUnsupported, ReadOnlyError, sqlStateOf } from './errors.ts'
import { DriverStream, ProtocolError } from './stream.ts'
import type { DatabaseSettings, Host } from './url.ts'

const connectTimeoutMs = 5_000
/** PostgreSQL cancels longer statements. */
export const statementTimeoutMs = 5_000
const keepAliveDelayMs = 10_000
const endTimeoutMs = 1_000
/** PostgreSQL ends a transaction whose client sends nothing for this time, so that its locks do not stay. */
const idleTimeoutMs = 5_000
/** After a first host that accepts writes, others may take this long to respond: one may be a newer primary. */
const newerPrimaryTimeoutMs = 500

export interface DatabaseConnection {
  readonly client: Client
  readonly socket: Socket
  /** Closes the socket at once, which rejects its statements. The signal of `connect` does the same. */
  destroy(): void
}

export async function connect(
  database: DatabaseSettings,
  host: Host,
  signal: AbortSignal,
): Promise<DatabaseConnection> {
  const { mode } = database.tls
  if (mode === 'disable' || host.name.startsWith('/')) return connectWith(database, host, signal)
  try {
    return await connectWith(database, host, signal, tlsOptions(host, database))
  } catch (error) {
    // If an encrypted connection fails, an unencrypted one is tried, as in libpq.
    if (mode !== 'prefer' || sqlStateOf(error) !== undefined || signal.aborted) throw error
    return connectWith(database, host, signal)
  }
}

async function connectWith(
  database: DatabaseSettings,
  host: Host,
  signal: AbortSignal,
  tls?: ConnectionOptions,
): Promise<DatabaseConnection> {
  signal.throwIfAborted()
  let socket = new Socket()
  const destroy = () => socket.destroy()
  const removeListener = onAbort(signal, destroy)
  const timer = setTimeout(() => socket.destroy(new Error('timeout expired')), connectTimeoutMs)
  try {
    const { name, port } = host
    socket.connect(name.startsWith('/') ? { path: `${name}/.s.PGSQL.${port}` } : { host: name, port })
    await emitted(socket, 'connect')
    if (tls) socket = await encrypt(socket, tls)
    const client = createClient(database, host, socket)
    // The driver rejects the statements of a lost connection, and then emits `end`.
    client.on('error', destroy)
    client.once('end', removeListener)
    await client.connect()
    return { client, socket, destroy }
  } catch (error) {
    removeListener()
    destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Returns the function that removes the listener. Any number of connections listen to a signal. */
function onAbort(signal: AbortSignal, listener: () => void): () => void {
  setMaxListeners(0, signal)
  signal.addEventListener('abort', listener)
  return () => signal.removeEventListener('abort', listener)
}

/** Resolves with the argument of the event. Rejects if the socket fails or is closed first. */
const emitted = (socket: Socket, event: string) =>
  new Promise<unknown>((resolve, reject) => {
    socket.once(event, resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('Connection terminated')))
  })

/** The message SSLRequest: its length and a code. */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

async function encrypt(socket: Socket, tls: ConnectionOptions): Promise<Socket> {
  socket.write(sslRequest)
  const answer = `${await emitted(socket, 'data')}`
  if (answer === 'N') throw new Error('The server does not support TLS: set ?sslmode=disable')
  // Bytes after the answer would be read as if they had been encrypted.
  if (answer !== 'S') throw new ProtocolError('The server does not begin TLS as PostgreSQL does')
  const encrypted = startTls({ ...tls, socket })
  await emitted(encrypted, 'secureConnect')
  return encrypted
}

function createClient(database: DatabaseSettings, host: Host, socket: Socket): Client {
  socket.setKeepAlive(true, keepAliveDelayMs)
  return new Client({
    user: database.user,
    password() {
      if (database.password !== undefined) return database.password
      throw new Error('The server requires a password: add it to --database-url, or set PGPASSWORD')
    },
    database: database.name,
    host: host.name,
    port: host.port,
    ssl: false,
    stream: () => new DriverStream(socket),
    pipeline: true,
    statement_timeout: statementTimeoutMs,
    application_name: 'todo-item-service',
  })
}

const tlsOptions = ({ name }: Host, { tls: { mode, ca } }: DatabaseSettings): ConnectionOptions => ({
  host: name,
  ca,
  servername: isIP(name) === 0 ? name : undefined,
  ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
  rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
})

/** Runs `use` with a signal that is aborted by `stop`, and when `use` has ended. */
async function withSignal<T>(stop: AbortSignal, use: (end: AbortController) => Promise<T>): Promise<T> {
  stop.throwIfAborted()
  const end = new AbortController()
  const abort = () => end.abort()
  const removeListener = onAbort(stop, abort)
  try {
    return await use(end)
  } finally {
    removeListener()
    abort()
  }
}

/** Runs `use` on a new connection, which is closed afterwards. */
export const withConnection = <T>(
  database: DatabaseSettings,
  host: Host,
  timeoutMs: number,
  stop: AbortSignal,
  use: (client: Client, socket: Socket) => Promise<T>,
): Promise<T> =>
  withSignal(stop, async (end) => {
    const late = new UnavailableError(`No response from ${host.name}:${host.port} within ${timeoutMs / 1000} seconds.`)
    const timer = setTimeout(() => end.abort(late), timeoutMs)
    try {
      const { client, socket } = await connect(database, host, end.signal)
      return await use(client, socket).finally(() => endClient(client))
    } catch (error) {
      throw end.signal.reason === late && !(error instanceof OutcomeUnknownError) ? late : error
    } finally {
      clearTimeout(timer)
    }
  })

/** Closes the connection, and waits shortly until the server has closed it, too. */
export const endClient = (client: Client) =>
  Promise.race([client.end(), sleep(endTimeoutMs, undefined, { ref: false })])

/** Commits the statements of `run`, or none; OutcomeUnknownError if that is unknown. `timeoutMs` limits each one. */
export async function inTransaction<T>(
  client: Client,
  run: () => Promise<T>,
  timeoutMs = statementTimeoutMs,
): Promise<T> {
  const settings = `set local idle_in_transaction_session_timeout = ${idleTimeoutMs}; set local statement_timeout = ${timeoutMs}`
  await client.query('begin')
  const result = await client
    .query(settings)
    .then(run)
    .catch(async (error: unknown) => {
      await client.query('rollback').catch(() => {})
      throw error
    })
  await client.query('commit').catch((cause: unknown) => {
    if (!isOutcomeUnknown(cause)) throw cause
    throw new OutcomeUnknownError('The connection was lost during the commit.', { cause })
  })
  return result
}

/** A server that accepts writes. */
export interface Primary {
  readonly host: Host
  /** Each promotion of a standby starts a new timeline. 0 if there is one host, or if the server does not tell. */
  readonly timeline: number
  /** Whether commits of this role wait for a synchronous standby. */
  readonly commitsWait: boolean
}

/**
 * Asks all hosts at once. Of several primaries, the one with the highest timeline has superseded the others. Throws an
 * AggregateError with the error of each host when none accepts writes.
 */
export const findPrimary = (database: DatabaseSettings, minTimeline: number, stop: AbortSignal) =>
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

/** Returns undefined if the server does not support the expression. */
export async function selectIfSupported(client: Client, expression: string): Promise<unknown> {
  try {
    return (await client.query(`select ${expression} as value`)).rows[0]?.value
  } catch (error) {
    if (isUnsupported(error)) return undefined
    throw error
  }
}
