/** How many items stand on a piece: a change costs the writing of one piece. */
const pieceSize = 256

/** A part of the list, and its text as long as nothing on it has changed. */
interface Piece {
  readonly entries: Entry[]
  bytes: Buffer | undefined
}

/** An item as it is sent. It is put into words when it is written, not when it is read. */
export interface Entry {
  json: string
  version: number
  readonly piece: Piece
}

/** Items in order. Their list is kept as one text, of which a change spoils a piece. */
export class Shelf {
  #pieces: Piece[] = []
  #list: Buffer | undefined
  /** Counts the changes. */
  version = 0

  add(json: string): Entry {
    const last = this.#pieces.at(-1)
    const piece = last && last.entries.length < pieceSize ? last : this.#newPiece()
    const entry = { json, version: 0, piece }
    piece.entries.push(entry)
    this.#spoil(entry)
    return entry
  }

  change(entry: Entry, json: string): void {
    entry.json = json
    this.#spoil(entry)
  }

  remove(entry: Entry): void {
    const { entries } = entry.piece
    entries.splice(entries.indexOf(entry), 1)
    if (entries.length === 0) this.#pieces.splice(this.#pieces.indexOf(entry.piece), 1)
    this.#spoil(entry)
  }

  /** The list as JSON. */
  get bytes(): Buffer {
    this.#list ??= this.#join()
    return this.#list
  }

  #newPiece(): Piece {
    const piece = { entries: [], bytes: undefined }
    this.#pieces.push(piece)
    return piece
  }

  #spoil(entry: Entry): void {
    entry.version = ++this.version
    entry.piece.bytes = undefined
    this.#list = undefined
  }

  #join(): Buffer {
    const parts = this.#pieces.map(
      (piece) => piece.bytes ?? Buffer.from(piece.entries.map(({ json }) => json).join(',')),
    )
    const list = Buffer.allocUnsafeSlow(
      parts.reduce((size, { length }) => size + length + 1, Math.max(1, 2 - parts.length)),
    )
    list[0] = 0x5b // [
    let at = 1
    for (const [index, part] of parts.entries()) {
      const end = at + part.copy(list, at)
      // What a piece remembers is a view of the list: its text is there once.
      ;(this.#pieces[index] as Piece).bytes = list.subarray(at, end)
      list[end] = 0x2c // ,
      at = end + 1
    }
    list[list.length - 1] = 0x5d // ]
    return list
  }
}
