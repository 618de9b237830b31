import { connect, isIP, type Socket } from 'node:net'
import postgres, { type Sql } from 'postgres'
import type { Database, Host } from '../../config/database-url.ts'
import { NotSentError, ReadOnlyError, sqlStateOf } from './errors.ts'

const connectTimeoutMs = 5_000
/** PostgreSQL cancels longer statements. */
const statementTimeoutMs = 5_000
const keepAliveSeconds = 10

/** One connection. A lost connection is not reopened, so no query is sent twice unnoticed. */
export interface Connection {
  readonly sql: Sql
  readonly isOpen: boolean
  /** Closes at once; a running query fails. */
  drop(): void
  /** Like drop, and cancels the running query: the server may not notice that the client is gone. */
  abort(): void
  /** Closes in an orderly way. */
  end(): Promise<void>
}

/** Connects to all hosts at once; the first that accepts writes wins. */
export async function connectToPrimary(
  database: Database,
  stop: AbortSignal,
  onLost: (lost: Connection) => void = () => {},
): Promise<Connection> {
  const attempts = database.hosts.map((host) => open(database, host, stop, onLost))
  try {
    const winner = await Promise.any(attempts)
    for (const attempt of attempts)
      attempt.then(
        (connection) => connection !== winner && connection.drop(),
        () => {},
      )
    return winner
  } catch (error) {
    const { errors } = error as AggregateError
    throw errors.find(sqlStateOf) ?? errors.find((one) => !(one instanceof ReadOnlyError)) ?? errors[0]
  }
}

async function open(
  database: Database,
  host: Host,
  stop: AbortSignal,
  onLost: (lost: Connection) => void,
): Promise<Connection> {
  let socket: Socket | undefined
  let isOpen = false
  let rejectConnect: (error: Error) => void = () => {}
  let closeReason = `The server at ${host.name}:${host.port} closed the connection.`

  // The driver reconnects by itself and would send queries meant for the old connection on the new one.
  const connectOnce = () =>
    new Promise<Socket>((resolve, reject) => {
      if (socket) return reject(new NotSentError(closeReason))
      rejectConnect = reject
      const connecting = connectTo(host)
      socket = connecting.once('connect', () => resolve(connecting)).once('error', reject)
    })

  // `socket` is documented in the driver's README but missing from its types.
  const options: postgres.Options<Record<string, never>> & { socket(): Promise<Socket> } = {
    ...(database.user !== undefined && { user: database.user }),
    ...(database.password !== undefined && { password: database.password }),
    ...(database.name !== undefined && { database: database.name }),
    host: host.name,
    port: host.port,
    ssl: tlsOptions(host, database),
    socket: connectOnce,
    max: 1,
    connect_timeout: connectTimeoutMs / 1000,
    keep_alive: keepAliveSeconds,
    idle_timeout: 0,
    max_lifetime: 0,
    fetch_types: false,
    prepare: true,
    connection: { application_name: 'todo-item-service', statement_timeout: statementTimeoutMs },
    onnotice: () => {},
    onclose: () => markLost(),
  }
  const sql = postgres(options)

  const markLost = () => {
    const wasOpen = isOpen
    isOpen = false
    if (wasOpen) onLost(connection)
  }
  const drop = () => {
    markLost()
    rejectConnect(new NotSentError(closeReason))
    socket?.destroy()
  }
  let backend: BackendKey | undefined
  const connection: Connection = {
    sql,
    get isOpen() {
      return isOpen && socket?.destroyed === false
    },
    drop,
    abort() {
      drop()
      if (backend) sendCancelRequest(host, backend)
    },
    async end() {
      isOpen = false
      await sql.end({ timeout: 1 })
    },
  }

  stop.addEventListener('abort', drop)
  const timer = setTimeout(() => {
    closeReason = `No response from ${host.name}:${host.port} within ${connectTimeoutMs / 1000} seconds.`
    drop()
  }, connectTimeoutMs)
  try {
    const result = await sql`show transaction_read_only`
    backend = result.state
    if (result[0]?.transaction_read_only === 'on')
      throw new ReadOnlyError(`The server at ${host.name}:${host.port} is a standby, or the database is read-only.`)
    isOpen = true
    return connection
  } catch (error) {
    drop()
    throw error
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', drop)
  }
}

const connectTo = ({ name, port }: Host) =>
  name.startsWith('/') ? connect(`${name}/.s.PGSQL.${port}`) : connect(port, name)

/** PostgreSQL's BackendKeyData: who to cancel, and the permission to do so. */
type BackendKey = Pick<postgres.State, 'pid' | 'secret'>

/**
 * PostgreSQL's CancelRequest: a connection of its own, no response. Unlike pg_cancel_backend() it needs no free
 * connection slot and cannot hit another session that got the same PID.
 */
function sendCancelRequest(host: Host, { pid, secret }: BackendKey): void {
  const message = Buffer.alloc(16)
  message.writeInt32BE(message.length, 0)
  message.writeInt32BE(80877102, 4) // the request code
  message.writeUInt32BE(pid, 8)
  message.writeUInt32BE(secret, 12)
  const socket = connectTo(host)
  socket.setTimeout(connectTimeoutMs, () => socket.destroy())
  socket.on('error', () => {}).end(message)
  socket.unref()
}

function tlsOptions({ name }: Host, { tls: { mode, ca } }: Database): object | 'prefer' | false {
  if (mode === 'disable' || name.startsWith('/')) return false
  if (mode === 'prefer') return 'prefer'
  const identity = mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }
  const servername = isIP(name) ? '' : name
  return { host: name, servername, ca, rejectUnauthorized: mode !== 'require', ...identity }
}
