import type { Socket } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** How often connections are looked at. */
const beat = 1_000
/** How late the process may be before there is too much to do, and how often that is asked. */
const mostLate = 1_000
const lateBeat = 250

interface Patience {
  /** How long a connection may do nothing between requests. */
  readonly keepAliveTimeout: number
  /** How long a client may take nothing of what is sent to it. */
  readonly stalledTimeout: number
}

/** What was sent on a connection, and for how many looks that has not changed. */
interface Seen {
  written: number
  looks: number
}

/** Ends connections that do nothing. Nothing is noted down while they are at work: their counters are enough. */
export function watchOver({ keepAliveTimeout, stalledTimeout }: Patience, isAtWork: (socket: Socket) => boolean) {
  const all = new Map<Socket, Seen>()
  const timer = setInterval(() => {
    for (const [socket, seen] of all) look(socket, seen)
  }, beat)
  timer.unref()
  const lateness = monitorEventLoopDelay({ resolution: 20 })
  lateness.enable()
  let isBehind = false
  const lateTimer = setInterval(() => {
    isBehind = lateness.max / 1e6 > mostLate
    lateness.reset()
  }, lateBeat)
  lateTimer.unref()

  function look(socket: Socket, seen: Seen): void {
    const { bytesWritten, writableLength } = socket
    // What Node has taken but could not send counts as written, too. What comes in does not count: bytes are no request.
    const written = bytesWritten - writableLength
    seen.looks = written !== seen.written ? 0 : seen.looks + 1
    seen.written = written
    const isStalled = writableLength > 0 && seen.looks * beat > stalledTimeout
    const isIdle = writableLength === 0 && !isAtWork(socket) && seen.looks * beat > keepAliveTimeout
    if (isStalled || isIdle) socket.destroy()
  }

  return {
    add(socket: Socket): void {
      all.set(socket, { written: 0, looks: 0 })
      socket.once('close', () => all.delete(socket))
    },
    /** Whether the process does not keep up with what it has to do. */
    isBehind: () => isBehind,
    end(): void {
      clearInterval(timer)
      clearInterval(lateTimer)
      lateness.disable()
    },
  }
}
