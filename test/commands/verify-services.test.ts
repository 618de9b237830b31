import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { generate } from 'selfsigned'
import { cleanUp } from '../support/cleanup.ts'
import { run, serve, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { freePort } from '../support/port.ts'
import { transports } from '../support/running.ts'
import { assertCannotVerify, assertPassed, itemsPath, listItems } from './verified-services.ts'

// test/slow/services.test.ts has services that require a token, or limit something.

suite('verify of a service', { concurrency: 2 }, () => {
  test('whose proxy limits the rate: says how many requests were repeated', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let [requests, rejected] = [0, 0]
    const server = faultyServer(client, (request, forward) => {
      const headers = [{ 'retry-after': '0' }, { 'retry-after': new Date().toUTCString() }, {}][rejected]
      if (++requests % 5 > 0 || !headers) return forward(request)
      rejected++
      return Promise.resolve({ status: 429, headers: { ...headers }, text: '' })
    })
    const ended = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--only', 'A2'])
    assertPassed(ended)
    assert.equal(rejected, 3)
    assert.match(ended.stdout, new RegExp(`^Requests repeated after a response 429 or 503: ${rejected}$`, 'm'))
    assert.equal((await listItems(client.url)).length, 0)
  })

  test('that is full from the start is not complete', async (t) => {
    const { url } = await serve(t, ['--no-https', '--max-items', '2'])
    for (let i = 0; i < 2; i++) await createClient(url).send('POST', itemsPath, { isComplete: true })
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--only', 'A2'])
    assert.deepEqual([code, /no more items \(status 503\)$/m.test(stdout)], [2, true], stdout)
  })
})

suite('verify --wait', () => {
  test('waits for a server that does not listen yet', async (t) => {
    const port = `${await freePort()}`
    const url = `http://127.0.0.1:${port}`
    const running = start(t, ['verify', url, '--profile', 'a', '--only', 'S2', '--wait', '30'])
    start(t, ['serve', '--profile', 'a', '--host', '127.0.0.1', '--port', port, '--no-https'])
    assertPassed(await running.ended)
  })

  test('waits for a server behind a proxy that responds 503 until it has started', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let requests = 0
    const server = faultyServer(client, (request, forward) =>
      // verify asks for it to see whether the service is one that it can make a token for.
      request.path !== '/__admin/info' && ++requests < 3
        ? Promise.resolve({ status: 503, headers: {}, text: '' })
        : forward(request),
    )
    const url = await listen(t, server)
    const args = ['verify', url, '--profile', 'a', '--only', 'S2']
    assert.equal((await run(t, args)).code, 1)
    requests = 0
    assertPassed(await run(t, [...args, '--wait', '30']))
  })

  test('says how long it waited', async (t) => {
    const args = ['verify', `http://127.0.0.1:${await freePort()}`, '--profile', 'a', '--wait', '1']
    assertCannotVerify(await run(t, args), /cannot be checked: .*ECONNREFUSED.* \(waited 1 s\)\. Check the URL/)
  })

  test('ends with SIGINT, while no server listens and while one does not respond', async (t) => {
    const silent = createTcpServer((socket) => cleanUp(t, () => socket.destroy()))
    for (const url of [`http://127.0.0.1:${await freePort()}`, await listen(t, silent)]) {
      const running = start(t, ['verify', url, '--profile', 'a', '--wait', '600', '--timeout', '600000'])
      const startedAt = Date.now()
      await untilHandled(() => running.process.kill('SIGINT'))
      assertCannotVerify(await running.ended, /^todo-service: Stopped before http:\S+ responded\.\n$/)
      assert.ok(Date.now() - startedAt < 5000)
    }
  })
})

/** Repeats the call until it does not throw. */
async function untilHandled(call: () => unknown): Promise<void> {
  for (;;)
    try {
      call()
      return
    } catch {
      await new Promise(setImmediate)
    }
}

suite('verify over TLS', () => {
  /** A service over HTTP and HTTPS, and the file with its self-signed certificate. */
  async function serveTls(t: TestContext) {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const { running, url } = await serve(t, ['--https-port', '0'], { XDG_CONFIG_HOME })
    const [https] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
    return { http: url, https, ca: join(XDG_CONFIG_HOME, 'todo-item-service', 'localhost.pem') }
  }
  const verifyS2 = (t: TestContext, url: string, ...args: string[]) =>
    run(t, ['verify', url, '--profile', 'a', '--only', 'S2', ...args])

  test('names --ca and --insecure for a self-signed certificate, and accepts either', async (t) => {
    const { https, ca } = await serveTls(t)
    assertCannotVerify(
      await verifyS2(t, https),
      /^todo-service: The certificate of https:\S+ is self-signed: trust it with --ca FILE, or accept any with --insecure\.\n$/,
    )
    assertPassed(await verifyS2(t, https, '--ca', ca))
    assertPassed(await verifyS2(t, https, '--insecure'))
  })

  test('rejects another certificate with --ca, and a file that has none', async (t) => {
    const { https } = await serveTls(t)
    const { ca: otherCa } = await serveTls(t)
    assertCannotVerify(await verifyS2(t, https, '--ca', otherCa), /is self-signed/)
    const { code, stderr } = await verifyS2(t, https, '--ca', 'package.json')
    assert.deepEqual([code, /--ca must be a readable file in PEM format/.test(stderr)], [2, true], stderr)
  })

  test('names the other scheme where a port speaks it', async (t) => {
    const { http, https } = await serveTls(t)
    const [httpOnTls, tlsOnHttp] = [https.replace('https:', 'http:'), http.replace('http:', 'https:')]
    assertCannotVerify(
      await verifyS2(t, `${tlsOnHttp}/prefix`),
      new RegExp(`speaks HTTP without TLS: use ${http}/prefix\n$`),
    )
    assertCannotVerify(await verifyS2(t, httpOnTls), new RegExp(`speaks HTTPS: use ${https}\n$`))
  })

  test('names the other scheme for what proxies respond to plain HTTP', async (t) => {
    for (const text of [
      'The plain HTTP request was sent to HTTPS port',
      'Client sent an HTTP request to an HTTPS server.',
    ]) {
      const url = await listen(
        t,
        createServer((_, response) => response.writeHead(400).end(text)),
      )
      assertCannotVerify(await verifyS2(t, url), new RegExp(`speaks HTTPS: use ${url.replace('http', 'https')}\n$`))
    }
  })

  test('says that a certificate has expired, or is for another host', async (t) => {
    const day = 86_400_000
    for (const [name, days, message] of [
      ['127.0.0.1', -1, /has expired: trust it with --ca FILE, or accept any with --insecure\.\n$/],
      ['todo.example', 1, /is for another host: use a name that it has, or accept any with --insecure\.\n$/],
    ] as const) {
      const { cert, private: key } = await generate([{ name: 'commonName', value: name }], {
        keyType: 'ec',
        algorithm: 'sha256',
        notBeforeDate: new Date(Date.now() - 2 * day),
        notAfterDate: new Date(Date.now() + days * day),
        extensions: [
          {
            name: 'subjectAltName',
            altNames: name === '127.0.0.1' ? [{ type: 7, ip: name }] : [{ type: 2, value: name }],
          },
        ],
      })
      const url = await listen(t, createTlsServer({ cert, key }))
      const ca = join(temporaryFolder(t), 'ca.pem')

      writeFileSync(ca, cert)
      assertCannotVerify(await verifyS2(t, url.replace('http:', 'https:'), '--ca', ca), message)
    }
  })

  test('suggests the address of the server when HTTP redirects to HTTPS', async (t) => {
    const url = await listen(
      t,
      createServer((request, response) =>
        response.writeHead(307, { location: `https://todo.example${request.url}` }).end(),
      ),
    )
    assertCannotVerify(await verifyS2(t, url), /redirects to https:\/\/todo\.example: check that address instead\.\n$/)
  })

  test('commands for a server with an untrusted certificate accept it, too', async (t) => {
    const { https } = await serveTls(t)
    const { code, stdout } = await run(t, ['verify', https, '--profile', 'b', '--insecure', '--only', 'B3'])
    assert.equal(code, 1)
    assert.match(stdout, /^ +request +curl -i -k --path-as-is -X POST 'https:/m)
  })
})
