import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import type { NamedItem, NumberedItem, NumberedStore } from '../../src/store/store.ts'
import { stores } from '../support/stores.ts'

const named = (id: string, name = 'name'): NamedItem => ({ id, name, notes: 'notes', done: false })
const numbered = (id: bigint): NumberedItem => ({ id, name: 'name', isComplete: false, secret: 'hidden' })

/** The id that the store gives to a new item. */
async function newId(store: NumberedStore): Promise<bigint> {
  const item = await store.create({ name: null, isComplete: false })
  assert.ok(item !== 'unstorable')
  return item.id
}

for (const [kind, open] of Object.entries(stores)) {
  suite(`${kind} store of profile A`, () => {
    const withItems = async (t: TestContext, ...a: NumberedItem[]) => (await open(t, { a, b: [] })).a

    test('A4 assigns ids that ascend from 1 and are never used again', async (t) => {
      const store = await withItems(t)
      assert.deepEqual([await newId(store), await newId(store)], [1n, 2n])
      assert.equal(await store.delete(2n), 'deleted')
      assert.equal(await newId(store), 3n)
    })

    test('A10 an update leaves the secret as it is, a create has none', async (t) => {
      const store = await withItems(t, numbered(7n))
      assert.equal(await store.update(7n, { name: 'new', isComplete: true }), 'updated')
      assert.deepEqual(await store.get(7n), { id: 7n, name: 'new', isComplete: true, secret: 'hidden' })
      const created = await store.create({ name: 'x', isComplete: false })
      assert.deepEqual(created, { id: 8n, name: 'x', isComplete: false, secret: null })
    })

    test('A11 tells ids above 2^53 apart', async (t) => {
      const store = await withItems(t, numbered(9007199254740992n), numbered(9007199254740993n))
      assert.equal(await store.delete(9007199254740993n), 'deleted')
      assert.equal(await store.get(9007199254740993n), 'not-found')
      assert.deepEqual(await store.get(9007199254740992n), numbered(9007199254740992n))
      assert.equal(await newId(store), 9007199254740994n)
    })

    test('A1 lists by id, whatever was updated', async (t) => {
      const store = await withItems(t, numbered(1n), numbered(2n), numbered(3n))
      await store.update(1n, { name: 'new', isComplete: true })
      assert.deepEqual(
        (await store.list()).map(({ id }) => id),
        [1n, 2n, 3n],
      )
    })

    test('says when no item has the id', async (t) => {
      const store = await withItems(t, numbered(1n))
      assert.equal(await store.get(2n), 'not-found')
      assert.equal(await store.update(2n, { name: null, isComplete: true }), 'not-found')
      assert.equal(await store.delete(2n), 'not-found')
      assert.deepEqual([...(await store.list())], [numbered(1n)])
    })
  })

  suite(`${kind} store of profile B`, () => {
    const withItems = async (t: TestContext, ...b: NamedItem[]) => (await open(t, { a: [], b })).b

    test('B5 refuses an id in use and keeps what is there', async (t) => {
      const store = await withItems(t, named('x', 'first'))
      assert.equal(await store.create(named('x', 'second')), 'in-use')
      assert.equal(await store.create(named('X')), 'created')
      assert.deepEqual([...(await store.list())], [named('x', 'first'), named('X')])
    })

    test('B7 a replaced item keeps its place', async (t) => {
      const store = await withItems(t, named('x'), named('y'))
      assert.equal(await store.replace(named('x', 'new')), 'replaced')
      assert.deepEqual([...(await store.list())], [named('x', 'new'), named('y')])
    })

    test('B1 an item created again goes to the end', async (t) => {
      const store = await withItems(t, named('x'), named('y'))
      assert.equal(await store.delete('x'), 'deleted')
      assert.equal(await store.create(named('x')), 'created')
      assert.deepEqual([...(await store.list())], [named('y'), named('x')])
    })

    test('says when no item has the id', async (t) => {
      const store = await withItems(t, named('x'))
      assert.equal(await store.replace(named('y')), 'not-found')
      assert.equal(await store.delete('y'), 'not-found')
      assert.deepEqual([...(await store.list())], [named('x')])
    })

    test('names of an object are ids like any other', async (t) => {
      const store = await withItems(t)
      for (const id of ['__proto__', 'constructor', 'toString']) {
        assert.equal(await store.delete(id), 'not-found')
        assert.equal(await store.create(named(id)), 'created')
        assert.equal(await store.delete(id), 'deleted')
      }
    })

    test('B11 an id may have 1,024 characters of any kind, and the last one counts', async (t) => {
      const store = await withItems(t)
      const long = Array.from({ length: 1023 }, (_, at) =>
        String.fromCodePoint(0x10000 + ((at * 7919) % 0xfffff)),
      ).join('')
      for (const id of [`${long}x`, `${long}y`]) assert.equal(await store.create(named(id)), 'created')
      assert.equal(await store.create(named(`${long}x`)), 'in-use')
      assert.equal(await store.delete(`${long}x`), 'deleted')
      assert.deepEqual([...(await store.list())], [named(`${long}y`)])
    })

    test('every text but U+0000 comes back as it was', async (t) => {
      const store = await withItems(t)
      await fc.assert(
        fc.asyncProperty(storable, storable, storable, async (id, name, notes) => {
          await store.delete(id)
          assert.equal(await store.create({ id, name, notes, done: true }), 'created')
          assert.deepEqual((await store.list()).at(-1), { id, name, notes, done: true })
        }),
        {
          numRuns: 100,
          examples: [
            ['e\u0301', '\u00e9 \ufeff\uffff', '\\x00 \\0 %00 \x7f\r\n\t\u2028'],
            ['é', "'; drop table", '𝒳 👩‍👩‍👧'],
          ],
        },
      )
    })
  })
}

/** Well-formed text of any characters but U+0000. */
const storable = fc.string({ unit: 'binary', minLength: 1 }).map((text) => text.replaceAll('\0', ' '))

suite('U+0000', () => {
  test('is a character like any other in memory', async (t) => {
    const { a, b } = await stores.memory(t, { a: [], b: [] })
    assert.notEqual(await a.create({ name: '\0', isComplete: false }), 'unstorable')
    assert.equal(await b.create(named('\0', '\0')), 'created')
  })

  test('cannot be stored in PostgreSQL, and nothing of the item is', async (t) => {
    const { a, b } = await stores.PostgreSQL(t, { a: [numbered(1n)], b: [named('x')] })
    assert.equal(await a.create({ name: 'a\0b', isComplete: false }), 'unstorable')
    assert.equal(await a.update(1n, { name: '\0', isComplete: true }), 'unstorable')
    assert.equal(await b.create(named('y\0')), 'unstorable')
    for (const item of [named('x', '\0'), { ...named('x'), notes: '\0' }])
      assert.equal(await b.replace(item), 'unstorable')
    assert.equal(await b.delete('x\0'), 'not-found')
    assert.deepEqual([...(await a.list())], [numbered(1n)])
    assert.deepEqual([...(await b.list())], [named('x')])
  })
})

suite('ids of PostgreSQL', () => {
  test('A11 are exact up to the largest int64; then there are no more', async (t) => {
    const largest = 2n ** 63n - 1n
    const { a } = await stores.PostgreSQL(t, { a: [numbered(largest - 2n)], b: [] })
    assert.deepEqual([await newId(a), await newId(a)], [largest - 1n, largest])
    await assert.rejects(newId(a), { code: '2200H' })
    assert.deepEqual(
      (await a.list()).map(({ id }) => id),
      [largest - 2n, largest - 1n, largest],
    )
    assert.equal(await a.delete(largest), 'deleted')
    assert.equal(await a.get(largest), 'not-found')
  })
})
