/** How many items stand on a piece: a change costs the writing of one piece. */
const pieceSize = 256
/** A list up to this size is put together. Of a longer one, whoever is slow to take it holds what has changed since. */
const mostJoined = 64 * 1024

/** A part of the list, and its text as long as nothing on it has changed. */
interface Piece {
  readonly entries: Entry[]
  bytes: Buffer | undefined
  isFirst: boolean
}

/** An item as it is sent. It is put into words when it is written, not when it is read. */
export interface Entry {
  json: string
  version: number
  readonly piece: Piece
}

/** Items in order. Their list is kept as text, of which a change spoils a piece. */
export class Shelf {
  #pieces: Piece[] = []
  #list: readonly Buffer[] | undefined
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

  /** The list as JSON, in one part or several. */
  get list(): readonly Buffer[] {
    this.#list ??= this.#write()
    return this.#list
  }

  #newPiece(): Piece {
    const piece = { entries: [], bytes: undefined, isFirst: false }
    this.#pieces.push(piece)
    return piece
  }

  #spoil(entry: Entry): void {
    entry.version = ++this.version
    entry.piece.bytes = undefined
    this.#list = undefined
  }

  #write(): readonly Buffer[] {
    const parts = this.#pieces.map((piece, at) => bytesOf(piece, at === 0))
    parts.push(parts.length === 0 ? emptyList : end)
    const size = parts.reduce((sum, { length }) => sum + length, 0)
    return size > mostJoined ? parts : [Buffer.concat(parts, size)]
  }
}

const emptyList = Buffer.from('[]')
const end = Buffer.from(']')

function bytesOf(piece: Piece, isFirst: boolean): Buffer {
  if (!piece.bytes || piece.isFirst !== isFirst)
    piece.bytes = Buffer.from(`${isFirst ? '[' : ','}${piece.entries.map(({ json }) => json).join(',')}`)
  piece.isFirst = isFirst
  return piece.bytes
}
