import type { QueryResult } from 'pg'
import { UnavailableError } from '../store.ts'
import { connect, type DatabaseConnection, endClient, type Primary } from './connection.ts'
import { isNameError, isReadOnlyTransaction, leavesConnectionUsable } from './errors.ts'
import { isPossible, type StatementCall } from './statements.ts'
import type { DatabaseSettings } from './url.ts'

declare module 'pg' {
  interface ClientBase {
    query(config: object, values: unknown[], callback: (error: unknown, result: QueryResult) => void): void
  }
}

/** The most connections to a server. */
const maxConnections = 10
/** The most statements without a result, on all connections to a server together. */
const maxSent = 100
const slowAfterMs = 100
const silentAfterMs = 2_000
/** No connection is opened for this time after the server has refused one. */
const reconnectDelayMs = 1_000
/** A connection on which names did not work is replaced after this time: they may work on the next one. */
const unnamedTimeMs = 60_000

/**
 * How a server responds.
 *
 * - `prompt`: statements are pipelined where no connection is idle.
 * - `slow`: a statement has taken 100 ms. Nothing is pipelined, because it would wait behind that statement.
 * - `silent`: a statement, or opening the first connection, has taken 2 s. The server may be gone.
 * - `lost`: a connection was lost, or the server has become read-only. Nothing is sent.
 *
 * `check` changes between the first three by the time without a response. An error leads to `lost`. `found` leads back
 * to one of the three, after a probe has shown that the server is still the primary.
 */
type ServerState = 'prompt' | 'slow' | 'silent' | 'lost'

interface ServerEvents {
  /** Called when there is a new connection. */
  opened(): void
  /** Called when the state becomes `lost`. */
  lost(): void
}

interface PooledConnection extends DatabaseConnection {
  /** The number of statements without a result. */
  sent: number
  /** When the name of a prepared statement first failed; undefined as long as names work. */
  unnamedSince: number | undefined
}

/** The connections to one server, and the statements on them. */
export class Server {
  readonly primary: Primary
  readonly #database: DatabaseSettings
  readonly #events: ServerEvents
  #state: ServerState = 'prompt'
  /** Calls without a result, the oldest first, and when they were sent. */
  readonly #sent = new Map<object, number>()
  readonly #connections = new Set<PooledConnection>()
  /** Its signal closes all connections, also those that are being opened. */
  readonly #destroyed = new AbortController()
  #opening = 0
  #openingSince = 0
  #openAfter = 0

  constructor(database: DatabaseSettings, primary: Primary, events: ServerEvents) {
    this.#database = database
    this.primary = primary
    this.#events = events
  }

  /** False if the database may have another primary, or be down. */
  get responds(): boolean {
    return this.#state === 'prompt' || this.#state === 'slow'
  }

  get isConnected(): boolean {
    return this.#connections.size > 0
  }

  /** Whether the call was sent and has no result. */
  hasSent(call: object): boolean {
    return this.#sent.has(call)
  }

  /** Determines the state by the time without a response, and ends connections on which names do not work. */
  check(now: number): void {
    if (this.#state !== 'lost') this.found(now)
    for (const connection of this.#connections) {
      if (connection.sent > 0 || now - (connection.unnamedSince ?? now) < unnamedTimeMs) continue
      this.#connections.delete(connection)
      void endClient(connection.client).then(connection.destroy)
    }
  }

  /** Called when a probe has found that the server is still the primary. */
  found(now: number): void {
    const [oldest = now] = this.#sent.values()
    const openingSince = this.#opening > 0 && !this.isConnected ? this.#openingSince : now
    if (now - Math.min(oldest, openingSince) >= silentAfterMs) this.#state = 'silent'
    else this.#state = now - oldest >= slowAfterMs ? 'slow' : 'prompt'
  }

  #lose(): void {
    if (this.#state === 'lost') return
    this.#state = 'lost'
    this.#events.lost()
  }

  /** Sends a statement. Returns false, without sending it, if the call has to wait. */
  send(call: StatementCall, now: number, done: (error: unknown, result?: QueryResult) => void): boolean {
    const connection = this.#state === 'lost' ? undefined : this.#findConnection(now)
    if (!connection) return false
    const { statement, parameters } = call
    call.attempts++
    this.#sent.set(call, now)
    connection.sent++
    corkUntilEndOfTurn(connection)
    // A statement that is sent again may have failed because of its name.
    const query = connection.unnamedSince === undefined && call.attempts === 1 ? statement.named : statement.unnamed
    connection.client.query(query, parameters, (error: unknown, result: QueryResult) => {
      connection.sent--
      this.#sent.delete(call)
      if (!error && isPossible(call, result)) return done(undefined, result)
      if (isNameError(error)) connection.unnamedSince ??= now
      const isUsable = leavesConnectionUsable(error)
      if (!isUsable) connection.destroy()
      if (!isUsable || isReadOnlyTransaction(error)) this.#lose()
      done(error ?? new UnavailableError('The connection was lost.'))
    })
    return true
  }

  /** Returns an idle connection. If none is idle, opens another, and returns a busy one if statements are pipelined. */
  #findConnection(now: number): PooledConnection | undefined {
    let best: PooledConnection | undefined
    for (const connection of this.#connections) {
      if (connection.sent === 0) return connection
      if (!best || connection.sent < best.sent) best = connection
    }
    if (this.#connections.size + this.#opening < maxConnections && now >= this.#openAfter) this.#open(now)
    return this.#state === 'prompt' && this.#sent.size < maxSent ? best : undefined
  }

  #open(now: number): void {
    if (this.#opening++ === 0) this.#openingSince = now
    connect(this.#database, this.primary.host, this.#destroyed.signal).then(
      (connected) => {
        this.#opening--
        const connection = { ...connected, sent: 0, unnamedSince: undefined }
        this.#connections.add(connection)
        const remove = () => this.#connections.delete(connection)
        connection.client.once('error', remove)
        connection.client.once('end', remove)
        this.#events.opened()
      },
      () => {
        this.#opening--
        // If the server refuses more connections, the open ones stay in use.
        if (this.isConnected) this.#openAfter = now + reconnectDelayMs
        else this.#lose()
      },
    )
  }

  /** Closes the connections, after waiting shortly for statements that were sent. */
  async end(): Promise<void> {
    await Promise.all([...this.#connections].map(({ client }) => endClient(client)))
    this.destroy()
  }

  /** Closes all connections at once. */
  destroy(): void {
    this.#destroyed.abort()
  }
}

/** Statements of one turn of the event loop are sent at its end, those on one connection at once. */
function corkUntilEndOfTurn({ socket }: DatabaseConnection): void {
  if (socket.writableCorked > 0) return
  socket.cork()
  setImmediate(() => socket.uncork())
}
