import { setMaxListeners } from 'node:events'
import type { Sql } from 'postgres'
import { UnavailableError } from '../store.ts'
import type { Connection } from './connection.ts'
import { hadNoEffect, isReadOnlyTransaction, leavesConnectionUsable, NotSentError, toStoreError } from './errors.ts'

/** Open or being opened; up to twice as many while some are suspect. */
const maxConnections = 10
const maxWaiting = 1_000
/** From the call to its outcome, waiting and retries included. */
const totalTimeoutMs = 5_500
/** Waiting for a connection while the database is down. */
const downTimeoutMs = 1_000
/** A query without response for this long makes its connection suspect. */
const suspectAfterMs = 2_000
/** Longer than statement_timeout (5 s): by then the server has cancelled the query, so the connection is dead. */
const queryTimeoutMs = 5_250
const checkIntervalMs = 250
/** While the database is down, or connections are suspect. */
const reconnectIntervalMs = 500
/** For a query that had no effect. */
const maxAttempts = 10

export interface Pool {
  /** Runs one query; again only when it certainly had no effect. Throws UnavailableError in bounded time. */
  query<T>(execute: (sql: Sql) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface PoolOptions {
  connect(stop: AbortSignal, onLost: (lost: Connection) => void): Promise<Connection>
  onDown(error: unknown): void
  onUp(): void
  readonly monotonicNow: () => number
  readonly random: () => number
}

interface PendingQuery {
  readonly startedAt: number
  attempts: number
  isSettled: boolean
  execute(sql: Sql): Promise<unknown>
  resolve(result: never): void
  reject(error: unknown): void
}

interface RunningQuery {
  readonly sentAt: number
  isSuspect: boolean
}

export function createPool({ connect, onDown, onUp, monotonicNow, random }: PoolOptions): Pool {
  const idle: Connection[] = []
  const busy = new Map<Connection, RunningQuery>()
  const pending = new Set<PendingQuery>()
  /** The pending queries without a connection, in order of arrival. */
  const waiting = new Set<PendingQuery>()
  let connecting = 0
  let isDown = false
  let lastReconnectAt = 0
  const closed = new AbortController()
  // Each attempt to connect listens for it.
  setMaxListeners(0, closed.signal)
  const timer = setInterval(check, checkIntervalMs)
  timer.unref()

  return {
    query: (execute) =>
      new Promise((resolve, reject) => {
        const query = { startedAt: monotonicNow(), attempts: 0, isSettled: false, execute, resolve, reject }
        pending.add(query)
        sendOrWait(query)
      }),

    async close() {
      closed.abort()
      clearInterval(timer)
      for (const query of waiting) reject(query, new UnavailableError('The service is stopping.'))
      await Promise.all([...idle, ...busy.keys()].map((connection) => connection.end()))
    },
  }

  function sendOrWait(query: PendingQuery): void {
    let connection = idle.pop()
    while (connection && !connection.isOpen) connection = idle.pop()
    if (connection) send(connection, query)
    else if (waiting.size >= maxWaiting) reject(query, new UnavailableError('Too many queries wait for a connection.'))
    else {
      waiting.add(query)
      connectIfNeeded()
    }
  }

  function send(connection: Connection, query: PendingQuery): void {
    query.attempts++
    busy.set(connection, { sentAt: monotonicNow(), isSuspect: false })
    query.execute(connection.sql).then(
      (result) => {
        release(connection)
        settle(query)
        query.resolve(result as never)
      },
      (error: unknown) => {
        if (isReadOnlyTransaction(error)) dropIdle()
        if (isReadOnlyTransaction(error) || !leavesConnectionUsable(error)) connection.drop()
        release(connection)
        retryOrReject(query, error)
      },
    )
  }

  function release(connection: Connection): void {
    busy.delete(connection)
    if (connection.isOpen) useForNext(connection)
  }

  function useForNext(connection: Connection): void {
    if (closed.signal.aborted) return void connection.end()
    const [next] = waiting
    if (!next) return void idle.push(connection)
    waiting.delete(next)
    send(connection, next)
  }

  function retryOrReject(query: PendingQuery, error: unknown): void {
    if (query.isSettled) return
    if (query.attempts < maxAttempts && hadNoEffect(error)) {
      const delayMs = error instanceof NotSentError ? 0 : random() * 10 * 2 ** query.attempts
      setTimeout(() => query.isSettled || sendOrWait(query), delayMs)
    } else reject(query, toStoreError(error))
  }

  function reject(query: PendingQuery, error: unknown): void {
    settle(query)
    query.reject(error)
  }

  function settle(query: PendingQuery): void {
    query.isSettled = true
    pending.delete(query)
    waiting.delete(query)
  }

  function connectIfNeeded(): void {
    if (isDown || connecting >= waiting.size || idle.length + busy.size + connecting >= maxConnections) return
    if (!hasSuspect()) openConnection()
  }

  /** A new connection shows whether the database is back. */
  function reconnectIfDue(now: number): void {
    const isNeeded = isDown || (waiting.size > 0 && hasSuspect())
    const isDue = now - lastReconnectAt >= reconnectIntervalMs
    if (!isNeeded || !isDue || idle.length + busy.size + connecting >= 2 * maxConnections) return
    lastReconnectAt = now
    openConnection()
  }

  function openConnection(): void {
    connecting++
    connect(closed.signal, onLost).then(
      (connection) => {
        connecting--
        if (isDown) {
          isDown = false
          onUp()
        }
        useForNext(connection)
        connectIfNeeded()
      },
      (error: unknown) => {
        connecting--
        if (idle.length + busy.size === 0) markDown(error)
      },
    )
  }

  function onLost(connection: Connection): void {
    const index = idle.indexOf(connection)
    if (index >= 0) idle.splice(index, 1)
  }

  function markDown(error: unknown): void {
    if (isDown) return
    isDown = true
    onDown(error)
  }

  /** When one connection fails, the idle ones have probably failed too. */
  function dropIdle(): void {
    for (const connection of [...idle]) connection.drop()
  }

  function hasSuspect(): boolean {
    for (const { isSuspect } of busy.values()) if (isSuspect) return true
    return false
  }

  function check(): void {
    const now = monotonicNow()
    for (const [connection, running] of busy) {
      if (now - running.sentAt >= queryTimeoutMs) {
        busy.delete(connection)
        connection.abort()
        markDown(new UnavailableError('The database does not respond.'))
      } else if (now - running.sentAt >= suspectAfterMs && !running.isSuspect) {
        running.isSuspect = true
        dropIdle()
      }
    }
    for (const query of pending) {
      const timeoutMs = isDown && waiting.has(query) ? downTimeoutMs : totalTimeoutMs
      if (now - query.startedAt >= timeoutMs)
        reject(query, new UnavailableError('The database does not respond in time.'))
    }
    connectIfNeeded()
    reconnectIfDue(now)
  }
}
