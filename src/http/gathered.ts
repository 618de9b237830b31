import type { IncomingMessage } from 'node:http'

/** Bytes of bodies in several pieces that are kept at once, of all clients: from here on the large ones take turns … */
const muchHeld = 8 * 2 ** 20
/** … and from here on there is too much to do. */
const mostHeld = 24 * 2 ** 20
/** What comes in at once, at most. */
const blockSize = 64 * 1024

/** Bodies in several pieces, the oldest first. */
const gathering = new Set<Gathered>()
let held = 0
/** Blocks to be used again. */
const idle: Buffer[] = []
const mostIdle = 64

/** Whether so much is kept of unfinished bodies that there is no room for more. */
export const isTooMuchHeld = () => held > mostHeld

/** A body in blocks: many small pieces must not cost more than one large one. */
export class Gathered {
  readonly #request: IncomingMessage
  readonly #whole: number
  readonly #blocks: Buffer[] = []
  #length = 0

  /** `whole` is the length that was announced; 0 where none was. */
  constructor(request: IncomingMessage, whole: number) {
    this.#request = request
    this.#whole = whole
    gathering.add(this)
  }

  get length(): number {
    return this.#length
  }

  get pieces(): Buffer[] {
    return this.#blocks.map((block, at) => block.subarray(0, this.#length - at * blockSize))
  }

  add(piece: Buffer): void {
    for (let from = 0; from < piece.length; ) {
      const place = this.#length % blockSize
      if (place === 0) this.#blocks.push(this.#newBlock())
      const copied = piece.copy(this.#blocks.at(-1) as Buffer, place, from)
      from += copied
      this.#length += copied
    }
    held += piece.length
    const [oldest] = gathering
    if (held > muchHeld && this.#length > blockSize && this !== oldest) this.#request.pause()
  }

  release(): void {
    gathering.delete(this)
    held -= this.#length
    const ofUse = this.#blocks.filter(({ length }) => length === blockSize)
    idle.push(...ofUse.slice(0, mostIdle - idle.length))
    let room = Math.max(1, Math.floor((muchHeld - held) / blockSize))
    for (const other of gathering) {
      if (room === 0) break
      if (other.#request.isPaused()) room--
      other.#request.resume()
    }
  }

  #newBlock(): Buffer {
    const isSmall = this.#whole > 0 && this.#whole < blockSize
    return isSmall ? Buffer.allocUnsafe(this.#whole) : (idle.pop() ?? Buffer.allocUnsafeSlow(blockSize))
  }
}
