import type { ErrorCode } from '../http/errors.ts'

/** A body that is being received. */
export interface Upload {
  /** Why it cannot be received; called once at most. */
  fail(code: ErrorCode): void
}

const minLimitBytes = 20 * 2 ** 20

/**
 * Memory of bodies that are being received, of all listeners of a service. Beyond the limit the oldest upload fails, not
 * the newest: clients that stall must not keep others from sending.
 */
export class UploadBudget {
  readonly #limitBytes: number
  #usedBytes = 0
  /** The oldest first. */
  readonly #uploads = new Map<Upload, number>()

  /** `maxBodyBytes` is that of the largest body that the service accepts. */
  constructor(maxBodyBytes: number) {
    this.#limitBytes = Math.max(minLimitBytes, 2 * maxBodyBytes)
  }

  /** Counts bytes that were received, or that will be where a runtime does not tell. */
  add(upload: Upload, bytes: number): void {
    this.#uploads.set(upload, (this.#uploads.get(upload) ?? 0) + bytes)
    this.#usedBytes += bytes
    while (this.#usedBytes > this.#limitBytes) {
      const [oldest] = this.#uploads.keys()
      if (!oldest) return
      this.remove(oldest)
      oldest.fail('uploads-exceeded')
    }
  }

  /** The upload is complete, or has failed. */
  remove(upload: Upload): void {
    this.#usedBytes -= this.#uploads.get(upload) ?? 0
    this.#uploads.delete(upload)
  }
}
