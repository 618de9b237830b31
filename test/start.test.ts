import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { type AddressInfo, createServer, connect as openSocket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type JournalQuery, type StartOptions, start, type TodoServer, type TokenOptions } from '../src/index.ts'
import { cleanUp } from './support/cleanup.ts'
import { runCommand } from './support/cli.ts'
import { freePort } from './support/port.ts'
import { Stopwatch } from './support/stopwatch.ts'

const packageUrl = new URL('../src/index.js', import.meta.url).href

/** A server that is closed when the test ends. */
async function started<Name extends 'a' | 'b'>(t: TestContext, options: StartOptions<Name>): Promise<TodoServer<Name>> {
  const server = await start(options)
  cleanUp(t, server.close)
  return server
}

const items = '/api/todoitems'
const jsonBody = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
const expired = 'Bearer error="invalid_token", error_description="The token has expired"'
const dog = { name: 'walk the dog', isComplete: false }

/** Runs a module in a process of its own. */
const runModule = (t: TestContext, text: string) =>
  runCommand(t, process.execPath, ['--input-type=module', '-e', text.replace('PACKAGE', packageUrl)])

suite('start', () => {
  test('serves a profile on a free port of 127.0.0.1', async (t) => {
    const a = await started(t, { profile: 'a' })
    const b = await started(t, { profile: 'b' })
    assert.match(a.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.notEqual(a.url, b.url)
    assert.equal(await (await fetch(a.url + items)).text(), '[]')
    assert.equal(((await (await fetch(b.url + items)).json()) as unknown[]).length, 3)
    assert.equal((await fetch(`${a.url}/__admin/openapi.json`)).status, 200)
    assert.equal((await fetch(`${a.url}/swagger/index.html`)).status, 200)
  })

  test('listens on the port that it is given, and says so when it is in use', async (t) => {
    const port = await freePort()
    const { url } = await started(t, { profile: 'a', port })
    assert.equal(url, `http://127.0.0.1:${port}`)
    await assert.rejects(start({ profile: 'a', port }), {
      message: `start: Port ${port} is in use. Choose another, or leave it out for a free one.`,
    })
  })

  test('reset restores the starting items, the ids, and removes failures and requests', async (t) => {
    const a = await started(t, { profile: 'a' })
    await fetch(a.url + items, jsonBody(dog))
    await a.addFault({ code: 503 })
    await a.reset()
    assert.deepEqual(a.requests(), [])
    assert.deepEqual(await a.items(), [])
    assert.deepEqual(await (await fetch(a.url + items, jsonBody(dog))).json(), { id: 1, ...dog })
    const b = await started(t, { profile: 'b' })
    await b.putItems([])
    await b.reset()
    assert.deepEqual(
      (await b.items()).map(({ done }) => done),
      [true, false, false],
    )
  })

  test('A11 putItems and items keep every int64, as a number where that is exact and as a bigint elsewhere', async (t) => {
    const server = await started(t, { profile: 'a' })
    await server.putItems([
      { id: 9007199254740993n, name: 'large', isComplete: true },
      { id: 7n, isComplete: false },
      { id: -1, name: '9007199254740993', isComplete: false },
    ])
    assert.deepEqual(await server.items(), [
      { id: -1, name: '9007199254740993', isComplete: false },
      { id: 7, name: null, isComplete: false },
      { id: 9007199254740993n, name: 'large', isComplete: true },
    ])
    assert.equal((await fetch(`${server.url}${items}/9007199254740993`)).status, 200)
    assert.equal((await fetch(`${server.url}${items}/9007199254740992`)).status, 404)
    const created = await fetch(server.url + items, jsonBody(dog))
    assert.match(await created.text(), /^\{"id":9007199254740994,/)
  })

  test('putItems and items of Profile B', async (t) => {
    const server = await started(t, { profile: 'b' })
    await server.putItems([{ id: 'milk', name: 'Buy milk', notes: '2 litres' }])
    assert.deepEqual(await server.items(), [{ id: 'milk', name: 'Buy milk', notes: '2 litres', done: false }])
  })

  test('putItems names every mistake and changes nothing', async (t) => {
    const a = await started(t, { profile: 'a' })
    await a.putItems([{ id: 1, ...dog }])
    const invalid: [items: unknown, message: string][] = [
      [
        [{ id: 'x' }, 7, { id: 1.5, name: 5, isComplete: false }],
        'putItems: [0].id must be an int64. [0].isComplete is missing. [1] must be an object. [2].id must be an int64. [2].name must be a string or null.',
      ],
      [[{ id: 2 ** 53, ...dog }], 'putItems: [0].id may be rounded as a number: write it as a bigint.'],
      [
        [
          { id: 2, ...dog },
          { id: 2n, ...dog },
        ],
        'putItems: [1].id is the same as [0].id.',
      ],
      [[{ id: 2n ** 63n, ...dog }], 'putItems: [0].id must be an int64.'],
      [{ id: 1, ...dog }, 'putItems: The items must be an array.'],
      [[{ id: 1, isComplete: () => true }], 'putItems: [0].isComplete is missing.'],
    ]
    for (const [sent, message] of invalid) await assert.rejects(a.putItems(sent as never), { message })
    assert.deepEqual(await a.items(), [{ id: 1, ...dog }])
  })

  test('requests has each request and its response, newest last, without credentials', async (t) => {
    const server = await started(t, { profile: 'a' })
    const headers = { authorization: `Bearer ${await server.token()}`, 'x-test': '1' }
    await fetch(`${server.url}/secret?x=1`, { headers })
    await fetch(server.url + items, jsonBody({ name: 7 }))
    const [secret, rejected, ...more] = server.requests()
    assert.deepEqual(more, [])
    assert.deepEqual([secret?.method, secret?.path, secret?.query, secret?.status], ['GET', '/secret', '?x=1', 200])
    assert.equal(secret?.request.headers['x-test'], '1')
    assert.equal(secret?.request.headers.authorization, undefined)
    assert.deepEqual([rejected?.status, rejected?.rules, rejected?.request.body], [400, ['A5', 'A6'], '{"name":7}'])
    assert.deepEqual(server.requests({ limit: 1 }), [rejected])
    assert.deepEqual(server.requests({ since: secret?.id ?? 0 }), [rejected])
  })

  test('addFault adds failures, which are used up one after the other', async (t) => {
    const server = await started(t, { profile: 'a' })
    await server.addFault({ method: 'POST', times: 1, code: 503 })
    await server.addFault(
      { method: 'POST', path: items, times: 1, code: 500 },
      { method: 'GET', times: 1, connection: 'reset' },
    )
    const statuses = []
    for (let count = 0; count < 3; count++) statuses.push((await fetch(server.url + items, jsonBody(dog))).status)
    assert.deepEqual(statuses, [503, 500, 201])
    await assert.rejects(fetch(server.url + items))
    assert.equal((await fetch(server.url + items)).status, 200)
    assert.deepEqual(
      server.requests().map(({ status }) => status),
      [503, 500, 201, null, 200],
    )
  })

  test('S6 fail: a token that is rejected once, though none is required', async (t) => {
    const server = await started(t, { profile: 'b' })
    await server.addFault({ path: items, times: 1, code: 401 }, { path: items, times: 1, code: 429 })
    const headers = { authorization: `Bearer ${await server.token()}` }
    const rejected = await fetch(server.url + items, { headers })
    assert.deepEqual([rejected.status, rejected.headers.get('www-authenticate')], [401, expired])
    const limited = await fetch(server.url + items)
    assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '1'])
    assert.equal((await fetch(server.url + items)).status, 200)
  })

  test('addFault combines a failure, a delay and a rate', async (t) => {
    const server = await started(t, { profile: 'a' })
    await server.addFault(
      { times: 1, delay: 10, maxDelay: 20 },
      { times: 1, bytesPerSecond: 5_000 },
      { times: 1, code: 500 },
    )
    const { status } = await fetch(server.url + items)
    assert.equal(status, 500)
    const [entry] = server.requests()
    assert.match(
      entry?.fault ?? '',
      /: delayed by 10 to 20 ms \((?:1\d|20)\), once; .*: body at 5000 bytes\/s, once; .*: 500, once$/,
    )
    assert.equal((await fetch(server.url + items)).status, 200)
  })

  test('fail names every mistake and adds nothing', async (t) => {
    const server = await started(t, { profile: 'b' })
    const sent = [{ code: 503, times: 0 }, { method: 'PATCH' }, { times: 1 }]
    await assert.rejects(server.addFault(...sent), {
      message: 'addFault: times must be a positive integer. No operation has this method and path.',
    })
    assert.equal((await fetch(server.url + items)).status, 200)
  })

  test('S3 token makes tokens that this server accepts and no other does', async (t) => {
    const [one, other] = [await started(t, { profile: 'a' }), await started(t, { profile: 'a' })]
    const headers = { authorization: `Bearer ${await one.token({ name: 'ada' })}` }
    const response = await fetch(`${one.url}/secret`, { headers })
    assert.match(await response.text(), /^Hello ada\./)
    assert.equal((await fetch(`${other.url}/secret`, { headers })).status, 401)
  })

  const sendToken = ({ url }: TodoServer<'a'>, token: string) =>
    fetch(`${url}/secret`, { headers: { authorization: `Bearer ${token}` } })

  test('S6 a token is rejected as soon as it has expired', async (t) => {
    const server = await started(t, { profile: 'a', now: '2020-01-01T00:00:00Z' })
    for (const validForSeconds of [0, -1, -0.5, -3600]) {
      const { status, headers } = await sendToken(server, await server.token({ validForSeconds }))
      assert.deepEqual([status, headers.get('www-authenticate')], [401, expired], `${validForSeconds}`)
    }
    const signedAfter = Date.now()
    const token = await server.token({ validForSeconds: 1 })
    const signedBefore = Date.now()
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    assert.ok(1000 * exp >= signedAfter + 1000 && 1000 * exp < signedBefore + 2000, `${exp}`)
    for (;;) {
      const sentAt = Date.now()
      const { status, headers } = await sendToken(server, token)
      if (Date.now() < 1000 * exp) assert.equal(status, 200)
      if (sentAt >= 1000 * exp) assert.deepEqual([status, headers.get('www-authenticate')], [401, expired])
      if (status === 401) break
      await sleep(20)
    }
  })

  test('clockToleranceSeconds: tokens of this server are accepted for so long after they have expired', async (t) => {
    const server = await started(t, { profile: 'a', clockToleranceSeconds: 600 })
    assert.equal((await sendToken(server, await server.token({ validForSeconds: -300 }))).status, 200)
    const { status, headers } = await sendToken(server, await server.token({ validForSeconds: -601 }))
    assert.deepEqual([status, headers.get('www-authenticate')], [401, expired])
  })

  test('token rejects a time that is no finite number', async (t) => {
    const server = await started(t, { profile: 'a' })
    await assert.rejects(server.token({ validForSecond: 1 } as TokenOptions), {
      message: 'token: there is no option validForSecond: use name, roles, scopes, claims, validForSeconds.',
    })
    assert.throws(() => server.requests({ preflight: true } as JournalQuery), {
      message: 'requests: there is no option preflight: use since, limit, preflights.',
    })
    for (const validForSeconds of ['1', Number.NaN, null, 1e12])
      await assert.rejects(server.token({ validForSeconds } as TokenOptions), {
        message: 'token: validForSeconds must be a number, at most 315360000 (ten years).',
      })
  })

  test('requireAuth requires a token for the items', async (t) => {
    const server = await started(t, { profile: 'a', requireAuth: true })
    assert.equal((await fetch(server.url + items)).status, 401)
    const headers = { authorization: `Bearer ${await server.token()}` }
    assert.equal((await fetch(server.url + items, { headers })).status, 200)
  })

  test('with the same seed and now, two servers send the same responses', async (t) => {
    const conversation = async (seed: number) => {
      const { url } = await started(t, { profile: 'a', seed, now: new Date('2026-01-01T00:00:00Z') })
      const texts = []
      for (const path of ['/weatherforecast', items, `${items}/5`]) {
        const response = await fetch(url + path)
        texts.push(JSON.stringify([...response.headers]), await response.text())
      }
      return texts
    }
    const first = await conversation(1)
    assert.match(first.join(), /2026-01-02T00:00:00\.000\+00:00/)
    assert.deepEqual(await conversation(1), first)
    assert.notDeepEqual(await conversation(2), first)
  })

  test('any number of servers side by side share nothing', async (t) => {
    const servers = await Promise.all(Array.from({ length: 50 }, () => started(t, { profile: 'a' })))
    await Promise.all(
      servers.map(async (server, index) => {
        await server.putItems([{ id: index, ...dog }])
        if (index % 2 === 0) await server.addFault({ method: 'GET', code: 503 })
      }),
    )
    for (const [index, server] of servers.entries()) {
      assert.deepEqual(await server.items(), [{ id: index, ...dog }])
      assert.equal((await fetch(server.url + items)).status, index % 2 === 0 ? 503 : 200)
      assert.equal(server.requests().length, 1)
    }
  })

  test('requests leaves out CORS preflights unless asked for them', async (t) => {
    const server = await started(t, { profile: 'a' })
    const headers = { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' }
    await fetch(server.url + items, { method: 'OPTIONS', headers })
    await fetch(server.url + items, jsonBody(dog))
    const methods = (range?: { limit?: number; preflights?: boolean }) =>
      server.requests(range).map(({ method }) => method)
    assert.deepEqual(methods(), ['POST'])
    assert.deepEqual(methods({ limit: 2 }), ['POST'])
    assert.deepEqual(methods({ preflights: false }), ['POST'])
    assert.deepEqual(methods({ preflights: true }), ['OPTIONS', 'POST'])
    assert.deepEqual(
      server.requests({ preflights: true }).map(({ isPreflight }) => isPreflight),
      [true, undefined],
    )
  })

  test('space has items, ids, faults and requests of its own, those that are rejected too', async (t) => {
    const server = await started(t, { profile: 'a' })
    const [ada, bob] = [server.space('ada'), server.space('bob')]
    assert.equal(ada.url, `${server.url}/~ada`)
    for (const path of ['/missing', '/secret']) await fetch(ada.url + path)
    for (const { url } of [ada, bob])
      assert.deepEqual(await (await fetch(url + items, jsonBody(dog))).json(), { id: 1, ...dog })
    await bob.putItems([{ id: 7n, isComplete: true }])
    await ada.addFault({ method: 'GET', code: 503 })
    const headers = { authorization: `Bearer ${await ada.token({ name: 'ada' })}` }
    await fetch(ada.url + items)
    assert.equal((await fetch(`${bob.url}/secret`, { headers })).status, 200)
    assert.deepEqual(await ada.items(), [{ id: 1, ...dog }])
    assert.deepEqual(await bob.items(), [{ id: 7, name: null, isComplete: true }])
    assert.deepEqual(await server.items(), [])
    const exchanges = ({ requests }: Pick<TodoServer<'a'>, 'requests'>) =>
      requests().map(({ method, path, status }) => `${method} ${path} ${status}`)
    assert.deepEqual(exchanges(ada), ['GET /missing 404', 'GET /secret 401', `POST ${items} 201`, `GET ${items} 503`])
    assert.deepEqual(exchanges(bob), [`POST ${items} 201`, 'GET /secret 200'])
    assert.deepEqual(server.requests(), [])
    await ada.reset()
    assert.deepEqual(await ada.items(), [])
    assert.equal((await fetch(ada.url + items)).status, 200)
    assert.equal((await bob.items()).length, 1)
    assert.equal(exchanges(bob).length, 2)
    await server.reset()
    assert.equal((await bob.items()).length, 1)
  })

  test('G7 space starts as the service starts, and is the one that clients name, in this case', async (t) => {
    const server = await started(t, { profile: 'b' })
    const ada = server.space('ada')
    assert.deepEqual(await ada.items(), await server.items())
    const milk = { id: 'milk', name: 'Buy milk', notes: '2 litres', done: false }
    await ada.putItems([milk])
    assert.deepEqual(await server.space('ada').items(), [milk])
    const byHeader = await fetch(server.url + items, { headers: { 'x-todo-space': 'ada' } })
    assert.deepEqual(await byHeader.json(), [milk])
    assert.equal((await server.space('Ada').items()).length, 3)
    await fetch(`${server.url}/~eve${items}/1`, { method: 'DELETE' })
    assert.equal(server.space('eve').requests().length, 1)
  })

  test('space rejects an invalid name at once, with the sentence of the service', async (t) => {
    const server = await started(t, { profile: 'a' })
    const { title } = (await (await fetch(`${server.url}/~a.b/`)).json()) as { title: string }
    for (const name of ['', 'a.b', 'a b', '~ada', 'x'.repeat(65), undefined, 7, ['ada']])
      assert.throws(() => server.space(name as string), { message: `space: ${title}` })
    assert.equal(server.space('x'.repeat(64)).url, `${server.url}/~${'x'.repeat(64)}`)
  })

  test('of more than 1,000 spaces the least recently used is dropped, and starts again when it is used', async (t) => {
    const server = await started(t, { profile: 'a' })
    const [first, second] = [server.space('first'), server.space('second')]
    for (const one of [first, second]) await one.putItems([{ id: 1, ...dog }])
    assert.equal((await first.items()).length, 1)
    for (let count = 0; count < 999; count++) server.space(`more-${count}`)
    assert.equal((await first.items()).length, 1)
    assert.deepEqual(await second.items(), [])
    assert.deepEqual(await (await fetch(second.url + items, jsonBody(dog))).json(), { id: 1, ...dog })
    assert.equal(second.requests().length, 1)
  })

  test('a space is kept however long nobody uses it, such as at a breakpoint', async (t) => {
    const intervals = t.mock.method(globalThis, 'setInterval')
    const server = await started(t, { profile: 'a' })
    const ada = server.space('ada')
    await ada.putItems([{ id: 1, ...dog }])
    const { now } = performance
    t.mock.method(performance, 'now', () => 24 * 3_600_000 + now.call(performance))
    for (const { arguments: called } of intervals.mock.calls) called[0]()
    assert.equal((await ada.items()).length, 1)
  })

  test('after close, items, faults and requests are gone, and each member says so', async () => {
    const server = await start({ profile: 'a' })
    const ada = server.space('ada')
    await server.close()
    const closed = (member: string) => ({ message: `${member}: The server is closed.` })
    for (const one of [server, ada]) {
      await assert.rejects(one.items(), closed('items'))
      await assert.rejects(one.putItems([]), closed('putItems'))
      await assert.rejects(one.reset(), closed('reset'))
      await assert.rejects(one.addFault({ code: 503 }), closed('addFault'))
      assert.throws(() => one.requests(), closed('requests'))
    }
    assert.throws(() => server.space('eve'), closed('space'))
  })

  test('names every invalid option in one sentence', async () => {
    const invalid: [options: unknown, message: string][] = [
      [undefined, 'start: profile must be a or b.'],
      [{}, 'start: profile must be a or b.'],
      [{ profile: 'both' }, 'start: profile must be a or b, not "both".'],
      [{ profile: 'toString' }, 'start: profile must be a or b, not "toString".'],
      [
        {
          profile: 'c',
          port: 70_000,
          seed: -1,
          now: 'soon',
          requireAuth: 'maybe',
          log: true,
          clockToleranceSeconds: -1,
          prot: 1,
        },
        'start: profile must be a or b, not "c"; port must be a whole number from 0 to 65535, not "70000"; seed must be a whole number from 0 to 4294967295, not "-1"; now must be a time such as 2026-01-01T00:00:00Z, not "soon"; clockToleranceSeconds must be a whole number from 0 to 3600, not "-1"; requireAuth must be true or false; log must be a function; there is no option prot: use profile, port, seed, now, requireAuth, clockToleranceSeconds, log.',
      ],
      [
        { profile: 'a', now: new Date(Number.NaN) },
        'start: now must be a time such as 2026-01-01T00:00:00Z, not "Invalid Date".',
      ],
    ]
    for (const [options, message] of invalid)
      await assert.rejects(start(options as StartOptions<'a'>), (error: Error) => {
        assert.equal(error.message, message)
        return true
      })
  })

  test('closes at once, with idle connections, event streams and delayed requests', async (t) => {
    const server = await start({ profile: 'a' })
    const { hostname, port } = new URL(server.url)
    const agent = new Agent({ keepAlive: true })
    cleanUp(t, () => agent.destroy())
    await new Promise((received) => get(server.url, { agent }, (response) => response.resume().once('end', received)))
    await fetch(server.url)
    const unused = openSocket(Number(port), hostname)
    await once(unused, 'connect')
    const events = await fetch(`${server.url}/__admin/events`)
    await server.addFault({ path: items, delay: 60_000 })
    const delayed = fetch(server.url + items).catch((error: Error) => error)
    const isReceived = async () => (await (await fetch(`${server.url}/__admin/faults`)).text()).includes('"used":1')
    while (!(await isReceived())) await nextTurn()
    const startedAt = performance.now()
    const stopwatch = new Stopwatch()
    await Promise.all([server.close(), server[Symbol.asyncDispose]()])
    stopwatch.assertWithin(1_000, performance.now() - startedAt)
    assert.ok((await delayed) instanceof Error)
    await events.text().catch(() => {})
    await assert.rejects(fetch(server.url))
    await server.close()
  })

  test('frees its port', async (t) => {
    const server = await start({ profile: 'a' })
    const port = Number(new URL(server.url).port)
    await server[Symbol.asyncDispose]()
    const next = createServer().listen(port, '127.0.0.1')
    cleanUp(t, () => next.close())
    await once(next, 'listening')
    assert.equal((next.address() as AddressInfo).port, port)
  })

  test('writes nothing, and lets the process end after close', async (t) => {
    const stopwatch = new Stopwatch()
    const { code, stdout, stderr } = await runModule(
      t,
      `import { start } from 'PACKAGE'
      const server = await start({ profile: 'a' })
      const delayed = fetch(server.url, { headers: { prefer: 'wait=60' } }).catch(() => {})
      await fetch(server.url + '/missing', { headers: { origin: 'https://elsewhere.example' } })
      const events = await fetch(server.url + '/__admin/events')
      await server.close()
      await delayed`,
    )
    stopwatch.assertWithin(20_000)
    assert.deepEqual([code, stdout, stderr], [0, '', ''])
  })

  test('log gets a line for each request', async (t) => {
    const lines: string[] = []
    const server = await started(t, { profile: 'b', log: (line) => lines.push(line) })
    await fetch(server.url + items)
    await fetch(`${server.url}/missing`)
    assert.equal(lines.length, 2)
    assert.match(lines[0] ?? '', /^GET \/api\/todoitems 200 [\d.]+ ms \(b\)$/)
    assert.match(lines[1] ?? '', /^GET \/missing 404 /)
  })

  test('a log function that throws changes no response, and becomes a warning', async (t) => {
    const { code, stderr } = await runModule(
      t,
      `const { start } = await import('PACKAGE')
      const log = () => { throw new Error('disk full') }
      const server = await start({ profile: 'a', log })
      const item = { method: 'POST', body: '{"isComplete":true}', headers: { 'content-type': 'application/json' } }
      const statuses = []
      for (const [path, init] of [['/api/todoitems', item], ['/api/todoitems/1'], ['/missing'], ['/secret']])
        statuses.push((await fetch(server.url + path, init)).status)
      await server.close()
      if (statuses.join() !== '201,200,404,401') throw new Error(statuses.join())`,
    )
    assert.equal(code, 0, stderr)
    assert.equal(stderr.match(/Warning: start: log has thrown: Error: disk full/g)?.length, 4)
  })

  test('takes no configuration from the environment', async (t) => {
    const { code, stderr } = await runModule(
      t,
      `Object.assign(process.env, { NODE_ENV: 'production', TODO_REQUIRE_AUTH: 'true', TODO_DATABASE_URL: 'x' })
      const { start } = await import('PACKAGE')
      const server = await start({ profile: 'a' })
      const { status } = await fetch(server.url + '/api/todoitems')
      await server.close()
      if (status !== 200) throw new Error('status ' + status)`,
    )
    assert.deepEqual([code, stderr], [0, ''])
  })
})
