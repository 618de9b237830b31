import type { ErrorCode } from '../http/errors.ts'

/** Bodies that are being received may take this much memory, or twice the largest accepted body if that is more. */
const minLimitBytes = 20 * 2 ** 20
/** So many pieces of a body are joined into one: a piece of one byte takes far more memory than a byte. */
const maxPieces = 1_000
const checkIntervalMs = 1_000

/** Bodies that are being received by all listeners of a service. */
export class Uploads {
  readonly limitBytes: number
  readonly #timeoutMs: number
  usedBytes = 0
  /** The oldest first. */
  readonly active = new Set<Upload>()
  /** Runs while there are uploads. */
  timer: NodeJS.Timeout | undefined

  /** `maxBodyBytes` is the size of the largest body that the service accepts. */
  constructor(maxBodyBytes: number, timeoutMs: number) {
    this.limitBytes = Math.max(minLimitBytes, 2 * maxBodyBytes)
    this.#timeoutMs = timeoutMs
  }

  add(upload: Upload): void {
    this.active.add(upload)
    this.timer ??= setInterval(this.#check, checkIntervalMs).unref()
  }

  readonly #check = (): void => {
    for (const upload of this.active) {
      upload.ageMs += checkIntervalMs
      if (upload.ageMs > this.#timeoutMs) upload.settle('request-timeout')
    }
    if (this.active.size > 0) return
    clearInterval(this.timer)
    this.timer = undefined
  }
}

/** A body that is being received. */
export class Upload {
  ageMs = 0
  isSettled = false
  #reservedBytes = 0
  /** Nearly every body comes in one piece. */
  #whole: Buffer | undefined
  #pieces: Buffer[] = []
  #length = 0
  readonly #uploads: Uploads
  readonly #limitBytes: number
  readonly #done: (body: Buffer | ErrorCode) => void
  readonly #contentLength: number | undefined

  /** `done` is called once, with the body or the reason why it was not received. */
  constructor(uploads: Uploads, limitBytes: number, done: (body: Buffer | ErrorCode) => void, contentLength?: number) {
    this.#uploads = uploads
    this.#limitBytes = limitBytes
    this.#done = done
    this.#contentLength = contentLength
  }

  /** From now on, the upload has a timeout, and may be ended for others. A body that comes with its head needs neither. */
  begin(): void {
    if (!this.isSettled) this.#uploads.add(this)
  }

  /**
   * Counts bytes that were received; if a runtime does not tell, all that will be. Above the limit the oldest upload
   * fails, not the newest: clients that stall must not keep others from sending.
   */
  reserve(bytes: number): void {
    const uploads = this.#uploads
    this.#reservedBytes += bytes
    uploads.usedBytes += bytes
    for (const oldest of uploads.active) {
      if (uploads.usedBytes <= uploads.limitBytes) return
      if (oldest.#reservedBytes > 0) oldest.settle('uploads-exceeded')
    }
  }

  append(piece: Buffer): void {
    if (piece.length === this.#contentLength) this.#whole = piece
    if (this.isSettled || this.#whole) return
    this.#length += piece.length
    if (this.#length > this.#limitBytes) {
      this.settle('body-too-large')
      return
    }
    this.#pieces.push(piece)
    if (this.#pieces.length === maxPieces) this.#pieces = [Buffer.concat(this.#pieces)]
    this.begin()
    this.reserve(piece.length)
  }

  /** Ends the upload with what was received. */
  end(): void {
    this.settle(this.#whole ?? Buffer.concat(this.#pieces))
  }

  /** Ends the upload with the body, or the reason why it was not received. Only the first call counts. */
  settle(result: Buffer | ErrorCode): void {
    if (this.isSettled) return
    this.isSettled = true
    // On Deno, a read that stays pending keeps the upload in memory.
    this.#pieces = []
    this.#uploads.active.delete(this)
    this.#uploads.usedBytes -= this.#reservedBytes
    this.#done(result)
  }
}
