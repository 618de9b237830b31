import assert from 'node:assert/strict'
import {
  createHash,
  createHmac,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto'
import { suite, type TestContext, test } from 'node:test'
import { jsonLog } from '../../src/log.ts'
import { devTokenIssuer } from '../../src/tokens/dev-key.ts'
import { hmacKey, parseJwks, parsePublicKeys, type VerificationKey } from '../../src/tokens/keys.ts'
import { signToken } from '../../src/tokens/sign.ts'
import { createTokenVerifier, type TrustedIssuer } from '../../src/tokens/verify.ts'
import { transports } from '../support/running.ts'

const now = () => new Date('2026-06-01T12:00:00Z')
const seconds = now().getTime() / 1000
const issuers = ['https://issuer.example']
const audiences = ['todo', 'todo-admin']
const validClaims = {
  iss: issuers[0],
  aud: 'todo',
  exp: seconds + 60,
  nbf: seconds - 60,
  iat: seconds - 60,
  sub: 'ada',
}

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

function signWith(header: unknown, claims: unknown, signer: Signer): string {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${signer(input).toString('base64url')}`
}

const hs = (claims: unknown, header: object = {}) =>
  signWith({ alg: 'HS256', typ: 'JWT', ...header }, claims, hs256(secret))

const issuerWith = (keys: readonly VerificationKey[]): TrustedIssuer => ({
  keyName: 'configured key',
  issuers,
  audiences,
  clockToleranceSeconds: 60,
  keys: async () => keys,
})
const sharedKeyIssuer = issuerWith([hmacKey(createSecretKey(secret))])
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }) as string
const keysIn = (text: string) => parsePublicKeys(text)?.keys ?? []
/** The public key with another exponent. */
const withExponent = (exponent: number) => ({
  ...rsa.publicKey.export({ format: 'jwk' }),
  e: Buffer.from([exponent]).toString('base64url'),
})

/** A function that sends GET /secret with a token to a service which accepts tokens of one issuer. */
async function startService(t: TestContext, issuer: TrustedIssuer) {
  const service = await transports['in process'](t, 'b', { verifyOptions: { trustedIssuers: [issuer], now } })
  return async (token: string) => {
    const response = await service.send('GET', '/secret', undefined, { authorization: `Bearer ${token}` })
    assert.ok([200, 401].includes(response.status), `${response.status} for ${token}`)
    if (response.status === 401) {
      assert.match(
        response.headers['www-authenticate'] ?? '',
        /^Bearer error="invalid_token", error_description="[\w ]+"$/,
      )
      assert.equal(response.text, '')
    }
    return response
  }
}

suite('S6 bearer tokens', () => {
  test('valid tokens are accepted, with a clock difference of less than 60 seconds', async (t) => {
    const send = await startService(t, sharedKeyIssuer)
    for (const [claims, header] of [
      [validClaims],
      [{ ...validClaims, aud: ['other', 'todo-admin'] }],
      [{ ...validClaims, exp: seconds - 59 }],
      [{ ...validClaims, exp: seconds + 0.5 }],
      [{ ...validClaims, nbf: seconds + 59 }],
      [{ ...validClaims, nbf: undefined, iat: undefined }],
      [validClaims, { kid: 'any' }],
      [
        validClaims,
        { jku: 'http://192.0.2.1/keys', x5u: 'http://192.0.2.1/x', x5c: ['x'], jwk: { kty: 'oct', k: 'AAAA' } },
      ],
    ] as const)
      assert.equal((await send(hs(claims, header))).status, 200, JSON.stringify([claims, header]))
  })

  test('S3 the name is unique_name, else name, else sub', async (t) => {
    const send = await startService(t, sharedKeyIssuer)
    for (const [claims, name] of [
      [{ unique_name: 'one', name: 'two', sub: 'three' }, 'one'],
      [{ name: 'two', sub: 'three' }, 'two'],
      [{ sub: 'three' }, 'three'],
      [{ unique_name: { not: 'text' }, name: 7, sub: 'three' }, 'three'],
      [{ sub: 'Zoë 😀' }, 'Zoë 😀'],
    ] as const) {
      const { text } = await send(hs({ ...validClaims, ...{ sub: undefined }, ...claims }))
      assert.match(text, new RegExp(`^Hello ${name}\\.`))
    }
  })

  const invalidClaims: Record<string, object> = {
    'a missing exp': { exp: undefined },
    'an exp 61 seconds ago': { exp: seconds - 61 },
    'exp 0': { exp: 0 },
    'a negative exp': { exp: -1 },
    'exp as a string': { exp: `${seconds + 60}` },
    'exp null': { exp: null },
    'exp as an array': { exp: [seconds + 60] },
    'an exp out of range': { exp: 1e300 },
    'an exp in milliseconds': { exp: seconds * 1000 },
    'an nbf in 61 seconds': { nbf: seconds + 61 },
    'nbf as a string': { nbf: 'soon' },
    'nbf null': { nbf: null },
    'iat as a string': { iat: 'then' },
    'a missing iss': { iss: undefined },
    'another iss': { iss: 'https://evil.example' },
    'iss in another case': { iss: 'https://ISSUER.example' },
    'iss with an additional slash': { iss: 'https://issuer.example/' },
    'iss as an array': { iss: issuers },
    'iss null': { iss: null },
    'a missing aud': { aud: undefined },
    'another aud': { aud: 'other' },
    'an empty aud': { aud: '' },
    'aud as an empty array': { aud: [] },
    'aud as a nested array': { aud: [['todo']] },
    'aud with a number': { aud: ['todo', 5] },
    'aud as an object': { aud: { todo: true } },
    'a prefix of the aud': { aud: 'tod' },
  }
  const invalidHeaders: Record<string, object> = {
    'alg none': { alg: 'none' },
    'alg None': { alg: 'None' },
    'a missing alg': { alg: undefined },
    'alg null': { alg: null },
    'alg as an array': { alg: ['HS256'] },
    'alg in lower case': { alg: 'hs256' },
    'alg HS384': { alg: 'HS384' },
    'alg HS512': { alg: 'HS512' },
    'alg RS256': { alg: 'RS256' },
    'alg dir': { alg: 'dir', enc: 'A256GCM' },
    'crit b64': { crit: ['b64'], b64: false },
    'an empty crit': { crit: [] },
    'crit exp': { crit: ['exp'], exp: seconds + 60 },
    'crit as a string': { crit: 'exp' },
    'crit null': { crit: null },
    'kid as a number': { kid: 1 },
    'kid null': { kid: null },
    'kid as an object': { kid: {} },
  }
  const [header, claims, signature] = hs(validClaims).split('.') as [string, string, string]
  const invalidTexts: Record<string, string> = {
    'one part': header,
    'two parts': `${header}.${claims}`,
    'an empty signature': `${header}.${claims}.`,
    'four parts': `${header}.${claims}.${signature}.`,
    'five parts': `${header}.${claims}.${signature}.${header}.${claims}`,
    'empty parts': '..',
    'a padded signature': `${header}.${claims}.${signature}=`,
    'a padded header': `${header}=.${claims}.${signature}`,
    'base64 instead of base64url': `${header}.${claims}.${Buffer.from(signature, 'base64url').toString('base64')}`,
    'a non-canonical base64url signature': `${header}.${claims}.${changeUnusedBits(signature)}`,
    'a space inside the token': `${header}. ${claims}.${signature}`,
    'a wrong signature': `${header}.${claims}.${'A'.repeat(43)}`,
    'a truncated signature': `${header}.${claims}.${signature.slice(0, -3)}`,
    'a changed claim': `${header}.${encode({ ...validClaims, sub: 'root' })}.${signature}`,
    'a header that is not JSON': signWith('{', validClaims, hs256(secret)),
    'a header that is an array': signWith('[]', validClaims, hs256(secret)),
    'a header that is null': signWith('null', validClaims, hs256(secret)),
    'claims that are not JSON': signWith({ alg: 'HS256' }, 'x', hs256(secret)),
    'claims that are an array': signWith({ alg: 'HS256' }, '[]', hs256(secret)),
    'claims with a byte order mark': signWith({ alg: 'HS256' }, `\ufeff${JSON.stringify(validClaims)}`, hs256(secret)),
    'a signature with an empty key': signWith({ alg: 'HS256' }, validClaims, hs256('')),
    'a signature with another key': signWith({ alg: 'HS256' }, validClaims, hs256(randomBytes(32))),
    'a signature with the base64 text of the key': signWith(
      { alg: 'HS256' },
      validClaims,
      hs256(secret.toString('base64')),
    ),
    'a signature with a key in the header': signWith(
      { alg: 'HS256', jwk: { kty: 'oct', k: encode('mine') } },
      validClaims,
      hs256(Buffer.from('mine')),
    ),
    'an RSA signature': signWith({ alg: 'RS256' }, validClaims, asymmetric(rsa.privateKey)),
    'percent-encoded dots': '%2e%2e.%2e.%2e',
    'deeply nested claims': signWith({ alg: 'HS256' }, `{"aud":${'['.repeat(4500)}${']'.repeat(4500)}}`, hs256(secret)),
    'a deeply nested header': signWith(`{"alg":${'['.repeat(4500)}${']'.repeat(4500)}}`, validClaims, hs256(secret)),
    'a very long token': `${header}.${'A'.repeat(8000)}.${signature}`,
  }
  const invalidTokens = [
    ...Object.entries(invalidClaims).map(([name, change]) => [name, hs({ ...validClaims, ...change })] as const),
    ...Object.entries(invalidHeaders).map(([name, change]) => [name, hs(validClaims, change)] as const),
    ...Object.entries(invalidTexts),
  ]
  for (const [name, token] of invalidTokens)
    test(`returns 401 for ${name}`, async (t) => {
      const send = await startService(t, sharedKeyIssuer)
      assert.equal((await send(token)).status, 401)
    })

  test('returns 401 for every token if no key is configured', async (t) => {
    const service = await transports['in process'](t, 'a', { verifyOptions: { trustedIssuers: [], now } })
    const response = await service.send('GET', '/secret', undefined, { authorization: `Bearer ${hs(validClaims)}` })
    assert.equal(response.status, 401)
  })

  test('the verifier returns the claims, or an error description and the reasons for the log', async () => {
    const verify = createTokenVerifier({ trustedIssuers: [sharedKeyIssuer], now })
    assert.deepEqual(await verify(hs(validClaims)), { claims: validClaims })
    assert.deepEqual(await verify(hs({ ...validClaims, aud: 'other', exp: seconds - 120 })), {
      errorDescription: 'The audience is not accepted',
      reason: 'audience is "other", this service accepts "todo" or "todo-admin"; expired 2 minutes ago',
    })
  })

  test('a token is accepted if any of the trusted issuers accepts it', async () => {
    const otherIssuer = issuerWith(keysIn(pem(rsa.publicKey)))
    const options = { trustedIssuers: [otherIssuer, sharedKeyIssuer], now }
    assert.deepEqual(await createTokenVerifier(options)(hs(validClaims)), { claims: validClaims })
  })
})

suite('S6 development tokens', () => {
  const key = createSecretKey(secret)
  const timeAt = (offsetSeconds: number) => new Date(now().getTime() + 1000 * offsetSeconds)
  /** Whether a token that was signed at one time is accepted at another one. */
  const isAccepted = async (validForSeconds: number, signedAt: number, sentAt: number) => {
    const { token } = await signToken({ id: 'x', validForSeconds }, key, timeAt(signedAt))
    // Another issuer, which has a tolerance, changes nothing.
    const trustedIssuers = [devTokenIssuer(key), sharedKeyIssuer]
    return 'claims' in (await createTokenVerifier({ trustedIssuers, now: () => timeAt(sentAt) })(token))
  }

  for (const fraction of [0, 0.001, 0.5, 0.999])
    test(`${fraction} seconds into a second: valid for the time that was asked for, and less than a second more`, async () => {
      for (const validForSeconds of [1, 0.25, 1.5, 3600]) {
        const expected = [0, validForSeconds - 0.002, validForSeconds + 1]
        const accepted = expected.map((after) => isAccepted(validForSeconds, fraction, fraction + after))
        assert.deepEqual(await Promise.all(accepted), [true, true, false], `${validForSeconds}`)
      }
      for (const validForSeconds of [0, -0.001, -1])
        assert.equal(await isAccepted(validForSeconds, fraction, fraction), false, `${validForSeconds}`)
    })

  test('exp and iat are whole seconds', async () => {
    const { claims } = await signToken({ id: 'x', validForSeconds: 1.5 }, key, timeAt(0.7))
    assert.deepEqual([claims.iat, claims.exp], [seconds, seconds + 3])
  })

  test('are accepted when the clock that signed them is ahead', async () => {
    assert.equal(await isAccepted(60, 300, 0), true)
  })
})

suite('public keys', () => {
  const signers: Record<string, [alg: string, signer: Signer]> = {
    RS256: ['RS256', asymmetric(rsa.privateKey)],
    PS256: ['PS256', asymmetric(rsa.privateKey, pss)],
    ES256: ['ES256', asymmetric(p256.privateKey, ieee)],
    EdDSA: ['EdDSA', asymmetric(ed25519.privateKey, {}, null)],
    Ed25519: ['Ed25519', asymmetric(ed25519.privateKey, {}, null)],
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
      test(`${key} key as ${form} accepts ${accepted.join(' and ')} only`, async (t) => {
        const text = form === 'PEM' ? pem(publicKey) : JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })
        const send = await startService(t, issuerWith(keysIn(text)))
        for (const [name, [alg, signer]] of Object.entries(signers)) {
          const { status } = await send(signWith({ alg }, validClaims, signer))
          assert.equal(status, (accepted as readonly string[]).includes(name) ? 200 : 401, name)
        }
      })

  test('RSA keys with a short modulus or an exponent that is even or below 3 are weak', () => {
    const [good, weak] = [rsa.publicKey, weakRsa.publicKey].map((key) => key.export({ format: 'jwk' }))
    const jwks = [good, { ...weak, kid: 'short' }, withExponent(1), withExponent(3), { ...withExponent(4), kid: 'x\n' }]
    const { keys, weakKeys } = parsePublicKeys(JSON.stringify({ keys: jwks })) ?? {}
    assert.deepEqual(
      keys?.map(({ key }) => key.asymmetricKeyDetails?.publicExponent),
      [65_537n, 3n],
    )
    const exponentError = 'has a public exponent that is not an odd number of at least 3'
    assert.deepEqual(weakKeys, [
      'RSA key 2 (kid "short") has a modulus of 1024 bits, not at least 2048',
      `RSA key 3 ${exponentError}`,
      `RSA key 5 (kid "x\\n") ${exponentError}`,
    ])
    const pemFile = [weakRsa.publicKey, rsa.publicKey, createPublicKey({ key: withExponent(1), format: 'jwk' })]
    assert.deepEqual(parsePublicKeys(pemFile.map(pem).join(''))?.weakKeys, [
      'RSA key 1 has a modulus of 1024 bits, not at least 2048',
      `RSA key 3 ${exponentError}`,
    ])
  })

  test('S6 returns 401 for a token that was forged for a key with the exponent 1', async (t) => {
    /** With this exponent, a signature is the padded digest: anyone can write it (RFC 8017, 9.2). */
    const forge: Signer = (input) => {
      const digest = createHash('sha256').update(input).digest('hex')
      const info = `003031300d060960864801650304020105000420${digest}`
      return Buffer.from(`0001${info.padStart(508, 'f')}`, 'hex')
    }
    const keys = [withExponent(1), ed25519.publicKey.export({ format: 'jwk' })]
    const send = await startService(t, issuerWith(keysIn(JSON.stringify({ keys }))))
    assert.equal((await send(signWith({ alg: 'RS256' }, validClaims, forge))).status, 401)
  })

  test('private, encryption and unsupported keys are ignored', () => {
    assert.equal(parsePublicKeys(pem(p384.publicKey)), undefined)
    assert.equal(parsePublicKeys(rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string), undefined)
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
      assert.equal(parsePublicKeys(JSON.stringify({ keys: [key] })), undefined, JSON.stringify(key))
    for (const text of ['', '{}', '{"keys":{}}', '{', 'nonsense']) assert.equal(parsePublicKeys(text), undefined)
  })

  test('a key without kid accepts tokens with any kid', async (t) => {
    for (const text of [pem(rsa.publicKey), JSON.stringify({ keys: [rsa.publicKey.export({ format: 'jwk' })] })]) {
      const send = await startService(t, issuerWith(keysIn(text)))
      const token = signWith({ alg: 'RS256', kid: 'any' }, validClaims, asymmetric(rsa.privateKey))
      assert.equal((await send(token)).status, 200)
    }
  })

  test('kid selects one of several keys', async (t) => {
    const other = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const { keys } = parseJwks(
      JSON.stringify({
        keys: [
          { ...rsa.publicKey.export({ format: 'jwk' }), kid: 'one' },
          { ...other.publicKey.export({ format: 'jwk' }), kid: 'two', alg: 'PS256' },
        ],
      }),
    )
    const send = await startService(t, issuerWith(keys))
    const status = async (header: object, signer: Signer) => (await send(signWith(header, validClaims, signer))).status
    assert.equal(await status({ alg: 'RS256', kid: 'one' }, asymmetric(rsa.privateKey)), 200)
    assert.equal(await status({ alg: 'RS256' }, asymmetric(rsa.privateKey)), 200)
    assert.equal(await status({ alg: 'PS256' }, asymmetric(other.privateKey, pss)), 200)
    assert.equal(await status({ alg: 'PS256', kid: 'two' }, asymmetric(rsa.privateKey, pss)), 401)
    assert.equal(await status({ alg: 'RS256', kid: 'three' }, asymmetric(rsa.privateKey)), 401)
    assert.equal(await status({ alg: 'RS256', kid: 'two' }, asymmetric(other.privateKey)), 401)
  })
})

suite('keys that were never fetched', () => {
  const noKeys = issuerWith([])
  const rs = (claims: object = {}, header: object = {}) =>
    signWith({ alg: 'RS256', ...header }, { ...validClaims, ...claims }, asymmetric(rsa.privateKey))
  const start = async (t: TestContext, profile: 'a' | 'b', trustedIssuers: TrustedIssuer[], requireAuth = false) => {
    const lines: string[] = []
    const log = jsonLog((line) => lines.push(line), 'warn', now)
    const options = { verifyOptions: { trustedIssuers, now }, requireAuth, log }
    const service = await transports['in process'](t, profile, options)
    const send = (token: string, method = 'GET', path = '/secret', body?: object) =>
      service.send(method, path, body, { authorization: `Bearer ${token}` })
    return { send, lines }
  }

  test('A15 profile A returns 503 as a problem; the reason is in the log alone', async (t) => {
    const { send, lines } = await start(t, 'a', [noKeys])
    const { status, headers, text } = await send(rs())
    assert.deepEqual([status, headers['retry-after'], headers['www-authenticate']], [503, '1', undefined])
    assert.equal(headers['content-type'], 'application/problem+json')
    assert.equal(JSON.parse(text).title, 'The token cannot be checked at the moment.')
    assert.doesNotMatch(text, /fetch|key/)
    assert.equal(
      JSON.parse(lines[0] as string).reason,
      'The token cannot be checked at the moment: the configured key could not be fetched',
    )
  })

  test('B6 profile B returns 503 without a body, and its codes for the three operations that have one', async (t) => {
    const { send } = await start(t, 'b', [noKeys], true)
    for (const path of ['/secret', '/swagger/v1/swagger.json', '/api/todoitems']) {
      const { status, headers, text } = await send(rs(), 'GET', path)
      assert.deepEqual([status, headers['retry-after'], text], [503, '1', ''], path)
    }
    const item = { id: 'milk', name: 'Buy milk', notes: '2 litres' }
    const { status, text } = await send(rs(), 'POST', '/api/todoitems', item)
    assert.deepEqual([status, text], [400, 'CouldNotCreateItem'])
  })

  test('S6 returns 401 for a token that is rejected whatever the keys are', async (t) => {
    const { send } = await start(t, 'a', [noKeys])
    for (const token of [
      'nonsense',
      hs(validClaims),
      rs({}, { alg: 'none' }),
      rs({}, { alg: 'RS512' }),
      rs({}, { crit: ['exp'] }),
      rs({}, { kid: 7 }),
      rs({ exp: seconds - 61 }),
      rs({ nbf: seconds + 61 }),
      rs({ iss: 'https://evil.example' }),
      rs({ aud: 'other' }),
    ])
      assert.equal((await send(token)).status, 401, token)
    const { headers } = await send(rs({ exp: seconds - 61 }))
    assert.match(`${headers['www-authenticate']}`, /error_description="The token has expired"$/)
  })

  test('do not matter for a token of another issuer', async (t) => {
    for (const trustedIssuers of [
      [noKeys, sharedKeyIssuer],
      [sharedKeyIssuer, noKeys],
    ]) {
      const { send } = await start(t, 'a', trustedIssuers)
      assert.equal((await send(hs(validClaims))).status, 200)
      assert.equal((await send(signWith({ alg: 'HS256' }, validClaims, hs256('other')))).status, 401)
      assert.equal((await send(rs())).status, 503)
    }
  })
})

/** A non-canonical encoding of the same bytes: decoders ignore the last two bits of 43 characters. */
function changeUnusedBits(text: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return text.slice(0, -1) + alphabet[alphabet.indexOf(text.at(-1) as string) ^ 1]
}
