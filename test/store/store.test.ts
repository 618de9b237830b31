import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { create, fields, idsIn, named, numbered, testStore } from '../support/store.ts'
import { itemsIn, stores } from '../support/stores.ts'

// test/slow/store.test.ts has the other stores in a space.
for (const kind of ['memory', 'SQLite', 'PostgreSQL'] as const) testStore(kind)
testStore('memory', 'ada')

suite('U+0000', () => {
  test('is stored by the memory store', async (t) => {
    const { a, b } = await stores.memory(t, { a: [], b: [] })
    assert.notEqual(await a.create({ name: '\0', isComplete: false }), 'unstorable')
    assert.notEqual(await b.create(named('\0', '\0')), 'unstorable')
    assert.equal(await b.replaceAll([named('\0', '\0')]), 'replaced')
    assert.deepEqual(await itemsIn(b), [named('\0', '\0')])
  })

  test('returns unstorable from the PostgreSQL store, which stores nothing', async (t) => {
    const { a, b } = await stores.PostgreSQL(t, { a: [numbered('1')], b: [named('x')] })
    assert.equal(await a.create({ name: 'a\0b', isComplete: false }), 'unstorable')
    assert.equal(await a.update('1', { name: '\0', isComplete: true }), 'unstorable')
    assert.equal(await b.create(named('y\0')), 'unstorable')
    for (const item of [named('x', '\0'), { ...named('x'), notes: '\0' }])
      assert.equal(await b.replace(item), 'unstorable')
    assert.equal(await b.delete('x\0'), 'not-found')
    assert.equal(await a.replaceAll([numbered('5'), { ...numbered('6'), name: '\0' }]), 'unstorable')
    for (const item of [named('y\0'), named('y', '\0'), { ...named('y'), notes: '\0' }])
      assert.equal(await b.replaceAll([named('z'), item]), 'unstorable')
    assert.deepEqual(await itemsIn(a), [{ id: 1, name: 'name', isComplete: false }])
    assert.deepEqual(await itemsIn(b), [named('x')])
  })
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
