import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { profiles } from '../../src/app.ts'
import { commandLine } from '../../src/commands/command.ts'
import { findUnknownVariables, readConfig, serveOptions } from '../../src/config/config.ts'
import { withFlags } from '../../src/config/options.ts'
import { explainUnusablePorts, findPortHolder } from '../../src/service/unusable-ports.ts'
import { cleanUp } from '../support/cleanup.ts'
import { type Interpreter, jsonLines, node, run, start, typed } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort, isFree, usedPort } from '../support/port.ts'

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

suite('files that other users can read or write', {
  concurrency: 4,
  skip: process.platform === 'win32' && 'files have no mode',
}, () => {
  /** The lines about them in the start message. */
  const linesIn = (stdout: string) => stdout.split('\n').filter((line) => line.startsWith('Other users'))

  test('are named at the start with the command that changes it, and used', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const data = join(temporaryFolder(t), 'to do.db')
    const key = join(XDG_CONFIG_HOME, 'todo-item-service', 'development-key')
    const certificate = join(XDG_CONFIG_HOME, 'todo-item-service', 'localhost.pem')
    const args = serveArgs('a', '--data', data, '--https-port', '0')
    const startAndStop = async () => {
      const { running, url } = await startService(t, args, { XDG_CONFIG_HOME })
      assert.equal((await createClient(url).send('POST', items, { isComplete: true })).status, 201)
      running.process.kill('SIGTERM')
      return linesIn((await running.ended).stdout)
    }
    assert.deepEqual(await startAndStop(), [])
    chmodSync(data, 0o666)
    chmodSync(key, 0o620)
    chmodSync(certificate, 0o604)
    assert.deepEqual(await startAndStop(), [
      `Other users may read and write ${data}. To change that: chmod 600 '${data}'*`,
      `Other users may write ${key}. To change that: chmod 600 ${key}`,
      `Other users may read ${certificate}. To change that: chmod 600 ${certificate}`,
    ])
    for (const file of [data, key, certificate]) chmodSync(file, 0o600)
    assert.deepEqual(await startAndStop(), [])
  })

  test('are named once with workers, and in production only those that it uses', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    assert.equal((await run(t, ['token'], { XDG_CONFIG_HOME })).code, 0)
    chmodSync(join(XDG_CONFIG_HOME, 'todo-item-service', 'development-key'), 0o666)
    const data = join(temporaryFolder(t), 'todo.db')
    writeFileSync(data, '', { mode: 0o640 })
    const args = serveArgs('a', '--data', data, '--workers', '2', '--mode', 'production')
    const { running } = await startService(t, args, { XDG_CONFIG_HOME })
    running.process.kill('SIGTERM')
    const { stdout } = await running.ended
    const { notes } = jsonLines(stdout)[0]
    assert.equal(notes.at(-1), `Other users may read ${data}. To change that: chmod 600 ${data}*`)
    assert.equal(stdout.match(/Other users/g)?.length, 1)
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
      [
        'started',
        'The items are in memory: lost when the service stops. Set --data or --database-url to keep them.',
        'stopped',
      ],
    )
    assert.equal(lines[1].level, 'warn')
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

  test('listens on all interfaces, and says so', async (t) => {
    const { url } = await startService(t, serveArgs('b'), { TODO_MODE: 'production' })
    assert.match(url, /^http:\/\/(?:\[::\]|0\.0\.0\.0):[1-9]\d*$/)
    // Linux accepts every address of 127.0.0.0/8.
    const other = process.platform === 'linux' ? ['127.0.0.2'] : []
    for (const address of ['127.0.0.1', '[::1]', ...other]) {
      const { status } = await createClient(`http://${address}:${new URL(url).port}`).send('GET', items)
      assert.equal(status, 200, address)
    }
  })

  test('names the address that it listens on at the start', async (t) => {
    for (const [host, address] of [
      ['0.0.0.0', '0.0.0.0'],
      ['::1', '[::1]'],
      ['localhost', 'localhost'],
    ] as const) {
      const { running } = await startService(t, serveArgs('a', '--host', host), { TODO_MODE: 'production' })
      const [{ profiles: served }] = jsonLines(running.stdout.split('\n')[0] ?? '')
      assert.match(served[0].urls[0], new RegExp(`^http://${address.replaceAll(/[.[\]]/g, '\\$&')}:[1-9]\\d*$`))
    }
  })
})

suite('serve flags and variables', { concurrency: 4 }, () => {
  test('serves both profiles by default, A on port 5080 and B on port 5000', () => {
    const config = readConfig([], {}, new Date())
    assert.ok('profiles' in config)
    assert.deepEqual(
      config.profiles.map((name) => [name, config.ports[name].http.port ?? profiles[name].defaultPort]),
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

  test('with --log-format json, the first line is an object with the URLs, also in development', async (t) => {
    const { running, url } = await startService(t, serveArgs('b', '--log-format', 'json'))
    const { status } = await createClient(url).send('GET', '/missing')
    assert.equal(status, 404)
    await running.prints(/"message":"request".*\n/)
    const [started, request, ...more] = jsonLines(running.stdout)
    assert.deepEqual(
      [started.message, started.mode, started.profiles[0].title],
      ['started', 'development', 'Profile B'],
    )
    assert.equal(started.profiles[0].urls[0], url)
    assert.deepEqual([request.status, request.path, more], [404, '/missing', []])
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
      { TODO_PROT: '1', TODO_LOG_LEVEL: 'loud', TODO_HOST: 'http://x', TODO_BODY_LIMIT: '-1' },
    )
    assert.equal(code, 2)
    assert.equal(stdout, '')
    assert.deepEqual(stderr.trim().split('\n').sort(), [
      `Help: ${typed('serve', '--help')}`,
      'todo-service: --base-url must be an http or https URL without credentials, query or fragment, not "ftp://x".',
      'todo-service: --mode needs a value: development or production.',
      'todo-service: --port must be a whole number from 0 to 65535, not "x".',
      'todo-service: --profile must be a, b or both, not "c".',
      'todo-service: TODO_BODY_LIMIT must be a number of bytes from 1 to 268435456, such as 100000, 512k, 64m or 2g, not "-1".',
      'todo-service: TODO_HOST must be a host name or an address, not "http://x".',
      'todo-service: TODO_LOG_LEVEL must be silent, error, warn or info, not "loud".',
      'todo-service: Unexpected argument "extra".',
      'todo-service: Unknown flag --prot. Did you mean --port?',
      'todo-service: Unknown variable TODO_PROT. Did you mean TODO_PORT?',
    ])
  })

  test('flags of npm start that npm took for its own are a usage error that says what to type', async (t) => {
    const npm = { npm_lifecycle_event: 'start', npm_package_name: 'todo-item-service' }
    for (const [args, taken, typed] of [
      [[], { npm_config_profile: 'b', npm_config_admin: '' }, '--profile b --no-admin'],
      [['b'], { npm_config_profile: 'true' }, '--profile b'],
      [['5005'], { npm_config_port_b: 'true' }, '--port-b 5005'],
    ] as const) {
      const { code, stderr } = await run(t, ['serve', ...args], { ...npm, ...taken })
      assert.equal(code, 2)
      assert.equal(
        stderr.split('\n')[0],
        `todo-service: npm takes flags in front of -- for its own. Type: npm start -- ${typed}`,
      )
    }
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
      const advice = 'add --profile a or --profile b, or use --port-a and --port-b.'
      assert.ok(stderr.includes(`${source} needs a single profile: ${advice}`), stderr)
    }
  })

  test('rejects ports that contradict each other or the profile', async (t) => {
    for (const [args, env, message] of [
      [['--profile', 'a', '--port-b', '1'], {}, '--profile and --port-b contradict each other.'],
      [['--profile', 'a', '--port-a', '1'], { TODO_PORT: '2' }, 'TODO_PORT and --port-a contradict each other.'],
      [['--port-a', '1', '--https-port-b', '1'], {}, '--port-a and --https-port-b must differ.'],
      [['--profile', 'a', '--port', '1', '--https-port', '1'], {}, '--port and --https-port must differ.'],
      [['--no-https', '--https-port-b', '1'], {}, '--no-https and --https-port-b contradict each other.'],
    ] as const) {
      const { code, stderr } = await run(t, ['serve', ...args], env)
      assert.deepEqual([code, stderr], [2, `todo-service: ${message}\nHelp: ${typed('serve', '--help')}\n`])
    }
  })

  test('starts with the variables that Kubernetes sets for a Service named todo', async (t) => {
    const { url } = await startService(t, ['serve', '--profile', 'a', '--port-a', '0'], {
      TODO_SERVICE_HOST: '10.0.0.1',
      TODO_SERVICE_PORT: '80',
      TODO_SERVICE_PORT_HTTP: '80',
      TODO_PORT: 'tcp://10.0.0.1:80',
      TODO_PORT_80_TCP: 'tcp://10.0.0.1:80',
      TODO_PORT_80_TCP_PROTO: 'tcp',
      TODO_PORT_80_TCP_PORT: '80',
      TODO_PORT_80_TCP_ADDR: '10.0.0.1',
      TODO_ITEM_SERVICE_SERVICE_HOST: '10.0.0.2',
      TODO_ITEM_SERVICE_PORT: 'tcp://10.0.0.2:80',
      TODO_METRICS_PORT: 'tcp://10.0.0.3:9090',
    })
    assert.equal((await createClient(url).send('GET', items)).status, 200)
  })

  test('exits with code 1 and one message when the host is not an address of this machine', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--profile', 'b', '--port', '0', '--host', '192.0.2.1'])
    assert.equal(code, 1)
    assert.match(stderr, /^todo-service: Host 192\.0\.2\.1 is not an address of this machine\. .*\n$/)
  })
})

/** Who has the port of `usedPort`, as far as the system tells in time. */
const holder = `(?:node \\(pid ${process.pid}\\)|another program)`

suite('serve with a port in use', { concurrency: 4 }, () => {
  test('in development, serves the other profile; the suggested command serves both', async (t) => {
    const used = await usedPort(t)
    const flags = ['--host', '127.0.0.1', '--port-a=0', '--cors', '*']
    const running = start(t, ['serve', '--port-b', `${used}`, ...flags])
    await running.prints(/Ctrl\+C/)
    const [, url = ''] = /Profile A {2}(http:\S+)\n/.exec(running.stdout) ?? []
    const [, command, free = ''] =
      new RegExp(
        `^ {2}Profile B {2}is not served: port ${used} is in use by ${holder}\\.\n {13}Stop the program, or choose another port: (.* --port-b (\\d+))\n`,
        'm',
      ).exec(running.stdout) ?? []
    assert.equal(command, typed('serve', ...flags, '--port-b', free))
    assert.ok(await isFree(Number(free)))
    const info = await createClient(url).send('GET', '/__admin/info')
    assert.deepEqual(
      JSON.parse(info.text).profiles.map((profile: { title: string }) => profile.title),
      ['Profile A'],
    )
    const both = start(t, ['serve', ...flags, '--port-b', free])
    await both.prints(/Ctrl\+C/)
    assert.match(both.stdout, new RegExp(`Profile A {2}http:[^]*Profile B {2}http://127\\.0\\.0\\.1:${free}\n`))
  })

  test('exits with code 1 and one message when nothing can be served', async (t) => {
    const [a, b] = [await usedPort(t), await usedPort(t)]
    const { code, stdout, stderr } = await run(t, ['serve', '--port-a', `${a}`, '--port-b', `${b}`, '--no-https'])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      new RegExp(
        `^todo-service: Port ${a} is in use by ${holder}\\. Port ${b} is in use by ${holder}\\. Stop the program, or choose other ports: .* serve --no-https --port-a \\d+ --port-b \\d+\n$`,
      ),
    )
  })

  test('exits with code 1 with a single profile, and in production', async (t) => {
    const used = `${await usedPort(t)}`
    for (const [args, changed] of [
      [['--profile', 'b', '--port', used], ' --profile b --port \\d+'],
      [['--profile', 'b', '--port-b', used], ' --profile b --port-b \\d+'],
      [['--mode', 'production', '--port-a', '0', '--port-b', used], ' --mode production --port-a 0 --port-b \\d+'],
      [['--port-a', '0', '--port-b', '0', '--metrics-port', used], ' --port-a 0 --port-b 0 --metrics-port \\d+'],
    ] as const) {
      const { code, stdout, stderr } = await run(t, ['serve', '--host', '127.0.0.1', ...args])
      assert.deepEqual([code, stdout], [1, ''])
      const message = `Port ${used} is in use by ${holder}\\. Stop the program, or choose another port: .*${changed}`
      assert.match(stderr, new RegExp(`^todo-service: ${message}\n$`))
    }
  })

  test('names another service of this program, and shows no password in the command', async (t) => {
    const { url } = await startService(t, serveArgs('a'))
    const database = 'postgres://todo:canary@127.0.0.1:1/todo'
    const { port } = new URL(url)
    const unusable = { port: Number(port), isHttps: false, flag: 'port', needsPrivileges: false }
    const settings = { host: '127.0.0.1', used: [], commandWith: () => '' }
    const { reasons } = await explainUnusablePorts([unusable], { ...settings, responseTimeoutMs: 60_000 })
    assert.match(`${reasons}`, new RegExp(`^${port} is in use by another todo-item-service(?:, node \\(pid \\d+\\))?$`))
    assert.deepEqual(withFlags(serveOptions, ['--database-url', database, `--data=${database}`, '--hsts=no'], {}), [
      '--database-url',
      '…',
      '--data=…',
      '--hsts=no',
    ])
  })

  test('finds the program on Linux', { skip: process.platform !== 'linux' && 'there is no /proc' }, async (t) => {
    const holder = await findPortHolder(await usedPort(t), { timeoutMs: 60_000 })
    assert.deepEqual(holder, { program: 'node', pid: `${process.pid}` })
  })

  test('names AirPlay Receiver of macOS, and what this service itself uses', async (t) => {
    const folder = temporaryFolder(t)
    let timeoutMs = 60_000
    const lsof = (output: string) => writeFileSync(join(folder, 'lsof'), `#!/bin/sh\n${output}\n`, { mode: 0o755 })
    const findHolder = (port: number) =>
      findPortHolder(port, { platform: 'darwin', env: { PATH: `${folder}:${process.env.PATH}` }, timeoutMs })
    const unusable = { isHttps: false, flag: 'port-b', needsPrivileges: false }
    const settings = { host: '127.0.0.1', used: [5080], commandWith: (flags: object) => JSON.stringify(flags) }
    const explain = (port: number) => explainUnusablePorts([{ ...unusable, port }], { ...settings, findHolder })
    lsof(`echo "COMMAND         PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME"
echo "ControlCenter   512  ada    9u  IPv4 0x2f1      0t0  TCP *:5000 (LISTEN)"
echo "$*" > '${folder}/arguments'`)
    const { reasons, advice } = await explain(5000)
    assert.deepEqual(reasons, ['5000 is in use by AirPlay Receiver of macOS (ControlCenter, pid 512)'])
    assert.match(
      advice,
      /^Switch off AirPlay Receiver in System Settings, General, AirDrop & Handoff, or choose another port: \{"port-b":"\d+"\}$/,
    )
    assert.equal(readFileSync(join(folder, 'arguments'), 'utf8'), '+c 0 -nP -iTCP:5000 -sTCP:LISTEN\n')
    lsof('exit 1')
    assert.deepEqual((await explain(5000)).reasons, ['5000 is in use by another program'])
    timeoutMs = 100
    lsof('exec sleep 600')
    assert.deepEqual((await explain(5000)).reasons, ['5000 is in use by another program'])
    const own = await explain(5080)
    assert.deepEqual(own.reasons, ['5080 is in use by this service itself'])
    assert.match(own.advice, /^Choose another port: /)
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

  test('suggests commands as they can be typed where it was started', () => {
    const directory = process.cwd()
    for (const [script, env, expected, token] of [
      ['dist/src/cli.js', {}, 'node dist/src/cli.js serve --port-b 5005', 'node dist/src/cli.js token'],
      [
        'dist/src/cli.js',
        { npm_lifecycle_event: 'start', npm_package_name: 'todo-item-service' },
        'npm start -- --port-b 5005',
        'npx todo-service token',
      ],
      [
        'x/node_modules/.bin/todo-service',
        { npm_lifecycle_event: 'start', npm_package_name: 'client' },
        'npx todo-service serve --port-b 5005',
        'npx todo-service token',
      ],
      ['x/node_modules/.bin/todo-service', {}, 'npx todo-service serve --port-b 5005', 'npx todo-service token'],
      [
        'bin/todo-item-service',
        { npm_lifecycle_event: 'npx' },
        'npx todo-item-service serve --port-b 5005',
        'npx todo-item-service token',
      ],
      ['bin/todo-service', {}, 'todo-service serve --port-b 5005', 'todo-service token'],
    ] as const) {
      const started = { argv: ['/usr/bin/node', join(directory, script)], argv0: 'node', execArgv: [], env }
      assert.equal(commandLine(started, 'serve', '--port-b', '5005'), expected)
      assert.equal(commandLine(started, 'token'), token)
    }
    const flags = { argv: ['node', join(directory, 'cli.js')], argv0: 'node', execArgv: ['--no-warnings'], env: {} }
    assert.equal(
      commandLine(flags, 'serve', '--items', "it's.json"),
      process.platform === 'win32'
        ? `node --no-warnings cli.js serve --items "it's.json"`
        : `node --no-warnings cli.js serve --items 'it'\\''s.json'`,
    )
  })

  test('every variable of a command is known to the others', async (t) => {
    const commands = ['serve', 'token', 'openapi', 'items', 'reset', 'verify']
    const helps = await Promise.all(commands.map((command) => run(t, [command, '--help'])))
    const variables = new Set(helps.flatMap(({ stdout }) => stdout.match(/\bTODO_\w+/g) ?? []))
    assert.ok(variables.has('TODO_OTHER_TOKEN') && variables.has('TODO_JWT_KEY'))
    assert.deepEqual(findUnknownVariables(Object.fromEntries([...variables].map((name) => [name, 'x']))), [])
  })

  test('exits with code 2 on an unknown variable, in every command that reads variables', async (t) => {
    for (const args of [['serve'], ['token', 'verify', 'x'], ['openapi'], ['items', 'export'], ['reset'], ['verify']]) {
      const { code, stdout, stderr } = await run(t, args, { TODO_PROT: '1', TODO_EMPTY: '' })
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^todo-service: Unknown variable TODO_PROT\. Did you mean TODO_PORT\?$/m)
      assert.doesNotMatch(stderr, /TODO_EMPTY/)
    }
  })

  test('exits with code 2 on an unknown command or flag', async (t) => {
    for (const [name, suggestion] of [
      ['serv', ' Did you mean serve?'],
      ['sevre', ' Did you mean serve?'],
      ['SERVE', ' Did you mean serve?'],
      ['verfy', ' Did you mean verify?'],
      ['deploy', ''],
      ['x', ''],
      ['constructor', ''],
    ] as const)
      assert.deepEqual(await run(t, [name]), {
        code: 2,
        stdout: '',
        stderr: `todo-service: Unknown command ${name}.${suggestion}\nHelp: ${typed('--help')}\n`,
      })
    assert.equal((await run(t, ['--sevre'])).stderr, `todo-service: Unknown flag --sevre.\nHelp: ${typed('--help')}\n`)
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
