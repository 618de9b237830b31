import assert from 'node:assert/strict'
import { get, type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../src/verify/engine/client.ts'
import { node, serve } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { itemsPath, journalOf, numbered, problemOf, putFaults, repeat, sendRaw } from '../support/control.ts'
import type { RawConnection } from '../support/raw.ts'

test('the journal has at most 16 MiB; the newest entries are kept', async (t) => {
  const client = createClient((await serve(t, [])).url)
  const body = numbered('x'.repeat(20_000))
  await repeat(1_000, () => client.send('PUT', `${itemsPath}/9`, body))
  await client.send('GET', '/last')
  const { text } = await client.send('GET', '/__admin/requests')
  const entries = JSON.parse(text)
  assert.ok(entries.length < 1_000 && entries.length > 800, `${entries.length}`)
  assert.equal(entries.at(-1).path, '/last')
})

test('the journal does not count what was removed while it was pending', async (t) => {
  const { url, running } = await serve(t, [], {}, 'a', node)
  const client = createClient(url)
  const body = JSON.stringify(numbered('x'.repeat(20_000)))
  const count = 540
  const left = new AbortController()
  const headers = { 'content-type': 'application/json', prefer: 'wait=60' }
  const send = () => fetch(url + itemsPath, { method: 'POST', body, headers, signal: left.signal })
  const requests = Array.from({ length: count }, send)
  while ((await journalOf(client)).length < count) await sleep(100)
  await client.send('DELETE', '/__admin/requests')
  left.abort()
  await Promise.allSettled(requests)
  while ((running.stdout.match(/ aborted /g)?.length ?? 0) < count) await sleep(20)
  for (const path of ['/1', '/2']) await client.send('GET', path)
  assert.deepEqual(
    (await journalOf(client)).map(({ path }) => path),
    ['/1', '/2'],
  )
})

test('requests that are delayed have a limit for their memory, after their client has left too: the oldest get 503', async (t) => {
  const env = { NODE_OPTIONS: '--max-old-space-size=256' }
  const { url, running } = await serve(t, ['--metrics-port', '0'], env)
  const client = createClient(url)
  await putFaults(client, { method: 'POST', delay: 60_000 })
  // 32 of them are less than 32 MiB, 33 are more.
  const body = JSON.stringify(numbered('x'.repeat(1_020_000)))
  const delayed: RawConnection[] = []
  for (let count = 1; count <= 40; count++) {
    const raw = sendRaw(t, client, 'POST', 'X-Y: z', body)
    delayed.push(raw)
    while (!(await client.send('GET', '/__admin/faults')).text.endsWith(`"used":${count}}]`));
    if (count <= 4) raw.socket.destroy()
  }
  const [metrics] = await running.prints(/http:\/\/127\.0\.0\.1:\d+\/metrics/)
  const text = await (await fetch(metrics)).text()
  assert.deepEqual(text.match(/(?<=^todo_requests_total\{.*createItem.*status=).*/gm), ['"503"} 8'])
  for (const raw of delayed.slice(4, 8)) assert.deepEqual(await raw.responses(1), [503])
  assert.deepEqual(
    delayed.slice(8).flatMap(({ statuses }) => statuses),
    [],
  )
  assert.deepEqual(
    (await journalOf(client)).slice(0, 9).map(({ state, status }) => [state, status]),
    [...Array(4).fill(['aborted', null]), ...Array(4).fill(['sent', 503]), ['pending', null]],
  )
  assert.equal((await client.send('GET', itemsPath)).text, '[]')
})

// Much longer than it takes, and much shorter than it took when each event was formatted again for each one before it.
test('a client that does not read its events takes no memory and gets the rest when it reads again', {
  timeout: 120_000,
}, async (t) => {
  const { url } = await serve(t, [])
  const client = createClient(url)
  const slow = await new Promise<IncomingMessage>((responded) => get(`${url}/__admin/events`, responded))
  const count = 1_500
  await repeat(count, () => client.send('PUT', `${itemsPath}/9`, { id: 9, ...numbered('x'.repeat(16_000)) }))
  await client.send('GET', '/last')
  const ids: number[] = []
  let line = ''
  for await (const data of slow.setEncoding('utf8')) {
    const lines = `${line}${data}`.split('\n')
    line = lines.pop() ?? ''
    for (const complete of lines) if (complete.startsWith('id: ')) ids.push(Number(complete.slice(4)))
    if (lines.some((complete) => complete.includes('"path":"/last"'))) break
  }
  assert.ok(ids.length < count, `${ids.length}`)
  assert.deepEqual(
    ids,
    [...ids].sort((x, y) => x - y),
  )
})

test('a body that would not fit into a small heap is refused', async (t) => {
  const { url } = await serve(t, [], { NODE_OPTIONS: '--max-old-space-size=200' })
  const client = createClient(url, { timeout: 60_000 })
  const items = (bytes: number) => JSON.stringify([{ id: 1, name: 'x'.repeat(bytes), isComplete: true }])
  assert.equal((await client.send('PUT', '/__admin/items', items(60 * 2 ** 20))).status, 413)
  assert.equal((await client.send('PUT', '/__admin/items', items(8 * 2 ** 20))).status, 204)
  assert.equal((await client.send('GET', '/')).status, 200)
})

test('more than 10,000 faults in all spaces together are refused; a reset makes room', async (t) => {
  const { url } = await serve(t, [])
  const clients = Array.from({ length: 11 }, (_, index) => createClient(`${url}/~${index}`))
  const put = (client: Client, count: number) =>
    client.send('PUT', '/__admin/faults', Array(count).fill({ method: 'POST', code: 503 }))
  for (const client of clients.slice(0, 10)) assert.equal((await put(client, 1_000)).status, 204)
  const [first, last] = [clients[0] as Client, clients[10] as Client]
  const message = 'There may be at most 10000 faults in all spaces together: reset one that you no longer need.'
  for (const refused of [await put(last, 1), await last.send('POST', '/__admin/faults', { code: 503 })])
    assert.deepEqual([refused.status, problemOf(refused).errors], [400, { '': [message] }])
  assert.equal((await put(first, 1_000)).status, 204)
  await first.send('POST', '/__admin/reset')
  assert.equal((await put(last, 1_000)).status, 204)
})
