import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { validateXML } from 'xmllint-wasm'
import { cleanUp } from '../support/cleanup.ts'
import { run, runCommand, serve, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { journalOf } from '../support/control.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { freePort } from '../support/port.ts'
import { transports } from '../support/running.ts'

const itemsPath = '/api/todoitems'

/** The URL of a correct server of profile A, but for some statuses. */
async function serveWithStatuses(t: TestContext, mutate: (path: string, status: number) => number): Promise<string> {
  const client = await transports['over a socket'](t, 'a')
  const server = faultyServer(client, async (request, forward) => {
    const response = await forward(request)
    return { ...response, status: mutate(request.path, response.status) }
  })
  return listen(t, server)
}

suite('verify', { concurrency: 2 }, () => {
  test('exits with 0 for a correct server and prints totals by group of rules', async (t) => {
    const { url, token } = await transports['over a socket'](t, 'a')
    const { code, stdout, stderr } = await run(t, ['verify', url, '--profile', 'a', '--strict', '--only', 'G*,S*'], {
      TODO_TOKEN: token,
    })
    assert.deepEqual([code, stderr], [0, ''], stdout)
    assert.match(stdout, /^G {2}\d+ passed, 1 skipped$/m)
    assert.match(stdout, /^S {2}\d+ passed, 1 skipped$/m)
    assert.match(stdout, /^Not observable over HTTP: parts of .*\bG7, G8, S3, S5 \(--report markdown lists them\)$/m)
    assert.match(stdout, /\n\d{2} passed, 0 failed, \d skipped \(seed 1, \d+\.\d s\)\n$/)
    assert.ok(!stdout.includes('\u001b'), 'no colors unless stdout is a terminal')
  })

  test('--reset checks what only a fresh server shows, and restores the items', async (t) => {
    for (const profile of ['a', 'b'] as const) {
      const { url } = await serve(t, ['--no-https'], {}, profile)
      const item = { id: 'mine', name: 'mine', notes: 'mine', isComplete: true }
      const headers = { 'content-type': 'application/json' }
      await fetch(`${url}${itemsPath}`, { method: 'POST', headers, body: JSON.stringify(item) })
      const before = await (await fetch(`${url}${itemsPath}`)).text()
      const only = profile === 'a' ? 'G6,G7,A4,A9' : 'G6,G7,B2,B8'
      const { code, stdout } = await run(t, ['verify', url, '--profile', profile, '--reset', '--only', only])
      assert.equal(code, 0, stdout)
      assert.doesNotMatch(stdout, /^skipped/m)
      assert.equal(await (await fetch(`${url}${itemsPath}`)).text(), before)
    }
  })

  test('--reset finds a first id other than 1', async (t) => {
    const { url } = await serve(t, ['--no-https'])
    const target = createClient(url)
    const server = faultyServer(target, async (request, forward) => {
      const response = await forward(request)
      if (request.path === '/__admin/reset') await target.send('POST', itemsPath, { isComplete: true })
      return response
    })
    const faulty = await listen(t, server)
    const { code, stdout } = await run(t, ['verify', faulty, '--profile', 'a', '--reset', '--strict', '--only', 'A4'])
    assert.equal(code, 1, stdout)
    assert.match(stdout, /FAILED {2}A4 {2}the first id is 1/)
  })

  test('--reset exits with 2 for a server without a control API', async (t) => {
    const { url } = await transports['over a socket'](t, 'a')
    const { code, stderr } = await run(t, ['verify', url, '--profile', 'a', '--reset'])
    assert.equal(code, 2)
    assert.match(
      stderr,
      /cannot be reset: GET \/__admin\/items got status 404\. --reset needs a todo-service in development\.\n$/,
    )
  })

  test('exits with 1 for a broken rule and prints its text, the request, the expected and the actual response', async (t) => {
    const url = await serveWithStatuses(t, (path, status) => (status === 404 && /\d$/.test(path) ? 200 : status))
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--only', 'A2,a9'])
    assert.equal(code, 1)
    const [, request] =
      /^FAILED {2}A2 {2}GET returns 404 when no item has the id, and changes nothing\n +rule +`GET .* \(spec\)\n +request +(curl .*)\n +expected +status 404\n +got +status 200;/m.exec(
        stdout,
      ) ?? []
    assert.ok(request, stdout)
    assert.doesNotMatch(stdout, /A8/)
    const { stdout: repeated } = await promisify(execFile)('sh', ['-c', request])
    assert.match(repeated, /^HTTP\/1\.1 200 OK/)
  })

  test('prints a short command for a request with a large body', async (t) => {
    const sizes: number[] = []
    const client = await transports['over a socket'](t, 'a')
    const server = faultyServer(client, async (request, forward) => {
      if (request.body.length > 50_000) sizes.push(request.body.length)
      const response = await forward(request)
      return request.body.length > 50_000 ? { ...response, status: 500 } : response
    })
    const args = [
      'verify',
      await listen(t, server),
      '--profile',
      'a',
      '--strict',
      '--only',
      'A14,G5',
      '--report',
      'json',
    ]
    const { outcomes } = JSON.parse((await run(t, args)).stdout)
    const requests = outcomes.flatMap(({ failure }: { failure?: { request: string } }) => failure?.request ?? [])
    assert.ok(requests.length >= 3, `${requests.length} requests`)
    for (const request of requests) {
      assert.ok(request.length < 1000, `${request.length} characters`)
      const seen = sizes.length
      await promisify(execFile)('sh', ['-c', request])
      assert.ok(sizes.slice(0, seen).includes(sizes[seen] ?? 0), `${sizes[seen]} bytes: ${request}`)
    }
  })

  test('prints a deviation from a choice as a note, and fails it with --strict', async (t) => {
    const url = await serveWithStatuses(t, (_, status) => (status === 405 ? 404 : status === 204 ? 200 : status))
    const args = ['verify', url, '--profile', 'a', '--only', 'G6']
    const { code, stdout } = await run(t, args)
    assert.equal(code, 0)
    assert.match(stdout, /^note {4}G6 .*: expected status 405, got status 404; .* \(and 1 more\)$/m)
    assert.match(
      stdout,
      /--strict fails them, --report markdown shows them in full\.\n\d passed, 0 failed, 2 notes, 1 skipped \(.*\)\n$/,
    )
    const strict = await run(t, [...args, '--strict'])
    assert.equal(strict.code, 1)
    assert.match(strict.stdout, /2 failed, 1 skipped \(.*\)\n$/)
  })

  test('stops at the first failure with --bail', async (t) => {
    const url = await serveWithStatuses(t, (_, status) => (status === 204 ? 200 : status))
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--bail'])
    assert.equal(code, 1)
    assert.deepEqual(stdout.match(/^FAILED .*/gm), [
      'FAILED  A9  every DELETE that succeeds returns 204 without a body',
    ])
    assert.match(stdout, /^skipped \d+ checks of .*: the run stopped at the first failure$/m)
    assert.match(stdout, /\d passed, 1 failed, \d+ skipped \(.*\); the run is not complete\n$/)
  })

  test('prints the cause first, and counts the checks that could not be judged', async (t) => {
    const url = await serveWithStatuses(t, (_, status) => (status === 201 ? 500 : status))
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a'])
    assert.equal(code, 1)
    assert.match(stdout, /^FAILED {2}A3 {2}POST creates an item and returns it with its id\n/)
    assert.match(stdout, /^skipped \d+ checks of .*: could not be judged, because A3 failed \(POST creates .*\)$/m)
    assert.equal(stdout.match(/^FAILED /gm)?.length, 1)
    assert.ok(stdout.split('\n').length < 25, stdout)
  })

  test('leaves the items of a server unchanged', async (t) => {
    const client = await transports['over a socket'](t, 'b')
    await client.send('POST', itemsPath, { id: 'mine', name: 'mine', notes: 'mine' })
    const before = (await client.send('GET', itemsPath)).text
    const { code, stdout } = await run(t, ['verify', client.url, '--profile', 'b', '--quick'])
    assert.equal(code, 0)
    assert.match(stdout, /^skipped .*\bG7.*: the store is not in its initial state$/m)
    assert.match(stdout, /^skipped \d+ checks of S3, S4: no token was passed$/m)
    assert.equal((await client.send('GET', itemsPath)).text, before)
  })

  test('changes no existing item when the server returns its id for a new one', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    await client.send('POST', itemsPath, { name: 'mine', isComplete: false })
    const server = faultyServer(client, async (request, forward) => {
      const response = await forward(request)
      return request.method === 'POST' ? { ...response, text: response.text.replace(/"id":\d+/, '"id":1') } : response
    })
    assert.equal(
      (await run(t, ['verify', await listen(t, server), '--profile', 'a', '--quick', '--only', 'A*'])).code,
      1,
    )
    assert.match((await client.send('GET', `${itemsPath}/1`)).text, /"mine","isComplete":false/)
  })

  test('replaces the token by $TOKEN in reports', async (t) => {
    const { token = '' } = await transports['over a socket'](t, 'a')
    const server = createServer((request, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end(`${request.headers.authorization}`),
    )
    const args = ['verify', await listen(t, server), '--profile', 'a', '--only', 'S*', '--token', token]
    for (const format of ['pretty', 'json', 'junit', 'markdown']) {
      const { code, stdout } = await run(t, [...args, '--report', format])
      assert.equal(code, 1)
      assert.ok(!stdout.includes(token), format)
      assert.ok(stdout.includes('$TOKEN'), format)
    }
  })

  test('sends --header to a todo-service in development, too, for which it makes tokens itself', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const { url } = await serve(t, ['--no-https'], { XDG_CONFIG_HOME })
    const args = ['verify', url, '--profile', 'a', '--quick', '--only', 'A3,S3', '--header', 'X-Todo-Space: ada']
    const { code, stdout } = await run(t, args, { XDG_CONFIG_HOME })
    assert.equal(code, 0, stdout)
    assert.doesNotMatch(stdout, /no token was passed/)
    const methodsIn = async (space: string) => {
      const all = await journalOf(createClient(`${url}${space}`))
      return new Set(all.filter(({ path }) => path.startsWith(itemsPath)).map(({ method }) => method))
    }
    assert.deepEqual(await methodsIn(''), new Set(['GET']))
    assert.ok((await methodsIn('/~ada')).has('POST'))
  })

  test('lists the items that it could not delete', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    const server = faultyServer(client, async (request, forward) =>
      request.method === 'DELETE' ? { status: 403, headers: {}, text: '' } : forward(request),
    )
    const { code, stdout, stderr } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--only', 'A2'])
    assert.equal(code, 2)
    assert.match(stdout, /^Could not be deleted:\n {2}\/api\/todoitems\/\d+$/m)
    assert.match(
      stdout,
      /: DELETE \/api\/todoitems\/\d returned 403 and left the item, so no more like it were created$/m,
    )
    assert.match(stdout, /0 failed, \d skipped \(.*\); the run is not complete\n$/)
    assert.match(stderr, /^todo-service: \d+ items of this run could not be deleted; the report lists them\.\n$/)
  })

  test('stops after the current check on SIGINT and deletes its items', async (t) => {
    const client = await transports['over a socket'](t, 'b')
    let requests = 0
    const server = faultyServer(client, (request, forward) => {
      if (++requests === 30) running.process.kill('SIGINT')
      return forward(request)
    })
    const running = start(t, ['verify', await listen(t, server), '--profile', 'b', '--only', 'B*'])
    const { code, stdout, stderr } = await running.ended
    assert.equal(code, 2)
    assert.match(stdout, /: the run was stopped$/m)
    assert.match(stderr, /Stopped before the end\./)
    assert.equal(JSON.parse((await client.send('GET', itemsPath)).text).length, 3)
  })

  test('accepts a URL with a path', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    const server = faultyServer(client, async (request, forward) =>
      request.path.startsWith('/prefix')
        ? forward({ ...request, path: request.path.slice('/prefix'.length) })
        : { status: 500, headers: {}, text: '' },
    )
    const url = await listen(t, server)
    assert.equal((await run(t, ['verify', `${url}/prefix/`, '--profile', 'a', '--only', 'S2'])).code, 0)
  })

  test('exits with 2 for invalid arguments and prints a message for each', async (t) => {
    const invalid = 'verify ftp://x --profile c --only A8;B --timeout 0 --report xml extra'
    const { code, stderr } = await run(t, invalid.split(' '))
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 6, stderr)
    const withToken = await run(t, ['verify', 'http://x', '--profile', 'a', '--token', 'Bearer abc.def.ghi'])
    assert.match(
      withToken.stderr,
      /^todo-service: --token must be a JSON Web Token: three parts with dots between them\.$/m,
    )
    const withoutArguments = await run(t, ['verify'])
    assert.deepEqual([withoutArguments.code, withoutArguments.stderr.match(/^todo-service: Which/gm)?.length], [2, 2])
    const { url } = await transports['over a socket'](t, 'a')
    const noMatch = await run(t, ['verify', url, '--profile', 'a', '--only', 'B*'])
    assert.deepEqual([noMatch.code, noMatch.stderr], [2, 'todo-service: No rule of Profile A matches B*.\n'])
    const unwritable = await run(t, ['verify', url, '--profile', 'a', '--only', 'S2', '--out', '/nowhere/x'])
    assert.deepEqual([unwritable.code, unwritable.stderr.split('\n').length], [2, 2])
  })
})

suite('verify, reports', () => {
  /** The report on a server that breaks A2 and deviates from G6. */
  async function report(t: TestContext, format: string): Promise<string> {
    const url = await serveWithStatuses(t, (path, status) =>
      status === 404 && /\d$/.test(path) ? 200 : status === 405 ? 404 : status,
    )
    const out = join(temporaryFolder(t), 'report')
    const rules = ['--only', 'A2,G6,S3']
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', ...rules, '--report', format, '--out', out])
    assert.equal(code, 1)
    assert.match(stdout, /^\d+ passed, \d+ failed, \d+ notes, \d+ skipped \(.*\)\. The report is in .*\n$/)
    return readFileSync(out, 'utf8')
  }

  test('the JSON report is valid against its schema', async (t) => {
    const schema = JSON.parse(readFileSync(new URL('../../../docs/verify-report.schema.json', import.meta.url), 'utf8'))
    const written = JSON.parse(await report(t, 'json'))
    const isValid: (value: unknown) => boolean = new Ajv().compile(schema)
    const valid = isValid(written)
    assert.ok(valid)
    assert.equal(written.ok, false)
    assert.ok(written.failed > 0 && written.deviations > 0 && written.skipped > 0)
  })

  test('the JUnit report is valid against its schema', async (t) => {
    const contents = await report(t, 'junit')
    const schema = readFileSync(new URL('../../../test/verify/junit.xsd', import.meta.url), 'utf8')
    const { valid, errors } = await validateXML({
      xml: [{ fileName: 'report.xml', contents }],
      schema: [{ fileName: 'junit.xsd', contents: schema }],
    })
    assert.ok(valid, JSON.stringify(errors))
    assert.match(contents, /<failure message="expected status 404" type="A2">/)
    assert.match(contents, /<skipped message="no token was passed"\/>/)
  })

  test('the Markdown report has a section with the request for each failure', async (t) => {
    const contents = await report(t, 'markdown')
    assert.match(contents, /^# Profile A at http:\/\/127\.0\.0\.1:\d+: the contract is broken\n/)
    assert.match(
      contents,
      /^## Failed: A2 GET returns 404 when no item has the id, and changes nothing\n\n> `GET .*\n\n```\ncurl -i .*\n```\n/m,
    )
    assert.match(contents, /^## Note: G6 /m)
  })

  test('the extension of the file chooses its format, beside the report on standard output', async (t) => {
    const { url } = await transports['over a socket'](t, 'a')
    const args = ['verify', url, '--profile', 'a', '--only', 'S2']
    for (const [name, start] of [
      ['report.xml', '<?xml '],
      ['report.JSON', '{\n'],
      ['report.md', '# Profile A at '],
    ] as const) {
      const out = join(temporaryFolder(t), name)
      const { code, stdout } = await run(t, [...args, '--out', out])
      assert.equal(code, 0)
      assert.match(stdout, /^S {2}\d passed$/m)
      assert.ok(readFileSync(out, 'utf8').startsWith(start), name)
    }
    const out = join(temporaryFolder(t), 'report.xml')
    assert.match((await run(t, [...args, '--report', 'markdown', '--out', out])).stdout, /^# Profile A at /)
    assert.match(readFileSync(out, 'utf8'), /^<\?xml /)
    assert.match(
      (await run(t, [...args, '--report', 'junit', '--out', out])).stdout,
      /^\d passed, .* The report is in .*\n$/,
    )
  })

  test('the last report stays until it is replaced by the new one, with the permissions of its file', async (t) => {
    const folder = temporaryFolder(t)
    const out = join(folder, 'report.json')
    writeFileSync(out, 'last report')
    chmodSync(out, 0o640)
    const { mode } = statSync(out)
    const unreachable = ['verify', `http://127.0.0.1:${await freePort()}`, '--profile', 'a', '--out', out]
    assert.equal((await run(t, unreachable)).code, 2)
    const seen = new Set<string>()
    const server = faultyServer(await transports['over a socket'](t, 'a'), (request, forward) => {
      seen.add(readFileSync(out, 'utf8'))
      return forward(request)
    })
    const { code } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--only', 'S2', '--out', out])
    assert.equal(code, 0)
    assert.deepEqual([...seen], ['last report'])
    assert.equal(JSON.parse(readFileSync(out, 'utf8')).ok, true)
    assert.equal(statSync(out).mode, mode)
    assert.deepEqual(readdirSync(folder), ['report.json'])
  })

  test('--out writes to what a symbolic link leads to, and to a pipe', {
    skip: process.platform === 'win32',
  }, async (t) => {
    const { url } = await transports['over a socket'](t, 'a')
    const folder = temporaryFolder(t)
    const [file, link, pipe] = [join(folder, 'file'), join(folder, 'link.json'), join(folder, 'pipe.json')]
    writeFileSync(file, 'last report')
    symlinkSync(file, link)
    await promisify(execFile)('mkfifo', [pipe])
    const reader = runCommand(t, 'cat', [pipe])
    for (const out of [link, pipe])
      assert.equal((await run(t, ['verify', url, '--profile', 'a', '--only', 'S2', '--out', out])).code, 0)
    assert.ok(lstatSync(link).isSymbolicLink())
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).ok, true)
    assert.equal(JSON.parse((await reader).stdout).ok, true)
  })

  test('the library returns the results', async (t) => {
    const { url, token } = await transports['over a socket'](t, 'b')
    const { verify } = await import('todo-item-service/verify')
    const { ok, passed, failed, skipped } = await verify({ url, profile: 'b', token, only: ['S2', 'S3'] })
    assert.deepEqual([ok, failed, skipped], [true, 0, 1])
    assert.ok(passed > 3)
  })
})

suite('verify exits with 2 and one message for a server that', () => {
  async function expectCannotVerify(t: TestContext, url: string, message: RegExp, ...args: string[]): Promise<void> {
    const { code, stdout, stderr } = await run(t, ['verify', url, '--profile', 'a', ...args])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, message)
    assert.equal(stderr.split('\n').length, 2)
  }

  /** A TCP server that sends `response` and then closes the connection; undefined: sends nothing and keeps it open. */
  function tcpServer(t: TestContext, response?: string): Promise<string> {
    const server = createTcpServer((socket) => {
      cleanUp(t, () => socket.destroy())
      socket.on('error', () => {})
      socket.once('data', () => response !== undefined && socket.end(response))
    })
    return listen(t, server)
  }

  test('does not listen', async (t) =>
    expectCannotVerify(t, `http://127.0.0.1:${await freePort()}`, /cannot be checked: .*ECONNREFUSED/))

  test('does not speak HTTP', async (t) =>
    expectCannotVerify(t, await tcpServer(t, 'SSH-2.0-x\r\n'), /cannot be checked: the response is not HTTP/))

  test('does not respond', async (t) =>
    expectCannotVerify(
      t,
      await tcpServer(t),
      /cannot be checked: no complete response within 300 ms/,
      '--timeout',
      '300',
    ))

  test('closes the connection in the middle of a body', async (t) =>
    expectCannotVerify(
      t,
      await tcpServer(t, 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n['),
      /cannot be checked: the connection was closed/,
    ))

  test('sends an endless body', async (t) => {
    const server = createServer((_, response) => {
      const writeMore = () => {
        while (response.write('x'.repeat(65_536)) && !response.destroyed);
      }
      response.on('drain', writeMore)
      writeMore()
    })
    await expectCannotVerify(t, await listen(t, server), /cannot be checked: the response is larger than/)
  })

  test('redirects', async (t) => {
    const server = createServer((request, response) => response.writeHead(302, { location: request.url }).end())
    await expectCannotVerify(t, await listen(t, server), /redirects to .*: check that address instead/)
  })

  test('has a self-signed certificate, unless --insecure is set', async (t) => {
    const running = start(t, ['serve', '--profile', 'b', '--host', '127.0.0.1', '--port', '0', '--https-port', '0'])
    const [url] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
    await expectCannotVerify(
      t,
      url,
      /The certificate of https:\S+ is self-signed: trust it with --ca FILE, or accept any with --insecure\.\n$/,
    )
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'b', '--insecure', '--only', 'B12,S2'])
    assert.equal(code, 0, stdout)
    assert.match(stdout, /^skipped B12 {2}plain HTTP is served or redirected to HTTPS: only for an http URL$/m)
  })
})

suite('verify exits with 1 for a server that', () => {
  test('responds with HTML to every request', async (t) => {
    const server = createServer((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
    )
    const { code, stdout } = await run(t, ['verify', await listen(t, server), '--profile', 'b', '--only', 'B1,B3'])
    assert.equal(code, 1)
    assert.match(stdout, /expected {2}a JSON body\n +got +status 200; content-type: text\/html; body <h1>Hello<\/h1>/)
  })

  test('stops responding', async (t) => {
    let requests = 0
    const server = createServer(({ url }, response) => {
      if (url?.startsWith('/__admin')) response.writeHead(404).end()
      else if (++requests < 3) response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
    })
    const { code, stdout } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--timeout', '1000'])
    assert.equal(code, 1)
    assert.match(stdout, /expected {2}a response\n +got +no complete response within 1000 ms/)
    assert.match(stdout, /: the server stopped responding$/m)
    assert.ok(requests < 20, `${requests} requests to a server that does not respond`)
  })
})
