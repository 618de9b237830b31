import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { text as textOf } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { testRates } from '../control/rates.ts'
import { sharedBrowser } from '../support/browser.ts'
import { cleanUp } from '../support/cleanup.ts'
import { serve } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { endlessChunks, startFlood } from '../support/flood.ts'
import { Instance } from '../support/instance.ts'
import { startPostgres } from '../support/postgres.ts'
import { memoryOf } from '../support/process.ts'
import { RawConnection } from '../support/raw.ts'
import { assertConforms, assertConformsForCaller, runtimes } from '../support/runtimes.ts'

const items = '/api/todoitems'
const json = 'Host: x\r\nContent-Type: application/json\r\n'
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Sets the limits of a process; absent on other systems than Linux. */
const canLimit = spawnSync('prlimit', ['--version']).status === 0

/** 4 MB of items. */
async function createLongList(url: string): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  const client = createClient(url, { agent })
  const item = { name: 'x'.repeat(1_000), isComplete: true }
  for (let batch = 0; batch < 40; batch++)
    await Promise.all(Array.from({ length: 100 }, () => client.send('POST', items, item)))
  agent.destroy()
}

const shared = sharedBrowser()

for (const runtime of runtimes) if (runtime.name !== 'Node') testRates(runtime)

for (const runtime of runtimes) {
  const { name, env, skip, ...interpreter } = runtime
  const serveHere = (t: TestContext, args: readonly string[]) =>
    serve(t, ['--log-level', 'error', ...args], env, 'a', interpreter)

  suite(name, { skip, concurrency: 2 }, () => {
    const storesOfSpaces = [
      ['a', 'memory'],
      ['b', 'SQLite'],
      ['a', 'PostgreSQL'],
      ['b', 'PostgreSQL'],
    ] as const
    for (const [profile, store] of storesOfSpaces) {
      test(`profile ${profile} conforms to the contract in a space, items in ${store}`, (t) =>
        assertConforms(t, runtime, profile, store, '/~ada'))
      test(`profile ${profile} conforms to the contract for a caller with a token, items in ${store}`, (t) =>
        assertConformsForCaller(t, runtime, profile, store))
    }

    // test/app/items.ts has it for Node.
    if (name !== 'Node')
      test('/app shows an item as soon as it is created', async (t) => {
        const { url } = await serveHere(t, ['--no-https'])
        const page = await shared.browser.newPage()
        cleanUp(t, () => page.close())
        await page.goto(`${url}/app#/items`)
        await page.locator('#live.is-live').waitFor()
        await page.getByLabel('New item').fill('from the page')
        await page.getByLabel('New item').press('Enter')
        await page.locator('.items li:visible', { hasText: 'from the page' }).waitFor()
        await createClient(url).send('POST', items, { name: 'from elsewhere', isComplete: true })
        await page.locator('.items li', { hasText: 'from elsewhere' }).waitFor()
      })

    test('an upload that was given up does not keep the process from ending', async (t) => {
      const { running, port } = await serveHere(t, ['--no-https', '--request-timeout', '1', '--drain-timeout', '1'])
      for (const [headers, start, status] of [
        ['Content-Length: 100\r\n', '{', 408],
        ['Content-Length: 100000\r\n', '{'.padEnd(1_000), 408],
        ['Transfer-Encoding: chunked\r\n', chunk('{'), 408],
        ['Content-Length: 2000000\r\n', '{', 413],
      ] as const) {
        const raw = new RawConnection(t, port)
        raw.socket.write(`POST ${items} HTTP/1.1\r\n${json}${headers}\r\n${start}`)
        assert.deepEqual(await raw.responses(1), [status])
      }
      // The clients keep their connections open.
      running.process.kill('SIGTERM')
      assert.equal((await running.ended).code, 0)
    })

    test('clients that send a short body in chunks, slowly, all succeed', async (t) => {
      const { port } = await serveHere(t, ['--no-https'])
      const clients = Array.from({ length: 80 }, () => new RawConnection(t, port))
      const statuses = clients.map(async (raw) => {
        raw.socket.write(`POST ${items} HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\n${chunk('{"name":"walk')}`)
        await sleep(75)
        raw.socket.write(chunk(' the dog",'))
        await sleep(75)
        raw.socket.write(`${chunk('"isComplete":false}')}0\r\n\r\n`)
        return raw.responses(1)
      })
      assert.deepEqual(new Set((await Promise.all(statuses)).flat()), new Set([201]))
    })

    test('a large body for the control API and small ones for the items do not end each other', async (t) => {
      const { url, port } = await serveHere(t, ['--no-https'])
      const content = Buffer.from(
        JSON.stringify(
          Array.from({ length: 3_000 }, (_, id) => ({ id: id + 1, name: 'x'.repeat(10_000), isComplete: true })),
        ),
      )
      const large = new RawConnection(t, port)
      large.socket.write(`PUT /__admin/items HTTP/1.1\r\n${json.replace('x', 'localhost')}`)
      large.socket.write(`Content-Length: ${content.length}\r\n\r\n`)
      large.socket.write(content.subarray(0, 25_000_000))
      while (large.socket.writableLength > 0) await once(large.socket, 'drain')
      for (let count = 0; count < 3; count++) {
        const small = new RawConnection(t, port)
        small.socket.write(`POST ${items} HTTP/1.1\r\n${json}Content-Length: 19\r\n\r\n{"isComplete"`)
        await sleep(20)
        small.socket.write(':true}')
        assert.deepEqual(await small.responses(1), [201])
      }
      large.socket.write(content.subarray(25_000_000))
      assert.deepEqual(await large.responses(1), [204])
      assert.equal(JSON.parse((await createClient(url).send('GET', `${items}/3000`)).text).id, 3_000)
    })

    test('survives more connections than it has file descriptors', {
      skip: !canLimit && 'needs prlimit',
    }, async (t) => {
      const { running, url, port } = await serveHere(t, ['--no-https', '--mode', 'production'])
      const { status, stderr } = spawnSync('prlimit', ['--pid', `${running.process.pid}`, '--nofile=300:'])
      assert.equal(status, 0, `${stderr}`)
      const idle = Array.from({ length: 400 }, () => new RawConnection(t, port))
      await Promise.race([sleep(2_000), running.ended])
      for (const { socket } of idle) socket.destroy()
      const getStatus = () =>
        createClient(url)
          .send('GET', items)
          .then(
            (response) => response.status,
            () => 0,
          )
      while ((await getStatus()) !== 200) {
        assert.equal(running.process.exitCode, null, `${running.stdout}${running.stderr}`)
        await sleep(20)
      }
      running.process.kill('SIGTERM')
      assert.equal((await running.ended).code, 0)
    })

    test('A15 recovers from a restart of PostgreSQL that is reached by its Unix socket', {
      skip: process.platform === 'win32' && 'no Unix sockets',
    }, async (t) => {
      const cluster = await startPostgres()
      cleanUp(t, () => cluster.remove())
      const instance = await Instance.start(t, cluster.socketUrl, 'a', ['--wait-for-database'], runtime)
      assert.deepEqual(await instance.list(), [])
      await cluster.kill()
      while ((await instance.send('GET', '')).status !== 503);
      await cluster.start()
      await instance.assertRecovers()
    })

    if (name !== 'Node')
      test('clients that send chunks of one byte do not keep others waiting', async (t) => {
        const { running, url, port } = await serveHere(t, ['--no-https'])
        const flood = await startFlood(t, port, endlessChunks, { clients: 40 })
        for (let count = 0; count < 10; count++) assert.equal((await fetch(`${url}${items}`)).status, 200)
        await flood.stop()
        // Deno's own server copies its buffer for each chunk that is left, for a minute: docs/runtimes.md.
        if (name === 'Deno') {
          running.process.kill('SIGKILL')
          await running.ended
        }
      })

    if (name === 'Deno')
      test('an HTTP/2 connection reaches the space that each of its requests names, and no other', async (t) => {
        const { running } = await serveHere(t, ['--https-port', '0'])
        const [url = ''] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
        const session = connectHttp2(url, { rejectUnauthorized: false })
        cleanUp(t, () => session.destroy())
        async function send(method: string, path: string, headers = {}, content = ''): Promise<[unknown, string]> {
          const fields = { ...headers, 'content-type': 'application/json' }
          const stream = session.request({ ':method': method, ':path': path, ...fields })
          // The stream of a GET ends with its headers.
          if (method === 'POST') stream.end(content)
          const [head] = await once(stream, 'response')
          return [head[':status'], await textOf(stream)]
        }
        const create = (name: string) => send('POST', `/~${name}${items}`, {}, `{"name":"${name}","isComplete":true}`)
        assert.deepEqual(
          (await Promise.all([create('ada'), create('bob')])).map(([status]) => status),
          [201, 201],
        )
        const listOf = (name: string) => [200, `[{"id":1,"name":"${name}","isComplete":true}]`]
        assert.deepEqual(await send('GET', `/~ada${items}`), listOf('ada'))
        assert.deepEqual(await send('GET', items, { 'x-todo-space': 'bob' }), listOf('bob'))
        assert.deepEqual(await send('GET', items), [200, '[]'])
        assert.equal((await send('GET', `/~ada${items}`, { 'x-todo-space': 'bob' }))[0], 400)
        assert.equal((await send('GET', `/~bob/..${items}`))[0], 404)
      })

    if (name === 'Deno')
      test('streams of an HTTP/2 connection that are not read share a long list', async (t) => {
        const { url: plain, running } = await serveHere(t, ['--https-port', '0'])
        const [url = ''] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
        await createLongList(plain)
        const pid = running.process.pid as number
        const session = connectHttp2(url, { rejectUnauthorized: false })
        session.on('error', () => {})
        cleanUp(t, () => session.destroy())
        const before = memoryOf(pid)
        const streams = Array.from({ length: 100 }, () => session.request({ ':path': items }).pause())
        for (const stream of streams) stream.on('error', () => {})
        await Promise.all(streams.map((stream) => once(stream, 'response')))
        const grownMegabytes = (memoryOf(pid) - before) / 2 ** 20
        assert.ok(grownMegabytes < 150, `${grownMegabytes} MB`)
      })
  })
}
