import assert from 'node:assert/strict'
import { type SpawnOptions, spawnSync } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cli, jsonLines, Program, run, runCommand, serve, sharedService, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { RawConnection } from '../support/raw.ts'
import { serveWith } from '../support/service.ts'

const items = '/api/todoitems'
const json = { 'content-type': 'application/json' }
const body = JSON.stringify({ name: 'x', isComplete: true })
const production = ['--mode', 'production']
const getRoot = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const post = (headers: string) =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n`

/** A response of 1.5 MB. */
const getLarge = 'GET /swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n'

test('health checks get 200 without a token and without a redirect', async (t) => {
  const { url } = await serve(t, [...production, '--https-redirect-port', '443', '--require-auth'])
  for (const [path, text] of [
    ['/health/live', 'live'],
    ['/health/ready', 'ready'],
  ]) {
    const response = await fetch(`${url}${path}`, { redirect: 'manual' })
    assert.deepEqual([response.status, await response.text()], [200, text])
  }
  assert.equal((await fetch(`${url}/`, { redirect: 'manual' })).status, 307)
})

suite('failures of the process', { skip: process.platform === 'win32' && 'needs signals', concurrency: true }, () => {
  for (const [mode, kind, statement] of [
    ['production', 'exception', `throw new Error('boom')`],
    ['development', 'rejection', `Promise.reject(new Error('boom'))`],
  ] as const)
    test(`an uncaught ${kind} is logged as one line, exit code 1: ${mode}`, async (t) => {
      const file = join(temporaryFolder(t), 'on-signal.cjs')
      writeFileSync(file, `process.on('SIGUSR2', () => { ${statement} })`)
      const { running } = await serve(t, ['--mode', mode], { NODE_OPTIONS: `--require=${file}` })
      await running.prints(/lost when the service stops[\s\S]*\n$/)
      const before = running.stdout
      running.process.kill('SIGUSR2')
      const { code, stdout, stderr } = await running.ended
      assert.equal(code, 1)
      const [line = '', ...more] = stdout.slice(before.length).trim().split('\n')
      assert.match(line, /Uncaught exception, exiting.*boom/)
      assert.deepEqual([more, stderr], [[], ''])
    })

  test('a full disk under the log does not stop the service', {
    skip: process.platform !== 'linux' && 'needs /dev/full',
  }, async (t) => {
    const port = await freePort()
    const args = [cli, 'serve', '--profile', 'a', '--port', `${port}`, '--host', '127.0.0.1']
    const options: SpawnOptions = { stdio: ['ignore', openSync('/dev/full', 'w'), 'ignore'] }
    const { process: service, ended } = new Program(t, process.execPath, args, options, true)
    const getStatus = async () => (await fetch(`http://127.0.0.1:${port}/`)).status
    while ((await getStatus().catch(() => 0)) !== 200) {
      assert.equal(service.exitCode, null)
      await sleep(20)
    }
    for (let count = 0; count < 20; count++) assert.equal(await getStatus(), 200)
    service.kill('SIGTERM')
    assert.equal((await ended).code, 0)
  })
})

suite('slow clients', { concurrency: true }, () => {
  test('are disconnected: in the head, in the body, between requests, and when they read nothing', async (t) => {
    const { url, port } = await serveWith(t, ['--keep-alive-timeout', '3'], ({ limits }) => ({
      limits: { ...limits, headersTimeoutMs: 1_000, requestTimeoutMs: 1_000, stalledTimeoutMs: 1_000 },
    }))
    const incompleteHead = new RawConnection(t, port)
    incompleteHead.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\nX: `)
    const incompleteBody = new RawConnection(t, port)
    incompleteBody.socket.write(`${post('Content-Length: 9\r\n')}{`)
    const silent = new RawConnection(t, port)
    const idle = new RawConnection(t, port)
    idle.socket.write(getRoot)
    const stalled = new RawConnection(t, port)
    stalled.socket.pause()
    stalled.socket.write(getLarge.repeat(15))
    await Promise.all([incompleteHead, incompleteBody, silent, idle].map(({ closed }) => closed))
    assert.deepEqual([incompleteHead.statuses, incompleteBody.statuses, idle.statuses], [[408], [408], [200]])
    stalled.socket.resume()
    await stalled.closed
    assert.ok(stalled.received.length < 20_000_000)
    assert.equal((await fetch(`${url}/`)).status, 200)
  })

  for (const [what, flag, sent] of [
    ['send nothing', '--keep-alive-timeout', ''],
    ['send a part of a request', '--request-timeout', 'GET / HTTP/1.1\r\nHo'],
  ] as const)
    test(`that ${what} stay connected for as long as ${flag} says, whenever they come`, async (t) => {
      const { port } = await serve(t, [flag, '1'])
      await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          await sleep(100 * index)
          const connectedAt = performance.now()
          const client = new RawConnection(t, port)
          client.socket.write(sent)
          await client.closed
          const openMs = performance.now() - connectedAt
          assert.ok(openMs >= 1_000, `client ${index}: ${openMs} ms`)
        }),
      )
    })

  test('that read a part of their responses now and then get all of them', async (t) => {
    const { port } = await serveWith(t, [], ({ limits }) => ({ limits: { ...limits, stalledTimeoutMs: 2_000 } }))
    const slow = new RawConnection(t, port)
    let pauseAt = 2_000_000
    slow.socket.on('data', () => {
      if (slow.received.length < pauseAt) return
      pauseAt += 2_000_000
      slow.socket.pause()
      setTimeout(() => slow.socket.resume(), 300)
    })
    slow.socket.write(`${getLarge.repeat(15)}${getRoot.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`)
    await slow.closed
    assert.equal(slow.statuses.length, 16)
    assert.ok(slow.received.length > 20_000_000, `${slow.received.length} bytes`)
  })

  test('without a TLS handshake are disconnected', async (t) => {
    const { httpsPort } = await serveWith(t, ['--https-port', '0'], ({ limits }) => ({
      limits: { ...limits, headersTimeoutMs: 1_000 },
    }))
    const silent = new RawConnection(t, httpsPort)
    const incomplete = new RawConnection(t, httpsPort)
    incomplete.socket.write('\x16\x03\x01\x01')
    await Promise.all([silent.closed, incomplete.closed])
  })

  test('without a TLS handshake, 1,100 of them, do not keep others from connecting', async (t) => {
    const { running } = await serve(t, ['--https-port', '0'])
    const [, port] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
    const silent = Array.from({ length: 1_100 }, () => new RawConnection(t, Number(port)))
    await Promise.all(silent.map(({ socket }) => new Promise((connected) => socket.once('connect', connected))))
    const status = await new Promise((resolve, reject) =>
      get({ port, path: '/weatherforecast', rejectUnauthorized: false, agent: false }, (response) => {
        response.resume()
        resolve(response.statusCode)
      }).on('error', reject),
    )
    assert.equal(status, 200)
  })
})

suite('limits', { concurrency: true }, () => {
  test('--max-items: POST gets 503 with Retry-After in profile A; items can be read and deleted', async (t) => {
    const { url } = await serve(t, ['--max-items', '1', '--no-https'])
    const create = () => fetch(`${url}${items}`, { method: 'POST', headers: json, body })
    assert.equal((await create()).status, 201)
    const full = await create()
    assert.deepEqual([full.status, full.headers.get('retry-after')], [503, '1'])
    assert.equal((await fetch(`${url}${items}/1`)).status, 200)
    assert.equal((await fetch(`${url}${items}/1`, { method: 'DELETE' })).status, 204)
    assert.equal((await create()).status, 201)
  })

  test('B6 --max-items: POST gets CouldNotCreateItem in profile B', async (t) => {
    const { url } = await serve(t, ['--max-items', '3', '--no-https'], {}, 'b')
    const item = JSON.stringify({ id: 'x', name: 'x', notes: 'x' })
    const response = await fetch(`${url}${items}`, { method: 'POST', headers: json, body: item })
    assert.deepEqual([response.status, await response.text()], [400, 'CouldNotCreateItem'])
  })

  test('A15 --max-memory: POST and a larger PUT get 503; reads, smaller PUTs and DELETE go on, and make room', async (t) => {
    const { url } = await serve(t, ['--max-memory', '64k', '--no-https'])
    const send = async (method: string, path: string, name?: string) => {
      const id = Number(path.slice(1))
      const body = name === undefined ? null : JSON.stringify({ id, name, isComplete: false })
      const response = await fetch(`${url}${items}${path}`, { method, headers: json, body })
      await response.text()
      return response.status
    }
    const large = 'x'.repeat(15_000)
    for (let count = 0; count < 4; count++) assert.equal(await send('POST', '', large), 201)
    assert.equal(await send('POST', '', large), 503)
    assert.equal(await send('PUT', '/1', `${large}${large}`), 503)
    assert.equal(((await (await fetch(`${url}${items}/1`)).json()) as { name: string }).name, large)
    assert.equal(await send('PUT', '/1', 'small'), 204)
    assert.equal(await send('PUT', '/2', `${large}${'x'.repeat(10_000)}`), 204)
    assert.equal(await send('DELETE', '/2'), 204)
    assert.equal(await send('POST', '', large), 201)
  })

  test('B6 --max-memory: POST gets CouldNotCreateItem and PUT CouldNotUpdateItem in profile B', async (t) => {
    const { url } = await serve(t, ['--max-memory', '64k', '--no-https'], {}, 'b')
    const send = async (method: string, notes: string) => {
      const body = JSON.stringify({ id: method, name: 'x', notes })
      const response = await fetch(`${url}${items}`, { method, headers: json, body })
      return [response.status, await response.text()]
    }
    assert.deepEqual(await send('POST', 'x'.repeat(80_000)), [400, 'CouldNotCreateItem'])
    const stored = JSON.stringify({ id: 'PUT', name: 'x', notes: 'x' })
    assert.equal((await fetch(`${url}${items}`, { method: 'POST', headers: json, body: stored })).status, 200)
    assert.deepEqual(await send('PUT', 'x'.repeat(80_000)), [400, 'CouldNotUpdateItem'])
    assert.match(await (await fetch(`${url}${items}`)).text(), /"id":"PUT","name":"x","notes":"x"/)
  })

  test('--max-connections counts the connections of all ports', async (t) => {
    const metricsPort = await freePort()
    const { running, port } = await serve(t, [
      '--max-connections',
      '1',
      '--https-port',
      '0',
      '--metrics-port',
      `${metricsPort}`,
    ])
    const [, httpsPort] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
    const first = new RawConnection(t, port)
    first.socket.write(getRoot)
    assert.deepEqual(await first.responses(1), [200])
    const response = await new Promise<IncomingMessage>((resolve, reject) =>
      get({ host: '127.0.0.1', port: httpsPort, rejectUnauthorized: false }, resolve).on('error', reject),
    )
    assert.equal(response.resume().statusCode, 503)
  })

  test('--max-connections: a connection beyond gets 503 and is closed, until another one closes', async (t) => {
    const { url, port } = await serve(t, ['--max-connections', '2'])
    const [first, second, third] = [new RawConnection(t, port), new RawConnection(t, port), new RawConnection(t, port)]
    for (const raw of [first, second]) {
      raw.socket.write(getRoot)
      assert.deepEqual(await raw.responses(1), [200])
    }
    third.socket.write(getRoot)
    await third.closed
    assert.deepEqual(third.statuses, [503])
    assert.match(third.received, /retry-after: 1/i)
    first.socket.destroy()
    let status = 503
    while (status === 503) status = (await fetch(`${url}/`, { headers: { connection: 'close' } })).status
    assert.equal(status, 200)
  })

  test('--rate-limit: 429 for a client, known by X-Forwarded-For with --trust-proxy, but not for health checks', async (t) => {
    const { port } = await serve(t, ['--rate-limit', '2/s', '--trust-proxy', '1'])
    const raw = new RawConnection(t, port)
    const request = (client: string, path = '/') =>
      `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${client}\r\n\r\n`
    raw.socket.write(request('10.0.0.1').repeat(4) + request('10.0.0.2') + request('10.0.0.1', '/health/live'))
    assert.deepEqual(await raw.responses(6), [200, 200, 429, 429, 200, 200])
  })
})

const curlMissing = spawnSync('curl', ['--version']).status !== 0 && 'curl is not on the PATH'

suite('A14 curl gets 413 for a body over the limit', { skip: curlMissing, concurrency: true }, () => {
  const service = sharedService([])
  for (const megabytes of [2, 20])
    for (const [name, headers] of [
      ['with Expect: 100-continue', []],
      ['without Expect', ['-H', 'Expect:']],
    ] as const)
      test(`${megabytes} MiB ${name}`, async (t) => {
        const file = join(temporaryFolder(t), 'body')
        writeFileSync(file, Buffer.alloc(megabytes * 2 ** 20, 'x'))
        const args = [
          '-s',
          '-o',
          join(temporaryFolder(t), 'response'),
          '-w',
          '%{http_code}',
          '--data-binary',
          `@${file}`,
        ]
        const type = ['-H', 'Content-Type: application/json']
        const { code, stdout } = await runCommand(t, 'curl', [...args, ...type, ...headers, `${service.url}${items}`])
        assert.deepEqual([stdout, code], ['413', 0])
      })
})

suite('response headers', () => {
  const service = sharedService([])

  test('are those that the document describes, besides those of HTTP', async () => {
    const { headers } = await fetch(`${service.url}${items}`)
    const ofHttp = ['connection', 'content-length', 'content-type', 'date', 'vary']
    assert.deepEqual(
      [...headers.keys()].filter((name) => !ofHttp.includes(name)),
      ['etag'],
    )
  })

  test('forbid caching of what needs a token', async () => {
    for (const path of ['/secret', '/swagger/v1/swagger.json'])
      assert.equal((await fetch(`${service.url}${path}`)).headers.get('cache-control'), 'no-store')
  })

  test('A13 traceId is the trace id of traceparent, or a new one where that is invalid', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
    const traceIdFor = async (traceparent: string) => {
      const response = await fetch(`${service.url}/nothing`, { headers: { traceparent } })
      return ((await response.json()) as { traceId: string }).traceId
    }
    assert.equal(await traceIdFor(`00-${trace}-00f067aa0ba902b7-01`), trace)
    for (const invalid of ['', 'x', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, `ff-${trace}-00f067aa0ba902b7-01`]) {
      const traceId = await traceIdFor(invalid)
      assert.match(traceId, /^[\da-f]{32}$/)
      assert.notEqual(traceId, trace)
    }
  })
})

/** The origin that a cross-origin request from `origin` is told that it may read the response, and the other headers. */
async function corsHeaders(url: string, origin: string) {
  const { headers } = await fetch(`${url}${items}`, { headers: { origin } })
  return [headers.get('access-control-allow-origin'), headers.get('access-control-allow-credentials')]
}

suite('cross-origin requests', { concurrency: true }, () => {
  const loopback = ['http://localhost:5173', 'https://127.0.0.1:8443', 'http://[::1]:3000', 'capacitor://localhost']
  const others = ['https://app.example.com', 'http://localhost.example.com', 'http://example.com:5173', 'null']

  test('are allowed from loopback origins in development', async (t) => {
    const { url, running } = await serve(t, [])
    for (const origin of loopback) assert.deepEqual(await corsHeaders(url, origin), [origin, null])
    for (const origin of others) assert.deepEqual(await corsHeaders(url, origin), [null, null])
    await corsHeaders(url, url)
    running.process.kill('SIGTERM')
    const { stdout } = await running.ended
    // The line of the request says it, and nothing else does.
    const said = stdout.match(/.*Pages from https:\/\/app\.example\.com may not .*/g)
    assert.equal(said?.length, 1)
    assert.match(`${said}`, /^GET \/api\/todoitems 200 .*--cors https:\/\/app\.example\.com would allow them\.$/)
    assert.doesNotMatch(stdout, /Pages from http:\/\/(?:localhost:|127)/)
  })

  test('are allowed from no origin in production, nor in development with --cors none', async (t) => {
    // Where requests are not recorded, each origin is reported once.
    for (const [args, reports] of [
      [['--mode', 'production'], 1],
      [['--cors', 'none', '--no-admin'], 1],
      [['--cors', 'none'], 2],
    ] as const) {
      const { url, running } = await serve(t, args)
      for (const origin of [...loopback, ...others]) assert.deepEqual(await corsHeaders(url, origin), [null, null])
      await corsHeaders(url, 'https://app.example.com')
      running.process.kill('SIGTERM')
      const { stdout } = await running.ended
      assert.equal(stdout.match(/Pages from https:\/\/app\.example\.com may not/g)?.length, reports, `${args}`)
    }
  })

  test('are allowed from any origin with --cors *', async (t) => {
    const { url } = await serve(t, ['--cors', '*'])
    for (const origin of [...loopback, ...others]) assert.deepEqual(await corsHeaders(url, origin), ['*', null])
  })

  test('--cors rejects * or none beside origins', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--cors', 'none', '--cors', 'http://x'])
    assert.equal(code, 2)
    assert.match(stderr, /--cors must be origins, or \* or none alone\./)
  })
})

suite('response headers with --cors and --hsts', () => {
  const origins = ['--cors', 'https://app.example.com', '--cors', 'http://localhost:3000']
  const service = sharedService([...origins, '--hsts', '--trust-proxy', '1'])

  test('allow the listed origins and no others', async () => {
    const send = (origin: string, method = 'GET', headers = {}) =>
      fetch(`${service.url}${items}`, { method, headers: { origin, ...headers } })
    const allowed = await send('https://app.example.com')
    assert.equal(allowed.headers.get('access-control-allow-origin'), 'https://app.example.com')
    assert.match(allowed.headers.get('access-control-expose-headers') ?? '', /Location/)
    assert.equal(allowed.headers.get('vary'), 'Origin')
    const other = await send('https://evil.example.com')
    assert.equal(other.headers.get('access-control-allow-origin'), null)
    const preflight = await send('http://localhost:3000', 'OPTIONS', { 'access-control-request-method': 'POST' })
    assert.equal(preflight.status, 204)
    assert.match(preflight.headers.get('access-control-allow-methods') ?? '', /POST/)
    assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /Content-Type/)
    assert.equal(preflight.headers.get('access-control-allow-credentials'), null)
  })

  test('S5 of the pages and their files never allow another origin: the page has a token', async (t) => {
    const { url } = await serve(t, ['--cors', '*'])
    for (const base of [service.url, url])
      for (const path of ['/swagger', '/swagger/index.html', '/swagger/page.js', '/app', '/app/app.js'])
        for (const method of ['GET', 'OPTIONS']) {
          const headers = { origin: 'http://localhost:3000', 'access-control-request-method': 'GET' }
          const response = await fetch(`${base}${path}`, { method, headers, redirect: 'manual' })
          const names = [...response.headers.keys()].filter((name) => name.startsWith('access-control'))
          assert.deepEqual(names, [], `${method} ${path}`)
        }
  })

  test('have Strict-Transport-Security over HTTPS only', async () => {
    const hstsOver = async (scheme: string) => {
      const { headers } = await fetch(`${service.url}/`, { headers: { 'x-forwarded-proto': scheme } })
      return headers.get('strict-transport-security')
    }
    assert.deepEqual([await hstsOver('http'), await hstsOver('https')], [null, 'max-age=31536000'])
  })
})

suite('log', { concurrency: true }, () => {
  test('says why a request was rejected, with its trace id', async (t) => {
    const { running, url } = await serve(t, ['--max-items', '4', '--rate-limit', '9/s', '--no-https'], {}, 'b')
    const send = (body: string, headers: Record<string, string> = json) =>
      fetch(`${url}${items}`, { method: 'POST', headers, body })
    await send('{"id":"1","name":" "}')
    await running.prints(/ 400 .* ms \(b, trace [\da-f]{32}\): name must not be blank\. notes is missing\.\n/)
    await send('{"Id":"1","Name":"x","Notes":"x"}')
    await running.prints(/id is missing\..* Names are camelCase: send id, not Id\.\n/)
    await send('{}', { 'content-type': 'text/plain' })
    await running.prints(
      / 400 .*: The body must be sent as application\/json in UTF-8: the Content-Type was text\/plain\.\n/,
    )
    for (const id of [1, 2]) await send(JSON.stringify({ id: `${id}`, name: 'x', notes: 'x' }))
    await running.prints(/ 400 .*: There is no room for more items: .*--max-items/)
    while ((await fetch(url)).status !== 429);
    await running.prints(/ 429 .*127\.0\.0\.1 .*--rate-limit/)
  })

  test('A13 has the traceId of a problem', async (t) => {
    const { running, url } = await serve(t, [])
    const { traceId } = (await (await fetch(`${url}${items}/1`)).json()) as { traceId: string }
    await running.prints(new RegExp(`GET ${items}/1 404 .* ms \\(a, trace ${traceId}\\): No item has this id\\.\n`))
  })

  test('has JSON lines alone on standard output; a warning of Node is on standard error', async (t) => {
    const file = join(temporaryFolder(t), 'warn.cjs')
    writeFileSync(file, "process.on('SIGUSR2', () => process.emitWarning('beware', 'TestWarning'))")
    const { running, url } = await serve(t, ['--mode', 'production'], { NODE_OPTIONS: `--require ${file}` })
    running.process.kill('SIGUSR2')
    await fetch(url)
    running.process.kill('SIGTERM')
    const { stdout, stderr } = await running.ended
    assert.match(stderr, /TestWarning: beware/)
    for (const line of jsonLines(stdout)) assert.equal(typeof line.message, 'string')
  })

  test('has the address of the client in production, with --trust-proxy the one that the proxy reports', async (t) => {
    for (const [flags, client] of [
      [[], '127.0.0.1'],
      [['--trust-proxy', '1'], '192.0.2.7'],
    ] as const) {
      // Without --host, IPv4 addresses are mapped ones: ::ffff:127.0.0.1.
      const running = start(t, [
        'serve',
        '--profile',
        'a',
        '--port',
        '0',
        ...production,
        '--log-level',
        'warn',
        ...flags,
      ])
      const [, port] = await running.prints(/http:\/\/\S+?:(\d+)"/)
      const raw = new RawConnection(t, Number(port))
      raw.socket.write('GET /x HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n')
      assert.deepEqual(await raw.responses(1), [404])
      const [, address] = await running.prints(/"message":"request".*"client":"(.*?)"/)
      assert.equal(address, client)
    }
  })

  test('names the address of the metrics at the start', async (t) => {
    const { running } = await serve(t, ['--metrics-port', '0'])
    const [, url = ''] = await running.prints(/Metrics: (http:\/\/127\.0\.0\.1:\d+\/metrics)\n/)
    assert.equal((await fetch(url)).status, 200)
  })

  test('has incomplete and malformed requests, which metrics count, too', async (t) => {
    const metricsPort = await freePort()
    const { running, port } = await serve(t, ['--request-timeout', '1', '--metrics-port', `${metricsPort}`])
    await Promise.all(
      [
        `${post('Content-Length: 9\r\n')}{`,
        post('Content-Length: 99999999\r\n'),
        `${post('Transfer-Encoding: chunked\r\n')}zz\r\n`,
        'GET / HTTP/1.1\r\nHost: canary\x01\r\n\r\n',
        'GET / HTTP/1.1\r\nX',
        `GET / HTTP/1.1\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`,
        'BREW /canary HTTP/1.1\r\nHost: x\r\n\r\n',
        'CONNECT canary:1 HTTP/1.1\r\nHost: x\r\n\r\n',
      ].map(async (request) => {
        const raw = new RawConnection(t, port)
        raw.socket.write(request)
        await raw.closed
      }),
    )
    for (const line of [
      `POST ${items} 408 [\\d.]+ ms \\(a, trace \\w+\\): The request was not received in time\\.`,
      `POST ${items} 413 [\\d.]+ ms \\(a, trace \\w+\\): The body is too large\\.`,
      `POST ${items} 400 [\\d.]+ ms \\(a, trace \\w+\\): The request is malformed or incomplete\\.`,
      'Malformed request: 400 \\(a\\): Invalid header value char',
      'Malformed request: 408 \\(a\\): the request was not received in time',
      'Malformed request: 431 \\(a\\): Header overflow',
      'Malformed request: 400 \\(a\\): Invalid method encountered',
    ])
      await running.prints(new RegExp(`^${line}\n`, 'm'))
    assert.doesNotMatch(running.stdout, /canary/)
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    assert.match(text, /todo_requests_total\{profile="a",operation="createItem",method="POST",status="408"\} 1/)
    assert.match(text, /todo_requests_total\{profile="a",operation="none",method="other",status="431"\} 1/)
  })

  test('has no tokens, keys or bodies; a path cannot forge a line', async (t) => {
    const key = Buffer.from('canary-key-canary-key-canary-key-1').toString('base64')
    const { running, url } = await serve(t, ['--log-level', 'info'], {
      TODO_JWT_KEY: key,
      TODO_JWT_ISSUER: 'i',
      TODO_JWT_AUDIENCE: 'a',
    })
    await fetch(`${url}/secret`, { headers: { authorization: 'Bearer canary.token.value' } })
    await fetch(`${url}${items}`, { method: 'POST', headers: json, body: '{"name":"canary-name"' })
    await fetch(`${url}/%0aforged%1b[31m`)
    await running.prints(/forged.*\n/)
    assert.match(running.stdout, /GET \/%0aforged%1b\[31m 404/)
    assert.doesNotMatch(running.stdout + running.stderr, /canary|^forged/m)
    assert.doesNotMatch(running.stdout, new RegExp(key))
  })

  test('has one JSON object per line in production', async (t) => {
    const { running, url } = await serve(t, [...production, '--log-level', 'info', '--drain-delay', '0'])
    await fetch(`${url}/%0a%22forged%22`)
    running.process.kill('SIGTERM')
    const { stdout } = await running.ended
    assert.deepEqual(
      jsonLines(stdout).map(({ message }) => message),
      [
        'started',
        'The items are in memory: lost when the service stops. Set --data or --database-url to keep them.',
        'request',
        'stopped',
      ],
    )
  })
})

test('metrics have their own port, and no labels from clients', async (t) => {
  const port = await freePort()
  const { url } = await serve(t, ['--metrics-port', `${port}`])
  await fetch(`${url}${items}`, { method: 'POST', headers: json, body })
  await fetch(`${url}/canary-path?canary=1`)
  assert.equal((await fetch(`${url}/metrics`)).status, 404)
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  assert.match(text, /todo_requests_total\{profile="a",operation="createItem",method="POST",status="201"\} 1/)
  assert.match(text, /todo_requests_total\{profile="a",operation="none",method="GET",status="404"\} 2/)
  assert.match(text, /todo_items\{profile="a"\} 1/)
  assert.match(text, /todo_store_duration_seconds_count\{profile="a",operation="create",result="success"\} 1/)
  assert.match(text, /todo_request_duration_seconds_bucket/)
  assert.match(text, /nodejs_eventloop_lag_seconds/)
  assert.match(text, /process_resident_memory_bytes/)
  assert.doesNotMatch(text, /canary/)
})

test('rejects invalid values of flags with exit code 2', async (t) => {
  const flags = ['--rate-limit', '5', '--cors', 'x', '--metrics-host', 'x', '--drain-delay', '-1']
  const { code, stderr } = await run(t, ['serve', ...flags])
  assert.equal(code, 2)
  for (const problem of [
    '--rate-limit must be',
    '--cors must be',
    '--metrics-host needs --metrics-port',
    '--drain-delay',
  ])
    assert.match(stderr, new RegExp(problem))
})
