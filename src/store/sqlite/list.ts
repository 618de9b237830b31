import { joinSegments, maxSegmentItems, maxSegmentLength, serializeSegment } from '../serialized-list.ts'
import type { ListRepresentation } from '../store.ts'
import type { Database, Statement } from './file.ts'

/** An item of the list: its key, by which the list is ordered, and its JSON. */
export interface Row {
  readonly key: string
  readonly json: string
}

interface Segment {
  /** The lowest key that belongs here; the next segment begins with the first one that does not. */
  readonly from: bigint
  /** Undefined after a change. */
  bytes: Buffer | undefined
}

const [minInt64, maxInt64] = [-(2n ** 63n), 2n ** 63n - 1n]

/** The list of a profile as JSON, read again only where it has changed. */
export class CachedList {
  readonly #db: Database
  readonly #profile: string
  readonly #selectVersion: Statement
  readonly #readRows: (from: string, to: string) => Row[]
  #segments: Segment[] = []
  #buffers: readonly Buffer[] | undefined
  /** That of the file when the segments were read, plus the changes that this process has made since. */
  #version: number | undefined

  /** `readRows` reads the items from one key to another, in order. */
  constructor(db: Database, profile: string, readRows: (from: string, to: string) => Row[]) {
    this.#db = db
    this.#profile = profile
    this.#selectVersion = db.prepare('select version from lists where profile = ?')
    this.#readRows = readRows
  }

  read(): ListRepresentation {
    const version = this.#readVersion()
    const json = this.#buffers
    if (json && version === this.#version) return { json, etag: etagOf(version) }
    // Version and items of the same state, whatever other processes write.
    return this.#db.transaction('deferred', () => this.#update())
  }

  /** This process has changed one item. */
  invalidate(key: string): void {
    if (this.#version === undefined) return
    this.#version++
    this.#buffers = undefined
    const segment = this.#segments.findLast(({ from }) => from <= BigInt(key))
    if (segment) segment.bytes = undefined
  }

  /** Counts the changes, by any process. */
  #readVersion(): number {
    return Number(this.#selectVersion.all([this.#profile])[0]?.[0])
  }

  #update(): ListRepresentation {
    const version = this.#readVersion()
    const segments: Segment[] = version === this.#version ? this.#segments : [{ from: minInt64, bytes: undefined }]
    this.#segments = segments.flatMap((segment, index) => {
      const to = (segments[index + 1]?.from ?? maxInt64 + 1n) - 1n
      return segment.bytes ? segment : this.#readSegments(segment.from, to)
    })
    this.#version = version
    const json = joinSegments(this.#segments.map(({ bytes }) => bytes as Buffer))
    this.#buffers = json
    return { json, etag: etagOf(version) }
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

const etagOf = (version: number) => `"${version}"`
