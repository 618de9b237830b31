import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { overloadMonitor } from '../../src/server/overload.ts'
import { jsonLines, node, type Running, serve } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'
import { RawConnection } from '../support/raw.ts'

const items = '/api/todoitems'
const production = ['--mode', 'production', '--drain-delay', '0', '--request-timeout', '600']
const head = (method: string, path: string) => `${method} ${path} HTTP/1.1\r\nHost: x\r\n`

/** From one SIGUSR2 to the next, each iteration of the event loop takes 1.3 s: every check is over 1 s late. */
function blockOnSignal(t: TestContext): NodeJS.ProcessEnv {
  const file = join(temporaryFolder(t), 'block.cjs')
  const script = `
    let isBlocking = false
    const block = () => {
      if (!isBlocking) return
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_300)
      setImmediate(block)
    }
    process.on('SIGUSR2', () => {
      isBlocking = !isBlocking
      setImmediate(block)
    })`
  writeFileSync(file, script)
  return { NODE_OPTIONS: `--require=${file}` }
}

/** Requests that stay in flight, because their bodies are not sent. */
function openRequests(t: TestContext, port: number, count: number): Promise<RawConnection[]> {
  const headers = 'Content-Type: application/json\r\nContent-Length: 19\r\nExpect: 100-continue\r\n'
  return Promise.all(
    Array.from({ length: count }, async () => {
      const raw = new RawConnection(t, port)
      raw.socket.write(`${head('POST', items)}${headers}\r\n`)
      assert.deepEqual(await raw.responses(1), [100])
      return raw
    }),
  )
}

/** Sends requests on one connection, one after the other; returns status and text of the response. */
function client(t: TestContext, port: number) {
  const raw = new RawConnection(t, port)
  return async (method: string, path: string) => {
    const before = raw.received.length
    const { length } = raw.statuses
    raw.socket.write(`${head(method, path)}\r\n`)
    const statuses = await raw.responses(length + 1)
    return { status: statuses.at(-1), received: raw.received.slice(before) }
  }
}

const inMemory = 'The items are in memory: lost when the service stops. Set --data or --database-url to keep them.'

async function stopAndReadLog({ process, ended }: Running): Promise<string[]> {
  process.kill('SIGTERM')
  return jsonLines((await ended).stdout).map(({ message }) => message)
}

suite('overload', () => {
  /** A monitor of 100 requests in flight, and its check that comes after so many milliseconds. */
  function monitored(t: TestContext) {
    t.mock.timers.enable({ apis: ['setInterval'] })
    let timeMs = 0
    const messages: string[] = []
    const monitor = overloadMonitor(
      () => timeMs,
      (message) => messages.push(message.replace(/[:.].*/, '')),
    )
    monitor.load.inFlight = 100
    const check = (afterMs: number) => {
      timeMs += afterMs
      t.mock.timers.tick(250)
      return monitor.reason
    }
    return { monitor, messages, check }
  }

  test('begins with the third late check in a row, and ends with one in time', (t) => {
    const { messages, check } = monitored(t)
    for (const afterMs of [1_251, 1_251, 250, 1_251, 1_251, 1_250]) assert.equal(check(afterMs), undefined)
    assert.deepEqual([check(1_251), check(1_251), messages], [undefined, undefined, []])
    assert.equal(check(1_251), 'the event loop is late')
    assert.equal(check(1_251), 'the event loop is late')
    assert.equal(check(250), undefined)
    assert.deepEqual(messages, ['The service is overloaded', 'The service is no longer overloaded'])
    assert.deepEqual([check(1_251), check(1_251)], [undefined, undefined])
  })

  test('takes at least 100 requests, in flight or received since the last check', (t) => {
    const { monitor, check } = monitored(t)
    monitor.load.inFlight = 99
    for (let count = 0; count < 5; count++) assert.equal(check(1_251), undefined)
    for (const reason of [undefined, undefined, 'the event loop is late']) {
      monitor.load.received = 1
      assert.equal(check(1_251), reason)
    }
  })
})

suite('event-loop delay', { skip: process.platform === 'win32' && 'needs signals', concurrency: true }, () => {
  test('of a process that was stopped for 2 s: its clients get 200, nothing is logged', async (t) => {
    const { running, url } = await serve(t, production, {}, 'a', node)
    running.process.kill('SIGSTOP')
    const responses = Array.from({ length: 10 }, () => fetch(`${url}${items}`))
    await sleep(2_000)
    running.process.kill('SIGCONT')
    for (const response of responses) assert.equal((await response).status, 200)
    assert.equal((await fetch(`${url}${items}`)).status, 200)
    assert.deepEqual(await stopAndReadLog(running), ['started', inMemory, 'stopped'])
  })

  test('in development, with 200 requests in flight: all get their response', async (t) => {
    const { running, port } = await serve(t, ['--request-timeout', '600'], blockOnSignal(t))
    const requests = await openRequests(t, port, 200)
    const send = client(t, port)
    running.process.kill('SIGUSR2')
    for (let count = 0; count < 5; count++) assert.equal((await send('GET', items)).status, 200)
    running.process.kill('SIGUSR2')
    for (const { socket } of requests) socket.write('{"isComplete":true}')
    for (const raw of requests) assert.deepEqual(await raw.responses(2), [100, 201])
    assert.doesNotMatch(running.stdout, /overloaded/)
  })

  for (const [profile, method, path, usual, overloaded] of [
    ['a', 'GET', items, { status: 200, received: /\[\]$/ }, { status: 503, received: /^retry-after: 1\r\n/im }],
    [
      'b',
      'DELETE',
      `${items}/x`,
      { status: 404, received: /RecordNotFound$/ },
      { status: 400, received: /CouldNotDeleteItem$/ },
    ],
  ] as const)
    test(`in production, with 200 requests in flight: ${method} in profile ${profile} gets ${overloaded.status}`, async (t) => {
      const { running, port } = await serve(t, production, blockOnSignal(t), profile)
      const requests = await openRequests(t, port, 200)
      const [send, sendLive, sendReady] = [client(t, port), client(t, port), client(t, port)]
      running.process.kill('SIGUSR2')
      let response = await send(method, path)
      for (; response.status === usual.status; response = await send(method, path))
        assert.match(response.received, usual.received)
      assert.equal(response.status, overloaded.status)
      assert.match(response.received, overloaded.received)
      const health = await Promise.all([sendLive('GET', '/health/live'), sendReady('GET', '/health/ready')])
      assert.deepEqual(
        health.map(({ status }) => status),
        [200, 200],
      )
      running.process.kill('SIGUSR2')
      while (response.status !== usual.status) response = await send(method, path)
      assert.match(response.received, usual.received)
      for (const { socket } of requests) socket.destroy()
      const [started, , notice = '', ...rest] = await stopAndReadLog(running)
      assert.deepEqual([started, rest], ['started', ['The service is no longer overloaded.', 'stopped']])
      assert.match(
        notice,
        /^The service is overloaded: .* over 1000 ms late in 3 checks in a row, \d{4,} ms .* with 2\d\d requests\./,
      )
    })
})
