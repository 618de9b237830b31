import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { node, serve } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { startFlood } from '../support/flood.ts'
import { temporaryFolder } from '../support/folder.ts'
import { memoryOf } from '../support/process.ts'

const items = '/api/todoitems'
const longList = `/~long${items}`
const listBytes = 40 * 2 ** 20
const itemBytes = 32 * 1024

const json = (method: string, body: object) => ({
  method,
  body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json' },
})

/** Adds to the list of a space until it is long. */
async function addItems(url: string): Promise<void> {
  let next = 0
  const add = async () => {
    while (next * itemBytes < listBytes) {
      const item = { id: `item-${next++}`, name: 'name', notes: 'x'.repeat(itemBytes), done: false }
      assert.equal((await fetch(url, json('POST', item))).status, 200)
    }
  }
  await Promise.all(Array.from({ length: 8 }, add))
}

/** Clients, each in a space of its own, that create, list and delete. Counts the statuses; returns the 99th percentile. */
async function use(url: string, durationMs: number, statuses: Map<number, number>): Promise<number> {
  const times: number[] = []
  const end = performance.now() + durationMs
  const send = async (path: string, init?: RequestInit) => {
    const sentAt = performance.now()
    const response = await fetch(url + path, init)
    await response.arrayBuffer()
    times.push(performance.now() - sentAt)
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
  }
  const client = async (list: string) => {
    while (performance.now() < end) {
      await send(list, json('POST', { id: 'own', name: 'name', notes: 'notes', done: false }))
      await send(list)
      await send(`${list}/own`, { method: 'DELETE' })
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, at) => client(`/~other-${at}${items}`)))
  return times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] as number
}

/** By store, the flags and the environment of a service on it. */
const stores: Record<string, (t: TestContext) => Promise<readonly [string[], NodeJS.ProcessEnv?]>> = {
  memory: async () => [['--max-memory', '256m']],
  'a file': async (t) => [['--data', join(temporaryFolder(t), 'todo.db')]],
  PostgreSQL: async () => [[], { TODO_DATABASE_URL: (await newDatabase()).url }],
}

for (const [name, settingsOf] of Object.entries(stores))
  test(`A15 ${name}: 40 clients that ask for a list of 40 MiB and leave do not stop those in other spaces`, async (t) => {
    const [flags, environment] = await settingsOf(t)
    const { running, url, port } = await serve(t, ['--log-level', 'error', ...flags], environment, 'b', node)
    await addItems(url + longList)
    const statuses = new Map<number, number>()
    let [quietMs, noisyMs, maxBytes] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0]
    await use(url, 1_000, statuses)
    const timer = setInterval(() => {
      maxBytes = Math.max(maxBytes, memoryOf(running.process.pid as number))
    }, 50)
    t.after(() => clearInterval(timer))
    // In turn, because other programs load the machine, too.
    for (let round = 0; round < 3; round++) {
      quietMs = Math.min(quietMs, await use(url, 2_000, statuses))
      const first = `GET ${longList} HTTP/1.1\r\nHost: x\r\n\r\n`
      const flood = await startFlood(t, port, { first, leaves: true }, { clients: 40 })
      noisyMs = Math.min(noisyMs, await use(url, 3_400, statuses))
      const { 200: _, ...others } = await flood.stop()
      assert.deepEqual(others, {})
    }
    t.diagnostic(`p99 ${quietMs.toFixed(1)} ms, with the others ${noisyMs.toFixed(1)} ms; ${maxBytes >> 20} MiB`)
    assert.deepEqual([...statuses.keys()].sort(), [200, 204])
    assert.ok(noisyMs < 5 * Math.max(quietMs, 5), `99 % took up to ${noisyMs} ms, without the others ${quietMs} ms`)
    assert.ok(maxBytes < 512 * 2 ** 20, `${maxBytes} bytes`)
  })
