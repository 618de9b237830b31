import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { delimiter, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DCLinter } from 'dclint'
import { validate } from 'dockerfile-utils'
import { parse, parseAllDocuments } from 'yaml'
import { readConfig } from '../src/config/config.ts'
import { cleanUp } from './support/cleanup.ts'
import { cli, node, Program, runCommand, start } from './support/cli.ts'
import { createClient } from './support/client.ts'
import { newDatabase, sharedPostgres } from './support/database.ts'
import { temporaryFolder } from './support/folder.ts'
import { freePort } from './support/port.ts'
import { startProxy } from './support/tcp-proxy.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const operations = read('docs/operations.md')
const flagsPage = read('docs/flags.md')

/** The code block of docs/operations.md in this language that contains the text. */
function block(language: string, text: string): string {
  const blocks = [...operations.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter((match) => match[1] === language)
  return blocks.find(([, , content]) => content?.includes(text))?.[2] ?? assert.fail(`no ${language} with ${text}`)
}

type Environment = Record<string, string>

/** How long a service with these flags and variables, which exist, may take to stop. */
function stopSeconds(args: readonly string[], env: Environment): number {
  for (const name of Object.keys(env).filter((one) => one.startsWith('TODO_')))
    assert.ok(flagsPage.includes(`\`${name}\``), name)
  const config = readConfig(args, env, new Date())
  if ('problems' in config) return assert.fail(config.problems.join('\n'))
  const { drainDelayMs, drainTimeoutMs } = config.limits
  // docs/operations.md, Stopping: half a second for the last responses.
  return (drainDelayMs + 500 + drainTimeoutMs) / 1000
}

const statusOf = (url: string) => fetch(url).then(({ status }) => status)

const skip = process.platform === 'win32' && 'containers and systemd run Linux'

/** A Dockerfile without line continuations: one instruction in each line. */
const instructions = read('Dockerfile')
  .split('\n')
  .filter((line) => line && !line.startsWith('#'))
  .map((line) => {
    const [keyword = '', content = ''] = line.split(/ (.*)/)
    return { keyword, content, words: content.split(' ') }
  })
const lastOf = (keyword: string) =>
  instructions.findLast((one) => one.keyword === keyword)?.content ?? assert.fail(keyword)
/** The exec form: without a shell in between, signals reach the process. */
const execForm = (keyword: string): string[] => JSON.parse(lastOf(keyword).replace(/^[^[]*(?=\[)/, ''))

suite('Dockerfile', { skip, concurrency: true }, () => {
  test('has no mistake that its validator finds', () => {
    assert.deepEqual(validate(read('Dockerfile')), [])
    assert.notDeepEqual(validate(read('Dockerfile').replace('HEALTHCHECK --interval', 'HEALTHCHECK --interva')), [])
  })

  test('uses one official slim image, and a user that is not root, by number', () => {
    const images = instructions.filter(({ keyword }) => keyword === 'FROM').map(({ words }) => words[0])
    assert.equal(new Set(images).size, 1)
    assert.match(`${images[0]}`, /^node:\d\d-slim$/)
    assert.match(lastOf('USER'), /^[1-9]\d*:[1-9]\d*$/)
    assert.equal(lastOf('EXPOSE'), '5080 5000')
  })

  test('copies files that exist, and that .dockerignore does not exclude', () => {
    const [all, ...exceptions] = read('.dockerignore')
      .split('\n')
      .filter((line) => line && !line.startsWith('#'))
    assert.equal(all, '*')
    for (const { keyword, words } of instructions) {
      if (keyword !== 'COPY' || words[0]?.startsWith('--from=')) continue
      for (const source of words.slice(0, -1)) {
        assert.ok(existsSync(join(root, source)), source)
        assert.ok(
          exceptions.some((one) => `${source}/`.startsWith(`${one.slice(1)}/`)),
          source,
        )
      }
    }
  })

  const imageEnvironment = { PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}` }
  const healthCheck = async (t: TestContext, env: Environment) => {
    const [program = '', ...args] = execForm('HEALTHCHECK')
    return (await runCommand(t, program, args, { env: { ...imageEnvironment, ...env } })).code
  }

  test('its entry point starts the service, its health check succeeds, SIGTERM stops it', async (t) => {
    const [program = '', ...args] = [...execForm('ENTRYPOINT'), ...execForm('CMD')]
    const port = `${await freePort()}`
    const folder = temporaryFolder(t)
    const dataFile = join(folder, 'todo.db')
    const settings = { TODO_PROFILE: 'a', TODO_PORT: port, TODO_DRAIN_DELAY: '0', TODO_DATA: dataFile }
    const env = { ...imageEnvironment, NODE_ENV: 'production', HOME: folder, ...settings }
    const service = new Program(t, program, args, { cwd: root, env }, true)
    await service.prints(new RegExp(`http://\\S+:${port}\\b`))
    assert.equal(JSON.parse(service.stdout).mode, 'production')
    assert.equal(await healthCheck(t, settings), 0)
    service.process.kill('SIGTERM')
    assert.equal((await service.ended).code, 0)
    assert.ok(existsSync(dataFile))
  })

  test('its health check fails without a service and while the service is not ready', async (t) => {
    const env = { TODO_PROFILE: 'b', TODO_PORT: `${await freePort()}` }
    assert.equal(await healthCheck(t, env), 1)
    const paths: unknown[] = []
    const notReady = createServer((request, response) => {
      paths.push(request.url)
      response.writeHead(503).end()
    }).listen(Number(env.TODO_PORT), '127.0.0.1')
    cleanUp(t, () => notReady.close())
    assert.equal(await healthCheck(t, env), 1)
    assert.equal(await healthCheck(t, { TODO_PORT_A: env.TODO_PORT }), 1)
    assert.equal(await healthCheck(t, { TODO_PROFILE: 'b', TODO_PORT_B: env.TODO_PORT }), 1)
    assert.deepEqual(paths, ['/health/ready', '/health/ready', '/health/ready'])
  })
})

interface ComposeFile {
  readonly services: Record<
    'database' | 'service' | 'dev',
    {
      readonly build?: string
      readonly image?: string
      readonly environment: Environment
      readonly ports?: string[]
      readonly profiles?: string[]
      readonly volumes?: string[]
      readonly depends_on?: object
      readonly healthcheck?: { test: string[] }
      readonly stop_grace_period?: string
    }
  >
  readonly volumes: object
}

suite('compose.yaml', { skip }, () => {
  const text = read('compose.yaml')
  const { services, volumes }: ComposeFile = parse(text.replaceAll(/\$\{\w+:-(\w+)\}/g, '$1'))
  const { database, service, dev } = services

  test('is valid by the schema of the Compose Specification and the rules of its linter', (t) => {
    const config = { rules: {}, quiet: false, debug: false, exclude: [], disableAllRules: false }
    const lint = (file: string): { rule: string }[] =>
      new DCLinter(config)
        .lintFiles([file], false)
        .flatMap(({ messages }: { messages: { rule: string }[] }) => messages)
    assert.deepEqual(lint(join(root, 'compose.yaml')), [])
    const wrong = join(temporaryFolder(t), 'compose.yaml')
    writeFileSync(wrong, text.replace('condition: service_healthy', 'condition: service_fine'))
    assert.deepEqual(
      lint(wrong).map(({ rule }) => rule),
      ['invalid-schema'],
    )
  })

  test('has no password that cannot be overridden', () => {
    const passwords = [...text.matchAll(/^ +\w*PASSWORD: (.+)$/gm)].map(([, value]) => value)
    assert.deepEqual(passwords, Array(2).fill(`\${POSTGRES_PASSWORD:-${database.environment.POSTGRES_PASSWORD}}`))
    assert.equal(new URL(`${service.environment.TODO_DATABASE_URL}`).password, '')
  })

  test('its parts fit together, and leave the service the time that it needs to stop', () => {
    const url = new URL(`${service.environment.TODO_DATABASE_URL}`)
    const { POSTGRES_USER, POSTGRES_DB } = database.environment
    assert.deepEqual([url.username, url.hostname, url.pathname], [POSTGRES_USER, 'database', `/${POSTGRES_DB}`])
    assert.deepEqual(service.depends_on, { database: { condition: 'service_healthy' } })
    const check = ['pg_isready', '--host=127.0.0.1', `--username=${POSTGRES_USER}`, `--dbname=${POSTGRES_DB}`]
    assert.deepEqual(database.healthcheck?.test, ['CMD', ...check])
    assert.deepEqual(database.volumes, [`${Object.keys(volumes)}:/var/lib/postgresql`])
    assert.deepEqual(service.ports, ['127.0.0.1:5000:5000', '127.0.0.1:5080:5080'])
    assert.equal(service.build, '.')
    const seconds = stopSeconds([], { ...service.environment, NODE_ENV: 'production' })
    assert.ok(Number.parseInt(`${service.stop_grace_period}`, 10) > seconds)
  })

  test('its variables make the service use the database', async (t) => {
    const { sql, port: databasePort } = await sharedPostgres()
    const { POSTGRES_USER = '', POSTGRES_PASSWORD = '', POSTGRES_DB = '' } = database.environment
    await sql.unsafe(`create role ${POSTGRES_USER} login password '${POSTGRES_PASSWORD}'`)
    await sql`create database ${sql(POSTGRES_DB)} owner ${sql(POSTGRES_USER)}`
    const url = `${service.environment.TODO_DATABASE_URL}`.replace('@database:5432/', `@127.0.0.1:${databasePort}/`)
    const env = { ...service.environment, NODE_ENV: 'production', TODO_DATABASE_URL: url }
    // The driver reads PGPASSWORD.
    const running = start(t, ['serve', '--profile', 'b', '--port', '0'], env, node)
    const [, port] = await running.prints(/http:\/\/\S+?:(\d+)"/)
    const response = await fetch(`http://127.0.0.1:${port}/api/todoitems`)
    assert.equal(((await response.json()) as unknown[]).length, 3)
    assert.match(running.stdout, /"store":"PostgreSQL, schema todo/)
  })

  test('its service for tests of clients is started only by name, in development, with the control API', async (t) => {
    assert.deepEqual([dev.profiles, dev.build, dev.depends_on], [['dev'], '.', undefined])
    for (const port of dev.ports ?? [])
      assert.match(text, new RegExp(`^#   Profile [AB]  http://localhost:${port.split(':')[1]}$`, 'm'))
    const seconds = stopSeconds([], { ...dev.environment, NODE_ENV: 'production' })
    assert.ok(Number.parseInt(`${dev.stop_grace_period}`, 10) > seconds)
    const env = { ...dev.environment, NODE_ENV: 'production', XDG_CONFIG_HOME: temporaryFolder(t) }
    const running = start(t, ['serve', '--port-a', '0', '--port-b', '0'], env)
    await running.prints(/Ctrl\+C/)
    const [, port] = /http:\/\/localhost:(\d+)/.exec(running.stdout) ?? []
    const [, command = ''] = /exec dev (node .*)/.exec(text) ?? []
    const { stdout: token } = await start(t, command.split(' ').slice(2), env).ended
    // As in a container: not from this machine.
    const request = { host: `service:${port}`, authorization: `Bearer ${token.trim()}` }
    const client = createClient(`http://127.0.0.1:${port}`)
    assert.equal((await client.send('POST', '/__admin/reset', undefined, request)).status, 204)
    assert.equal((await client.send('POST', '/__admin/reset', undefined, { host: request.host })).status, 401)
  })
})

suite('the systemd unit of docs/operations.md', { skip, concurrency: true }, () => {
  const unit = block('ini', 'ExecStart=')
  const valuesOf = (name: string) =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => `${value}`)
  const [node = '', script = '', ...args] = valuesOf('ExecStart')[0]?.split(' ') ?? []
  const environment = (stateDirectory: string): Environment =>
    Object.fromEntries(
      valuesOf('Environment').map((one) => one.replace('%S', stateDirectory).split('=') as [string, string]),
    )

  test('starts the service, which stores its items in the state directory and stops on SIGTERM', async (t) => {
    const folder = temporaryFolder(t)
    const directory = join(folder, `${valuesOf('StateDirectory')}`)
    mkdirSync(directory)
    assert.equal(node, '/usr/bin/node')
    assert.ok(cli.endsWith(script.slice('/opt/todo-item-service'.length)))
    const free = args.map((arg, index) => (args[index - 1] === '--port' ? '0' : arg))
    const service = start(t, [...free, '--drain-delay', '0'], environment(folder))
    const [, port] = await service.prints(/http:\/\/\S+?:(\d+)"/)
    assert.equal(await statusOf(`http://127.0.0.1:${port}/health/ready`), 200)
    assert.ok(existsSync(join(directory, 'todo.db')))
    // The default of systemd is SIGTERM.
    assert.deepEqual(valuesOf('KillSignal'), [])
    service.process.kill('SIGTERM')
    assert.equal((await service.ended).code, 0)
  })

  test('leaves the service the time that it needs to stop, and does not restart it after invalid flags', async (t) => {
    assert.ok(Number(valuesOf('TimeoutStopSec')) > stopSeconds(args.slice(1), environment('/var/lib')))
    const { code } = await start(t, [...args, '--colour'], environment('/var/lib')).ended
    assert.deepEqual(valuesOf('RestartPreventExitStatus'), [`${code}`])
  })

  const analyzer = '/usr/bin/systemd-analyze'
  const skip = existsSync(analyzer) ? false : 'there is no systemd-analyze'
  test('has no mistake that systemd-analyze finds', { skip }, async (t) => {
    const verifyUnit = async (text: string) => {
      const file = join(temporaryFolder(t), 'todo-item-service.service')
      writeFileSync(file, text.replace('/usr/bin/node', process.execPath))
      const { stderr } = await runCommand(t, analyzer, ['verify', '--man=no', file])
      return stderr.split('\n').filter((line) => line.includes('todo-item-service.service'))
    }
    assert.deepEqual(await verifyUnit(unit), [])
    assert.equal((await verifyUnit(unit.replace('KillMode=mixed', 'KilMode=mixed'))).length, 1)
  })
})

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
  readonly periodSeconds: number
  readonly timeoutSeconds?: number
  readonly failureThreshold?: number
}

/** Far above what a slow machine needs. */
const statusTimeoutMs = 60_000

suite('the Kubernetes manifest of docs/operations.md', { concurrency: 4 }, () => {
  const documents = parseAllDocuments(block('yaml', 'kind: Deployment')).map((document) => document.toJS({}))
  const ofKind = (kind: string) => documents.find((document) => document.kind === kind)
  const [secret, deployment, balancer] = ['Secret', 'Deployment', 'Service'].map(ofKind)
  const { template, selector } = deployment.spec
  const [container] = template.spec.containers
  const args: string[] = container.args
  const { startupProbe, livenessProbe, readinessProbe } = container as Record<string, Probe>
  const [{ valueFrom, name: variable }] = container.env
  const databaseUrl = secret.stringData[valueFrom.secretKeyRef.key]

  test('its parts fit together', () => {
    assert.deepEqual([documents.length, secret.metadata.name], [3, valueFrom.secretKeyRef.name])
    assert.deepEqual(
      [selector.matchLabels, balancer.spec.selector],
      [template.metadata.labels, template.metadata.labels],
    )
    const [port] = container.ports
    assert.ok(args.includes(`--port=${port.containerPort}`))
    assert.equal(balancer.spec.ports[0].targetPort, port.name)
    for (const probe of [startupProbe, livenessProbe, readinessProbe]) assert.equal(probe?.httpGet.port, port.name)
    assert.equal(args[0], execForm('CMD')[0])
    // The variables of the Service would look like those of the program.
    assert.equal(template.spec.enableServiceLinks, false)
    assert.equal(container.image.split(':')[1], JSON.parse(read('package.json')).version)
  })

  test('has drain times longer than the readiness check needs, and shorter than the grace period', () => {
    const env = { NODE_ENV: 'production', [variable]: databaseUrl }
    assert.ok(template.spec.terminationGracePeriodSeconds > stopSeconds(args.slice(1), env))
    const drainDelay = Number(args.join(' ').match(/--drain-delay=(\d+)/)?.[1])
    assert.ok(drainDelay > (readinessProbe?.periodSeconds ?? 0) * (readinessProbe?.failureThreshold ?? 3))
  })

  test('its probes tell a service that starts, lacks its database, recovers and stops', async (t) => {
    const { port } = await sharedPostgres()
    const { url } = await newDatabase()
    const proxy = await startProxy(t, port)
    proxy.refuse()
    const servicePort = await freePort()
    const free = args.map((arg) => (arg.startsWith('--port=') ? `--port=${servicePort}` : arg))
    const env = { NODE_ENV: 'production', [variable]: url.replace(`:${port}/`, `:${proxy.port}/`) }
    const service = start(t, free, env)
    const probe = ({ httpGet }: Probe = assert.fail()) =>
      statusOf(`http://127.0.0.1:${servicePort}${httpGet.path}`).catch(() => undefined)
    const becomes = async (status: number) => {
      const deadline = performance.now() + statusTimeoutMs
      while ((await probe(readinessProbe)) !== status) {
        assert.ok(performance.now() < deadline, `not ${status} within a minute`)
        await sleep(10)
      }
    }
    await service.prints(/Waiting for the database/)
    assert.equal(await probe(startupProbe), undefined)
    proxy.restore()
    await service.prints(/"started"/)
    assert.deepEqual(
      [await probe(startupProbe), await probe(livenessProbe), await probe(readinessProbe)],
      [200, 200, 200],
    )
    proxy.refuse()
    await becomes(503)
    assert.equal(await probe(livenessProbe), 200)
    proxy.restore()
    await becomes(200)
    service.process.kill('SIGTERM')
    await becomes(503)
    assert.equal(await probe(livenessProbe), 200)
  })
})
