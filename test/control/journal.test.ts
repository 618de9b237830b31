import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { JournalEntry } from '../../src/control/schema.ts'
import type { Client } from '../../src/verify/engine/client.ts'
import { cleanUp } from '../support/cleanup.ts'
import { serve, sharedService } from '../support/cli.ts'
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
  repeat,
  type ServerEvent,
  sendRaw,
} from '../support/control.ts'
import { RawConnection } from '../support/raw.ts'
import { Stopwatch } from '../support/stopwatch.ts'
import { startingItemsB } from '../support/stores.ts'

const a = sharedService([])
const b = sharedService(['--profile', 'b'])

suite('journal', { concurrency: true }, () => {
  test('has time, method, path, query, status, duration, headers and bodies of each request, newest last', async () => {
    const client = newSpace(a)
    await client.send('GET', '/?x=1')
    await client.send('POST', itemsPath, numbered('walk the dog'), { 'X-Custom': 'y' })
    const [first, { id, time, milliseconds, request, response, ...entry } = assert.fail()] = await journalOf(client)
    assert.deepEqual([first?.method, first?.path, first?.query], ['GET', '/', '?x=1'])
    assert.ok(first && id > first.id && time >= first.time && milliseconds >= 0)
    assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000)
    assert.deepEqual(entry, {
      client: '127.0.0.1',
      method: 'POST',
      path: itemsPath,
      query: '',
      state: 'sent',
      status: 201,
      rules: [],
      met: ['A3', 'A4', 'G3'],
      item: { change: 'created', id: '1' },
      space: new URL(client.url).pathname.slice(2),
    })
    assert.deepEqual([request.headers['x-custom'], request.headers.host], ['y', new URL(a.url).host])
    assert.equal(request.body, JSON.stringify(numbered('walk the dog')))
    assert.equal(response.headers.location, `${client.url}${itemsPath}/1`)
    assert.equal(response.body, JSON.stringify({ id: 1, ...numbered('walk the dog') }))
    assert.deepEqual([first.request.body, first.response.body], [null, 'Hello World!'])
  })

  test('limit and since choose entries; DELETE empties it', async () => {
    const client = newSpace(a)
    for (const path of [`${itemsPath}/1`, `${itemsPath}/2`, `${itemsPath}/3`, `${itemsPath}/4`])
      await client.send('GET', path)
    const paths = async (query: string) => (await journalOf(client, query)).map(({ path }) => path)
    const [, second] = await journalOf(client)
    assert.deepEqual(await paths('?limit=2'), [`${itemsPath}/3`, `${itemsPath}/4`])
    assert.deepEqual(await paths(`?since=${second?.id}`), [`${itemsPath}/3`, `${itemsPath}/4`])
    assert.deepEqual(await paths(`?limit=1&since=${second?.id}`), [`${itemsPath}/4`])
    assert.deepEqual(await paths('?limit=0'), [])
    assert.deepEqual(await paths('?limit=1000000'), [
      `${itemsPath}/1`,
      `${itemsPath}/2`,
      `${itemsPath}/3`,
      `${itemsPath}/4`,
    ])
    assert.deepEqual(await paths('?since=1000000'), [])
    assert.equal((await client.send('DELETE', '/__admin/requests')).status, 204)
    assert.deepEqual(await journalOf(client), [])
    await client.send('GET', `${itemsPath}/5`)
    assert.deepEqual(await paths(`?since=${second?.id}`), [`${itemsPath}/5`])
  })

  test('marks CORS preflights, and leaves them out when asked to; the events have them', async (t) => {
    const client = newSpace(a)
    await client.send('GET', itemsPath)
    const stream = await EventStream.open(t, client)
    const origin = 'http://localhost:5173'
    const preflight = { origin, 'access-control-request-method': 'POST' }
    for (const headers of [{}, { origin }, { 'access-control-request-method': 'POST' }, preflight])
      await client.send('OPTIONS', itemsPath, undefined, headers)
    await client.send('OPTIONS', '/missing', undefined, preflight)
    await client.send('POST', itemsPath, numbered('x'), preflight)
    const shown = async (query = '') =>
      (await journalOf(client, query)).map(({ method, path, isPreflight }) => [method, path, isPreflight])
    const expected = [
      ['GET', itemsPath, undefined],
      ...Array(3).fill(['OPTIONS', itemsPath, undefined]),
      ['OPTIONS', itemsPath, true],
      ['OPTIONS', '/missing', true],
      ['POST', itemsPath, undefined],
    ]
    const others = expected.filter(([, , isPreflight]) => !isPreflight)
    assert.deepEqual(await shown(), expected)
    assert.deepEqual(await shown('?preflights=false'), others)
    assert.deepEqual(await shown('?preflights=true'), expected)
    assert.deepEqual(await shown('?limit=2'), expected.slice(-2))
    assert.deepEqual(await shown('?limit=2&preflights=false'), others.slice(-2))
    const events = []
    while (events.length < 6) {
      const { event, data } = await stream.next()
      if (event === 'request' && data.state === 'sent') events.push([data.method, data.path, data.isPreflight])
    }
    assert.deepEqual(events, expected.slice(1))
  })

  test('a query that is invalid gets 400 with every mistake', async () => {
    const client = newSpace(a)
    for (const query of ['limit=-1', 'limit=x', 'since=', 'since=1.5', 'limit=1e3', 'preflights', 'preflights=1'])
      assert.equal((await client.send('GET', `/__admin/requests?${query}`)).status, 400, query)
    const response = await client.send('GET', '/__admin/requests?limit=x&since=y&preflights=yes&offset=1')
    assert.deepEqual(
      [response.status, problemOf(response).errors],
      [
        400,
        {
          limit: ['limit must be a whole number.'],
          since: ['since must be a whole number.'],
          preflights: ['preflights must be true or false.'],
          offset: ['There is no parameter offset: use since, limit, preflights.'],
        },
      ],
    )
    const { status, text } = await client.send('GET', '/__admin/requests?__proto__=x')
    assert.equal(status, 400)
    assert.match(text, /"errors":\{"__proto__":\["There is no parameter __proto__: use since, limit, preflights\."\]\}/)
  })

  const hidden = `
    AUTHORIZATION Proxy-Authorization X-Authorization X-Auth XAuth X-OAuth X-Authentication Cookie Cookie2
    X-Session-Id SessionId X-Sid Mcp-Session-Id X-CSRF X-XSRF-Token X-Api-Key Api_Key ApiKey X-Api-Keys
    X-Functions-Key Ocp-Apim-Subscription-Key X-Access-Key Key X-SharedKey X.Master.Key X-Key-Id X-Auth-Token Token
    AccessToken X-Amz-Security-Token X-Client-Secret X-Password X-Passwd X-Pwd X-Pass X-Passphrase X-Pin X-Credentials
    X-Jwt X-Goog-IAP-JWT-Assertion X-SAML DPoP X-Bearer X-GitHub-OTP Signature X-Sig X-Hub-Signature-256
    X-Shopify-Hmac-Sha256 X-Sign CB-Access-Sign X-Amzn-Oidc-Data X-WP-Nonce X-Ticket X-MS-SAS X-SSO
  `
    .trim()
    .split(/\s+/)
  const visible = `
    Idempotency-Key X-Idempotency-Key Sec-WebSocket-Key X-Cache-Key X-Keyboard X-Keywords X-Author X-Authority
    X-Authenticated-User X-Correlation-Id X-Request-Id Traceparent Prefer Access-Control-Request-Headers
    Access-Control-Allow-Credentials Keep-Alive User-Agent Accept Referer X-Compass X-Design X-Inside Content-Digest
    X-Opinion X-Passenger
  `
    .trim()
    .split(/\s+/)

  test('has no header whose name has a part of the name of a credential, nor have the events', async (t) => {
    const client = newSpace(a)
    const stream = await EventStream.open(t, client)
    const headers = (names: string[], value: string) => Object.fromEntries(names.map((name) => [name, value]))
    await client.send('GET', '/', undefined, { ...headers(hidden, 'canary'), ...headers(visible, 'visible') })
    const { data } = await stream.next()
    for (const { request } of [...(await journalOf(client)), data as JournalEntry])
      assert.deepEqual(
        Object.keys(request.headers).filter((name) => !['host', 'connection'].includes(name)),
        visible.map((name) => name.toLowerCase()),
      )
  })

  test('shows WWW-Authenticate', async () => {
    const client = newSpace(a)
    for (const path of ['/', '/secret']) await client.send('GET', path)
    const [, entry] = await journalOf(client)
    assert.equal(entry?.response.headers['www-authenticate'], 'Bearer')
  })

  test('has the first 16 KiB of a body', async () => {
    const client = newSpace(a)
    const limit = 16 * 1024
    const send = async (name: string) => {
      await client.send('POST', itemsPath, numbered(name))
      const [{ request, response } = assert.fail()] = await journalOf(client, '?limit=1')
      return { request, response }
    }
    const rest = JSON.stringify(numbered('')).length
    const exact = await send('x'.repeat(limit - rest))
    assert.deepEqual([exact.request.body?.length, exact.request.isTruncated], [limit, undefined])
    assert.deepEqual([exact.response.body?.length, exact.response.isTruncated], [limit, true])
    for (const character of ['x', '漢', '😀']) {
      const sent = numbered(character.repeat(20_000))
      const { request, response } = await send(sent.name)
      for (const { body, isTruncated } of [request, response]) {
        const bytes = Buffer.byteLength(`${body}`)
        assert.ok(isTruncated && bytes <= limit && bytes > limit - 4, `${character} ${bytes}`)
        assert.doesNotMatch(`${body}`, /\ufffd/)
      }
      assert.ok(JSON.stringify(sent).startsWith(`${request.body}`))
    }
    await client.send(
      'PUT',
      '/__admin/items',
      Array.from({ length: 5_000 }, (_, id) => ({ id, ...numbered('') })),
    )
    const { text } = await client.send('GET', itemsPath)
    const [{ response } = assert.fail()] = await journalOf(client, '?limit=1')
    assert.deepEqual([response.body, response.isTruncated], [text.slice(0, limit), true])
  })

  test('has at most 1,000 entries', async () => {
    const client = newSpace(a)
    await repeat(1_010, (index) => client.send('GET', `${itemsPath}/${index}`))
    const entries = await journalOf(client)
    assert.equal(entries.length, 1_000)
    assert.equal(new Set(entries.map(({ id }) => id)).size, 1_000)
    assert.ok(entries.every(({ state }) => state === 'sent'))
  })

  const rejected = {
    a: [
      ['POST', itemsPath, {}, 400, 'A6', { isComplete: ['isComplete is missing.'] }],
      [
        'POST',
        itemsPath,
        { name: 5 },
        400,
        'A5 A6',
        { name: ['name must be a string or null.'], isComplete: ['isComplete is missing.'] },
      ],
      ['POST', itemsPath, { name: 5, isComplete: true }, 400, 'A5', { name: ['name must be a string or null.'] }],
      ['POST', itemsPath, '[]', 400, 'A14', { '': ['The body is an array, not an object.'] }],
      ['POST', itemsPath, ' '.repeat(2 ** 20 + 1), 413, 'A14', undefined],
      ['PUT', `${itemsPath}/1`, { id: 2, ...numbered('x') }, 400, 'A8', undefined],
      ['PUT', `${itemsPath}/1`, numbered('x'), 400, 'A8', { id: ['id is missing.'] }],
      ['PUT', `${itemsPath}/9`, { id: 9, ...numbered('x') }, 404, '', undefined],
      ['GET', `${itemsPath}/9`, undefined, 404, '', undefined],
      ['GET', `${itemsPath}/abc`, undefined, 400, 'A12', undefined],
      ['DELETE', `${itemsPath}/9`, undefined, 404, '', undefined],
      ['PATCH', itemsPath, undefined, 405, '', undefined],
      ['GET', '/nothing', undefined, 404, '', undefined],
      ['GET', '/secret', undefined, 401, '', undefined],
    ],
    b: [
      [
        'POST',
        itemsPath,
        { id: 'x', name: ' ' },
        400,
        'B4',
        { name: ['name must not be blank.'], notes: ['notes is missing.'] },
      ],
      ['POST', itemsPath, '', 400, 'B4', { '': ['The body is empty.'] }],
      ['POST', itemsPath, startingItemsB[0], 409, '', undefined],
      [
        'POST',
        itemsPath,
        { ...named('x'), name: '\ud800' },
        400,
        'B6',
        { name: ['name must not contain a lone surrogate.'] },
      ],
      ['PUT', itemsPath, named('x'), 404, '', undefined],
      ['DELETE', `${itemsPath}/x`, undefined, 404, '', undefined],
      ['DELETE', `${itemsPath}/${'x'.repeat(1025)}`, undefined, 400, 'B11', undefined],
      ['GET', `${itemsPath}/x`, undefined, 405, '', undefined],
    ],
  } as const
  for (const [profile, service] of Object.entries({ a, b }))
    test(`says why a request to profile ${profile} was rejected, and which rules it broke: it has kept none`, async () => {
      const client = newSpace(service)
      for (const [method, path, body, status, rules, errors] of rejected[profile as 'a' | 'b']) {
        const response = await client.send(method, path, body)
        let [entry = assert.fail()] = await journalOf(client, '?limit=1')
        // The rest of a body that is too large is still being received.
        while (entry.state === 'pending') [entry = assert.fail()] = await journalOf(client, '?limit=1')
        const sent = `${method} ${path.slice(0, 40)}`
        assert.deepEqual(
          [sent, response.status, entry.status, entry.rules.join(' '), entry.met, entry.errors],
          [sent, status, status, rules, [], errors],
        )
        assert.equal(entry.item, undefined)
        assert.match(entry.reason ?? '', status === 405 ? /^This path offers [A-Z, ]+\.$/ : /\w/, sent)
        if (errors) assert.equal(entry.reason, Object.values(errors).flat().join(' '))
      }
      await client.send('GET', itemsPath)
      const [{ rules, reason } = assert.fail()] = await journalOf(client, '?limit=1')
      assert.deepEqual([rules, reason], [[], undefined])
    })

  test('says which delay or failure was applied; without a response the status is null', async () => {
    const client = newSpace(a)
    const send = async (prefer: string | undefined, method = 'POST') => {
      await client.send(method, itemsPath, method === 'POST' ? numbered('x') : undefined, { prefer }).catch(() => {})
      const [entry = assert.fail()] = await journalOf(client, '?limit=1')
      const { state, status, fault, reason, isSimulated, response, item } = entry
      assert.deepEqual([entry.rules, entry.errors, isSimulated], [[], undefined, reason && true])
      return { state, status, fault, reason, body: response.body, item: item?.change }
    }
    assert.deepEqual(await send('connection=reset'), {
      state: 'closed',
      status: null,
      fault: 'Prefer: connection=reset',
      reason: 'simulated by Prefer: connection=reset',
      body: null,
      item: undefined,
    })
    assert.deepEqual(await send('connection=lost'), {
      state: 'closed',
      status: null,
      fault: 'Prefer: connection=lost',
      reason: 'simulated by Prefer: connection=lost',
      body: null,
      item: 'created',
    })
    const truncated = await send('connection=truncate')
    assert.deepEqual([truncated.status, truncated.fault], [201, 'Prefer: connection=truncate'])
    assert.equal(truncated.reason, 'simulated by Prefer: connection=truncate')
    const failed = await send('code=503')
    assert.deepEqual([failed.status, failed.fault, failed.item], [503, 'Prefer: code=503', undefined])
    assert.equal((await send('wait=0, code=500')).reason, 'simulated by Prefer: code=500')
    await putFaults(client, { method: 'POST', times: 1, code: 500 }, { path: itemsPath, delay: 1 })
    const byFault = await send(undefined)
    const delay = `requests to ${itemsPath}: delayed by 1 ms`
    assert.deepEqual([byFault.status, byFault.fault], [500, `POST requests: 500, once; ${delay}`])
    assert.equal(byFault.reason, 'simulated by POST requests: 500, once')
    const delayed = await send(undefined, 'GET')
    assert.deepEqual([delayed.status, delayed.fault], [200, delay])
    await putFaults(client)
    assert.equal((await send('return=minimal')).fault, undefined)
  })

  const met = {
    a: [
      ['GET', itemsPath, undefined, 'A1 G3'],
      ['GET', `${itemsPath.toUpperCase()}/`, undefined, 'A1 G1 G2 G3'],
      ['POST', itemsPath, numbered('x'), 'A3 A4 G3'],
      ['GET', `${itemsPath}/1`, undefined, 'A2 G3'],
      ['PUT', `${itemsPath}/1`, { id: 1, ...numbered('y') }, 'A7'],
      ['DELETE', `${itemsPath}/1`, undefined, 'A9'],
      ['HEAD', itemsPath, undefined, 'G6 G3'],
      ['OPTIONS', itemsPath, undefined, 'G6'],
      ['GET', '/weatherforecast', undefined, 'S1 S7 G3'],
      ['GET', '/', undefined, 'S2 S7'],
    ],
    b: [
      ['GET', itemsPath, undefined, 'B1 G3'],
      ['POST', itemsPath, named('x'), 'B3 G3'],
      ['PUT', itemsPath, named('x'), 'B7'],
      ['DELETE', `${itemsPath}/x`, undefined, 'B8'],
    ],
  } as const
  for (const [profile, service] of Object.entries({ a, b }))
    test(`profile ${profile}: names the rules that the client of a successful exchange has kept`, async () => {
      const client = newSpace(service)
      for (const [method, path, body] of met[profile as 'a' | 'b']) await client.send(method, path, body)
      const shown = (await journalOf(client)).map((entry) => [entry.method, entry.path, entry.met.join(' ')])
      assert.deepEqual(
        shown,
        met[profile as 'a' | 'b'].map(([method, path, , rules]) => [method, path, rules]),
      )
      const authorization = `Bearer ${await developmentToken(service)}`
      for (const path of ['/secret', '/swagger/v1/swagger.json', '/'])
        await client.send('GET', path, undefined, { authorization })
      const last = (await journalOf(client)).slice(-3)
      assert.deepEqual(
        last.map((entry) => entry.met),
        [['S3'], ['S4', 'G3'], ['S2']],
      )
    })

  const missed = {
    a: [
      ['GET', '/API/todoitem', itemsPath],
      ['POST', '/todoitems/', itemsPath],
      ['GET', '/api/todo-items/7', `${itemsPath}/7`],
      ['DELETE', '/api/Todo_Item/7/', `${itemsPath}/7`],
      ['GET', '/api/todoitmes', itemsPath],
      ['GET', '/api/todos', itemsPath],
      ['GET', '/api/todoitems//', itemsPath],
      ['GET', '/weatherforecasts', '/weatherforecast'],
      ['GET', '/api/users', undefined],
      ['GET', '/api', undefined],
    ],
    b: [['DELETE', '/todo-items/K%2F7', `${itemsPath}/K%2F7`]],
  } as const
  for (const [profile, service] of Object.entries({ a, b }))
    test(`profile ${profile}: G6, G8 says which path was probably meant, but not in the response`, async () => {
      const client = newSpace(service)
      await client.send('GET', itemsPath)
      for (const [method, path, meant] of missed[profile as 'a' | 'b']) {
        const { status, text } = await client.send(method, path)
        assert.equal(status, 404)
        assert.doesNotMatch(text, /mean/)
        const [{ reason } = assert.fail()] = await journalOf(client, '?limit=1')
        const nothing = 'There is nothing at this path'
        assert.equal(reason, meant ? `${nothing}: did you mean ${meant}?` : `${nothing}.`)
      }
    })

  test('A14, B4, G8 says which media type was sent, but not in the response', async () => {
    for (const [service, item, status] of [
      [a, numbered('x'), 415],
      [b, named('x'), 400],
    ] as const)
      for (const [type, was] of [
        ['text/plain;charset=UTF-8', 'the Content-Type was text/plain;charset=UTF-8.'],
        [undefined, 'there was no Content-Type.'],
      ] as const) {
        const client = newSpace(service)
        const sent = await client.send('POST', itemsPath, Buffer.from(JSON.stringify(item)), { 'content-type': type })
        assert.equal(sent.status, status)
        assert.doesNotMatch(sent.text, /Content-Type|text\/plain/)
        const [{ reason } = assert.fail()] = await journalOf(client, '?limit=1')
        assert.equal(reason, `The body must be sent as application/json in UTF-8: ${was}`)
      }
  })

  test('says which origin CORS does not allow, and what to type, in the log too', async (t) => {
    const { url, running } = await serve(t, [])
    const client = createClient(url)
    const origin = 'http://app.example:8080'
    const why = `Pages from ${origin} may not use this service; --cors ${origin} would allow them.`
    await client.send('GET', itemsPath, undefined, { origin })
    await client.send('POST', itemsPath, {}, { origin })
    await client.send('OPTIONS', itemsPath, undefined, { origin, 'access-control-request-method': 'PUT' })
    await client.send('GET', itemsPath, undefined, { origin: 'null' })
    for (const allowed of ['http://localhost:5173', url])
      await client.send('GET', itemsPath, undefined, { origin: allowed })
    assert.deepEqual(
      (await journalOf(client)).map(({ status, blockedOrigin, reason }) => [status, blockedOrigin, reason]),
      [
        [200, origin, why],
        [400, origin, `isComplete is missing. ${why}`],
        [204, origin, why],
        [200, 'null', "Pages from null may not use this service; --cors '*' would allow them."],
        [200, undefined, undefined],
        [200, undefined, undefined],
      ],
    )
    await running.prints(/^GET \/api\/todoitems 200 .*: Pages from http:\/\/app\.example:8080 may not use/m)
  })

  test('has no requests to the control API', async () => {
    const client = newSpace(a)
    await client.send('GET', '/__admin/nothing')
    await client.send('PUT', '/__admin/items', [5])
    await client.send('GET', '/__admin/items', undefined, { origin: 'http://evil.example' })
    assert.deepEqual(await journalOf(client), [])
  })
})

suite('requests in flight', { concurrency: true }, () => {
  test('are pending, and then sent; each has two events with one entry', async (t) => {
    const client = newSpace(a)
    const stream = await EventStream.open(t, client)
    const body = JSON.stringify(numbered('x'))
    const raw = sendRaw(t, client, 'POST', 'Prefer: wait=1', body)
    const pending = await stream.next()
    const { id, state, status, milliseconds, request, response, fault, met } = pending.data
    assert.deepEqual([state, status, milliseconds, met], ['pending', null, 0, []])
    assert.deepEqual([request?.body, response], [body, { headers: {}, body: null }])
    assert.equal(fault, 'Prefer: wait=1')
    assert.deepEqual(await raw.responses(1), [201])
    const sent = await stream.next()
    assert.deepEqual([sent.data.id, sent.data.state, sent.data.status], [id, 'sent', 201])
    assert.ok(sent.id > pending.id && Number(sent.data.milliseconds) >= 990)
    assert.equal((await stream.next()).event, 'item')
    assert.deepEqual(await journalOf(client), [sent.data])
    for (const [lastId, events] of [
      [pending.id - 1, ['sent', undefined]],
      [pending.id, ['sent', undefined]],
      [sent.id, [undefined]],
    ] as const) {
      const again = await EventStream.open(t, client, { 'last-event-id': `${lastId}` })
      for (const expected of events) assert.equal((await again.next()).data.state, expected)
      again.close()
    }
  })

  test('are pending while their body is received', async (t) => {
    const client = newSpace(a)
    await client.send('GET', '/')
    const stream = await EventStream.open(t, client)
    const raw = new RawConnection(t, a.port)
    const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 19`
    raw.socket.write(`POST ${new URL(client.url).pathname}${itemsPath} HTTP/1.1\r\n${head}\r\n\r\n{"isComplete"`)
    const pending = await stream.next()
    assert.equal(pending.data.state, 'pending')
    assert.deepEqual((await journalOf(client)).slice(1), [pending.data])
    raw.socket.write(':true}')
    assert.deepEqual(await raw.responses(1), [201])
    assert.deepEqual((await stream.next()).data.status, 201)
  })

  for (const isReset of [false, true])
    test(`are aborted when the client ${isReset ? 'resets' : 'closes'} the connection; what they change is told`, async (t) => {
      const { url, running } = await serve(t, [])
      const client = createClient(url)
      const stream = await EventStream.open(t, client)
      const raw = sendRaw(t, client, 'POST', 'Prefer: wait=4', JSON.stringify(numbered('x')))
      assert.equal((await stream.next()).data.state, 'pending')
      if (isReset) raw.socket.resetAndDestroy()
      else raw.socket.destroy()
      const { data } = await stream.next()
      assert.deepEqual([data.state, data.status, data.rules, data.met, data.item], ['aborted', null, [], [], undefined])
      assert.match(`${data.reason}`, /^The client closed the connection after \d+(\.\d+)? s\.$/)
      await running.prints(/^POST \/api\/todoitems aborted \d+\.\d ms \(a, trace \w+\): The client closed the/m)
      const late = await stream.next()
      assert.deepEqual(late.data, { ...data, item: { change: 'created', id: '1' } })
      assert.equal((await stream.next()).event, 'item')
      assert.deepEqual(await journalOf(client), [late.data])
      assert.doesNotMatch(running.stdout, / 201 /)
    })

  test('are aborted when the client leaves in the middle of a body', async (t) => {
    const client = newSpace(a)
    const items = Array.from({ length: 20_000 }, (_, id) => ({ id, ...numbered('x'.repeat(1_000)) }))
    await client.send('PUT', '/__admin/items', items)
    const stream = await EventStream.open(t, client)
    const raw = sendRaw(t, client, 'GET', 'X-Y: z')
    raw.socket.pause()
    assert.equal((await stream.next()).data.state, 'pending')
    raw.socket.destroy()
    const { data } = await stream.next()
    assert.deepEqual([data.state, data.status, data.response?.body], ['aborted', null, null])
    assert.match(`${data.reason}`, /before the end of the response \(200\)\.$/)
  })

  test('over HTTPS are sent where the client closes the connection with the last byte', async (t) => {
    const { url, running } = await serve(t, ['--https-port', '0'])
    const items = Array.from({ length: 2_000 }, (_, id) => ({ id, ...numbered('x'.repeat(1_000)) }))
    const client = createClient(url)
    await client.send('PUT', '/__admin/items', items)
    const [, port] = (await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)) as unknown as [string, string]
    const { length } = (await client.send('GET', itemsPath)).text
    const download = () =>
      new Promise<void>((resolve, reject) => {
        const socket = connect({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false })
        cleanUp(t, () => socket.destroy())
        let missing = length
        socket.on('error', reject)
        socket.on('data', (data) => {
          const headEnd = missing === length ? data.indexOf('\r\n\r\n') + 4 : 0
          missing -= data.length - headEnd
          if (missing > 0) return
          socket.destroy()
          resolve()
        })
        socket.write(`GET ${itemsPath} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
      })
    await repeat(40, download)
    while ((await journalOf(client)).some(({ state }) => state === 'pending')) await sleep(10)
    assert.deepEqual([...new Set((await journalOf(client)).map(({ state }) => state))], ['sent'])
  })

  test('of a client that leaves while its token is verified are aborted, also where they open a space', async (t) => {
    const service = await serve(t, ['--require-auth'])
    const { url, port } = service
    const authorization = `Bearer ${await developmentToken(service)}`
    for (let round = 0; round < 10; round++) {
      const raw = new RawConnection(t, port)
      const head = `Host: localhost\r\nAuthorization: ${authorization}\r\nX-Todo-Space: s${round}`
      raw.socket.write(`GET ${itemsPath} HTTP/1.1\r\n${head}\r\n\r\n`, () => raw.socket.resetAndDestroy())
      await new Promise((closed) => raw.socket.once('close', closed))
    }
    for (let round = 0; round < 10; round++) {
      const client = createClient(`${url}/~s${round}`)
      while ((await journalOf(client)).some(({ state }) => state === 'pending')) await sleep(10)
    }
  })

  test('before one whose connection is closed are sent', async (t) => {
    const client = newSpace(a)
    const { pathname } = new URL(client.url)
    for (const fault of ['lost', 'reset']) {
      const raw = new RawConnection(t, a.port)
      const head = 'HTTP/1.1\r\nHost: localhost\r\n'
      raw.socket.on('error', () => {})
      const closed = new Promise((resolve) => raw.socket.once('close', resolve))
      raw.socket.write(
        `GET ${pathname}${itemsPath} ${head}\r\nGET ${pathname}/ ${head}Prefer: connection=${fault}\r\n\r\n`,
      )
      await closed
    }
    while ((await journalOf(client)).some(({ state }) => state === 'pending')) await sleep(10)
    assert.deepEqual(
      (await journalOf(client)).map(({ path, state }) => [path, state]),
      [
        [itemsPath, 'sent'],
        ['/', 'closed'],
        [itemsPath, 'sent'],
        ['/', 'closed'],
      ],
    )
  })

  test('behind a response that is not sent yet are aborted, too', async (t) => {
    const client = newSpace(a)
    const stream = await EventStream.open(t, client)
    const head = `HTTP/1.1\r\nHost: localhost\r\n`
    const { pathname } = new URL(client.url)
    const raw = new RawConnection(t, a.port)
    raw.socket.write(`GET ${pathname}/1 ${head}\r\nGET ${pathname}/ ${head}Prefer: wait=60\r\n\r\n`)
    assert.deepEqual(await raw.responses(1), [404])
    const states = []
    states.push((await stream.next()).data.state, (await stream.next()).data.state)
    assert.deepEqual(states.sort(), ['pending', 'sent'])
    raw.socket.destroy()
    assert.equal((await stream.next()).data.state, 'aborted')
  })

  for (const [method, path] of [
    ['DELETE', '/__admin/requests'],
    ['POST', '/__admin/reset'],
  ] as const)
    test(`do not come back after ${method} ${path}`, async (t) => {
      const client = newSpace(a)
      const stream = await EventStream.open(t, client)
      const sent = `${itemsPath}/${method === 'POST' ? 1234 : 4321}`
      const raw = sendRaw(t, client, 'GET', 'Prefer: wait=60', '', sent)
      assert.equal((await stream.next()).data.state, 'pending')
      await client.send(method, path)
      raw.socket.destroy()
      await a.running.prints(new RegExp(`^GET ${sent} aborted`, 'm'))
      await client.send('GET', '/end')
      const events = await stream.until('/end')
      assert.deepEqual(
        events.filter(({ event }) => event === 'request').map(({ data }) => data.path),
        ['/end'],
      )
      assert.deepEqual(
        (await journalOf(client)).map((entry) => entry.path),
        ['/end'],
      )
    })

  test('count for the limit of entries', async (t) => {
    const client = newSpace(a)
    const stream = await EventStream.open(t, client)
    const raw = sendRaw(t, client, 'GET', 'Prefer: wait=60')
    assert.equal((await stream.next()).data.state, 'pending')
    await repeat(1_000, (index) => client.send('GET', `${itemsPath}/${index}`))
    const entries = await journalOf(client)
    assert.deepEqual([entries.length, entries[0]?.state], [1_000, 'sent'])
    raw.socket.destroy()
  })

  test('their space can be dropped, and the service be stopped', async (t) => {
    const { url, running } = await serve(t, ['--drain-timeout', '1'])
    const client = newSpace({ url })
    const stream = await EventStream.open(t, client)
    const dropped = sendRaw(t, client, 'GET', 'Prefer: wait=60')
    assert.equal((await stream.next()).data.state, 'pending')
    const [, name] = client.url.split('~')
    assert.equal((await createClient(url).send('DELETE', `/__admin/spaces/${name}`)).status, 204)
    assert.deepEqual(await stream.rest(), [])
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
    await dropped.closed
    assert.match(running.stdout, /closed .*: The service closed the connection after/)
  })

  test('a line of the log says that a response was simulated', async (t) => {
    const { url, running } = await serve(t, [])
    const client = createClient(url)
    await putFaults(client, { method: 'POST', path: itemsPath, code: 503 })
    await client.send('POST', itemsPath, numbered('x'))
    await client.send('GET', itemsPath, undefined, { prefer: 'code=503' })
    await client.send('DELETE', `${itemsPath}/1`, undefined, { prefer: 'connection=reset' }).catch(() => {})
    await running.prints(/^POST .* 503 .*: simulated by POST \/api\/todoitems: 503$/m)
    await running.prints(/^GET .* 503 .*: simulated by Prefer: code=503$/m)
    await running.prints(/^DELETE .* closed .*: simulated by Prefer: connection=reset$/m)
  })
})

const summary = ({ event, data }: ServerEvent) =>
  event === 'request'
    ? `${data.method} ${data.path} ${data.status}`
    : `${event} ${data.change ?? ''} ${data.id ?? ''}`.trim()

/** Creates, updates and deletes an item, resets and replaces the items. */
async function change(client: Client, item: object, path: string, itemPath: string): Promise<void> {
  await client.send('POST', itemsPath, item)
  await client.send('PUT', path, item)
  await client.send('DELETE', itemPath)
  await client.send('DELETE', itemPath)
  await client.send('POST', '/__admin/reset')
  await client.send('GET', '/')
  await client.send('PUT', '/__admin/items', [])
  await client.send('GET', '/end')
}

suite('events', { concurrency: true }, () => {
  for (const [profile, service, created, item, path, itemPath] of [
    ['a', a, 201, { id: 1, ...numbered('x') }, `${itemsPath}/1`, `${itemsPath}/1`],
    ['b', b, 200, named('1'), itemsPath, `${itemsPath}/1`],
  ] as const)
    test(`profile ${profile}: one for each request, change of an item and reset, with ascending ids`, async (t) => {
      const client = newSpace(service)
      const stream = await EventStream.open(t, client)
      const expectedHeaders = ['text/event-stream', 'no-store']
      assert.deepEqual([stream.headers.get('content-type'), stream.headers.get('cache-control')], expectedHeaders)
      await change(client, item, path, itemPath)
      const events = await stream.until('/end')
      assert.deepEqual(events.map(summary), [
        `POST ${itemsPath} ${created}`,
        'item created 1',
        `PUT ${path} 204`,
        'item updated 1',
        `DELETE ${itemPath} 204`,
        'item deleted 1',
        `DELETE ${itemPath} 404`,
        'faults',
        'clear',
        'reset',
        'GET / 200',
        'reset',
        'GET /end 404',
      ])
      const ids = events.map(({ id }) => id)
      assert.deepEqual(
        ids,
        [...new Set(ids)].sort((x, y) => x - y),
      )
      assert.deepEqual(events.at(-1)?.data, (await journalOf(client, '?limit=1'))[0])
    })

  test('Last-Event-ID: what was missed follows, as far as the journal has it', async (t) => {
    const client = newSpace(a)
    const stream = await EventStream.open(t, client)
    for (const path of ['/1', '/2']) await client.send('GET', path)
    await client.send('POST', itemsPath, numbered('x'))
    await client.send('PUT', '/__admin/items', [])
    await client.send('GET', '/end')
    const all = await stream.until('/end')
    stream.close()
    for (const [index, { id }] of all.slice(0, -1).entries()) {
      const again = await EventStream.open(t, client, { 'last-event-id': `${id}` })
      assert.deepEqual(await again.until('/end'), all.slice(index + 1))
      again.close()
    }
    const afterRestart = await EventStream.open(t, client, { 'last-event-id': '999999' })
    assert.deepEqual(await afterRestart.until('/end'), all)
    await client.send('DELETE', '/__admin/requests')
    for (const id of [`${all[0]?.id}`, `${all.at(-1)?.id}`, 'nonsense']) {
      const later = await EventStream.open(t, client, { 'last-event-id': id })
      await client.send('GET', '/later')
      const events = await later.until('/later')
      assert.ok(
        events.every(({ event, data }) => ['reset', 'clear', 'faults'].includes(event) || data.path === '/later'),
      )
      later.close()
    }
  })

  test('a client that is gone does no harm', async (t) => {
    const client = newSpace(a)
    for (const isReset of [true, false]) {
      const gone = new RawConnection(t, a.port)
      gone.socket.write(`GET ${new URL(client.url).pathname}/__admin/events HTTP/1.1\r\nHost: localhost\r\n\r\n`)
      await gone.responses(1)
      if (isReset) gone.socket.resetAndDestroy()
      else gone.socket.destroy()
      for (const path of ['/1', '/2', '/3']) assert.equal((await client.send('GET', path)).status, 404)
    }
    assert.equal(a.running.process.exitCode, null)
  })

  test('requests behind an open stream on its connection wait for its end', async (t) => {
    const connection = new RawConnection(t, a.port)
    const head = 'HTTP/1.1\r\nHost: localhost\r\n\r\n'
    connection.socket.write(`GET /~pipelined/__admin/events ${head}DELETE /~pipelined${itemsPath}/1 ${head}`)
    await connection.responses(1)
    const client = createClient(`${a.url}/~pipelined`)
    await client.send('GET', '/')
    assert.deepEqual(
      (await journalOf(client)).map(({ method }) => method),
      ['GET'],
    )
  })

  test('stay open when nothing happens for longer than --keep-alive-timeout', async (t) => {
    const { url, port } = await serve(t, ['--keep-alive-timeout', '1'])
    const client = createClient(url)
    const stream = await EventStream.open(t, client)
    const idle = new RawConnection(t, port)
    idle.socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    assert.equal((await stream.next()).data.path, '/')
    await idle.closed
    await client.send('GET', '/later')
    assert.equal((await stream.next()).data.path, '/later')
  })

  test('SIGTERM ends the streams at once, and those of clients that reconnect', async (t) => {
    const { running, url } = await serve(t, ['--drain-timeout', '60'])
    const streams = [await EventStream.open(t, { url }), await EventStream.open(t, { url: `${url}/~ada` })]
    const stopwatch = new Stopwatch()
    running.process.kill('SIGTERM')
    for (const stream of streams) assert.deepEqual(await stream.rest(), [])
    await EventStream.open(t, { url }).then(
      (stream) => stream.rest(),
      () => 'the listener is closed',
    )
    assert.equal((await running.ended).code, 0)
    stopwatch.assertWithin(10_000)
  })
})
