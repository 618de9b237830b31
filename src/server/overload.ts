/** Overload: three checks in a row are later than this, with 100 requests or more. A paused process is late once. */
const lateByMs = 1_000
const checkIntervalMs = 250
const lateChecks = 3
const manyRequests = 100

/** Counts of one process, over all its servers. */
interface Load {
  /** Requests since the last check. */
  received: number
  inFlight: number
  connections: number
}

export interface OverloadMonitor {
  readonly load: Load
  /** Why new requests get 503; undefined if the process is not overloaded. */
  readonly reason: string | undefined
  stop(): void
}

/** Detects that requests come in faster than the process can handle them. */
export function overloadMonitor(monotonicNow: () => number, report: (message: string) => void): OverloadMonitor {
  const load: Load = { received: 0, inFlight: 0, connections: 0 }
  const monitor = { load, reason: undefined as string | undefined, stop: () => clearInterval(timer) }
  let lateInARow = 0
  let expectedAt = monotonicNow() + checkIntervalMs
  const timer = setInterval(() => {
    const lateMs = monotonicNow() - expectedAt
    expectedAt = monotonicNow() + checkIntervalMs
    const requests = load.received + load.inFlight
    load.received = 0
    const isLate = lateMs > lateByMs && requests >= manyRequests
    lateInARow = isLate ? lateInARow + 1 : 0
    if (monitor.reason && !isLate) {
      monitor.reason = undefined
      report('The service is no longer overloaded.')
    } else if (!monitor.reason && lateInARow >= lateChecks) {
      monitor.reason = 'the event loop is late'
      report(
        `The service is overloaded: the event loop was over ${lateByMs} ms late in ${lateChecks} checks in a row, ` +
          `${Math.round(lateMs)} ms at last, with ${requests} requests. New requests get 503.`,
      )
    }
  }, checkIntervalMs)
  timer.unref()
  return monitor
}

/** Development has no monitor, because a debugger stops the process as overload does. */
export const noOverloadMonitor = (): OverloadMonitor => ({
  load: { received: 0, inFlight: 0, connections: 0 },
  reason: undefined,
  stop: () => {},
})
