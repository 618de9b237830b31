import { type Entry, Shelf } from './shelf.ts'
import type { Condition, Kinds, NamedStore, NumberedStore, Stores } from './store.ts'

/**
 * G7: items live in this process and go with it. `mark` tells the tags of this process from those of any other;
 * `maxItems` is how many of each kind there is room for.
 */
export function memoryStores({ a, b }: Kinds, mark: string, maxItems = Number.POSITIVE_INFINITY) {
  return { a: numberedStore(a, mark, maxItems), b: namedStore(b, mark, maxItems) } satisfies Stores
}

interface Counted {
  count(): number
}

const tagger = (mark: string) => (version: number) => `"${mark}-${version}"`

/** Looks at the list's text only when it is asked for. */
const listOn = (shelf: Shelf, tagOf: (version: number) => string) => ({
  tag: tagOf(shelf.version),
  get json() {
    return shelf.list
  },
})

function numberedStore({ startingItems, wire }: Kinds['a'], mark: string, maxItems: number): NumberedStore & Counted {
  const shelf = new Shelf()
  const entries = new Map(startingItems.map((item) => [item.id, shelf.add(wire(item))]))
  const secrets = new Map(startingItems.map(({ id, secret }) => [id, secret]))
  const tagOf = tagger(mark)
  let lastId = BigInt(startingItems.at(-1)?.id ?? 0)

  const isMet = (condition: Condition, { version }: Entry) => !condition || condition.includes(tagOf(version))
  return {
    count: () => entries.size,
    list: () => listOn(shelf, tagOf),
    get(id) {
      const entry = entries.get(id)
      return entry ? { json: entry.json, tag: tagOf(entry.version) } : 'not-found'
    },
    create({ name, isComplete }) {
      if (entries.size >= maxItems) return 'full'
      const id = `${++lastId}`
      const entry = shelf.add(wire({ id, name, isComplete, secret: null }))
      entries.set(id, entry)
      return { id, json: entry.json, tag: tagOf(entry.version) }
    },
    update(id, { name, isComplete }, condition) {
      const entry = entries.get(id)
      if (!entry) return 'not-found'
      if (!isMet(condition, entry)) return 'changed'
      shelf.change(entry, wire({ id, name, isComplete, secret: null }))
      return 'updated'
    },
    delete(id, condition) {
      const entry = entries.get(id)
      if (!entry) return 'not-found'
      if (!isMet(condition, entry)) return 'changed'
      entries.delete(id)
      secrets.delete(id)
      shelf.remove(entry)
      return 'deleted'
    },
    secretOf: (id) => (entries.has(id) ? (secrets.get(id) ?? null) : undefined),
  }
}

function namedStore({ startingItems, wire }: Kinds['b'], mark: string, maxItems: number): NamedStore & Counted {
  const shelf = new Shelf()
  const entries = new Map(startingItems.map((item) => [item.id, shelf.add(wire(item))]))
  const tagOf = tagger(mark)
  return {
    count: () => entries.size,
    list: () => listOn(shelf, tagOf),
    create(item) {
      if (entries.has(item.id)) return 'in-use'
      if (entries.size >= maxItems) return 'full'
      const entry = shelf.add(wire(item))
      entries.set(item.id, entry)
      return { json: entry.json }
    },
    replace(item) {
      const entry = entries.get(item.id)
      if (!entry) return 'not-found'
      shelf.change(entry, wire(item))
      return 'replaced'
    },
    delete(id) {
      const entry = entries.get(id)
      if (!entry) return 'not-found'
      entries.delete(id)
      shelf.remove(entry)
      return 'deleted'
    },
  }
}
