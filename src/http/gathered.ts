import type { IncomingMessage } from 'node:http'

/** Bytes of bodies in several pieces that are kept at once, of all clients: from here on the large ones take turns … */
const muchHeld = 8 * 2 ** 20
/** … and from here on there is too much to do. */
const mostHeld = 24 * 2 ** 20
/** What comes in at once, at most. */
const blockSize = 64 * 1024
/** Milliseconds between turns: what a body has left behind must be collected, too. */
const breath = 5
/** A body that never waits for a turn; whose turn it is must get on by as much, or it is the next one's turn, too. */
const smallBody = 16 * 1024

/** Bodies that wait for their turn. */
const waiting = new Set<Gathered>()
/** Whose turn it is, and how far it was when it was looked at. */
let favoured: Gathered | undefined
let favouredLength = 0
let isTurnDue = false
let held = 0
/** Blocks to be used again. */
const idle: Buffer[] = []
const mostIdle = 64

/** Whether so much is kept of unfinished bodies that there is no room for more. */
export const isTooMuchHeld = () => held > mostHeld

/** The next one goes on, if the one before is done or does not get on, and others for which there is room. */
function nextTurn(): void {
  isTurnDue = false
  if (!favoured || favoured.length < favouredLength + smallBody) favoured = waiting.values().next().value
  favouredLength = favoured?.length ?? 0
  favoured?.goOn()
  let room = Math.max(0, Math.floor((muchHeld - held) / blockSize))
  for (const other of waiting) {
    if (room-- === 0) break
    other.goOn()
  }
  makeTurn()
}

function makeTurn(): void {
  if (waiting.size === 0 || isTurnDue) return
  isTurnDue = true
  setTimeout(nextTurn, breath)
}

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
    if (held > muchHeld && this.#length > smallBody && this !== favoured) {
      waiting.add(this)
      this.#request.pause()
      makeTurn()
    }
  }

  release(): void {
    waiting.delete(this)
    if (favoured === this) favoured = undefined
    held -= this.#length
    const ofUse = this.#blocks.filter(({ length }) => length === blockSize)
    idle.push(...ofUse.slice(0, mostIdle - idle.length))
  }

  goOn(): void {
    waiting.delete(this)
    this.#request.resume()
  }

  #newBlock(): Buffer {
    const isSmall = this.#whole > 0 && this.#whole < blockSize
    return isSmall ? Buffer.allocUnsafe(this.#whole) : (idle.pop() ?? Buffer.allocUnsafeSlow(blockSize))
  }
}
