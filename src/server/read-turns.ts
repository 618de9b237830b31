/** A connection from which requests are read. */
export interface Reader {
  /** How many packets with requests were read. */
  readonly packets: number
  pause(): void
  resume(): void
}

/**
 * The order in which connections are read while some of them send more at once than is parsed in a moment. They wait, and
 * so do all others, which may do the same: in each turn of the event loop one of them is read, and the one that has sent
 * requests most often; in the next turn twice as many, unless one has sent too much again.
 */
export class ReadTurns {
  readonly #readers = new Set<Reader>()
  /** In the order in which they are read. */
  readonly #waiting = new Set<Reader>()
  /** Those whose turn it is. */
  readonly #resumed = new Set<Reader>()
  #perTurn = 1

  add(reader: Reader): void {
    this.#readers.add(reader)
  }

  remove(reader: Reader): void {
    this.#readers.delete(reader)
    this.#waiting.delete(reader)
  }

  /** Nothing more is read from this connection before its turn. */
  wait(reader: Reader): void {
    this.#perTurn = 1
    this.#add(reader)
  }

  /** Nor from any other. */
  waitAll(): void {
    this.#perTurn = 1
    for (const reader of this.#readers) if (!this.#resumed.has(reader)) this.#add(reader)
  }

  #add(reader: Reader): void {
    if (this.#waiting.has(reader)) return
    if (this.#waiting.size === 0) setImmediate(this.#next)
    this.#waiting.add(reader)
    reader.pause()
  }

  readonly #next = (): void => {
    this.#resumed.clear()
    let count = 0
    let best: Reader | undefined
    for (const reader of this.#waiting)
      if (count++ < this.#perTurn) this.#resume(reader)
      else if (reader.packets > (best?.packets ?? 0)) best = reader
    if (best) this.#resume(best)
    this.#perTurn *= 2
    if (this.#waiting.size > 0) setImmediate(this.#next)
  }

  #resume(reader: Reader): void {
    this.#waiting.delete(reader)
    this.#resumed.add(reader)
    reader.resume()
  }
}
