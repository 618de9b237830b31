import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '../../src/verify/client.ts'
import { jsonLines, run, type Service, serve, start } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item, Writers } from '../support/instance.ts'
import { freePort } from '../support/port.ts'
import { descriptorsOf } from '../support/process.ts'

const production = ['--mode', 'production', '--workers', '2', '--log-level', 'info']

/** Two workers on a data file, or on a database. */
async function startWorkers(t: TestContext, ...args: string[]): Promise<Service> {
  const store = args.includes('--database-url') ? [] : ['--data', join(temporaryFolder(t), 'todo.db')]
  return serve(t, [...production, ...store, ...args])
}

/** Sends a request on a connection of its own: each goes to another worker. */
const send = async (url: string, path: string, init: RequestInit = {}) => {
  const headers = { connection: 'close', 'content-type': 'application/json' }
  const response = await fetch(`${url}${path}`, { ...init, headers })
  return { status: response.status, text: await response.text() }
}

/** The numbers of the workers that have answered requests, by the log. */
const workersIn = ({ running }: Service) =>
  new Set([...running.stdout.matchAll(/"message":"request","worker":(\d+)/g)].map(([, worker]) => Number(worker)))

/** The process ids of the workers, which the operating system lists as children. */
const workerPids = ({ running: { process } }: Service) =>
  (readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').match(/\d+/g) ?? []).map(Number)

/** Waits until a process does nothing but wait. */
async function isSleeping(pid: number): Promise<void> {
  for (let count = 0; count < 20; count++) {
    if (!/\) S /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) count = 0
    await sleep(10)
  }
}

const isLinux = process.platform === 'linux'
const rounds = Number(process.env.TODO_TEST_ROUNDS ?? 3)

/** Clients that send requests one after the other until they are stopped. */
class Load {
  /** How many requests got this status or error. */
  readonly outcomes: Record<string, number> = {}
  readonly #clients: Promise<unknown>
  #isStopping = false

  constructor(url: string, keepAlive: boolean) {
    const agent = new Agent({ keepAlive })
    const client = createClient(url, { agent })
    const clients = Array.from({ length: 4 }, async () => {
      while (!this.#isStopping) {
        const outcome = await client.send('GET', '/api/todoitems').then(
          ({ status }) => `${status}`,
          ({ message }: Error) => (/ECONNRESET|closed|hang up/.test(message) ? 'ECONNRESET' : message),
        )
        this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1
      }
    })
    this.#clients = Promise.all(clients).finally(() => agent.destroy())
  }

  /** Waits for so many more successes. */
  async waitFor(count: number): Promise<void> {
    const target = (this.outcomes[200] ?? 0) + count
    while ((this.outcomes[200] ?? 0) < target) await sleep(5)
  }

  stop(): Promise<unknown> {
    this.#isStopping = true
    return this.#clients
  }
}

suite('serve --workers', { concurrency: 2 }, () => {
  test('both workers serve; the start message and the log say so', async (t) => {
    const service = await startWorkers(t)
    while (workersIn(service).size < 2) assert.equal((await send(service.url, '/health/ready')).status, 200)
    const [started] = jsonLines(service.running.stdout.split('\n')[0] as string)
    assert.deepEqual([started.message, started.workers], ['started', 2])
    assert.deepEqual(workersIn(service), new Set([1, 2]))
    service.running.process.kill('SIGTERM')
    const { code, stdout, stderr } = await service.running.ended
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(jsonLines(stdout).at(-1).message, 'stopped')
  })

  test('a list on one worker has what another has written, on a data file and on PostgreSQL', async (t) => {
    const { url: database } = await newDatabase()
    for (const args of [[], ['--database-url', database]]) {
      const { url } = await startWorkers(t, ...args)
      for (let round = 1; round <= 60; round++) {
        const body = JSON.stringify(item(`${round}`))
        assert.equal((await send(url, '/api/todoitems', { method: 'POST', body })).status, 201)
        const lists = await Promise.all([1, 2].map(() => send(url, '/api/todoitems')))
        for (const { text } of lists) assert.equal(JSON.parse(text).length, round)
      }
    }
  })

  test('concurrent writes to a data file all succeed, with ids of their own', async (t) => {
    const { url } = await startWorkers(t)
    const body = JSON.stringify(item('x'))
    const responses = await Promise.all(
      Array.from({ length: 200 }, () => send(url, '/api/todoitems', { method: 'POST', body })),
    )
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([201]))
    assert.equal(new Set(responses.map(({ text }) => JSON.parse(text).id)).size, 200)
  })

  test('metrics are those of all workers; the items are counted once', async (t) => {
    const service = await startWorkers(t, '--metrics-port', '0')
    const [, metricsUrl] = await service.running.prints(/"metrics":"([^"]+)"/)
    const body = JSON.stringify(item('x'))
    let count = 0
    for (; workersIn(service).size < 2; count++) await send(service.url, '/api/todoitems', { method: 'POST', body })
    const text = await (await fetch(`${metricsUrl}`)).text()
    assert.match(text, new RegExp(`^todo_requests_total\\{.*operation="createItem".*\\} ${count}$`, 'm'))
    assert.match(text, new RegExp(`^todo_items\\{profile="a"\\} ${count}$`, 'm'))
  })

  test('a worker that is killed is replaced, after growing pauses; the other one serves on', {
    skip: !isLinux && 'finds workers in /proc',
  }, async (t) => {
    const service = await startWorkers(t)
    while (workersIn(service).size < 2) await send(service.url, '/health/ready')
    const [kept] = workerPids(service)
    for (const pause of ['0.1', '0.2', '0.4']) {
      while (workerPids(service).length < 2) await sleep(5)
      process.kill(workerPids(service).find((pid) => pid !== kept) as number, 'SIGKILL')
      await service.running.prints(
        new RegExp(`Worker \\d+ ended \\(SIGKILL\\); another one starts in ${pause.replace('.', '\\.')} s\\.`),
      )
      for (let count = 0; count < 10; count++) assert.equal((await send(service.url, '/health/ready')).status, 200)
    }
    while (!workersIn(service).has(5)) await send(service.url, '/health/ready')
  })

  test('a worker that is killed while it waits for its port is replaced', {
    skip: !isLinux && 'finds workers in /proc',
  }, async (t) => {
    const service = await startWorkers(t)
    const primary = service.running.process
    while (workersIn(service).size < 2) await send(service.url, '/health/ready')
    const first = workerPids(service)
    process.kill(first[0] as number, 'SIGKILL')
    const starting = () => workerPids(service).find((pid) => !first.includes(pid))
    while (starting() === undefined) await sleep(1)
    primary.kill('SIGSTOP')
    await isSleeping(starting() as number)
    process.kill(starting() as number, 'SIGKILL')
    primary.kill('SIGCONT')
    while (!workersIn(service).has(4)) await send(service.url, '/health/ready')
  })

  for (const keepAlive of [false, true])
    for (const signal of ['SIGTERM', 'SIGKILL'] as const)
      for (const which of ['one', 'all'] as const)
        test(`${signal} to ${which} under load, ${keepAlive ? 'keep-alive clients' : 'a connection for each request'}`, {
          skip: !isLinux && 'finds workers in /proc',
          timeout: 120_000,
        }, async (t) => {
          const service = await startWorkers(t)
          const primary = service.running.process.pid as number
          while (workersIn(service).size < 2) await send(service.url, '/health/ready')
          const idleDescriptors = descriptorsOf(primary)
          const load = new Load(service.url, keepAlive)
          const signalled = new Set<number>()
          const others = () => workerPids(service).filter((pid) => !signalled.has(pid))
          for (let round = 0; round < rounds; round++) {
            while (others().length < 2) await sleep(5)
            await load.waitFor(20)
            for (const pid of which === 'all' ? others() : others().slice(0, 1)) {
              process.kill(pid, signal)
              signalled.add(pid)
            }
          }
          await load.waitFor(50)
          await load.stop()
          // A worker that is killed loses the requests that it had; nothing else fails, is refused or waits for ever.
          const allowed = signal === 'SIGKILL' ? ['200', 'ECONNRESET'] : ['200']
          assert.deepEqual(
            Object.keys(load.outcomes).filter((outcome) => !allowed.includes(outcome)),
            [],
            JSON.stringify(load.outcomes),
          )
          while (descriptorsOf(primary) > idleDescriptors) await sleep(20)
        })

  test('the primary process ends with its workers when it is stopped under load: no acknowledged item is lost', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.start(t, '', 'a', [...production, '--data', file])
    const writers = new Writers([instance], 8)
    await writers.waitFor(100)
    // As npm and timeout do: to the process and to its group.
    instance.running.process.kill('SIGTERM')
    instance.running.process.kill('SIGTERM')
    assert.equal((await instance.running.ended).code, 0)
    await writers.stop()
    await writers.assertStored(await Instance.startOnFile(t, file))
  })

  test('workers end when the primary process is killed', { skip: !isLinux && 'finds workers in /proc' }, async (t) => {
    const service = await startWorkers(t)
    while (workersIn(service).size < 2) await send(service.url, '/health/ready')
    const pids = workerPids(service)
    service.running.process.kill('SIGKILL')
    const isAlive = (pid: number) => {
      try {
        return process.kill(pid, 0)
      } catch {
        return false
      }
    }
    while (pids.some(isAlive)) await sleep(10)
  })

  test('SIGTERM ends it while the first worker waits for the database', async (t) => {
    const url = `postgres://u@127.0.0.1:${await freePort()}/x`
    const flags = [
      'serve',
      '--profile',
      'a',
      '--port',
      '0',
      '--wait-for-database',
      '--database-url',
      url,
      ...production,
    ]
    const running = start(t, flags)
    await running.prints(/Waiting for the database/)
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })

  test('exits with code 1 and one message when the port is in use', async (t) => {
    const { port } = await startWorkers(t)
    const data = ['--data', join(temporaryFolder(t), 'todo.db')]
    const { code, stderr } = await run(t, [
      'serve',
      '--profile',
      'a',
      '--host',
      '127.0.0.1',
      '--port',
      `${port}`,
      ...production,
      ...data,
    ])
    assert.equal(code, 1)
    assert.match(stderr, /^todo-service: Port \d+ is in use\.[^\n]*\n$/)
  })

  test('is rejected with items in memory, and with the control API', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--workers', 'auto'])
    assert.equal(code, 2)
    assert.match(stderr, /--workers needs --data or --database-url: processes cannot share items in memory\./)
    assert.match(stderr, /--workers needs --mode production or --no-admin: the control API works on a single process\./)
  })
})
