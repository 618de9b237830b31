import { connect, isIP, type Socket } from 'node:net'
import postgres, { type Sql } from 'postgres'
import type { Database, Host } from '../../database-url.ts'
import { Unavailable } from '../../unavailable.ts'

/** How long it may take until a connection is open. */
const connectTimeout = 5_000
/** After how long PostgreSQL gives up a statement. */
const statementTimeout = 5_000
/** After how many seconds without a word the other side is asked whether it is still there. */
const keepAlive = 10

/** One connection. It opens once: when it is lost it stays lost, and nothing is sent on it unnoticed. */
export interface Connection {
  readonly sql: Sql
  readonly isOpen: boolean
  /** Leaves at once; whatever is under way fails. */
  drop(): void
  /** Leaves at once, and asks the server to give up what is under way: it may not notice that nobody waits for it. */
  abandon(): void
  /** Says goodbye. */
  end(): Promise<void>
}

/** What was asked for has not been sent. */
export class NotSent extends Unavailable {}

/** A connection to the host that takes writes, whichever it is; the first to answer wins. */
export async function openPrimary(
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
  } catch (cause) {
    const { errors } = cause as AggregateError
    throw errors.find(codeOf) ?? errors.find((error) => !(error instanceof ReadOnly)) ?? errors[0]
  }
}

/** The SQLSTATE, where a server said it. */
export const codeOf = (cause: unknown) => (cause instanceof postgres.PostgresError ? cause.code : undefined)

class ReadOnly extends NotSent {}

async function open(
  database: Database,
  host: Host,
  stop: AbortSignal,
  onLost: (lost: Connection) => void,
): Promise<Connection> {
  let socket: Socket | undefined
  let isOpen = false
  let giveUp: (reason: Error) => void = () => {}
  let reason = `The server at ${host.name}:${host.port} closed the connection.`

  // The driver would connect again by itself, and send on the new connection what was meant for the old one.
  const connectOnce = () =>
    new Promise<Socket>((resolve, reject) => {
      if (socket) return reject(new NotSent(reason))
      giveUp = reject
      const opened = reach(host)
      socket = opened.once('connect', () => resolve(opened)).once('error', reject)
    })

  const sql = postgres({
    ...(database.user !== undefined && { user: database.user }),
    ...(database.password !== undefined && { password: database.password }),
    ...(database.name !== undefined && { database: database.name }),
    host: host.name,
    port: host.port,
    ssl: tlsTo(host, database),
    socket: connectOnce,
    max: 1,
    connect_timeout: connectTimeout / 1000,
    keep_alive: keepAlive,
    idle_timeout: 0,
    max_lifetime: 0,
    fetch_types: false,
    prepare: true,
    connection: { application_name: 'todo-item-service', statement_timeout: statementTimeout },
    onnotice: () => {},
    onclose: () => lose(),
  } as postgres.Options<Record<string, never>>)

  const lose = () => {
    const wasOpen = isOpen
    isOpen = false
    if (wasOpen) onLost(connection)
  }
  const drop = () => {
    lose()
    giveUp(new NotSent(reason))
    socket?.destroy()
  }
  const connection: Connection = {
    sql,
    get isOpen() {
      return isOpen && socket?.destroyed === false
    },
    drop,
    abandon() {
      drop()
      cancel(host, backend)
    },
    async end() {
      isOpen = false
      await sql.end({ timeout: 1 })
    },
  }

  let backend: Backend | undefined
  stop.addEventListener('abort', drop)
  const timer = setTimeout(() => {
    reason = `No answer from ${host.name}:${host.port} within ${connectTimeout / 1000} seconds.`
    drop()
  }, connectTimeout)
  try {
    const shown = await sql.unsafe('show transaction_read_only')
    backend = shown.state as unknown as Backend
    if (shown[0]?.transaction_read_only === 'on')
      throw new ReadOnly(`The database at ${host.name}:${host.port} takes no writes: it is a standby, or read-only.`)
    isOpen = true
    return connection
  } catch (cause) {
    drop()
    throw cause
  } finally {
    clearTimeout(timer)
    stop.removeEventListener('abort', drop)
  }
}

const reach = ({ name, port }: Host) =>
  name.startsWith('/') ? connect(`${name}/.s.PGSQL.${port}`) : connect(port, name)

/** Who serves a connection, and the word that lets others speak for it. */
interface Backend {
  readonly pid: number
  readonly secret: number
}

/** PostgreSQL's CancelRequest, on a connection of its own; nobody answers it. */
function cancel(host: Host, backend: Backend | undefined): void {
  if (!backend) return
  const message = Buffer.alloc(16)
  message.writeInt32BE(16, 0)
  message.writeInt32BE(80877102, 4)
  message.writeUInt32BE(backend.pid, 8)
  message.writeUInt32BE(backend.secret, 12)
  const socket = reach(host)
  socket.setTimeout(connectTimeout, () => socket.destroy())
  socket.on('error', () => {}).end(message)
  socket.unref()
}

function tlsTo({ name }: Host, { tls: { mode, ca } }: Database): object | 'prefer' | false {
  if (mode === 'disable' || name.startsWith('/')) return false
  if (mode === 'prefer') return 'prefer'
  const identity = mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }
  const servername = isIP(name) ? '' : name
  return { host: name, servername, ca, rejectUnauthorized: mode !== 'require', ...identity }
}
