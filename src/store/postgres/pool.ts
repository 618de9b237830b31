import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, QueryResult } from 'pg'
import { type Failures, failuresOf, type Notice } from '../notices.ts'
import { UnavailableError, WithdrawnError } from '../store.ts'
import { findPrimary, inTransaction, type Primary, withConnection } from './connection.ts'
import {
  describeDatabaseError,
  isConflict,
  isMissing,
  isRefusal,
  isSettingError,
  isStorageError,
  mainError,
  mayBeRetried,
  toStoreError,
} from './errors.ts'
import { Server } from './server.ts'
import type { PreparedStatement, RowCount, SqlParameters, StatementCall } from './statements.ts'
import type { DatabaseSettings } from './url.ts'

/** The limit of calls without an outcome. */
const maxPending = 1_000
/** A call has this time until its outcome, waiting and retries included. */
const totalTimeoutMs = 5_500
/** After this time, requests that need a database that is down are rejected at once. */
const downTimeoutMs = 1_000
const checkIntervalMs = 250
/** How often the primary is looked for while the database is down or does not respond. */
const probeIntervalMs = 500
/** Otherwise, if there are several hosts, a newer primary is looked for at this interval. */
const monitorIntervalMs = 5_000
/** A statement that had no effect is sent this often. */
const maxAttempts = 10
const maxRetryDelayMs = 250
const transactionTimeoutMs = 15_000
/** A transaction that gets no response for this time is reported. */
const silenceMs = 3_000

/** The statement that reads the version of the tables, and the version that the program needs. */
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

/** A call whose caller waits for the outcome. It is rejected after `totalTimeoutMs`. */
export interface PendingCall<Outcome> {
  readonly startedAt: number
  resolve(outcome: Outcome): void
  reject(error: unknown): void
}

interface QueryCall extends PendingCall<QueryResult>, StatementCall {
  readonly isWanted: (() => boolean) | undefined
}

/**
 * Where statements are sent. A probe that finds a primary leads
 *
 * - from `down` to `up`;
 * - from `up` to `up` with the found server, if it has superseded the server in use, or the latter does not respond;
 * - from `up` to `up` with new connections to the same server, if it is silent but accepts them. The old connections
 *   are `retired`, until each call that was sent on them has an outcome.
 *
 * A probe that finds no primary leads from `up` to `down` if the server in use does not respond, either.
 */
type State =
  | { readonly name: 'up'; readonly server: Server; readonly retired?: Server | undefined }
  | { readonly name: 'down'; readonly since: number; readonly server?: undefined; readonly retired?: undefined }

/** Sends statements to the primary, and finds it again when it has changed or does not respond. */
export class Pool {
  readonly #options: PoolOptions
  readonly #version: TablesVersion | undefined
  #state: State
  #timeline: number
  #lastProbeAt: number
  /** What the last line of the log says about the connection. */
  #logged = ''
  readonly #reads: Failures
  readonly #writes: Failures
  /** Calls without an outcome, the oldest first, waiting or sent. */
  readonly #pending = new Set<PendingCall<never>>()
  /** Calls that are to be sent. */
  readonly #waiting = new Set<QueryCall>()
  readonly #closed = new AbortController()
  readonly #timer: NodeJS.Timeout

  constructor(options: PoolOptions, primary: Primary, version?: TablesVersion) {
    this.#options = options
    this.#version = version
    this.#state = this.#upOn(primary)
    this.#timeline = primary.timeline
    this.#lastProbeAt = options.monotonicNow()
    this.#reads = failuresOf('Reads', options.notice)
    this.#writes = failuresOf('Writes', options.notice)
    this.#timer = setInterval(() => this.#onTimer(), checkIntervalMs)
    this.#timer.unref()
  }

  /**
   * Executes one statement, and repeats it only if it certainly had no effect. Throws UnavailableError in bounded time,
   * and WithdrawnError if `isWanted` returns false before the statement is sent.
   */
  query(
    statement: PreparedStatement,
    parameters: SqlParameters = [],
    rows: RowCount = statement.rows,
    isWanted?: () => boolean,
  ): Promise<QueryResult> {
    return new Promise((resolve, reject) => {
      const startedAt = this.#options.monotonicNow()
      const call = { statement, parameters, rows, isWanted, startedAt, attempts: 0, resolve, reject }
      if (this.#admit(call)) this.#sendOrWait(call, startedAt)
    })
  }

  /** Begins a call that shares a statement with others. It counts as pending, and its time is limited. */
  pending<Outcome>(execute: (call: PendingCall<Outcome>) => void): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const call = { startedAt: this.#options.monotonicNow(), resolve, reject }
      if (this.#admit(call)) execute(call)
    })
  }

  isPending(call: PendingCall<never>): boolean {
    return this.#pending.has(call)
  }

  resolve<Outcome>(call: PendingCall<Outcome>, outcome: Outcome): void {
    if (this.#pending.delete(call)) call.resolve(outcome)
  }

  reject(call: PendingCall<never>, reason: unknown): void {
    if (this.#pending.delete(call)) call.reject(typeof reason === 'string' ? new UnavailableError(reason) : reason)
  }

  /** Executes a transaction on a new connection; repeats it after a conflict. `timeoutMs` limits each statement. */
  async transaction<T>(execute: (client: Client) => Promise<T>, timeoutMs = transactionTimeoutMs): Promise<T> {
    if (!this.#state.server) throw new UnavailableError('The database is down.')
    const { primary } = this.#state.server
    const { database, notice } = this.#options
    const { signal } = this.#closed
    try {
      return await withConnection(database, primary.host, timeoutMs, signal, async (client, socket) => {
        const silence = `No response from ${nameOf(primary)} for ${silenceMs / 1000} seconds. Waiting for up to ${timeoutMs / 1000}.`
        socket.setTimeout(silenceMs, () => notice(silence))
        return this.#retryConflicts(() => inTransaction(client, () => execute(client), timeoutMs))
      })
    } catch (error) {
      if (isMissing(error)) await this.check()
      throw toStoreError(error)
    }
  }

  /** Throws UnavailableError if the database cannot be reached, or its tables have another version. */
  async check(): Promise<void> {
    if (!this.#version) return
    const { select, needed } = this.#version
    const { version } = (await this.query(select)).rows[0]
    if (version === needed) return
    const reason = `Another version of the program has migrated the tables: they have version ${version}, and this one needs version ${needed}. Replace this instance by one of that version.`
    this.#reads.failed(reason)
    throw new UnavailableError(reason)
  }

  /** Closes the connections, after waiting shortly for statements that were sent. */
  async close(): Promise<void> {
    this.#closed.abort()
    clearInterval(this.#timer)
    const { server, retired } = this.#state
    for (const call of this.#pending)
      if (!server?.hasSent(call) && !retired?.hasSent(call)) this.reject(call, 'The service is stopping.')
    await server?.end()
    retired?.destroy()
  }

  #admit(call: PendingCall<never>): boolean {
    this.#pending.add(call)
    if (this.#closed.signal.aborted) this.reject(call, 'The service is stopping.')
    else if (this.#isDownForLong(call.startedAt)) this.reject(call, 'The database is down.')
    else if (this.#pending.size > maxPending) this.reject(call, 'Too many requests wait for the database.')
    return this.#pending.has(call)
  }

  #isDownForLong(now: number): boolean {
    return this.#state.name === 'down' && now - this.#state.since >= downTimeoutMs
  }

  #sendOrWait(call: QueryCall, now: number): void {
    if (call.isWanted?.() === false) this.reject(call, new WithdrawnError())
    if (!this.#pending.has(call) || this.#send(call, now)) this.#waiting.delete(call)
    else this.#waiting.add(call)
  }

  /** Returns false if the call has to wait. */
  #send(call: QueryCall, now: number): boolean | undefined {
    return this.#state.server?.send(call, now, (error, result) => {
      if (result) {
        // A successful read of the version does not mean that items can be read.
        if (call.statement !== this.#version?.select) this.#failuresOf(call).succeeded()
        this.resolve(call, result)
      } else this.#onError(call, error)
      if (this.#waiting.size > 0) this.#sendWaiting()
    })
  }

  #sendWaiting(): void {
    for (const call of this.#waiting) {
      this.#sendOrWait(call, this.#options.monotonicNow())
      if (this.#waiting.has(call)) return
    }
  }

  #failuresOf({ statement }: QueryCall): Failures {
    return statement.isWrite ? this.#writes : this.#reads
  }

  #onError(call: QueryCall, error: unknown): void {
    const reason = toStoreError(error)
    if (isStorageError(error)) this.#failuresOf(call).failed(reason.message)
    if (!this.#pending.has(call)) return
    if (isMissing(error)) void this.#onMissing(call, reason)
    else if (this.#closed.signal.aborted || call.attempts >= maxAttempts || !mayBeRetried(error))
      this.reject(call, reason)
    else setTimeout(() => this.#sendOrWait(call, this.#options.monotonicNow()), this.#retryDelayMs(call.attempts))
  }

  /** Rejects the call, because the tables were migrated by another version of the program, or deleted. */
  async #onMissing(call: QueryCall, error: Error): Promise<void> {
    const checked = call.statement === this.#version?.select ? undefined : this.check()
    const reason = (await checked?.catch((found: Error) => found)) ?? error
    this.#failuresOf(call).failed(reason.message)
    this.reject(call, reason)
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
    return this.#options.random() * Math.min(maxRetryDelayMs, 10 * 2 ** attempts)
  }

  #upOn(primary: Primary, retired?: Server): State {
    const server = new Server(this.#options.database, primary, {
      opened: () => this.#sendWaiting(),
      lost: () => {
        const now = this.#options.monotonicNow()
        if (server === this.#state.server && now - this.#lastProbeAt >= checkIntervalMs) this.#probe(now)
      },
    })
    return { name: 'up', server, retired }
  }

  /** Looks for the primary. Probes may overlap: a probe without a response must not delay the next probe. */
  #probe(now: number): void {
    this.#lastProbeAt = now
    const { server } = this.#state
    const isStale = () => this.#closed.signal.aborted || this.#state.server !== server
    findPrimary(this.#options.database, this.#timeline, this.#closed.signal).then(
      (found) => isStale() || this.#onPrimary(found),
      (error: unknown) => isStale() || this.#onNoPrimary(error),
    )
  }

  #onPrimary(found: Primary): void {
    const { server, retired } = this.#state
    const isNewer = found.timeline > this.#timeline
    this.#timeline = Math.max(this.#timeline, found.timeline)
    if (!server) {
      this.#state = this.#upOn(found)
      this.#log(`The database connection is restored. The primary is ${nameOf(found)}.`)
    } else if (isNewer || (found.host !== server.primary.host && !server.responds)) {
      this.#log(`The primary is now ${nameOf(found)}, before ${nameOf(server.primary)}.`)
      server.destroy()
      this.#state = this.#upOn(found, retired)
    } else {
      server.found(this.#options.monotonicNow())
      if (!server.responds && found.commitsWait)
        this.#log(`Commits on ${nameOf(found)} wait for a synchronous standby.`, 'commits wait')
      else if (!server.responds && !retired) this.#state = this.#upOn(found, server)
    }
    this.#sendWaiting()
  }

  #onNoPrimary(error: unknown): void {
    const { database, monotonicNow } = this.#options
    const { server, retired } = this.#state
    if (server) {
      if (server.responds) return
      const ownError = error instanceof AggregateError && error.errors[database.hosts.indexOf(server.primary.host)]
      if (server.isConnected && isRefusal(ownError)) {
        server.found(monotonicNow())
        this.#sendWaiting()
        return
      }
      server.destroy()
      retired?.destroy()
      this.#state = { name: 'down', since: monotonicNow() }
    }
    // Errors may differ during an outage: a second line is printed only if the settings are wrong.
    const isRejected = isSettingError(mainError(error))
    this.#log(describeDatabaseError(error, database), isRejected ? 'rejected' : 'down', 'error')
  }

  /** Prints a line, unless the last line had the same meaning. */
  #log(message: string, meaning = message, level?: 'error'): void {
    if (meaning !== this.#logged) this.#options.notice(message, level)
    this.#logged = meaning
  }

  #onTimer(): void {
    const now = this.#options.monotonicNow()
    for (const call of this.#pending) {
      if (now - call.startedAt < totalTimeoutMs) break
      this.reject(call, 'The database does not respond in time.')
    }
    if (this.#isDownForLong(now)) for (const call of this.#waiting) this.reject(call, 'The database is down.')
    const { server, retired } = this.#state
    if (server && retired && ![...this.#pending].some((call) => retired.hasSent(call))) {
      retired.destroy()
      this.#state = { name: 'up', server }
    }
    server?.check(now)
    if (server?.responds && this.#logged === 'commits wait')
      this.#log(`Commits on ${nameOf(server.primary)} no longer wait.`)
    if (now - this.#lastProbeAt >= this.#currentProbeIntervalMs()) this.#probe(now)
    this.#sendWaiting()
  }

  #currentProbeIntervalMs(): number {
    if (!this.#state.server?.responds) return probeIntervalMs
    return this.#options.database.hosts.length > 1 ? monitorIntervalMs : Number.POSITIVE_INFINITY
  }
}

const nameOf = ({ host: { name, port }, timeline }: Primary) =>
  `${name}:${port}${timeline ? ` (timeline ${timeline})` : ''}`
