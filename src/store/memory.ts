import type { NamedItem, NamedStore, NumberedItem, NumberedStore, StartingItems, Stores } from './store.ts'

/** G7: items live in this process and go with it. */
export function memoryStores(starting: StartingItems): Stores {
  return { a: numberedStore(starting.a), b: namedStore(starting.b) }
}

// A Map lists its entries in order of insertion and keeps an entry's place when its value is replaced:
// that is the order of ids (A1), the order of creation (B1) and the place kept by a PUT (B7).

function numberedStore(starting: readonly NumberedItem[]): NumberedStore {
  const items = new Map(starting.map((item) => [item.id, item]))
  let lastId = starting.at(-1)?.id ?? 0n
  return {
    async list() {
      return [...items.values()]
    },
    async get(id) {
      return items.get(id) ?? 'not-found'
    },
    async create({ name, isComplete }) {
      lastId += 1n
      const item = { id: lastId, name, isComplete, secret: null }
      items.set(item.id, item)
      return item
    },
    async update(id, { name, isComplete }) {
      const item = items.get(id)
      if (!item) return 'not-found'
      items.set(id, { id, name, isComplete, secret: item.secret })
      return 'updated'
    },
    async delete(id) {
      return items.delete(id) ? 'deleted' : 'not-found'
    },
  }
}

function namedStore(starting: readonly NamedItem[]): NamedStore {
  const items = new Map(starting.map((item) => [item.id, item]))
  return {
    async list() {
      return [...items.values()]
    },
    async create(item) {
      if (items.has(item.id)) return 'in-use'
      items.set(item.id, item)
      return 'created'
    },
    async replace(item) {
      if (!items.has(item.id)) return 'not-found'
      items.set(item.id, item)
      return 'replaced'
    },
    async delete(id) {
      return items.delete(id) ? 'deleted' : 'not-found'
    },
  }
}
