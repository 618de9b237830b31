import assert from 'node:assert/strict'
import { createHmac, createSecretKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { sharedKeyTrust } from '../../src/tokens/development.ts'
import { jwksKeys, publicKeys } from '../../src/tokens/keys.ts'
import { remoteKeys } from '../../src/tokens/remote.ts'
import type { Trust, TrustedKey } from '../../src/tokens/trust.ts'
import { transports } from '../support/running.ts'

const now = () => new Date('2026-06-01T12:00:00Z')
const seconds = now().getTime() / 1000
const issuers = ['https://issuer.example']
const audiences = ['todo', 'todo-admin']
const good = { iss: issuers[0], aud: 'todo', exp: seconds + 60, nbf: seconds - 60, iat: seconds - 60, sub: 'ada' }

const secret = randomBytes(32)
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const weakRsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const ed25519 = generateKeyPairSync('ed25519')

type Signer = (input: string) => Buffer

const hs256 =
  (key: Buffer | string): Signer =>
  (input) =>
    createHmac('sha256', key).update(input).digest()
const asymmetric =
  (key: KeyObject, options: object = {}, hash: string | null = 'sha256'): Signer =>
  (input) =>
    sign(hash, Buffer.from(input), { key, ...options })
const pss = { padding: 6, saltLength: 32 }
const ieee = { dsaEncoding: 'ieee-p1363' }

const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

function tokenOf(header: unknown, claims: unknown, signer: Signer): string {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${signer(input).toString('base64url')}`
}

const hs = (claims: unknown, header: object = {}) =>
  tokenOf({ alg: 'HS256', typ: 'JWT', ...header }, claims, hs256(secret))

const shared: Trust = sharedKeyTrust('configured key', createSecretKey(secret), issuers, audiences)
const trusting = (keys: readonly TrustedKey[]): Trust => ({
  name: 'configured key',
  keys: async () => keys,
  issuers,
  audiences,
})
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }) as string

async function answersTo(t: TestContext, trust: Trust) {
  const service = await transports['in process'](t, 'b', { terms: { trusts: [trust], now } })
  return async (token: string) => {
    const answer = await service.send('GET', '/secret', undefined, { authorization: `Bearer ${token}` })
    assert.ok([200, 401].includes(answer.status), `${answer.status} for ${token}`)
    if (answer.status === 401) {
      assert.match(
        answer.headers['www-authenticate'] ?? '',
        /^Bearer error="invalid_token", error_description="[\w ]+"$/,
      )
      assert.equal(answer.text, '')
    }
    return answer
  }
}

suite('S6 bearer tokens', () => {
  test('good ones are accepted', async (t) => {
    const send = await answersTo(t, shared)
    for (const [claims, header] of [
      [good],
      [{ ...good, aud: ['other', 'todo-admin'] }],
      [{ ...good, exp: seconds - 59 }],
      [{ ...good, exp: seconds + 0.5 }],
      [{ ...good, nbf: seconds + 59 }],
      [{ ...good, nbf: undefined, iat: undefined }],
      [good, { kid: 'any' }],
      [good, { jku: 'http://192.0.2.1/keys', x5u: 'http://192.0.2.1/x', x5c: ['x'], jwk: { kty: 'oct', k: 'AAAA' } }],
    ] as const)
      assert.equal((await send(hs(claims, header))).status, 200, JSON.stringify([claims, header]))
  })

  test('S3 the name is unique_name, else name, else sub', async (t) => {
    const send = await answersTo(t, shared)
    for (const [claims, name] of [
      [{ unique_name: 'one', name: 'two', sub: 'three' }, 'one'],
      [{ name: 'two', sub: 'three' }, 'two'],
      [{ sub: 'three' }, 'three'],
      [{ unique_name: { not: 'text' }, name: 7, sub: 'three' }, 'three'],
      [{ sub: 'Zoë 😀' }, 'Zoë 😀'],
    ] as const) {
      const { text } = await send(hs({ ...good, ...{ sub: undefined }, ...claims }))
      assert.match(text, new RegExp(`^Hello ${name}\\.`))
    }
  })

  const claimsBent: Record<string, object> = {
    'no exp': { exp: undefined },
    'exp long ago': { exp: seconds - 61 },
    'exp zero': { exp: 0 },
    'exp negative': { exp: -1 },
    'exp as text': { exp: `${seconds + 60}` },
    'exp null': { exp: null },
    'exp a list': { exp: [seconds + 60] },
    'exp beyond all time': { exp: 1e300 },
    'exp in milliseconds': { exp: seconds * 1000 },
    'nbf to come': { nbf: seconds + 61 },
    'nbf as text': { nbf: 'soon' },
    'nbf null': { nbf: null },
    'iat as text': { iat: 'then' },
    'no iss': { iss: undefined },
    'iss of another': { iss: 'https://evil.example' },
    'iss in another case': { iss: 'https://ISSUER.example' },
    'iss with a slash more': { iss: 'https://issuer.example/' },
    'iss a list': { iss: issuers },
    'iss null': { iss: null },
    'no aud': { aud: undefined },
    'aud of another': { aud: 'other' },
    'aud empty': { aud: '' },
    'aud no list entry': { aud: [] },
    'aud a list of lists': { aud: [['todo']] },
    'aud with a number': { aud: ['todo', 5] },
    'aud an object': { aud: { todo: true } },
    'aud a prefix': { aud: 'tod' },
  }
  const headersBent: Record<string, object> = {
    'alg none': { alg: 'none' },
    'alg None': { alg: 'None' },
    'alg missing': { alg: undefined },
    'alg null': { alg: null },
    'alg a list': { alg: ['HS256'] },
    'alg in lower case': { alg: 'hs256' },
    'alg HS384': { alg: 'HS384' },
    'alg HS512': { alg: 'HS512' },
    'alg RS256': { alg: 'RS256' },
    'alg dir': { alg: 'dir', enc: 'A256GCM' },
    'crit b64': { crit: ['b64'], b64: false },
    'crit empty': { crit: [] },
    'crit exp': { crit: ['exp'], exp: seconds + 60 },
    'crit text': { crit: 'exp' },
    'crit null': { crit: null },
    'kid a number': { kid: 1 },
    'kid null': { kid: null },
    'kid an object': { kid: {} },
  }
  const [head, body, signature] = hs(good).split('.') as [string, string, string]
  const texts: Record<string, string> = {
    'one part': head,
    'two parts': `${head}.${body}`,
    'no signature': `${head}.${body}.`,
    'four parts': `${head}.${body}.${signature}.`,
    'five parts': `${head}.${body}.${signature}.${head}.${body}`,
    'empty parts': '..',
    'a padded signature': `${head}.${body}.${signature}=`,
    'a padded head': `${head}=.${body}.${signature}`,
    'base64 instead of base64url': `${head}.${body}.${Buffer.from(signature, 'base64url').toString('base64')}`,
    'a signature with other last bits': `${head}.${body}.${otherLastBits(signature)}`,
    'a space inside': `${head}. ${body}.${signature}`,
    'another signature': `${head}.${body}.${'A'.repeat(43)}`,
    'a shorter signature': `${head}.${body}.${signature.slice(0, -3)}`,
    'another claim': `${head}.${encode({ ...good, sub: 'root' })}.${signature}`,
    'a head that is no JSON': tokenOf('{', good, hs256(secret)),
    'a head that is a list': tokenOf('[]', good, hs256(secret)),
    'a head that is null': tokenOf('null', good, hs256(secret)),
    'claims that are no JSON': tokenOf({ alg: 'HS256' }, 'x', hs256(secret)),
    'claims that are a list': tokenOf({ alg: 'HS256' }, '[]', hs256(secret)),
    'claims with a byte order mark': tokenOf({ alg: 'HS256' }, `\ufeff${JSON.stringify(good)}`, hs256(secret)),
    'signed with an empty key': tokenOf({ alg: 'HS256' }, good, hs256('')),
    'signed with another key': tokenOf({ alg: 'HS256' }, good, hs256(randomBytes(32))),
    'signed with the key in base64': tokenOf({ alg: 'HS256' }, good, hs256(secret.toString('base64'))),
    'a key brought along': tokenOf(
      { alg: 'HS256', jwk: { kty: 'oct', k: encode('mine') } },
      good,
      hs256(Buffer.from('mine')),
    ),
    'signed by RSA': tokenOf({ alg: 'RS256' }, good, asymmetric(rsa.privateKey)),
    'percent signs': '%2e%2e.%2e.%2e',
    'claims nested deep': tokenOf({ alg: 'HS256' }, `{"aud":${'['.repeat(4500)}${']'.repeat(4500)}}`, hs256(secret)),
    'a header nested deep': tokenOf(`{"alg":${'['.repeat(4500)}${']'.repeat(4500)}}`, good, hs256(secret)),
    'very long': `${head}.${'A'.repeat(8000)}.${signature}`,
  }
  const bent = [
    ...Object.entries(claimsBent).map(([name, over]) => [name, hs({ ...good, ...over })] as const),
    ...Object.entries(headersBent).map(([name, over]) => [name, hs(good, over)] as const),
    ...Object.entries(texts),
  ]
  for (const [name, token] of bent)
    test(`refused: ${name}`, async (t) => {
      const send = await answersTo(t, shared)
      assert.equal((await send(token)).status, 401)
    })

  test('nobody is accepted where no key is configured', async (t) => {
    const service = await transports['in process'](t, 'a', { terms: { trusts: [], now } })
    const answer = await service.send('GET', '/secret', undefined, { authorization: `Bearer ${hs(good)}` })
    assert.equal(answer.status, 401)
  })
})

suite('public keys decide which algorithms are accepted', () => {
  const signers: Record<string, [alg: string, signer: Signer]> = {
    RS256: ['RS256', asymmetric(rsa.privateKey)],
    PS256: ['PS256', asymmetric(rsa.privateKey, pss)],
    ES256: ['ES256', asymmetric(p256.privateKey, ieee)],
    EdDSA: ['EdDSA', asymmetric(ed25519.privateKey, {}, null)],
    HS256: ['HS256', hs256(secret)],
    'HS256 with the public key as secret': ['HS256', hs256(pem(rsa.publicKey))],
    RS512: ['RS512', asymmetric(rsa.privateKey, {}, 'sha512')],
    'ES256 in DER': ['ES256', asymmetric(p256.privateKey)],
    ES384: ['ES384', asymmetric(p384.privateKey, ieee, 'sha384')],
  }
  for (const [key, { publicKey }, accepted] of [
    ['RSA', rsa, ['RS256', 'PS256']],
    ['P-256', p256, ['ES256']],
    ['Ed25519', ed25519, ['EdDSA']],
  ] as const)
    for (const form of ['PEM', 'JWKS'])
      test(`${key} as ${form}`, async (t) => {
        const text = form === 'PEM' ? pem(publicKey) : JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })
        const send = await answersTo(t, trusting(publicKeys(text) ?? []))
        for (const [name, [alg, signer]] of Object.entries(signers)) {
          const { status } = await send(tokenOf({ alg }, good, signer))
          assert.equal(status, (accepted as readonly string[]).includes(name) ? 200 : 401, name)
        }
      })

  test('keys that are weak, private, of other kinds or for encryption are not taken', () => {
    assert.equal(publicKeys(pem(weakRsa.publicKey)), undefined)
    assert.equal(publicKeys(pem(p384.publicKey)), undefined)
    assert.equal(publicKeys(rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string), undefined)
    const jwk = rsa.publicKey.export({ format: 'jwk' })
    for (const key of [
      rsa.privateKey.export({ format: 'jwk' }),
      { ...jwk, key_ops: ['encrypt'] },
      { ...jwk, use: 'enc' },
      { ...jwk, alg: 'RS512' },
      { kty: 'oct', k: encode('x') },
      null,
      7,
      {},
    ])
      assert.equal(publicKeys(JSON.stringify({ keys: [key] })), undefined, JSON.stringify(key))
    for (const text of ['', '{}', '{"keys":{}}', '{', 'nonsense']) assert.equal(publicKeys(text), undefined)
  })

  test('kid selects among keys', async (t) => {
    const other = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const keys = jwksKeys(
      JSON.stringify({
        keys: [
          { ...rsa.publicKey.export({ format: 'jwk' }), kid: 'one' },
          { ...other.publicKey.export({ format: 'jwk' }), kid: 'two', alg: 'PS256' },
        ],
      }),
    )
    const send = await answersTo(t, trusting(keys))
    const status = async (header: object, signer: Signer) => (await send(tokenOf(header, good, signer))).status
    assert.equal(await status({ alg: 'RS256', kid: 'one' }, asymmetric(rsa.privateKey)), 200)
    assert.equal(await status({ alg: 'RS256' }, asymmetric(rsa.privateKey)), 200)
    assert.equal(await status({ alg: 'PS256' }, asymmetric(other.privateKey, pss)), 200)
    assert.equal(await status({ alg: 'PS256', kid: 'two' }, asymmetric(rsa.privateKey, pss)), 401)
    assert.equal(await status({ alg: 'RS256', kid: 'three' }, asymmetric(rsa.privateKey)), 401)
    assert.equal(await status({ alg: 'RS256', kid: 'two' }, asymmetric(other.privateKey)), 401)
  })
})

suite('keys from an address', () => {
  /** A JWKS server whose answer can be changed, and a clock that can be moved. */
  async function remote(t: TestContext) {
    const state = { body: '', status: 200, requests: 0, time: 0, troubles: 0 }
    const server = createServer((_, response) => {
      state.requests++
      response.writeHead(state.status, { location: '/elsewhere' }).end(state.body)
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    t.after(() => server.close())
    const find = remoteKeys({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
      ticks: () => state.time,
      failed: () => state.troubles++,
    })
    return { state, find, kids: async (kid?: string) => (await find(kid)).map((key) => key.kid) }
  }
  const jwks = (...kids: string[]) =>
    JSON.stringify({ keys: kids.map((kid) => ({ ...ed25519.publicKey.export({ format: 'jwk' }), kid })) })

  test('are fetched once, and again when they are old', async (t) => {
    const { state, kids } = await remote(t)
    state.body = jwks('one')
    assert.deepEqual(await Promise.all([kids('one'), kids('one'), kids('one')]), [['one'], ['one'], ['one']])
    assert.deepEqual(await kids('one'), ['one'])
    assert.equal(state.requests, 1)
    state.time += 10 * 60_000 + 1
    await kids('one')
    while (state.requests < 2) await new Promise(setImmediate)
  })

  test('a rotated key is found, and unknown kids do not make a flood of requests', async (t) => {
    const { state, kids } = await remote(t)
    state.body = jwks('one')
    await kids('one')
    state.body = jwks('two')
    state.time += 30_001
    assert.deepEqual(await kids('two'), ['two'])
    for (let asked = 0; asked < 50; asked++) await kids(`unknown ${asked}`)
    assert.equal(state.requests, 2)
  })

  test('the last good set stays while the address fails, redirects, or sends too much', async (t) => {
    const { state, kids } = await remote(t)
    state.body = jwks('one')
    await kids('one')
    for (const [status, body] of [
      [500, jwks('two')],
      [302, jwks('two')],
      [200, 'x'.repeat(2 ** 20 + 1)],
      [200, '{"keys":[]}'],
    ] as const) {
      Object.assign(state, { status, body, time: state.time + 60_000 })
      assert.deepEqual(await kids('two'), ['one'])
    }
    assert.equal(state.troubles, 4)
    Object.assign(state, { status: 200, body: jwks('two'), time: state.time + 60_000 })
    assert.deepEqual(await kids('two'), ['two'])
  })

  test('an address that was never reached gives no key, and is tried again soon', async (t) => {
    const { state, kids } = await remote(t)
    state.status = 503
    assert.deepEqual(await kids(), [])
    assert.deepEqual(await kids(), [])
    assert.equal(state.requests, 1)
    Object.assign(state, { status: 200, body: jwks('one'), time: 10_001 })
    assert.deepEqual(await kids(), ['one'])
  })
})

/** The same bytes in another spelling: the last character of 43 holds bits that nobody reads. */
function otherLastBits(text: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return text.slice(0, -1) + alphabet[alphabet.indexOf(text.at(-1) as string) ^ 1]
}
