import assert from 'node:assert/strict'
import { createSecretKey, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { signToken } from '../../src/tokens/sign.ts'
import type { Client } from '../../src/verify/engine/client.ts'
import { cleanUp } from '../support/cleanup.ts'
import { cli, run, type Service, serve, sharedService } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import {
  controlToken,
  developmentToken,
  itemsPath,
  journalOf,
  named,
  newSpace,
  numbered,
  problemOf,
  putFaults,
} from '../support/control.ts'
import { temporaryFolder } from '../support/folder.ts'
import { openApiValidation } from '../support/openapi-validation.ts'
import { RawConnection } from '../support/raw.ts'
import { serveWith } from '../support/service.ts'
import { startingItemsB } from '../support/stores.ts'

const adminItems = '/__admin/items'
const list = async (client: Client) => (await client.send('GET', itemsPath)).text

async function put(client: Client, items: unknown): Promise<void> {
  const { status, text } = await client.send('PUT', adminItems, items)
  assert.equal(status, 204, text)
  assert.equal(text, '')
}

/** The errors of a PUT that is rejected and changes nothing. */
async function rejectedPut(client: Client, items: unknown) {
  const before = await list(client)
  const response = await client.send('PUT', adminItems, items)
  assert.equal(response.status, 400, response.text)
  assert.equal(response.headers['content-type'], 'application/problem+json')
  assert.equal(await list(client), before)
  return problemOf(response).errors
}

const a = sharedService([])
const b = sharedService(['--profile', 'b'])

suite('control API', { concurrency: true }, () => {
  test('A4, G7 reset of profile A: no items, the next id is 1, no faults, an empty journal', async () => {
    const client = newSpace(a)
    for (const name of ['x', 'y']) await client.send('POST', itemsPath, numbered(name))
    await putFaults(client, { method: 'DELETE', code: 503 })
    const { status, text } = await client.send('POST', '/__admin/reset')
    assert.deepEqual([status, text], [204, ''])
    assert.deepEqual(await journalOf(client), [])
    assert.equal((await client.send('GET', '/__admin/faults')).text, '[]')
    assert.equal(await list(client), '[]')
    const created = await client.send('POST', itemsPath, numbered('z'))
    assert.deepEqual([created.status, JSON.parse(created.text).id], [201, 1])
    assert.equal((await client.send('DELETE', `${itemsPath}/1`)).status, 204)
  })

  test('B2, G7 reset of profile B: its three items as at the start', async () => {
    const client = newSpace(b)
    const starting = await list(client)
    assert.deepEqual(JSON.parse(starting), startingItemsB)
    const [first, second] = startingItemsB
    await client.send('DELETE', `${itemsPath}/${first?.id}`)
    await client.send('PUT', itemsPath, { ...second, done: true })
    await client.send('POST', itemsPath, named('x'))
    assert.equal((await client.send('POST', '/__admin/reset')).status, 204)
    assert.equal(await list(client), starting)
  })

  test('A1, A4, A11 PUT replaces the items of profile A by exactly these; the next id is the highest plus one', async () => {
    const client = newSpace(a)
    await client.send('POST', itemsPath, numbered('old'))
    const [low, high] = ['9007199254740992', '9007199254740993']
    await put(
      client,
      `[{"id":${high},"name":"high","isComplete":true},
        {"isComplete":false,"id":-5,"secret":"x","unknown":[1,{"id":2}]},
        {"id":0,"id":${low},"name":null,"isComplete":false}]`,
    )
    const expected = `[{"id":-5,"name":null,"isComplete":false},{"id":${low},"name":null,"isComplete":false},{"id":${high},"name":"high","isComplete":true}]`
    assert.equal(await list(client), expected)
    const { headers, text } = await client.send('GET', adminItems)
    assert.deepEqual([headers['content-type'], text], ['application/json; charset=utf-8', expected])
    assert.match((await client.send('POST', itemsPath, numbered('new'))).text, /^{"id":9007199254740994,/)
    await put(client, (await client.send('GET', adminItems)).text)
    assert.equal((await client.send('DELETE', `${itemsPath}/${high}`)).status, 204)
    assert.equal((await client.send('GET', `${itemsPath}/${low}`)).status, 200)
    await put(client, [])
    assert.match((await client.send('POST', itemsPath, numbered('x'))).text, /^{"id":1,/)
    await put(client, '[{"id":9223372036854775807,"isComplete":true}]')
    assert.equal((await client.send('POST', itemsPath, numbered('x'))).status, 503)
  })

  test('B1 PUT replaces the items of profile B by exactly these, in this order', async () => {
    const client = newSpace(b)
    const items = [named('z'), named('a/b 😀'), named('Z')]
    await put(
      client,
      items.map(({ done, ...item }) => item),
    )
    assert.deepEqual(JSON.parse(await list(client)), items)
    assert.equal((await client.send('GET', adminItems)).text, await list(client))
    assert.equal((await client.send('POST', itemsPath, named('z'))).status, 409)
    await client.send('POST', itemsPath, named('y'))
    assert.deepEqual(JSON.parse(await list(client)), [...items, named('y')])
  })

  test('PUT accepts more items than a request of the contract may have members', async () => {
    const client = newSpace(a)
    const items = Array.from({ length: 20_000 }, (_, at) => ({ id: at + 1, name: 'x'.repeat(100), isComplete: false }))
    await put(client, items)
    assert.deepEqual(JSON.parse(await list(client)), items)
  })

  test('A5, A6, A11 PUT names every mistake of profile A with its position, and changes nothing', async () => {
    const client = newSpace(a)
    await client.send('POST', itemsPath, numbered('old'))
    const errors = await rejectedPut(
      client,
      `[{"id":1,"name":"x","isComplete":true},
        {"id":1,"isComplete":true},
        {"id":1.5,"name":7,"isComplete":"true"},
        {"id":"2","isComplete":true},
        {"id":9223372036854775808,"isComplete":true},
        5, null, [],
        {"name":"\\ud800"},
        {"id":9007199254740993,"isComplete":true},
        {"id":9007199254740992,"isComplete":true},
        {"id":9007199254740993,"isComplete":true}]`,
    )
    assert.deepEqual(errors, {
      '[1].id': ['[1].id is the same as [0].id.'],
      '[2].id': ['[2].id must be an int64.'],
      '[2].name': ['[2].name must be a string or null.'],
      '[2].isComplete': ['[2].isComplete must be true or false.'],
      '[3].id': ['[3].id must be an int64.'],
      '[4].id': ['[4].id must be an int64.'],
      '[5]': ['[5] must be an object.'],
      '[6]': ['[6] must be an object.'],
      '[7]': ['[7] must be an object.'],
      '[8].id': ['[8].id is missing.'],
      '[8].name': ['[8].name must not contain a lone surrogate.'],
      '[8].isComplete': ['[8].isComplete is missing.'],
      '[11].id': ['[11].id is the same as [9].id.'],
    })
    assert.match((await client.send('POST', itemsPath, numbered('new'))).text, /^{"id":2,/)
  })

  test('B4, B11 PUT names every mistake of profile B with its position, and changes nothing', async () => {
    const client = newSpace(b)
    const errors = await rejectedPut(client, [
      named('x'),
      { ...named('y'), name: ' ', notes: '' },
      { id: 'z', done: null },
      { ...named('x'), name: 5 },
      named('i'.repeat(1025)),
    ])
    assert.deepEqual(errors, {
      '[1].name': ['[1].name must not be blank.'],
      '[1].notes': ['[1].notes must not be blank.'],
      '[2].name': ['[2].name is missing.'],
      '[2].notes': ['[2].notes is missing.'],
      '[2].done': ['[2].done must be true or false.'],
      '[3].id': ['[3].id is the same as [0].id.'],
      '[3].name': ['[3].name must be a string.'],
      '[4].id': ['[4].id must have at most 1024 characters.'],
    })
  })

  for (const [name, flags] of [
    ['in memory', []],
    ['in a file', ['--data']],
  ] as const)
    test(`PUT with If-Match changes nothing where items ${name} have changed since`, async (t) => {
      const file = join(temporaryFolder(t), 'todo.db')
      const args = flags.length > 0 ? [...flags, file] : []
      const client = createClient((await serve(t, args)).url)
      const read = async () => {
        const { headers, text } = await client.send('GET', adminItems)
        return { etag: `${headers.etag}`, items: JSON.parse(text) }
      }
      const putBack = (etag: string, items: unknown) => client.send('PUT', adminItems, items, { 'if-match': etag })
      const { etag } = await read()
      const item = { id: 7, name: 'x', isComplete: true }
      // In a file this is the first change of the process.
      assert.equal((await putBack(etag, [item])).status, 204)
      const refused = await putBack(etag, [])
      assert.deepEqual(
        [refused.status, problemOf(refused).title],
        [412, 'The state has changed: no entity tag in If-Match matches.'],
      )
      const second = await read()
      assert.deepEqual(second.items, [item])
      assert.equal((await client.send('GET', adminItems, undefined, { 'if-none-match': second.etag })).status, 304)
      await client.send('POST', itemsPath, numbered('of another client'))
      assert.equal((await putBack(second.etag, [])).status, 412)
      assert.equal((await read()).items.length, 2)
      assert.equal((await putBack(`"other", ${(await read()).etag}`, [item])).status, 204)
      assert.equal((await putBack('*', [])).status, 204)
    })

  test('PUT rejects what is not an array', async () => {
    const client = newSpace(a)
    assert.deepEqual(await rejectedPut(client, '{"id":1,"isComplete":true}'), { '': ['The body must be an array.'] })
    for (const body of ['null', '"x"', '5']) assert.ok(await rejectedPut(client, body), body)
    for (const [body, message] of [
      ['', 'The body is empty.'],
      ['[{]', 'The body is not JSON: at line 1, column 3, a name in double quotes or } is expected.'],
      [Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]), 'The body is not UTF-8 at line 1, column 3.'],
    ] as const)
      assert.deepEqual(await rejectedPut(client, body), { '': [message] })
  })

  test('every path and method: 404 and 405 as problem documents, HEAD, one trailing slash, any case', async () => {
    const client = newSpace(a)
    assert.equal((await client.send('GET', '/__ADMIN/Items/')).text, '[]')
    assert.equal((await client.send('HEAD', '/__admin/events')).status, 200)
    const { status, headers } = await client.send('GET', '/__admin/reset')
    assert.deepEqual([status, headers.allow], [405, 'POST'])
    for (const path of ['/__admin', '/__admin/', '/__admin/nothing'])
      assert.equal((await client.send('GET', path)).status, 404)
    const unknown = await newSpace(b).send('GET', '/__administrator')
    assert.deepEqual([unknown.status, unknown.text], [404, ''], 'G6: a path of the profile, not of the control API')
  })
})

suite('limits of the control API', { concurrency: true }, () => {
  test('more than 100,000 items, or a million values, are refused before they are checked', async () => {
    const client = newSpace(a)
    const refused = async (body: string) => problemOf(await client.send('PUT', adminItems, body)).title
    assert.equal(
      await refused(`[${'1,'.repeat(100_000)}1]`),
      'The body is too large: it has 100001 items, and may have 100000.',
    )
    const startedAt = performance.now()
    assert.equal(
      await refused(`[${'1,'.repeat(4_900_000)}1]`),
      'The body is too large: it has more than 1000000 values.',
    )
    assert.ok(performance.now() - startedAt < 10_000)
    const { errors = {} } = problemOf(await client.send('PUT', adminItems, `[${'1,'.repeat(99_999)}1]`))
    assert.equal(Object.keys(errors).length, 1_000)
  })

  test('more than 1,000 faults are refused', async () => {
    const client = newSpace(a)
    const faults = (count: number) => Array.from({ length: count }, () => ({ method: 'POST', code: 503 }))
    const refused = await client.send('PUT', '/__admin/faults', faults(100_000))
    assert.deepEqual([refused.status, problemOf(refused).errors], [400, { '': ['There may be at most 1000 faults.'] }])
    assert.equal((await client.send('PUT', '/__admin/faults', faults(1_000))).status, 204)
    const surplus = await client.send('POST', '/__admin/faults', { code: 503 })
    assert.deepEqual([surplus.status, problemOf(surplus).errors], [400, { '': ['There may be at most 1000 faults.'] }])
  })

  test('more than 100 clients that receive events are refused; one that leaves makes room', async (t) => {
    const { url } = await serve(t, [])
    const clients = [createClient(url), createClient(`${url}/~ada`)]
    const abort = new AbortController()
    cleanUp(t, () => abort.abort())
    const open = (index: number, signal = abort.signal) =>
      fetch(`${clients[index % 2]?.url}/__admin/events`, { signal })
    const first = new AbortController()
    const streams = await Promise.all([open(0, first.signal), ...Array.from({ length: 99 }, (_, index) => open(index))])
    assert.deepEqual(new Set(streams.map(({ status }) => status)), new Set([200]))
    const refused = await open(0)
    assert.deepEqual(
      [refused.status, problemOf({ text: await refused.text() }).title],
      [503, 'Too many clients receive events: at most 100 at a time.'],
    )
    first.abort()
    while ((await open(0)).status !== 200);
  })
})

test('a store that is full: 503 with the flag that would help, nothing changed', async (t) => {
  const service = await serve(t, ['--profile', 'b', '--max-items', '4', '--max-memory', '100k'])
  const client = createClient(service.url)
  const before = await list(client)
  for (const [items, flag] of [
    [['1', '2', '3', '4', '5'].map(named), '--max-items'],
    [[{ ...named('x'), notes: 'x'.repeat(200_000) }], '--max-memory'],
  ] as const) {
    const response = await client.send('PUT', adminItems, items)
    assert.equal(response.status, 503)
    assert.equal(problemOf(response).title, `There is no room for more items: raise ${flag}.`)
    assert.equal(await list(client), before)
  }
  await put(client, ['1', '2', '3', '4'].map(named))
})

test('B2 a reset for whose items there is no room: 503, nothing changed', async (t) => {
  const { url } = await serve(t, ['--profile', 'b', '--max-memory', '100k'])
  const [client, other] = [createClient(url), createClient(`${url}/~other`)]
  await put(client, [])
  await putFaults(client, { method: 'PUT', code: 404 })
  await put(other, [{ ...named('x'), notes: 'x'.repeat(58_000) }])
  for (let id = 0; (await other.send('POST', itemsPath, named(`${id}`))).status === 200; id++);
  const response = await client.send('POST', '/__admin/reset')
  assert.equal(response.status, 503)
  assert.equal(problemOf(response).title, 'There is no room for more items: raise --max-memory.')
  assert.equal(await list(client), '[]')
  assert.notDeepEqual(await journalOf(client), [])
  assert.equal(JSON.parse((await client.send('GET', '/__admin/faults')).text).length, 1)
})

/** Requests that would change something, were they allowed. */
const changes = [
  ['POST', '/__admin/reset', undefined],
  ['PUT', adminItems, []],
  ['PUT', '/__admin/faults', [{ code: 503 }]],
  ['POST', '/__admin/faults', { code: 503 }],
  ['PUT', '/__admin/faults/1', { code: 503 }],
  ['DELETE', '/__admin/faults/1', undefined],
  ['DELETE', '/__admin/requests', undefined],
  ['DELETE', '/__admin/faults', undefined],
  ['POST', '/__admin/codes', undefined],
] as const
const reads = ['/__admin/items', '/__admin/requests', '/__admin/events', '/__admin/faults', '/__admin/openapi.json']
const requests = [...changes, ...reads.map((path) => ['GET', path, undefined] as const)]

suite('access to the control API', { concurrency: true }, () => {
  const service = a

  /** A space with an item, a fault and a journal; returns a check that all of it is still there. */
  async function prepared() {
    const client = newSpace(service)
    await client.send('POST', itemsPath, numbered('x'))
    await putFaults(client, { method: 'DELETE', code: 404 })
    const state = async () => [await list(client), (await client.send('GET', '/__admin/faults')).text]
    const before = await state()
    return {
      client,
      async assertUnchanged() {
        assert.ok((await journalOf(client)).length > 1)
        assert.deepEqual(await state(), before)
      },
    }
  }
  const attacker = (headers: Record<string, string>) => (client: Client) => async (token?: string) => {
    const authorization = token && { authorization: `Bearer ${token}` }
    const statuses = new Set<number>()
    for (const [method, path, body] of requests) {
      const response = await client.send(method, path, body, { ...headers, ...authorization })
      for (const name of Object.keys(response.headers)) assert.doesNotMatch(name, /access-control/, path)
      statuses.add(response.status)
    }
    return [...statuses]
  }

  test('a page of another origin gets 403, whatever token it has', async () => {
    const { client, assertUnchanged } = await prepared()
    const { host } = new URL(service.url)
    const origins = [
      `http://localhost:5173`,
      'https://evil.example',
      'null',
      `https://${host}`,
      `http://${host}.evil.example`,
    ]
    for (const origin of origins)
      for (const token of [undefined, await developmentToken(service)])
        assert.deepEqual(await attacker({ origin })(client)(token), [403], origin)
    await assertUnchanged()
  })

  test('a request that another site caused gets 403, whatever its mode; the page opens by a link', async () => {
    const { client, assertUnchanged } = await prepared()
    for (const site of ['cross-site', 'same-site'])
      for (const mode of ['no-cors', 'cors', 'navigate'])
        assert.deepEqual(await attacker({ 'sec-fetch-site': site, 'sec-fetch-mode': mode })(client)(), [403], site)
    await assertUnchanged()
    for (const path of ['/app', '/app/app.js', '/swagger/index.html'])
      assert.equal((await client.send('GET', path, undefined, { 'sec-fetch-site': 'cross-site' })).status, 200, path)
    for (const site of ['same-origin', 'none'])
      assert.equal((await client.send('GET', adminItems, undefined, { 'sec-fetch-site': site })).status, 200, site)
  })

  test('no response can be sniffed or embedded by another origin', async () => {
    const client = newSpace(service)
    for (const [method, path, headers, expected] of [
      ['GET', '/__admin/info', {}, 200],
      ['GET', '/__admin/openapi.json', {}, 200],
      ['POST', '/__admin/reset', {}, 204],
      ['PATCH', '/__admin/reset', {}, 405],
      ['GET', '/__admin/nothing', {}, 404],
      ['GET', '/__admin/items', { host: 'x' }, 401],
      ['GET', '/__admin/items', { origin: 'http://x' }, 403],
      ['GET', '/app', {}, 200],
      ['GET', '/app/app.js', {}, 200],
      ['GET', '/swagger/index.html', {}, 200],
      ['GET', '/swagger/page.js', {}, 200],
    ] as const) {
      const response = await client.send(method, path, undefined, headers)
      const policy = ['x-content-type-options', 'cross-origin-resource-policy'].map((name) => response.headers[name])
      assert.deepEqual([response.status, ...policy], [expected, 'nosniff', 'same-origin'], `${method} ${path}`)
    }
  })

  test('a preflight request gets 403 without CORS headers', async () => {
    const { client } = await prepared()
    const { status, headers } = await client.send('OPTIONS', adminItems, undefined, {
      origin: 'http://localhost:5173',
      'access-control-request-method': 'PUT',
    })
    assert.equal(status, 403)
    assert.deepEqual(
      Object.keys(headers).filter((name) => name.startsWith('access-control') || name === 'allow'),
      [],
    )
  })

  test("a page of the service's own origin may use it", async () => {
    const client = newSpace(service)
    const { status, headers } = await client.send('PUT', adminItems, [], { origin: service.url })
    assert.equal(status, 204)
    assert.equal(headers['access-control-allow-origin'], undefined)
  })

  test('a rebound DNS name gets 401', async () => {
    const { client, assertUnchanged } = await prepared()
    for (const host of ['evil.example', 'localhost.evil.example:5080', '127.0.0.1.evil.example'])
      for (const headers of [{ host }, { host, origin: `http://${host}` }])
        assert.deepEqual(await attacker(headers)(client)(), [401], host)
    await assertUnchanged()
  })

  test('a client behind a proxy gets 401', async () => {
    const { client, assertUnchanged } = await prepared()
    for (const name of [
      'Forwarded',
      'X-Forwarded-For',
      'X-Forwarded-Host',
      'X-Forwarded-Scheme',
      'X-Forwarded-Client-Cert',
      'X-Original-Forwarded-For',
      'X-Original-Host',
      'X-Real-IP',
      'X-Client-IP',
      'CF-Connecting-IP',
      'X-Envoy-External-Address',
      'X-Azure-ClientIP',
      'Via',
      'CDN-Loop',
      'Proxy-Connection',
      'Max-Forwards',
    ])
      assert.deepEqual(await attacker({ [name]: '127.0.0.1' })(client)(), [401], name)
    await assertUnchanged()
  })

  test('a request by HTTP/1.0, as nginx sends it, gets 401, and pages get no token', async (t) => {
    const { client, assertUnchanged } = await prepared()
    const { pathname } = new URL(client.url)
    const send = async (line: string, body = '') => {
      const raw = new RawConnection(t, service.port)
      const type = body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
      raw.socket.write(`${line} HTTP/1.0\r\nHost: localhost:${service.port}\r\nConnection: close\r\n${type}\r\n${body}`)
      await raw.closed
      return { status: raw.statuses[0], text: raw.received }
    }
    for (const [method, path, body] of [...requests, ['GET', '/__admin/info', undefined] as const]) {
      const { status } = await send(`${method} ${pathname}${path}`, body && JSON.stringify(body))
      assert.equal(status, 401, `${method} ${path}`)
    }
    const { status, text } = await send('GET /swagger/index.html')
    assert.equal(status, 200)
    assert.match(text, /name="development-token" content=""/)
    assert.equal((await send(`GET ${itemsPath}`)).status, 200)
    await assertUnchanged()
  })

  test('from elsewhere a development token with the scope control gives access, another one does not', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const own = await serve(t, [], { XDG_CONFIG_HOME })
    const client = createClient(own.url)
    const token = await controlToken(XDG_CONFIG_HOME)
    const host = '192.168.1.5:5080'
    const send = (authorization: string) => client.send('GET', adminItems, undefined, { host, authorization })
    assert.deepEqual([(await send(`Bearer ${token}`)).status, (await send(`Bearer ${token}x`)).status], [200, 401])
    const { status, headers } = await send('Basic x')
    assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer'])
    // Neither the token of a page nor any other that was made for clients.
    const { stdout } = await run(t, ['token', '--scope', 'items', '-o', 'token'], { XDG_CONFIG_HOME })
    for (const other of [await developmentToken(own), stdout.trim()]) {
      const refused = await send(`Bearer ${other}`)
      assert.deepEqual(
        [refused.status, refused.headers['www-authenticate']],
        [403, 'Bearer error="insufficient_scope", scope="control"'],
      )
      const secret = await client.send('GET', '/secret', undefined, { host, authorization: `Bearer ${other}` })
      assert.equal(secret.status, 200)
    }
  })

  test('a body that is not JSON gets 415 and has no effect, where a body is expected and where it is not', async () => {
    const { client, assertUnchanged } = await prepared()
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', undefined])
      for (const [method, path] of changes)
        assert.equal((await client.send(method, path, '[]', { 'content-type': type })).status, 415, `${method} ${path}`)
    await assertUnchanged()
    assert.equal((await client.send('POST', '/__admin/reset', '{}')).status, 204)
  })
})

const newCode = (client: Client, headers = {}) => client.send('POST', '/__admin/codes', undefined, headers)

suite('codes for tokens', { concurrency: true }, () => {
  const elsewhere = { host: '192.168.1.5:5080' }
  const invalidCode = 'The code is wrong, or was used, or has expired: get a new one.'

  async function codeOf(client: Client): Promise<string> {
    const { status, text, headers } = await newCode(client)
    assert.deepEqual([status, headers['cache-control']], [201, 'no-store'], text)
    return JSON.parse(text).code
  }
  const redeem = (client: Client, code: string, headers = {}) =>
    client.send('POST', '/__admin/tokens', { code }, { ...elsewhere, ...headers })
  async function assertRefused(client: Client, code: string) {
    const response = await redeem(client, code)
    assert.deepEqual([response.status, problemOf(response).title], [403, invalidCode], code)
  }

  test('a client elsewhere gets a token with the scope control for a code, once', async (t) => {
    const client = createClient((await serve(t, ['--seed', '1', '--now', '2020-01-01T00:00:00Z'])).url)
    const startedAt = Date.now()
    const { status, text } = await newCode(client)
    const { code, expiresAt, ...others } = JSON.parse(text)
    assert.deepEqual([status, others], [201, {}])
    assert.match(code, /^[2-9A-HJKMNP-Z]{5}-[2-9A-HJKMNP-Z]{5}$/)
    const remainingMs = Date.parse(expiresAt) - startedAt
    assert.ok(remainingMs >= 5 * 60_000 && remainingMs < 6 * 60_000, expiresAt)
    const response = await redeem(client, code)
    assert.deepEqual([response.status, response.headers['cache-control']], [201, 'no-store'])
    const { token, ...rest } = JSON.parse(response.text)
    assert.deepEqual(rest, {})
    const authorization = `Bearer ${token}`
    assert.equal((await client.send('GET', adminItems, undefined, { ...elsewhere, authorization })).status, 200)
    assert.equal((await client.send('GET', '/secret', undefined, { ...elsewhere, authorization })).status, 200)
    const claims = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString())
    assert.equal(claims.scope, 'control')
    assert.ok([3600, 3601].includes(claims.exp - claims.iat), `${claims.exp - claims.iat}`)
    await assertRefused(client, code)
    const refused = await newCode(client, { ...elsewhere, authorization })
    assert.deepEqual([refused.status, problemOf(refused).title], [403, 'A token for a code makes no other codes.'])
    assert.notEqual(await codeOf(createClient((await serve(t, ['--seed', '1'])).url)), code, 'whatever the seed')
  })

  const storeFlags = {
    memory: () => [],
    'a file': (t: TestContext) => ['--data', join(temporaryFolder(t), 'todo.db')],
  }
  for (const [kind, flagsOf] of Object.entries(storeFlags))
    test(`items in ${kind}: a token for a code is rejected once its space was deleted`, async (t) => {
      const { url } = await serveWith(t, ['--no-https', ...flagsOf(t)], ({ control }) => ({
        control: control && { ...control, maxSpaces: 1 },
      }))
      const [main, ada, bob] = [createClient(url), createClient(`${url}/~ada`), createClient(`${url}/~bob`)]
      const tokenFor = async (client: Client) => JSON.parse((await redeem(main, await codeOf(client))).text).token
      const seenWith = async (client: Client, token: string) => {
        const headers = { ...elsewhere, authorization: `Bearer ${token}` }
        const responses = [
          await client.send('GET', adminItems, undefined, headers),
          await client.send('GET', '/secret', undefined, headers),
        ]
        const ended = /error="invalid_token", error_description="The space of the token has ended"/
        for (const { status, headers: sent } of responses)
          if (status !== 200) assert.match(`${sent['www-authenticate']}`, ended)
        return responses.map(({ status }) => status)
      }
      const ofMain = await tokenFor(main)
      const first = await tokenFor(ada)
      assert.deepEqual(await seenWith(ada, first), [200, 200])
      assert.equal((await ada.send('POST', itemsPath, numbered('x'))).status, 201)
      assert.equal((await main.send('DELETE', '/__admin/spaces/ada')).status, 204)
      assert.deepEqual(await seenWith(ada, first), [401, 401])
      assert.equal((await ada.send('POST', itemsPath, numbered('x'))).status, 201)
      assert.deepEqual(await seenWith(ada, first), [401, 401])
      const second = await tokenFor(ada)
      assert.deepEqual(await seenWith(ada, second), [200, 200])
      // Each takes the place of the other, whose items in memory end: its client comes back.
      for (const client of [bob, ada]) assert.equal((await client.send('POST', itemsPath, numbered('x'))).status, 201)
      assert.deepEqual(await seenWith(ada, second), [200, 200])
      assert.deepEqual(await seenWith(main, ofMain), [200, 200])
    })

  test('a code is accepted in any case, with and without the hyphen, in any space', async (t) => {
    const { url } = await serve(t, [])
    const client = createClient(url)
    for (const write of [
      (code: string) => code,
      (code: string) => code.toLowerCase(),
      (code: string) => code.replace('-', ''),
      (code: string) => ` ${code.replace('-', ' ').toLowerCase()} `,
    ])
      assert.equal((await redeem(createClient(`${url}/~ada`), write(await codeOf(client)))).status, 201)
  })

  test('only who may use the control API gets a code, and no page of another origin a token', async (t) => {
    const client = createClient((await serve(t, [])).url)
    assert.equal((await newCode(client, elsewhere)).status, 401)
    const code = await codeOf(client)
    for (const origin of ['http://evil.example', 'null'])
      assert.equal((await redeem(client, code, { origin })).status, 403)
    assert.equal((await redeem(client, code, { 'content-type': 'text/plain' })).status, 415)
    assert.equal((await client.send('POST', '/__admin/tokens', { code: ` ${'x'.repeat(1_000)}` })).status, 413)
    assert.equal((await client.send('POST', '/__admin/tokens', {})).status, 400)
    assert.equal((await redeem(client, code, { origin: `http://${elsewhere.host}` })).status, 201)
  })

  test('a code expires after 5 minutes, or when its maker wants', async (t) => {
    let now = 1_000
    const { url } = await serveWith(
      t,
      [],
      () => ({}),
      () => now,
    )
    const client = createClient(url)
    const [first, second] = [await codeOf(client), await codeOf(client)]
    const { status, text } = await client.send('POST', '/__admin/codes?validForSeconds=7200')
    assert.equal(status, 201, text)
    const { code, expiresAt } = JSON.parse(text)
    assert.ok(Date.parse(expiresAt) - Date.now() > 7_100_000, expiresAt)
    const { token } = JSON.parse((await redeem(client, code)).text)
    const { iat, exp } = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString())
    assert.ok(exp - iat > 7_100, `a token for ${exp - iat} seconds`)
    for (const query of ['validForSeconds=0', 'validForSeconds=43201', 'validForSeconds=x', 'minutes=5'])
      assert.equal((await client.send('POST', `/__admin/codes?${query}`)).status, 400, query)
    now += 5 * 60_000 - 1
    assert.equal((await redeem(client, first)).status, 201)
    now += 1
    await assertRefused(client, second)
  })

  test('a space has at most 20 unused codes: the next one is refused until one is used, and voids none', async (t) => {
    const { url } = await serve(t, [])
    const client = createClient(url)
    const codes: string[] = []
    for (let count = 0; count < 20; count++) codes.push(await codeOf(client))
    const refused = await newCode(client)
    assert.deepEqual(
      [refused.status, problemOf(refused).title],
      [409, 'This space has 20 codes that nobody has used: use one of them, or wait until they expire.'],
    )
    await codeOf(createClient(`${url}/~ada`))
    for (const code of codes) assert.equal((await redeem(client, code)).status, 201)
    await codeOf(client)
  })

  test('more than ten wrong codes in a second get 429 with Retry-After, and a valid one its token', async (t) => {
    let now = 1_000
    const { url } = await serveWith(
      t,
      [],
      () => ({}),
      () => now,
    )
    const client = createClient(url)
    const codes = [await codeOf(client), await codeOf(client), await codeOf(client)]
    for (let count = 0; count < 10; count++) await assertRefused(client, 'AAAAA-AAAAA')
    for (const code of codes) {
      for (let count = 0; count < 100; count++) {
        const { status, headers } = await redeem(client, 'AAAAA-AAAAA')
        assert.deepEqual([status, headers['retry-after']], [429, '1'])
      }
      assert.equal((await redeem(client, code)).status, 201)
    }
    assert.equal((await redeem(client, codes[0] ?? '')).status, 429)
    now += 1_000
    await assertRefused(client, codes[0] ?? '')
  })
})

suite('info', { concurrency: true }, () => {
  const infoOf = async ({ url }: Pick<Service, 'url'>) =>
    JSON.parse((await createClient(url).send('GET', '/__admin/info')).text)

  test('says where the items are, and whether they stay', async (t) => {
    const { store, isPersistent } = await infoOf(a)
    assert.deepEqual([store, isPersistent], ['memory', false])
    const file = join(temporaryFolder(t), 'todo.db')
    const onFile = await infoOf(await serve(t, ['--data', file]))
    assert.deepEqual([onFile.store, onFile.isPersistent], [`the file ${file}`, true])
  })

  test('has the addresses in the network, and tells whether they are missing because there is no network', async (t) => {
    const [local] = (await infoOf(a)).profiles
    assert.deepEqual([local.isListeningOnNetwork, local.networkUrls], [undefined, undefined])
    const { port } = await serveWith(t, ['--no-https'], () => ({ host: '0.0.0.0' }))
    const [own] = (await infoOf({ url: `http://127.0.0.1:${port}` })).profiles
    const addresses = Object.values(networkInterfaces())
      .flat()
      .flatMap((one) => (one && !one.internal && one.family === 'IPv4' ? [one.address] : []))
    assert.deepEqual(
      [own.isListeningOnNetwork, own.networkUrls],
      [true, addresses.map((address) => `http://${address}:${port}`)],
    )
  })
})

test('a token of the configured issuer has a clock tolerance, and does not give access from elsewhere', async (t) => {
  const key = randomBytes(32)
  const XDG_CONFIG_HOME = temporaryFolder(t)
  const service = await serve(t, ['--jwt-issuer', 'https://issuer.example', '--jwt-audience', 'todo'], {
    TODO_JWT_KEY: key.toString('base64'),
    XDG_CONFIG_HOME,
  })
  const claims = {
    id: 'x',
    name: 'ada',
    issuer: 'https://issuer.example',
    audiences: ['todo'],
    scopes: ['control'],
    validForSeconds: -1,
  }
  const { token } = await signToken(claims, createSecretKey(key), new Date())
  const headers = { host: '192.168.1.5', authorization: `Bearer ${token}` }
  const client = createClient(service.url)
  assert.equal((await client.send('GET', '/secret', undefined, headers)).status, 200)
  assert.equal((await client.send('GET', adminItems, undefined, headers)).status, 401)
  headers.authorization = `Bearer ${await controlToken(XDG_CONFIG_HOME)}`
  assert.equal((await client.send('GET', adminItems, undefined, headers)).status, 200)
  headers.authorization = `Bearer ${await controlToken(XDG_CONFIG_HOME, -1)}`
  for (const path of [adminItems, '/secret'])
    assert.equal((await client.send('GET', path, undefined, headers)).status, 401, path)
})

suite('without the control API', { concurrency: true }, () => {
  /** As without the feature: the paths are unknown, headers and preferences are ignored. */
  async function assertOff({ url }: Service) {
    const client = createClient(url)
    for (const [method, path, body] of requests) assert.equal((await client.send(method, path, body)).status, 404, path)
    assert.equal((await client.send('GET', `/~ada${itemsPath}`)).status, 404)
    const { headers } = await client.send('POST', itemsPath, numbered('x'), {
      'x-todo-space': 'ada',
      prefer: 'code=503, wait=9',
    })
    assert.equal(headers['preference-applied'], undefined)
    assert.deepEqual(JSON.parse(await list(client)), [{ id: 1, ...numbered('x') }])
  }

  test('--no-admin: no control API, spaces and faults', async (t) => assertOff(await serve(t, ['--no-admin'])))

  test('production, whatever is configured', async (t) => {
    const flags = ['--delay', '9000', '--fault', '100%', '--seed', '1', '--now', '2020-01-01T00:00:00Z']
    const service = await serve(t, ['--mode', 'production', '--space-ttl', '5', ...flags], {
      TODO_NO_ADMIN: 'false',
    })
    await assertOff(service)
    const { headers } = await createClient(service.url).send('GET', '/')
    assert.doesNotMatch(headers.date ?? '', /2020/)
  })

  test('production loads no module of it', () => {
    const folder = dirname(cli)
    const loaded = new Set<string>()
    const load = (file: string) => {
      if (loaded.has(file)) return
      loaded.add(file)
      for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/(?:from |import\()'(\.[^']+)'/g))
        if (!path.endsWith('/profile-control.js')) load(join(dirname(file), path))
    }
    load(join(folder, 'commands/serve.js'))
    assert.ok(loaded.size > 30)
    assert.deepEqual(
      [...loaded].filter((file) => file.includes(join(folder, 'control'))),
      [],
    )
  })

  test('--no-admin with a flag of it is a usage error', { timeout: 120_000 }, async (t) => {
    const { code, stderr } = await run(t, ['serve', '--no-admin', '--delay', '5', '--fault', '5%'])
    assert.equal(code, 2)
    assert.match(stderr, /^todo-service: --no-admin and --delay contradict each other\.$/m)
    assert.match(stderr, /^todo-service: --no-admin and --fault contradict each other\.$/m)
  })
})

suite('/__admin/openapi.json', { concurrency: true }, () => {
  for (const [profile, service] of Object.entries({ a, b }))
    test(`profile ${profile}: a valid OpenAPI 3.0 document that describes every response`, async () => {
      const plain = createClient(service.url)
      const { status, text } = await plain.send('GET', '/__admin/openapi.json')
      assert.equal(status, 200)
      const document = JSON.parse(text)
      assert.deepEqual(await new Validator().validate(document), { valid: true })
      assert.equal(document.servers[0].url, service.url)
      const operations = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
      )
      assert.deepEqual(operations, [
        'GET /__admin/info',
        'POST /__admin/reset',
        'GET /__admin/items',
        'PUT /__admin/items',
        'GET /__admin/requests',
        'DELETE /__admin/requests',
        'GET /__admin/events',
        'GET /__admin/faults',
        'POST /__admin/faults',
        'PUT /__admin/faults',
        'DELETE /__admin/faults',
        'PUT /__admin/faults/{id}',
        'DELETE /__admin/faults/{id}',
        'GET /__admin/spaces',
        'DELETE /__admin/spaces/{id}',
        'POST /__admin/codes',
        'POST /__admin/tokens',
      ])
      const { schema, example } = document.paths[adminItems].put.requestBody.content['application/json']
      assert.deepEqual(schema.items.required, profile === 'a' ? ['id', 'isComplete'] : ['id', 'name', 'notes'])
      await put(plain, example)
      const fault = document.paths['/__admin/faults'].post.requestBody.content['application/json'].schema
      assert.equal(fault.properties.path.maxLength, 1_000)

      const admin = openApiValidation(document)(plain)
      await plain.send('POST', itemsPath, '{}', { prefer: 'wait=0', cookie: 'x' })
      for (const [method, path, body] of requests.filter(([, path]) => !/events|openapi/.test(path)))
        for (const headers of [{}, { origin: 'http://x' }, { host: 'x' }, { 'content-type': 'text/plain' }])
          await admin.send(method, path, body, headers)
      await admin.send('PUT', adminItems, [5])
      await admin.send('PUT', '/__admin/faults', [{ code: 1 }])
      await admin.send('POST', '/__admin/faults', { code: 1 })
      const { id } = JSON.parse((await admin.send('POST', '/__admin/faults', { delay: 1, maxDelay: 2 })).text)
      for (const one of [id, 'x'])
        for (const body of [{ code: 1 }, { delay: 1, bytesPerSecond: 5 }])
          await admin.send('PUT', `/__admin/faults/${one}`, body)
      await admin.send('GET', '/__admin/faults')
      for (const one of [id, id, 'x']) await admin.send('DELETE', `/__admin/faults/${one}`)
      await admin.send('GET', '/__admin/requests?limit=x')
      await admin.send('PUT', adminItems, [], { 'if-match': '"other"' })
      await admin.send('GET', adminItems, undefined, { 'if-none-match': '*' })
      for (const body of [{ code: 'x' }, { code: 5 }, '{', JSON.parse((await newCode(plain)).text)])
        await admin.send('POST', '/__admin/tokens', body)
      await plain.send('DELETE', `${itemsPath}/x`)
      await admin.send('GET', '/__admin/requests')
    })
})
