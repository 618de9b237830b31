import { Failures, type Notice } from '../notices.ts'

const repeatIntervalMs = 1_000
/** A list can take seconds to read, in which no request is served. */
const pausePerMs = 20

/** A read that has failed is repeated until it succeeds: another one may not need what is damaged. */
export class ReadFailures {
  readonly #failures: Failures
  readonly #monotonicNow: () => number
  #timer: NodeJS.Timeout | undefined

  constructor(notice: Notice, monotonicNow: () => number) {
    this.#failures = new Failures('Reads', notice)
    this.#monotonicNow = monotonicNow
  }

  get isFailing(): boolean {
    return this.#failures.isFailing
  }

  failed(reason: string, read: () => unknown): void {
    if (!this.isFailing) this.#repeat(read, repeatIntervalMs)
    this.#failures.failed(reason)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #repeat(read: () => unknown, delayMs: number): void {
    this.#timer = setTimeout(() => {
      const startedAt = this.#monotonicNow()
      try {
        read()
        this.#failures.succeeded()
      } catch {
        const elapsedMs = this.#monotonicNow() - startedAt
        this.#repeat(read, Math.max(repeatIntervalMs, pausePerMs * elapsedMs))
      }
    }, delayMs)
    this.#timer.unref()
  }
}
