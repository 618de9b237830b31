import type { Socket } from 'node:net'

/** How long, in milliseconds, a connection may do nothing. */
export interface Patience {
  /** Between requests. */
  readonly keepAliveTimeout: number
  /** While an answer waits to be taken. */
  readonly stalledTimeout: number
}

/** For how many looks a connection has done nothing. */
export class Stillness {
  #written = 0
  #looks = 0

  /** Whether it is too much, looked at once every so many milliseconds. */
  isTooLong(
    { bytesWritten, writableLength }: Socket,
    isAtWork: boolean,
    { keepAliveTimeout, stalledTimeout }: Patience,
    beat: number,
  ): boolean {
    // What Node has taken but could not send counts as written, too. What comes in does not count: bytes are no request.
    const written = bytesWritten - writableLength
    this.#looks = written !== this.#written ? 0 : this.#looks + 1
    this.#written = written
    const patience = writableLength > 0 ? stalledTimeout : isAtWork ? Infinity : keepAliveTimeout
    return this.#looks * beat >= patience
  }
}
