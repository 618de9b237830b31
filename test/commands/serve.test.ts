import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { profiles } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { cleanUp } from '../support/cleanup.ts'
import { type Interpreter, jsonLines, node, run, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { freePort } from '../support/port.ts'

const items = '/api/todoitems'
const serveArgs = (profile: 'a' | 'b', ...more: string[]) => ['serve', '--profile', profile, '--port', '0', ...more]

/** Starts the service and waits for the whole line with its URL. */
async function startService(t: TestContext, args: string[], env: NodeJS.ProcessEnv = {}, interpreter?: Interpreter) {
  const running = start(t, args, env, interpreter)
  const [, url = ''] = await running.prints(/(http:\/\/[^\s"]+:\d+).*\n/)
  return { running, url }
}

suite('serve in development', { concurrency: 4 }, () => {
  test('prints the URLs, the mode, the store, a curl command and how to stop', async (t) => {
    const { running, url } = await startService(t, serveArgs('b'))
    await running.prints(/Ctrl\+C/)
    assert.match(running.stdout, /development/)
    assert.match(running.stdout, /in memory: lost when the service stops/)
    assert.match(running.stdout, /Profile B {2}http:\/\/localhost:\d+/)
    assert.ok(running.stdout.includes(`curl ${url}${items}`))
  })

  test('listens on both loopback addresses', async (t) => {
    const { url } = await startService(t, serveArgs('b'))
    for (const address of ['127.0.0.1', '[::1]']) {
      const { status } = await createClient(url.replace('localhost', address)).send('GET', items)
      assert.equal(status, 200, address)
    }
  })

  test('logs each request as one readable line, without the query', async (t) => {
    const { running, url } = await startService(t, serveArgs('a'))
    await createClient(url).send('GET', `${items}?access_token=canary`)
    await running.prints(/^GET \/api\/todoitems 200 \d+\.\d ms \(a\)$/m)
    await createClient(url).send('GET', `/${'x'.repeat(5000)}`)
    await running.prints(/^GET \/x{100,300}… 404 \d+\.\d ms \(a, trace \w+\): There is nothing at this path\.$/m)
  })

  test('B2, G7: starts with the initial items after a restart', async (t) => {
    const first = await startService(t, serveArgs('b'))
    const { text: initial } = await createClient(first.url).send('GET', items)
    const { status } = await createClient(first.url).send('POST', items, { id: 'x', name: 'x', notes: 'x' })
    assert.equal(status, 200)
    first.running.process.kill('SIGTERM')
    await first.running.ended
    const second = await startService(t, serveArgs('b'))
    const { text: restarted } = await createClient(second.url).send('GET', items)
    assert.equal(restarted, initial)
  })
})

suite('serve in production', { concurrency: 4 }, () => {
  test('logs start and stop as JSON lines, and no requests', async (t) => {
    const { running, url } = await startService(t, serveArgs('a', '--host', '127.0.0.1'), { NODE_ENV: 'production' })
    await createClient(url).send('GET', items)
    running.process.kill('SIGTERM')
    const { stdout } = await running.ended
    const lines = jsonLines(stdout)
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['started', 'stopped'],
    )
    const { time, level, mode, store, profiles: served } = lines[0]
    assert.deepEqual([level, mode, store], ['info', 'production', 'memory'])
    assert.deepEqual(served, [{ title: 'Profile A', urls: [url] }])
    assert.equal(new Date(time).toISOString(), time)
  })

  test('logs every request at level info, and only 4xx and 5xx responses at level warn', async (t) => {
    for (const [level, paths] of [
      ['info', [items, '/nowhere']],
      ['warn', ['/nowhere']],
    ] as const) {
      const args = serveArgs('a', '--mode', 'production', '--host', '127.0.0.1', '--log-level', level)
      const { running, url } = await startService(t, args)
      await createClient(url).send('GET', items)
      await createClient(url).send('GET', '/nowhere')
      running.process.kill('SIGTERM')
      const { stdout } = await running.ended
      const lines = jsonLines(stdout)
      assert.deepEqual(
        lines.filter(({ message }) => message === 'request').map(({ path }) => path),
        paths,
      )
    }
  })

  test('listens on all interfaces', async (t) => {
    const { url } = await startService(t, serveArgs('b'), { TODO_MODE: 'production' })
    // Linux accepts every address of 127.0.0.0/8.
    const other = process.platform === 'linux' ? ['127.0.0.2'] : []
    for (const address of ['127.0.0.1', '[::1]', ...other]) {
      const { status } = await createClient(url.replace('localhost', address)).send('GET', items)
      assert.equal(status, 200, address)
    }
  })
})

suite('serve flags and variables', { concurrency: 4 }, () => {
  test('serves both profiles by default, A on port 5080 and B on port 5000', () => {
    const config = readConfig([], {}, new Date())
    assert.ok('profiles' in config)
    assert.deepEqual(
      config.profiles.map((name) => [name, config.port ?? profiles[name].defaultPort]),
      [
        ['a', 5080],
        ['b', 5000],
      ],
    )
  })

  test('prefers a flag to its variable', async (t) => {
    const { running } = await startService(t, serveArgs('a'), { TODO_PROFILE: 'b', TODO_PORT: '1' })
    assert.match(running.stdout, /Profile A/)
  })

  test('reads each setting from its variable', async (t) => {
    const { url } = await startService(t, ['serve'], {
      TODO_PROFILE: 'a',
      TODO_PORT: '0',
      TODO_HOST: '127.0.0.1',
      TODO_MODE: 'development',
      TODO_LOG_LEVEL: 'error',
      TODO_BASE_URL: 'https://todo.example/v/',
      TODO_BODY_LIMIT: '40',
    })
    assert.match(url, /127\.0\.0\.1/)
    const created = await createClient(url).send('POST', items, { name: 'x', isComplete: true })
    assert.equal(created.headers.location, 'https://todo.example/v/api/todoitems/1')
    const tooLarge = await createClient(url).send('POST', items, { name: 'x'.repeat(40), isComplete: true })
    assert.equal(tooLarge.status, 413)
  })

  test('prints nothing with --log-level silent', async (t) => {
    const port = await freePort()
    const running = start(t, ['serve', '--profile', 'a', '--port', `${port}`, '--log-level', 'silent'])
    while (!(await accepts(port))) {
      assert.equal(running.process.exitCode, null, 'exited before it listened')
      await pause(20)
    }
    running.process.kill('SIGTERM')
    assert.deepEqual(await running.ended, { code: 0, stdout: '', stderr: '' })
  })

  test('reports every mistake at once, with exit code 2 and no stack trace', async (t) => {
    const { code, stdout, stderr } = await run(
      t,
      ['serve', '--prot', '1', '--port', 'x', '--profile=c', 'extra', '--base-url', 'ftp://x', '--mode'],
      { TODO_LOG_LEVEL: 'loud', TODO_HOST: 'http://x', TODO_BODY_LIMIT: '-1' },
    )
    assert.equal(code, 2)
    assert.equal(stdout, '')
    assert.deepEqual(stderr.trim().split('\n').sort(), [
      'Help: todo-service serve --help',
      'todo-service: --base-url must be an http or https URL without credentials, query or fragment, not "ftp://x".',
      'todo-service: --mode needs a value: development or production.',
      'todo-service: --port must be a whole number from 0 to 65535, not "x".',
      'todo-service: --profile must be a, b or both, not "c".',
      'todo-service: TODO_BODY_LIMIT must be a number of bytes from 1 to 268435456, such as 100000, 512k, 64m or 2g, not "-1".',
      'todo-service: TODO_HOST must be a host name or an address, not "http://x".',
      'todo-service: TODO_LOG_LEVEL must be silent, error, warn or info, not "loud".',
      'todo-service: Unexpected argument "extra".',
      'todo-service: Unknown flag --prot. Did you mean --port?',
    ])
  })

  test('runs in production mode if NODE_ENV is neither empty, development nor test', async (t) => {
    for (const [NODE_ENV, mode] of [
      ['', 'development'],
      ['test', 'development'],
      ['staging', 'production'],
    ] as const) {
      const running = start(t, serveArgs('a', '--host', '127.0.0.1'), { NODE_ENV })
      await running.prints(new RegExp(`\\b${mode}\\b`))
    }
  })

  test('keeps running when its standard output is closed', async (t) => {
    const { running, url } = await startService(t, serveArgs('a'), {}, node)
    running.process.stdout?.destroy()
    for (let sent = 0; sent < 5; sent++) assert.equal((await createClient(url).send('GET', items)).status, 200)
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })

  test('rejects --port without a single profile', async (t) => {
    for (const [args, env, source] of [
      [['--port', '5001'], {}, '--port'],
      [['--profile', 'both'], { TODO_PORT: '5001' }, 'TODO_PORT'],
    ] as const) {
      const { code, stderr } = await run(t, ['serve', ...args], env)
      assert.equal(code, 2)
      assert.ok(stderr.includes(`${source} needs a single profile: add --profile a or --profile b.`), stderr)
    }
  })

  test('exits with code 1 when the port is in use, and suggests another one', async (t) => {
    const blocker = createServer().listen(0, '127.0.0.1')
    cleanUp(t, () => blocker.close())
    await once(blocker, 'listening')
    const { port } = blocker.address() as AddressInfo
    const { code, stdout, stderr } = await run(t, ['serve', '--profile', 'b', '--port', `${port}`])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, new RegExp(`^todo-service: Port ${port} is in use\\. .*--profile b --port ${port + 10}\n$`))
  })

  test('exits with code 1 and one message when the host is not an address of this machine', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--profile', 'b', '--port', '0', '--host', '192.0.2.1'])
    assert.equal(code, 1)
    assert.match(stderr, /^todo-service: Host 192\.0\.2\.1 is not an address of this machine\. .*\n$/)
  })
})

suite('serve shutdown', { concurrency: 4 }, () => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    test(`answers the request in flight after ${signal}, closes idle connections and exits with code 0`, {
      timeout: 60_000,
    }, async (t) => {
      // No timeout closes the idle connection: if the shutdown did not, the process would outlive the test.
      const timeouts = ['request', 'keep-alive', 'drain'].map((name) => `--${name}-timeout=3600`)
      const { running, url } = await startService(t, serveArgs('a', ...timeouts), {}, node)
      const port = Number(new URL(url).port)
      const [idle, socket] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
      cleanUp(t, () => {
        idle.destroy()
        socket.destroy()
      })
      await Promise.all([once(idle, 'connect'), once(socket, 'connect')])
      let received = ''
      socket.on('data', (data) => (received += data))
      const body = JSON.stringify({ name: 'in flight', isComplete: true })
      const head = `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n`
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`)
      await once(socket, 'data')
      assert.match(received, /^HTTP\/1\.1 100 /)
      running.process.kill(signal)
      while (await accepts(port)) await pause(20)
      socket.write(body)
      await once(socket, 'close')
      assert.match(received, /HTTP\/1\.1 201 Created\r\n/)
      assert.match(received, /\r\nconnection: close\r\n/i)
      const { code, stdout, stderr } = await running.ended
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /Stopped\.\n$/)
    })
})

suite('todo-service', { concurrency: 4 }, () => {
  test('shows the commands with --help and without arguments', async (t) => {
    for (const args of [['--help'], ['-h'], ['help'], []]) {
      const { code, stdout, stderr } = await run(t, args)
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /todo-service serve \[flags\]/)
    }
  })

  test('shows each flag with its variable in serve --help', async (t) => {
    const { code, stdout } = await run(t, ['serve', '--port', 'x', '--help'])
    assert.equal(code, 0)
    for (const name of ['profile', 'host', 'port', 'base-url', 'body-limit', 'log-level', 'mode']) {
      const variable = `TODO_${name.toUpperCase().replace('-', '_')}`
      assert.match(stdout, new RegExp(`^ {2}--${name} \\S+ +${variable} `, 'm'))
    }
  })

  test('prints the version with --version', async (t) => {
    const { code, stdout } = await run(t, ['--version'])
    assert.equal(code, 0)
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
  })

  test('exits with code 2 on an unknown command or flag', async (t) => {
    for (const [name, suggestion] of [
      ['serv', ' Did you mean serve?'],
      ['sevre', ' Did you mean serve?'],
      ['verfy', ' Did you mean verify?'],
      ['deploy', ''],
      ['x', ''],
      ['constructor', ''],
    ] as const)
      assert.deepEqual(await run(t, [name]), {
        code: 2,
        stdout: '',
        stderr: `todo-service: Unknown command ${name}.${suggestion}\nHelp: todo-service --help\n`,
      })
    assert.equal((await run(t, ['--sevre'])).stderr, 'todo-service: Unknown flag --sevre.\nHelp: todo-service --help\n')
  })
})

/** Whether a connection to the port is accepted. */
const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
