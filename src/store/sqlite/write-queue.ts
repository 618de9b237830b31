import type { Failures } from '../notices.ts'
import { type Awaitable, UnavailableError } from '../store.ts'
import { BusyError } from './file.ts'

const retryIntervalMs = 3
/** Writes that have waited are executed for this long without serving other requests. */
const sliceMs = 5
const maxWaiting = 1_000

interface WaitingWrite {
  readonly execute: () => void
  readonly reject: (error: unknown) => void
  readonly endsAt: number
}

/**
 * Writes are executed in the order in which they come: at once or, while another process holds the write lock, when it
 * is released. One that has waited for too long is rejected and never executed.
 */
export class WriteQueue {
  readonly #timeoutMs: number
  readonly #monotonicNow: () => number
  readonly #failures: Failures
  readonly #waiting: WaitingWrite[] = []

  constructor(timeoutMs: number, monotonicNow: () => number, failures: Failures) {
    this.#timeoutMs = timeoutMs
    this.#monotonicNow = monotonicNow
    this.#failures = failures
  }

  /** `write` has no effect when it throws BusyError. */
  run<Outcome>(write: () => Outcome): Awaitable<Outcome> {
    if (this.#waiting.length === 0)
      try {
        return write()
      } catch (error) {
        if (!(error instanceof BusyError)) throw error
        setTimeout(() => this.#executeWaiting(error), retryIntervalMs)
      }
    if (this.#waiting.length >= maxWaiting)
      throw this.#refuse(new UnavailableError('Too many writes wait for the data file.'))
    return new Promise((resolve, reject) => {
      const endsAt = this.#monotonicNow() + this.#timeoutMs
      this.#waiting.push({ execute: () => resolve(write()), reject, endsAt })
    })
  }

  /** Writes that wait are rejected. */
  close(): void {
    for (const { reject } of this.#waiting.splice(0)) reject(new UnavailableError('The service is stopping.'))
  }

  #refuse(error: UnavailableError): UnavailableError {
    this.#failures.failed(error.message)
    return error
  }

  /** Is called again as long as writes wait; `busy` is why. */
  #executeWaiting(busy: BusyError): void {
    const startedAt = this.#monotonicNow()
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      if (first.endsAt <= startedAt) first.reject(this.#refuse(busy))
      else if (this.#monotonicNow() - startedAt >= sliceMs) {
        setImmediate(() => this.#executeWaiting(busy))
        return
      } else
        try {
          first.execute()
        } catch (error) {
          if (error instanceof BusyError) {
            setTimeout(() => this.#executeWaiting(error), retryIntervalMs)
            return
          }
          first.reject(error)
        }
      this.#waiting.shift()
    }
  }
}
