import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from '../src/metrics.ts'
import { defaultSpace, type Spaces, UnavailableError } from '../src/store/store.ts'
import { memoryStores, startingWith } from './support/stores.ts'

test('A15 a store operation that fails is measured, too, whether it throws or rejects', async () => {
  const { spaces: opened } = memoryStores(startingWith({ a: [], b: [] }), 'test')
  let now = 0
  const fails = () => {
    now += 5_000
    throw new UnavailableError('The database does not answer.')
  }
  const spaces: Spaces = {
    collection: (name, space) => {
      const items = opened.collection(name, space)
      return { ...items, delete: (key) => items.delete(key), list: fails, get: async () => fails() }
    },
    listSpaces: () => [],
    deleteSpace() {},
  }
  const metrics = createMetrics({ spaces, itemCounts: () => ({}), monotonicNow: () => now, isWorker: false })
  const store = metrics.spaces.collection('a', defaultSpace)
  await assert.rejects(async () => store.list(), UnavailableError)
  await assert.rejects(async () => store.get('1'), UnavailableError)
  assert.equal(await store.delete('1'), 'not-found')
  const lines = (await metrics.read())
    .split('\n')
    .filter((line) => /^todo_store_duration_seconds_(sum|count)/.test(line))
  assert.deepEqual(lines, [
    'todo_store_duration_seconds_sum{profile="a",operation="list",result="error"} 5',
    'todo_store_duration_seconds_count{profile="a",operation="list",result="error"} 1',
    'todo_store_duration_seconds_sum{profile="a",operation="get",result="error"} 5',
    'todo_store_duration_seconds_count{profile="a",operation="get",result="error"} 1',
    'todo_store_duration_seconds_sum{profile="a",operation="delete",result="success"} 0',
    'todo_store_duration_seconds_count{profile="a",operation="delete",result="success"} 1',
  ])
})
