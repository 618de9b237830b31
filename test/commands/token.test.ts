import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, randomBytes } from 'node:crypto'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { serviceAt } from '../../src/verify/service.ts'
import { jsonLines, run, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

async function secretAt(t: TestContext, args: string[], env: NodeJS.ProcessEnv) {
  const running = start(t, ['serve', '--profile', 'a', '--port', '0', '--host', '127.0.0.1', ...args], env)
  const [url] = await running.prints(/http:\/\/[^\s"]+:\d+/)
  const status = async (token: string) =>
    (await serviceAt(url).send('GET', '/secret', undefined, { authorization: `Bearer ${token}` })).status
  return { running, url, status }
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

suite('token', () => {
  test('makes a token that a service in development accepts, and one in production does not', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const { code, stdout, stderr } = await run(t, ['token', '-o', 'token'], env)
    assert.deepEqual([code, stderr], [0, ''])
    const token = stdout.trim()
    assert.equal(await (await secretAt(t, [], env)).status(token), 200)
    const production = await secretAt(t, ['--mode', 'production'], env)
    assert.equal(await production.status(token), 401)
    assert.match(
      jsonLines(production.running.stdout)[0].notes[0],
      /^The protected endpoints answer 401 to everyone: no key/,
    )
  })

  test('the key is made once, private, and shared by commands that start at the same time', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const made = await Promise.all(
      Array.from({ length: 6 }, () => run(t, ['token', '-o', 'token'], { XDG_CONFIG_HOME })),
    )
    const folder = join(XDG_CONFIG_HOME, 'todo-item-service')
    assert.deepEqual(readdirSync(folder), ['development-key'])
    assert.equal(statSync(join(folder, 'development-key')).mode & 0o777, 0o600)
    const { status } = await secretAt(t, [], { XDG_CONFIG_HOME })
    for (const { stdout } of made) assert.equal(await status(stdout.trim()), 200)
  })

  test('a folder that cannot be written: a key for this run, and a sentence that says so', async (t) => {
    const XDG_CONFIG_HOME = join(temporaryFolder(t), 'a file')
    writeFileSync(XDG_CONFIG_HOME, '')
    const sentence = /The development key cannot be kept in .*a file.*: this run has one of its own/
    const { code, stderr } = await run(t, ['token'], { XDG_CONFIG_HOME })
    assert.equal(code, 0)
    assert.match(stderr, sentence)
    const { running } = await secretAt(t, [], { XDG_CONFIG_HOME })
    await running.prints(sentence)
  })

  test('has the claims that were asked for', async (t) => {
    const { stdout } = await run(t, [
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
  })

  test('prints a line to try by default', async (t) => {
    const { stdout } = await run(t, ['token', '--name', 'ada'])
    assert.match(stdout, /^A development token for ada, valid until 20\d\d-/)
    assert.match(
      stdout,
      /\ncurl -H "Authorization: Bearer \S+" http:\/\/localhost:5080\/secret\n$|\nTry it: curl -H "Authorization: Bearer \S+" /,
    )
  })

  test('mistakes are named at once, with exit code 2', async (t) => {
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
  const tokenWith = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) =>
    (await run(t, ['token', '-o', 'token', ...args], env)).stdout.trim()

  test('says what is inside and that it is accepted', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const token = await tokenWith(t, env, '--name', 'ada', '--valid-for', '3d')
    const { code, stdout } = await run(t, ['token', 'verify', `Bearer ${token}`], env)
    assert.equal(code, 0)
    assert.match(stdout, /"unique_name": "ada"/)
    assert.match(stdout, /^ok {6}signature matches the development key$/m)
    assert.match(stdout, /^ok {6}expires in [23] days$/m)
    assert.doesNotMatch(stdout, /FAILED/)
  })

  test('says in words what is wrong', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const TODO_JWT_KEY = randomBytes(32).toString('base64')
    const configured = { ...env, TODO_JWT_KEY, TODO_JWT_ISSUER: 'i', TODO_JWT_AUDIENCE: 'x,y' }
    const seconds = Math.floor(Date.now() / 1000)
    const signed = (claims: object, key = Buffer.from(TODO_JWT_KEY, 'base64')) => {
      const parts = [{ alg: 'HS256' }, { iss: 'i', aud: 'x', exp: seconds + 600, ...claims }]
      const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
      return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
    }
    for (const [token, words] of [
      [signed({}), /accepts this token/],
      [signed({ exp: seconds - 185 }), /^FAILED {2}expired 3 minutes ago$/m],
      [signed({ aud: 'z' }), /^FAILED {2}audience is "z", this service accepts "x" or "y"$/m],
      [signed({ iss: undefined }), /^FAILED {2}issuer is missing, this service accepts "i"$/m],
      [signed({ nbf: seconds + 7300 }), /^FAILED {2}valid only in 2 hours$/m],
      [signed({ exp: undefined }), /^FAILED {2}exp, the expiration time, is missing/m],
      [signed({}, randomBytes(32)), /^FAILED {2}signature does not match the configured key$/m],
      ['nonsense', /^FAILED {2}this is not a JSON Web Token: it does not have three parts$/m],
      [signed({ iss: '\u001b[31m' }), /issuer is "\\u001b\[31m"/],
    ] as const) {
      const { code, stdout } = await run(t, ['token', 'verify', token, '--mode', 'production'], configured)
      assert.match(stdout, words)
      assert.equal(code, words.source.startsWith('accepts') ? 0 : 1)
    }
  })

  test('takes public keys from a file', async (t) => {
    const folder = temporaryFolder(t)
    const { publicKey } = generateKeyPairSync('ed25519')
    const file = join(folder, 'key.pem')
    writeFileSync(file, publicKey.export({ type: 'spki', format: 'pem' }))
    const args = ['--jwt-public-key', file, '--jwt-issuer', 'i', '--jwt-audience', 'x', '--mode', 'production']
    const { code, stdout } = await run(t, ['token', 'verify', await tokenWith(t, {}), ...args])
    assert.equal(code, 1)
    assert.match(stdout, /algorithm is "HS256", the configured key accepts EdDSA/)
  })

  test('mistakes in the settings are named at once and show no key', async (t) => {
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
    for (const part of [
      'TODO_JWT_KEY must be a key of at least 32 bytes in base64.',
      '--jwt-public-key must be a file with public keys',
      '--jwt-jwks must be an https URL, or an http URL on this machine',
      '--jwt-clock-tolerance must be',
      'are both given: keep one.',
      'needs --jwt-issuer',
      'needs --jwt-audience',
      'Which token?',
    ])
      assert.ok(stderr.includes(part), `${part}\n${stderr}`)
  })
})

suite('--require-auth', () => {
  test('S7 the to-do items ask for a token too, and the samples do not', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const { url } = await secretAt(t, ['--require-auth'], env)
    const token = (await run(t, ['token', '-o', 'token'], env)).stdout.trim()
    const service = serviceAt(url)
    const authorization = `Bearer ${token}`
    for (const [method, path] of [
      ['GET', ''],
      ['POST', ''],
      ['GET', '/1'],
      ['PUT', '/1'],
      ['DELETE', '/abc'],
    ] as const) {
      const answer = await service.send(method, `/api/todoitems${path}`)
      assert.deepEqual([answer.status, answer.headers['www-authenticate'], answer.text], [401, 'Bearer', ''])
    }
    assert.equal((await service.send('GET', '/api/todoitems', undefined, { authorization })).status, 200)
    assert.equal((await service.send('POST', '/api/todoitems', { isComplete: true }, { authorization })).status, 201)
    assert.equal((await service.send('PATCH', '/api/todoitems')).status, 405)
    assert.equal((await service.send('GET', '/weatherforecast')).status, 200)
  })
})
