import assert from 'node:assert/strict'
import { createHmac, createSecretKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { sampleRequest } from '../../src/commands/token.ts'
import { defaultUrls, findService } from '../../src/service/client.ts'
import { signDevToken } from '../../src/service/tokens.ts'
import { cleanUp } from '../support/cleanup.ts'
import { cli, jsonLines, run, runCommand, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { Stopwatch } from '../support/stopwatch.ts'

async function startService(t: TestContext, args: string[], env: NodeJS.ProcessEnv) {
  const running = start(t, ['serve', '--profile', 'a', '--port', '0', '--host', '127.0.0.1', ...args], env)
  const [url] = await running.prints(/http:\/\/[^\s"]+:\d+/)
  const status = async (token: string) =>
    (await createClient(url).send('GET', '/secret', undefined, { authorization: `Bearer ${token}` })).status
  return { running, url, status }
}

/** The URL of a server that is closed after the test. */
async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanUp(t, () => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

suite('token', { concurrency: 4 }, () => {
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

  const notStored = (directory: string, reason: string) =>
    `Cannot store the development key in ${join(directory, 'todo-item-service')} (${reason})`

  test('fails without a token if the key cannot be stored, because no service would accept the token', async (t) => {
    const file = join(temporaryFolder(t), 'a file')
    writeFileSync(file, '')
    for (const output of ['default', 'token', 'json']) {
      const { code, stdout, stderr } = await run(t, ['token', '-o', output], { XDG_CONFIG_HOME: file })
      assert.deepEqual([code, stdout], [1, ''])
      const reason = notStored(file, 'ENOTDIR: not a directory')
      assert.ok(stderr.startsWith(`todo-service: ${reason}, so no service would accept the token: free `), stderr)
      assert.equal(stderr.trim().split('\n').length, 1)
    }
  })

  const noLimits = process.platform !== 'linux' && 'sets a limit on the size of files as Linux does'
  test('fails without a token if the disk is full, and leaves no file', { skip: noLimits }, async (t) => {
    const folder = temporaryFolder(t)
    // With a limit of 0, files can be created but not written.
    const script = 'ulimit -f 0 && XDG_CONFIG_HOME="$2" exec "$0" "$1" token -o token'
    const { code, stdout, stderr } = await runCommand(t, 'sh', ['-c', script, process.execPath, cli, folder])
    assert.deepEqual([code, stdout], [1, ''])
    assert.ok(stderr.startsWith(`todo-service: ${notStored(folder, 'EFBIG: file too large')}`), stderr)
    assert.deepEqual(readdirSync(join(folder, 'todo-item-service')), [])
  })

  test('the service and token verify use a temporary key, and say so, if it cannot be stored', async (t) => {
    const XDG_CONFIG_HOME = join(temporaryFolder(t), 'a file')
    writeFileSync(XDG_CONFIG_HOME, '')
    const message = `${notStored(XDG_CONFIG_HOME, 'ENOTDIR: not a directory')}: this process uses a temporary key`
    const { running, url, status } = await startService(t, [], { XDG_CONFIG_HOME })
    await running.prints(/Stop it with/)
    assert.ok(running.stdout.includes(message), running.stdout)
    const { text } = await createClient(url).send('GET', '/swagger/index.html')
    assert.equal(await status(/eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(text)?.[0] ?? ''), 200)
    const { code, stderr } = await run(t, ['token', 'verify', 'a.b.c'], { XDG_CONFIG_HOME })
    assert.equal(code, 1)
    assert.ok(stderr.startsWith(`todo-service: ${message}`), stderr)
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
    const { jti, exp, iat, ...rest } = claims
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
    assert.ok([7200, 7201].includes(exp - iat), `${exp - iat}`)
    assert.match(stderr, /only with issuer todo-service and audience todo-item-service\.$/m)
  })

  test('prints a curl command by default', async (t) => {
    const { stdout } = await run(t, ['token', '--name', 'ada'])
    assert.match(stdout, /^A development token for ada, valid until 20\d\d-/)
    assert.match(
      stdout,
      /\n(?:Try it: )?curl (?:-k )?-H "Authorization: Bearer \S+" https?:\/\/localhost:\d+\/secret\n$/,
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

suite('sample request', { concurrency: 4 }, () => {
  const enough = 60_000

  test('is for the first URL where the service runs, over HTTP or HTTPS', async (t) => {
    const args = ['serve', '--profile', 'b', '--port', '0', '--https-port', '0']
    const [, http = '', https = ''] = await start(t, args).prints(/(http:\S+:\d+) +(https:\S+:\d+)/)
    const closed = `http://localhost:${await freePort()}`
    assert.equal(await findService([closed, http, https], enough), http)
    assert.equal(await findService([closed, https], enough), https)
    assert.equal(sampleRequest('T', http), `Try it: curl -H "Authorization: Bearer T" ${http}/secret`)
    assert.equal(sampleRequest('T', https), `Try it: curl -k -H "Authorization: Bearer T" ${https}/secret`)
  })

  test('is for both schemes where no service is found: another program responds, or none does in time', async (t) => {
    const other = await listen(t, (_, response) => response.end('Hello World!'))
    const unauthorized = await listen(t, (_, response) => response.writeHead(403).end('live'))
    assert.equal(await findService([other, unauthorized], enough), undefined)
    const stopwatch = new Stopwatch()
    assert.equal(await findService([await listen(t, () => {})], 100), undefined)
    stopwatch.assertWithin(5_000)
    const text = sampleRequest('T', undefined)
    assert.match(text, /^No service responds on the default ports\./)
    assert.match(text, /^curl -H "Authorization: Bearer T" http:\/\/localhost:5080\/secret$/m)
    assert.match(text, /^curl -k -H "Authorization: Bearer T" https:\/\/localhost:5081\/secret$/m)
    assert.match(text, /Profile B: http:\/\/localhost:5000 and https:\/\/localhost:5001/)
  })

  test('is looked for on the default ports of both profiles', () => {
    assert.deepEqual(defaultUrls, [
      'http://localhost:5080',
      'http://localhost:5000',
      'https://localhost:5081',
      'https://localhost:5001',
    ])
  })
})

suite('token verify', { concurrency: 4 }, () => {
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

  test('a development token gets no clock tolerance, whatever is configured for others', async (t) => {
    const env = { XDG_CONFIG_HOME: temporaryFolder(t) }
    const verify = (token: string) => run(t, ['token', 'verify', token, '--jwt-clock-tolerance', '3600'], env)
    assert.equal((await verify(await createToken(t, env))).code, 0)
    const key = readFileSync(join(env.XDG_CONFIG_HOME, 'todo-item-service', 'development-key'), 'utf8')
    const expired = await signDevToken(createSecretKey(Buffer.from(key, 'base64')), { validForSeconds: -1 })
    const { code, stdout } = await verify(expired.token)
    assert.equal(code, 1)
    assert.match(stdout, /^FAILED {2}expired \d+ seconds? ago$/m)
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
    const jwks = JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })
    const url = `${await listen(t, (_, response) => response.writeHead(status).end(jwks))}/keys`
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
    assert.match(rejected.stdout, /with these settings returns 503 because it cannot check this token\.$/m)
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

suite('keys for tokens', { concurrency: 4 }, () => {
  const accept = ['--jwt-issuer', 'i', '--jwt-audience', 'x', '--mode', 'production']

  test('the service does not start with a weak public key, and names it', async (t) => {
    const file = join(temporaryFolder(t), 'keys')
    const good = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey
    const jwk = good.export({ format: 'jwk' })
    const pem = { type: 'spki', format: 'pem' } as const
    for (const [content, key] of [
      [`${good.export(pem)}${weak.export(pem)}`, 'RSA key 2 has a modulus of 1024 bits, not at least 2048'],
      [
        JSON.stringify({ keys: [jwk, { ...jwk, kid: 'one', e: 'AQ' }] }),
        'RSA key 2 (kid "one") has a public exponent that is not an odd number of at least 3',
      ],
    ] as const) {
      writeFileSync(file, content)
      const { code, stdout, stderr } = await run(t, ['serve', '--jwt-public-key', file, '--port', '0', ...accept])
      assert.deepEqual([code, stdout], [2, ''])
      assert.ok(stderr.includes(`todo-service: --jwt-public-key must not contain a weak key: ${key}.\n`), stderr)
    }
  })

  test('A15 tokens get 503, and the log says why, until a key server was reached', async (t) => {
    const jwks = await listen(t, (_, response) => response.writeHead(500).end())
    const { status, running } = await startService(t, ['--jwt-jwks', jwks, ...accept], {})
    const parts = [{ alg: 'RS256' }, { iss: 'i', aud: 'x', exp: Math.floor(Date.now() / 1000) + 600 }, 'signature']
    const token = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    assert.equal(await status(token), 503)
    assert.equal(await status('nonsense'), 401)
    await running.prints(/Cannot fetch.*\n/)
    const lines = jsonLines(running.stdout).map(({ message }) => message)
    assert.deepEqual(lines.slice(2), [`Cannot fetch the public keys for tokens from ${jwks}/: status 500.`])
  })

  test('TODO_JWT_KEY can be the line that dotnet user-jwts key prints', async (t) => {
    const key = randomBytes(32)
    const header = Buffer.from('{"alg":"HS256"}').toString('base64url')
    const exp = Math.floor(Date.now() / 1000) + 600
    const claims = Buffer.from(JSON.stringify({ iss: 'dotnet-user-jwts', aud: ['u', 'v'], exp })).toString('base64url')
    const signature = createHmac('sha256', key).update(`${header}.${claims}`).digest('base64url')
    const base64 = key.toString('base64')
    const env = { TODO_JWT_ISSUER: 'dotnet-user-jwts', TODO_JWT_AUDIENCE: 'u' }
    for (const [TODO_JWT_KEY, expected] of [
      [base64, 0],
      [`Signing Key: '${base64}'`, 0],
      [`Signing Key: '${base64}'\n`, 0],
      [`'${base64}'`, 0],
      [`Signing Key: '${base64}`, 2],
      ["Signing Key: ''", 2],
      [`Signing Key: '${base64.slice(4)}'`, 2],
      ['Signing key for JWTs was not found.', 2],
    ] as const) {
      const { code } = await run(t, ['token', 'verify', `${header}.${claims}.${signature}`], { ...env, TODO_JWT_KEY })
      assert.equal(code, expected, TODO_JWT_KEY)
    }
  })
})

suite('--require-auth', { concurrency: 4 }, () => {
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
