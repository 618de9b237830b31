import { createHash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, QueryResult } from 'pg'
import { Failures, type Notice } from '../notices.ts'
import { UnavailableError, WithdrawnError } from '../store.ts'
import {
  connect,
  type DatabaseConnection,
  endClient,
  findPrimary,
  inTransaction,
  type Primary,
  withConnection,
} from './connection.ts'
import {
  describeDatabaseError,
  isConflict,
  isMissing,
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
import type { DatabaseSettings, Host } from './url.ts'

declare module 'pg' {
  interface ClientBase {
    query(config: object, values: unknown[], callback: (error: unknown, result: QueryResult) => void): void
  }
}

/** One server gets this many; up to twice as many while some do not respond. */
const maxConnections = 10
/** Statements that were sent and have no result: those for which there is no idle connection are pipelined. */
const maxSent = 100
/** Nothing is pipelined while a statement takes longer: it would wait behind that one. */
const slowAfterMs = 100
/** Sent or waiting. */
const maxPending = 1_000
/** A call has this time until its outcome, waiting and retries included. */
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
/** A statement that had no effect is sent this often. */
const maxAttempts = 10
/** A connection without named statements is replaced after this time: the next one may have them. */
const unnamedTimeMs = 60_000
const maxRetryDelayMs = 250
const transactionTimeoutMs = 15_000
/** A transaction that gets no response for this time is reported. */
const silenceMs = 3_000

/** A statement, and what the server can return for it: anything else is what is left of a lost connection. */
export interface PreparedStatement {
  readonly text: string
  readonly command: string
  /** The columns of the rows that it returns; none where it returns no row. */
  readonly columns: readonly string[]
  /** How many rows it returns or changes, where a call does not say it. */
  readonly rows: RowCount
  readonly isWrite: boolean
  /** The driver prepares it once for each connection. */
  readonly named: object
  /** The driver has it parsed each time. */
  readonly unnamed: object
}

/** The fewest and the most. */
type RowCount = readonly [min: number, max: number]
const one: RowCount = [1, 1]
export const oneAtMost: RowCount = [0, 1]

/**
 * `read` takes the text of each value that is not null; without it they are read by their types.
 *
 * The name of a prepared statement contains a hash of its text. Behind a connection pooler the statement may have been
 * prepared by another program, on a schema of its own: the same name always means the same text.
 */
export function prepared(
  name: string,
  text: string,
  columns: readonly string[] = [],
  rows = columns.length > 0 ? one : oneAtMost,
  read?: (text: string) => unknown,
): PreparedStatement {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32)
  const types = read && { getTypeParser: () => read }
  // The first one that begins a line: a statement may begin with the clause "with".
  const [command = 'select'] = /^ *(?:insert|update|delete)\b/m.exec(text)?.map((word) => word.trim()) ?? []
  return {
    text,
    command: command.toUpperCase(),
    columns,
    rows,
    isWrite: command !== 'select',
    named: inherited({ name: `${name}_${hash}`, text, types }),
    unnamed: inherited({ text, types }),
  }
}

/** The driver copies own members for each call, which costs more than all of the pool; inherited ones it does not. */
const inherited = (config: object): object => Object.create(config)

type SqlValue = string | number | boolean | Buffer | null
export type SqlParameters = (SqlValue | readonly SqlValue[])[]

/** Which version the tables have, and which one the program needs. */
export interface TablesVersion {
  readonly select: PreparedStatement
  readonly needed: number
}

export interface PoolOptions {
  readonly database: DatabaseSettings
  readonly notice: Notice
  readonly monotonicNow: () => number
  readonly random: () => number
}

/** What a caller waits for. It is rejected when it has no outcome in time. */
export interface PendingCall<Outcome> {
  readonly startedAt: number
  resolve(outcome: Outcome): void
  reject(error: unknown): void
}

/** A call of `query` that has no outcome yet, or whose caller has been told that it takes too long. */
interface QueryCall extends PendingCall<QueryResult> {
  sentAt: number
  attempts: number
  readonly statement: PreparedStatement
  readonly parameters: SqlParameters
  readonly rows: RowCount
  readonly isWanted: (() => boolean) | undefined
}

interface PooledConnection extends DatabaseConnection {
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
  readonly sent = new Set<QueryCall>()
  /** A connection was lost or the server is read-only: nothing is sent until the primary has been found again. */
  isBroken = false
  readonly #database: DatabaseSettings
  readonly #connections = new Set<PooledConnection>()
  /** Closes all connections, open or being opened. */
  readonly #destroyed = new AbortController()
  #opening = 0
  #openingSince = 0
  #openAfter = 0

  constructor(database: DatabaseSettings, primary: Primary) {
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

  send(connection: PooledConnection, call: QueryCall, done: (error: unknown, result?: QueryResult) => void): void {
    const { statement, parameters, sentAt } = call
    this.sent.add(call)
    connection.sent++
    corkUntilEndOfTurn(connection)
    // What is sent again may have failed because of its name.
    const query = connection.unnamedSince === undefined && call.attempts === 1 ? statement.named : statement.unnamed
    connection.client.query(query, parameters, (error: unknown, result: QueryResult) => {
      connection.sent--
      this.sent.delete(call)
      if (!error && isPossible(call, result)) return done(undefined, result)
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

/** Sends statements to the primary, and finds it again when it has changed or does not respond. */
export class Pool {
  readonly #database: DatabaseSettings
  readonly #notice: Notice
  readonly #monotonicNow: () => number
  readonly #random: () => number
  readonly #version: TablesVersion | undefined
  /** Undefined: the database is down. */
  #current: Server | undefined
  /** Replaced because it did not respond; destroyed when its statements are settled. */
  #retired: Server | undefined
  #timeline: number
  #isSlow = false
  #isSuspect = false
  #downSince = 0
  #lastProbeAt: number
  /** What the last line of the log says about the connection. */
  #state = ''
  readonly #reads: Failures
  readonly #writes: Failures
  /** All calls whose caller waits, the oldest first, wherever they are: each is settled in time. */
  readonly #pending = new Set<PendingCall<never>>()
  /** Those that are to be sent. */
  readonly #waiting = new Set<QueryCall>()
  readonly #closed = new AbortController()
  readonly #timer: NodeJS.Timeout

  constructor({ database, notice, monotonicNow, random }: PoolOptions, primary: Primary, version?: TablesVersion) {
    this.#database = database
    this.#notice = notice
    this.#monotonicNow = monotonicNow
    this.#random = random
    this.#version = version
    this.#current = new Server(database, primary)
    this.#timeline = primary.timeline
    this.#lastProbeAt = monotonicNow()
    this.#reads = new Failures('Reads', notice)
    this.#writes = new Failures('Writes', notice)
    // Each attempt to connect listens for it.
    setMaxListeners(0, this.#closed.signal)
    this.#timer = setInterval(() => this.#check(), checkIntervalMs)
    this.#timer.unref()
  }

  /**
   * Runs one statement; again only when it certainly had no effect. Throws UnavailableError in bounded time, and
   * WithdrawnError where it is no longer wanted when it is to be sent.
   */
  query(
    statement: PreparedStatement,
    parameters: SqlParameters = [],
    rows: RowCount = statement.rows,
    isWanted?: () => boolean,
  ): Promise<QueryResult> {
    return new Promise((resolve, reject) => {
      const now = this.#monotonicNow()
      const call: QueryCall = {
        statement,
        parameters,
        rows,
        isWanted,
        startedAt: now,
        sentAt: now,
        attempts: 0,
        resolve,
        reject,
      }
      if (this.#admit(call)) this.#sendOrWait(call, now)
    })
  }

  /** For one of several callers of a statement: limits its time, and counts it as one that waits. */
  pending<Outcome>(execute: (call: PendingCall<Outcome>) => void): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const call = { startedAt: this.#monotonicNow(), resolve, reject }
      if (this.#admit(call)) execute(call)
    })
  }

  isPending(call: PendingCall<never>): boolean {
    return this.#pending.has(call)
  }

  resolve<Outcome>(call: PendingCall<Outcome>, outcome: Outcome): void {
    if (this.#pending.delete(call)) call.resolve(outcome)
  }

  reject(call: PendingCall<never>, error: unknown): void {
    if (this.#pending.delete(call)) call.reject(error)
  }

  /** Executes it on a connection of its own, and again after a conflict. The time limit is also that of its statements. */
  async transaction<T>(execute: (client: Client) => Promise<T>, timeoutMs = transactionTimeoutMs): Promise<T> {
    if (!this.#current) throw new UnavailableError('The database is down.')
    const { primary } = this.#current
    const { signal } = this.#closed
    try {
      return await withConnection(this.#database, primary.host, timeoutMs, signal, async (client, socket) => {
        const silence = `No response from ${nameOf(primary)} for ${silenceMs / 1000} seconds. Waiting for up to ${timeoutMs / 1000}.`
        socket.setTimeout(silenceMs, () => this.#notice(silence))
        return this.#retryConflicts(() => inTransaction(client, () => execute(client), timeoutMs))
      })
    } catch (error) {
      if (isMissing(error)) await this.check()
      throw toStoreError(error)
    }
  }

  /** Throws UnavailableError where the database cannot be reached, or has the tables of another version. */
  async check(): Promise<void> {
    if (!this.#version) return
    const { select, needed } = this.#version
    const { version } = (await this.query(select)).rows[0]
    if (version === needed) return
    const reason = `Another version of the program has migrated the tables: they have version ${version}, and this one needs version ${needed}. Replace this instance by one of that version.`
    this.#reads.failed(reason)
    throw new UnavailableError(reason)
  }

  async close(): Promise<void> {
    this.#closed.abort()
    clearInterval(this.#timer)
    for (const call of this.#pending as Set<QueryCall>)
      if (!this.#current?.sent.has(call) && !this.#retired?.sent.has(call))
        this.#settle(call, 'The service is stopping.')
    await this.#current?.end()
    this.#retired?.destroy()
  }

  #admit(call: PendingCall<never>): boolean {
    this.#pending.add(call)
    if (this.#closed.signal.aborted) this.#settle(call, 'The service is stopping.')
    else if (this.#isDownForLong(call.startedAt)) this.#settle(call, 'The database is down.')
    else if (this.#pending.size > maxPending) this.#settle(call, 'Too many requests wait for the database.')
    return this.#pending.has(call)
  }

  #sendOrWait(call: QueryCall, now: number): void {
    if (call.isWanted?.() === false) {
      this.#settle(call, new WithdrawnError())
      return
    }
    const server = this.#current
    if (!server || server.isBroken) {
      this.#waiting.add(call)
      return
    }
    const connection = server.findConnection(!this.#isSlow && server.sent.size < maxSent)
    if (connection === undefined || connection.sent > 0)
      server.open(
        now,
        () => this.#sendWaiting(),
        () => this.#onBroken(server),
      )
    if (connection === undefined) {
      this.#waiting.add(call)
      return
    }
    this.#waiting.delete(call)
    call.attempts++
    call.sentAt = now
    server.send(connection, call, (error, result) => {
      if (result) {
        // The version says nothing about the items.
        if (call.statement !== this.#version?.select) this.#failuresOf(call).succeeded()
        this.resolve(call, result)
      } else this.#onError(server, call, error)
      if (this.#waiting.size > 0) this.#sendWaiting()
    })
  }

  #sendWaiting(): void {
    for (const call of this.#waiting) {
      const { size } = this.#waiting
      this.#sendOrWait(call, this.#monotonicNow())
      if (this.#waiting.size === size) return
    }
  }

  #failuresOf({ statement }: QueryCall): Failures {
    return statement.isWrite ? this.#writes : this.#reads
  }

  #onError(server: Server, call: QueryCall, error: unknown): void {
    if (isStorageError(error)) this.#failuresOf(call).failed((toStoreError(error) as Error).message)
    if (isReadOnlyTransaction(error) || !leavesConnectionUsable(error)) this.#onBroken(server)
    if (!this.#pending.has(call)) return
    if (isMissing(error)) void this.#onMissing(call, error)
    else if (this.#closed.signal.aborted || call.attempts >= maxAttempts || !mayBeRetried(error))
      this.#settle(call, toStoreError(error))
    else
      setTimeout(() => {
        if (this.#pending.has(call)) this.#sendOrWait(call, this.#monotonicNow())
      }, this.#retryDelayMs(call.attempts))
  }

  /** Another version of the program has migrated the tables, or somebody has deleted them. */
  async #onMissing(call: QueryCall, error: unknown): Promise<void> {
    let reason = toStoreError(error) as Error
    if (call.statement !== this.#version?.select)
      await this.check().catch((found: Error) => {
        reason = found
      })
    this.#failuresOf(call).failed(reason.message)
    this.#settle(call, reason)
  }

  async #retryConflicts<T>(run: () => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts++)
      try {
        return await run()
      } catch (error) {
        if (attempts === maxAttempts || !isConflict(error)) throw error
        await sleep(this.#retryDelayMs(attempts))
      }
  }

  #retryDelayMs(attempts: number): number {
    return this.#random() * Math.min(maxRetryDelayMs, 10 * 2 ** attempts)
  }

  #isDownForLong(now: number): boolean {
    return !this.#current && now - this.#downSince >= downTimeoutMs
  }

  /** Rejects the call, unless it is settled. */
  #settle(call: PendingCall<never>, reason: unknown): void {
    this.#waiting.delete(call as QueryCall)
    this.reject(call, typeof reason === 'string' ? new UnavailableError(reason) : reason)
  }

  #onBroken(server: Server): void {
    if (server !== this.#current || server.isBroken) return
    server.isBroken = true
    const now = this.#monotonicNow()
    if (now - this.#lastProbeAt >= checkIntervalMs) this.#probe(now)
  }

  /** Probes may overlap: one that gets no response must not hold up the next. */
  #probe(now: number): void {
    this.#lastProbeAt = now
    const probed = this.#current
    const isStale = () => this.#closed.signal.aborted || this.#current !== probed
    findPrimary(this.#database, this.#timeline, this.#closed.signal).then(
      (found) => isStale() || this.#onPrimary(found),
      (error: unknown) => isStale() || this.#onNoPrimary(error),
    )
  }

  #onPrimary(found: Primary): void {
    const isNewer = found.timeline > this.#timeline
    this.#timeline = Math.max(this.#timeline, found.timeline)
    if (!this.#current) {
      this.#current = new Server(this.#database, found)
      this.#changed(`The database connection is restored. The primary is ${nameOf(found)}.`)
    } else if (isNewer || (found.host !== this.#current.primary.host && (this.#current.isBroken || this.#isSuspect))) {
      this.#changed(`The primary is now ${nameOf(found)}, before ${nameOf(this.#current.primary)}.`)
      this.#current.destroy()
      this.#current = new Server(this.#database, found)
    } else {
      this.#current.isBroken = false
      if (this.#isSuspect && found.commitsWait)
        this.#changed(`Commits on ${nameOf(found)} wait for a synchronous standby.`, 'commits wait')
      else if (this.#isSuspect && !this.#retired) {
        this.#retired = this.#current
        this.#current = new Server(this.#database, found)
      }
    }
    this.#sendWaiting()
  }

  #onNoPrimary(error: unknown): void {
    if (this.#current) {
      if (!this.#current.isBroken && !this.#isSuspect) return
      const ownError = (error as AggregateError).errors[this.#database.hosts.indexOf(this.#current.primary.host)]
      if (this.#current.isConnected && isRefusal(ownError)) {
        this.#current.isBroken = false
        this.#sendWaiting()
        return
      }
      this.#current.destroy()
      this.#retired?.destroy()
      this.#current = this.#retired = undefined
      this.#downSince = this.#monotonicNow()
    }
    // The reason may change from attempt to attempt: it is the same outage, unless the settings are wrong now.
    this.#changed(
      describeDatabaseError(error, this.#database),
      isSettingError(mainError(error)) ? 'rejected' : 'down',
      'error',
    )
  }

  #changed(message: string, newState = message, level?: 'error'): void {
    if (newState !== this.#state) this.#notice(message, level)
    this.#state = newState
  }

  #check(): void {
    const now = this.#monotonicNow()
    for (const call of this.#pending) {
      if (now - call.startedAt < totalTimeoutMs) break
      this.#settle(call, 'The database does not respond in time.')
    }
    if (this.#isDownForLong(now)) for (const call of this.#waiting) this.#settle(call, 'The database is down.')
    if (this.#retired && [...this.#retired.sent].every((call) => !this.#pending.has(call))) {
      this.#retired.destroy()
      this.#retired = undefined
    }
    this.#current?.endUnnamed(now)
    const sentForMs = this.#current?.sentForMs(now) ?? 0
    this.#isSlow = sentForMs >= slowAfterMs
    this.#isSuspect = Math.max(sentForMs, this.#current?.openingForMs(now) ?? 0) >= suspectAfterMs
    if (this.#current && !this.#isSuspect && this.#state === 'commits wait')
      this.#changed(`Commits on ${nameOf(this.#current.primary)} no longer wait.`)
    if (now - this.#lastProbeAt >= this.#currentProbeIntervalMs()) this.#probe(now)
    this.#sendWaiting()
  }

  #currentProbeIntervalMs(): number {
    if (!this.#current || this.#current.isBroken || this.#isSuspect) return probeIntervalMs
    return this.#database.hosts.length > 1 ? monitorIntervalMs : Number.POSITIVE_INFINITY
  }
}

function isPossible({ statement: { command, columns }, rows: [min, max] }: QueryCall, result: QueryResult): boolean {
  const { rows, rowCount, fields } = result
  if (result.command !== command || rowCount === null || rowCount < min || rowCount > max) return false
  if (fields.length !== columns.length) return false
  for (let at = 0; at < columns.length; at++) if (fields[at]?.name !== columns[at]) return false
  return rows.length === (columns.length === 0 ? 0 : rowCount)
}

/** Statements of one turn of the event loop are sent at its end, those on one connection at once. */
function corkUntilEndOfTurn(connection: PooledConnection): void {
  if (connection.isCorked) return
  connection.isCorked = true
  connection.socket.cork()
  setImmediate(() => {
    connection.isCorked = false
    connection.socket.uncork()
  })
}

const nameOf = ({ host: { name, port }, timeline }: { host: Host; timeline: number }) =>
  `${name}:${port}${timeline ? ` (timeline ${timeline})` : ''}`
