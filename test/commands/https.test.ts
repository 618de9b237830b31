import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { generate } from 'selfsigned'
import { cleanUp } from '../support/cleanup.ts'
import { jsonLines, run, start, typed } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { temporaryFolder } from '../support/folder.ts'
import { usedPort } from '../support/port.ts'

const items = '/api/todoitems'
const serveArgs = ['serve', '--profile', 'a', '--host', '127.0.0.1', '--port', '0']

/** Starts the service and waits for the whole line with its URLs. */
async function startService(t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const running = start(t, [...serveArgs, ...args], env)
  const [line, httpUrl = ''] = await running.prints(/(http:\/\/127\.0\.0\.1:\d+).*\n/)
  const [httpsUrl] = /https:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
  const agent = new Agent({ rejectUnauthorized: false })
  cleanUp(t, () => agent.destroy())
  return { running, http: createClient(httpUrl), https: httpsUrl ? createClient(httpsUrl, { agent }) : undefined }
}

async function fetchCertificate(url: string, options: object = {}): Promise<X509Certificate> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', rejectUnauthorized: false, ...options })
  await once(socket, 'secureConnect')
  const certificate = socket.getPeerX509Certificate()
  socket.destroy()
  return certificate as X509Certificate
}

const dayMs = 86_400_000

/** Writes a certificate and its key to files; it is valid from and to that many days from now. */
async function createCredentials(folder: string, fromDays: number, toDays: number) {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'todo.example' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(Date.now() + fromDays * dayMs),
    notAfterDate: new Date(Date.now() + toDays * dayMs),
  })
  const files = { cert: join(folder, `${fromDays} ${toDays}.crt`), key: join(folder, `${fromDays} ${toDays}.key`) }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
  return { ...files, pem: `${cert}\n${key}` }
}

suite('HTTPS in development', { concurrency: 4 }, () => {
  test('is served beside HTTP, with the certificate that the mobile client trusts', async (t) => {
    const { http, https } = await startService(t, ['--https-port', '0'])
    assert.ok(https)
    for (const service of [http, https]) {
      const created = await service.send('POST', items, { isComplete: true })
      assert.equal(created.status, 201)
      assert.ok(created.headers.location?.startsWith(`${service.url}${items}/`), created.headers.location)
    }
    const { subject, issuer, subjectAltName, validTo } = await fetchCertificate(https.url)
    assert.deepEqual([subject, issuer], ['CN=localhost', 'CN=localhost'])
    assert.equal(subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, IP Address:10.0.2.2')
    assert.ok(new Date(validTo).getTime() > Date.now() + 300 * dayMs)
  })

  test('reuses the certificate of the last run, and replaces one that is expiring, foreign or damaged', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const fingerprint = async () => {
      const { https } = await startService(t, ['--https-port', '0'], { XDG_CONFIG_HOME })
      return (await fetchCertificate(https?.url ?? '')).fingerprint256
    }
    const first = await fingerprint()
    assert.equal(await fingerprint(), first)
    const file = join(XDG_CONFIG_HOME, 'todo-item-service', 'localhost.pem')
    const withoutKey = readFileSync(file, 'utf8').replace(/-----BEGIN PRIVATE KEY[\s\S]*/, '')
    const expiring = (await createCredentials(XDG_CONFIG_HOME, -300, 20)).pem
    const foreign = (await createCredentials(XDG_CONFIG_HOME, -1, 300)).pem
    for (const old of [expiring, foreign, withoutKey, 'nonsense']) {
      writeFileSync(file, old)
      const renewed = await fingerprint()
      assert.equal(new X509Certificate(readFileSync(file)).fingerprint256, renewed)
      assert.ok(new Date(new X509Certificate(readFileSync(file)).validTo).getTime() > Date.now() + 300 * dayMs)
    }
  })

  test('works when the certificate cannot be stored', async (t) => {
    const XDG_CONFIG_HOME = join(temporaryFolder(t), 'a file')
    writeFileSync(XDG_CONFIG_HOME, '')
    const { https } = await startService(t, ['--https-port', '0'], { XDG_CONFIG_HOME })
    assert.equal((await https?.send('GET', items))?.status, 200)
  })

  test('accepts TLS 1.2 and rejects older versions', async (t) => {
    const { https } = await startService(t, ['--https-port', '0'])
    await fetchCertificate(https?.url ?? '', { maxVersion: 'TLSv1.2' })
    await assert.rejects(fetchCertificate(https?.url ?? '', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' }))
  })

  test('is disabled by --no-https, and by --port without --https-port', async (t) => {
    for (const args of [['--no-https'], []]) assert.equal((await startService(t, args)).https, undefined)
  })

  test('B12: does not redirect HTTP', async (t) => {
    const { http } = await startService(t, ['--https-port', '0', '--https-redirect-port', '443'])
    assert.equal((await http.send('GET', items)).status, 200)
  })

  test('is not served when its port is in use: HTTP is, and the start message says why', async (t) => {
    const port = await usedPort(t)
    const { running, http } = await startService(t, ['--https-port', `${port}`])
    await running.prints(/Ctrl\+C/)
    assert.equal((await http.send('GET', items)).status, 200)
    assert.match(
      running.stdout,
      new RegExp(
        `^ {13}no HTTPS {2}port ${port} is in use by .*\\.\n {23}Stop the program, or .* --https-port [1-9]\\d*\n`,
        'm',
      ),
    )
    assert.doesNotMatch(running.stdout, /https:/)
    assert.equal(JSON.parse((await http.send('GET', '/__admin/info')).text).certificate, undefined)
  })
})

suite('HTTPS in production', { concurrency: 4 }, () => {
  const production = ['--mode', 'production']

  test('exits with code 1 when a port is in use, and suggests others for all that are', async (t) => {
    const { cert, key } = await createCredentials(temporaryFolder(t), -1, 10)
    const [http, https] = [await usedPort(t), await usedPort(t)]
    const args = [...production, '--profile=b', '--host', '127.0.0.1', '--tls-cert', cert, '--tls-key', key]
    const { code, stdout, stderr } = await run(t, ['serve', ...args, '--port', `${http}`, '--https-port', `${https}`])
    assert.deepEqual([code, stdout], [1, ''])
    const [message, httpsPort = '', port = ''] =
      /^todo-service: Port \d+ is in use by .*\. Port \d+ is in use by .*\. Stop .* --https-port (\d+) --port (\d+)\n$/.exec(
        stderr,
      ) ?? []
    assert.ok(message, stderr)
    assert.ok(message.includes(typed('serve', ...args, '--https-port', httpsPort, '--port', port)), stderr)
  })

  test('B12: redirects HTTP to the HTTPS port with 307, same path and query', async (t) => {
    const { cert, key } = await createCredentials(temporaryFolder(t), -1, 10)
    const { http, https } = await startService(t, [
      ...production,
      '--https-port',
      '0',
      '--tls-cert',
      cert,
      '--tls-key',
      key,
    ])
    assert.ok(https)
    for (const [method, target] of [
      ['GET', `${items}?a=b&c=%20`],
      ['POST', items],
      ['DELETE', `${items}/a%2Fb`],
      ['GET', '//x/y'],
    ] as const) {
      const { status, headers, text } = await http.send(
        method,
        target,
        method === 'POST' ? { isComplete: true } : undefined,
      )
      assert.deepEqual([status, headers.location, text], [307, `${https.url}${target}`, ''])
    }
    assert.equal((await https.send('GET', items)).text, '[]')
    assert.equal((await fetchCertificate(https.url)).subject, 'CN=todo.example')
  })

  test('B12: prefers --https-redirect-port to the HTTPS port', async (t) => {
    const { cert, key } = await createCredentials(temporaryFolder(t), -1, 10)
    const httpsArgs = ['--https-port', '0', '--tls-cert', cert, '--tls-key', key]
    const { http } = await startService(t, [...production, ...httpsArgs, '--https-redirect-port', '443'])
    const { headers } = await http.send('GET', '/x', undefined, { host: 'todo.example' })
    assert.equal(headers.location, 'https://todo.example/x')
  })

  test('B12: redirects to --https-redirect-port when it does not serve HTTPS itself', async (t) => {
    for (const [port, target] of [
      ['443', 'https://todo.example/x?y=z'],
      ['8443', 'https://todo.example:8443/x?y=z'],
    ] as const) {
      const { http } = await startService(t, [...production, '--https-redirect-port', port])
      const { status, headers } = await http.send('GET', '/x?y=z', undefined, { host: 'todo.example:80' })
      assert.deepEqual([status, headers.location], [307, target])
    }
  })

  test('B12: redirects to --base-url, whatever Host says', async (t) => {
    for (const [baseUrl, target] of [
      ['https://todo.example', 'https://todo.example/x?y=z'],
      ['https://todo.example:9443/tasks', 'https://todo.example:9443/tasks/x?y=z'],
      ['http://todo.example:8080', 'https://todo.example:8443/x?y=z'],
    ] as const) {
      const { http } = await startService(t, [...production, '--https-redirect-port', '8443', '--base-url', baseUrl])
      const { status, headers } = await http.send('GET', '/x?y=z', undefined, { host: 'evil.example' })
      assert.deepEqual([status, headers.location], [307, target])
    }
  })

  test('B12: does not redirect when no HTTPS port is known, and logs a note at startup', async (t) => {
    const { running, http } = await startService(t, production)
    assert.equal((await http.send('GET', items)).status, 200)
    assert.match(jsonLines(running.stdout)[0].notes.join(), /Plain HTTP is not redirected: no HTTPS port is known\./)
  })

  test('uses X-Forwarded-Proto and X-Forwarded-Host only from a trusted proxy', async (t) => {
    const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'public.example' }
    const redirectArgs = [...production, '--https-redirect-port', '443']
    const { http: untrusting } = await startService(t, redirectArgs)
    assert.equal((await untrusting.send('GET', items, undefined, forwarded)).status, 307)
    for (const proxies of ['1', '127.0.0.0/8', '::1,127.0.0.1']) {
      const { http } = await startService(t, [...redirectArgs, '--trust-proxy', proxies])
      const created = await http.send('POST', items, { isComplete: true }, forwarded)
      assert.deepEqual([created.status, created.headers.location], [201, 'https://public.example/api/todoitems/1'])
      assert.equal((await http.send('GET', items)).status, 307)
    }
    const { http } = await startService(t, [...redirectArgs, '--trust-proxy', '10.0.0.0/8'])
    assert.equal((await http.send('GET', items, undefined, forwarded)).status, 307)
  })

  test('does not print a key or password that is passed to the wrong option', async (t) => {
    const { key } = await createCredentials(temporaryFolder(t), -1, 10)
    const pem = readFileSync(key, 'utf8')
    for (const [args, env] of [
      [[], { TODO_TLS_KEY: pem }],
      [['--tls-key', pem], {}],
      [['--jwt-jwks', 'https://user:hunter2@keys.example/'], {}],
      [['--base-url', 'https://user:hunter2@todo.example/'], {}],
    ] as const) {
      const { code, stderr } = await run(t, [...serveArgs, ...args], env)
      assert.equal(code, 2)
      assert.doesNotMatch(stderr, /BEGIN|hunter2/)
    }
  })

  test('exits with code 2 and the reason when the TLS or proxy settings are invalid', async (t) => {
    const folder = temporaryFolder(t)
    const [good, other] = [await createCredentials(folder, -1, 10), await createCredentials(folder, -2, 20)]
    const [expired, notYetValid] = [await createCredentials(folder, -20, -10), await createCredentials(folder, 5, 10)]
    mkdirSync(join(folder, 'a folder'))
    for (const [args, message] of [
      [['--tls-cert', good.cert], '--tls-cert needs --tls-key'],
      [['--tls-key', good.key], '--tls-key needs --tls-cert'],
      [['--tls-cert', good.cert, '--tls-key', other.key], 'does not belong to the certificate'],
      [['--tls-cert', expired.cert, '--tls-key', expired.key], 'The certificate in --tls-cert expired on 20'],
      [['--tls-cert', notYetValid.cert, '--tls-key', notYetValid.key], 'is not valid before 20'],
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
      const { code, stdout, stderr } = await run(t, [...serveArgs, ...production, ...args])
      assert.deepEqual([code, stdout], [2, ''], args.join(' '))
      assert.ok(stderr.includes(message), stderr)
    }
  })
})
