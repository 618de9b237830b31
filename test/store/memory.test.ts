import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { profiles } from '../../src/app.ts'
import { memoryStores } from '../../src/store/memory.ts'

suite('memory budget', () => {
  const open = () => memoryStores({ ...profiles, b: { ...profiles.b, startingItems: [] } }, 'test', limits)
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
    const operation = fc.record({ kind: fc.constantFrom('create', 'put', 'delete'), id: fc.nat({ max: 20 }), text })
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
          } else {
            await stores.a.delete(`${id}`)
            await stores.b.delete(`${id}`)
          }
        }
        for (let id = 0; id <= 200; id++) {
          await stores.a.delete(`${id}`)
          await stores.b.delete(`${id}`)
        }
        assert.deepEqual(stores.counts(), { a: 0, b: 0 })
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
})
