import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { collectionsOf, profiles } from '../../src/app.ts'
import { itemsIn, listIn, memoryStores, type Stores, startingWith, storesIn } from '../support/stores.ts'

suite('memory budget', () => {
  const open = () => memoryStores(startingWith({ a: [], b: [] }), 'test', limits)
  const limits = { maxItems: 1_000, maxBytes: 20_000 }
  const create = async ({ a }: ReturnType<typeof open>, name: string) => a.create({ name, isComplete: false })

  /** How many items fit into the store. */
  async function capacity(stores: ReturnType<typeof open>): Promise<number> {
    let count = 0
    while (typeof (await create(stores, 'name')) === 'object') count++
    return count
  }

  test('is the same as at the start after any operations when every item is deleted', async () => {
    const expected = await capacity(open())
    assert.ok(expected > 50 && expected < 100, `${expected}`)
    const text = fc.oneof(fc.string({ maxLength: 500 }), fc.string({ unit: 'grapheme', maxLength: 500 }))
    const operation = fc.record({
      kind: fc.constantFrom('create', 'put', 'delete', 'replaceAll'),
      id: fc.nat({ max: 20 }),
      text,
    })
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 100 }), async (operations) => {
        const stores = open()
        for (const { kind, id, text: name } of operations) {
          const item = { id: `${id}`, name: 'name', notes: name, done: false }
          if (kind === 'create') {
            await create(stores, name)
            await stores.b.create(item)
          } else if (kind === 'put') {
            await stores.a.update(`${id}`, { name, isComplete: true })
            await stores.b.replace(item)
          } else if (kind === 'replaceAll') {
            await stores.a.replaceAll([{ id: `${id}`, name, isComplete: true, secret: 'x' }])
            await stores.b.replaceAll(name.length > 250 ? [] : [item, { ...item, id: `${id + 1}` }])
          } else {
            await stores.a.delete(`${id}`)
            await stores.b.delete(`${id}`)
          }
        }
        for (let id = 0; id <= 250; id++) {
          await stores.a.delete(`${id}`)
          await stores.b.delete(`${id}`)
        }
        assert.deepEqual(stores.spaces.counts(), { a: 0, b: 0 })
        assert.equal(await capacity(stores), expected)
      }),
      { numRuns: 50 },
    )
  })

  test('A rejected create assigns no id, and a rejected update changes nothing', async () => {
    const stores = open()
    assert.equal(await create(stores, 'x'.repeat(30_000)), 'memory-limit')
    const created = await create(stores, 'x')
    assert.ok(typeof created === 'object')
    assert.equal(created.id, '1')
    assert.equal(await stores.a.update('1', { name: '漢'.repeat(10_000), isComplete: true }), 'memory-limit')
    assert.deepEqual(await stores.a.get('1'), { json: created.json, etag: created.etag })
  })

  test('an item counts with its JSON, however it is escaped and stored', async () => {
    const b = (notes: string, name = 'x') => open().b.create({ id: 'x', name, notes, done: false })
    assert.equal(typeof (await b('x'.repeat(3_000))), 'object')
    // Six characters each, and two bytes for each of these where one character of the item is beyond Latin-1.
    assert.equal(await b('\u0001'.repeat(5_000)), 'memory-limit')
    assert.equal(typeof (await b('\u0001'.repeat(1_800))), 'object')
    assert.equal(await b('\u0001'.repeat(1_800), '漢'), 'memory-limit')
  })

  test('replaceAll beyond a limit changes nothing', async () => {
    const stores = open()
    await create(stores, 'x')
    await stores.b.create({ id: 'x', name: 'x', notes: 'x', done: false })
    const before = [await listIn(stores.a), await listIn(stores.b)]
    const numbered = (count: number, name: string) =>
      Array.from({ length: count }, (_, at) => ({ id: `${at + 1}`, name, isComplete: false, secret: null }))
    const named = (count: number, notes: string) =>
      Array.from({ length: count }, (_, at) => ({ id: `${at}`, name: 'x', notes, done: false }))
    assert.equal(await stores.a.replaceAll(numbered(1_001, '')), 'item-limit')
    assert.equal(await stores.b.replaceAll(named(1_001, 'x')), 'item-limit')
    assert.equal(await stores.a.replaceAll(numbered(20, 'x'.repeat(1_000))), 'memory-limit')
    assert.equal(await stores.b.replaceAll(named(20, '漢'.repeat(500))), 'memory-limit')
    assert.deepEqual([await listIn(stores.a), await listIn(stores.b)], before)
    assert.equal(await stores.a.replaceAll(numbered(20, 'x'.repeat(500))), 'replaced')
    // What it replaces makes room.
    assert.equal(await stores.a.replaceAll(numbered(21, 'y'.repeat(500))), 'replaced')
    const created = await create(stores, 'x')
    assert.ok(typeof created === 'object' && created.id === '22')
  })
})

// A list has segments of 256 items.
test('B1 a list of 1,100 items is complete after creates, replaces and deletes', async () => {
  const { b: store } = memoryStores(startingWith({ a: [], b: [] }), 'test')
  const named = (id: string, name = 'name') => ({ id, name, notes: 'notes', done: false })
  const ids = Array.from({ length: 1_100 }, (_, at) => `${at}`)
  for (const id of ids) await store.create(named(id))
  let expected = ids.map((id) => named(id))
  assert.deepEqual(await itemsIn(store), expected)
  for (const id of ['0', '255', '256', '600', '1099']) {
    await store.replace(named(id, 'new'))
    expected = expected.map((item) => (item.id === id ? named(id, 'new') : item))
    assert.deepEqual(await itemsIn(store), expected)
  }
  for (const id of [...ids.slice(256, 512), '0', '1099']) await store.delete(id)
  expected = expected.filter(({ id }) => id !== '0' && id !== '1099' && !(Number(id) >= 256 && Number(id) < 512))
  assert.deepEqual(await itemsIn(store), expected)
  for (const { id } of expected) await store.delete(id)
  assert.deepEqual(await itemsIn(store), [])
  await store.create(named('again'))
  assert.deepEqual(await itemsIn(store), [named('again')])
})

suite('stores of spaces', () => {
  const limits = { maxItems: 10_000, maxBytes: 200_000 }
  const fill = (stores: Stores) => {
    let count = 0
    while (typeof stores.a.create({ name: 'x'.repeat(1_000), isComplete: false }) === 'object') count++
    return count
  }

  test('share the memory, and return it when they are deleted', async () => {
    const { spaces } = memoryStores(collectionsOf(profiles), 'test', limits)
    const [one, other, main] = [storesIn(spaces, 'one'), storesIn(spaces, 'other'), storesIn(spaces, '')]
    const count = fill(one)
    assert.ok(count > 70)
    assert.deepEqual([fill(other), fill(main)], [0, 0])
    assert.deepEqual(
      spaces.listSpaces().map(({ name, items }) => [name, items.a]),
      [
        ['', 0],
        ['one', count],
      ],
    )
    spaces.deleteSpace('one')
    assert.deepEqual(await itemsIn(storesIn(spaces, 'one').a), [])
    assert.equal(fill(storesIn(spaces, 'one')), count)
  })

  test('a write that is refused makes no space, and reads take no memory', async () => {
    const { spaces } = memoryStores(collectionsOf(profiles), 'test', limits)
    for (let index = 0; index < 1_000; index++) {
      const { a, b } = storesIn(spaces, `${index}`)
      assert.equal((await itemsIn(b)).length, 3)
      assert.equal(await a.update('1', { name: 'x', isComplete: true }), 'not-found')
      assert.equal(await b.delete('unknown'), 'not-found')
    }
    assert.equal(spaces.listSpaces().length, 1)
  })

  test('an entity tag of a deleted space never stands for another state', async () => {
    const { spaces } = memoryStores(collectionsOf(profiles), 'test')
    const tags = new Map<string, string>()
    for (let round = 0; round < 5; round++) {
      const { a } = storesIn(spaces, 'one')
      for (let count = 0; count <= round; count++) await a.create({ name: `${round}`, isComplete: false })
      const { etag } = await storesIn(spaces, 'one').a.list()
      assert.equal(tags.get(etag), undefined)
      tags.set(etag, await listIn(storesIn(spaces, 'one').a))
      spaces.deleteSpace('one')
      assert.ok(!tags.has((await storesIn(spaces, 'one').a.list()).etag))
    }
  })
})
