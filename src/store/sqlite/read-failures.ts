import { failuresOf, type Notice } from '../notices.ts'

const repeatIntervalMs = 1_000
/** A list can take seconds to read, and no request is served meanwhile: repetitions take a twentieth of the time. */
const pausePerMs = 20

/** A read that has failed is repeated until it succeeds: that another read succeeds says nothing about a damaged page. */
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
