import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { resetFoundServices } from '../../src/commands/reset.ts'
import { start } from '../../src/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { cli, run, runAtTerminal, serve } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
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

/** As without a URL, but not on the default ports. */
async function resetFound(urls: readonly (readonly string[])[], answers?: string) {
  const terminal = (text?: string) => Object.assign(new PassThrough().end(text), { isTTY: answers !== undefined })
  const [stdout, stderr] = [Object.assign(new PassThrough(), { isTTY: answers !== undefined }), new PassThrough()]
  const process = {
    argv: ['node', cli],
    argv0: 'node',
    execArgv: [],
    env: {},
    stdin: terminal(answers),
    stdout,
    stderr,
  } as object as Parameters<typeof resetFoundServices>[2]
  const code = await resetFoundServices(urls, {}, process, 60_000)
  return { code, stdout: `${stdout.read() ?? ''}`, stderr: `${stderr.read() ?? ''}` }
}

suite('reset', { concurrency: 4 }, () => {
  test('resets the service at the URL and says what it reset', async (t) => {
    const [a, b] = [await started(t, 'a'), await started(t, 'b')]
    await a.putItems([{ id: 7, isComplete: false }])
    await a.addFault({ code: 503 })
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

  test('resets a space and nothing else', async (t) => {
    const server = await started(t, 'b')
    await server.putItems([])
    const inSpace = { 'x-todo-space': 'ada' }
    const count = async () => ((await (await fetch(server.url + itemsPath, { headers: inSpace })).json()) as []).length
    const url = `${server.url}/__admin/items`
    for (const args of [
      ['reset', server.url, '--space', 'ada'],
      ['reset', `${server.url}/~ada`],
    ]) {
      const headers = { ...inSpace, 'content-type': 'application/json' }
      assert.equal((await fetch(url, { method: 'PUT', headers, body: '[]' })).status, 204)
      assert.equal(await count(), 0)
      const { code, stdout } = await run(t, args)
      assert.equal(code, 0)
      assert.match(stdout, /^(?:Space ada of )?Profile B at http:\S+ is reset: it has 3 items now\.\n$/)
      assert.equal(await count(), 3)
      assert.deepEqual(await server.items(), [])
    }
  })

  test('without a URL, resets each service that runs on the default ports', async (t) => {
    const [a, b] = [await started(t, 'a'), await started(t, 'b')]
    const closed = `http://127.0.0.1:${await freePort()}`
    assert.deepEqual(await resetFound([[closed, a.url], [closed], [b.url, a.url]]), {
      code: 0,
      stdout: `Profile A at ${a.url} is reset: it has 0 items now.\nProfile B at ${b.url} is reset: it has 3 items now.\n`,
      stderr: '',
    })
    const { code, stdout, stderr } = await resetFound([[closed]])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      /^todo-service: No service responds on the default ports: start one with node \S+cli\.js serve, or/,
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
    assert.deepEqual(other.received, ['GET /__admin/info'])
  })

  test('exits with 1 and the reason where the service rejects the request', async (t) => {
    const rejecting = (status: number, title: string) =>
      otherServer(t, (_, response) =>
        response.writeHead(status, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ title })),
      )
    const { url } = await rejecting(400, 'There are no spaces: the items are in a database.')
    const { code, stderr } = await run(t, ['reset', url, '--space', 'ada'])
    assert.equal(code, 1)
    assert.equal(stderr, `todo-service: ${url} is not reset: There are no spaces: the items are in a database.\n`)
    const remote = await otherServer(t, (_, response) => response.writeHead(401).end())
    assert.match(
      (await run(t, ['reset', remote.url])).stderr,
      /^todo-service: The service at http:\S+ requires a token from this client: add --token "\$\(node \S+cli\.js token --scope control -o token\)"\.\n$/,
    )
  })

  test('exits with 1 and the reason where the items cannot be read', async (t) => {
    const { url } = await serve(t, ['--data', join(temporaryFolder(t), 'todo.db')])
    const other = await otherServer(t, async ({ url: path = '' }, response) => {
      if (path === '/__admin/info') response.end(await (await fetch(url + path)).text())
      else
        response.writeHead(503, { 'content-type': 'application/problem+json' }).end('{"title":"The database is down."}')
    })
    assert.deepEqual(await run(t, ['reset', other.url]), {
      code: 1,
      stdout: '',
      stderr: `todo-service: ${other.url} is not reset: The database is down.\n`,
    })
  })

  test('exits with 1 and one sentence where a server sends JSON that would take gigabytes, or no text as a title', async (t) => {
    const deep = '['.repeat(2 ** 23)
    const problem = { 'content-type': 'application/problem+json' }
    const info = { profile: 'a', title: { toString: 1 } }
    for (const [listener, message] of [
      [(_, response) => response.end(deep), 'has no control API'],
      [(_, response) => response.end('{"profile":{"toString":1}}'), 'has no control API'],
      [(_, response) => response.writeHead(400, problem).end(deep), 'has no control API'],
      [
        (_, response) => response.writeHead(400, problem).end('{"title":"x","errors":{"a":[{"toString":1}]}}'),
        'is not reset: {"toString":1}',
      ],
      [
        ({ url }, response) => response.end(url?.endsWith('info') ? JSON.stringify(info) : deep),
        'sends items that cannot be read: is it a todo-service?',
      ],
    ] as [RequestListener, string][]) {
      const { url } = await otherServer(t, listener)
      const { code, stdout, stderr } = await run(t, ['reset', url])
      assert.deepEqual([code, stdout], [1, ''])
      assert.ok(stderr.startsWith('todo-service: ') && stderr.includes(message), stderr)
      assert.equal(stderr.trim().split('\n').length, 1)
    }
  })

  for (const store of ['a file', 'a database'] as const)
    test(`asks before it deletes items in ${store}`, async (t) => {
      const file = join(temporaryFolder(t), 'todo.db')
      const flags = store === 'a file' ? ['--data', file] : ['--database-url', (await newDatabase()).url]
      const { url } = await serve(t, flags)
      const place = store === 'a file' ? `the file ${file}` : /PostgreSQL, schema todo of database \w+ at [\d.:]+\d/
      const count = async () => ((await (await fetch(url + itemsPath)).json()) as []).length
      const add = () =>
        fetch(url + itemsPath, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: '{"isComplete":true}',
        })
      const isReset = `Profile A at ${url} is reset: it has 0 items now.\n`
      assert.deepEqual(await run(t, ['reset', url]), { code: 0, stdout: isReset, stderr: '' }, 'nothing to delete')
      await add()
      await add()
      const plain = (text: string) => text.replace(place, 'STORE')
      const refused = await run(t, ['reset', url])
      assert.deepEqual(
        { ...refused, stderr: plain(refused.stderr) },
        {
          code: 1,
          stdout: '',
          stderr: `todo-service: Profile A at ${url} has 2 items in STORE. Nothing was changed: to delete them, add --yes.\n`,
        },
      )
      const question = `Profile A at ${url} has 2 items in STORE. Delete them? [y/N] `
      for (const answer of ['n\n', '\n', 'yesterday\n', 'no\n', '']) {
        const { code, stdout, stderr } = await runAtTerminal(t, ['reset', url], answer)
        assert.equal(code, 1, answer)
        assert.ok(plain(stdout).includes(question), stdout)
        assert.equal(stderr, 'todo-service: Nothing was changed.\n')
      }
      assert.equal(await count(), 2)
      for (const [args, answer] of [
        [[], 'y\n'],
        [[], 'YES\n'],
        [['--yes'], ''],
        [['-y'], ''],
      ] as const) {
        await add()
        const { code, stdout, stderr } = await runAtTerminal(t, ['reset', url, ...args], answer)
        assert.deepEqual([code, stderr], [0, ''], answer)
        assert.ok(stdout.endsWith(isReset), stdout)
        assert.equal(stdout.includes('Delete'), args.length === 0, stdout)
        assert.equal(await count(), 0)
      }
      await add()
      assert.deepEqual(await run(t, ['reset', url, '--yes']), { code: 0, stdout: isReset, stderr: '' })
    })

  test('asks for each service, and not where all items in a file are those of the start', async (t) => {
    const file = (name: string) => ['--data', join(temporaryFolder(t), name)]
    const [a, b] = [await serve(t, file('a.db')), await serve(t, file('b.db'), {}, 'b')]
    const groups = [[a.url], [b.url]]
    const put = (url: string, items: unknown[]) =>
      fetch(`${url}/__admin/items`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(items),
      })
    const items = async (url: string) => (await (await fetch(url + itemsPath)).json()) as { id: string }[]
    const [first, second, third] = await items(b.url)
    await put(b.url, [third, first])
    assert.equal((await resetFound(groups)).code, 0, 'deleted items of the start come back')
    assert.equal((await items(b.url)).length, 3)
    await put(a.url, [{ id: 1, isComplete: true }])
    await put(b.url, [first, { ...second, done: true }, third])
    // The end of the input is no answer to the second question.
    const half = await resetFound(groups, 'y\n')
    assert.deepEqual([half.code, half.stderr], [1, 'todo-service: Nothing was changed.\n'])
    assert.match(half.stdout, /Profile A at \S+ has 1 item in the file \S+a\.db\. Delete it\? \[y\/N\] /)
    assert.match(half.stdout, /Profile B at \S+ has 3 items in the file \S+b\.db\. Delete them\? \[y\/N\] /)
    assert.deepEqual([(await items(a.url)).length, (await items(b.url))[1]], [0, { ...second, done: true }])
  })

  test('its requests say that a command has sent them', async (t) => {
    const sent: unknown[] = []
    const { url } = await otherServer(t, (request, response) => {
      sent.push(request.headers['x-todo-client'])
      response.end('live')
    })
    assert.equal((await resetFound([[url]])).code, 1)
    assert.deepEqual(sent, ['command', 'command'])
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
    const { code, stderr } = await run(t, ['reset', 'localhost:5080', 'more', '--space', 'a b', '--token', 'x'])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 4, stderr)
    assert.match(stderr, /^todo-service: --space must be 1 to 64 of A-Z, a-z, 0-9, _ and -, not "a b"\.$/m)
    const { stderr: itemsUrl } = await run(t, ['reset', 'http://localhost:5080/api/todoitems'])
    assert.match(itemsUrl, /^todo-service: The URL must be that of the server, without \/api\/todoitems\.$/m)
  })
})
