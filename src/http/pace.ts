/** How much may come in one go beyond a little, on all connections, until somebody sets it anew. */
export interface Allowance {
  spare: number
}

/** How much has come on a connection in one go, that is, has been read together. */
export class Pace {
  readonly #few: number
  readonly #most: number
  #bytesRead = 0
  #atOnce = 0

  /** Always a few, and at most so many while others do not do the same. */
  constructor(few: number, most = Infinity) {
    this.#few = few
    this.#most = most
  }

  /** Counts one more. What still waits has come in one go, too. */
  isTooFast(bytesRead: number, allowance: Allowance, waiting = 0): boolean {
    this.#atOnce = bytesRead === this.#bytesRead ? this.#atOnce + 1 : 1
    this.#bytesRead = bytesRead
    const count = Math.max(this.#atOnce, waiting)
    return count > this.#few && (count > this.#most || --allowance.spare < 0)
  }
}
