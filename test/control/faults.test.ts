import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { collectionsOf, profileApi, profiles } from '../../src/app.ts'
import { Faults } from '../../src/control/faults.ts'
import { RequestContext } from '../../src/http/context.ts'
import type { Request } from '../../src/http/request.ts'
import type { Route } from '../../src/http/router.ts'
import { start } from '../../src/index.ts'
import { type Client, NoResponseError, type Response } from '../../src/verify/engine/client.ts'
import { cleanUp } from '../support/cleanup.ts'
import { run, type Service, serve, sharedService, start as startCommand } from '../support/cli.ts'
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
import { RawConnection } from '../support/raw.ts'
import { transports } from '../support/running.ts'
import { nodeRuntime } from '../support/runtimes.ts'
import { Stopwatch } from '../support/stopwatch.ts'
import { memoryStores } from '../support/stores.ts'
import { testRates } from './rates.ts'

const a = sharedService([])
const b = sharedService(['--profile', 'b'])

const create = (client: Client, prefer?: string) => client.send('POST', itemsPath, numbered('x'), { prefer })
const count = async (client: Client) => JSON.parse((await client.send('GET', itemsPath)).text).length
const applied = ({ status, headers }: Response) => [status, headers['preference-applied']]

const expiredChallenge = 'Bearer error="invalid_token", error_description="The token has expired"'

/** A valid request for each operation that can require a token. */
const operationsOf = {
  a: [
    ['GET', itemsPath],
    ['POST', itemsPath, numbered('x')],
    ['GET', `${itemsPath}/1`],
    ['PUT', `${itemsPath}/1`, { id: 1, ...numbered('x') }],
    ['DELETE', `${itemsPath}/1`],
    ['GET', '/secret'],
  ],
  b: [
    ['GET', itemsPath],
    ['POST', itemsPath, named('x')],
    ['PUT', itemsPath, named('x')],
    ['DELETE', `${itemsPath}/x`],
    ['GET', '/secret'],
  ],
} as const

/** What a connection gets for one request with this preference, until the server closes it. */
async function rawResponse(
  t: TestContext,
  client: Client,
  port: number,
  prefer: string,
  method = 'POST',
  path = itemsPath,
) {
  const raw = new RawConnection(t, port)
  const body = method === 'POST' ? JSON.stringify(numbered('x'.repeat(100))) : ''
  const head = [`${method} ${new URL(client.url).pathname}${path} HTTP/1.1`, 'Host: localhost', `Prefer: ${prefer}`]
  const type = body ? [`Content-Type: application/json`, `Content-Length: ${body.length}`] : []
  raw.socket.write(`${[...head, ...type].join('\r\n')}\r\n\r\n${body}`)
  await raw.closed
  const [received = '', receivedBody = ''] = raw.received.split('\r\n\r\n')
  const [, length = ''] = /content-length: (\d+)/i.exec(received) ?? []
  return { received, receivedBody, length: Number(length), error: (raw.error as NodeJS.ErrnoException)?.code }
}

suite('Prefer', { concurrency: true }, () => {
  test('A13, A15 code: the failure as profile A has it, and nothing is stored', async () => {
    const client = newSpace(a)
    for (const code of [400, 413, 415, 500, 503]) {
      const response = await create(client, `code=${code}`)
      assert.deepEqual(applied(response), [code, `code=${code}`])
      assert.equal(response.headers['content-type'], 'application/problem+json')
      const { type, title, status, traceId } = JSON.parse(response.text)
      assert.ok(type.startsWith('https://www.rfc-editor.org/') && title && traceId)
      assert.equal(status, code)
      assert.equal(response.headers['retry-after'], code === 503 ? '1' : undefined)
    }
    for (const [method, path, code] of [
      ['GET', itemsPath, 412],
      ['GET', `${itemsPath}/1`, 404],
      ['DELETE', `${itemsPath}/1`, 500],
      ['GET', '/', 503],
      ['GET', '/weatherforecast', 500],
    ] as const)
      assert.equal((await client.send(method, path, undefined, { prefer: `code=${code}` })).status, code)
    assert.equal(await count(client), 0)
  })

  test('B6, B9 code: the failure as profile B has it, and nothing is stored', async () => {
    const client = newSpace(b)
    const send = async (method: string, path: string, code: number, body?: object) => {
      const { status, headers, text } = await client.send(method, path, body, { prefer: `code=${code}` })
      assert.deepEqual([status, headers['preference-applied']], [code, `code=${code}`])
      return [text, headers['content-type']]
    }
    const type = 'text/plain; charset=utf-8'
    assert.deepEqual(await send('POST', itemsPath, 400, named('x')), ['CouldNotCreateItem', type])
    assert.deepEqual(await send('POST', itemsPath, 409, named('x')), ['TodoItemIDInUse', type])
    assert.deepEqual(await send('PUT', itemsPath, 400, named('x')), ['CouldNotUpdateItem', type])
    assert.deepEqual(await send('PUT', itemsPath, 404, named('x')), ['RecordNotFound', type])
    assert.deepEqual(await send('DELETE', `${itemsPath}/x`, 400), ['CouldNotDeleteItem', type])
    assert.deepEqual(await send('GET', itemsPath, 503), ['', undefined])
    assert.equal(await count(client), 3)
  })

  for (const [profile, service] of [
    ['a', a],
    ['b', b],
  ] as const) {
    const authorization = async () => `Bearer ${await developmentToken(service)}`
    const comparable = ({ status, headers, text }: Response) => {
      const { date: _, vary: _vary, 'preference-applied': _applied, 'content-length': _length, ...others } = headers
      return [status, others, text.replace(/"traceId":"[^"]+"/, '')]
    }

    test(`profile ${profile}: S6 code=401 is what the operation responds without a token, or with an expired one`, async (t) => {
      const real = await start({ profile, requireAuth: true })
      cleanUp(t, real.close)
      const credentials = [
        [{}, {}],
        [{ authorization: 'Basic x' }, { authorization: 'Basic x' }],
        [
          { authorization: await authorization() },
          { authorization: `Bearer ${await real.token({ validForSeconds: -1 })}` },
        ],
      ]
      const client = newSpace(service)
      for (const [method, path, body] of operationsOf[profile]) {
        if (path === '/secret') continue
        for (const [sent, rejected] of credentials) {
          const simulated = await client.send(method, path, body, { ...sent, prefer: 'code=401' })
          assert.equal(simulated.headers['preference-applied'], 'code=401')
          const expected = await createClient(real.url).send(method, path, body, { ...rejected })
          assert.equal(expected.status, 401)
          assert.deepEqual(comparable(simulated), comparable(expected), `${method} ${path}`)
        }
      }
      const secret = { authorization: await authorization(), prefer: 'code=401' }
      const { status, headers } = await client.send('GET', '/secret', undefined, secret)
      assert.deepEqual([status, headers['www-authenticate']], [401, expiredChallenge])
      // S7: these need no token, whatever the operator asks for.
      for (const path of ['/', '/weatherforecast']) {
        const refused = await client.send('GET', path, undefined, { prefer: 'code=401' })
        assert.match(problemOf(refused).title, /^Prefer: code must be a failure of GET \/.*: 400, 429, 500, 503\.$/)
      }
    })

    test(`profile ${profile}: code=429 is what every operation responds beyond the rate limit`, async (t) => {
      const limited = await transports['over a socket'](t, profile, { allowRequest: () => false })
      const client = newSpace(service)
      const open = ['/', '/weatherforecast'].map((path) => ['GET', path] as const)
      for (const [method, path, body] of [...operationsOf[profile], ...open]) {
        const sent = path === '/secret' ? { authorization: await authorization() } : {}
        const simulated = await client.send(method, path, body, { ...sent, prefer: 'code=429' })
        assert.deepEqual(applied(simulated), [429, 'code=429'])
        assert.equal(simulated.headers['retry-after'], '1')
        const real = await limited.send(method, path, body, sent)
        assert.deepEqual(comparable(simulated), comparable(real), `${method} ${path}`)
      }
    })

    test(`profile ${profile}: a fault with 401 is for the operations that can require a token, one with 429 for all`, async () => {
      const client = newSpace(service)
      const statuses = async () => {
        const all = []
        for (const path of [itemsPath, '/secret', '/', '/weatherforecast'])
          all.push((await client.send('GET', path, undefined, { authorization: await authorization() })).status)
        return all
      }
      await putFaults(client, { code: 401 })
      assert.deepEqual(await statuses(), [401, 401, 200, 200])
      await putFaults(client, { code: 429 })
      assert.deepEqual(await statuses(), [429, 429, 429, 429])
      const [entry] = await journalOf(client)
      assert.deepEqual([entry?.reason, entry?.met], ['simulated by all requests: 401 where possible', []])
    })
  }

  for (const [profile, service, list] of [
    ['a', a, '400, 401, 413, 415, 429, 500, 503'],
    ['b', b, '400, 401, 409, 429'],
  ] as const)
    test(`profile ${profile}: a code that the operation cannot have gets 400 with those it can, and has no effect`, async () => {
      const client = newSpace(service)
      const before = await count(client)
      for (const code of ['418', '200', '404', 'x', '', '400.0', '0400', '-1']) {
        const item = { ...named('x'), ...numbered('x') }
        const response = await client.send('POST', itemsPath, item, { prefer: `code=${code}` })
        assert.deepEqual(applied(response), [400, undefined], code)
        assert.equal(problemOf(response).title, `Prefer: code must be a failure of POST ${itemsPath}: ${list}.`)
      }
      assert.equal(await count(client), before)
    })

  test('wait: the response comes after so many seconds', async () => {
    const client = newSpace(a)
    const startedAt = performance.now()
    assert.deepEqual(applied(await create(client, 'wait=1')), [201, 'wait=1'])
    assert.ok(performance.now() - startedAt >= 995)
    const failed = await create(client, 'code=503, wait=0')
    assert.deepEqual(applied(failed), [503, 'wait=0, code=503'])
  })

  test('connection=reset: the connection is reset, nothing is stored', async (t) => {
    const client = newSpace(a)
    const { received, error } = await rawResponse(t, client, a.port, 'connection=reset')
    assert.deepEqual([received, error], ['', 'ECONNRESET'])
    assert.equal(await count(client), 0)
  })

  test('connection=lost: the write takes effect, the connection is closed without a response', async (t) => {
    const client = newSpace(a)
    const { received, error } = await rawResponse(t, client, a.port, 'connection=lost')
    assert.deepEqual([received, error], ['', undefined])
    assert.equal(await count(client), 1)
    await assert.rejects(
      client.send('DELETE', `${itemsPath}/1`, undefined, { prefer: 'connection=lost' }),
      NoResponseError,
    )
    assert.equal(await count(client), 0)
  })

  test('connection=truncate: half of the body, then the end of the connection', async (t) => {
    const client = newSpace(a)
    const { received, receivedBody, length } = await rawResponse(t, client, a.port, 'connection=truncate')
    assert.match(received, /^HTTP\/1\.1 201 .*preference-applied: connection=truncate/is)
    assert.equal(receivedBody.length, Math.floor(length / 2))
    assert.match(receivedBody, /^{"id":1,"name":"x+$/)
    await client.send(
      'PUT',
      '/__admin/items',
      Array.from({ length: 5_000 }, (_, id) => ({ id, ...numbered('x') })),
    )
    const list = await rawResponse(t, client, a.port, 'connection=truncate', 'GET')
    assert.ok(list.length > 100_000)
    assert.equal(list.receivedBody.length, Math.floor(list.length / 2))
  })

  test('connection=truncate: a response without body is lost', async (t) => {
    const client = newSpace(a)
    await create(client)
    for (const method of ['HEAD', 'DELETE']) {
      const { received } = await rawResponse(t, client, a.port, 'connection=truncate', method, `${itemsPath}/1`)
      assert.equal(received, '', method)
    }
    assert.deepEqual(
      (await journalOf(client, '?limit=2')).map(({ status }) => status),
      [null, null],
    )
    assert.equal(await count(client), 0)
  })

  test('unknown preferences and parameters are ignored; of two equal ones the first counts', async () => {
    const client = newSpace(a)
    for (const prefer of ['return=minimal', 'respond-async, foo="code=503, x"', 'foo; code=503', '', ',,=;'])
      assert.deepEqual(applied(await create(client, prefer)), [201, undefined], prefer)
    for (const prefer of [
      'return=minimal, CODE=503',
      'code="503"',
      'code = 503;x=y',
      'code=503, code=500',
      ',code=503',
    ])
      assert.deepEqual(applied(await create(client, prefer)), [503, 'code=503'], prefer)
    const { status, headers } = await client.send('POST', itemsPath, numbered('x'), { prefer: ['wait=0', 'code=500'] })
    assert.deepEqual([status, headers['preference-applied']], [500, 'wait=0, code=500'])
  })

  test('an unknown fault, a fault and a code, no rate, or no time to wait, gets 400 with a sentence', async () => {
    const client = newSpace(a)
    for (const [prefer, title] of [
      ['connection=explode', 'Prefer: connection must be reset, truncate, lost.'],
      ['connection=lost, code=503', 'Prefer: code and connection exclude each other.'],
      ...['wait=abc', 'wait', 'wait=1.5', 'wait=-1', 'wait=x, code=503'].map(
        (wait) => [wait, 'Prefer: wait must be a whole number of seconds.'] as const,
      ),
      ...['', '0', '-1', '1.5', 'x', '10000001'].map(
        (rate) => [`rate=${rate}`, 'Prefer: rate must be an integer from 1 to 10000000.'] as const,
      ),
    ] as const) {
      const response = await create(client, prefer)
      assert.deepEqual([response.status, problemOf(response).title], [400, title])
    }
    assert.equal(await count(client), 0)
  })

  test('a request that the contract rejects is rejected as without it', async () => {
    const client = newSpace(a)
    const prefer = { prefer: 'code=503' }
    assert.equal((await client.send('POST', itemsPath, {}, prefer)).status, 400)
    assert.equal((await client.send('GET', `${itemsPath}/abc`, undefined, prefer)).status, 400)
    assert.equal((await client.send('GET', '/nothing', undefined, prefer)).status, 404)
    assert.equal((await client.send('GET', '/health/live', undefined, prefer)).status, 200)
  })

  test('pages of allowed origins may send it and read what was applied', async () => {
    const client = newSpace(a)
    const origin = 'http://localhost:5173'
    const preflight = await client.send('OPTIONS', itemsPath, undefined, {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'prefer, x-todo-space',
    })
    assert.equal(preflight.status, 204)
    const allowed = `${preflight.headers['access-control-allow-headers']}`.split(', ')
    for (const name of ['Prefer', 'X-Todo-Space', 'Content-Type']) assert.ok(allowed.includes(name), name)
    const { headers } = await client.send('GET', '/', undefined, { origin, prefer: 'code=503' })
    assert.match(`${headers['access-control-expose-headers']}`, /\bPreference-Applied\b/)
  })
})

/** Without their descriptions, which have tests of their own. */
const faultsOf = async (client: Client) =>
  (await activeFaults(client)).map(({ description: _, ...fault }: { description: string }) => fault)
const activeFaults = async (client: Client) => JSON.parse((await client.send('GET', '/__admin/faults')).text)

suite('faults', { concurrency: true }, () => {
  const statuses = async (client: Client, times: number, method = 'GET', path = itemsPath, body?: unknown) => {
    const all = []
    for (let index = 0; index < times; index++) all.push((await client.send(method, path, body)).status)
    return all
  }
  test('times: fails so often, then works; used says how often', async () => {
    const client = newSpace(a)
    const fault = { method: 'POST', path: itemsPath, times: 2, code: 503 }
    await putFaults(client, fault)
    assert.deepEqual(await faultsOf(client), [{ id: 1, ...fault, used: 0 }])
    assert.deepEqual(await statuses(client, 1), [200])
    assert.deepEqual(await statuses(client, 3, 'POST', itemsPath, numbered('x')), [503, 503, 201])
    assert.deepEqual(await faultsOf(client), [{ id: 1, ...fault, used: 2 }])
    assert.equal((await client.send('DELETE', '/__admin/faults')).status, 204)
    assert.deepEqual(await faultsOf(client), [])
  })

  test('description: one sentence says which requests get what', async () => {
    const client = newSpace(b)
    const post = { method: 'POST', path: itemsPath }
    const described = [
      [{ ...post, times: 2, code: 409 }, `POST ${itemsPath}: 409, twice`],
      [
        { ...post, connection: 'lost', times: 1 },
        `POST ${itemsPath}: connection closed after the effect, without a response, once`,
      ],
      [{ path: itemsPath, code: 503 }, `requests to ${itemsPath}: 503 where possible`],
      [{ method: 'GET', code: 503 }, 'GET requests: 503'],
      [{ connection: 'reset', times: 20 }, 'all requests: connection reset, 20 times'],
      [{ connection: 'truncate', share: 0.07 }, 'all requests: connection closed after half of the body, 7 % of them'],
      [{}, 'all requests: failure of the store'],
      [{ delay: 0, maxDelay: 800 }, 'all requests: delayed by 0 to 800 ms'],
      [{ delay: 5, code: 429, bytesPerSecond: 2048 }, 'all requests: 429, delayed by 5 ms, body at 2048 bytes/s'],
    ] as const
    await putFaults(client, ...described.map(([fault]) => fault))
    assert.deepEqual(
      (await activeFaults(client)).map(({ description }: { description: string }) => description),
      described.map(([, description]) => description),
    )
    assert.equal((await client.send('PUT', '/__admin/faults/1', { method: 'DELETE' })).status, 204)
    assert.equal((await activeFaults(client))[0].description, 'DELETE requests: failure of the store')
  })

  test('one fault is added behind the others, replaced in its place and removed; each is an event', async (t) => {
    const client = newSpace(a)
    await putFaults(client, { method: 'GET', times: 1, code: 500 })
    const stream = await EventStream.open(t, client)
    const added = await client.send('POST', '/__admin/faults', { method: 'GET', code: 503 })
    assert.deepEqual(
      [added.status, JSON.parse(added.text)],
      [201, { id: 2, method: 'GET', code: 503, description: 'GET requests: 503', used: 0 }],
    )
    assert.equal((await stream.next()).event, 'faults')
    assert.deepEqual(await statuses(client, 2), [500, 503])
    const replaced = await client.send('PUT', '/__admin/faults/1', { code: 500, times: 2 })
    assert.deepEqual([replaced.status, replaced.text], [204, ''])
    assert.deepEqual(await faultsOf(client), [
      { id: 1, code: 500, times: 2, used: 0 },
      { id: 2, method: 'GET', code: 503, used: 1 },
    ])
    assert.deepEqual(await statuses(client, 3), [500, 500, 503])
    assert.equal((await client.send('DELETE', '/__admin/faults/1')).status, 204)
    assert.deepEqual(
      (await faultsOf(client)).map(({ id, used }: { id: number; used: number }) => [id, used]),
      [[2, 2]],
    )
    await stream.until(itemsPath)
    const events = []
    while (events.filter((event) => event === 'faults').length < 2) events.push((await stream.next()).event)
    // No id is used twice.
    const again = await client.send('POST', '/__admin/faults', { delay: 1 })
    assert.equal(JSON.parse(again.text).id, 3)
  })

  test('an id that no fault has gets 404, an invalid fault 400, and nothing changes', async () => {
    const client = newSpace(a)
    await putFaults(client, { method: 'POST', code: 503 })
    const before = await faultsOf(client)
    for (const id of ['2', '0', 'x', '-1', '1.0', '99999999999999999999'])
      for (const [method, body] of [
        ['PUT', { code: 500 }],
        ['DELETE', undefined],
      ] as const) {
        const response = await client.send(method, `/__admin/faults/${id}`, body)
        assert.deepEqual([response.status, problemOf(response).title], [404, 'No fault has this id.'], id)
      }
    for (const [method, path] of [
      ['POST', '/__admin/faults'],
      ['PUT', '/__admin/faults/1'],
    ] as const) {
      const response = await client.send(method, path, { code: 418, times: 0, id: 1 })
      assert.equal(response.status, 400)
      const [times, id] = problemOf(response).errors?.[''] ?? []
      assert.equal(times, 'times must be a positive integer.')
      assert.match(`${id}`, /^There is no member id: use method, path, /)
      const list = await client.send(method, path, [{ code: 500 }])
      assert.deepEqual(problemOf(list).errors, { '': ['A fault must be an object.'] })
    }
    assert.deepEqual(await faultsOf(client), before)
  })

  test('of the faults that match, the first failure, the first delay and the first rate are applied', async () => {
    const client = newSpace(a)
    await putFaults(
      client,
      { method: 'POST', delay: 900 },
      { delay: 20, times: 1 },
      { delay: 10 },
      { path: itemsPath, code: 503, delay: 60_000, times: 1 },
      { bytesPerSecond: 5_000, times: 2 },
      { code: 500, bytesPerSecond: 1 },
    )
    const used = async () => (await faultsOf(client)).map((fault: { used: number }) => fault.used)
    assert.deepEqual(await statuses(client, 1), [503])
    assert.deepEqual(await used(), [0, 1, 0, 1, 1, 0])
    assert.deepEqual(await statuses(client, 1), [500])
    assert.deepEqual(await used(), [0, 1, 1, 1, 2, 1])
    // Of each fault, the description has only what was applied.
    const rate = 'all requests: body at 5000 bytes/s, twice'
    assert.deepEqual(
      (await journalOf(client)).map(({ fault, faultIds }) => [fault, faultIds]),
      [
        [`all requests: delayed by 20 ms, once; requests to ${itemsPath}: 503, once; ${rate}`, [2, 4, 5]],
        [`all requests: delayed by 10 ms; ${rate}; all requests: 500`, [3, 5, 6]],
      ],
    )
    await client.send('DELETE', '/__admin/faults')
    // With a failure of its own, a request still gets the delay of a fault; with all three, no fault is used.
    await putFaults(client, { delay: 1, bytesPerSecond: 5_000 }, { code: 500 })
    const preferred = await client.send('GET', itemsPath, undefined, { prefer: 'code=503' })
    assert.deepEqual(applied(preferred), [503, 'code=503'])
    assert.deepEqual(await used(), [1, 0])
    const all = 'wait=0, code=503, rate=5000'
    assert.deepEqual(applied(await client.send('GET', itemsPath, undefined, { prefer: all })), [503, all])
    assert.deepEqual(await used(), [1, 0])
  })

  test('maxDelay: a random time, at least delay', async () => {
    const client = newSpace(a)
    await putFaults(client, { delay: 1, maxDelay: 20 })
    await statuses(client, 30)
    const delays = (await journalOf(client)).map(({ fault }) =>
      Number(/^all requests: delayed by 1 to 20 ms \((\d+)\)$/.exec(fault ?? '')?.[1]),
    )
    assert.ok(delays.every((delay) => delay >= 1 && delay <= 20) && new Set(delays).size > 3, `${delays}`)
  })

  test('the first fault that matches is applied', async () => {
    const client = newSpace(a)
    await putFaults(
      client,
      { path: itemsPath, times: 1, code: 500 },
      { method: 'GET', times: 2, code: 503 },
      { code: 503, share: 0 },
    )
    assert.deepEqual(await statuses(client, 4), [500, 503, 503, 200])
    assert.deepEqual(
      (await faultsOf(client)).map(({ used }: { used: number }) => used),
      [1, 2, 0],
    )
  })

  test('path: one path, or that of every item, in any case', async () => {
    const client = newSpace(a)
    await client.send(
      'PUT',
      '/__admin/items',
      [1, 2].map((id) => ({ id, ...numbered('x') })),
    )
    const [list, one, other] = [itemsPath, `${itemsPath}/1`, `${itemsPath}/2`]
    const all = async () => [
      ...(await statuses(client, 1, 'GET', list)),
      ...(await statuses(client, 1, 'GET', one)),
      ...(await statuses(client, 1, 'GET', other)),
    ]
    await putFaults(client, { path: '/API/todoitems/{id}', code: 404 })
    assert.deepEqual(await all(), [200, 404, 404])
    await putFaults(client, { path: `${itemsPath}/1`, code: 404 })
    assert.deepEqual(await all(), [200, 404, 200])
    assert.deepEqual(await statuses(client, 1, 'GET', `${one}/`), [404])
    await putFaults(client, { path: `${itemsPath}/`, code: 503 })
    assert.deepEqual(await all(), [503, 200, 200])
  })

  test('a code is applied to the operations that can have it', async () => {
    const client = newSpace(a)
    await putFaults(client, { method: 'GET', code: 404 })
    assert.deepEqual(await statuses(client, 1), [200])
    assert.deepEqual(await statuses(client, 1, 'GET', '/'), [200])
    await create(client)
    assert.deepEqual(await statuses(client, 1, 'GET', `${itemsPath}/1`), [404])
    const [{ used }] = await faultsOf(client)
    assert.equal(used, 1)
    assert.equal((await journalOf(client, '?limit=4'))[1]?.fault, undefined)
  })

  test('share, delay, fault, and a failure without code', async () => {
    const client = newSpace(a)
    await putFaults(client, { share: 0.5, code: 503 })
    const failed = (await statuses(client, 200)).filter((status) => status === 503).length
    assert.ok(failed > 50 && failed < 150, `${failed}`)
    assert.equal((await faultsOf(client))[0].used, failed)
    await putFaults(client, { delay: 200, times: 1 })
    const startedAt = performance.now()
    assert.deepEqual(await statuses(client, 1), [200])
    assert.ok(performance.now() - startedAt >= 195)
    await putFaults(client, { connection: 'lost', times: 1 }, {})
    // A new connection: the client repeats a request on one that was closed while it was idle.
    await assert.rejects(create(createClient(client.url)), NoResponseError)
    assert.deepEqual(await statuses(client, 1), [503])
    await putFaults(client)
    assert.equal(await count(client), 1)
  })

  test('while a fault closes connections, each response does, and idle ones of browsers are closed', async (t) => {
    const service = await serve(t, ['--https-port', '0'])
    const client = createClient(`${service.url}/~ada`)
    const get = (path: string, agent = 'node') =>
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: ${agent}\r\n\r\n`
    const send = async (raw: RawConnection, request: string) => {
      raw.received = ''
      raw.socket.write(request)
      await raw.responses(1)
      return /^connection: (.*)\r$/im.exec(raw.received)?.[1]
    }
    const connect = () => new RawConnection(t, service.port)
    const [browser, other] = [connect(), connect()]
    const mozilla = 'Mozilla/5.0 (X11; Linux x86_64)'
    assert.deepEqual(
      [await send(browser, get('/', mozilla)), await send(other, get('/~ada/'))],
      ['keep-alive', 'keep-alive'],
    )
    await putFaults(client, { method: 'POST', connection: 'lost', times: 1 })
    await browser.closed
    // Other clients do not repeat a request whose connection closes: theirs close with the next response, in any space.
    assert.equal(await send(other, get('/')), 'close')
    await other.closed
    const preflight = `OPTIONS ${itemsPath} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:5173\r\nAccess-Control-Request-Method: POST\r\n\r\n`
    for (const request of [get(`/~ada${itemsPath}`), get('/none'), get('/__admin/faults'), preflight])
      assert.equal(await send(connect(), request), 'close')
    await assert.rejects(create(client), NoResponseError)
    assert.equal(await send(connect(), get('/')), 'keep-alive', 'it is used up')
    await putFaults(client, { code: 503, delay: 1 })
    assert.equal(await send(connect(), get(`/~ada${itemsPath}`)), 'keep-alive')
  })

  test('a preference comes before the faults', async () => {
    const client = newSpace(a)
    await putFaults(client, { method: 'POST', code: 503 })
    assert.equal((await create(client, 'code=500')).status, 500)
    assert.equal((await faultsOf(client))[0].used, 0)
    assert.deepEqual(applied(await create(client, 'wait=0')), [503, 'wait=0'])
  })

  test('B6 profile B fails with its codes', async () => {
    const client = newSpace(b)
    await putFaults(client, { method: 'POST' }, { method: 'PUT', code: 400 }, { method: 'DELETE', code: 404 })
    assert.equal((await client.send('POST', itemsPath, named('x'))).text, 'CouldNotCreateItem')
    assert.equal((await client.send('PUT', itemsPath, named('x'))).text, 'CouldNotUpdateItem')
    assert.equal((await client.send('DELETE', `${itemsPath}/x`)).text, 'RecordNotFound')
  })

  for (const [profile, service, post] of [
    ['a', a, '400, 401, 413, 415, 429, 500, 503'],
    ['b', b, '400, 401, 409, 429'],
  ] as const)
    test(`profile ${profile}: every mistake is named with its position, and nothing changes`, async () => {
      const client = newSpace(service)
      await putFaults(client, { method: 'POST', code: 400 })
      const rejected = async (faults: unknown) => {
        const response = await client.send('PUT', '/__admin/faults', faults)
        assert.equal(response.status, 400, response.text)
        assert.deepEqual(await faultsOf(client), [{ id: 1, method: 'POST', code: 400, used: 0 }])
        return problemOf(response).errors
      }
      assert.deepEqual(await rejected({ code: 400 }), { '': ['The body must be an array of faults.'] })
      assert.deepEqual(await rejected('[{]'), {
        '': ['The body is not JSON: at line 1, column 3, a name in double quotes or } is expected.'],
      })
      const noOperation = ['No operation has this method and path.']
      assert.deepEqual(
        await rejected([
          { method: 'POST', code: 400 },
          5,
          { method: 'post', path: 'api', times: 0, share: 2, code: '503', connection: 'x', delay: -1, cod: 503 },
          { method: 'POST', code: 418 },
          { code: 400, connection: 'lost' },
          { method: 'PATCH' },
          { path: '/api/todo' },
          { path: `${itemsPath}/1/2` },
          { method: ['POST'], times: 1.5, delay: 60_001, maxDelay: 60_001, bytesPerSecond: 0 },
          { maxDelay: 5 },
          { delay: 6, maxDelay: 5 },
          { bytesPerSecond: 10_000_001 },
          { path: `${itemsPath}/${'1'.repeat(1_000)}` },
          { path: `${itemsPath}/é` },
          { path: `${itemsPath}/1?x=y` },
        ]),
        {
          '[1]': ['A fault must be an object.'],
          '[2]': [
            'method must be a method such as POST.',
            'path must begin with /, be percent-encoded and have at most 1000 characters.',
            'times must be a positive integer.',
            'share must be a number from 0 to 1.',
            'code must be a status.',
            'connection must be reset, truncate, lost.',
            'delay must be milliseconds from 0 to 60000.',
            'There is no member cod: use method, path, times, share, code, connection, delay, maxDelay, bytesPerSecond.',
          ],
          '[3]': [`code must be a failure of these operations: ${post}.`],
          '[4]': ['code and connection exclude each other.'],
          '[5]': noOperation,
          '[6]': noOperation,
          '[7]': noOperation,
          '[8]': [
            'method must be a method such as POST.',
            'times must be a positive integer.',
            'delay must be milliseconds from 0 to 60000.',
            'maxDelay must be milliseconds from 0 to 60000.',
            'bytesPerSecond must be an integer from 1 to 10000000.',
          ],
          '[9]': ['maxDelay needs a delay that is not greater.'],
          '[10]': ['maxDelay needs a delay that is not greater.'],
          '[11]': ['bytesPerSecond must be an integer from 1 to 10000000.'],
          '[12]': ['path must begin with /, be percent-encoded and have at most 1000 characters.'],
          '[13]': ['path must begin with /, be percent-encoded and have at most 1000 characters.'],
          '[14]': ['path must begin with /, be percent-encoded and have at most 1000 characters.'],
        },
      )
    })
})

suite('faults that would never be applied are refused with the reason', { concurrency: true }, () => {
  const refusalOf = async (service: Service, fault: object) => {
    const response = await newSpace(service).send('POST', '/__admin/faults', fault)
    assert.equal(response.status, 400, response.text)
    return problemOf(response).errors
  }

  for (const path of [
    '/health/live',
    '/Health/Ready/',
    '/swagger',
    '/swagger/index.html',
    '/app',
    '/app/main.js',
    '/__admin/items',
    '/__admin',
  ])
    test(path, async () => {
      const message = 'Health checks, the pages and /__admin are neither delayed nor made to fail.'
      for (const service of [a, b]) assert.deepEqual(await refusalOf(service, { path, delay: 1 }), { '': [message] })
    })

  test('A12 an id that no item of profile A can have', async () => {
    const message = 'No item can have the id of this path: {id} stands for every id.'
    for (const id of ['*', ':id', 'abc', '01'])
      assert.deepEqual(await refusalOf(a, { path: `${itemsPath}/${id}`, code: 503 }), { '': [message] })
    const { status } = await newSpace(b).send('POST', '/__admin/faults', { path: `${itemsPath}/*`, code: 400 })
    assert.equal(status, 201)
  })
})

test('the failures of an operation are found once, however many faults and requests there are', () => {
  const random = () => 0.5
  const api = profileApi(profiles.a, { now: () => new Date(), random, requireAuth: false })
  let found = 0
  const errorResponse: typeof api.errorResponse = (...args) => {
    found++
    return api.errorResponse(...args)
  }
  const faults = new Faults({ ...api, errorResponse }, { faults: [], random, countFaults: () => 0 })
  const [list] = api.routes as [Route]
  const request = { method: 'GET', target: itemsPath, header: () => undefined } as unknown as Request
  const space = { name: '', items: memoryStores(collectionsOf(profiles), '').spaces.collection('a', '') }
  const settings = { space, trustProxy: undefined, baseUrl: undefined, newId: () => '' }
  const find = () => faults.find(new RequestContext(request, settings, 0), list)
  faults.set([{ code: 404 }])
  assert.equal(find(), undefined)
  const foundOnce = found
  faults.set(Array(1_000).fill({ code: 404 }))
  for (let count = 0; count < 10; count++) assert.equal(find(), undefined)
  assert.equal(found, foundOnce)
})

/** For a process that should end at once. */
const startTimeout = { timeout: 120_000 }

suite('--delay and --fault', { concurrency: true }, () => {
  const failures = async (client: Client, times: number) => {
    const all: number[] = []
    for (let index = 0; index < times; index++) all.push((await client.send('GET', itemsPath)).status)
    return all.filter((status) => status >= 400)
  }

  test('--delay delays every response, in spaces too', async (t) => {
    const { url } = await serve(t, ['--delay', '150-200'])
    for (const client of [createClient(url), createClient(`${url}/~ada`)]) {
      const startedAt = performance.now()
      assert.deepEqual(applied(await client.send('GET', itemsPath)), [200, undefined])
      assert.ok(performance.now() - startedAt >= 145)
      const [entry] = await journalOf(client)
      assert.match(entry?.fault ?? '', /^all requests: delayed by 150 to 200 ms \((?:1[5-9]\d|200)\) \(--delay\)$/)
    }
    const client = createClient(url)
    await client.send('GET', '/health/live')
    const [health] = await journalOf(client, '?limit=1')
    assert.deepEqual([health?.path, health?.fault], ['/health/live', undefined])
  })

  test('--fault 50%, in spaces too; PUT /__admin/faults comes first', async (t) => {
    const { url } = await serve(t, ['--fault', '50%', '--seed', '7'])
    for (const client of [createClient(url), createClient(`${url}/~ada`)]) {
      const failed = await failures(client, 60)
      assert.ok(failed.length > 10 && failed.length < 50, `${failed.length}`)
      assert.ok(failed.every((status) => status === 503))
      await putFaults(client, { code: 500 })
      assert.deepEqual(await failures(client, 5), [500, 500, 500, 500, 500])
      assert.equal((await client.send('POST', '/__admin/reset')).status, 204)
      assert.ok((await failures(client, 60)).length > 10)
    }
  })

  test('their faults can be removed and replaced, in one space, until the next reset', async (t) => {
    const { url } = await serve(t, ['--fault', 'POST:500:25%', '--fault', '0%', '--delay', '1-2'])
    const [main, ada] = [createClient(url), createClient(`${url}/~ada`)]
    const atStart = [
      { id: 1, share: 0.25, method: 'POST', code: 500, flag: '--fault', used: 0 },
      { id: 2, share: 0, flag: '--fault', used: 0 },
      { id: 3, delay: 1, maxDelay: 2, flag: '--delay', used: 0 },
    ]
    assert.deepEqual(await faultsOf(ada), atStart)
    await putFaults(ada, { code: 503 })
    const own = { id: 4, code: 503, used: 0 }
    assert.deepEqual(await faultsOf(ada), [own, ...atStart])
    await ada.send('POST', '/__admin/faults', { method: 'PUT' })
    assert.deepEqual(await faultsOf(ada), [own, { id: 5, method: 'PUT', used: 0 }, ...atStart])
    assert.equal((await ada.send('DELETE', '/__admin/faults')).status, 204)
    assert.deepEqual(await faultsOf(ada), atStart)
    assert.equal((await ada.send('GET', itemsPath)).status, 200)
    assert.equal((await faultsOf(ada))[2].used, 1)
    assert.equal((await ada.send('DELETE', '/__admin/faults/3')).status, 204)
    assert.equal((await ada.send('PUT', '/__admin/faults/1', { code: 503 })).status, 204)
    assert.deepEqual(await faultsOf(ada), [{ id: 1, code: 503, used: 0 }, atStart[1]])
    assert.deepEqual(await faultsOf(main), atStart)
    assert.equal((await ada.send('POST', '/__admin/reset')).status, 204)
    assert.deepEqual(await faultsOf(ada), atStart)
  })

  test('--fault METHOD:STATUS:SHARE%, repeated, and as a variable', async (t) => {
    for (const [args, env] of [
      [['--fault', 'POST:500:100%', '--fault', 'DELETE:100%', '--fault', 'PUT:429:100%', '--fault', '0%'], {}],
      [[], { TODO_FAULT: 'POST:500:100%, DELETE:100%, PUT:429:100%' }],
    ] as const) {
      const { url } = await serve(t, args, env)
      const client = createClient(url)
      assert.equal((await create(client)).status, 500)
      assert.equal((await client.send('DELETE', `${itemsPath}/1`)).status, 503)
      assert.equal((await client.send('PUT', `${itemsPath}/1`, { id: 1, ...numbered('x') })).status, 429)
      assert.equal((await client.send('GET', itemsPath)).status, 200)
    }
  })

  test('B6 --fault in profile B: its codes', async (t) => {
    const { url } = await serve(t, ['--fault', '100%'], {}, 'b')
    const client = createClient(url)
    assert.equal((await client.send('POST', itemsPath, named('x'))).text, 'CouldNotCreateItem')
    assert.equal((await client.send('DELETE', `${itemsPath}/x`)).text, 'CouldNotDeleteItem')
    assert.equal((await client.send('GET', itemsPath)).status, 503)
  })

  test('a failure that no operation of the served profiles can have is a usage error', startTimeout, async (t) => {
    const serveWith = (profile: string, ...faults: string[]) =>
      run(t, ['serve', '--profile', profile, ...faults.flatMap((fault) => ['--fault', fault])])
    const [forB, forBoth, long] = await Promise.all([
      serveWith('b', 'POST:503:20%', 'GET:503:20%', 'PATCH:5%'),
      serveWith('both', 'POST:418:20%'),
      run(t, ['serve', '--profile', 'a', '--delay', '5-60001']),
    ])
    assert.equal(long.code, 2)
    assert.match(long.stderr, /^todo-service: --delay is not possible in .*: maxDelay must be .* 0 to 60000\.\n/)
    assert.deepEqual([forB.code, forB.stdout], [2, ''])
    assert.deepEqual(forB.stderr.split('\n').slice(0, -2), [
      'todo-service: --fault POST:503 is not possible in Profile B: code must be a failure of these operations: 400, 401, 409, 429.',
      'todo-service: --fault PATCH is not possible in Profile B: No operation has this method and path.',
    ])
    assert.equal(forBoth.code, 2)
    assert.match(
      forBoth.stderr,
      /Profile A: .*400, 401, 413, 415, 429, 500, 503\.\n.*Profile B: .*400, 401, 409, 429\.\n/,
    )
  })

  test('a failure that one of two profiles cannot have is said at the start', async (t) => {
    const running = startCommand(t, ['serve', '--port-a', '0', '--port-b', '0', '--fault', 'POST:503:100%'])
    await running.prints(
      /^--fault POST:503 has no effect in Profile B: code must be a failure of these operations: 400, 401, 409, 429\.$/m,
    )
    const [, url = ''] = await running.prints(/Profile A {2}(http:\/\/localhost:\d+)/)
    assert.equal((await create(createClient(url))).status, 503)
  })

  test('values that cannot be read are usage errors', startTimeout, async (t) => {
    const args = [
      '--delay',
      '5s',
      '--fault',
      '101%',
      '--fault',
      'post:5%',
      '--seed',
      '-1',
      '--now',
      'today',
      '--space-ttl',
      '0',
    ]
    const { code, stderr } = await run(t, ['serve', ...args])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: --[\w-]+ must be /gm)?.length, 6, stderr)
  })

  test('a delay does not keep the process from ending', async (t) => {
    const { running, url } = await serve(t, ['--drain-timeout', '1'])
    const client = createClient(url)
    await putFaults(client, { delay: 60_000 })
    const delayed = client.send('GET', itemsPath).catch(() => {})
    while (!/"used":1/.test((await client.send('GET', '/__admin/faults')).text));
    running.process.kill('SIGTERM')
    await delayed
    const stopwatch = new Stopwatch()
    assert.equal((await running.ended).code, 0)
    stopwatch.assertWithin(10_000)
  })
})

// test/slow/runtimes.test.ts has the others.
testRates(nodeRuntime)
