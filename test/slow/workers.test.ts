import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item, Writers } from '../support/instance.ts'
import { descriptorsOf } from '../support/process.ts'
import {
  production,
  send,
  skipWithoutProc,
  startWorkers,
  untilBothServe,
  workerPids,
  workersIn,
} from '../support/workers.ts'

/** How often the workers get a signal. */
const rounds = 3

/** Waits until a process does nothing but wait. */
async function untilSleeping(pid: number): Promise<void> {
  for (let count = 0; count < 20; count++) {
    if (!/\) S /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) count = 0
    await sleep(10)
  }
}

/** Clients that send requests one after the other until they are stopped. */
class Load {
  /** How many requests got this status or error. */
  readonly outcomes: Record<string, number> = {}
  readonly #clients: Promise<unknown>
  readonly #running: Service['running']
  #isStopping = false

  constructor({ url, running }: Service, keepAlive: boolean) {
    this.#running = running
    const agent = new Agent({ keepAlive })
    const client = createClient(url, { agent })
    const clients = Array.from({ length: 4 }, async () => {
      while (!this.#isStopping) {
        const outcome = await client.send('GET', '/api/todoitems').then(
          ({ status }) => `${status}`,
          ({ message }: Error) =>
            /ECONNRESET|closed|hang up/.test(message)
              ? 'ECONNRESET'
              : /ECONNREFUSED/.test(message)
                ? 'refused'
                : message,
        )
        this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1
      }
    })
    this.#clients = Promise.all(clients).finally(() => agent.destroy())
  }

  /** Waits for `count` more successes. */
  async waitFor(count: number): Promise<void> {
    const target = (this.outcomes[200] ?? 0) + count
    while ((this.outcomes[200] ?? 0) < target) {
      const { process, stdout, stderr } = this.#running
      assert.equal(process.exitCode, null, `${JSON.stringify(this.outcomes)}\n${stdout}${stderr}`)
      await sleep(5)
    }
  }

  /** Waits until the service accepts no more connections. */
  async stopOnceRefused(): Promise<void> {
    while (!this.outcomes.refused) await sleep(1)
    await this.stop()
  }

  stop(): Promise<unknown> {
    this.#isStopping = true
    return this.#clients
  }
}

suite('serve --workers under load', { concurrency: 2 }, () => {
  for (const keepAlive of [false, true])
    for (const signal of ['SIGTERM', 'SIGKILL'] as const)
      for (const which of ['one', 'all'] as const)
        test(`${signal} to ${which} under load, ${keepAlive ? 'keep-alive clients' : 'a connection for each request'}`, {
          skip: skipWithoutProc,
          timeout: 120_000,
        }, async (t) => {
          const service = await startWorkers(t)
          const primary = service.running.process.pid as number
          await untilBothServe(service)
          const idleDescriptors = descriptorsOf(primary)
          const load = new Load(service, keepAlive)
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

  test('a stop is over in time, and resets nobody, when the workers were told to stop before', {
    skip: skipWithoutProc,
  }, async (t) => {
    const service = await startWorkers(t, '--drain-delay', '1', '--drain-timeout', '3')
    await untilBothServe(service)
    const load = new Load(service, true)
    await load.waitFor(20)
    for (const pid of workerPids(service)) process.kill(pid, 'SIGTERM')
    await service.running.prints(/(?:is stopping(?:.|\n)*){2}/)
    const signalledAt = performance.now()
    service.running.process.kill('SIGTERM')
    await load.stopOnceRefused()
    assert.equal((await service.running.ended).code, 0)
    const seconds = (performance.now() - signalledAt) / 1000
    t.diagnostic(`${seconds.toFixed(1)} s: ${JSON.stringify(load.outcomes)}`)
    assert.deepEqual(Object.keys(load.outcomes).sort(), ['200', 'refused'])
    // 1 + 3 + 0.5, and what a busy machine adds.
    assert.ok(seconds < 5.5, `${seconds} s`)
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
})

test('a worker that is killed is replaced, after growing pauses; the other one serves on', {
  skip: skipWithoutProc,
}, async (t) => {
  const service = await startWorkers(t)
  await untilBothServe(service)
  const [kept] = workerPids(service)
  const replaced = /ended \(SIGKILL\); another one starts ([^"]+)\."/g
  const pauses = () => [...service.running.stdout.matchAll(replaced)].map(([, when]) => when)
  let kills = 0
  // One that served for ten seconds, as on a busy machine, is replaced at once.
  while (pauses().at(-1) !== 'in 0.4 s' && kills < 10) {
    while (workerPids(service).length < 2) await sleep(5)
    process.kill(workerPids(service).find((pid) => pid !== kept) as number, 'SIGKILL')
    kills++
    await service.running.prints(new RegExp(`(?:${replaced.source}[^]*){${kills}}`))
    for (let count = 0; count < 10; count++) assert.equal((await send(service.url, '/health/ready')).status, 200)
  }
  assert.deepEqual(pauses().slice(-3), ['in 0.1 s', 'in 0.2 s', 'in 0.4 s'])
  while (!workersIn(service).has(2 + kills)) await send(service.url, '/health/ready')
})

test('a worker that is killed while it waits for its port is replaced; all end when the primary process is killed', {
  skip: skipWithoutProc,
}, async (t) => {
  const service = await startWorkers(t)
  const primary = service.running.process
  await untilBothServe(service)
  const first = workerPids(service)
  process.kill(first[0] as number, 'SIGKILL')
  const starting = () => workerPids(service).find((pid) => !first.includes(pid))
  while (starting() === undefined) await sleep(1)
  primary.kill('SIGSTOP')
  await untilSleeping(starting() as number)
  process.kill(starting() as number, 'SIGKILL')
  primary.kill('SIGCONT')
  while (!workersIn(service).has(4)) await send(service.url, '/health/ready')
  const pids = workerPids(service)
  primary.kill('SIGKILL')
  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  while (pids.some(isAlive)) await sleep(10)
})

test('workers say once that their data file was deleted, and the exit code is 1', async (t) => {
  const file = join(temporaryFolder(t), 'todo.db')
  const flags = ['--mode', 'production', '--workers', '2', '--data', file]
  const instance = await Instance.start(t, '', 'a', flags)
  rmSync(file)
  assert.equal((await instance.send('POST', '', item('y'))).status, 503)
  await instance.running.prints(/was deleted, moved or replaced/)
  await sleep(1_200)
  instance.running.process.kill('SIGTERM')
  const { code, stdout } = await instance.running.ended
  assert.equal(code, 1)
  assert.equal(stdout.match(/was deleted, moved or replaced/g)?.length, 1)
})
