import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type ListRepresentation, maxInt64, WithdrawnError } from '../../src/store/store.ts'
import {
  type ItemA,
  type ItemB,
  itemsIn,
  jsonOfA,
  jsonOfB,
  listIn,
  type OpenedStores,
  type PersistentStores,
  type StoreA,
  type Stores,
  stores,
  textIn,
} from './stores.ts'
import { storableText } from './text.ts'

export const named = (id: string, name = 'name'): ItemB => ({ id, name, notes: 'notes', done: false })
export const numbered = (id: string): ItemA => ({ id, name: 'name', isComplete: false, secret: 'hidden' })
export const fields = { name: 'new', isComplete: true }

export async function create(store: StoreA): Promise<Record<'id' | 'json' | 'etag', string>> {
  const created = await store.create({ name: null, isComplete: false })
  assert.ok(typeof created === 'object')
  return created
}

async function etagOf(store: StoreA, id: string): Promise<string> {
  const item = await store.get(id)
  assert.ok(item !== 'not-found')
  return item.etag
}

async function itemIn(store: StoreA, id: string): Promise<string> {
  const item = await store.get(id)
  assert.ok(item !== 'not-found')
  return item.json
}

/** In order of id; undefined where nothing can read them. */
const secretsIn = async (opened: Stores) =>
  'exportItems' in opened
    ? (await (opened as PersistentStores).exportItems()).a.items.map(({ secret }) => secret)
    : undefined

/** JSON.parse would round large ids. */
export const idsIn = async (store: StoreA) => [...(await listIn(store)).matchAll(/"id":(\d+)/g)].map(([, id]) => id)

/** What every store does, in the default space or in another one. */
export function testStore(kind: keyof typeof stores, space?: string): void {
  const where = space === undefined ? '' : ' in a space'
  const open = (t: TestContext, starting: Parameters<typeof stores.memory>[1]): Promise<OpenedStores> =>
    stores[kind](t, starting, space)

  suite(`${kind} store of profile A${where}`, () => {
    const withItems = async (t: TestContext, ...a: ItemA[]) => (await open(t, { a, b: [] })).a

    test('A4 assigns ascending ids from 1 and does not reuse them after a delete', async (t) => {
      const store = await withItems(t)
      assert.deepEqual([(await create(store)).id, (await create(store)).id], ['1', '2'])
      assert.equal(await store.delete('2'), 'deleted')
      assert.equal((await create(store)).id, '3')
    })

    test('A10 an update preserves the secret, a create sets none, and no representation contains it', async (t) => {
      const opened = await open(t, { a: [numbered('7')], b: [] })
      const store = opened.a
      await store.update('7', fields)
      const { json } = await create(store)
      assert.deepEqual(await secretsIn(opened), kind === 'memory' ? undefined : ['hidden', null])
      const item = await store.get('7')
      assert.ok(item !== 'not-found')
      assert.doesNotMatch(`${item.json}${json}${await listIn(store)}`, /hidden|secret/)
    })

    test('A11 distinguishes ids above 2^53', async (t) => {
      const store = await withItems(t, numbered('9007199254740992'), numbered('9007199254740993'))
      assert.equal(await store.delete('9007199254740993'), 'deleted')
      assert.equal(await store.get('9007199254740993'), 'not-found')
      assert.deepEqual(await idsIn(store), ['9007199254740992'])
      assert.equal((await create(store)).id, '9007199254740994')
    })

    test('A1 lists by id, also after an update', async (t) => {
      const store = await withItems(t, numbered('1'), numbered('2'), numbered('3'))
      await store.update('1', fields)
      assert.deepEqual(await idsIn(store), ['1', '2', '3'])
    })

    test('A1, A2 the list and each item have the text of the serializer, escapes and large ids included', async (t) => {
      const store = await withItems(t)
      const name = fc.option(storableText(), { nil: null })
      await fc.assert(
        fc.asyncProperty(fc.array(name, { maxLength: 5 }), async (names) => {
          const items = names.map((name, at) => ({ ...numbered(`${9007199254740993n + BigInt(at)}`), name }))
          await store.replaceAll(items)
          assert.equal(await listIn(store), `[${items.map(jsonOfA).join(',')}]`)
          for (const item of items) assert.equal(await itemIn(store, item.id), jsonOfA(item))
        }),
        { numRuns: 50, examples: [[[null, '', '\u0001\b\t\n\f\r\u001f"\\/\u007f\u0080\u2028\ufeff👩‍👩‍👧']]] },
      )
    })

    test('A1 a list of megabytes has every item, in order, and is that of one moment while items change', async (t) => {
      // Several parts of few long and of many short items, the last one with the highest id.
      const textOf = (at: number) => (at % 1_500 === 0 ? 'x'.repeat(300_000) : `${at} \u20ac"`)
      const all = Array.from({ length: 12_000 }, (_, at) => ({ ...numbered(`${at + 1}`), name: textOf(at) }))
      const store = await withItems(t)
      assert.equal(await store.replaceAll([...all, numbered(maxInt64)]), 'replaced')
      const expected = `[${[...all, numbered(maxInt64)].map(jsonOfA).join(',')}]`
      assert.ok((await listIn(store)) === expected)
      const { etag } = await store.list()
      await store.update('1', fields)
      const lists = Array.from({ length: 3 }, () => store.list())
      const update = store.update('12000', fields)
      const [first, ...others] = await Promise.all(lists)
      for (const other of others) assert.equal(other.etag, first?.etag)
      await update
      assert.notEqual((await store.list()).etag, etag)
      const [old, updated] = [all[11_999] as ItemA, { ...(all[11_999] as ItemA), ...fields }].map(jsonOfA)
      const now = await listIn(store)
      assert.ok(now.endsWith(`${updated},${jsonOfA(numbered(maxInt64))}]`))
      const then = textIn(first as ListRepresentation)
      assert.ok(then === now || then === now.replace(`${updated}`, `${old}`))
    })

    if (kind !== 'memory')
      test('a list of megabytes is not read for clients that have left', async (t) => {
        const store = await withItems(t)
        const long = 'x'.repeat(2 ** 20)
        await store.replaceAll(Array.from({ length: 20 }, (_, at) => ({ ...numbered(`${at + 1}`), name: long })))
        await store.list()
        await store.update('1', fields)
        await assert.rejects(async () => store.list({ isAborted: true }), WithdrawnError)
        let asked = 0
        const leaving = {
          get isAborted() {
            return ++asked > 2
          },
        }
        if (kind === 'SQLite') await assert.rejects(async () => store.list(leaving), WithdrawnError)
        assert.match(await listIn(store), /^\[\{"id":1,"name":"new"/)
      })

    test('returns not-found when no item has the id', async (t) => {
      const store = await withItems(t, numbered('1'))
      assert.equal(await store.get('2'), 'not-found')
      assert.equal(await store.update('2', fields), 'not-found')
      assert.equal(await store.update('2', fields, ['"1"']), 'not-found')
      assert.equal(await store.delete('2'), 'not-found')
      assert.equal(await store.delete('2', ['"1"']), 'not-found')
      assert.deepEqual(await idsIn(store), ['1'])
    })

    test('the entity tags of an item and of the list change with every update', async (t) => {
      const store = await withItems(t)
      const { id, etag, json } = await create(store)
      assert.deepEqual(await store.get(id), { json, etag })
      const list = (await store.list()).etag
      assert.equal((await store.list()).etag, list)
      assert.deepEqual(await store.update(id, fields), { etag: await etagOf(store, id) })
      assert.notEqual(await etagOf(store, id), etag)
      assert.notEqual((await store.list()).etag, list)
    })

    test('an entity tag never stands for two states, not even after all items were replaced', async (t) => {
      const opened = await open(t, { a: [numbered('1')], b: [] })
      const store = opened.a
      const seen = new Map<string, string>()
      const look = async () => {
        const item = await store.get('1')
        assert.ok(item !== 'not-found')
        for (const [etag, json] of [
          [`item ${item.etag}`, item.json],
          [`list ${(await store.list()).etag}`, await listIn(store)],
        ] as const) {
          assert.equal(seen.get(etag) ?? json, json, etag)
          seen.set(etag, json)
        }
      }
      await look()
      for (let round = 0; round < 3; round++) {
        await store.replaceAll([{ ...numbered('1'), name: `replaced ${round}` }])
        await look()
        const snapshot = { a: { items: [{ ...numbered('1'), name: `imported ${round}` }], lastId: '1' } }
        if ('importItems' in opened) await (opened as PersistentStores).importItems(snapshot)
        await look()
        const tags = [...seen.keys()].flatMap((tag) => (tag.startsWith('item ') ? tag.slice('item '.length) : []))
        assert.equal(await store.update('1', fields, tags.slice(0, -1)), 'changed')
        await store.update('1', { name: `updated ${round}`, isComplete: false })
        await look()
      }
    })

    test('applies a conditional update or delete only when the entity tag matches', async (t) => {
      const store = await withItems(t)
      const { id, etag } = await create(store)
      assert.deepEqual(await store.update(id, fields, ['"other"', etag]), { etag: await etagOf(store, id) })
      for (const outdated of [[etag], ['"other"'], []]) {
        assert.equal(await store.update(id, { name: 'lost', isComplete: false }, outdated), 'changed')
        assert.equal(await store.delete(id, outdated), 'changed')
      }
      assert.deepEqual(await itemsIn(store), [{ id: 1, ...fields }])
      assert.equal(await store.delete(id, [await etagOf(store, id)]), 'deleted')
      assert.deepEqual(await itemsIn(store), [])
    })
  })

  suite(`replaceAll of the ${kind} store of profile A${where}`, () => {
    const withItems = async (t: TestContext, ...a: ItemA[]) => (await open(t, { a, b: [] })).a

    test('A1, A10, A11 leaves exactly these items, by id, with their secrets', async (t) => {
      const opened = await open(t, { a: [numbered('1'), numbered('2')], b: [] })
      const store = opened.a
      const ids = ['9007199254740993', '2', '9007199254740992', '10']
      const items = ids.map((id) => ({ ...numbered(id), name: id === '2' ? null : `name "${id}"`, secret: id }))
      const { etag } = await store.list()
      assert.equal(await store.replaceAll(items), 'replaced')
      assert.deepEqual(await idsIn(store), ['2', '10', '9007199254740992', '9007199254740993'])
      for (const { id, name } of items) {
        const item = await store.get(id)
        assert.ok(item !== 'not-found')
        assert.equal(item.json, `{"id":${id},"name":${JSON.stringify(name)},"isComplete":false}`)
      }
      assert.deepEqual(await secretsIn(opened), kind === 'memory' ? undefined : await idsIn(store))
      assert.equal(await store.get('1'), 'not-found')
      assert.notEqual((await store.list()).etag, etag)
      const updated = await store.update('10', fields, [await etagOf(store, '10')])
      assert.deepEqual(updated, { etag: await etagOf(store, '10') })
      assert.equal(await store.delete('2'), 'deleted')
    })

    test('A4 the next id is one more than the highest, and 1 without items', async (t) => {
      const store = await withItems(t, numbered('50'))
      for (const [ids, next] of [
        [['3', '7', '5'], '8'],
        [['-9', '0'], '1'],
        [['9007199254740992'], '9007199254740993'],
        [[], '1'],
      ] as const) {
        await store.replaceAll(ids.map(numbered))
        assert.equal((await create(store)).id, next)
      }
    })

    test('creates at the same time come before it and are gone, or behind it and keep their ids', async (t) => {
      const store = await withItems(t)
      const items = ['1', '2', '3'].map(numbered)
      for (let round = 0; round < 5; round++) {
        const writes = Array.from({ length: 12 }, (_, at) => (at === 6 ? store.replaceAll(items) : create(store)))
        await Promise.all(writes)
        const ids = await idsIn(store)
        assert.deepEqual(
          ids,
          Array.from(ids, (_, at) => `${at + 1}`),
        )
        assert.ok(ids.length >= 3)
        assert.equal((await create(store)).id, `${ids.length + 1}`)
      }
    })

    test('two at the same time leave the items of one of them', async (t) => {
      const store = await withItems(t)
      const sets = [['1', '2'], ['2', '3', '4'], []]
      for (let round = 0; round < 5; round++) {
        await Promise.all(sets.map((ids) => store.replaceAll(ids.map(numbered))))
        const ids = await idsIn(store)
        const last = sets.find((set) => `${set}` === `${ids}`)
        assert.ok(last, `${ids}`)
        assert.equal((await create(store)).id, `${Number(last.at(-1) ?? 0) + 1}`)
      }
    })
  })

  suite(`conditional replaceAll of the ${kind} store${where}`, () => {
    test('changes nothing unless the list has one of the entity tags', async (t) => {
      const { a, b } = await open(t, { a: [numbered('1')], b: [named('x')] })
      for (const [store, replace, change] of [
        [
          a,
          (id: string, tags: string[]) => a.replaceAll([numbered(id)], tags),
          () => a.update('2', { name: 'changed', isComplete: true }),
        ],
        [b, (id: string, tags: string[]) => b.replaceAll([named(id)], tags), () => b.replace(named('2', 'changed'))],
      ] as const) {
        const { etag } = await store.list()
        for (const tags of [[], ['"other"'], [`W/${etag}`]]) assert.equal(await replace('9', tags), 'changed')
        assert.equal((await store.list()).etag, etag)
        assert.equal(await replace('2', ['"other"', etag]), 'replaced')
        assert.equal(await replace('9', [etag]), 'changed')
        const { etag: current } = await store.list()
        await change()
        assert.equal(await replace('9', [current]), 'changed')
        assert.match(await listIn(store), /"id":"?2"?,"name":"changed"/)
      }
    })

    test('never undoes what is written at the same time, and of several one succeeds', async (t) => {
      const { a } = await open(t, { a: [], b: [] })
      const replaced = ['1', '2'].map(numbered)
      for (let round = 0; round < 20; round++) {
        await a.replaceAll(replaced)
        const { etag } = await a.list()
        const replace = () => a.replaceAll([...replaced, numbered('3')], [etag])
        const update = () => a.update('1', { name: 'updated', isComplete: true })
        const calls = [replace, update, () => create(a), replace]
        const outcomes = await Promise.all((round % 2 === 0 ? calls : calls.toReversed()).map((call) => call()))
        const items = (await itemsIn(a)) as { id: number; name: string | null }[]
        assert.equal(items.find(({ id }) => id === 1)?.name, 'updated')
        assert.equal(items.filter(({ name }) => name === null).length, 1, 'what was created is there')
        assert.ok(outcomes.filter((outcome) => outcome === 'replaced').length <= 1)
        const { etag: last } = await a.list()
        const both = await Promise.all([a.replaceAll([], [last]), a.replaceAll([numbered('5')], [last])])
        assert.deepEqual([...both].sort(), ['changed', 'replaced'])
      }
    })
  })

  suite(`replaceAll of the ${kind} store of profile B${where}`, () => {
    const withItems = async (t: TestContext, ...b: ItemB[]) => (await open(t, { a: [], b })).b

    test('B1 leaves exactly these items in this order; what is created then is listed last', async (t) => {
      const store = await withItems(t, named('x'), named('y'))
      const items = ['z', 'x', '__proto__', 'X', "'; drop table", 'é', 'e\u0301'].map((id) => named(id, `new ${id}`))
      assert.equal(await store.replaceAll(items), 'replaced')
      assert.deepEqual(await itemsIn(store), items)
      assert.equal(await store.create(named('x')), 'in-use')
      assert.equal(await store.delete('y'), 'not-found')
      await store.create(named('y'))
      assert.equal(await store.replace(named('z', 'again')), 'replaced')
      assert.deepEqual(await itemsIn(store), [named('z', 'again'), ...items.slice(1), named('y')])
      assert.equal(await store.replaceAll([]), 'replaced')
      assert.deepEqual(await itemsIn(store), [])
    })

    test('stores every text unchanged', async (t) => {
      const store = await withItems(t)
      await fc.assert(
        fc.asyncProperty(fc.uniqueArray(storableText(), { maxLength: 5 }), storableText(), async (ids, text) => {
          const items = ids.map((id) => ({ id, name: text, notes: `${text}${id}`, done: true }))
          await store.replaceAll(items)
          assert.equal(await listIn(store), `[${items.map(jsonOfB).join(',')}]`)
        }),
        { numRuns: 50, examples: [[['\\u0000', '\\', '"'], '\u2028\r\n👩‍👩‍👧\ufeff']] },
      )
    })

    test('replaces 20,000 items', async (t) => {
      const store = await withItems(t)
      const items = Array.from({ length: 20_000 }, (_, at) => named(`${at}`))
      for (let round = 0; round < 2; round++) assert.equal(await store.replaceAll(items), 'replaced')
      assert.ok((await listIn(store)) === `[${items.map(jsonOfB).join(',')}]`)
    })
  })

  suite(`${kind} store of profile B${where}`, () => {
    const withItems = async (t: TestContext, ...b: ItemB[]) => (await open(t, { a: [], b })).b

    test('B5 returns in-use for an existing id and keeps the stored item', async (t) => {
      const store = await withItems(t, named('x', 'first'))
      assert.equal(await store.create(named('x', 'second')), 'in-use')
      assert.deepEqual(await store.create(named('X')), { json: JSON.stringify(named('X')) })
      assert.deepEqual(await itemsIn(store), [named('x', 'first'), named('X')])
    })

    test('B7 a replaced item keeps its position', async (t) => {
      const store = await withItems(t, named('x'), named('y'))
      assert.equal(await store.replace(named('x', 'new')), 'replaced')
      assert.deepEqual(await itemsIn(store), [named('x', 'new'), named('y')])
    })

    test('B1 an item that is deleted and created again is listed last', async (t) => {
      const store = await withItems(t, named('x'), named('y'))
      assert.equal(await store.delete('x'), 'deleted')
      await store.create(named('x'))
      assert.deepEqual(await itemsIn(store), [named('y'), named('x')])
    })

    test('returns not-found when no item has the id', async (t) => {
      const store = await withItems(t, named('x'))
      assert.equal(await store.replace(named('y')), 'not-found')
      assert.equal(await store.delete('y'), 'not-found')
      assert.deepEqual(await itemsIn(store), [named('x')])
    })

    test('accepts the names of object properties as ids', async (t) => {
      const store = await withItems(t)
      for (const id of ['__proto__', 'constructor', 'toString']) {
        assert.equal(await store.delete(id), 'not-found')
        assert.notEqual(await store.create(named(id)), 'in-use')
        assert.equal(await store.delete(id), 'deleted')
      }
    })

    test('B11 distinguishes ids of 1,024 characters that differ in the last one', async (t) => {
      const store = await withItems(t)
      const characters = Array.from({ length: 1023 }, (_, at) =>
        String.fromCodePoint(0x10000 + ((at * 7919) % 0xfffff)),
      )
      const long = characters.join('')
      for (const id of [`${long}x`, `${long}y`]) assert.notEqual(await store.create(named(id)), 'in-use')
      assert.equal(await store.create(named(`${long}x`)), 'in-use')
      assert.equal(await store.delete(`${long}x`), 'deleted')
      assert.deepEqual(await itemsIn(store), [named(`${long}y`)])
    })

    test('stores every text unchanged', async (t) => {
      const store = await withItems(t)
      await fc.assert(
        fc.asyncProperty(storableText(), storableText(), storableText(), async (id, name, notes) => {
          await store.delete(id)
          await store.create({ id, name, notes, done: true })
          assert.deepEqual((await itemsIn(store)).at(-1), { id, name, notes, done: true })
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
