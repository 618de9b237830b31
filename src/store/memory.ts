import { createHash } from 'node:crypto'
import { joinParts, partBytes } from './list-reads.ts'
import {
  defaultSpace,
  type Full,
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  isRefusal,
  type ListRepresentation,
  maxInt64,
  type Serializers,
  type SpaceSummary,
  type Spaces,
  type StoreA,
  type StoreB,
  type Stores,
} from './store.ts'

export interface MemoryLimits {
  /** The largest number of items of a profile in a space. */
  readonly maxItems: number
  /** The largest size of the items of all spaces together, as `sizeOf` estimates it. */
  readonly maxBytes: number
}

/** G7: items live in this process. `instanceId` keeps its entity tags apart from those of any other process. */
export class MemorySpaces implements Spaces {
  readonly #serializers: Serializers
  readonly #instanceId: string
  readonly #limits: MemoryLimits
  readonly #budget: Budget
  readonly #spaces = new Map<string, SpaceInMemory>()
  /** No space that was deleted has used this version, or a higher one. */
  #unusedVersion = 0

  constructor(serializers: Serializers, instanceId: string, limits: MemoryLimits = unlimited) {
    this.#serializers = serializers
    this.#instanceId = instanceId
    this.#limits = limits
    this.#budget = new Budget(limits.maxBytes)
    // It is always there.
    this.#spaces.set(defaultSpace, openSpace(serializers, instanceId, limits.maxItems, this.#budget))
  }

  space(name: string): Stores {
    return this.#spaces.get(name) ?? this.#unwritten(name)
  }

  listSpaces(): SpaceSummary[] {
    return [...this.#spaces].map(([name, space]) => ({ name, items: countsOf(space) }))
  }

  deleteSpace(name: string): void {
    const space = this.#spaces.get(name)
    if (!space) return
    const { itemsOfA, itemsOfB, budget } = space
    this.#unusedVersion = Math.max(this.#unusedVersion, itemsOfA.version + 1, itemsOfB.version + 1)
    budget.release()
    this.#spaces.delete(name)
  }

  /** Number of items of all spaces. */
  counts(): { a: number; b: number } {
    const all = [...this.#spaces.values()].map(countsOf)
    return { a: all.reduce((sum, { a }) => sum + a, 0), b: all.reduce((sum, { b }) => sum + b, 0) }
  }

  #isComplete(space: SpaceInMemory): boolean {
    const { a, b } = countsOf(space)
    return a === this.#serializers.a.startingItems.length && b === this.#serializers.b.startingItems.length
  }

  /** A space with the starting items. */
  #open(name: string, maxItems: number, budget: Budget): SpaceInMemory {
    const hash = createHash('sha256').update(`${this.#instanceId} ${name}`).digest('base64url')
    return openSpace(this.#serializers, hash.slice(0, 8), maxItems, budget, this.#unusedVersion)
  }

  /**
   * Reads see the starting items. A write is kept together with its space, unless it is refused; without room for the space,
   * it is refused for that reason only where it would have succeeded.
   */
  #unwritten(name: string): Stores {
    const read = () => this.#spaces.get(name) ?? this.#open(name, unlimited.maxItems, new Budget(unlimited.maxBytes))
    const write = <Outcome>(execute: (space: SpaceInMemory) => Outcome): Outcome | 'memory-limit' => {
      const existing = this.#spaces.get(name)
      if (existing) return execute(existing)
      const budget = new Budget(this.#limits.maxBytes, this.#budget)
      const opened = this.#open(name, this.#limits.maxItems, budget)
      const hasRoom = this.#isComplete(opened) && budget.replace(0, spaceOverheadBytes)
      const outcome = execute(hasRoom ? opened : read())
      if (hasRoom && !isRefusal(outcome)) this.#spaces.set(name, opened)
      else budget.release()
      return hasRoom || isRefusal(outcome) ? outcome : 'memory-limit'
    }
    return {
      a: {
        list: () => read().a.list(),
        get: (id) => read().a.get(id),
        create: (fields) => write(({ a }) => a.create(fields)),
        update: (id, fields, ifMatch) => write(({ a }) => a.update(id, fields, ifMatch)),
        delete: (id, ifMatch) => write(({ a }) => a.delete(id, ifMatch)),
        replaceAll: (items, ifMatch) => write(({ a }) => a.replaceAll(items, ifMatch)),
      },
      b: {
        list: () => read().b.list(),
        create: (item) => write(({ b }) => b.create(item)),
        replace: (item) => write(({ b }) => b.replace(item)),
        delete: (id) => write(({ b }) => b.delete(id)),
        replaceAll: (items, ifMatch) => write(({ b }) => b.replaceAll(items, ifMatch)),
      },
    }
  }
}

const unlimited: MemoryLimits = { maxItems: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY }

type SpaceInMemory = ReturnType<typeof openSpace>

/** A space with the starting items, as far as there is memory. The list and changes get this version and higher ones. */
function openSpace({ a, b }: Serializers, id: string, maxItems: number, budget: Budget, version = 0) {
  const itemsOfA = new MemoryItems<number | string, ItemA>(id, maxItems, budget, a.serialize)
  const itemsOfB = new MemoryItems<string, ItemB>(id, maxItems, budget, b.serialize)
  const space = { a: createStoreA(itemsOfA, a), b: createStoreB(itemsOfB, b), itemsOfA, itemsOfB, budget }
  for (const items of [itemsOfA, itemsOfB]) items.version = Math.max(items.version, version)
  return space
}

const countsOf = ({ itemsOfA, itemsOfB }: SpaceInMemory) => ({ a: itemsOfA.entries.size, b: itemsOfB.entries.size })

/** A space with ten items takes 3,800 bytes, by measurement (`npm run bench:spaces`). */
const spaceOverheadBytes = 2_000

/** An item takes 120 to 150 bytes besides its JSON, by measurement, and that 30 to 60 besides the texts of the item. */
const itemOverheadBytes = 250

/** What JSON.stringify escapes in a text that is well-formed. */
const escaped = /["\\\p{Cc}]/u

/**
 * Estimates the heap of an item with its JSON, which may be made later. A string with a character beyond Latin-1 takes two
 * bytes per UTF-16 code unit.
 */
function sizeOf<Item extends object>(key: number | string, item: Item): number {
  let length = typeof key === 'string' ? key.length : 0
  let isWide = false
  for (const name in item) {
    const value = item[name]
    if (typeof value !== 'string') continue
    length += escaped.test(value) ? JSON.stringify(value).length : value.length
    isWide ||= Buffer.byteLength(value) !== value.length
  }
  return itemOverheadBytes + (isWide ? 2 * length : length)
}

/** Limits the bytes that items take, so that clients cannot exhaust the heap. */
class Budget {
  readonly #maxBytes: number
  #parent: Budget | undefined
  #usedBytes = 0

  constructor(maxBytes: number, parent?: Budget) {
    this.#maxBytes = maxBytes
    this.#parent = parent
  }

  /** Reserves `after` bytes in place of `before`; false, and no change, if that is more than there is room for. */
  replace(before: number, after: number): boolean {
    if (after > before && this.#usedBytes - before + after > this.#maxBytes) return false
    if (this.#parent && !this.#parent.replace(before, after)) return false
    this.#usedBytes += after - before
    return true
  }

  /** Returns all bytes of a share. What requests in flight still reserve is no longer counted: it is garbage. */
  release(): void {
    this.#parent?.replace(this.#usedBytes, 0)
    this.#parent = undefined
  }
}

/** A list has segments of up to 256 items or about `partBytes`. A write serializes one again; slow readers share the others. */
const maxSegmentItems = 256

interface Segment<Item> {
  readonly entries: Entry<Item>[]
  /** Sum of the estimated sizes of its items. */
  bytes: number
  /** Its JSON with a comma before each entry; undefined after a change. */
  buffer: Buffer | undefined
}

/** An item is serialized when it is read for the first time after a write. */
interface Entry<Item> {
  /** Undefined once there is JSON. */
  item: Item | undefined
  json: string
  /** What the item takes of the budget. */
  bytes: number
  version: number
  readonly segment: Segment<Item>
}

/** Holds the items of a profile by key, and their list in the order in which they were added. */
class MemoryItems<Key extends number | string, Item extends object> {
  readonly #instanceId: string
  readonly #maxItems: number
  readonly #budget: Budget
  readonly #serializeItem: (item: Item) => string
  readonly entries = new Map<Key, Entry<Item>>()
  #segments: Segment<Item>[] = []
  /** The number of changes, if none was skipped. The next change gets a higher one. */
  version = 0
  /** The list as it was sent last; undefined after a change. */
  #list: ListRepresentation | undefined

  constructor(instanceId: string, maxItems: number, budget: Budget, serializeItem: (item: Item) => string) {
    this.#instanceId = instanceId
    this.#maxItems = maxItems
    this.#budget = budget
    this.#serializeItem = serializeItem
  }

  jsonOf(entry: Entry<Item>): string {
    if (entry.item !== undefined) {
      entry.json = this.#serializeItem(entry.item)
      entry.item = undefined
      // V8 then keeps one string in place of its parts, which would take half as much memory again.
      Buffer.byteLength(entry.json)
    }
    return entry.json
  }

  etagOf(version: number): string {
    return `"${this.#instanceId}-${version}"`
  }

  list(): ListRepresentation {
    this.#list ??= { json: this.#serialize(), etag: this.etagOf(this.version) }
    return this.#list
  }

  /** Adds an item under a key that no item has. */
  add(key: Key, item: Item): Entry<Item> | Full {
    const bytes = sizeOf(key, item)
    if (this.entries.size >= this.#maxItems) return 'item-limit'
    if (!this.#budget.replace(0, bytes)) return 'memory-limit'
    let segment = this.#segments.at(-1)
    if (!segment || segment.entries.length === maxSegmentItems || segment.bytes >= partBytes) {
      segment = { entries: [], bytes: 0, buffer: undefined }
      this.#segments.push(segment)
    }
    const entry = { item, json: '', bytes, version: this.#invalidate(segment), segment }
    segment.entries.push(entry)
    segment.bytes += bytes
    this.entries.set(key, entry)
    return entry
  }

  update(key: Key, entry: Entry<Item>, item: Item): Entry<Item> | 'memory-limit' {
    const bytes = sizeOf(key, item)
    if (!this.#budget.replace(entry.bytes, bytes)) return 'memory-limit'
    entry.segment.bytes += bytes - entry.bytes
    entry.item = item
    entry.json = ''
    entry.bytes = bytes
    entry.version = this.#invalidate(entry.segment)
    return entry
  }

  delete(key: Key, entry: Entry<Item>): 'deleted' {
    const { segment } = entry
    this.entries.delete(key)
    this.#budget.replace(entry.bytes, 0)
    segment.entries.splice(segment.entries.indexOf(entry), 1)
    segment.bytes -= entry.bytes
    if (segment.entries.length === 0) this.#segments.splice(this.#segments.indexOf(segment), 1)
    this.#invalidate(segment)
    return 'deleted'
  }

  replaceAll(
    items: readonly { readonly key: Key; readonly item: Item }[],
    ifMatch?: IfMatch,
  ): 'replaced' | 'changed' | Full {
    if (ifMatch && !ifMatch.includes(this.etagOf(this.version))) return 'changed'
    let [before, after] = [0, 0]
    for (const { bytes } of this.entries.values()) before += bytes
    for (const { key, item } of items) after += sizeOf(key, item)
    if (items.length > this.#maxItems) return 'item-limit'
    if (!this.#budget.replace(before, after)) return 'memory-limit'
    // There is room for all of them: each is counted when it is added.
    this.#budget.replace(after, 0)
    if (this.entries.size > 0) this.version++
    this.entries.clear()
    this.#segments = []
    this.#list = undefined
    for (const { key, item } of items) this.add(key, item)
    return 'replaced'
  }

  /** Returns the version of the new state. */
  #invalidate(segment: Segment<Item>): number {
    segment.buffer = undefined
    this.#list = undefined
    return ++this.version
  }

  #serialize(): readonly Buffer[] {
    const segments = this.#segments.map((segment) => {
      segment.buffer ??= Buffer.from(`,${segment.entries.map((entry) => this.jsonOf(entry)).join(',')}`)
      return segment.buffer
    })
    return joinParts(segments)
  }
}

/** Numbers are faster, as a key and to count; a longer id may not be exact as a number. */
const maxExactDigits = 15
const keyOf = (id: string): number | string => (id.length <= maxExactDigits ? Number(id) : id)
const idAfter = (id: string) => `${id.length <= maxExactDigits ? Number(id) + 1 : BigInt(id) + 1n}`

function createStoreA(items: MemoryItems<number | string, ItemA>, { startingItems }: Serializers['a']) {
  let lastId = '0'

  function find(key: number | string, ifMatch: IfMatch): Entry<ItemA> | 'not-found' | 'changed' {
    const entry = items.entries.get(key)
    if (!entry) return 'not-found'
    return !ifMatch || ifMatch.includes(items.etagOf(entry.version)) ? entry : 'changed'
  }

  function replaceAll(all: readonly ItemA[], ifMatch?: IfMatch) {
    const sorted = all.map((item) => ({ key: keyOf(item.id), item, number: BigInt(item.id) }))
    sorted.sort((one, other) => (one.number < other.number ? -1 : 1))
    const outcome = items.replaceAll(sorted, ifMatch)
    if (outcome === 'replaced') lastId = `${highestId(all)}`
    return outcome
  }

  replaceAll(startingItems)
  return {
    list: () => items.list(),
    get(id) {
      const entry = items.entries.get(keyOf(id))
      return entry ? { json: items.jsonOf(entry), etag: items.etagOf(entry.version) } : 'not-found'
    },
    create({ name, isComplete }) {
      if (lastId === maxInt64) return 'item-limit'
      const id = idAfter(lastId)
      const entry = items.add(keyOf(id), { id, name, isComplete, secret: null })
      if (typeof entry === 'string') return entry
      lastId = id
      return { id, json: items.jsonOf(entry), etag: items.etagOf(entry.version) }
    },
    update(id, { name, isComplete }, ifMatch) {
      const key = keyOf(id)
      const entry = find(key, ifMatch)
      if (typeof entry === 'string') return entry
      const updated = items.update(key, entry, { id, name, isComplete, secret: null })
      return typeof updated === 'string' ? updated : { etag: items.etagOf(updated.version) }
    },
    delete(id, ifMatch) {
      const key = keyOf(id)
      const entry = find(key, ifMatch)
      return typeof entry === 'string' ? entry : items.delete(key, entry)
    },
    replaceAll,
  } satisfies StoreA
}

function createStoreB(items: MemoryItems<string, ItemB>, { startingItems }: Serializers['b']) {
  const replaceAll = (all: readonly ItemB[], ifMatch?: IfMatch) =>
    items.replaceAll(
      all.map((item) => ({ key: item.id, item })),
      ifMatch,
    )
  replaceAll(startingItems)
  return {
    list: () => items.list(),
    create(item) {
      if (items.entries.get(item.id)) return 'in-use'
      const entry = items.add(item.id, item)
      return typeof entry === 'string' ? entry : { json: items.jsonOf(entry) }
    },
    replace(item) {
      const entry = items.entries.get(item.id)
      if (!entry) return 'not-found'
      const updated = items.update(item.id, entry, item)
      return typeof updated === 'string' ? updated : 'replaced'
    },
    delete(id) {
      const entry = items.entries.get(id)
      return entry ? items.delete(id, entry) : 'not-found'
    },
    replaceAll,
  } satisfies StoreB
}
