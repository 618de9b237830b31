import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { profiles } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { serviceAt } from '../../src/verify/service.ts'
import { jsonLines, type Running, run, start } from '../support/cli.ts'
import { freePort } from '../support/port.ts'

const items = '/api/todoitems'
const anywhere = (profile: 'a' | 'b', ...more: string[]) => ['serve', '--profile', profile, '--port', '0', ...more]

async function startAt(t: TestContext, args: string[], env: NodeJS.ProcessEnv = {}): Promise<[Running, string]> {
  const running = start(t, args, env)
  const [url] = await running.prints(/http:\/\/[^\s"]+:\d+/)
  return [running, url]
}

suite('serve, in development', () => {
  test('the start message says what runs where, in which mode, with which store, and how to try and stop it', async (t) => {
    const [running, url] = await startAt(t, anywhere('b'))
    await running.prints(/Ctrl\+C/)
    assert.match(running.stdout, /development/)
    assert.match(running.stdout, /in memory: gone when it stops/)
    assert.match(running.stdout, /Profile B {2}http:\/\/localhost:\d+/)
    assert.ok(running.stdout.includes(`curl ${url}${items}`))
  })

  test('it listens on both loopbacks', async (t) => {
    const [, url] = await startAt(t, anywhere('b'))
    for (const address of ['127.0.0.1', '[::1]']) {
      const { status } = await serviceAt(url.replace('localhost', address)).send('GET', items)
      assert.equal(status, 200, address)
    }
  })

  test('each request is one readable line, without its query', async (t) => {
    const [running, url] = await startAt(t, anywhere('a'))
    await serviceAt(url).send('GET', `${items}?access_token=canary`)
    await running.prints(/^GET \/api\/todoitems 200 \d+\.\d ms \(a\)$/m)
    await serviceAt(url).send('GET', `/${'x'.repeat(5000)}`)
    await running.prints(/^GET \/x{100,300}… 404 \d+\.\d ms \(a\)$/m)
  })

  test('B2, G7: a stop loses what was written', async (t) => {
    const [first, firstUrl] = await startAt(t, anywhere('b'))
    const { text: atStart } = await serviceAt(firstUrl).send('GET', items)
    await serviceAt(firstUrl).send('POST', items, { id: 'x', name: 'x', notes: 'x' })
    first.process.kill('SIGTERM')
    await first.ended
    const [, secondUrl] = await startAt(t, anywhere('b'))
    const { text: afterwards } = await serviceAt(secondUrl).send('GET', items)
    assert.equal(afterwards, atStart)
  })
})

suite('serve, in production', () => {
  test('start and stop are JSON lines, requests are not logged', async (t) => {
    const [running, url] = await startAt(t, anywhere('a', '--host', '127.0.0.1'), { NODE_ENV: 'production' })
    await serviceAt(url).send('GET', items)
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

  test('requests are logged at level info, refused ones at level warn too', async (t) => {
    for (const [level, paths] of [
      ['info', [items, '/nowhere']],
      ['warn', ['/nowhere']],
    ] as const) {
      const args = anywhere('a', '--mode', 'production', '--host', '127.0.0.1', '--log-level', level)
      const [running, url] = await startAt(t, args)
      await serviceAt(url).send('GET', items)
      await serviceAt(url).send('GET', '/nowhere')
      running.process.kill('SIGTERM')
      const { stdout } = await running.ended
      const lines = jsonLines(stdout)
      assert.deepEqual(
        lines.filter(({ message }) => message === 'request').map(({ path }) => path),
        paths,
      )
    }
  })

  test('it listens on every interface', async (t) => {
    const [, url] = await startAt(t, anywhere('b'), { TODO_MODE: 'production' })
    const further = process.platform === 'linux' ? ['127.0.0.2'] : []
    for (const address of ['127.0.0.1', '[::1]', ...further]) {
      const { status } = await serviceAt(url.replace('localhost', address)).send('GET', items)
      assert.equal(status, 200, address)
    }
  })
})

suite('serve, flags and variables', () => {
  test('without flags: both profiles, A on 5080 and B on 5000', () => {
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

  test('a flag wins over its variable', async (t) => {
    const [running] = await startAt(t, anywhere('a'), { TODO_PROFILE: 'b', TODO_PORT: '1' })
    assert.match(running.stdout, /Profile A/)
  })

  test('every flag has a variable', async (t) => {
    const [, url] = await startAt(t, ['serve'], {
      TODO_PROFILE: 'a',
      TODO_PORT: '0',
      TODO_HOST: '127.0.0.1',
      TODO_MODE: 'development',
      TODO_LOG_LEVEL: 'error',
      TODO_BASE_URL: 'https://todo.example/v/',
      TODO_BODY_LIMIT: '40',
    })
    assert.match(url, /127\.0\.0\.1/)
    const created = await serviceAt(url).send('POST', items, { name: 'x', isComplete: true })
    assert.equal(created.headers.location, 'https://todo.example/v/api/todoitems/1')
    const refused = await serviceAt(url).send('POST', items, { name: 'x'.repeat(40), isComplete: true })
    assert.equal(refused.status, 413)
  })

  test('--log-level silent prints nothing', async (t) => {
    const port = await freePort()
    const running = start(t, ['serve', '--profile', 'a', '--port', `${port}`, '--log-level', 'silent'])
    await listening(port)
    running.process.kill('SIGTERM')
    assert.deepEqual(await running.ended, { code: 0, stdout: '', stderr: '' })
  })

  test('every mistake is named at once, with exit code 2 and no stack trace', async (t) => {
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
      'todo-service: TODO_BODY_LIMIT must be a whole number from 1 to 268435456, not "-1".',
      'todo-service: TODO_HOST must be a host name or an address, not "http://x".',
      'todo-service: TODO_LOG_LEVEL must be silent, error, warn or info, not "loud".',
      'todo-service: Unexpected argument "extra".',
      'todo-service: Unknown flag --prot.',
    ])
  })

  test('the mode follows NODE_ENV: what is neither development nor test is production', async (t) => {
    for (const [NODE_ENV, mode] of [
      ['', 'development'],
      ['test', 'development'],
      ['staging', 'production'],
    ] as const) {
      const running = start(t, anywhere('a', '--host', '127.0.0.1'), { NODE_ENV })
      await running.prints(new RegExp(`\\b${mode}\\b`))
    }
  })

  test('it goes on when nobody reads its log any more', async (t) => {
    const [running, url] = await startAt(t, anywhere('a'))
    running.process.stdout?.destroy()
    for (let sent = 0; sent < 5; sent++) assert.equal((await serviceAt(url).send('GET', items)).status, 200)
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })

  test('--port needs a single profile', async (t) => {
    for (const [args, env, source] of [
      [['--port', '5001'], {}, '--port'],
      [['--profile', 'both'], { TODO_PORT: '5001' }, 'TODO_PORT'],
    ] as const) {
      const { code, stderr } = await run(t, ['serve', ...args], env)
      assert.equal(code, 2)
      assert.ok(stderr.includes(`${source} needs a single profile: add --profile a or --profile b.`), stderr)
    }
  })

  test('a port in use: exit code 1, which port, and what to do', async (t) => {
    const holder = createServer().listen(0, '127.0.0.1')
    t.after(() => holder.close())
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo
    const { code, stdout, stderr } = await run(t, ['serve', '--profile', 'b', '--port', `${port}`])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, new RegExp(`^todo-service: Port ${port} is in use\\. .*--profile b --port ${port + 10}\n$`))
  })

  test('a host that is not of this machine: exit code 1 and one sentence', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--profile', 'b', '--port', '0', '--host', '192.0.2.1'])
    assert.equal(code, 1)
    assert.match(stderr, /^todo-service: Host 192\.0\.2\.1 is not an address of this machine\. .*\n$/)
  })
})

suite('serve, stopping', () => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    test(`${signal} ends it with exit code 0, the request in flight answered`, async (t) => {
      const [running, url] = await startAt(t, anywhere('a'))
      const port = Number(new URL(url).port)
      const idle = connect(port, '127.0.0.1')
      await once(idle, 'connect')
      const socket = connect(port, '127.0.0.1')
      let received = ''
      socket.on('data', (data) => (received += data))
      const body = JSON.stringify({ name: 'in flight', isComplete: true })
      const head = `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n`
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`)
      await once(socket, 'data')
      assert.match(received, /^HTTP\/1\.1 100 /)
      const stoppedAt = performance.now()
      running.process.kill(signal)
      await refused(port)
      socket.write(body)
      await once(socket, 'close')
      assert.match(received, /HTTP\/1\.1 201 Created\r\n/)
      assert.match(received, /\r\nconnection: close\r\n/i)
      const { code, stdout, stderr } = await running.ended
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /Stopped\.\n$/)
      assert.ok(performance.now() - stoppedAt < 5000, 'an idle connection does not hold it up')
    })
})

suite('the program', () => {
  test('--help, and no command at all, show the commands', async (t) => {
    for (const args of [['--help'], ['-h'], ['help'], []]) {
      const { code, stdout, stderr } = await run(t, args)
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /todo-service serve \[flags\]/)
    }
  })

  test('serve --help shows every flag with its variable', async (t) => {
    const { code, stdout } = await run(t, ['serve', '--port', 'x', '--help'])
    assert.equal(code, 0)
    for (const name of ['profile', 'host', 'port', 'base-url', 'body-limit', 'log-level', 'mode']) {
      const variable = `TODO_${name.toUpperCase().replace('-', '_')}`
      assert.match(stdout, new RegExp(`^ {2}--${name} \\S+ +${variable} `, 'm'))
    }
  })

  test('--version prints the version', async (t) => {
    const { code, stdout } = await run(t, ['--version'])
    assert.equal(code, 0)
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
  })

  test('an unknown command or flag: exit code 2', async (t) => {
    assert.deepEqual(await run(t, ['sevre']), {
      code: 2,
      stdout: '',
      stderr: 'todo-service: Unknown command sevre.\nHelp: todo-service --help\n',
    })
    assert.equal((await run(t, ['--sevre'])).stderr, 'todo-service: Unknown flag --sevre.\nHelp: todo-service --help\n')
    assert.equal((await run(t, ['constructor'])).code, 2)
  })
})

const connects = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

async function listening(port: number): Promise<void> {
  while (!(await connects(port)));
}

async function refused(port: number): Promise<void> {
  while (await connects(port));
}
