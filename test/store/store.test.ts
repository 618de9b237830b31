import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { memoryStores } from '../../src/store/memory.ts'
import type { NamedItem, NumberedItem, StartingItems, Stores } from '../../src/store/store.ts'

const stores: Record<string, (starting: StartingItems) => Promise<Stores>> = {
  memory: async (starting) => memoryStores(starting),
}

const named = (id: string, name = 'name'): NamedItem => ({ id, name, notes: 'notes', done: false })
const numbered = (id: bigint): NumberedItem => ({ id, name: 'name', isComplete: false, secret: 'hidden' })

for (const [kind, open] of Object.entries(stores)) {
  suite(`${kind} store of profile A`, () => {
    const withItems = async (...a: NumberedItem[]) => (await open({ a, b: [] })).a

    test('A4 assigns ids that ascend from 1 and are never used again', async () => {
      const store = await withItems()
      const create = async () => (await store.create({ name: null, isComplete: false })).id
      assert.deepEqual([await create(), await create()], [1n, 2n])
      assert.equal(await store.delete(2n), 'deleted')
      assert.equal(await create(), 3n)
    })

    test('A10 an update leaves the secret as it is, a create has none', async () => {
      const store = await withItems(numbered(7n))
      assert.equal(await store.update(7n, { name: 'new', isComplete: true }), 'updated')
      assert.deepEqual(await store.get(7n), { id: 7n, name: 'new', isComplete: true, secret: 'hidden' })
      const created = await store.create({ name: 'x', isComplete: false })
      assert.deepEqual(created, { id: 8n, name: 'x', isComplete: false, secret: null })
    })

    test('A11 tells ids above 2^53 apart', async () => {
      const store = await withItems(numbered(9007199254740992n), numbered(9007199254740993n))
      assert.equal(await store.delete(9007199254740993n), 'deleted')
      assert.equal(await store.get(9007199254740993n), 'not-found')
      assert.deepEqual(await store.get(9007199254740992n), numbered(9007199254740992n))
      assert.equal((await store.create({ name: null, isComplete: false })).id, 9007199254740994n)
    })

    test('A1 lists by id, whatever was updated', async () => {
      const store = await withItems(numbered(1n), numbered(2n), numbered(3n))
      await store.update(1n, { name: 'new', isComplete: true })
      assert.deepEqual(
        (await store.list()).map(({ id }) => id),
        [1n, 2n, 3n],
      )
    })

    test('says when no item has the id', async () => {
      const store = await withItems(numbered(1n))
      assert.equal(await store.get(2n), 'not-found')
      assert.equal(await store.update(2n, { name: null, isComplete: true }), 'not-found')
      assert.equal(await store.delete(2n), 'not-found')
      assert.deepEqual(await store.list(), [numbered(1n)])
    })
  })

  suite(`${kind} store of profile B`, () => {
    const withItems = async (...b: NamedItem[]) => (await open({ a: [], b })).b

    test('B5 refuses an id in use and keeps what is there', async () => {
      const store = await withItems(named('x', 'first'))
      assert.equal(await store.create(named('x', 'second')), 'in-use')
      assert.equal(await store.create(named('X')), 'created')
      assert.deepEqual(await store.list(), [named('x', 'first'), named('X')])
    })

    test('B7 a replaced item keeps its place', async () => {
      const store = await withItems(named('x'), named('y'))
      assert.equal(await store.replace(named('x', 'new')), 'replaced')
      assert.deepEqual(await store.list(), [named('x', 'new'), named('y')])
    })

    test('B1 an item created again goes to the end', async () => {
      const store = await withItems(named('x'), named('y'))
      assert.equal(await store.delete('x'), 'deleted')
      assert.equal(await store.create(named('x')), 'created')
      assert.deepEqual(await store.list(), [named('y'), named('x')])
    })

    test('says when no item has the id', async () => {
      const store = await withItems(named('x'))
      assert.equal(await store.replace(named('y')), 'not-found')
      assert.equal(await store.delete('y'), 'not-found')
      assert.deepEqual(await store.list(), [named('x')])
    })

    test('names of an object are ids like any other', async () => {
      const store = await withItems()
      for (const id of ['__proto__', 'constructor', 'toString']) {
        assert.equal(await store.delete(id), 'not-found')
        assert.equal(await store.create(named(id)), 'created')
        assert.equal(await store.delete(id), 'deleted')
      }
    })
  })
}
