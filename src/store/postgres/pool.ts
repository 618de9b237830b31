import postgres, { type Sql } from 'postgres'
import { Unavailable } from '../../unavailable.ts'
import { type Connection, codeOf, NotSent } from './connection.ts'

/** Connections that are open or being opened; while some of them do not answer, up to as many again. */
const mostConnections = 10
/** Requests that wait for one of them. */
const mostWaiting = 1_000
/** How long a request may take in all. */
const patience = 5_500
/** How long a request waits while no connection can be had. */
const patienceWhileDown = 1_000
/** After how long without an answer nobody may be there any more. */
const silence = 2_000
/** After how long without an answer nobody is there any more: PostgreSQL would have given the statement up. */
const death = 5_250
/** How often all of this is looked at. */
const beat = 250
/** How often a connection is tried for while there is none, or while some do not answer. */
const knock = 500
/** How often one request is tried when nothing of it can have happened. */
const mostAttempts = 10

export interface Pool {
  /** Runs one statement; again only when it is certain that it had no effect. Throws Unavailable in bounded time. */
  run<T>(statement: (sql: Sql) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface PoolSettings {
  open(stop: AbortSignal, onLost: (lost: Connection) => void): Promise<Connection>
  onDown(cause: unknown): void
  onUp(): void
  /** Milliseconds on a clock that never jumps. */
  readonly ticks: () => number
  readonly random: () => number
}

/** One request's turn with the database. */
interface Turn {
  readonly askedAt: number
  attempts: number
  isOver: boolean
  send(sql: Sql): Promise<unknown>
  resolve(result: never): void
  reject(cause: unknown): void
}

/** A statement that has no answer yet. */
interface Work {
  readonly sentAt: number
  isSilent: boolean
}

export function poolOf({ open, onDown, onUp, ticks, random }: PoolSettings): Pool {
  const idle: Connection[] = []
  const busy = new Map<Connection, Work>()
  const turns = new Set<Turn>()
  /** Those of them that have no connection yet, first come, first served. */
  const waiting = new Set<Turn>()
  let opening = 0
  let isDown = false
  const closed = new AbortController()
  let knockedAt = 0
  const heart = setInterval(look, beat)
  heart.unref()

  return {
    run: (statement) =>
      new Promise((resolve, reject) => {
        const turn: Turn = { askedAt: ticks(), attempts: 0, isOver: false, send: statement, resolve, reject }
        turns.add(turn)
        enter(turn)
      }),

    async close() {
      closed.abort()
      clearInterval(heart)
      for (const turn of waiting) refuse(turn, new Unavailable('The service stops.'))
      await Promise.all([...idle, ...busy.keys()].map((connection) => connection.end()))
    },
  }

  function enter(turn: Turn): void {
    let connection = idle.pop()
    while (connection && !connection.isOpen) connection = idle.pop()
    if (connection) send(connection, turn)
    else if (waiting.size >= mostWaiting) refuse(turn, new Unavailable('Too many requests wait for the database.'))
    else {
      waiting.add(turn)
      grow()
    }
  }

  function send(connection: Connection, turn: Turn): void {
    turn.attempts++
    busy.set(connection, { sentAt: ticks(), isSilent: false })
    turn.send(connection.sql).then(
      (result) => {
        answered(connection)
        end(turn)
        turn.resolve(result as never)
      },
      (cause: unknown) => {
        if (isReadOnly(cause)) dropIdle()
        if (isReadOnly(cause) || !isAnswer(cause)) connection.drop()
        answered(connection)
        failed(turn, cause)
      },
    )
  }

  function answered(connection: Connection): void {
    busy.delete(connection)
    if (connection.isOpen) give(connection)
  }

  function give(connection: Connection): void {
    if (closed.signal.aborted) return void connection.end()
    const [next] = waiting
    if (!next) return void idle.push(connection)
    waiting.delete(next)
    send(connection, next)
  }

  function failed(turn: Turn, cause: unknown): void {
    if (turn.isOver) return
    if (turn.attempts < mostAttempts && hadNoEffect(cause)) {
      const pause = cause instanceof NotSent ? 0 : random() * 10 * 2 ** turn.attempts
      setTimeout(() => turn.isOver || enter(turn), pause)
    } else refuse(turn, meaningOf(cause))
  }

  function refuse(turn: Turn, cause: unknown): void {
    end(turn)
    turn.reject(cause)
  }

  function end(turn: Turn): void {
    turn.isOver = true
    turns.delete(turn)
    waiting.delete(turn)
  }

  function grow(): void {
    if (isDown || opening >= waiting.size || idle.length + busy.size + opening >= mostConnections) return
    if (!isSomeSilent()) tryToOpen()
  }

  /** While the database may be gone, a fresh attempt now and then finds out when it is back. */
  function tryNowAndThen(now: number): void {
    const isNeeded = isDown || (waiting.size > 0 && isSomeSilent())
    if (!isNeeded || now - knockedAt < knock || idle.length + busy.size + opening >= 2 * mostConnections) return
    knockedAt = now
    tryToOpen()
  }

  function tryToOpen(): void {
    opening++
    open(closed.signal, onLost).then(
      (connection) => {
        opening--
        if (isDown) up()
        give(connection)
        grow()
      },
      (cause: unknown) => {
        opening--
        if (idle.length + busy.size === 0) down(cause)
      },
    )
  }

  function onLost(connection: Connection): void {
    const at = idle.indexOf(connection)
    if (at >= 0) idle.splice(at, 1)
  }

  function down(cause: unknown): void {
    if (isDown) return
    isDown = true
    onDown(cause)
  }

  function up(): void {
    isDown = false
    onUp()
  }

  /** What is wrong with one connection is likely to be wrong with those that nobody used since. */
  function dropIdle(): void {
    for (const connection of [...idle]) connection.drop()
  }

  function isSomeSilent(): boolean {
    for (const { isSilent } of busy.values()) if (isSilent) return true
    return false
  }

  function look(): void {
    const now = ticks()
    for (const [connection, work] of busy) {
      if (now - work.sentAt >= death) {
        busy.delete(connection)
        connection.abandon()
        down(new Unavailable('The database does not answer.'))
      } else if (now - work.sentAt >= silence && !work.isSilent) {
        work.isSilent = true
        dropIdle()
      }
    }
    for (const turn of turns) {
      const limit = isDown && waiting.has(turn) ? patienceWhileDown : patience
      if (now - turn.askedAt >= limit) refuse(turn, new Unavailable('The database does not answer in time.'))
    }
    grow()
    tryNowAndThen(now)
  }
}

/** Nothing was sent, or the database says that it undid everything. */
const hadNoEffect = (cause: unknown) =>
  cause instanceof NotSent || isReadOnly(cause) || codeOf(cause) === '40001' /* serialization failure */

/** The database refuses a statement and goes on; anything else is the end of the connection. */
const isAnswer = (cause: unknown) => cause instanceof postgres.PostgresError && cause.severity === 'ERROR'

const isReadOnly = (cause: unknown) => codeOf(cause) === '25006'

/** Trouble of the database, not with the statement: connections, conflicts, resources, a shutdown, its machine. */
function meaningOf(cause: unknown): unknown {
  const code = codeOf(cause)
  if (code && !/^(?:08|25|40|53|57|58)/.test(code)) return cause
  return cause instanceof Unavailable ? cause : new Unavailable((cause as Error).message, { cause })
}
