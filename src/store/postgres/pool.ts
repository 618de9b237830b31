import { createHash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, QueryResult } from 'pg'
import { Failures, type Notice } from '../notices.ts'
import { UnavailableError } from '../store.ts'
import {
  type Connection,
  connect,
  endClient,
  findPrimary,
  inTransaction,
  type Primary,
  withConnection,
} from './connection.ts'
import {
  describeDatabaseError,
  isConflict,
  isNameError,
  isReadOnlyTransaction,
  isRefusal,
  isSettingError,
  isStorageError,
  leavesConnectionUsable,
  mainError,
  mayBeRetried,
  toStoreError,
} from './errors.ts'
import type { Database, Host } from './url.ts'

declare module 'pg' {
  interface ClientBase {
    query(config: object, values: unknown[], callback: (error: unknown, result: QueryResult) => void): void
  }
}

/** To one server; up to twice as many while some do not respond. */
const maxConnections = 10
/** Statements that were sent and have no result: those for which there is no idle connection are pipelined. */
const maxSent = 100
/** Nothing is pipelined while a statement takes longer: it would wait behind that one. */
const slowAfterMs = 100
/** Sent or waiting. */
const maxPending = 1_000
/** From the call to its outcome, waiting and retries included. */
const totalTimeoutMs = 5_500
/** How long requests wait for a database that is down, before they are rejected at once. */
const downTimeoutMs = 1_000
/** A statement without a result, or a first connection that is being opened, for this long: the server may be gone. */
const suspectAfterMs = 2_000
const checkIntervalMs = 250
/** After the server has refused one more connection. */
const reconnectDelayMs = 1_000
/** While the database is down or does not respond. */
const probeIntervalMs = 500
/** Where there are several hosts: one of them may have superseded the one in use. */
const monitorIntervalMs = 5_000
/** For a statement that had no effect. */
const maxAttempts = 10
/** A connection without named statements is replaced after this time: the next one may have them. */
const unnamedTimeMs = 60_000
const maxRetryDelayMs = 250
const transactionTimeoutMs = 15_000
/** A transaction that gets no response for this time is reported. */
const silenceMs = 3_000

/** What is sent, and what the server can return for it. */
interface StatementOptions {
  readonly name: string
  readonly text: string
  readonly command: 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'
  /** Of the row that it returns; undefined: it returns no row. */
  readonly columns?: readonly string[]
  /** Whether there may be no such row. */
  readonly isOptional?: true
}

export interface Statement extends StatementOptions {
  readonly isWrite: boolean
  /** For the driver: prepared once for each connection. */
  readonly named: object
  /** For the driver: parsed each time. */
  readonly unnamed: object
}

/**
 * The name of a prepared statement contains a hash of its text. Behind a connection pooler the statement may have been
 * prepared by another program, on a schema of its own: the same name always means the same text.
 */
export function prepared(statement: StatementOptions): Statement {
  const { name, text } = statement
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32)
  return {
    ...statement,
    isWrite: /\b(?:insert|update|delete)\b/.test(text),
    named: inherited({ name: `${name}_${hash}`, text }),
    unnamed: inherited({ text }),
  }
}

/** The driver copies own members for each call, which costs more than all of the pool; inherited ones it does not. */
const inherited = (config: object): object => Object.create(config)

export type Parameters = (string | boolean | Buffer | null)[]

export interface Pool {
  /** Runs one statement; again only when it certainly had no effect. Throws UnavailableError in bounded time. */
  query(statement: Statement, parameters?: Parameters): Promise<QueryResult>
  /** On a connection of its own; again after a conflict. The time limit is also that of its statements. */
  transaction<T>(execute: (client: Client) => Promise<T>, timeoutMs?: number): Promise<T>
  close(): Promise<void>
}

export interface PoolOptions {
  readonly database: Database
  readonly notice: Notice
  readonly monotonicNow: () => number
  readonly random: () => number
}

/** A call of `query` that has no outcome yet, or whose caller has been told that it takes too long. */
interface Call {
  readonly startedAt: number
  sentAt: number
  attempts: number
  readonly statement: Statement
  readonly parameters: Parameters
  resolve(result: QueryResult): void
  reject(error: unknown): void
}

interface PooledConnection extends Connection {
  /** Statements without a result. */
  sent: number
  isCorked: boolean
  /** When a name did not stand for the statement that was prepared; undefined while names can be used. */
  unnamedSince: number | undefined
}

/** The connections to one server. */
class Server {
  readonly primary: Primary
  /** Calls that were sent and have no result, the oldest first. */
  readonly sent = new Set<Call>()
  /** A connection was lost or the server is read-only: nothing is sent until the primary has been found again. */
  isBroken = false
  readonly #database: Database
  readonly #connections = new Set<PooledConnection>()
  /** Closes all connections, open or being opened. */
  readonly #destroyed = new AbortController()
  readonly #corked: PooledConnection[] = []
  #opening = 0
  #openingSince = 0
  #openAfter = 0

  constructor(database: Database, primary: Primary) {
    this.#database = database
    this.primary = primary
    // Each connection listens for it.
    setMaxListeners(0, this.#destroyed.signal)
  }

  get isConnected(): boolean {
    return this.#connections.size > 0
  }

  /** An idle connection, or the one with the fewest statements if they may be pipelined. */
  findConnection(mayPipeline: boolean): PooledConnection | undefined {
    let best: PooledConnection | undefined
    for (const connection of this.#connections) {
      if (connection.sent === 0) return connection
      if (!best || connection.sent < best.sent) best = connection
    }
    return mayPipeline ? best : undefined
  }

  /** Opens another connection, unless there are enough. */
  open(now: number, onOpened: () => void, onFailed: () => void): void {
    if (this.#connections.size + this.#opening >= maxConnections || now < this.#openAfter) return
    if (this.#opening++ === 0) this.#openingSince = now
    connect(this.#database, this.primary.host, this.#destroyed.signal).then(
      (connected) => {
        this.#opening--
        const connection = { ...connected, sent: 0, isCorked: false, unnamedSince: undefined }
        this.#connections.add(connection)
        const remove = () => this.#connections.delete(connection)
        connection.client.once('error', remove)
        connection.client.once('end', remove)
        onOpened()
      },
      () => {
        this.#opening--
        // A server that takes no more connections is used on those that it took.
        if (this.isConnected) this.#openAfter = now + reconnectDelayMs
        else onFailed()
      },
    )
  }

  send(connection: PooledConnection, call: Call, done: (error: unknown, result?: QueryResult) => void): void {
    const { statement, parameters, sentAt } = call
    this.sent.add(call)
    connection.sent++
    this.#cork(connection)
    // What is sent again may have failed because of its name.
    const query = connection.unnamedSince === undefined && call.attempts === 1 ? statement.named : statement.unnamed
    connection.client.query(query, parameters, (error: unknown, result: QueryResult) => {
      connection.sent--
      this.sent.delete(call)
      if (!error && isPossible(statement, result)) return done(undefined, result)
      if (isNameError(error)) connection.unnamedSince ??= sentAt
      if (!leavesConnectionUsable(error)) connection.destroy()
      done(error ?? new UnavailableError('The connection was lost.'))
    })
  }

  /** Ends idle connections that have been without named statements for long enough. */
  endUnnamed(now: number): void {
    for (const connection of this.#connections) {
      if (connection.sent > 0 || now - (connection.unnamedSince ?? now) < unnamedTimeMs) continue
      this.#connections.delete(connection)
      void endClient(connection.client).then(connection.destroy)
    }
  }

  /** Statements of one turn of the event loop are sent at its end, those on one connection at once. */
  #cork(connection: PooledConnection): void {
    if (connection.isCorked) return
    if (this.#corked.length === 0) setImmediate(() => this.#uncork())
    this.#corked.push(connection)
    connection.isCorked = true
    connection.socket.cork()
  }

  #uncork(): void {
    for (const connection of this.#corked) {
      connection.isCorked = false
      connection.socket.uncork()
    }
    this.#corked.length = 0
  }

  /** How long the oldest statement has been without a result. */
  sentForMs(now: number): number {
    const [oldest] = this.sent
    return oldest ? now - oldest.sentAt : 0
  }

  /** How long the first connection has been being opened. */
  openingForMs(now: number): number {
    return this.#opening > 0 && !this.isConnected ? now - this.#openingSince : 0
  }

  /** Waits for statements that were sent, but not for long. */
  async end(): Promise<void> {
    await Promise.all([...this.#connections].map(({ client }) => endClient(client)))
    this.destroy()
  }

  /** Closes all connections at once. */
  destroy(): void {
    this.#destroyed.abort()
  }
}

export function createPool({ database, notice, monotonicNow, random }: PoolOptions, primary: Primary): Pool {
  /** Undefined: the database is down. */
  let current: Server | undefined = new Server(database, primary)
  /** Replaced because it did not respond; destroyed when its statements are settled. */
  let retired: Server | undefined
  let { timeline } = primary
  let isSlow = false
  let isSuspect = false
  let downSince = 0
  let lastProbeAt = monotonicNow()
  /** What the last line of the log says about the connection. */
  let state = ''
  const reads = new Failures('Reads', notice)
  const writes = new Failures('Writes', notice)
  /** All calls whose caller waits, the oldest first, wherever they are: each is settled in time. */
  const pending = new Set<Call>()
  /** Those that are to be sent. */
  const waiting = new Set<Call>()
  const closed = new AbortController()
  // Each attempt to connect listens for it.
  setMaxListeners(0, closed.signal)
  const timer = setInterval(check, checkIntervalMs)
  timer.unref()

  return {
    query: (statement, parameters = []) =>
      new Promise((resolve, reject) => {
        const now = monotonicNow()
        const call: Call = { statement, parameters, startedAt: now, sentAt: now, attempts: 0, resolve, reject }
        pending.add(call)
        if (closed.signal.aborted) settle(call, 'The service is stopping.')
        else if (isDownForLong(now)) settle(call, 'The database is down.')
        else if (pending.size > maxPending) settle(call, 'Too many requests wait for the database.')
        else sendOrWait(call, now)
      }),

    async transaction(execute, timeoutMs = transactionTimeoutMs) {
      if (!current) throw new UnavailableError('The database is down.')
      const { primary } = current
      try {
        return await withConnection(database, primary.host, timeoutMs, closed.signal, async (client, socket) => {
          const waiting = `No response from ${nameOf(primary)} for ${silenceMs / 1000} seconds. Waiting for up to ${timeoutMs / 1000}.`
          const watch = onSilence(socket, () => notice(waiting))
          try {
            return await retryConflicts(() => inTransaction(client, () => execute(client), timeoutMs))
          } finally {
            clearInterval(watch)
          }
        })
      } catch (error) {
        throw toStoreError(error)
      }
    },

    async close() {
      closed.abort()
      clearInterval(timer)
      for (const call of pending)
        if (!current?.sent.has(call) && !retired?.sent.has(call)) settle(call, 'The service is stopping.')
      await current?.end()
      retired?.destroy()
    },
  }

  function sendOrWait(call: Call, now: number): void {
    const server = current
    if (!server || server.isBroken) {
      waiting.add(call)
      return
    }
    const connection = server.findConnection(!isSlow && server.sent.size < maxSent)
    if (connection === undefined || connection.sent > 0) server.open(now, sendWaiting, () => onBroken(server))
    if (connection === undefined) {
      waiting.add(call)
      return
    }
    waiting.delete(call)
    call.attempts++
    call.sentAt = now
    server.send(connection, call, (error, result) => {
      if (result) {
        failuresOf(call).succeeded()
        if (pending.delete(call)) call.resolve(result)
      } else onError(server, call, error)
      if (waiting.size > 0) sendWaiting()
    })
  }

  function sendWaiting(): void {
    for (const call of waiting) {
      const { size } = waiting
      sendOrWait(call, monotonicNow())
      if (waiting.size === size) return
    }
  }

  function failuresOf({ statement }: Call): Failures {
    return statement.isWrite ? writes : reads
  }

  function onError(server: Server, call: Call, error: unknown): void {
    if (isStorageError(error)) failuresOf(call).failed((toStoreError(error) as Error).message)
    if (isReadOnlyTransaction(error) || !leavesConnectionUsable(error)) onBroken(server)
    if (!pending.has(call)) return
    if (closed.signal.aborted || call.attempts >= maxAttempts || !mayBeRetried(error)) settle(call, toStoreError(error))
    else
      setTimeout(() => {
        if (pending.has(call)) sendOrWait(call, monotonicNow())
      }, retryDelayMs(call.attempts))
  }

  async function retryConflicts<T>(run: () => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts++)
      try {
        return await run()
      } catch (error) {
        if (attempts === maxAttempts || !isConflict(error)) throw error
        await sleep(retryDelayMs(attempts))
      }
  }

  function retryDelayMs(attempts: number): number {
    return random() * Math.min(maxRetryDelayMs, 10 * 2 ** attempts)
  }

  function isDownForLong(now: number): boolean {
    return !current && now - downSince >= downTimeoutMs
  }

  /** Rejects the call, unless it is settled. */
  function settle(call: Call, reason: unknown): void {
    waiting.delete(call)
    if (pending.delete(call)) call.reject(typeof reason === 'string' ? new UnavailableError(reason) : reason)
  }

  function onBroken(server: Server): void {
    if (server !== current || server.isBroken) return
    server.isBroken = true
    const now = monotonicNow()
    if (now - lastProbeAt >= checkIntervalMs) probe(now)
  }

  /** Probes may overlap: one that gets no response must not hold up the next. */
  function probe(now: number): void {
    lastProbeAt = now
    const probed = current
    const isStale = () => closed.signal.aborted || current !== probed
    findPrimary(database, timeline, closed.signal).then(
      (found) => isStale() || onPrimary(found),
      (error: unknown) => isStale() || onNoPrimary(error),
    )
  }

  function onPrimary(found: Primary): void {
    const isNewer = found.timeline > timeline
    timeline = Math.max(timeline, found.timeline)
    if (!current) {
      current = new Server(database, found)
      changed(`The database connection is restored. The primary is ${nameOf(found)}.`)
    } else if (isNewer || (found.host !== current.primary.host && (current.isBroken || isSuspect))) {
      changed(`The primary is now ${nameOf(found)}, before ${nameOf(current.primary)}.`)
      current.destroy()
      current = new Server(database, found)
    } else {
      current.isBroken = false
      if (isSuspect && found.commitsWait)
        changed(`Commits on ${nameOf(found)} wait for a synchronous standby.`, 'commits wait')
      else if (isSuspect && !retired) {
        retired = current
        current = new Server(database, found)
      }
    }
    sendWaiting()
  }

  function onNoPrimary(error: unknown): void {
    if (current) {
      if (!current.isBroken && !isSuspect) return
      const ownError = (error as AggregateError).errors[database.hosts.indexOf(current.primary.host)]
      if (current.isConnected && isRefusal(ownError)) {
        current.isBroken = false
        sendWaiting()
        return
      }
      current.destroy()
      retired?.destroy()
      current = retired = undefined
      downSince = monotonicNow()
    }
    // The reason may change from attempt to attempt: it is the same outage, unless the settings are wrong now.
    changed(describeDatabaseError(error, database), isSettingError(mainError(error)) ? 'rejected' : 'down', 'error')
  }

  function changed(message: string, newState = message, level?: 'error'): void {
    if (newState !== state) notice(message, level)
    state = newState
  }

  function check(): void {
    const now = monotonicNow()
    for (const call of pending) {
      if (now - call.startedAt < totalTimeoutMs) break
      settle(call, 'The database does not respond in time.')
    }
    if (isDownForLong(now)) for (const call of waiting) settle(call, 'The database is down.')
    if (retired && [...retired.sent].every((call) => !pending.has(call))) {
      retired.destroy()
      retired = undefined
    }
    current?.endUnnamed(now)
    const sentForMs = current?.sentForMs(now) ?? 0
    isSlow = sentForMs >= slowAfterMs
    isSuspect = Math.max(sentForMs, current?.openingForMs(now) ?? 0) >= suspectAfterMs
    if (current && !isSuspect && state === 'commits wait')
      changed(`Commits on ${nameOf(current.primary)} no longer wait.`)
    if (now - lastProbeAt >= currentProbeIntervalMs()) probe(now)
    sendWaiting()
  }

  function currentProbeIntervalMs(): number {
    if (!current || current.isBroken || isSuspect) return probeIntervalMs
    return database.hosts.length > 1 ? monitorIntervalMs : Number.POSITIVE_INFINITY
  }
}

/** Anything else is what is left of a lost connection, or what something between here and the server made of it. */
function isPossible({ command, columns = [], isOptional }: Statement, result: QueryResult): boolean {
  const { rows, rowCount, fields } = result
  if (result.command !== command || (rowCount !== 0 && rowCount !== 1)) return false
  if (fields.length !== columns.length) return false
  for (let at = 0; at < columns.length; at++) if (fields[at]?.name !== columns[at]) return false
  return columns.length === 0 ? rows.length === 0 : rows.length === rowCount && (isOptional || rowCount === 1)
}

/** Calls back when the socket begins to receive nothing. */
function onSilence(socket: Socket, report: () => void): NodeJS.Timeout {
  let receivedBytes = socket.bytesRead
  let isSilent = false
  return setInterval(() => {
    const wasSilent = isSilent
    isSilent = socket.bytesRead === receivedBytes
    receivedBytes = socket.bytesRead
    if (isSilent && !wasSilent) report()
  }, silenceMs)
}

const nameOf = ({ host: { name, port }, timeline }: { host: Host; timeline: number }) =>
  `${name}:${port}${timeline ? ` (timeline ${timeline})` : ''}`
