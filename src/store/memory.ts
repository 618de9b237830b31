import { type Entry, SerializedList } from './serialized-list.ts'
import type { IfMatch, NamedStore, NumberedStore, Serializers, Stores } from './store.ts'

/** G7: items live in this process. `instanceId` keeps its entity tags apart from those of any other process. */
export function memoryStores(
  { a, b }: Serializers,
  instanceId: string,
  maxItems = Number.POSITIVE_INFINITY,
): Stores & { counts(): { a: number; b: number } } {
  const [storeA, storeB] = [numberedStore(a, instanceId, maxItems), namedStore(b, instanceId, maxItems)]
  return { a: storeA, b: storeB, counts: () => ({ a: storeA.count(), b: storeB.count() }) }
}

interface Counted {
  count(): number
}

/** Serialized only when the body is needed: a request with If-None-Match may not need it. */
const representation = (list: SerializedList, instanceId: string) => ({
  etag: etagOf(instanceId, list.version),
  get json() {
    return list.buffers
  },
})

const etagOf = (instanceId: string, version: number) => `"${instanceId}-${version}"`

/** Numbers make a faster Map than strings; longer ids do not fit into one. */
const keyOf = (id: string): number | string => (id.length <= 15 ? Number(id) : id)

function numberedStore(
  { startingItems, serialize }: Serializers['a'],
  instanceId: string,
  maxItems: number,
): NumberedStore & Counted {
  const list = new SerializedList()
  const entries = new Map(startingItems.map((item) => [keyOf(item.id), list.add(serialize(item))]))
  const secrets = new Map(startingItems.flatMap(({ id, secret }) => (secret === null ? [] : [[id, secret]])))
  let lastId = BigInt(startingItems.at(-1)?.id ?? 0)

  const matches = (ifMatch: IfMatch, { version }: Entry) => !ifMatch || ifMatch.includes(etagOf(instanceId, version))
  return {
    count: () => entries.size,
    list: () => representation(list, instanceId),
    get(id) {
      const entry = entries.get(keyOf(id))
      return entry ? { json: entry.json, etag: etagOf(instanceId, entry.version) } : 'not-found'
    },
    create({ name, isComplete }) {
      if (entries.size >= maxItems) return 'full'
      const id = `${++lastId}`
      const entry = list.add(serialize({ id, name, isComplete, secret: null }))
      entries.set(keyOf(id), entry)
      return { id, json: entry.json, etag: etagOf(instanceId, entry.version) }
    },
    update(id, { name, isComplete }, ifMatch) {
      const entry = entries.get(keyOf(id))
      if (!entry) return 'not-found'
      if (!matches(ifMatch, entry)) return 'changed'
      list.change(entry, serialize({ id, name, isComplete, secret: null }))
      return 'updated'
    },
    delete(id, ifMatch) {
      const entry = entries.get(keyOf(id))
      if (!entry) return 'not-found'
      if (!matches(ifMatch, entry)) return 'changed'
      entries.delete(keyOf(id))
      if (secrets.size > 0) secrets.delete(id)
      list.remove(entry)
      return 'deleted'
    },
    secretOf: (id) => (entries.has(keyOf(id)) ? (secrets.get(id) ?? null) : undefined),
  }
}

function namedStore(
  { startingItems, serialize }: Serializers['b'],
  instanceId: string,
  maxItems: number,
): NamedStore & Counted {
  const list = new SerializedList()
  const entries = new Map(startingItems.map((item) => [item.id, list.add(serialize(item))]))
  return {
    count: () => entries.size,
    list: () => representation(list, instanceId),
    create(item) {
      if (entries.has(item.id)) return 'in-use'
      if (entries.size >= maxItems) return 'full'
      const entry = list.add(serialize(item))
      entries.set(item.id, entry)
      return { json: entry.json }
    },
    replace(item) {
      const entry = entries.get(item.id)
      if (!entry) return 'not-found'
      list.change(entry, serialize(item))
      return 'replaced'
    },
    delete(id) {
      const entry = entries.get(id)
      if (!entry) return 'not-found'
      entries.delete(id)
      list.remove(entry)
      return 'deleted'
    },
  }
}
