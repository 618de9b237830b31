/** Requests on a connection that may come in one go, or wait for the one before them: always so many … */
const fewAtOnce = 20
/** … and so many while others do not do the same. */
const mostAtOnce = 1_000

/** How many requests may come in one go, beyond a few, on all connections, until somebody sets it anew. */
export interface Allowance {
  spare: number
}

/** How many requests have come on a connection in one go. */
export class Pace {
  #bytesRead = 0
  #atOnce = 0

  /** Counts one more. What comes in one go has been read together. */
  isTooFast(bytesRead: number, waiting: number, allowance: Allowance): boolean {
    this.#atOnce = bytesRead === this.#bytesRead ? this.#atOnce + 1 : 1
    this.#bytesRead = bytesRead
    const count = Math.max(this.#atOnce, waiting)
    return count > fewAtOnce && (count > mostAtOnce || --allowance.spare < 0)
  }
}
