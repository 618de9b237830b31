import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type Running, start } from './cli.ts'
import { newDatabase } from './database.ts'
import { sharedPostgres } from './stores.ts'
import { type Wire, wireTo } from './wire.ts'

/** A `todo-service` process with one profile, on the database at `url`. */
export class Instance {
  readonly running: Running
  readonly url: string

  private constructor(running: Running, url: string) {
    this.running = running
    this.url = url
  }

  static async start(t: TestContext, url: string, profile: 'a' | 'b' = 'a', args: readonly string[] = []) {
    const flags = ['serve', '--profile', profile, '--port', '0', '--log-level', 'warn', ...args]
    const running = start(t, flags, { TODO_DATABASE_URL: url })
    const [, address] = await running.prints(/(http:\/\/localhost:\d+)/)
    return new Instance(running, `${address}`.replace('localhost', '127.0.0.1'))
  }

  /** Sends once: nothing in between repeats what may have happened. */
  async send(method: string, path: string, body?: object) {
    const response = await fetch(`${this.url}/api/todoitems${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(20_000),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  /** Reads all items. */
  async list<Item>(): Promise<Item[]> {
    const { status, text } = await this.send('GET', '')
    assert.equal(status, 200, text)
    return JSON.parse(text)
  }
}

/** Creates items of profile A on some instances, many at a time, and knows which of them were acknowledged. */
export class Writers {
  readonly acknowledged: string[] = []
  readonly refused: number[] = []
  readonly #ended: Promise<unknown>
  #goOn = true
  #made = 0

  constructor(instances: readonly Instance[], perInstance = 4) {
    const all = instances.flatMap((instance) => Array.from({ length: perInstance }, () => this.#write(instance)))
    this.#ended = Promise.all(all)
  }

  async #write(instance: Instance): Promise<void> {
    while (this.#goOn) {
      const name = `item ${++this.#made}`
      const status = await instance.send('POST', '', { name, isComplete: false }).then(
        (received) => received.status,
        () => 0,
      )
      if (status === 201) this.acknowledged.push(name)
      else {
        this.refused.push(status)
        await pause(10)
      }
    }
  }

  /** Waits until so many more are acknowledged. */
  async more(count: number): Promise<void> {
    const enough = this.acknowledged.length + count
    while (this.acknowledged.length < enough) await pause(5)
  }

  async stop(): Promise<void> {
    this.#goOn = false
    await this.#ended
  }

  /** Nothing that was acknowledged is lost, nothing is there twice. */
  async holdAgainst(instance: Instance): Promise<void> {
    const names = (await instance.list<{ name: string }>()).map(({ name }) => name)
    const there = new Set(names)
    assert.equal(names.length - there.size, 0, 'doubled')
    assert.deepEqual(
      this.acknowledged.filter((name) => !there.has(name)),
      [],
      'lost',
    )
  }
}

/** The body of a new item of profile A. */
export const item = (name: string) => ({ name, isComplete: false })

/** An instance whose line to its database is in our hands. */
export async function wired(
  t: TestContext,
  profile: 'a' | 'b' = 'a',
): Promise<{ wire: Wire; instance: Instance; database: string }> {
  const { port } = await sharedPostgres()
  const { name, url } = await newDatabase()
  const wire = await wireTo(t, port)
  const through = url.replace(`:${port}/`, `:${wire.port}/`)
  return { wire, instance: await Instance.start(t, through, profile), database: name }
}

/** Milliseconds until the service does again what it is for. */
export async function timeToRecover(instance: Instance): Promise<number> {
  const since = performance.now()
  while ((await instance.send('GET', '')).status !== 200) await pause(20)
  return performance.now() - since
}
