import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { generate } from 'selfsigned'
import { cleanUp } from '../support/cleanup.ts'
import { type Ended, run, serve, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { freePort } from '../support/port.ts'
import { transports } from '../support/running.ts'

const itemsPath = '/api/todoitems'
const profiles = ['a', 'b'] as const

const listItems = async (url: string, headers = {}) =>
  JSON.parse((await createClient(url).send('GET', itemsPath, undefined, headers)).text) as Record<string, unknown>[]

function assertPassed({ code, stdout, stderr }: Ended): void {
  assert.deepEqual([code, stderr], [0, ''], stdout)
}

function assertCannotVerify({ code, stdout, stderr }: Ended, message: RegExp): void {
  assert.deepEqual([code, stdout], [2, ''], stderr)
  assert.match(stderr, message)
  assert.equal(stderr.split('\n').length, 2, stderr)
}

suite('verify of a service', { concurrency: 2 }, () => {
  for (const profile of profiles) {
    test(`${profile} that requires a token for the items`, async (t) => {
      const { url, token = '' } = await transports['over a socket'](t, profile, { requireAuth: true })
      const args = ['verify', url, '--profile', profile]
      assertPassed(await run(t, [...args, '--token', token, '--quick']))
      const headers = { authorization: `Bearer ${token}` }
      assert.equal((await listItems(url, headers)).length, profile === 'a' ? 0 : 3)
      assertCannotVerify(await run(t, args), /requires a token for \/api\/todoitems: pass --token\.\n$/)
      const other = `${token.slice(0, -4)}AAAA`
      assertCannotVerify(
        await run(t, [...args, '--token', other]),
        /rejects the token for \/api\/todoitems \(401\)\.\n$/,
      )
    })

    test(`${profile} that limits the rate of requests`, async (t) => {
      const { url } = await serve(t, ['--no-https', '--rate-limit', '20/s'], {}, profile)
      const only = profile === 'a' ? 'A9' : 'B5'
      const ended = await run(t, ['verify', url, '--profile', profile, '--only', only])
      assertPassed(ended)
      assert.match(ended.stdout, /\d+ passed, 0 failed, 0 skipped/)
      const client = createClient(url)
      let listed = await client.send('GET', itemsPath)
      while (listed.status === 429) listed = await client.send('GET', itemsPath)
      assert.equal(JSON.parse(listed.text).length, profile === 'a' ? 0 : 3)
    })

    test(`${profile} that has room for a few items`, async (t) => {
      const { url } = await serve(t, ['--no-https', '--max-items', '15'], {}, profile)
      const only = profile === 'a' ? 'A1,A2,A4,A9' : 'B1,B2,B5,B8'
      const ended = await run(t, ['verify', url, '--profile', profile, '--only', only])
      assertPassed(ended)
      assert.doesNotMatch(ended.stdout, /^note/m)
      const skipped =
        /^skipped [AB]1 {2}the list has every one of 105 items: the server takes no more items \(status \d{3}\)$/m
      assert.match(ended.stdout, skipped)
      assert.equal((await listItems(url)).length, profile === 'a' ? 0 : 3)
    })

    test(`${profile} that another run and another client use at the same time`, async (t) => {
      const { url } = await transports['over a socket'](t, profile)
      let isRunning = true
      const others = useItems(url, profile, () => isRunning)
      // Those that other clients could mislead: about the list, ids that are assigned or free, and items that are gone.
      const only = profile === 'a' ? 'A1,A2,A4,A8,A9' : 'B1,B2,B5,B8'
      const args = ['verify', url, '--profile', profile, '--only', only]
      const ended = await Promise.all([1, 2].map(() => run(t, args)))
      isRunning = false
      assert.ok((await others) > 0)
      for (const one of ended) assertPassed(one)
      assert.equal((await listItems(url)).length, profile === 'a' ? 0 : 3)
    })
  }

  test('whose proxy limits the rate: says how many requests were repeated', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let [requests, rejected] = [0, 0]
    const server = faultyServer(client, (request, forward) => {
      if (++requests % 5 > 0) return forward(request)
      const headers = [{ 'retry-after': '0' }, { 'retry-after': new Date().toUTCString() }, {}][rejected++ % 3]
      return Promise.resolve({ status: 429, headers: { ...headers }, text: '' })
    })
    const ended = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--only', 'A2'])
    assertPassed(ended)
    assert.ok(rejected > 0)
    assert.match(ended.stdout, new RegExp(`^Requests repeated after a response 429: ${rejected}$`, 'm'))
    assert.equal((await listItems(client.url)).length, 0)
  })

  test('that is full from the start is not complete', async (t) => {
    const { url } = await serve(t, ['--no-https', '--max-items', '2'])
    for (let i = 0; i < 2; i++) await createClient(url).send('POST', itemsPath, { isComplete: true })
    const { code, stdout } = await run(t, ['verify', url, '--profile', 'a', '--only', 'A2'])
    assert.deepEqual([code, /no more items \(status 503\)$/m.test(stdout)], [2, true], stdout)
  })
})

/** Creates, changes and deletes items of its own; returns how many. */
async function useItems(url: string, profile: 'a' | 'b', isRunning: () => boolean): Promise<number> {
  const client = createClient(url)
  let count = 0
  for (; isRunning(); count++) {
    const sent = { id: `other-${count}`, name: 'other', notes: 'other', isComplete: true }
    const { id } = JSON.parse((await client.send('POST', itemsPath, sent)).text)
    const changed = { ...sent, id, name: 'changed' }
    await client.send('PUT', profile === 'a' ? `${itemsPath}/${id}` : itemsPath, changed)
    const deleted = await client.send('DELETE', `${itemsPath}/${id}`)
    assert.equal(deleted.status, 204)
  }
  return count
}

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
      ++requests < 3 ? Promise.resolve({ status: 503, headers: {}, text: '' }) : forward(request),
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
