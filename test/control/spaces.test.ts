import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../src/verify/engine/client.ts'
import { cleanUp } from '../support/cleanup.ts'
import { serve, sharedService, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import {
  developmentToken,
  EventStream,
  itemsPath,
  journalOf,
  named,
  newSpace,
  numbered,
  problemOf,
  putFaults,
} from '../support/control.ts'
import { temporaryFolder } from '../support/folder.ts'
import { RawConnection } from '../support/raw.ts'
import { serveWith } from '../support/service.ts'
import { startingItemsB } from '../support/stores.ts'

const a = sharedService([])
const b = sharedService(['--profile', 'b'])

const create = async (client: Client, name: string, headers = {}) =>
  (await client.send('POST', itemsPath, numbered(name), headers)).status
const namesIn = async (client: Client, headers = {}): Promise<string[]> =>
  JSON.parse((await client.send('GET', itemsPath, undefined, headers)).text).map(({ name }: { name: string }) => name)

suite('space', { concurrency: true }, () => {
  test('the header and the prefix, encoded or not, name the same one; the name is case-sensitive', async (t) => {
    const service = createClient(a.url)
    assert.equal(await create(createClient(`${a.url}/~ada`), 'by prefix'), 201)
    assert.equal(await create(service, 'by header', { 'X-Todo-Space': 'ada' }), 201)
    const expected = ['by prefix', 'by header']
    for (const prefix of ['/~ada', '/%7eada', '/%7Eada', '/~%61da'])
      assert.deepEqual(await namesIn(createClient(`${a.url}${prefix}`)), expected)
    assert.deepEqual(await namesIn(service, { 'x-todo-space': 'ada' }), expected)
    const disagreeing = await service.send('GET', `/~ada${itemsPath}`, undefined, { 'x-todo-space': 'other' })
    assert.deepEqual(
      [disagreeing.status, problemOf(disagreeing).title],
      [400, 'The path names the space ada, the header other.'],
    )
    for (const other of [service, createClient(`${a.url}/~Ada`), createClient(`${a.url}/~ada_-9`)])
      assert.deepEqual(await namesIn(other), [])
    const raw = new RawConnection(t, a.port)
    raw.socket.write(`GET http://localhost/~ada${itemsPath} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    await raw.closed
    assert.match(raw.received, /by header/)
    for (const path of ['/~ada', '/~ada/', '/~ada?x=1'])
      assert.equal((await service.send('GET', path)).text, 'Hello World!')
  })

  test('G7 starts as the service starts, with ids of its own', async () => {
    assert.deepEqual(JSON.parse((await newSpace(b).send('GET', itemsPath)).text), startingItemsB)
    for (const client of [newSpace(a), newSpace(a)]) {
      assert.equal((await client.send('GET', itemsPath)).text, '[]')
      assert.match((await client.send('POST', itemsPath, numbered('x'))).text, /^{"id":1,/)
    }
    const [one, other] = [newSpace(a), newSpace(a)]
    const [{ etag }, { etag: otherEtag }] = [
      (await one.send('GET', itemsPath)).headers,
      (await other.send('GET', itemsPath)).headers,
    ]
    assert.notEqual(etag, otherEtag)
  })

  test('A3 Location keeps the prefix, and --base-url comes first', async (t) => {
    const locationOf = async (url: string, headers = {}) =>
      (await createClient(url).send('POST', itemsPath, numbered('x'), headers)).headers.location
    for (const prefix of ['/~location', '/%7Elocation']) {
      const location = await locationOf(`${a.url}${prefix}`)
      assert.match(`${location}`, new RegExp(`^${a.url}${prefix}${itemsPath}/\\d$`))
      assert.equal((await fetch(`${location}`)).status, 200)
    }
    assert.equal(await locationOf(a.url, { 'x-todo-space': 'location-2' }), `${a.url}${itemsPath}/1`)
    const { url } = await serve(t, ['--base-url', 'https://todo.example/base'])
    assert.equal(await locationOf(`${url}/~ada`), `https://todo.example/base/~ada${itemsPath}/1`)
  })

  test('S4, S5 the document and the page are served under the prefix', async () => {
    const client = newSpace(a)
    const { pathname: prefix } = new URL(client.url)
    const { status, headers } = await client.send('GET', '/swagger')
    assert.deepEqual([status, headers.location], [302, `${prefix}/swagger/index.html`])
    const { text: html } = await client.send('GET', '/swagger/index.html')
    const links = [...html.matchAll(/(?:href|src)="(\/[^"#]*)"/g)].map(([, link]) => link as string)
    assert.ok(links.length >= 4, `${links}`)
    for (const link of links) {
      assert.ok(link.startsWith(`${prefix}/`), link)
      assert.equal((await createClient(a.url).send('GET', link)).status, 200)
    }
    const authorization = `Bearer ${await developmentToken(a)}`
    const document = await client.send('GET', '/swagger/v1/swagger.json', undefined, { authorization })
    assert.deepEqual(JSON.parse(document.text).servers, [{ url: client.url }])
    const control = await client.send('GET', '/__admin/openapi.json')
    assert.deepEqual(JSON.parse(control.text).servers, [{ url: client.url }])
  })

  for (const [profile, service] of Object.entries({ a, b }))
    test(`profile ${profile}: an invalid name gets 400, also from a page, and is logged`, async () => {
      const client = createClient(service.url)
      const invalid = ['', 'a b', 'a.b', 'ä', 'a,b', 'x'.repeat(65), '%61', '../x']
      const responses = [
        ...invalid.map((name) =>
          client.send('GET', itemsPath, undefined, { 'x-todo-space': Buffer.from(name).toString('latin1') }),
        ),
        ...['', 'a.b', '%2e', '%', 'x'.repeat(65), 'a+b'].map((name) => client.send('GET', `/~${name}${itemsPath}`)),
        client.send('GET', '/~'),
        client.send('POST', '/~a.b/__admin/reset'),
        client.send('POST', itemsPath, '{"a"', { 'x-todo-space': '.', origin: 'http://localhost:5173' }),
      ]
      for (const response of await Promise.all(responses)) {
        assert.equal(response.status, 400)
        assert.match(problemOf(response).title, /^The name of a space must have 1 to 64 of A-Z, a-z, 0-9, _ and -\.$/)
      }
      assert.equal((await responses.at(-1))?.headers['access-control-allow-origin'], 'http://localhost:5173')
      await service.running.prints(/\/~a\.b.* 400 .*The name of a space must have/)
      const entries = await journalOf(client)
      assert.ok(entries.some(({ path, status, reason }) => path === '/~a.b/__admin/reset' && status === 400 && reason))
      assert.equal((await client.send('GET', `/~${'x'.repeat(64)}${itemsPath}`)).status, 200)
    })

  test('the first request of a space is checked by its own faults', async (t) => {
    const { url } = await serve(t, [])
    const fault = { method: 'POST', code: 503 }
    assert.equal((await createClient(url).send('PUT', '/__admin/faults', Array(1_000).fill(fault))).status, 204)
    assert.equal((await createClient(`${url}/~new`).send('POST', '/__admin/faults', fault)).status, 201)
  })

  test('a malformed request is rejected as without a space, and closes the connection', async (t) => {
    const raw = new RawConnection(t, a.port)
    const next = `POST /~behind${itemsPath} HTTP/1.1\r\nHost: localhost\r\n\r\n`
    raw.socket.write(`GET /~a.b/ HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n${next}`)
    await raw.closed
    assert.match(raw.received, /^HTTP\/1\.1 400 .*A header that may occur once is repeated/s)
    assert.deepEqual(raw.statuses, [400])
  })

  test('has faults and a journal of its own; a reset leaves the others alone', async () => {
    const [one, other] = [newSpace(a), newSpace(a)]
    await putFaults(one, { code: 503 })
    for (const client of [one, other]) await create(client, 'x')
    assert.deepEqual(
      (await journalOf(one)).map(({ status }) => status),
      [503],
    )
    await other.send('POST', '/__admin/reset')
    await create(other, 'y')
    await one.send('PUT', '/__admin/items', [{ id: 7, ...numbered('z') }])
    assert.deepEqual(await namesIn(other), ['y'])
    await putFaults(one)
    assert.deepEqual(await namesIn(one), ['z'])
    assert.equal((await journalOf(one)).length, 2)
    const byHeader = await createClient(a.url).send('GET', '/__admin/items', undefined, {
      'x-todo-space': new URL(one.url).pathname.slice(2),
    })
    assert.deepEqual(JSON.parse(byHeader.text), [{ id: 7, ...numbered('z') }])
  })

  test('200 clients in 200 spaces at once never see the items of another', async (t) => {
    const clients = Array.from({ length: 200 }, async (_, at) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      cleanUp(t, () => agent.destroy())
      const headers = at % 2 === 0 ? { 'x-todo-space': `many-${at}` } : {}
      const client = createClient(at % 2 === 0 ? a.url : `${a.url}/~many-${at}`, { agent, timeout: 60_000 })
      for (let id = 1; id <= 4; id++) {
        const { text } = await client.send('POST', itemsPath, numbered(`${at} ${id}`), headers)
        assert.deepEqual(JSON.parse(text), { id, ...numbered(`${at} ${id}`) })
      }
      await client.send('PUT', `${itemsPath}/1`, { id: 1, name: `${at} new`, isComplete: true }, headers)
      await client.send('DELETE', `${itemsPath}/2`, undefined, headers)
      assert.deepEqual(await namesIn(client, headers), [`${at} new`, `${at} 3`, `${at} 4`])
    })
    await Promise.all(clients)
  })
})

/** The URL of a service with at most so many spaces. */
async function serveSpaces(t: TestContext, maxSpaces: number, args: readonly string[] = []): Promise<string> {
  const { url } = await serveWith(t, ['--no-https', ...args], ({ control }) => ({
    control: control && { ...control, maxSpaces },
  }))
  return url
}

suite('end of a space', { concurrency: true }, () => {
  const spacesOf = async (service: Client): Promise<string[]> =>
    JSON.parse((await service.send('GET', '/__admin/spaces')).text).map(({ name }: { name: string }) => name)

  test('--space-ttl: after so many seconds without a request it is dropped, unless a page listens', async (t) => {
    const { url } = await serve(t, ['--space-ttl', '1'])
    const [service, client, other] = [createClient(url), createClient(`${url}/~ada`), createClient(`${url}/~bob`)]
    await create(service, 'main')
    await create(client, 'x')
    const stream = await EventStream.open(t, client)
    await create(other, 'y')
    while ((await spacesOf(service)).includes('bob')) await sleep(50)
    assert.deepEqual(await namesIn(other), [])
    assert.deepEqual(await namesIn(client), ['x'])
    stream.close()
    while ((await spacesOf(service)).includes('ada')) await sleep(50)
    assert.deepEqual(await namesIn(client), [])
    assert.deepEqual(await namesIn(service), ['main'])
  })

  test('one that is deleted ends in both profiles, with its faults, its journal and its event streams', async (t) => {
    const running = start(t, ['serve', '--port-a', '0', '--port-b', '0'])
    const [, portA] = await running.prints(/Profile A {2}http:\/\/localhost:(\d+)/)
    const [, portB] = await running.prints(/Profile B {2}http:\/\/localhost:(\d+)/)
    const [inA, inB] = [portA, portB].map((port) => createClient(`http://localhost:${port}/~ada`)) as [Client, Client]
    const streams = [await EventStream.open(t, inA), await EventStream.open(t, inB)]
    await create(inA, 'x')
    await inB.send('POST', itemsPath, named('x'))
    for (const client of [inA, inB]) await putFaults(client, { method: 'PUT', code: 404 })
    const service = createClient(`http://localhost:${portB}`)
    assert.equal((await service.send('DELETE', '/__admin/spaces/ada')).status, 204)
    for (const stream of streams) await stream.rest()
    assert.deepEqual(await namesIn(inA), [])
    assert.equal((await namesIn(inB)).length, 3)
    for (const client of [inA, inB]) assert.equal((await client.send('GET', '/__admin/faults')).text, '[]')
    for (const name of ['unknown', 'a%20b'])
      assert.equal((await service.send('DELETE', `/__admin/spaces/${name}`)).status, 404, name)
  })

  test('GET /__admin/spaces tells of each who used it, and what it broke', async (t) => {
    const { url } = await serve(t, ['--data', join(temporaryFolder(t), 'class.db')])
    const [service, ada] = [createClient(url), createClient(`${url}/~ada`)]
    await create(ada, 'x')
    await ada.send('POST', itemsPath, { name: 'y' })
    await createClient(`${url}/~bob`).send('GET', itemsPath)
    const { text } = await service.send('GET', '/__admin/spaces')
    const [main, first, second] = JSON.parse(text)
    assert.deepEqual([main.name, main.items, main.requests], ['', 0, 0])
    const { lastUsed, mistake, ...seen } = first
    assert.deepEqual(seen, {
      name: 'ada',
      items: 1,
      requests: 2,
      rejected: 1,
      met: ['A3', 'A4', 'G3'],
      broken: ['A6'],
    })
    assert.ok(Math.abs(Date.parse(lastUsed) - Date.now()) < 60_000)
    const { time, ...newest } = mistake
    assert.deepEqual(newest, {
      method: 'POST',
      path: itemsPath,
      status: 400,
      rules: ['A6'],
      reason: 'isComplete is missing.',
    })
    assert.equal(time, lastUsed)
    assert.deepEqual([second.name, second.items, second.requests, second.mistake], ['bob', 0, 1, undefined])
  })

  test('when there are too many, the least recently used is dropped', async (t) => {
    const url = await serveSpaces(t, 2)
    const [x, y, z] = ['x', 'y', 'z'].map((name) => createClient(`${url}/~${name}`)) as [Client, Client, Client]
    await create(x, 'x')
    await create(y, 'y')
    assert.deepEqual(await namesIn(x), ['x'])
    await create(z, 'z')
    assert.deepEqual(await namesIn(x), ['x'])
    assert.deepEqual(await namesIn(z), ['z'])
    // One that is only looked at does not take the place of one with items that was just used.
    const refused = await y.send('GET', itemsPath)
    assert.deepEqual([refused.status, problemOf(refused).title], [503, 'All 2 spaces are in use: wait a minute.'])
    await create(y, 'y')
    assert.deepEqual(await namesIn(z), ['z'])
    assert.deepEqual(await namesIn(y), ['y'])
    assert.equal((await z.send('POST', '/__admin/reset')).status, 204)
    assert.deepEqual(await namesIn(y), ['y'])
    assert.deepEqual(await namesIn(x), [])
  })

  test('a request that is not served, or comes from a page of another site, creates none', async (t) => {
    const { url } = await serve(t, ['--rate-limit', '1000/s'])
    const service = createClient(url)
    const foreign = { origin: 'https://evil.example' }
    for (const [method, path, headers, status] of [
      ['GET', '/~a/nothing', {}, 404],
      ['GET', '/~a/secret', {}, 401],
      ['PATCH', '/~a/api/todoitems', {}, 405],
      ['OPTIONS', '/~a/api/todoitems', {}, 204],
      ['GET', '/~a/__admin/nothing', {}, 404],
      ['GET', '/~a/__admin/items', { host: 'evil.example' }, 401],
      ['GET', '/~a/', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, 403],
      ['GET', '/~a/api/todoitems', foreign, 403],
      ['POST', '/~a/api/todoitems', foreign, 403],
      ['GET', '/~a/__admin/items', foreign, 403],
      ['GET', '/', { 'x-todo-space': 'a', ...foreign }, 403],
    ] as const)
      assert.equal((await service.send(method, path, undefined, headers)).status, status, `${method} ${path}`)
    assert.deepEqual(await spacesOf(service), [''])
    // A page that may use the service, from whichever site, and what no page has sent.
    for (const [name, headers] of [
      ['page', { origin: 'http://localhost:5173', 'sec-fetch-site': 'cross-site' }],
      ['own', { origin: url, 'sec-fetch-site': 'same-origin' }],
      ['typed', { 'sec-fetch-site': 'none' }],
      ['curl', {}],
    ] as const)
      assert.equal((await service.send('GET', `/~${name}/`, undefined, headers)).status, 200, name)
    assert.deepEqual(await spacesOf(service), ['', 'page', 'own', 'typed', 'curl'])
  })

  test('a thousand requests of a page of another site drop none', async (t) => {
    const url = await serveSpaces(t, 10)
    const ada = createClient(`${url}/~ada`)
    await create(ada, 'x')
    const agent = new Agent({ keepAlive: true })
    cleanUp(t, () => agent.destroy())
    const page = createClient(url, { agent })
    for (let count = 0; count < 100; count++)
      await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          page.send('GET', `/~e${count * 10 + at}/`, undefined, { 'sec-fetch-site': 'cross-site' }),
        ),
      )
    assert.deepEqual(await namesIn(ada), ['x'])
    // Nor do as many of a program that only look.
    for (let count = 0; count < 30; count++) await page.send('GET', `/~f${count}/`)
    assert.deepEqual(await namesIn(ada), ['x'])
  })

  test('the memory budget counts all spaces, and gets back what a dropped one had', async (t) => {
    const url = await serveSpaces(t, 2, ['--max-memory', '1m'])
    const client = (name: string) => createClient(`${url}${name}`)
    /** How many items of 20,000 bytes fit in. */
    const fill = async (target: Client) => {
      let count = 0
      while ((await create(target, 'x'.repeat(20_000))) === 201) count++
      return count
    }
    const empty = await fill(client('/~x'))
    assert.ok(empty > 40 && empty < 55, `${empty}`)
    assert.equal(await create(client(''), 'x'.repeat(20_000)), 503)
    assert.deepEqual(await namesIn(client('/~y')), [])
    assert.equal(await create(client('/~y'), 'x'.repeat(20_000)), 503)
    assert.equal((await client('/~x').send('POST', '/__admin/reset')).status, 204)
    assert.equal(await fill(client('/~x')), empty)
    await client('/~x').send('POST', '/__admin/reset')

    // A request that is still delayed when its space is dropped.
    await putFaults(client('/~z'), { method: 'POST', delay: 1_000 })
    const delayed = create(client('/~z'), 'x'.repeat(100_000))
    while (!/"used":1/.test((await client('/~z').send('GET', '/__admin/faults')).text));
    for (const name of ['/~y', '/~w']) await client(name).send('GET', itemsPath)
    assert.equal(await delayed, 503)
    assert.deepEqual(await namesIn(client('/~z')), [])
    const remaining = await fill(client('/~x'))
    assert.ok(remaining >= empty - 1, `${remaining} of ${empty}`)
  })

  test('B2, B6 where there is no memory for another one, those that are there stay writable', async (t) => {
    const { url } = await serve(t, ['--max-memory', '40k'], {}, 'b')
    const clients = Array.from({ length: 20 }, (_, index) => createClient(`${url}/~${index}`))
    const statuses = []
    for (const client of clients) {
      statuses.push((await client.send('POST', itemsPath, named('x'))).status)
      const items = JSON.parse((await client.send('GET', itemsPath)).text)
      assert.equal(items.length, statuses.at(-1) === 200 ? 4 : 3)
    }
    const [first] = clients as [Client]
    assert.ok(statuses.includes(200) && statuses.includes(400), `${statuses}`)
    assert.equal((await first.send('DELETE', `${itemsPath}/x`)).status, 204)
    assert.equal((await first.send('POST', itemsPath, named('x'))).status, 200)
  })

  test('A2, A8, A9 where there is no memory for another one, an item that is not there gets 404', async (t) => {
    const { url } = await serve(t, ['--max-memory', '1k'])
    const client = createClient(`${url}/~ada`)
    const item = `${itemsPath}/5`
    assert.equal((await client.send('POST', itemsPath, numbered('x'))).status, 503)
    assert.equal((await client.send('GET', item)).status, 404)
    assert.equal((await client.send('PUT', item, { ...numbered('x'), id: 5 })).status, 404)
    assert.equal((await client.send('DELETE', item)).status, 404)
    assert.equal((await client.send('GET', itemsPath)).text, '[]')
  })

  test('B5, B6, B7, B8 where there is no memory for another one, only what would change it fails', async (t) => {
    const { url } = await serve(t, ['--max-memory', '1k'], {}, 'b')
    const client = createClient(`${url}/~ada`)
    const [learn] = startingItemsB
    const send = async (method: string, path: string, body?: object) => {
      const { status, text } = await client.send(method, `${itemsPath}${path}`, body)
      return [status, text]
    }
    assert.deepEqual(await send('PUT', '', named('x')), [404, 'RecordNotFound'])
    assert.deepEqual(await send('DELETE', '/x'), [404, 'RecordNotFound'])
    assert.deepEqual(await send('POST', '', learn), [409, 'TodoItemIDInUse'])
    assert.deepEqual(await send('POST', '', named('x')), [400, 'CouldNotCreateItem'])
    assert.deepEqual(await send('PUT', '', learn), [400, 'CouldNotUpdateItem'])
    assert.deepEqual(await send('DELETE', `/${learn?.id}`), [400, 'CouldNotDeleteItem'])
    assert.deepEqual(await send('GET', ''), [200, JSON.stringify(startingItemsB)])
  })
})
