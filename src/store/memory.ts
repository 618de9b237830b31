import { type Entry, SerializedList } from './serialized-list.ts'
import {
  type Full,
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  maxInt64,
  type Serializers,
  type StoreA,
  type StoreB,
  type Stores,
} from './store.ts'

export interface MemoryLimits {
  /** In each profile. */
  readonly maxItems: number
  /** For the items of all profiles together, as `sizeOf` estimates them. */
  readonly maxBytes: number
}

/** G7: items live in this process. `instanceId` keeps its entity tags apart from those of any other process. */
export function memoryStores(
  { a, b }: Serializers,
  instanceId: string,
  limits: MemoryLimits = { maxItems: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY },
  budget = new Budget(limits.maxBytes),
): MemoryStores {
  const storeA = createStoreA(a, instanceId, limits.maxItems, budget)
  const storeB = createStoreB(b, instanceId, limits.maxItems, budget)
  return {
    a: storeA,
    b: storeB,
    counts: () => ({ a: storeA.count(), b: storeB.count() }),
    openAnother(anotherId) {
      const share = budget.share()
      const another = memoryStores({ a, b }, anotherId, limits, share)
      const { a: countA, b: countB } = another.counts()
      const isComplete = countA === a.startingItems.length && countB === b.startingItems.length
      if (isComplete && share.replace(0, storesOverheadBytes)) return another
      another.dispose()
      return 'memory-limit'
    },
    dispose: () => budget.release(),
  }
}

export interface MemoryStores extends Stores {
  counts(): { a: number; b: number }
  /** Stores with items of their own, within the same budget. */
  openAnother(instanceId: string): MemoryStores | 'memory-limit'
  /** Returns the memory to the budget. */
  dispose(): void
}

/** Of a sandbox without items, its routes included; measured as 38,000 bytes. */
const storesOverheadBytes = 40_000

interface Counted {
  count(): number
}

/** Map, Set and object of an item; measured as 120 to 150 bytes. */
const itemOverheadBytes = 200

/** Heap of an item. A string with any character beyond Latin-1 takes two bytes per UTF-16 code unit. */
const sizeOf = (json: string, key = '') =>
  itemOverheadBytes +
  (Buffer.byteLength(json) === json.length ? json.length + key.length : 2 * (json.length + key.length))

/** Bytes that the items may take, so that clients cannot exhaust the heap. */
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

  /** A budget that takes its bytes from this one. */
  share(): Budget {
    return new Budget(this.#maxBytes, this)
  }

  /** Returns all bytes of a share. What requests in flight still reserve is no longer counted: it is garbage. */
  release(): void {
    this.#parent?.replace(this.#usedBytes, 0)
    this.#parent = undefined
  }
}

/** Serialized only when the body is needed: a request with If-None-Match may not need it. */
class LazyRepresentation {
  readonly etag: string
  readonly #list: SerializedList

  constructor(list: SerializedList, instanceId: string) {
    this.etag = etagOf(instanceId, list.version)
    this.#list = list
  }

  get json(): readonly Buffer[] {
    return this.#list.buffers
  }
}

const etagOf = (instanceId: string, version: number) => `"${instanceId}-${version}"`

function usedBytes(entries: ReadonlyMap<unknown, Entry>): number {
  let sum = 0
  for (const { bytes } of entries.values()) sum += bytes
  return sum
}

/** Numbers are faster, as a key and to count; a longer id may not be exact as a number. */
const isExact = (id: string) => id.length <= 15
const keyOf = (id: string): number | string => (isExact(id) ? Number(id) : id)
const idAfter = (id: string) => (isExact(id) ? `${Number(id) + 1}` : `${BigInt(id) + 1n}`)

function createStoreA(
  { startingItems, serialize }: Serializers['a'],
  instanceId: string,
  maxItems: number,
  budget: Budget,
): StoreA & Counted {
  const list = new SerializedList()
  const entries = new Map<number | string, Entry>()
  const secrets = new Map<string, string>()
  let lastId = '0'

  function add(id: string, json: string): Entry | Full {
    const bytes = sizeOf(json)
    if (entries.size >= maxItems) return 'item-limit'
    if (!budget.replace(0, bytes)) return 'memory-limit'
    const entry = list.add(json, bytes)
    entries.set(keyOf(id), entry)
    return entry
  }

  function replaceAll(items: readonly ItemA[]): 'replaced' | Full {
    const all = items.map((item) => ({ ...item, json: serialize(item), number: BigInt(item.id) }))
    all.sort((one, other) => (one.number < other.number ? -1 : 1))
    const bytes = all.reduce((sum, { json }) => sum + sizeOf(json), 0)
    if (all.length > maxItems) return 'item-limit'
    if (!budget.replace(usedBytes(entries), bytes)) return 'memory-limit'
    list.clear()
    entries.clear()
    secrets.clear()
    lastId = `${highestId(items)}`
    for (const { id, json, secret } of all) {
      entries.set(keyOf(id), list.add(json, sizeOf(json)))
      if (secret !== null) secrets.set(id, secret)
    }
    return 'replaced'
  }

  replaceAll(startingItems)
  const matches = (ifMatch: IfMatch, { version }: Entry) => !ifMatch || ifMatch.includes(etagOf(instanceId, version))
  return {
    count: () => entries.size,
    list: () => new LazyRepresentation(list, instanceId),
    get(id) {
      const entry = entries.get(keyOf(id))
      return entry ? { json: entry.json, etag: etagOf(instanceId, entry.version) } : 'not-found'
    },
    create({ name, isComplete }) {
      if (lastId === maxInt64) return 'item-limit'
      const id = idAfter(lastId)
      const entry = add(id, serialize({ id, name, isComplete, secret: null }))
      if (typeof entry === 'string') return entry
      lastId = id
      return { id, json: entry.json, etag: etagOf(instanceId, entry.version) }
    },
    update(id, { name, isComplete }, ifMatch) {
      const entry = entries.get(keyOf(id))
      if (!entry) return 'not-found'
      if (!matches(ifMatch, entry)) return 'changed'
      const json = serialize({ id, name, isComplete, secret: null })
      const bytes = sizeOf(json)
      if (!budget.replace(entry.bytes, bytes)) return 'memory-limit'
      list.change(entry, json, bytes)
      return 'updated'
    },
    delete(id, ifMatch) {
      const entry = entries.get(keyOf(id))
      if (!entry) return 'not-found'
      if (!matches(ifMatch, entry)) return 'changed'
      entries.delete(keyOf(id))
      if (secrets.size > 0) secrets.delete(id)
      budget.replace(entry.bytes, 0)
      list.remove(entry)
      return 'deleted'
    },
    replaceAll,
    secretOf: (id) => (entries.has(keyOf(id)) ? (secrets.get(id) ?? null) : undefined),
  }
}

function createStoreB(
  { startingItems, serialize }: Serializers['b'],
  instanceId: string,
  maxItems: number,
  budget: Budget,
): StoreB & Counted {
  const list = new SerializedList()
  const entries = new Map<string, Entry>()

  function add(id: string, json: string): Entry | Full {
    const bytes = sizeOf(json, id)
    if (entries.size >= maxItems) return 'item-limit'
    if (!budget.replace(0, bytes)) return 'memory-limit'
    const entry = list.add(json, bytes)
    entries.set(id, entry)
    return entry
  }

  function replaceAll(items: readonly ItemB[]): 'replaced' | Full {
    const all = items.map((item) => ({ id: item.id, json: serialize(item) }))
    const bytes = all.reduce((sum, { id, json }) => sum + sizeOf(json, id), 0)
    if (all.length > maxItems) return 'item-limit'
    if (!budget.replace(usedBytes(entries), bytes)) return 'memory-limit'
    list.clear()
    entries.clear()
    for (const { id, json } of all) entries.set(id, list.add(json, sizeOf(json, id)))
    return 'replaced'
  }

  replaceAll(startingItems)
  return {
    count: () => entries.size,
    list: () => new LazyRepresentation(list, instanceId),
    replaceAll,
    create(item) {
      if (entries.has(item.id)) return 'in-use'
      const entry = add(item.id, serialize(item))
      return typeof entry === 'string' ? entry : { json: entry.json }
    },
    replace(item) {
      const entry = entries.get(item.id)
      if (!entry) return 'not-found'
      const json = serialize(item)
      const bytes = sizeOf(json, item.id)
      if (!budget.replace(entry.bytes, bytes)) return 'memory-limit'
      list.change(entry, json, bytes)
      return 'replaced'
    },
    delete(id) {
      const entry = entries.get(id)
      if (!entry) return 'not-found'
      entries.delete(id)
      budget.replace(entry.bytes, 0)
      list.remove(entry)
      return 'deleted'
    },
  }
}
