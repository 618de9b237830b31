import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { generate } from 'selfsigned'
import { serviceAt } from '../../src/verify/service.ts'
import { jsonLines, run, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

const items = '/api/todoitems'
const single = ['serve', '--profile', 'a', '--host', '127.0.0.1', '--port', '0']

async function startWith(t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const running = start(t, [...single, ...args], env)
  const [http = ''] = await running.prints(/http:\/\/127\.0\.0\.1:\d+/)
  const [https] = /https:\/\/127\.0\.0\.1:\d+/.exec(running.stdout) ?? []
  const agent = new Agent({ rejectUnauthorized: false })
  t.after(() => agent.destroy())
  return { running, plain: serviceAt(http), secure: https ? serviceAt(https, { agent }) : undefined }
}

async function certificateAt(url: string, options: object = {}): Promise<X509Certificate> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', rejectUnauthorized: false, ...options })
  await once(socket, 'secureConnect')
  const certificate = socket.getPeerX509Certificate()
  socket.destroy()
  return certificate as X509Certificate
}

const day = 86_400_000

async function credentialsFor(folder: string, from: number, to: number) {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'todo.example' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(Date.now() + from * day),
    notAfterDate: new Date(Date.now() + to * day),
  })
  const files = { cert: join(folder, `${from} ${to}.crt`), key: join(folder, `${from} ${to}.key`) }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
  return { ...files, pem: `${cert}\n${key}` }
}

suite('HTTPS in development', () => {
  test('is beside HTTP, with a certificate that the mobile client trusts', async (t) => {
    const { plain, secure } = await startWith(t, ['--https-port', '0'])
    assert.ok(secure)
    for (const service of [plain, secure]) {
      const created = await service.send('POST', items, { isComplete: true })
      assert.equal(created.status, 201)
      assert.ok(created.headers.location?.startsWith(`${service.url}${items}/`), created.headers.location)
    }
    const { subject, issuer, subjectAltName, validTo } = await certificateAt(secure.url)
    assert.deepEqual([subject, issuer], ['CN=localhost', 'CN=localhost'])
    assert.equal(subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, IP Address:10.0.2.2')
    assert.ok(new Date(validTo).getTime() > Date.now() + 300 * day)
  })

  test('keeps its certificate for the next run, and renews it before it ends', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const fingerprint = async () => {
      const { secure } = await startWith(t, ['--https-port', '0'], { XDG_CONFIG_HOME })
      return (await certificateAt(secure?.url ?? '')).fingerprint256
    }
    const first = await fingerprint()
    assert.equal(await fingerprint(), first)
    const file = join(XDG_CONFIG_HOME, 'todo-item-service', 'localhost.pem')
    const withoutKey = readFileSync(file, 'utf8').replace(/-----BEGIN PRIVATE KEY[\s\S]*/, '')
    const ending = (await credentialsFor(XDG_CONFIG_HOME, -300, 20)).pem
    const anothers = (await credentialsFor(XDG_CONFIG_HOME, -1, 300)).pem
    for (const old of [ending, anothers, withoutKey, 'nonsense']) {
      writeFileSync(file, old)
      const renewed = await fingerprint()
      assert.equal(new X509Certificate(readFileSync(file)).fingerprint256, renewed)
      assert.ok(new Date(new X509Certificate(readFileSync(file)).validTo).getTime() > Date.now() + 300 * day)
    }
  })

  test('works for this run where no certificate can be kept', async (t) => {
    const XDG_CONFIG_HOME = join(temporaryFolder(t), 'a file')
    writeFileSync(XDG_CONFIG_HOME, '')
    const { secure } = await startWith(t, ['--https-port', '0'], { XDG_CONFIG_HOME })
    assert.equal((await secure?.send('GET', items))?.status, 200)
  })

  test('speaks TLS 1.2 and newer', async (t) => {
    const { secure } = await startWith(t, ['--https-port', '0'])
    await certificateAt(secure?.url ?? '', { maxVersion: 'TLSv1.2' })
    await assert.rejects(certificateAt(secure?.url ?? '', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' }))
  })

  test('is off with --no-https, and where a profile is moved to another port', async (t) => {
    for (const args of [['--no-https'], []]) assert.equal((await startWith(t, args)).secure, undefined)
  })

  test('B12 plain HTTP is never redirected', async (t) => {
    const { plain } = await startWith(t, ['--https-port', '0', '--https-redirect-port', '443'])
    assert.equal((await plain.send('GET', items)).status, 200)
  })

  test('a port in use: exit code 1, which port, and what to do', async (t) => {
    const holder = createServer().listen(0, '127.0.0.1')
    t.after(() => holder.close())
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo
    const { code, stderr } = await run(t, [...single, '--https-port', `${port}`])
    assert.equal(code, 1)
    assert.match(
      stderr,
      new RegExp(
        `^todo-service: Port ${port} is in use\\. .* serve --profile . --port \\d+ --https-port ${port + 10}\n$`,
      ),
    )
  })
})

suite('HTTPS in production', () => {
  const production = ['--mode', 'production']

  test('B12 plain HTTP is redirected to its own HTTPS port: 307, same path and query', async (t) => {
    const { cert, key } = await credentialsFor(temporaryFolder(t), -1, 10)
    const { plain, secure } = await startWith(t, [
      ...production,
      '--https-port',
      '0',
      '--tls-cert',
      cert,
      '--tls-key',
      key,
    ])
    assert.ok(secure)
    for (const [method, target] of [
      ['GET', `${items}?a=b&c=%20`],
      ['POST', items],
      ['DELETE', `${items}/a%2Fb`],
      ['GET', '//x/y'],
    ] as const) {
      const { status, headers, text } = await plain.send(
        method,
        target,
        method === 'POST' ? { isComplete: true } : undefined,
      )
      assert.deepEqual([status, headers.location, text], [307, `${secure.url}${target}`, ''])
    }
    assert.equal((await secure.send('GET', items)).text, '[]')
    assert.equal((await certificateAt(secure.url)).subject, 'CN=todo.example')
  })

  test('B12 a redirect port that is named comes before its own HTTPS port', async (t) => {
    const { cert, key } = await credentialsFor(temporaryFolder(t), -1, 10)
    const own = ['--https-port', '0', '--tls-cert', cert, '--tls-key', key]
    const { plain } = await startWith(t, [...production, ...own, '--https-redirect-port', '443'])
    const { headers } = await plain.send('GET', '/x', undefined, { host: 'todo.example' })
    assert.equal(headers.location, 'https://todo.example/x')
  })

  test('B12 behind a balancer it is redirected to the port that is named', async (t) => {
    for (const [port, target] of [
      ['443', 'https://todo.example/x?y=z'],
      ['8443', 'https://todo.example:8443/x?y=z'],
    ] as const) {
      const { plain } = await startWith(t, [...production, '--https-redirect-port', port])
      const { status, headers } = await plain.send('GET', '/x?y=z', undefined, { host: 'todo.example:80' })
      assert.deepEqual([status, headers.location], [307, target])
    }
  })

  test('B12 where no HTTPS port is known it is not redirected, and the start message says so', async (t) => {
    const { running, plain } = await startWith(t, production)
    assert.equal((await plain.send('GET', items)).status, 200)
    assert.match(jsonLines(running.stdout)[0].notes.join(), /Plain HTTP is not redirected: no HTTPS port is known\./)
  })

  test('a forwarded scheme and host count only where the proxy is trusted', async (t) => {
    const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'public.example' }
    const redirecting = [...production, '--https-redirect-port', '443']
    const { plain: stranger } = await startWith(t, redirecting)
    assert.equal((await stranger.send('GET', items, undefined, forwarded)).status, 307)
    for (const trust of ['1', '127.0.0.0/8', '::1,127.0.0.1']) {
      const { plain } = await startWith(t, [...redirecting, '--trust-proxy', trust])
      const created = await plain.send('POST', items, { isComplete: true }, forwarded)
      assert.deepEqual([created.status, created.headers.location], [201, 'https://public.example/api/todoitems/1'])
      assert.equal((await plain.send('GET', items)).status, 307)
    }
    const { plain } = await startWith(t, [...redirecting, '--trust-proxy', '10.0.0.0/8'])
    assert.equal((await plain.send('GET', items, undefined, forwarded)).status, 307)
  })

  test('a key or a password that is given in the wrong place is not shown', async (t) => {
    const { key } = await credentialsFor(temporaryFolder(t), -1, 10)
    const pem = readFileSync(key, 'utf8')
    for (const [args, env] of [
      [[], { TODO_TLS_KEY: pem }],
      [['--tls-key', pem], {}],
      [['--jwt-jwks', 'https://user:hunter2@keys.example/'], {}],
      [['--base-url', 'https://user:hunter2@todo.example/'], {}],
    ] as const) {
      const { code, stderr } = await run(t, [...single, ...args], env)
      assert.equal(code, 2)
      assert.doesNotMatch(stderr, /BEGIN|hunter2/)
    }
  })

  test('what is wrong with a certificate or its key is said at start', async (t) => {
    const folder = temporaryFolder(t)
    const [good, other] = [await credentialsFor(folder, -1, 10), await credentialsFor(folder, -2, 20)]
    const [ended, early] = [await credentialsFor(folder, -20, -10), await credentialsFor(folder, 5, 10)]
    mkdirSync(join(folder, 'a folder'))
    for (const [args, words] of [
      [['--tls-cert', good.cert], '--tls-cert needs --tls-key'],
      [['--tls-key', good.key], '--tls-key needs --tls-cert'],
      [['--tls-cert', good.cert, '--tls-key', other.key], 'does not belong to the certificate'],
      [['--tls-cert', ended.cert, '--tls-key', ended.key], 'The certificate in --tls-cert expired on 20'],
      [['--tls-cert', early.cert, '--tls-key', early.key], 'is valid only from 20'],
      [['--tls-cert', good.key, '--tls-key', good.cert], '--tls-cert must be a readable file with a certificate'],
      [
        ['--tls-cert', good.cert, '--tls-key', join(folder, 'a folder')],
        '--tls-key must be a readable file with a private key',
      ],
      [['--tls-cert', '/nowhere', '--tls-key', good.key], '--tls-cert must be a readable file'],
      [['--https-port', '0'], '--https-port needs --tls-cert and --tls-key in production'],
      [
        ['--no-https', '--tls-cert', good.cert, '--tls-key', good.key],
        '--no-https and --tls-cert contradict each other',
      ],
      [['--trust-proxy', '10.0.0.0/33'], '--trust-proxy must be a number of hops'],
      [['--trust-proxy', 'true'], '--trust-proxy must be a number of hops'],
    ] as const) {
      const { code, stdout, stderr } = await run(t, [...single, ...production, ...args])
      assert.deepEqual([code, stdout], [2, ''], args.join(' '))
      assert.ok(stderr.includes(words), stderr)
    }
  })
})
