import { failuresOf, type Notice } from '../notices.ts'

const repeatIntervalMs = 1_000
/** Reading a list can block the event loop for seconds, so repetitions take at most a twentieth of the time. */
const pausePerMs = 20

/** Repeats a failed read until it succeeds: another read may succeed because it needs no damaged page. */
export function readFailures(notice: Notice, monotonicNow: () => number) {
  const failures = failuresOf('Reads', notice)
  let timer: NodeJS.Timeout | undefined

  function repeat(read: () => unknown, delayMs: number): void {
    timer = setTimeout(() => {
      const startedAt = monotonicNow()
      try {
        read()
        failures.succeeded()
      } catch {
        const elapsedMs = monotonicNow() - startedAt
        repeat(read, Math.max(repeatIntervalMs, pausePerMs * elapsedMs))
      }
    }, delayMs)
    timer.unref()
  }

  return {
    isFailing: () => failures.isFailing,
    failed(reason: string, read: () => unknown): void {
      if (!failures.isFailing) repeat(read, repeatIntervalMs)
      failures.failed(reason)
    },
    close: () => clearTimeout(timer),
  }
}
