import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cleanUp } from './cleanup.ts'
import { type Interpreter, type Running, start } from './cli.ts'
import { newDatabase, sharedPostgres } from './database.ts'
import { openSql } from './sql.ts'
import { Stopwatch } from './stopwatch.ts'
import { startProxy, type TcpProxy } from './tcp-proxy.ts'

const responseTimeoutMs = 60_000

/** A `todo-service` process with one profile, on the database at `url` or on a data file. */
export class Instance {
  readonly running: Running
  readonly url: string

  private constructor(running: Running, url: string) {
    this.running = running
    this.url = url
  }

  static async start(
    t: TestContext,
    url: string,
    profile: 'a' | 'b' = 'a',
    args: readonly string[] = [],
    interpreter?: Interpreter & { readonly env?: NodeJS.ProcessEnv },
  ) {
    const wait = url === '' ? [] : ['--wait-for-database']
    const flags = ['serve', '--profile', profile, '--port', '0', '--log-level', 'warn', ...wait, ...args]
    const running = start(t, flags, { ...interpreter?.env, TODO_DATABASE_URL: url }, interpreter)
    const [, port] = await running.prints(/http:\/\/[^\s"]+?:(\d+)/)
    return new Instance(running, `http://127.0.0.1:${port}`)
  }

  static startOnFile(t: TestContext, file: string, profile: 'a' | 'b' = 'a', interpreter?: Interpreter) {
    return Instance.start(t, '', profile, ['--data', file], interpreter)
  }

  /** Without retries. */
  async send(method: string, path: string, body?: object) {
    const response = await fetch(`${this.url}/api/todoitems${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(responseTimeoutMs),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  /** Reads the list again after a 503: a busy machine can be too slow to open a connection to the database within a second. */
  async list<Item>(attempts = 10): Promise<Item[]> {
    const { status, text } = await this.send('GET', '')
    if (status === 503 && attempts > 1) return this.list(attempts - 1)
    assert.equal(status, 200, text)
    return JSON.parse(text)
  }

  /** The promise of docs/operations.md: 3 seconds after the database is back, requests succeed again. */
  async assertRecovers(succeeds = async () => (await this.send('GET', '')).status === 200): Promise<void> {
    const stopwatch = new Stopwatch()
    const deadline = performance.now() + responseTimeoutMs
    while (!(await succeeds())) {
      if (performance.now() > deadline) assert.fail(`No success for a minute:\n${this.running.stdout.slice(-3_000)}`)
      await sleep(20)
    }
    stopwatch.assertWithin(3_000)
  }
}

/** Concurrent clients that create items of profile A and record which were acknowledged. */
export class Writers {
  readonly acknowledged: string[] = []
  /** Statuses other than 201; 0 for a request without response. */
  readonly failures: number[] = []
  readonly #stopped: Promise<unknown>
  readonly #prefix: string
  readonly #logs: () => string
  #isStopping = false
  #count = 0

  constructor(instances: readonly Instance[], perInstance = 4, prefix = 'item') {
    this.#prefix = prefix
    this.#logs = () => instances.map(({ running }) => running.stdout.slice(-3_000)).join('\n\n')
    this.#stopped = Promise.all(
      instances.flatMap((instance) => Array.from({ length: perInstance }, () => this.#write(instance))),
    )
  }

  async #write(instance: Instance): Promise<void> {
    while (!this.#isStopping) {
      const name = `${this.#prefix} ${++this.#count}`
      const status = await instance.send('POST', '', item(name)).then(
        (response) => response.status,
        () => 0,
      )
      if (status === 201) this.acknowledged.push(name)
      else {
        this.failures.push(status)
        await sleep(10)
      }
    }
  }

  /** Waits until this many more items are acknowledged. */
  async waitFor(count: number): Promise<void> {
    const target = this.acknowledged.length + count
    const deadline = performance.now() + responseTimeoutMs
    while (this.acknowledged.length < target) {
      if (performance.now() > deadline)
        assert.fail(`No success for a minute: ${this.failures.slice(-20)}\n${this.#logs()}`)
      await sleep(5)
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#stopped
  }

  /** Each acknowledged item is in the list, and no item is in it twice. */
  async assertStored(instance: Instance): Promise<void> {
    const names = (await instance.list<{ name: string }>()).map(({ name }) => name)
    const stored = new Set(names)
    assert.equal(names.length - stored.size, 0, 'duplicate items')
    assert.deepEqual(
      this.acknowledged.filter((name) => !stored.has(name)),
      [],
      'lost items',
    )
  }
}

/** The body of a new item of profile A. */
export const item = (name: string) => ({ name, isComplete: false })

/** An instance that reaches its database through a proxy. */
export async function startBehindProxy(
  t: TestContext,
  profile: 'a' | 'b' = 'a',
  interpreter?: Interpreter,
): Promise<{ proxy: TcpProxy; instance: Instance; database: string }> {
  const { port } = await sharedPostgres()
  const { name, url } = await newDatabase()
  const proxy = await startProxy(t, port)
  const proxyUrl = url.replace(`:${port}/`, `:${proxy.port}/`)
  return { proxy, instance: await Instance.start(t, proxyUrl, profile, [], interpreter), database: name }
}

/** An instance with one item, which nobody can read until the blocker commits. */
export async function startWithLockedTable(t: TestContext, interpreter?: Interpreter) {
  const { instance, database } = await startBehindProxy(t, 'a', interpreter)
  const blocker = openSql((await sharedPostgres()).url(database))
  cleanUp(t, () => blocker.end())
  await blocker`insert into todo.documents (space, collection, place, version, content) values ('', 'a', 1, 1, '{}')`
  // Opens the connections.
  await instance.list()
  await blocker`begin; lock table todo.documents`
  return { instance, database, blocker }
}
