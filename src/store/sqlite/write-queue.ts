import type { Failures } from '../notices.ts'
import { type Awaitable, UnavailableError } from '../store.ts'
import { BusyError } from './file.ts'

const retryIntervalMs = 3
/** Waiting writes are executed for this long before other requests are served again. */
const sliceMs = 5
const maxWaiting = 1_000

interface WaitingWrite {
  readonly execute: () => void
  readonly reject: (error: unknown) => void
  readonly endsAt: number
}

/**
 * Executes writes in the order in which they come: at once or, while another process holds the write lock, when it is
 * released. A write that has waited for `timeoutMs` is rejected and never executed.
 */
export function writeQueue(timeoutMs: number, monotonicNow: () => number, failures: Failures) {
  const waiting: WaitingWrite[] = []

  function refuse(error: UnavailableError): UnavailableError {
    failures.failed(error.message)
    return error
  }

  /** Executes waiting writes, again and again as long as some wait. Expired ones are rejected with `busy`. */
  function executeWaiting(busy: BusyError): void {
    const startedAt = monotonicNow()
    for (let first = waiting[0]; first; first = waiting[0]) {
      if (first.endsAt <= startedAt) first.reject(refuse(busy))
      else if (monotonicNow() - startedAt >= sliceMs) {
        setImmediate(() => executeWaiting(busy))
        return
      } else
        try {
          first.execute()
        } catch (error) {
          if (error instanceof BusyError) {
            setTimeout(() => executeWaiting(error), retryIntervalMs)
            return
          }
          first.reject(error)
        }
      waiting.shift()
    }
  }

  return {
    /** Executes a write, now or later. `write` must have no effect when it throws a BusyError. */
    run<Outcome>(write: () => Outcome): Awaitable<Outcome> {
      if (waiting.length === 0)
        try {
          return write()
        } catch (error) {
          if (!(error instanceof BusyError)) throw error
          setTimeout(() => executeWaiting(error), retryIntervalMs)
        }
      if (waiting.length >= maxWaiting) throw refuse(new UnavailableError('Too many writes wait for the data file.'))
      return new Promise((resolve, reject) => {
        waiting.push({ execute: () => resolve(write()), reject, endsAt: monotonicNow() + timeoutMs })
      })
    },
    /** Rejects the waiting writes. */
    close(): void {
      for (const { reject } of waiting.splice(0)) reject(new UnavailableError('The service is stopping.'))
    },
  }
}
