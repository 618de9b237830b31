import { joinSegments, maxSegmentItems, maxSegmentLength, serializeSegment } from '../serialized-list.ts'
import type { ListRepresentation, Representation } from '../store.ts'
import type { Database, Statement } from './file.ts'

/** An item of the list: its key, by which the list is ordered, and its JSON. */
export interface Row {
  readonly key: string
  readonly json: string
}

export interface CacheOptions {
  /** How old the version may be before it is read from the file again; 0: it is read for each request. */
  readonly maxAgeMs: number
  readonly monotonicNow: () => number
}

interface Segment {
  /** The lowest key that belongs here; the next segment begins with the first one that does not. */
  readonly from: bigint
  /** Undefined after a change. */
  bytes: Buffer | undefined
}

const [minInt64, maxInt64] = [-(2n ** 63n), 2n ** 63n - 1n]
const wholeList: Segment[] = [{ from: minInt64, bytes: undefined }]
/** Of the JSON of cached items; beyond it the cache starts anew. */
const maxItemsLength = 32 * 2 ** 20

/** What reads of a profile return: read from the file again only where it has changed. */
export class Cache {
  readonly #db: Database
  readonly #profile: string
  readonly #options: CacheOptions
  readonly #selectVersion: Statement
  readonly #readRows: (from: string, to: string) => Row[]
  /** That of the file when it was last read, plus the changes that this process has made since. */
  #version = -1
  #validUntil = Number.NEGATIVE_INFINITY
  #segments = wholeList
  #list: ListRepresentation | undefined
  #items = new Map<string, Representation>()
  #itemsLength = 0

  /** `readRows` reads the items from one key to another, in order. */
  constructor(db: Database, profile: string, readRows: (from: string, to: string) => Row[], options: CacheOptions) {
    this.#db = db
    this.#profile = profile
    this.#options = options
    this.#selectVersion = db.prepare('select version from lists where profile = ?')
    this.#readRows = readRows
  }

  list(): ListRepresentation {
    this.#validate()
    // Version and items of the same state, whatever other processes write.
    this.#list ??= this.#db.transaction('deferred', () => {
      this.#readVersion()
      return this.#readList()
    })
    return this.#list
  }

  item(key: string): Representation | undefined {
    this.#validate()
    return this.#items.get(key)
  }

  /** Adds an item as it was just read from the file. */
  add(key: string, item: Representation): Representation {
    this.#itemsLength += item.json.length
    if (this.#itemsLength > maxItemsLength) {
      this.#items.clear()
      this.#itemsLength = item.json.length
    }
    this.#items.set(key, item)
    return item
  }

  /** This process has changed one item. */
  invalidate(key: string): void {
    this.#version++
    this.#list = undefined
    this.#items.delete(key)
    const segment = this.#segments.findLast(({ from }) => from <= BigInt(key))
    if (segment) segment.bytes = undefined
  }

  /** This process changes many items: the next read begins with the version in the file. */
  expire(): void {
    this.#validUntil = Number.NEGATIVE_INFINITY
  }

  #validate(): void {
    const { maxAgeMs, monotonicNow } = this.#options
    if (maxAgeMs > 0) {
      const now = monotonicNow()
      if (now < this.#validUntil) return
      this.#validUntil = now + maxAgeMs
    }
    this.#readVersion()
  }

  /** Drops everything when it is another one: another process has changed items. */
  #readVersion(): void {
    const version = Number(this.#selectVersion.all([this.#profile])[0]?.[0])
    if (version === this.#version) return
    this.#version = version
    this.#segments = wholeList
    this.#list = undefined
    this.#items.clear()
    this.#itemsLength = 0
  }

  #readList(): ListRepresentation {
    const segments = this.#segments
    this.#segments = segments.flatMap((segment, index) => {
      const to = (segments[index + 1]?.from ?? maxInt64 + 1n) - 1n
      return segment.bytes ? segment : this.#readSegments(segment.from, to)
    })
    const json = joinSegments(this.#segments.map(({ bytes }) => bytes as Buffer))
    return { json, etag: `"${this.#version}"` }
  }

  #readSegments(from: bigint, to: bigint): Segment[] {
    const segments: Segment[] = []
    let items: string[] = []
    let length = 0
    let first = from
    for (const { key, json } of this.#readRows(`${from}`, `${to}`)) {
      if (items.length === maxSegmentItems || length >= maxSegmentLength) {
        segments.push({ from: first, bytes: serializeSegment(items) })
        items = []
        length = 0
        first = BigInt(key)
      }
      items.push(json)
      length += json.length
    }
    return [...segments, { from: first, bytes: serializeSegment(items) }]
  }
}
