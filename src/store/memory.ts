import { createHash } from 'node:crypto'
import { joinParts, partBytes } from './list-reads.ts'
import { StartingCollection, type StoredCollection } from './starting.ts'
import {
  type Collection,
  type CollectionType,
  type Created,
  type Document,
  defaultSpace,
  type Full,
  highestNumber,
  type IfMatch,
  isRefusal,
  jsonOf,
  type ListRepresentation,
  maxInt64,
  type ReplaceOutcome,
  type Representation,
  type SpaceSummary,
  startingStateOf,
} from './store.ts'

export interface MemoryLimits {
  /** The largest number of documents of a collection in a space. */
  readonly maxItems: number
  /** The largest size of the documents of all spaces together, as `sizeOf` estimates it. */
  readonly maxBytes: number
}

/** G7: documents live in this process. `instanceId` keeps their entity tags apart from those of any other process. */
export function memorySpaces(types: readonly CollectionType[], instanceId: string, limits: MemoryLimits = unlimited) {
  const states = new Map(types.map((type) => [type.name, { type, starting: startingStateOf(type) }]))
  const sharedBudget = new Budget(limits.maxBytes)
  const spaces = new Map<string, Map<string, MemoryCollection>>()
  /** No space that was deleted has used this version, or a higher one. */
  let unusedVersion = 0

  function keep(space: string, collection: MemoryCollection): void {
    const collections = spaces.get(space) ?? new Map()
    spaces.set(space, collections.set(collection.type.name, collection))
  }

  /** Returns a collection with the starting documents, as far as there is memory. */
  const open = (type: CollectionType, id: string, budget: Budget) =>
    new MemoryCollection(type, id, limits.maxItems, budget, unusedVersion)

  function unwritten(name: string, space: string): Collection {
    const state = states.get(name)
    if (!state) throw new Error(`There is no collection ${name}.`)
    const { type, starting } = state
    const { documents, list } = starting
    const hash = createHash('sha256').update(`${instanceId} ${space}`).digest('base64url')
    const id = hash.slice(0, 8)
    const existing = () => spaces.get(space)?.get(name)
    const etag = etagOf(id, unusedVersion)
    const stored: StoredCollection = {
      isWritten: () => existing() !== undefined,
      list: () => existing()?.list(),
      get: (key) => existing()?.get(key) ?? 'not-found',
      create: (item, key) => existing()?.create(item, key),
      update: (key, item, ifMatch) => existing()?.update(key, item, ifMatch) ?? 'not-found',
      delete: (key, ifMatch) => existing()?.delete(key, ifMatch) ?? 'not-found',
      replaceAll: (documents, ifMatch) => existing()?.replaceAll(documents, ifMatch),
      make: (write) => {
        if (existing()) return write()
        const budget = new Budget(limits.maxBytes, sharedBudget)
        const made = open(type, id, budget)
        const hasRoom = made.size === documents.size && budget.replace(0, collectionOverheadBytes)
        if (hasRoom) keep(space, made)
        const outcome = hasRoom ? write() : 'memory-limit'
        if (isRefusal(outcome)) {
          budget.release()
          spaces.get(space)?.delete(name)
        }
        return outcome
      },
    }
    return new StartingCollection(stored, { documents, etag, list: { json: list, etag } })
  }

  // The default space always exists.
  for (const type of types) keep(defaultSpace, open(type, instanceId, sharedBudget))

  return {
    collection: (name: string, space: string): Collection => spaces.get(space)?.get(name) ?? unwritten(name, space),
    listSpaces: (): SpaceSummary[] =>
      [...spaces].map(([name, collections]) => ({
        name,
        items: Object.fromEntries([...collections].map(([name, { size }]) => [name, size])),
      })),
    deleteSpace(name: string): void {
      for (const { version, budget } of spaces.get(name)?.values() ?? []) {
        unusedVersion = Math.max(unusedVersion, version + 1)
        budget.release()
      }
      spaces.delete(name)
    },
    /** Number of documents of all spaces, by collection. */
    counts(): Record<string, number> {
      const countOf = (name: string) =>
        [...spaces.values()].reduce((sum, collections) => sum + (collections.get(name)?.size ?? 0), 0)
      return Object.fromEntries(types.map(({ name }) => [name, countOf(name)]))
    },
  }
}

const unlimited: MemoryLimits = { maxItems: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY }

const etagOf = (instanceId: string, version: number) => `"${instanceId}-${version}"`

/** A space with ten items takes 3,800 bytes, by measurement (`npm run bench:spaces`). */
const collectionOverheadBytes = 2_000

/** By measurement, an item takes 120 to 150 bytes more than its JSON, which takes 30 to 60 more than its texts. */
const itemOverheadBytes = 250

/** Matches the characters that JSON.stringify() may escape, or that take more than one byte in UTF-8. */
const unusual = /[^ !#-[\]-~]/

/**
 * Estimates the heap of a document with its JSON, which may be made later. A string with a character beyond Latin-1
 * takes two bytes per UTF-16 code unit.
 */
function sizeOf(key: string, item: object): number {
  let length = key.length
  let isWide = false
  for (const name in item) {
    const value = (item as Readonly<Record<string, unknown>>)[name]
    if (typeof value !== 'string') continue
    const isUnusual = unusual.test(value)
    length += isUnusual ? JSON.stringify(value).length : value.length
    isWide ||= isUnusual && isWideText(value)
  }
  return itemOverheadBytes + (isWide ? 2 * length : length)
}

const isWideText = (text: string) => Buffer.byteLength(text) !== text.length
const sizeOfText = (text: string) => (isWideText(text) ? 2 * text.length : text.length)

/** Limits the bytes that items take, so that clients cannot exhaust the heap. */
class Budget {
  readonly #maxBytes: number
  #parent: Budget | undefined
  #usedBytes = 0

  constructor(maxBytes: number, parent?: Budget) {
    this.#maxBytes = maxBytes
    this.#parent = parent
  }

  /** Reserves `after` bytes in place of `before`. If there is no room, returns false and changes nothing. */
  replace(before: number, after: number): boolean {
    if (after > before && this.#usedBytes - before + after > this.#maxBytes) return false
    if (this.#parent && !this.#parent.replace(before, after)) return false
    this.#usedBytes += after - before
    return true
  }

  /** Returns all bytes to the parent. Later reservations are not counted there: nothing refers to their documents. */
  release(): void {
    this.#parent?.replace(this.#usedBytes, 0)
    this.#parent = undefined
  }
}

/** The most documents of a segment of a list. Readers share the segments that no write has changed. */
const maxSegmentItems = 256

interface Segment {
  readonly entries: Entry[]
  /** The sum of the estimated sizes of its documents. */
  bytes: number
  /** The JSON of the segment, with a comma before each entry; undefined after a change. */
  buffer: Buffer | undefined
}

/** A document, which is serialized when it is read for the first time after a write. */
interface Entry {
  readonly key: string
  /** Undefined once `json` was made from it. */
  item: object | undefined
  json: string
  /** How many bytes of the budget the document takes. */
  bytes: number
  version: number
  readonly segment: Segment
}

/** Numbers are faster than texts as keys and for counting, but inexact with more digits. */
const maxExactDigits = 15
const after = (number: string) => `${number.length <= maxExactDigits ? Number(number) + 1 : BigInt(number) + 1n}`

/** Holds the documents of a collection by key, and their list in the order in which they were added. */
class MemoryCollection implements Collection {
  readonly type: CollectionType
  readonly budget: Budget
  readonly #instanceId: string
  readonly #maxItems: number
  readonly #isNumbered: boolean
  readonly #entries = new Map<number | string, Entry>()
  #segments: Segment[] = []
  /** The version of the last change; each change increments it. */
  version: number
  /** The list as it was last read; undefined after a change. */
  #list: ListRepresentation | undefined
  #lastNumber = '0'

  /** Begins with the starting documents, as far as there is memory. They and the list get this version. */
  constructor(type: CollectionType, instanceId: string, maxItems: number, budget: Budget, version: number) {
    this.type = type
    this.budget = budget
    this.version = version
    this.#instanceId = instanceId
    this.#maxItems = maxItems
    this.#isNumbered = type.isNumbered === true
    this.replaceAll(type.startingDocuments)
  }

  get size(): number {
    return this.#entries.size
  }

  list(): ListRepresentation {
    this.#list ??= { json: this.#serialize(), etag: this.#etagOf(this.version) }
    return this.#list
  }

  get(key: string): Representation | 'not-found' {
    const entry = this.#entries.get(this.#mapKey(key))
    return entry ? { json: this.#jsonOf(entry), etag: this.#etagOf(entry.version) } : 'not-found'
  }

  create(item: object, itemKey?: string): Created | 'in-use' | Full {
    if (itemKey !== undefined && this.#entries.has(itemKey)) return 'in-use'
    if (itemKey === undefined && this.#lastNumber === maxInt64) return 'item-limit'
    const key = itemKey ?? after(this.#lastNumber)
    const bytes = sizeOf(key, item)
    if (this.#entries.size >= this.#maxItems) return 'item-limit'
    if (!this.budget.replace(0, bytes)) return 'memory-limit'
    if (itemKey === undefined) this.#lastNumber = key
    const entry = this.#add(key, bytes, item, '', ++this.version)
    return { key, json: this.#jsonOf(entry), etag: this.#etagOf(entry.version) }
  }

  update(key: string, item: object, ifMatch?: IfMatch): Pick<Representation, 'etag'> | 'not-found' | 'changed' | Full {
    const entry = this.#find(key, ifMatch)
    if (typeof entry === 'string') return entry
    const bytes = sizeOf(key, item)
    if (!this.budget.replace(entry.bytes, bytes)) return 'memory-limit'
    entry.segment.bytes += bytes - entry.bytes
    entry.item = item
    entry.json = ''
    entry.bytes = bytes
    entry.version = ++this.version
    this.#invalidate(entry.segment)
    return { etag: this.#etagOf(entry.version) }
  }

  delete(key: string, ifMatch?: IfMatch): 'deleted' | 'not-found' | 'changed' {
    const entry = this.#find(key, ifMatch)
    if (typeof entry === 'string') return entry
    const { segment, bytes } = entry
    this.#entries.delete(this.#mapKey(key))
    this.budget.replace(bytes, 0)
    segment.entries.splice(segment.entries.indexOf(entry), 1)
    segment.bytes -= bytes
    if (segment.entries.length === 0) this.#segments.splice(this.#segments.indexOf(segment), 1)
    this.version++
    this.#invalidate(segment)
    return 'deleted'
  }

  replaceAll(documents: readonly Document[], ifMatch?: IfMatch): ReplaceOutcome {
    if (ifMatch && !ifMatch.includes(this.#etagOf(this.version))) return 'changed'
    const all = documents.map(({ key, json }) => ({ key, json, bytes: itemOverheadBytes + sizeOfText(json) }))
    let [bytesBefore, bytesAfter] = [0, 0]
    for (const { bytes } of this.#entries.values()) bytesBefore += bytes
    for (const { bytes } of all) bytesAfter += bytes
    if (all.length > this.#maxItems) return 'item-limit'
    if (!this.budget.replace(bytesBefore, bytesAfter)) return 'memory-limit'
    if (this.#isNumbered) {
      all.sort((a, b) => (BigInt(a.key) < BigInt(b.key) ? -1 : 1))
      this.#lastNumber = `${highestNumber(documents)}`
    }
    // Inserting the first documents into a new collection is no change.
    if (this.#list ?? this.#entries.size > 0) this.version++
    this.#entries.clear()
    this.#segments = []
    this.#list = undefined
    for (const { key, json, bytes } of all) this.#add(key, bytes, undefined, json, this.version)
    return 'replaced'
  }

  #find(key: string, ifMatch: IfMatch): Entry | 'not-found' | 'changed' {
    const entry = this.#entries.get(this.#mapKey(key))
    if (!entry) return 'not-found'
    return !ifMatch || ifMatch.includes(this.#etagOf(entry.version)) ? entry : 'changed'
  }

  #mapKey(key: string): number | string {
    return this.#isNumbered && key.length <= maxExactDigits ? Number(key) : key
  }

  #etagOf(version: number): string {
    return etagOf(this.#instanceId, version)
  }

  #jsonOf(entry: Entry): string {
    if (entry.item !== undefined) {
      entry.json = jsonOf(this.type, entry.key, entry.item)
      entry.item = undefined
      // This makes V8 join the parts of the string, which would take half as much memory again.
      Buffer.byteLength(entry.json)
    }
    return entry.json
  }

  #add(key: string, bytes: number, item: object | undefined, json: string, version: number): Entry {
    let segment = this.#segments.at(-1)
    if (!segment || segment.entries.length === maxSegmentItems || segment.bytes >= partBytes) {
      segment = { entries: [], bytes: 0, buffer: undefined }
      this.#segments.push(segment)
    }
    const entry = { key, item, json, bytes, version, segment }
    segment.entries.push(entry)
    segment.bytes += bytes
    this.#entries.set(this.#mapKey(key), entry)
    this.#invalidate(segment)
    return entry
  }

  #invalidate(segment: Segment): void {
    segment.buffer = undefined
    this.#list = undefined
  }

  #serialize(): readonly Buffer[] {
    const segments = this.#segments.map((segment) => {
      segment.buffer ??= Buffer.from(`,${segment.entries.map((entry) => this.#jsonOf(entry)).join(',')}`)
      return segment.buffer
    })
    return joinParts(segments)
  }
}
