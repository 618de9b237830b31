import { setMaxListeners } from 'node:events'
import type { Row, RowList, Sql } from 'postgres'
import type { Database, Host } from '../../config/database-url.ts'
import { UnavailableError } from '../store.ts'
import {
  type Connections,
  findPrimary,
  inTransaction,
  openConnections,
  type Primary,
  withConnection,
} from './connection.ts'
import {
  describeDatabaseError,
  isReadOnlyTransaction,
  isSettingError,
  leavesConnectionUsable,
  toStoreError,
  wasNotSent,
  wasRolledBack,
} from './errors.ts'

/** To one server; up to twice as many while some do not respond. */
const maxConnections = 10
/** Statements that were sent and have no result. The driver pipelines those for which it has no idle connection. */
const maxSent = 100
/** Nothing is pipelined while a statement takes longer: it would wait behind that one. */
const slowAfterMs = 100
/** Sent or waiting. */
const maxPending = 1_000
/** From the call to its outcome, waiting and retries included. */
const totalTimeoutMs = 5_500
/** How long requests wait for a database that is down, before they are rejected at once. */
const downTimeoutMs = 1_000
/** A statement without a result for this long: the connections may be dead. */
const suspectAfterMs = 2_000
const checkIntervalMs = 250
/** While the database is down or does not respond. */
const probeIntervalMs = 500
/** Where there are several hosts: one of them may have superseded the one in use. */
const monitorIntervalMs = 5_000
/** For a statement that had no effect. */
const maxAttempts = 10
const maxRetryDelayMs = 250
const transactionTimeoutMs = 15_000

export type Parameters = (string | boolean | Buffer | null)[]

export interface Pool {
  /**
   * Runs one statement, prepared; again only when it certainly had no effect. Throws UnavailableError in bounded time.
   * Its text is constant: text that is put together for each call took a third more CPU time for a GET.
   */
  query(text: string, parameters?: Parameters): Promise<RowList<Row[]>>
  /** Once, on a connection of its own. The time limit is also that of its statements. */
  transaction<T>(execute: (sql: Sql) => Promise<T>, timeoutMs?: number): Promise<T>
  close(): Promise<void>
}

export interface PoolOptions {
  readonly database: Database
  notice(message: string): void
  readonly monotonicNow: () => number
  readonly random: () => number
}

interface Statement {
  readonly startedAt: number
  sentAt: number
  attempts: number
  isSettled: boolean
  readonly text: string
  readonly parameters: Parameters
  resolve(result: RowList<Row[]>): void
  reject(error: unknown): void
}

interface ServerPool extends Connections {
  readonly primary: Primary
  /** Without a result, the oldest first; those whose caller has been told that they take too long are among them. */
  readonly sent: Set<Statement>
  /** A connection was lost or the server is read-only: nothing is sent until the primary has been found again. */
  isBroken: boolean
}

export function createPool({ database, notice, monotonicNow, random }: PoolOptions, primary: Primary): Pool {
  const open = (server: Primary): ServerPool => ({
    ...openConnections(database, server.host, maxConnections),
    primary: server,
    sent: new Set(),
    isBroken: false,
  })
  /** Undefined: the database is down. */
  let current: ServerPool | undefined = open(primary)
  /** Replaced because it did not respond; destroyed when its statements are settled. */
  let retired: ServerPool | undefined
  let { timeline } = primary
  let isSlow = false
  let isSuspect = false
  let downSince = 0
  let lastProbeAt = monotonicNow()
  /** What the last line of the log says. */
  let state = ''
  const waiting = new Set<Statement>()
  const closed = new AbortController()
  // Each attempt to connect listens for it.
  setMaxListeners(0, closed.signal)
  const timer = setInterval(check, checkIntervalMs)
  timer.unref()

  return {
    query: (text, parameters = []) =>
      new Promise((resolve, reject) => {
        const now = monotonicNow()
        sendOrWait(
          { text, parameters, startedAt: now, sentAt: now, attempts: 0, isSettled: false, resolve, reject },
          now,
        )
      }),

    async transaction(execute, timeoutMs = transactionTimeoutMs) {
      if (!current) throw new UnavailableError('The database is down.')
      const run = (sql: Sql) =>
        inTransaction(sql, async () => {
          await sql.unsafe(`set local statement_timeout = ${timeoutMs}`)
          return execute(sql)
        })
      try {
        return await withConnection(database, current.primary.host, timeoutMs, closed.signal, run)
      } catch (error) {
        throw toStoreError(error)
      }
    },

    async close() {
      closed.abort()
      clearInterval(timer)
      for (const statement of waiting) reject(statement, 'The service is stopping.')
      await current?.sql.end({ timeout: 1 })
      current?.destroy()
      retired?.destroy()
    },
  }

  function sendOrWait(statement: Statement, now: number): void {
    if (statement.isSettled) return
    if (current && hasRoom(current)) send(current, statement, now)
    else if (isDownForLong(now)) reject(statement, 'The database is down.')
    else if (waiting.size + (current?.sent.size ?? 0) >= maxPending)
      reject(statement, 'Too many requests wait for the database.')
    else waiting.add(statement)
  }

  function hasRoom({ isBroken, sent }: ServerPool): boolean {
    return !isBroken && sent.size < (isSlow ? maxConnections : maxSent)
  }

  function isDownForLong(now: number): boolean {
    return !current && now - downSince >= downTimeoutMs
  }

  function send(pool: ServerPool, statement: Statement, now: number): void {
    statement.attempts++
    statement.sentAt = now
    pool.sent.add(statement)
    const onError = (error: unknown) => {
      pool.sent.delete(statement)
      if (isReadOnlyTransaction(error) || !leavesConnectionUsable(error)) onBroken(pool)
      retryOrReject(statement, error)
      sendWaiting()
    }
    pool.sql.unsafe<Row[]>(statement.text, statement.parameters, prepared).then((rows) => {
      // After a lost connection, the driver may resolve a statement that got no CommandComplete and was never executed.
      if (!rows.command) return onError(new UnavailableError('The connection was lost.'))
      pool.sent.delete(statement)
      statement.isSettled = true
      statement.resolve(rows)
      if (waiting.size > 0) sendWaiting()
    }, onError)
  }

  function sendWaiting(): void {
    for (const statement of waiting) {
      if (!current || !hasRoom(current)) return
      waiting.delete(statement)
      send(current, statement, monotonicNow())
    }
  }

  function retryOrReject(statement: Statement, error: unknown): void {
    const isNotSent = wasNotSent(error)
    if (statement.attempts >= maxAttempts || !(isNotSent || wasRolledBack(error)))
      return void reject(statement, toStoreError(error))
    const delayMs = isNotSent ? 0 : random() * Math.min(maxRetryDelayMs, 10 * 2 ** statement.attempts)
    setTimeout(() => {
      const now = monotonicNow()
      if (isLate(statement, now)) reject(statement, 'The database does not respond in time.')
      else sendOrWait(statement, now)
    }, delayMs)
  }

  function isLate({ startedAt }: Statement, now: number): boolean {
    return now - startedAt >= totalTimeoutMs
  }

  function reject(statement: Statement, reason: unknown): void {
    waiting.delete(statement)
    if (statement.isSettled) return
    statement.isSettled = true
    statement.reject(typeof reason === 'string' ? new UnavailableError(reason) : reason)
  }

  function onBroken(pool: ServerPool): void {
    if (pool !== current || pool.isBroken) return
    pool.isBroken = true
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
      current = open(found)
      changed(`The database connection is restored. The primary is ${nameOf(found)}.`)
    } else if (isNewer || (found.host !== current.primary.host && (current.isBroken || isSuspect))) {
      changed(`The primary is now ${nameOf(found)}, before ${nameOf(current.primary)}.`)
      current.destroy()
      current = open(found)
    } else {
      current.isBroken = false
      if (isSuspect && found.commitsWait)
        changed(`Commits on ${nameOf(found)} wait for a synchronous standby.`, 'commits wait')
      else if (isSuspect && !retired) {
        retired = current
        current = open(found)
      }
    }
    sendWaiting()
  }

  function onNoPrimary(error: unknown): void {
    if (current) {
      if (!current.isBroken && !isSuspect) return
      current.destroy()
      retired?.destroy()
      current = retired = undefined
      downSince = monotonicNow()
    }
    // The reason may change from attempt to attempt: it is the same outage, unless the settings are wrong now.
    changed(describeDatabaseError(error, database), isSettingError(error) ? 'rejected' : 'down')
  }

  function changed(message: string, newState = message): void {
    if (newState !== state) notice(message)
    state = newState
  }

  function check(): void {
    const now = monotonicNow()
    for (const statement of [...waiting, ...(current?.sent ?? []), ...(retired?.sent ?? [])])
      if (isLate(statement, now)) reject(statement, 'The database does not respond in time.')
    if (isDownForLong(now)) for (const statement of waiting) reject(statement, 'The database is down.')
    if (retired && [...retired.sent].every(({ isSettled }) => isSettled)) {
      retired.destroy()
      retired = undefined
    }
    const [oldest] = current?.sent ?? []
    const ageMs = oldest ? now - oldest.sentAt : 0
    isSlow = ageMs >= slowAfterMs
    isSuspect = ageMs >= suspectAfterMs
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

const prepared = { prepare: true }

const nameOf = ({ host: { name, port }, timeline }: { host: Host; timeline: number }) =>
  `${name}:${port}${timeline ? ` (timeline ${timeline})` : ''}`
