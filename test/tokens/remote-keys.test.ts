import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createRemoteKeys } from '../../src/tokens/remote-keys.ts'
import { cleanUp } from '../support/cleanup.ts'
import { freePort } from '../support/port.ts'

/** Once a request is garbage, Node 20 no longer ends its response when its signal is aborted. */
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const minuteMs = 60_000
const { publicKey } = generateKeyPairSync('ed25519')
const jwks = (...kids: string[]) =>
  JSON.stringify({ keys: kids.map((kid) => ({ ...publicKey.export({ format: 'jwk' }), kid })) })

/** A key server whose response can be changed, and a clock that can be advanced. */
async function start(t: TestContext) {
  const state = { respond: respondWith(jwks('one')), requests: 0, timeMs: 0, messages: [] as string[] }
  const server = createServer((request, response) => {
    state.requests++
    state.respond(request, response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanUp(t, () => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  const keys = createRemoteKeys({
    url,
    monotonicNow: () => state.timeMs,
    report: (message) => state.messages.push(message.replace(url, 'URL')),
  })
  return { state, server, kids: async (kid?: string) => (await keys(kid)).map((key) => key.kid) }
}

const respondWith =
  (body: string, status = 200): RequestListener =>
  (_, response) =>
    response.writeHead(status, { location: '/elsewhere' }).end(body)

const fetchError = (reason: string) => `Cannot fetch the public keys for tokens from URL: ${reason}.`

suite('remote keys', () => {
  test('are fetched once for parallel requests', async (t) => {
    const { state, kids } = await start(t)
    assert.deepEqual(await Promise.all([kids('one'), kids('one'), kids('one')]), [['one'], ['one'], ['one']])
    assert.deepEqual(await kids('one'), ['one'])
    assert.equal(state.requests, 1)
  })

  test('are refreshed in the background after 10 minutes', async (t) => {
    const { state, server, kids } = await start(t)
    await kids('one')
    state.timeMs += 10 * minuteMs - 1
    await kids('one')
    assert.equal(state.requests, 1)
    state.timeMs += 2
    let pending: ServerResponse | undefined
    state.respond = (_, response) => {
      pending = response
    }
    const requested = once(server, 'request')
    assert.deepEqual(await kids('one'), ['one'])
    await requested
    pending?.end(jwks('two'))
    assert.deepEqual(await kids('two'), ['two'])
    assert.equal(state.requests, 2)
  })

  test('are fetched before they are used after 20 minutes', async (t) => {
    const { state, kids } = await start(t)
    await kids('one')
    state.timeMs += 20 * minuteMs + 1
    state.respond = respondWith(jwks('one', 'two'))
    assert.deepEqual(await kids('one'), ['one', 'two'])
  })

  test('are fetched again for an unknown kid, at most once in 30 seconds', async (t) => {
    const { state, kids } = await start(t)
    await kids('one')
    state.respond = respondWith(jwks('two'))
    state.timeMs += 30_001
    assert.deepEqual(await kids('two'), ['two'])
    for (let count = 0; count < 50; count++) await kids(`unknown ${count}`)
    assert.equal(state.requests, 2)
    state.timeMs += 30_000
    await kids('unknown')
    assert.equal(state.requests, 2)
    state.timeMs += 1
    await kids('unknown')
    assert.equal(state.requests, 3)
  })

  test('without kid match any kid and are not fetched again for it', async (t) => {
    const { state, kids } = await start(t)
    state.respond = respondWith(JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }))
    await kids('one')
    state.timeMs += 30_001
    assert.deepEqual(await kids('one'), [undefined])
    assert.equal(state.requests, 1)
  })

  test('stay in use while the URL fails, redirects, or responds with too much data or no usable key', async (t) => {
    const { state, kids } = await start(t)
    await kids('one')
    for (const [status, body] of [
      [500, jwks('two')],
      [302, jwks('two')],
      [200, 'x'.repeat(2 ** 20 + 1)],
      [200, '{"keys":[]}'],
    ] as const) {
      state.respond = respondWith(body, status)
      state.timeMs += minuteMs
      assert.deepEqual(await kids('two'), ['one'])
    }
    assert.deepEqual(
      state.messages,
      [
        'status 500',
        'unexpected redirect',
        'the response is larger than 1048576 bytes',
        'the response contains no usable public key',
      ].map(fetchError),
    )
    state.respond = respondWith(jwks('two'))
    state.timeMs += minuteMs
    assert.deepEqual(await kids('two'), ['two'])
  })

  test('stay in use while the URL fails for hours, which is retried every 10 seconds', async (t) => {
    const { state, kids } = await start(t)
    await kids('one')
    state.respond = respondWith('', 503)
    state.timeMs += 240 * minuteMs
    for (let count = 0; count < 50; count++) assert.deepEqual(await kids(`unknown ${count}`), ['one'])
    assert.equal(state.requests, 2)
    state.timeMs += 10_001
    assert.deepEqual(await kids('one'), ['one'])
    assert.equal(state.requests, 3)
  })

  test('are empty until the first fetch succeeds, which is retried every 10 seconds', async (t) => {
    const { state, kids } = await start(t)
    state.respond = respondWith('', 503)
    assert.deepEqual(await kids(), [])
    assert.deepEqual(await kids(), [])
    assert.equal(state.requests, 1)
    state.respond = respondWith(jwks('one'))
    state.timeMs = 10_001
    assert.deepEqual(await kids(), ['one'])
  })

  test('are used without the weak ones among them, which are reported when they change', async (t) => {
    const { state, kids } = await start(t)
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
    const respondWithWeak = (...others: object[]) => {
      state.respond = respondWith(JSON.stringify({ keys: [{ ...weak, kid: 'weak' }, ...others] }))
    }
    const good = { ...publicKey.export({ format: 'jwk' }), kid: 'good' }
    respondWithWeak(good)
    for (let count = 0; count < 3; count++) {
      assert.deepEqual(await kids('weak'), ['good'])
      state.timeMs += minuteMs
    }
    assert.equal(state.requests, 3)
    const weakError = 'RSA key 1 (kid "weak") has a modulus of 1024 bits, not at least 2048'
    assert.deepEqual(state.messages, [`A public key from URL is ignored: ${weakError}.`])
    respondWithWeak()
    assert.deepEqual(await kids('weak'), ['good'])
    assert.deepEqual(state.messages.slice(1), [fetchError('the response contains no usable public key')])
  })

  test('a host name without an address that accepts connections is reported with the reason', async () => {
    const messages: string[] = []
    // Both loopback addresses refuse: the error then has no message of its own.
    const url = `http://localhost:${await freePort()}/keys`
    await createRemoteKeys({ url, monotonicNow: () => 0, report: (message) => messages.push(message) })('one')
    assert.match(messages.join(), /ECONNREFUSED.*\.$/)
  })

  test('stay in use while the response is larger than 1 MiB; the rest of it is not read', async (t) => {
    const { state, kids } = await start(t)
    await kids('one')
    const closed = new Promise<void>((resolve) => {
      state.respond = (_, response) => {
        const chunk = Buffer.alloc(2 ** 16, ' ')
        const write = () => {
          while (response.write(chunk));
        }
        response.on('drain', write).on('close', resolve)
        write()
      }
    })
    state.timeMs += minuteMs
    assert.deepEqual(await kids('two'), ['one'])
    assert.deepEqual(state.messages, [fetchError('the response is larger than 1048576 bytes')])
    await closed
  })

  for (const [title, respond] of [
    ['does not respond', () => {}],
    ['does not finish the response', (_, response) => response.write('{"keys":')],
  ] as const satisfies readonly [string, RequestListener][])
    test(`stay in use while the URL ${title} within 5 seconds`, async (t) => {
      const { state, kids } = await start(t)
      await kids('one')
      const timeout = new AbortController()
      const mock = t.mock.method(AbortSignal, 'timeout', () => timeout.signal)
      const closed = new Promise<void>((resolve) => {
        state.respond = (request, response) => {
          response.on('close', resolve)
          respond(request, response)
          // The delay lets the client receive the start of the response; without it, the result is the same.
          setTimeout(() => {
            collectGarbage()
            timeout.abort(new DOMException('timed out', 'TimeoutError'))
          }, 100)
        }
      })
      state.timeMs += minuteMs
      assert.deepEqual(await kids('two'), ['one'])
      assert.deepEqual(
        mock.mock.calls.map((call) => call.arguments),
        [[5_000]],
      )
      assert.deepEqual(state.messages, [fetchError('timed out')])
      await closed
    })
})
