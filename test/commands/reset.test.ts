import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { resetServices } from '../../src/commands/reset.ts'
import { start } from '../../src/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { run, serve } from '../support/cli.ts'
import { freePort } from '../support/port.ts'

const itemsPath = '/api/todoitems'

async function started<Name extends 'a' | 'b'>(t: TestContext, profile: Name) {
  const server = await start({ profile })
  cleanUp(t, server.close)
  return server
}

/** The URL of another server; `received` are the requests to it. */
async function otherServer(t: TestContext, listener: RequestListener) {
  const received: string[] = []
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`)
    listener(request, response)
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  cleanUp(t, () => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}

suite('reset', { concurrency: 4 }, () => {
  test('resets the service at the URL and says what it reset', async (t) => {
    const [a, b] = [await started(t, 'a'), await started(t, 'b')]
    await a.putItems([{ id: 7, isComplete: false }])
    await a.fail({ code: 503 })
    await b.putItems([])
    assert.deepEqual(await run(t, ['reset', a.url]), {
      code: 0,
      stdout: `Profile A at ${a.url} is reset: it has 0 items now.\n`,
      stderr: '',
    })
    assert.deepEqual(await a.items(), [])
    assert.equal((await fetch(a.url + itemsPath)).status, 200)
    assert.deepEqual(await run(t, ['reset', `${b.url}/`]), {
      code: 0,
      stdout: `Profile B at ${b.url} is reset: it has 3 items now.\n`,
      stderr: '',
    })
  })

  test('resets a sandbox and nothing else', async (t) => {
    const server = await started(t, 'b')
    await server.putItems([])
    const inSandbox = { 'x-todo-sandbox': 'ada' }
    const count = async () =>
      ((await (await fetch(server.url + itemsPath, { headers: inSandbox })).json()) as []).length
    const url = `${server.url}/__admin/items`
    for (const args of [
      ['reset', server.url, '--sandbox', 'ada'],
      ['reset', `${server.url}/~ada`],
    ]) {
      const headers = { ...inSandbox, 'content-type': 'application/json' }
      assert.equal((await fetch(url, { method: 'PUT', headers, body: '[]' })).status, 204)
      assert.equal(await count(), 0)
      const { code, stdout } = await run(t, args)
      assert.equal(code, 0)
      assert.match(stdout, /^(?:Sandbox ada of )?Profile B at http:\S+ is reset: it has 3 items now\.\n$/)
      assert.equal(await count(), 3)
      assert.deepEqual(await server.items(), [])
    }
  })

  test('without a URL, resets each service that runs on the default ports', async (t) => {
    const [a, b] = [await started(t, 'a'), await started(t, 'b')]
    const closed = `http://127.0.0.1:${await freePort()}`
    const timeoutMs = 60_000
    const found = await resetServices([[closed, a.url], [closed], [b.url, a.url]], { timeoutMs })
    assert.deepEqual(found, [
      { message: `Profile A at ${a.url} is reset: it has 0 items now.`, isReset: true },
      { message: `Profile B at ${b.url} is reset: it has 3 items now.`, isReset: true },
    ])
    const [none, ...more] = await resetServices([[closed]], { timeoutMs })
    assert.deepEqual(more, [])
    assert.equal(none?.isReset, false)
    assert.match(
      none?.message ?? '',
      /^No service responds on the default ports: start one with todo-service serve, or/,
    )
  })

  test('exits with 1 where no server responds', async (t) => {
    const url = `http://127.0.0.1:${await freePort()}`
    const { code, stdout, stderr } = await run(t, ['reset', url])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^todo-service: No server responds at http:\S+ \(.*ECONNREFUSED.*\): check the URL, or start/)
    assert.equal(stderr.trim().split('\n').length, 1)
  })

  test('exits with 1 where there is no control API, and sends nothing that changes another server', async (t) => {
    const production = await serve(t, ['--mode', 'production'])
    const withoutAdmin = await serve(t, ['--no-admin'])
    const other = await otherServer(t, (_, response) => response.end('<html>'))
    for (const { url } of [production, withoutAdmin, other]) {
      const { code, stdout, stderr } = await run(t, ['reset', url])
      assert.deepEqual([code, stdout], [1, ''])
      assert.equal(
        stderr,
        `todo-service: The server at ${url} has no control API: it is in production mode, has --no-admin, or is another program.\n`,
      )
    }
    assert.deepEqual(other.received, ['GET /__admin/openapi.json'])
  })

  test('exits with 1 and the reason where the service rejects the request', async (t) => {
    const rejecting = (status: number, title: string) =>
      otherServer(t, (_, response) =>
        response.writeHead(status, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ title })),
      )
    const { url } = await rejecting(400, 'There are no sandboxes: the items are in a database.')
    const { code, stderr } = await run(t, ['reset', url, '--sandbox', 'ada'])
    assert.equal(code, 1)
    assert.equal(stderr, `todo-service: ${url} is not reset: There are no sandboxes: the items are in a database.\n`)
    const remote = await otherServer(t, (_, response) => response.writeHead(401).end())
    assert.match(
      (await run(t, ['reset', remote.url])).stderr,
      /^todo-service: The service at http:\S+ requires a token from this client: add --token "\$\(todo-service token --scope control -o token\)"\.\n$/,
    )
  })

  test('sends the token', async (t) => {
    const sent: unknown[] = []
    const { url } = await otherServer(t, (request, response) => {
      sent.push(request.headers.authorization)
      response.writeHead(401).end()
    })
    await run(t, ['reset', url, '--token', 'a.b.c'])
    await run(t, ['reset', url], { TODO_TOKEN: 'd.e.f' })
    assert.deepEqual(sent, ['Bearer a.b.c', 'Bearer d.e.f'])
  })

  test('exits with 2 for invalid usage', async (t) => {
    const { code, stderr } = await run(t, ['reset', 'localhost:5080', 'more', '--sandbox', 'a b', '--token', 'x'])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 4, stderr)
    assert.match(stderr, /^todo-service: --sandbox must be 1 to 64 of A-Z, a-z, 0-9, _ and -, not "a b"\.$/m)
    const { stderr: itemsUrl } = await run(t, ['reset', 'http://localhost:5080/api/todoitems'])
    assert.match(itemsUrl, /^todo-service: The URL must be that of the server, without \/api\/todoitems\.$/m)
  })
})
