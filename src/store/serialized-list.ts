/** A write re-serializes one segment of the list: up to so many items, or as many as have so much JSON. */
const maxSegmentItems = 256
const maxSegmentLength = 256 * 1024
/** Shorter lists are one buffer. Of a longer one, slow readers share the segments that have not changed since. */
const maxJoinedBytes = 64 * 1024

interface Segment {
  readonly entries: Set<Entry>
  /** Of the JSON of its entries. */
  length: number
  /** Undefined after a change. */
  bytes: Buffer | undefined
  isFirst: boolean
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
    if (!segment || segment.entries.size === maxSegmentItems || segment.length >= maxSegmentLength) {
      segment = { entries: new Set(), length: 0, bytes: undefined, isFirst: false }
      this.#segments.push(segment)
    }
    segment.length += json.length
    const entry = { json, bytes, version: 0, segment }
    segment.entries.add(entry)
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
    segment.entries.delete(entry)
    segment.length -= entry.json.length
    if (segment.entries.size === 0) this.#segments.splice(this.#segments.indexOf(segment), 1)
    this.#invalidate(entry)
  }

  clear(): void {
    if (this.#segments.length > 0) this.version++
    this.#segments = []
    this.#buffers = undefined
  }

  get buffers(): readonly Buffer[] {
    this.#buffers ??= this.#serialize()
    return this.#buffers
  }

  #invalidate(entry: Entry): void {
    entry.version = ++this.version
    entry.segment.bytes = undefined
    this.#buffers = undefined
  }

  #serialize(): readonly Buffer[] {
    const buffers = this.#segments.map((segment, index) => serializeSegment(segment, index === 0))
    buffers.push(Buffer.from(buffers.length === 0 ? '[]' : ']'))
    const length = buffers.reduce((sum, buffer) => sum + buffer.length, 0)
    return length > maxJoinedBytes ? buffers : [Buffer.concat(buffers, length)]
  }
}

function serializeSegment(segment: Segment, isFirst: boolean): Buffer {
  if (!segment.bytes || segment.isFirst !== isFirst)
    segment.bytes = Buffer.from(`${isFirst ? '[' : ','}${Array.from(segment.entries, ({ json }) => json).join(',')}`)
  segment.isFirst = isFirst
  return segment.bytes
}
