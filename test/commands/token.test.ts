import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { createClient } from '../../src/verify/client.ts'
import { jsonLines, run, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

async function startService(t: TestContext, args: string[], env: NodeJS.ProcessEnv) {
  const running = start(t, ['serve', '--profile', 'a', '--port', '0', '--host', '127.0.0.1', ...args], env)
  const [url] = await running.prints(/http:\/\/[^\s"]+:\d+/)
  const status = async (token: string) =>
    (await createClient(url).send('GET', '/secret', undefined, { authorization: `Bearer ${token}` })).status
  return { running, url, status }
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

suite('token', () => {
  test('creates a token that a service accepts in development and rejects in production', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const { code, stdout, stderr } = await run(t, ['token', '-o', 'token'], env)
    assert.deepEqual([code, stderr], [0, ''])
    const token = stdout.trim()
    assert.equal(await (await startService(t, [], env)).status(token), 200)
    const production = await startService(t, ['--mode', 'production'], env)
    assert.equal(await production.status(token), 401)
    assert.match(
      jsonLines(production.running.stdout)[0].notes[0],
      /^Protected endpoints return 401 for every request: no key/,
    )
  })

  test('creates the key once, readable by the user only, for commands that start at the same time', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const results = await Promise.all(
      Array.from({ length: 6 }, () => run(t, ['token', '-o', 'token'], { XDG_CONFIG_HOME })),
    )
    const directory = join(XDG_CONFIG_HOME, 'todo-item-service')
    assert.deepEqual(readdirSync(directory), ['development-key'])
    assert.equal(statSync(join(directory, 'development-key')).mode & 0o777, 0o600)
    const { status } = await startService(t, [], { XDG_CONFIG_HOME })
    for (const { stdout } of results) assert.equal(await status(stdout.trim()), 200)
  })

  test('uses a temporary key, with a message, if the configuration directory is not writable', async (t) => {
    const XDG_CONFIG_HOME = join(temporaryFolder(t), 'a file')
    writeFileSync(XDG_CONFIG_HOME, '')
    const message = /Cannot store the development key in .*a file.*: this process uses a temporary key/
    const { code, stderr } = await run(t, ['token'], { XDG_CONFIG_HOME })
    assert.equal(code, 0)
    assert.match(stderr, message)
    const { running } = await startService(t, [], { XDG_CONFIG_HOME })
    await running.prints(message)
  })

  test('sets the claims from the flags, and names the issuer and audience the service accepts', async (t) => {
    const { stdout, stderr } = await run(t, [
      'token',
      '--name',
      'ada',
      '--role',
      'admin',
      '--role',
      'ops',
      '--scope',
      'read',
      '--claim',
      'team=x=y',
      '--valid-for',
      '2h',
      '--issuer',
      'me',
      '--audience',
      'one',
      '--audience',
      'two',
      '-o',
      'json',
    ])
    const { token, claims } = JSON.parse(stdout)
    assert.deepEqual(claimsOf(token), claims)
    const { jti, nbf, exp, iat, ...rest } = claims
    assert.deepEqual(rest, {
      unique_name: 'ada',
      sub: 'ada',
      scope: 'read',
      role: ['admin', 'ops'],
      team: 'x=y',
      aud: ['one', 'two'],
      iss: 'me',
    })
    assert.match(jti, /^[0-9a-f]{8}$/)
    assert.deepEqual([iat, exp], [nbf, nbf + 7200])
    assert.match(stderr, /only with issuer todo-service and audience todo-item-service\.$/m)
  })

  test('prints a curl command by default', async (t) => {
    const { stdout } = await run(t, ['token', '--name', 'ada'])
    assert.match(stdout, /^A development token for ada, valid until 20\d\d-/)
    assert.match(
      stdout,
      /\ncurl -H "Authorization: Bearer \S+" http:\/\/localhost:5080\/secret\n$|\nTry it: curl -H "Authorization: Bearer \S+" /,
    )
  })

  test('lists all invalid flags and exits with code 2', async (t) => {
    for (const time of ['0d', '90', 'd', '-1d', '1.5h', '9999d', '1y', '']) {
      const { code, stdout } = await run(t, ['token', `--valid-for=${time}`])
      assert.deepEqual([code, stdout], [2, ''], time)
    }
    const { stderr } = await run(t, [
      'token',
      '--valid-for',
      '1y',
      '--claim',
      'exp=1',
      '--claim',
      'x',
      '-o',
      'xml',
      'extra',
    ])
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 5, stderr)
  })
})

suite('token verify', () => {
  const createToken = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) =>
    (await run(t, ['token', '-o', 'token', ...args], env)).stdout.trim()

  test('prints header, claims and each check of an accepted token', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const token = await createToken(t, env, '--name', 'ada', '--valid-for', '3d')
    const { code, stdout } = await run(t, ['token', 'verify', `Bearer ${token}`], env)
    assert.equal(code, 0)
    assert.match(stdout, /"unique_name": "ada"/)
    assert.match(stdout, /^ok {6}signature matches the development key$/m)
    assert.match(stdout, /^ok {6}expires in [23] days$/m)
    assert.doesNotMatch(stdout, /FAILED/)
  })

  test('prints which checks of a rejected token failed', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const TODO_JWT_KEY = randomBytes(32).toString('base64')
    const configured = { ...env, TODO_JWT_KEY, TODO_JWT_ISSUER: 'i', TODO_JWT_AUDIENCE: 'x,y' }
    const seconds = Math.floor(Date.now() / 1000)
    const signed = (claims: object, key = Buffer.from(TODO_JWT_KEY, 'base64')) => {
      const parts = [{ alg: 'HS256' }, { iss: 'i', aud: 'x', exp: seconds + 600, ...claims }]
      const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
      return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
    }
    for (const [token, expected] of [
      [signed({}), /accepts this token/],
      [signed({ exp: seconds - 185 }), /^FAILED {2}expired 3 minutes ago$/m],
      [signed({ aud: 'z' }), /^FAILED {2}audience is "z", this service accepts "x" or "y"$/m],
      [signed({ iss: undefined }), /^FAILED {2}issuer is missing, this service accepts "i"$/m],
      [signed({ nbf: seconds + 7300 }), /^FAILED {2}becomes valid in 2 hours$/m],
      [signed({ exp: undefined }), /^FAILED {2}exp, the expiration time, is missing/m],
      [signed({}, randomBytes(32)), /^FAILED {2}signature does not match the configured key$/m],
      ['nonsense', /^FAILED {2}this is not a JSON Web Token: it does not have three parts$/m],
      [signed({ iss: '\u001b[31m' }), /issuer is "\\u001b\[31m"/],
    ] as const) {
      const { code, stdout } = await run(t, ['token', 'verify', token, '--mode', 'production'], configured)
      assert.match(stdout, expected)
      assert.equal(code, expected.source.startsWith('accepts') ? 0 : 1)
    }
  })

  test('reads public keys from a file', async (t) => {
    const directory = temporaryFolder(t)
    const { publicKey } = generateKeyPairSync('ed25519')
    const file = join(directory, 'key.pem')
    writeFileSync(file, publicKey.export({ type: 'spki', format: 'pem' }))
    const args = ['--jwt-public-key', file, '--jwt-issuer', 'i', '--jwt-audience', 'x', '--mode', 'production']
    const { code, stdout } = await run(t, ['token', 'verify', await createToken(t, {}), ...args])
    assert.equal(code, 1)
    assert.match(stdout, /algorithm is "HS256", the configured key accepts EdDSA/)
  })

  test('fetches public keys from a JWKS URL', async (t) => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    let status = 200
    const server = createServer((_, response) =>
      response.writeHead(status).end(JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })),
    )
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.after(() => {
      server.close()
      server.closeAllConnections()
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
    const parts = [{ alg: 'EdDSA' }, { iss: 'i', aud: 'x', exp: Math.floor(Date.now() / 1000) + 600 }]
    const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    const token = `${input}.${sign(null, Buffer.from(input), privateKey).toString('base64url')}`
    const args = ['token', 'verify', token, '--jwt-jwks', url, '--jwt-issuer', 'i', '--jwt-audience', 'x']
    const accepted = await run(t, [...args, '--mode', 'production'])
    assert.deepEqual([accepted.code, accepted.stderr], [0, ''])
    assert.match(accepted.stdout, /^ok {6}signature matches the configured key$/m)
    status = 503
    const rejected = await run(t, [...args, '--mode', 'production'])
    assert.equal(rejected.code, 1)
    assert.ok(rejected.stderr.includes(`${url}: status 503`), rejected.stderr)
    assert.match(rejected.stdout, /^FAILED {2}the configured key could not be fetched$/m)
  })

  test('lists all invalid options without printing a key', async (t) => {
    const { code, stderr } = await run(
      t,
      [
        'token',
        'verify',
        '--jwt-jwks',
        'http://elsewhere.example',
        '--jwt-public-key',
        '/nowhere',
        '--jwt-clock-tolerance',
        'x',
      ],
      { TODO_JWT_KEY: 'c2hvcnQ=' },
    )
    assert.equal(code, 2)
    assert.doesNotMatch(stderr, /c2hvcnQ/)
    for (const message of [
      'TODO_JWT_KEY must be a key of at least 32 bytes in base64.',
      '--jwt-public-key must be a file with public keys',
      '--jwt-jwks must be an https URL, or an http URL on this machine',
      '--jwt-clock-tolerance must be',
      'exclude each other: use one of them.',
      'needs --jwt-issuer',
      'needs --jwt-audience',
      'The token is missing',
    ])
      assert.ok(stderr.includes(message), `${message}\n${stderr}`)
  })
})

suite('--require-auth', () => {
  test('S7 returns 401 without a token on the to-do endpoints, not on the samples', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const { url } = await startService(t, ['--require-auth'], env)
    const token = (await run(t, ['token', '-o', 'token'], env)).stdout.trim()
    const service = createClient(url)
    const authorization = `Bearer ${token}`
    for (const [method, path] of [
      ['GET', ''],
      ['POST', ''],
      ['GET', '/1'],
      ['PUT', '/1'],
      ['DELETE', '/abc'],
    ] as const) {
      const response = await service.send(method, `/api/todoitems${path}`)
      assert.deepEqual([response.status, response.headers['www-authenticate'], response.text], [401, 'Bearer', ''])
    }
    assert.equal((await service.send('GET', '/api/todoitems', undefined, { authorization })).status, 200)
    assert.equal((await service.send('POST', '/api/todoitems', { isComplete: true }, { authorization })).status, 201)
    assert.equal((await service.send('PATCH', '/api/todoitems')).status, 405)
    assert.equal((await service.send('GET', '/weatherforecast')).status, 200)
  })
})
