import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Spaces } from '../../src/store/store.ts'
import { sharedPostgres, uniqueName } from '../support/database.ts'
import {
  type ItemA,
  type ItemB,
  itemsIn,
  jsonOfB,
  openPostgres,
  type Stores,
  startingItemsB,
  stores,
  storesIn,
  toSnapshot,
} from '../support/stores.ts'

const named = (id: string, name = 'name'): ItemB => ({ id, name, notes: 'notes', done: false })
const numbered = (id: string): ItemA => ({ id, name: 'name', isComplete: false, secret: null })
const starting = { a: [numbered('5')], b: startingItemsB }
const fields = { name: 'new', isComplete: true }
const [learn] = startingItemsB as [ItemB]

const namesIn = async (spaces: Spaces) => (await spaces.listSpaces()).map(({ name }) => name)

async function idOf(created: ReturnType<Stores['a']['create']>): Promise<string> {
  const item = await created
  assert.ok(typeof item === 'object')
  return item.id
}

for (const [kind, open] of Object.entries(stores))
  suite(`spaces in ${kind}`, () => {
    test('a space that was never written to has the starting items, and reading it writes nothing', async (t) => {
      const { spaces } = await open(t, starting)
      const { a, b } = storesIn(spaces, 'ada')
      assert.deepEqual(await itemsIn(b), starting.b)
      assert.deepEqual(await itemsIn(a), [{ id: 5, name: 'name', isComplete: false }])
      const item = await a.get('5')
      assert.ok(item !== 'not-found')
      assert.equal(item.json, '{"id":5,"name":"name","isComplete":false}')
      assert.equal(await a.get('1'), 'not-found')
      assert.deepEqual(await namesIn(spaces), [''])
    })

    test('a write that is refused makes no space', async (t) => {
      const { spaces } = await open(t, starting)
      const { a, b } = storesIn(spaces, 'ada')
      assert.deepEqual(
        [
          await a.update('1', fields),
          await a.delete('1'),
          await a.update('5', fields, ['"other"']),
          await a.delete('5', ['"other"']),
          await b.create(learn),
          await b.replace(named('unknown')),
          await b.delete('unknown'),
          await a.replaceAll([], ['"other"']),
        ],
        ['not-found', 'not-found', 'changed', 'changed', 'in-use', 'not-found', 'not-found', 'changed'],
      )
      assert.deepEqual(await itemsIn(storesIn(spaces, 'ada').b), starting.b)
      for (const { name, items } of await spaces.listSpaces())
        if (name !== '') assert.deepEqual([items.a ?? 1, items.b ?? 3], [1, 3])
    })

    for (const [write, change] of Object.entries({
      create: async ({ a, b }) => {
        assert.equal(await idOf(a.create(fields)), '6')
        assert.deepEqual(await b.create(named('x')), { json: jsonOfB(named('x')) })
      },
      update: async ({ a, b }) => {
        assert.equal(typeof (await a.update('5', fields)), 'object')
        assert.equal(await b.replace({ ...learn, name: 'new' }), 'replaced')
      },
      delete: async ({ a, b }) => {
        assert.equal(await a.delete('5'), 'deleted')
        assert.equal(await b.delete(learn.id), 'deleted')
      },
    } satisfies Record<string, (stores: Stores) => Promise<void>>))
      test(`A4, B1, B2 the first write, a ${write}, makes the space with its starting items`, async (t) => {
        const { spaces } = await open(t, starting)
        await change(storesIn(spaces, 'ada'))
        const { a, b } = storesIn(spaces, 'ada')
        const expectedA = { create: [5, 6], update: [5], delete: [] }[write]
        assert.deepEqual(
          ((await itemsIn(a)) as { id: number }[]).map(({ id }) => id),
          expectedA,
        )
        const others = starting.b.slice(1).map(({ id }) => id)
        const first = write === 'delete' ? [] : [learn.id]
        assert.deepEqual(
          ((await itemsIn(b)) as ItemB[]).map(({ id }) => id),
          [...first, ...others, ...(write === 'create' ? ['x'] : [])],
        )
        assert.deepEqual(await namesIn(spaces), ['', 'ada'])
        for (const name of ['', 'bob']) {
          assert.equal((await itemsIn(storesIn(spaces, name).a)).length, 1)
          assert.deepEqual(await itemsIn(storesIn(spaces, name).b), starting.b)
        }
      })

    test('an entity tag of a space that was never written to allows the first write', async (t) => {
      const { spaces } = await open(t, starting)
      const item = await storesIn(spaces, 'ada').a.get('5')
      assert.ok(item !== 'not-found')
      assert.equal((Object(await storesIn(spaces, 'ada').a.get('5')) as { etag: string }).etag, item.etag)
      assert.equal(typeof (await storesIn(spaces, 'ada').a.update('5', fields, [item.etag])), 'object')
      assert.equal(await storesIn(spaces, 'ada').a.update('5', fields, [item.etag]), 'changed')
      const { etag } = await storesIn(spaces, 'bob').b.list()
      assert.equal(await storesIn(spaces, 'bob').b.replaceAll([named('x')], [etag]), 'replaced')
      assert.deepEqual(await itemsIn(storesIn(spaces, 'bob').b), [named('x')])
      assert.equal(await storesIn(spaces, 'bob').b.replaceAll([], [etag]), 'changed')
    })

    test('A4, B3 each space has its own ids, items and counts', async (t) => {
      const { spaces } = await open(t, { a: [], b: [] })
      const names = ['', 'ada', 'Ada', "o'hara; --", '["https://issuer","ünï"]']
      for (let round = 1; round <= 3; round++)
        for (const name of names) {
          assert.equal(await idOf(storesIn(spaces, name).a.create({ name, isComplete: false })), `${round}`)
          assert.equal(typeof (await storesIn(spaces, name).b.create(named(`${round}`, name || 'none'))), 'object')
        }
      await storesIn(spaces, 'ada').a.delete('3')
      assert.equal(await idOf(storesIn(spaces, 'ada').a.create(fields)), '4')
      assert.equal(await storesIn(spaces, 'Ada').a.replaceAll([]), 'replaced')
      assert.equal(await idOf(storesIn(spaces, 'Ada').a.create(fields)), '1')
      for (const name of names.slice(3)) {
        assert.deepEqual(
          ((await itemsIn(storesIn(spaces, name).a)) as { name: string }[]).map((item) => item.name),
          [name, name, name],
        )
        assert.deepEqual(
          ((await itemsIn(storesIn(spaces, name).b)) as ItemB[]).map((item) => item.name),
          [name, name, name],
        )
      }
      const counts = new Map((await spaces.listSpaces()).map(({ name, items }) => [name, [items.a, items.b]]))
      assert.deepEqual(
        names.map((name) => counts.get(name)),
        [
          [3, 3],
          [3, 3],
          [1, 3],
          [3, 3],
          [3, 3],
        ],
      )
    })

    test('a deleted space has its starting items again, and others keep theirs', async (t) => {
      const { spaces } = await open(t, starting)
      for (const name of ['ada', 'bob']) await storesIn(spaces, name).a.create(fields)
      const created = await storesIn(spaces, 'ada').a.get('6')
      await spaces.deleteSpace('ada')
      await spaces.deleteSpace('unknown')
      assert.deepEqual(await namesIn(spaces), ['', 'bob'])
      assert.equal((await itemsIn(storesIn(spaces, 'ada').a)).length, 1)
      assert.equal(await idOf(storesIn(spaces, 'ada').a.create({ name: 'other', isComplete: false })), '6')
      assert.notEqual(Object(await storesIn(spaces, 'ada').a.get('6')).etag, Object(created).etag)
      assert.equal((await itemsIn(storesIn(spaces, 'bob').a)).length, 2)
    })

    test('creates of many clients at once: each gets its own id', async (t) => {
      const { spaces } = await open(t, { a: [], b: [] })
      const names = Array.from({ length: 50 }, (_, index) => `${index}`)
      const created = await Promise.all(
        names.map(async (name) => storesIn(spaces, 'ada').a.create({ name, isComplete: false })),
      )
      const ids = created.flatMap((item) => (typeof item === 'object' ? item.id : []))
      assert.deepEqual(
        ids.map(Number).toSorted((one, other) => one - other),
        names.map((_, index) => index + 1),
      )
      for (const [index, item] of created.entries())
        if (typeof item === 'object') assert.equal(JSON.parse(item.json).name, names[index])
      const sameIds = await Promise.all(
        Array.from({ length: 40 }, async (_, index) =>
          storesIn(spaces, 'ada').b.create(named(`${index % 4}`, `${index}`)),
        ),
      )
      const kept = sameIds.flatMap((item) =>
        item !== 'in-use' && typeof item === 'object' ? JSON.parse(item.json) : [],
      )
      assert.equal(kept.length, 4)
      const order = (one: ItemB, other: ItemB) => (one.id < other.id ? -1 : 1)
      assert.deepEqual(((await itemsIn(storesIn(spaces, 'ada').b)) as ItemB[]).toSorted(order), kept.toSorted(order))
    })
  })

for (const kind of ['SQLite', 'PostgreSQL'] as const)
  test(`${kind}: exports and imports one space or all`, async (t) => {
    const { spaces } = await stores[kind](t, starting)
    const snapshot = (id: string) =>
      toSnapshot({ a: { items: [numbered(id)], lastId: '99' }, b: { items: [named('z'), named('y')] } })
    const two = new Map([
      ['', snapshot('1')],
      ['ada', snapshot('2')],
    ])
    await storesIn(spaces, 'bob').a.create(fields)
    assert.equal(await spaces.importItems(two), 'replaced')
    const bob = (await spaces.exportItems()).get('bob')
    assert.deepEqual(bob?.a?.lastNumber, '6')
    assert.equal(bob?.b, undefined)
    assert.deepEqual(await spaces.exportItems('ada'), new Map([['ada', snapshot('2')]]))
    assert.deepEqual(await spaces.exportItems('unknown'), new Map())
    assert.equal(await idOf(storesIn(spaces, 'ada').a.create(fields)), '100')
    assert.equal(await spaces.importItems(two, true), 'replaced')
    assert.deepEqual(await spaces.exportItems(), two)
    assert.equal(await spaces.importItems(new Map([['ada', toSnapshot({ b: { items: [] } })]])), 'replaced')
    assert.deepEqual(
      await spaces.exportItems('ada'),
      new Map([['ada', { ...snapshot('2'), ...toSnapshot({ b: { items: [] } }) }]]),
    )
  })

test('PostgreSQL: two instances make a space at once, with its starting items once', async (t) => {
  const url = (await sharedPostgres()).url()
  const schema = uniqueName('todo')
  const opened = [await openPostgres(t, url, { schema, starting }), await openPostgres(t, url, { schema, starting })]
  for (let round = 0; round < 10; round++) {
    const space = `space ${round}`
    const ids = await Promise.all(
      opened.flatMap(({ spaces }) => [1, 2, 3].map(() => idOf(storesIn(spaces, space).a.create(fields)))),
    )
    assert.deepEqual(ids.toSorted(), ['10', '11', '6', '7', '8', '9'])
    await Promise.all(opened.map(({ spaces }, index) => storesIn(spaces, space).b.create(named(`${index}`))))
    for (const { spaces } of opened) {
      assert.equal((await itemsIn(storesIn(spaces, space).a)).length, 7)
      assert.equal((await itemsIn(storesIn(spaces, space).b)).length, 5)
    }
  }
})
