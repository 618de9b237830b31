import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { create, fields, idsIn, named, numbered, testStore } from '../support/store.ts'
import { itemsIn, stores } from '../support/stores.ts'

// test/slow/store.test.ts has the other stores in a space.
for (const kind of ['memory', 'SQLite', 'PostgreSQL'] as const) testStore(kind)
testStore('memory', 'ada')

for (const kind of ['memory', 'SQLite', 'PostgreSQL'] as const)
  test(`the ${kind} store keeps U+0000 in every text`, async (t) => {
    const { a, b } = await stores[kind](t, { a: [numbered('1')], b: [named('x')] })
    assert.equal(typeof (await a.update('1', { name: '\0', isComplete: true })), 'object')
    assert.equal(typeof (await b.create(named('y\0z', '\0'))), 'object')
    assert.equal(await b.create(named('y\0z')), 'in-use')
    assert.equal(typeof (await b.create(named('y\0'))), 'object')
    assert.equal(await b.delete('y'), 'not-found')
    assert.equal(await b.delete('y\0'), 'deleted')
    assert.deepEqual(await itemsIn(a), [{ id: 1, name: '\0', isComplete: true }])
    assert.deepEqual(await itemsIn(b), [named('x'), named('y\0z', '\0')])
    assert.equal(await b.replaceAll([named('\0', '\0')]), 'replaced')
    assert.deepEqual(await itemsIn(b), [named('\0', '\0')])
  })

suite('ids of the PostgreSQL store', () => {
  test('A11 are exact up to the largest int64; the next create fails', async (t) => {
    const { a } = await stores.PostgreSQL(t, { a: [numbered('9223372036854775805')], b: [] })
    for (const id of ['9223372036854775806', '9223372036854775807']) assert.equal((await create(a)).id, id)
    assert.equal(await a.create(fields), 'item-limit')
    assert.deepEqual(await idsIn(a), ['9223372036854775805', '9223372036854775806', '9223372036854775807'])
    assert.equal(await a.delete('9223372036854775807'), 'deleted')
    assert.equal(await a.get('9223372036854775807'), 'not-found')
  })
})
