import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { node, type Service, serve } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { Instance, Writers } from '../support/instance.ts'
import { keepAliveClient } from '../support/keep-alive-client.ts'
import { RawConnection } from '../support/raw.ts'
import { runtimes } from '../support/runtimes.ts'

/** Takes milliseconds to read. */
const largeItem = JSON.stringify({ id: 1, name: '\n'.repeat(400_000), isComplete: true })

/** A client that sends each request on a connection of its own, until it is refused. */
async function reconnect(url: string, outcomes: Record<string, number>): Promise<void> {
  for (let outcome = ''; outcome !== 'ECONNREFUSED'; ) {
    const put = request(url, { method: 'PUT', agent: false, headers: { 'content-type': 'application/json' } })
    put.end(largeItem)
    outcome = await once(put, 'response').then(
      ([response]) => {
        response.resume()
        return `${response.statusCode}`
      },
      ({ code, message }: NodeJS.ErrnoException) => code ?? message,
    )
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  }
}

/** Requests from 20 clients, SIGTERM after the thousandth response, and more on new connections; returns what failed. */
async function sendUnderLoad(t: TestContext, { running }: Service, scheme: string, reconnects: number) {
  const [url] = await running.prints(new RegExp(`${scheme}://127\\.0\\.0\\.1:\\d+`))
  const failures: unknown[] = []
  let responses = 0
  const send = async () => {
    const get = keepAliveClient(t, url)
    for (let closed = 0; closed <= reconnects; ) {
      const result = await get('/api/todoitems').catch((error: Error) => error)
      if (result instanceof Error || result.status !== 200) failures.push(result)
      if (++responses === 1_000) running.process.kill('SIGTERM')
      if (result instanceof Error || result.closesConnection) closed++
    }
  }
  await Promise.all(Array.from({ length: 20 }, send))
  return failures
}

for (const runtime of runtimes) {
  const { name, env, skip, ...interpreter } = runtime

  suite(`SIGTERM under load, ${name}`, { skip }, () => {
    for (const scheme of ['http', 'https']) {
      const args = ['--log-level', 'error', ...(scheme === 'https' ? ['--https-port', '0'] : [])]

      test(`fails no request of ${scheme} clients that stop at Connection: close, without a drain delay`, async (t) => {
        const service = await serve(t, [...args, '--drain-delay', '0'], env, 'a', interpreter)
        assert.deepEqual(await sendUnderLoad(t, service, scheme, 0), [])
        assert.equal((await service.running.ended).code, 0)
      })

      // Longer than the test: a client that connects in the moment in which the listener is closed cannot be served.
      test(`fails no request of ${scheme} clients that reconnect, during the drain delay`, async (t) => {
        const service = await serve(t, [...args, '--drain-delay', '600'], env, 'a', interpreter)
        assert.deepEqual(await sendUnderLoad(t, service, scheme, 10), [])
        // Another signal ends it at once; the same one within 200 ms would be a repetition of the first.
        service.running.process.kill('SIGINT')
        assert.equal((await service.running.ended).code, 1)
      })
    }

    test('loses no acknowledged write', async (t) => {
      const { url } = await newDatabase()
      const instance = await Instance.start(t, url, 'a', [], runtime)
      const writers = new Writers([instance])
      await writers.waitFor(200)
      instance.running.process.kill('SIGTERM')
      assert.equal((await instance.running.ended).code, 0)
      await writers.stop()
      await writers.assertStored(await Instance.start(t, url))
    })
  })
}

test('a stop is over in time, and resets nobody, while 24 clients connect again and again', async (t) => {
  const flags = ['--mode', 'production', '--drain-delay', '1', '--drain-timeout', '3']
  const { running, url } = await serve(t, flags, {}, 'a', node)
  const headers = { 'content-type': 'application/json' }
  assert.equal((await fetch(`${url}/api/todoitems`, { method: 'POST', headers, body: largeItem })).status, 201)
  const outcomes: Record<string, number> = {}
  const clients = Promise.all(Array.from({ length: 24 }, () => reconnect(`${url}/api/todoitems/1`, outcomes)))
  while ((outcomes[204] ?? 0) < 48) await sleep(5)
  const signalledAt = performance.now()
  running.process.kill('SIGTERM')
  assert.equal((await running.ended).code, 0)
  const seconds = (performance.now() - signalledAt) / 1000
  await clients
  t.diagnostic(`${seconds.toFixed(1)} s: ${JSON.stringify(outcomes)}`)
  assert.deepEqual(Object.keys(outcomes).sort(), ['204', 'ECONNREFUSED'])
  // 1 + 3 + 0.5, and what a busy machine adds.
  assert.ok(seconds < 5.5, `${seconds} s`)
})

test('a stop is over in time while clients read nothing of their responses', async (t) => {
  const flags = ['--mode', 'production', '--drain-delay', '0', '--drain-timeout', '2']
  const { running, url, port } = await serve(t, flags, {}, 'a', node)
  const headers = { 'content-type': 'application/json' }
  for (let count = 0; count < 8; count++)
    assert.equal((await fetch(`${url}/api/todoitems`, { method: 'POST', headers, body: largeItem })).status, 201)
  for (let count = 0; count < 8; count++) {
    const { socket } = new RawConnection(t, port)
    socket.pause()
    await once(socket, 'connect')
    socket.write('GET /api/todoitems HTTP/1.1\r\nHost: x\r\n\r\n')
  }
  const signalledAt = performance.now()
  running.process.kill('SIGTERM')
  assert.equal((await running.ended).code, 0)
  const seconds = (performance.now() - signalledAt) / 1000
  assert.ok(seconds < 3.5, `${seconds} s`)
})
