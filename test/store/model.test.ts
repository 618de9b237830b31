import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import type { NamedItem, NamedStore, NumberedStore } from '../../src/store/store.ts'
import { itemsIn, stores } from '../support/stores.ts'

/** What a store does, written down as plainly as can be: nothing is shared with any store. */
class NumberedModel {
  items: { id: number; name: string | null; isComplete: boolean }[] = []
  lastId = 0

  create(name: string | null, isComplete: boolean): string {
    const item = { id: ++this.lastId, name, isComplete }
    this.items.push(item)
    return JSON.stringify(item)
  }

  get(id: number): string {
    const item = this.items.find((one) => one.id === id)
    return item ? JSON.stringify(item) : 'not-found'
  }

  update(id: number, name: string | null, isComplete: boolean): boolean {
    const at = this.items.findIndex((item) => item.id === id)
    if (at < 0) return false
    this.items[at] = { id, name, isComplete }
    return true
  }

  delete(id: number): string {
    const before = this.items.length
    this.items = this.items.filter((item) => item.id !== id)
    return this.items.length < before ? 'deleted' : 'not-found'
  }
}

class NamedModel {
  items: NamedItem[] = []

  create(item: NamedItem): string {
    if (this.items.some(({ id }) => id === item.id)) return 'in-use'
    this.items.push(item)
    return 'created'
  }

  replace(item: NamedItem): string {
    const at = this.items.findIndex(({ id }) => id === item.id)
    if (at < 0) return 'not-found'
    this.items[at] = item
    return 'replaced'
  }

  delete(id: string): string {
    const before = this.items.length
    this.items = this.items.filter((item) => item.id !== id)
    return this.items.length < before ? 'deleted' : 'not-found'
  }
}

const text = fc.string({ unit: 'binary' }).map((string) => string.replaceAll('\0', ''))
/** Few enough to meet again. */
const number = fc.integer({ min: 0, max: 8 })
const name = fc.constantFrom('x', 'X', 'é', 'e\u0301', '1', ' x', '__proto__')

type NumberedOperation = (store: NumberedStore, model: NumberedModel) => Promise<void>
const jsonOf = (shown: { json: string } | string) => (typeof shown === 'string' ? shown : shown.json)
const numberedOperation: fc.Arbitrary<NumberedOperation> = fc.oneof(
  fc.tuple(fc.option(text), fc.boolean()).map(
    ([name, isComplete]): NumberedOperation =>
      async (store, model) => {
        assert.equal(jsonOf(await store.create({ name, isComplete })), model.create(name, isComplete))
      },
  ),
  fc.tuple(number, fc.option(text), fc.boolean()).map(
    ([id, name, isComplete]): NumberedOperation =>
      async (store, model) => {
        const outcome = await store.update(`${id}`, { name, isComplete })
        assert.equal(outcome !== 'not-found', model.update(id, name, isComplete))
      },
  ),
  number.map(
    (id): NumberedOperation =>
      async (store, model) => {
        assert.equal(await store.delete(`${id}`), model.delete(id))
      },
  ),
  number.map(
    (id): NumberedOperation =>
      async (store, model) => {
        assert.equal(jsonOf(await store.get(`${id}`)), model.get(id))
      },
  ),
)

type NamedOperation = (store: NamedStore, model: NamedModel) => Promise<void>
const item = fc.record({ id: name, name: text, notes: text, done: fc.boolean() }, { noNullPrototype: true })
const namedOperation: fc.Arbitrary<NamedOperation> = fc.oneof(
  item.map(
    (item): NamedOperation =>
      async (store, model) => {
        const outcome = await store.create(item)
        assert.equal(typeof outcome === 'string' ? outcome : 'created', model.create(item))
      },
  ),
  item.map(
    (item): NamedOperation =>
      async (store, model) => {
        assert.equal(await store.replace(item), model.replace(item))
      },
  ),
  name.map(
    (id): NamedOperation =>
      async (store, model) => {
        assert.equal(await store.delete(id), model.delete(id))
      },
  ),
)

for (const [kind, open] of Object.entries(stores))
  suite(`any operations in any order: ${kind} store`, () => {
    test('of profile A does as the model does', async (t) => {
      await fc.assert(
        fc.asyncProperty(fc.array(numberedOperation, { maxLength: 30 }), async (operations) => {
          const [{ a: store }, model] = [await open(t, { a: [], b: [] }), new NumberedModel()]
          for (const operation of operations) await operation(store, model)
          assert.deepEqual(await itemsIn(store), model.items)
        }),
        { numRuns: 40 },
      )
    })

    test('of profile B does as the model does', async (t) => {
      await fc.assert(
        fc.asyncProperty(fc.array(namedOperation, { maxLength: 30 }), async (operations) => {
          const [{ b: store }, model] = [await open(t, { a: [], b: [] }), new NamedModel()]
          for (const operation of operations) await operation(store, model)
          assert.deepEqual(await itemsIn(store), model.items)
        }),
        { numRuns: 40 },
      )
    })
  })
