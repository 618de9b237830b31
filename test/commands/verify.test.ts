import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { validateXML } from 'xmllint-wasm'
import { run, start } from '../support/cli.ts'
import { transports } from '../support/running.ts'

const items = '/api/todoitems'

/** A server that answers as it is told, and its URL. */
async function serving(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A correct service behind a server that changes its answers. */
async function bentServer(t: TestContext, change: (path: string, status: number) => number): Promise<string> {
  const service = await transports['over a socket'](t, 'a')
  return serving(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url = '', headers } = request
    const type = headers['content-type']
    const body = type || chunks.length > 0 ? Buffer.concat(chunks) : undefined
    const answer = await service.send(method, url, body, {
      'content-type': type,
      accept: headers.accept,
      authorization: headers.authorization,
    })
    const { connection: _, 'keep-alive': __, ...kept } = answer.headers
    response.writeHead(change(url, answer.status), kept).end(answer.text)
  })
}

suite('verify', () => {
  test('a correct server: exit code 0, a line for each group of rules, and the sums', async (t) => {
    for (const profile of ['a', 'b'] as const) {
      const { url, token } = await transports['over a socket'](t, profile)
      const { code, stdout, stderr } = await run(t, ['verify', url, '--profile', profile, '--strict'], {
        TODO_TOKEN: token,
      })
      assert.deepEqual([code, stderr], [0, ''], stdout)
      assert.match(stdout, /^G {2}\d+ passed, 1 skipped$/m)
      assert.match(stdout, /^S {2}\d+ passed$/m)
      assert.match(stdout, /^Not to be seen from outside:\n {2}G7 /m)
      assert.match(stdout, /\n\d{3} passed, 0 failed, \d skipped\n$/)
      assert.ok(!stdout.includes('\u001b'), 'no colours where nobody watches')
    }
  })

  test('a broken rule: exit code 1; the rule, its sentence, the request, what was expected and what came', async (t) => {
    const url = await bentServer(t, (path, status) => (status === 404 && /\d$/.test(path) ? 200 : status))
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--only', 'A2,a9'])
    assert.equal(code, 1)
    const [, request] =
      /^FAILED {2}A2 {2}no item has the id: 404\n +rule +`GET .* \(spec\)\n +request +(curl .*)\n +expected +status 404\n +got +status 200;/m.exec(
        stdout,
      ) ?? []
    assert.ok(request, stdout)
    assert.doesNotMatch(stdout, /A8/)
    const { stdout: again } = await promisify(execFile)('sh', ['-c', request])
    assert.match(again, /^HTTP\/1\.1 200 OK/)
  })

  test('a deviation from a choice is a note, and fails with --strict', async (t) => {
    const url = await bentServer(t, (_, status) => (status === 405 ? 404 : status))
    const args = ['verify', url, '--profile', 'a', '--only', 'G6']
    const { code, stdout } = await run(t, args)
    assert.equal(code, 0)
    assert.match(stdout, /^note {4}G6 /m)
    assert.match(
      stdout,
      /3 deviations from choices are notes; with --strict they fail\.\n\d passed, 0 failed, 1 skipped\n$/,
    )
    const strict = await run(t, [...args, '--strict'])
    assert.equal(strict.code, 1)
    assert.match(strict.stdout, /3 failed, 1 skipped\n$/)
  })

  test('leaves a server with data as it was', async (t) => {
    for (const profile of ['a', 'b'] as const) {
      const service = await transports['over a socket'](t, profile)
      const item = profile === 'a' ? { name: 'mine', isComplete: false } : { id: 'mine', name: 'mine', notes: 'mine' }
      await service.send('POST', items, item)
      const before = (await service.send('GET', items)).text
      const { code, stdout } = await run(t, ['verify', service.url, '--profile', profile])
      assert.equal(code, 0)
      assert.match(stdout, /^skipped G7 .*: the store has been written to$/m)
      assert.match(stdout, /^skipped S3 .*: it needs a token, and none was given$/m)
      assert.equal((await service.send('GET', items)).text, before)
    }
  })

  test('touches no item of somebody else, even where the server confuses them', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    await service.send('POST', items, { name: 'mine', isComplete: false })
    const url = await serving(t, async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const { method = '', url: path = '', headers } = request
      const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined
      const answer = await service.send(method, path, body, { 'content-type': headers['content-type'] })
      const { connection: _, 'keep-alive': __, 'content-length': ___, ...kept } = answer.headers
      const text = method === 'POST' ? answer.text.replace(/"id":\d+/, '"id":1') : answer.text
      response.writeHead(answer.status, kept).end(text)
    })
    assert.equal((await run(t, ['verify', url, '--profile', 'a'])).code, 1)
    assert.match((await service.send('GET', `${items}/1`)).text, /"mine","isComplete":false/)
  })

  test('a token in an answer or a request is not in the report', async (t) => {
    const { token } = await transports['over a socket'](t, 'a')
    const url = await serving(t, (request, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end(`${request.headers.authorization}`),
    )
    for (const form of ['pretty', 'json', 'junit', 'markdown']) {
      const { code, stdout } = await run(t, [
        'verify',
        url,
        '--profile',
        'a',
        '--only',
        'S*',
        '--report',
        form,
        '--token',
        token ?? '',
      ])
      assert.equal(code, 1)
      assert.ok(!stdout.includes(token ?? '-'), form)
      assert.ok(stdout.includes('$TOKEN'), form)
    }
  })

  test('says so if it could not delete what it made', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const url = await serving(t, async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const { method = '', url: path = '', headers } = request
      const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined
      const answer =
        method === 'DELETE'
          ? { status: 403, text: '' }
          : await service.send(method, path, body, { 'content-type': headers['content-type'] })
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text)
    })
    const { code, stdout, stderr } = await run(t, ['verify', url, '--profile', 'a', '--only', 'A2'])
    assert.equal(code, 0)
    assert.match(stdout, /^Could not be deleted:\n {2}\/api\/todoitems\/\d+$/m)
    assert.match(stderr, /^todo-service: \d+ items of this run could not be deleted; the report names them\.\n$/)
  })

  test('Ctrl-C ends it after the check that runs, with what it made deleted', async (t) => {
    const service = await transports['over a socket'](t, 'b')
    let requests = 0
    const url = await serving(t, async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      if (++requests === 30) running.process.kill('SIGINT')
      const { method = '', url: path = '', headers } = request
      const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined
      const answer = await service.send(method, path, body, { 'content-type': headers['content-type'] })
      const { connection: _, 'keep-alive': __, ...kept } = answer.headers
      response.writeHead(answer.status, kept).end(answer.text)
    })
    const running = start(t, ['verify', url, '--profile', 'b', '--only', 'B*'])
    const { code, stdout, stderr } = await running.ended
    assert.equal(code, 2)
    assert.match(stdout, /: it was stopped$/m)
    assert.match(stderr, /Stopped before the end\./)
    assert.equal(JSON.parse((await service.send('GET', items)).text).length, 3)
  })

  test('a URL may have a path of its own', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const url = await serving(t, async (request, response) => {
      const { method = '', url: path = '' } = request
      const answer = await service.send(method, path.replace(/^\/prefix/, ''))
      response
        .writeHead(path.startsWith('/prefix') ? answer.status : 500, {
          'content-type': answer.headers['content-type'] ?? '',
        })
        .end(answer.text)
    })
    assert.equal((await run(t, ['verify', `${url}/prefix/`, '--profile', 'a', '--only', 'S2'])).code, 0)
  })

  test('mistakes: exit code 2 and a sentence each', async (t) => {
    const { code, stderr } = await run(t, [
      'verify',
      'ftp://x',
      '--profile',
      'c',
      '--only',
      'A8;B',
      '--timeout',
      '0',
      '--report',
      'xml',
      'extra',
    ])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 6, stderr)
    const nothing = await run(t, ['verify'])
    assert.deepEqual([nothing.code, nothing.stderr.match(/^todo-service: Which/gm)?.length], [2, 2])
    const { url } = await transports['over a socket'](t, 'a')
    const none = await run(t, ['verify', url, '--profile', 'a', '--only', 'B*'])
    assert.deepEqual([none.code, none.stderr], [2, 'todo-service: No rule of profile a matches B*.\n'])
    const unwritable = await run(t, ['verify', url, '--profile', 'a', '--only', 'S2', '--out', '/nowhere/x'])
    assert.deepEqual([unwritable.code, unwritable.stderr.split('\n').length], [2, 2])
  })
})

suite('verify, reports', () => {
  async function report(t: TestContext, form: string): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const url = await bentServer(t, (path, status) =>
      status === 404 && /\d$/.test(path) ? 200 : status === 405 ? 404 : status,
    )
    const out = join(folder, 'report')
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--report', form, '--out', out])
    assert.equal(code, 1)
    assert.match(stdout, /^\d+ passed, \d+ failed, \d+ skipped\. The report is in .*\n$/)
    return readFileSync(out, 'utf8')
  }

  test('JSON is valid by its schema', async (t) => {
    const schema = JSON.parse(readFileSync(new URL('../../../docs/verify-report.schema.json', import.meta.url), 'utf8'))
    const written = JSON.parse(await report(t, 'json'))
    const isValid: (value: unknown) => boolean = new Ajv().compile(schema)
    const valid = isValid(written)
    assert.ok(valid)
    assert.equal(written.ok, false)
    assert.ok(written.failed > 0 && written.deviations > 0 && written.skipped > 0)
  })

  test('JUnit is valid by its schema', async (t) => {
    const contents = await report(t, 'junit')
    const schema = readFileSync(new URL('../../../test/verify/junit.xsd', import.meta.url), 'utf8')
    const { valid, errors } = await validateXML({
      xml: [{ fileName: 'report.xml', contents }],
      schema: [{ fileName: 'junit.xsd', contents: schema }],
    })
    assert.ok(valid, JSON.stringify(errors))
    assert.match(contents, /<failure message="expected status 404" type="A2">/)
    assert.match(contents, /<skipped message="it needs a token, and none was given"\/>/)
  })

  test('Markdown says what is broken, with the request', async (t) => {
    const contents = await report(t, 'markdown')
    assert.match(contents, /^# Profile A at http:\/\/127\.0\.0\.1:\d+: the contract is broken\n/)
    assert.match(contents, /^## Failed: A2 no item has the id: 404\n\n> `GET .*\n\n```\ncurl -i .*\n```\n/m)
    assert.match(contents, /^## Note: G6 /m)
  })

  test('as a library it returns the results', async (t) => {
    const { url, token } = await transports['over a socket'](t, 'b')
    const { verify } = await import('todo-item-service/verify')
    const { ok, passed, failed, skipped } = await verify({ url, profile: 'b', token })
    assert.deepEqual([ok, failed, skipped], [true, 0, 1])
    assert.ok(passed > 100)
  })
})

suite('verify survives servers that', () => {
  /** Nobody listens here. */
  async function closedPort(): Promise<number> {
    const server = createTcpServer().listen(0, '127.0.0.1')
    await new Promise((listening) => server.once('listening', listening))
    const { port } = server.address() as AddressInfo
    await new Promise((closed) => server.close(closed))
    return port
  }

  async function raw(t: TestContext, answer: (socket: Socket) => void): Promise<string> {
    const sockets = new Set<Socket>()
    const server = createTcpServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('data', () => answer(socket))
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    t.after(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const cannot = async (t: TestContext, url: string, words: RegExp) => {
    const { code, stdout, stderr } = await run(t, ['verify', url, '--profile', 'a', '--timeout', '300'])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, words)
    assert.equal(stderr.split('\n').length, 2)
  }

  test('are not there', async (t) =>
    cannot(t, `http://127.0.0.1:${await closedPort()}`, /cannot be checked: .*ECONNREFUSED/))
  test('speak no HTTP', async (t) =>
    cannot(t, await raw(t, (socket) => socket.end('SSH-2.0-x\r\n')), /cannot be checked: the answer is not HTTP/))
  test('hang', async (t) => cannot(t, await raw(t, () => {}), /cannot be checked: no whole answer within 300 ms/))
  test('drop the connection in the middle of a body', async (t) =>
    cannot(
      t,
      await raw(t, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[')),
      /cannot be checked: the connection was cut/,
    ))
  test('stream forever', async (t) => {
    const url = await serving(t, (_, response) => {
      const more = () => {
        while (response.write('x'.repeat(65_536)) && !response.destroyed);
      }
      response.on('drain', more)
      more()
    })
    await cannot(t, url, /cannot be checked: (?:no whole answer|the answer has more than)/)
  })
  test('redirect in circles', async (t) =>
    cannot(
      t,
      await serving(t, (request, response) => response.writeHead(302, { location: request.url }).end()),
      /redirects to .*: check that address instead/,
    ))
  test('speak HTTPS with a certificate that nobody vouches for', async (t) => {
    const running = start(t, ['serve', '--profile', 'a', '--host', '127.0.0.1', '--port', '0', '--https-port', '0'])
    const [url] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
    await cannot(t, url, /cannot be checked: self-signed certificate/)
    assert.equal((await run(t, ['verify', url, '--profile', 'a', '--insecure', '--only', 'A*'])).code, 0)
  })

  test('answer HTML to everything', async (t) => {
    const url = await serving(t, (_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
    )
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'b', '--only', 'B1,B3'])
    assert.equal(code, 1)
    assert.match(stdout, /expected {2}a JSON body\n +got +status 200; content-type: text\/html; body <h1>Hello<\/h1>/)
  })

  test('stop answering half-way', async (t) => {
    let requests = 0
    const url = await serving(t, (_, response) => {
      if (++requests < 3) response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
    })
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--timeout', '200'])
    assert.equal(code, 1)
    assert.match(stdout, /expected {2}an answer\n +got +no whole answer within 200 ms/)
    assert.match(stdout, /: the server has stopped answering$/m)
    assert.ok(requests < 20, `${requests} requests to a server that does not answer`)
  })
})
