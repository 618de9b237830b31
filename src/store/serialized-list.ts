/** A write serializes one segment of the list again, of at most 256 items and about 256 KiB. */
export const maxSegmentItems = 256
export const maxSegmentLength = 256 * 1024
/** Shorter lists are one buffer. Of a longer one, slow readers share the segments that have not changed since. */
const maxJoinedBytes = 64 * 1024

interface Segment {
  readonly entries: Entry[]
  /** Of the JSON of its entries. */
  length: number
  /** Undefined after a change. */
  bytes: Buffer | undefined
}

/** An item, serialized on write; reads copy bytes. */
export interface Entry {
  json: string
  /** What it takes of the memory budget. */
  bytes: number
  version: number
  readonly segment: Segment
}

/** Items in order, and their list as JSON. */
export class SerializedList {
  #segments: Segment[] = []
  #buffers: readonly Buffer[] | undefined
  /** Counts the changes. */
  version = 0

  add(json: string, bytes: number): Entry {
    let segment = this.#segments.at(-1)
    if (!segment || segment.entries.length === maxSegmentItems || segment.length >= maxSegmentLength) {
      segment = { entries: [], length: 0, bytes: undefined }
      this.#segments.push(segment)
    }
    segment.length += json.length
    const entry = { json, bytes, version: 0, segment }
    segment.entries.push(entry)
    this.#invalidate(entry)
    return entry
  }

  change(entry: Entry, json: string, bytes: number): void {
    entry.segment.length += json.length - entry.json.length
    entry.json = json
    entry.bytes = bytes
    this.#invalidate(entry)
  }

  remove(entry: Entry): void {
    const { segment } = entry
    segment.entries.splice(segment.entries.indexOf(entry), 1)
    segment.length -= entry.json.length
    if (segment.entries.length === 0) this.#segments.splice(this.#segments.indexOf(segment), 1)
    this.#invalidate(entry)
  }

  clear(): void {
    if (this.#segments.length > 0) this.version++
    this.#segments = []
    this.#buffers = undefined
  }

  get buffers(): readonly Buffer[] {
    this.#buffers ??= joinSegments(
      this.#segments.map((segment) => {
        segment.bytes ??= serializeSegment(segment.entries.map(({ json }) => json))
        return segment.bytes
      }),
    )
    return this.#buffers
  }

  #invalidate(entry: Entry): void {
    entry.version = ++this.version
    entry.segment.bytes = undefined
    this.#buffers = undefined
  }
}

/** Each item with a comma in front. */
export const serializeSegment = (items: readonly string[]): Buffer =>
  Buffer.from(items.length === 0 ? '' : `,${items.join(',')}`)

const [openingBracket, closingBracket] = [Buffer.from('['), Buffer.from(']')]

/** A JSON array of the items in all segments. */
export function joinSegments(segments: readonly Buffer[]): readonly Buffer[] {
  const [first, ...others] = segments.filter(({ length }) => length > 0)
  const buffers = [openingBracket, ...(first ? [first.subarray(1)] : []), ...others, closingBracket]
  const length = buffers.reduce((sum, buffer) => sum + buffer.length, 0)
  return length > maxJoinedBytes ? buffers : [Buffer.concat(buffers, length)]
}
