import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { get } from 'node:https'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { cli, jsonLines, run, serve, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { Raw } from '../support/raw.ts'

const items = '/api/todoitems'
const json = { 'content-type': 'application/json' }
const body = JSON.stringify({ name: 'x', isComplete: true })

const production = ['--mode', 'production']

suite('health', () => {
  test('a balancer is told, without a token and without a redirect', async (t) => {
    const { url } = await serve(t, [...production, '--https-redirect-port', '443', '--require-auth'])
    for (const [path, text] of [
      ['/health/live', 'live'],
      ['/health/ready', 'ready'],
    ]) {
      const answer = await fetch(`${url}${path}`, { redirect: 'manual' })
      assert.deepEqual([answer.status, await answer.text()], [200, text])
    }
    assert.equal((await fetch(`${url}/`, { redirect: 'manual' })).status, 307)
  })

  test('a stop: not ready at once, answers end their connections, what is in flight is answered, exit 0', async (t) => {
    const { running, url, port } = await serve(t, [...production, '--drain-delay', '1'])
    const half = new Raw(t, port)
    half.socket.write(
      `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    const idle = new Agent({ keepAlive: true, maxSockets: 1 })
    t.after(() => idle.destroy())
    await ask(idle, `${url}/health/ready`)
    running.process.kill('SIGTERM')
    let answer = await ask(idle, `${url}/health/ready`)
    while (answer.status === 200) answer = await ask(idle, `${url}/health/ready`)
    assert.deepEqual([answer.status, answer.text, answer.connection], [503, 'stopping', 'close'])
    assert.equal((await ask(idle, `${url}${items}`)).status, 200)
    half.socket.write(body)
    assert.deepEqual(await half.answers(1), [201])
    assert.match(half.received, /connection: close/i)
    assert.equal((await running.ended).code, 0)
  })

  test('a second signal ends it at once, with exit code 1', async (t) => {
    const { running, port } = await serve(t, [...production, '--drain-delay', '60'])
    const half = new Raw(t, port)
    half.socket.write(`POST ${items} HTTP/1.1\r\nHost: x\r\n`)
    running.process.kill('SIGTERM')
    running.process.kill('SIGINT')
    assert.equal((await running.ended).code, 1)
  })
})

function ask(agent: Agent, url: string): Promise<{ status: number; text: string; connection: string | undefined }> {
  return new Promise((resolve, reject) => {
    request(url, { agent }, (incoming) => {
      let text = ''
      incoming.on('data', (data) => {
        text += data
      })
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode ?? 0, text, connection: incoming.headers.connection }),
      )
    })
      .on('error', reject)
      .end()
  })
}

suite('a stop under load', () => {
  for (const delay of ['0', '1'])
    test(`no client on an open connection sees a failure: --drain-delay ${delay}`, async (t) => {
      const { running, url } = await serve(t, [...production, '--drain-delay', delay])
      let answers = 0
      const client = async () => {
        const agent = new Agent({ keepAlive: true, maxSockets: 1 })
        for (;;) {
          const { status, connection } = await ask(agent, `${url}${items}`)
          assert.equal(status, 200)
          answers++
          if (connection === 'close') return agent.destroy()
        }
      }
      const clients = Promise.all(Array.from({ length: 20 }, client))
      while (answers < 1_000) await new Promise((next) => setImmediate(next))
      running.process.kill('SIGTERM')
      await clients
      assert.equal((await running.ended).code, 0)
    })
})

test('a stop lets a slow client take its whole answer', async (t) => {
  const { running, url, port } = await serve(t, [...production, '--drain-delay', '0'])
  const text = JSON.stringify({ name: 'x'.repeat(900_000), isComplete: true })
  for (let at = 0; at < 10; at++)
    await (await fetch(`${url}${items}`, { method: 'POST', headers: json, body: text })).text()
  const slow = new Raw(t, port)
  slow.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await slow.answers(1)
  slow.socket.pause()
  const idle = new Raw(t, port)
  idle.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await idle.answers(1)
  running.process.kill('SIGTERM')
  await idle.closed
  slow.socket.resume()
  await slow.closed
  assert.ok(slow.received.length > 9_000_000, `${slow.received.length} bytes`)
  assert.equal((await running.ended).code, 0)
})

/** Code that runs in the service when it gets SIGUSR2. */
function onSignal(t: TestContext, code: string): NodeJS.ProcessEnv {
  const file = join(temporaryFolder(t), 'on-signal.cjs')
  writeFileSync(file, `process.on('SIGUSR2', () => { ${code} })`)
  return { NODE_OPTIONS: `--require=${file}` }
}

suite('what goes wrong inside', { skip: process.platform === 'win32' }, () => {
  test('a process that is late: 503 with Retry-After, B its code, then normal again', {
    timeout: 40_000,
  }, async (t) => {
    const late = onSignal(t, 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)')
    const { running, url } = await serve(t, production, late)
    const other = start(t, ['serve', '--profile', 'b', '--port', '0', '--no-https'], late)
    const [urlOfB] = await other.prints(/http:\/\/localhost:\d+/)
    const list = async () => {
      const answer = await fetch(`${url}${items}`)
      await answer.text()
      return [answer.status, answer.headers.get('retry-after')]
    }
    let answer: unknown[] = [200]
    while (answer[0] === 200) {
      running.process.kill('SIGUSR2')
      answer = await list()
    }
    assert.deepEqual(answer, [503, '1'])
    while (answer[0] === 503) answer = await list()
    assert.equal(answer[0], 200)
    const remove = async () => (await fetch(`${urlOfB}${items}/x`, { method: 'DELETE' })).text()
    let code = 'RecordNotFound'
    while (code === 'RecordNotFound') {
      other.process.kill('SIGUSR2')
      code = await remove()
    }
    assert.equal(code, 'CouldNotDeleteItem')
    while (code === 'CouldNotDeleteItem') code = await remove()
    assert.equal(code, 'RecordNotFound')
  })

  for (const [mode, code] of [
    ['production', `throw new Error('boom')`],
    ['development', `Promise.reject(new Error('boom'))`],
  ] as const)
    test(`what nobody caught is one line in the log, and exit code 1: ${mode}`, async (t) => {
      const { running } = await serve(t, ['--mode', mode], onSignal(t, code))
      const before = running.stdout
      running.process.kill('SIGUSR2')
      const ended = await running.ended
      assert.equal(ended.code, 1)
      const [line = '', ...more] = ended.stdout.slice(before.length).trim().split('\n')
      assert.match(line, /The service cannot go on.*boom/)
      assert.deepEqual([more, ended.stderr], [[], ''])
    })

  test('a disk that is full does not stop the service', { skip: process.platform !== 'linux' }, async (t) => {
    const port = await freePort()
    const log = openSync('/dev/full', 'w')
    const service = spawn(
      process.execPath,
      [cli, 'serve', '--profile', 'a', '--port', `${port}`, '--host', '127.0.0.1'],
      {
        stdio: ['ignore', log, 'ignore'],
      },
    )
    const ended = once(service, 'exit')
    t.after(() => service.kill('SIGKILL'))
    const ask = () => fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)
    while (!(await ask()) && service.exitCode === null);
    for (let at = 0; at < 20; at++) assert.equal((await ask())?.status, 200)
    service.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  })
})

suite('clients that take their time', () => {
  test('are cut off: in the head, in the body, between requests, and when they take nothing', async (t) => {
    const timeouts = ['header', 'request', 'stalled'].flatMap((name) => [`--${name}-timeout`, '1'])
    const { url, port } = await serve(t, [...production, ...timeouts, '--keep-alive-timeout', '3'])
    for (let at = 0; at < 40; at++)
      await fetch(`${url}${items}`, {
        method: 'POST',
        headers: json,
        body: JSON.stringify({ name: 'x'.repeat(500_000), isComplete: true }),
      })
    const head = new Raw(t, port)
    head.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\nX: `)
    const half = new Raw(t, port)
    half.socket.write(
      `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
    )
    const silent = new Raw(t, port)
    const idle = new Raw(t, port)
    idle.socket.write(`GET / HTTP/1.1\r\nHost: x\r\n\r\n`)
    const stalled = new Raw(t, port)
    stalled.socket.pause()
    stalled.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await Promise.all([head.closed, half.closed, silent.closed, idle.closed])
    assert.deepEqual([head.statuses, half.statuses, idle.statuses], [[408], [408], [200]])
    stalled.socket.resume()
    await stalled.closed
    assert.ok(stalled.received.length < 20_000_000)
    assert.equal((await fetch(`${url}/`)).status, 200)
  })
})

suite('clients that never shake hands', () => {
  test('do not keep others out of the HTTPS port', async (t) => {
    const { running } = await serve(t, ['--https-port', '0'])
    const [, port] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
    const silent = Array.from({ length: 1_100 }, () => new Raw(t, Number(port)))
    await Promise.all(silent.map(({ socket }) => new Promise((connected) => socket.once('connect', connected))))
    const status = await new Promise((answered, failed) =>
      get({ port, path: '/weatherforecast', rejectUnauthorized: false }, (answer) => answered(answer.statusCode)).on(
        'error',
        failed,
      ),
    )
    assert.equal(status, 200)
  })

  test('are cut off on the HTTPS port, and do not hold up a stop', async (t) => {
    const { running } = await serve(t, ['--https-port', '0', '--header-timeout', '1'])
    const [, port] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
    const silent = new Raw(t, Number(port))
    const begun = new Raw(t, Number(port))
    begun.socket.write('\x16\x03\x01\x01')
    await Promise.all([silent.closed, begun.closed])
    const late = new Raw(t, Number(port))
    await new Promise((connected) => late.socket.once('connect', connected))
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })
})

suite('clients that are slow but fair', () => {
  test('get the whole of a long list, however long they take', async (t) => {
    const { url, port } = await serve(t, ['--stalled-timeout', '1'])
    const name = 'x'.repeat(900_000)
    const text = JSON.stringify({ name, isComplete: true })
    for (let at = 0; at < 10; at++) await fetch(`${url}${items}`, { method: 'POST', headers: json, body: text })
    const slow = new Raw(t, port)
    slow.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    const reading = setInterval(() => {
      slow.socket.resume()
      setTimeout(() => slow.socket.pause(), 5)
    }, 60)
    await slow.closed
    clearInterval(reading)
    assert.equal(slow.received.length > 9_000_000, true, `${slow.received.length} bytes`)
  })
})

suite('limits', () => {
  test('more items than there is room for: A 503, B its code; what is there can be read and deleted', async (t) => {
    const { url } = await serve(t, ['--max-items', '1', '--no-https'])
    const create = () => fetch(`${url}${items}`, { method: 'POST', headers: json, body })
    assert.equal((await create()).status, 201)
    const full = await create()
    assert.deepEqual([full.status, full.headers.get('retry-after')], [503, '1'])
    assert.equal((await fetch(`${url}${items}/1`)).status, 200)
    assert.equal((await fetch(`${url}${items}/1`, { method: 'DELETE' })).status, 204)
    assert.equal((await create()).status, 201)
    const other = start(t, ['serve', '--profile', 'b', '--port', '0', '--max-items', '3', '--no-https'])
    const [at] = await other.prints(/http:\/\/localhost:\d+/)
    const named = JSON.stringify({ id: 'x', name: 'x', notes: 'x' })
    const refused = await fetch(`${at}${items}`, { method: 'POST', headers: json, body: named })
    assert.deepEqual([refused.status, await refused.text()], [400, 'CouldNotCreateItem'])
  })

  test('more connections than there is room for: 503 and the end, then normal again', async (t) => {
    const { url, port } = await serve(t, ['--max-connections', '2'])
    const [first, second, third] = [new Raw(t, port), new Raw(t, port), new Raw(t, port)]
    for (const raw of [first, second]) {
      raw.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
      assert.deepEqual(await raw.answers(1), [200])
    }
    third.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await third.closed
    assert.deepEqual(third.statuses, [503])
    assert.match(third.received, /retry-after: 1/i)
    first.socket.destroy()
    let status = 503
    while (status === 503) status = (await fetch(`${url}/`, { headers: { connection: 'close' } })).status
    assert.equal(status, 200)
  })

  test('a client that asks too often: 429, by the address that trusted proxies tell', async (t) => {
    const { url } = await serve(t, ['--rate-limit', '2/s', '--trust-proxy', '1'])
    const ask = (client: string) => fetch(`${url}/`, { headers: { 'x-forwarded-for': client } })
    const statuses = (await Promise.all([1, 2, 3, 4].map(() => ask('10.0.0.1')))).map(({ status }) => status)
    assert.deepEqual(statuses.sort(), [200, 200, 429, 429])
    assert.equal((await ask('10.0.0.2')).status, 200)
    assert.equal((await fetch(`${url}/health/live`, { headers: { 'x-forwarded-for': '10.0.0.1' } })).status, 200)
  })
})

suite('headers', () => {
  test('pages of the origins on the list may use the service, others may not', async (t) => {
    const { url } = await serve(t, ['--cors', 'https://app.example.com', '--cors', 'http://localhost:3000'])
    const from = (origin: string, method = 'GET', headers = {}) =>
      fetch(`${url}${items}`, { method, headers: { origin, ...headers } })
    const allowed = await from('https://app.example.com')
    assert.equal(allowed.headers.get('access-control-allow-origin'), 'https://app.example.com')
    assert.match(allowed.headers.get('access-control-expose-headers') ?? '', /Location/)
    assert.equal(allowed.headers.get('vary'), 'Origin')
    const other = await from('https://evil.example.com')
    assert.equal(other.headers.get('access-control-allow-origin'), null)
    const preflight = await from('http://localhost:3000', 'OPTIONS', { 'access-control-request-method': 'POST' })
    assert.equal(preflight.status, 204)
    assert.match(preflight.headers.get('access-control-allow-methods') ?? '', /POST/)
    assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /Content-Type/)
    assert.equal(preflight.headers.get('access-control-allow-credentials'), null)
  })

  test('without --cors no answer mentions origins; nothing says what serves', async (t) => {
    const { url } = await serve(t, [])
    const answer = await fetch(`${url}${items}`, { headers: { origin: 'http://x' } })
    assert.deepEqual(
      [...answer.headers.keys()].filter((name) => /^access-control|^vary$|^server$|^x-powered-by$/.test(name)),
      [],
    )
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  })

  test('what a token protects is not to be kept', async (t) => {
    const { url } = await serve(t, [])
    for (const path of ['/secret', '/swagger/v1/swagger.json'])
      assert.equal((await fetch(`${url}${path}`)).headers.get('cache-control'), 'no-store')
  })

  test('a problem carries the trace id of the caller', async (t) => {
    const { url } = await serve(t, [])
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
    const traceOf = async (traceparent: string) => {
      const answer = await fetch(`${url}/nothing`, { headers: { traceparent } })
      return ((await answer.json()) as { traceId: string }).traceId
    }
    assert.equal(await traceOf(`00-${trace}-00f067aa0ba902b7-01`), trace)
    for (const bad of ['', 'x', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, `ff-${trace}-00f067aa0ba902b7-01`]) {
      const own = await traceOf(bad)
      assert.match(own, /^[\da-f]{32}$/)
      assert.notEqual(own, trace)
    }
  })

  test('HSTS: over HTTPS, when asked for', async (t) => {
    const { url } = await serve(t, ['--hsts', '--trust-proxy', '1'])
    const over = async (scheme: string) =>
      (await fetch(`${url}/`, { headers: { 'x-forwarded-proto': scheme } })).headers.get('strict-transport-security')
    assert.deepEqual([await over('http'), await over('https')], [null, 'max-age=31536000'])
  })
})

suite('what a client was told', () => {
  test('is in the log, also when the request did not come in full, or was none', async (t) => {
    const port = await freePort()
    const metrics = ['--metrics-port', `${port}`]
    const { running, ...at } = await serve(t, ['--request-timeout', '1', '--header-timeout', '1', ...metrics])
    const said = async (words: string) => {
      const raw = new Raw(t, at.port)
      raw.socket.write(words)
      await raw.closed
    }
    const post = `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`
    await said(`${post}Content-Length: 9\r\n\r\n{`)
    await said(`${post}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(3_000_000)}`)
    await said('GET / HTTP/1.1\r\nHost: canary\x01\r\n\r\n')
    await said('GET / HTTP/1.1\r\nX')
    await said(`GET / HTTP/1.1\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`)
    await said('CONNECT canary:1 HTTP/1.1\r\nHost: x\r\n\r\n')
    await said('GET  /canary HTTP/1.1\r\nHost: x\r\n\r\n')
    const lines = [
      `POST ${items} 408 [\\d.]+ ms \\(a\\): it did not come in full`,
      `POST ${items} 413 [\\d.]+ ms \\(a\\): it did not come in full`,
      'No request: 400 \\(a\\): Invalid header value char',
      'No request: 408 \\(a\\): Request timeout',
      'No request: 431 \\(a\\): Header overflow',
      'No request: 501 \\(a\\): CONNECT',
      'No request: 400 \\(a\\): Invalid request line',
    ]
    await running.prints(new RegExp(`${lines.join('\n')}\n`))
    assert.doesNotMatch(running.stdout, /canary/)
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    assert.match(text, /todo_requests_total\{profile="a",operation="createItem",method="POST",status="408"\} 1/)
    assert.match(text, /todo_requests_total\{profile="a",operation="none",method="other",status="431"\} 1/)
  })
})

suite('metrics', () => {
  test('are on a port of their own; no label comes from a client', async (t) => {
    const port = await freePort()
    const { url } = await serve(t, ['--metrics-port', `${port}`])
    await fetch(`${url}${items}`, { method: 'POST', headers: json, body })
    await fetch(`${url}/canary-path?canary=1`)
    assert.equal((await fetch(`${url}/metrics`)).status, 404)
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    assert.match(text, /todo_requests_total\{profile="a",operation="createItem",method="POST",status="201"\} 1/)
    assert.match(text, /todo_requests_total\{profile="a",operation="none",method="GET",status="404"\} 2/)
    assert.match(text, /todo_items\{profile="a"\} 1/)
    assert.match(text, /todo_store_duration_seconds_count\{profile="a",operation="create"\} 1/)
    assert.match(text, /todo_request_duration_seconds_bucket/)
    assert.match(text, /nodejs_eventloop_lag_seconds/)
    assert.match(text, /process_resident_memory_bytes/)
    assert.doesNotMatch(text, /canary/)
  })
})

suite('what must not be shown', () => {
  test('tokens, keys and bodies are in no log; a path cannot forge a line', async (t) => {
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

  test('in production each line is one JSON object', async (t) => {
    const { running, url } = await serve(t, [...production, '--log-level', 'info', '--drain-delay', '0'])
    await fetch(`${url}/%0a%22forged%22`)
    running.process.kill('SIGTERM')
    const { stdout } = await running.ended
    assert.deepEqual(
      jsonLines(stdout).map(({ message }) => message),
      ['started', 'request', 'stopped'],
    )
  })
})

test('flags that make no sense are refused', async (t) => {
  const { code, stderr } = await run(t, [
    'serve',
    '--rate-limit',
    '5',
    '--cors',
    '*',
    '--metrics-host',
    'x',
    '--drain-delay',
    '-1',
  ])
  assert.equal(code, 2)
  for (const flag of ['--rate-limit must be', '--cors must be', '--metrics-host needs --metrics-port', '--drain-delay'])
    assert.match(stderr, new RegExp(flag))
})
