import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command, LoadResult, Operation } from './load-generator.ts'
import { compiledFile, cpuTimeOf, type Server, type ServerConfig, startServer } from './server-process.ts'

export interface Workload {
  readonly name: string
  readonly profile: 'a' | 'b'
  readonly operation: Operation
  /** How many items exist when a window begins. */
  readonly items: number
  /** DELETE: additional items that are created before each window, and how many of them per second of the window. */
  readonly deletionsPerSecond?: number
  /** Connections, each with one request in flight; default: 8. */
  readonly clients?: number
}

export interface Settings {
  /** How often the servers are started: two processes of the same program also differ. */
  readonly rounds: number
  /** Measured windows per round. */
  readonly windows: number
  readonly windowMs: number
  /** Per server, before the first window: a process that has run for less time takes up to 45 % more CPU time. */
  readonly warmUpMs: number
}

/** One value per window. */
export interface Samples {
  readonly server: string
  /** Microseconds; NaN where its CPU time is not known. */
  readonly cpuPerRequest: number[]
  readonly requestsPerSecond: number[]
}

/** Keeps the garbage collection after creating items out of the window. */
const settleMs = 100

interface LoadGenerator {
  readonly server: Server
  prepare(operation: Operation, items: number): Promise<LoadResult>
  run(workload: Workload, maxRequests?: number): Promise<LoadResult>
  /** Ends the current run after the requests in flight. */
  stop(): void
  kill(): void
}

export function startLoadGenerator(server: Server, profile: 'a' | 'b'): LoadGenerator {
  const { name, port, path, firstId } = server
  const child = fork(compiledFile('load-generator.js'), [`${port}`, path, profile, `${firstId}`])
  const exited = once(child, 'exit').then((): never => {
    throw new Error(`The load generator for ${name} has exited.`)
  })
  exited.catch(() => {})
  async function execute(command: Command): Promise<LoadResult> {
    child.send(command)
    const [result] = (await Promise.race([once(child, 'message'), exited])) as [LoadResult]
    const expected = 'operation' in command && command.operation === 'get-missing' ? /^(?:201|404)$/ : /^(?:2..|304)$/
    if (Object.keys(result.statuses).some((status) => !expected.test(status)))
      throw new Error(
        `Unexpected responses of ${name} to ${JSON.stringify(command)}: ${JSON.stringify(result.statuses)}`,
      )
    return result
  }
  return {
    server,
    prepare: (operation, items) => execute({ kind: 'prepare', operation, items }),
    run: ({ operation, clients }, maxRequests) => execute({ kind: 'run', operation, maxRequests, clients }),
    stop: () => child.send({ kind: 'stop' } satisfies Command),
    kill: () => child.kill('SIGKILL'),
  }
}

export async function withServers<T>(configs: readonly ServerConfig[], use: (servers: Server[]) => Promise<T>) {
  const servers: Server[] = []
  try {
    for (const config of configs) servers.push(await startServer(config))
    return await use(servers)
  } finally {
    for (const server of servers) await server.stop()
  }
}

/** Runs the workloads, which are of one profile, on all servers at the same time. Returns samples[workload][server]. */
export async function measure(
  workloads: readonly Workload[],
  configs: readonly ServerConfig[],
  settings: Settings,
  onProgress: (workload: Workload, round: number) => void,
): Promise<Samples[][]> {
  const samples = workloads.map(() =>
    configs.map(({ name }): Samples => ({ server: name, cpuPerRequest: [], requestsPerSecond: [] })),
  )
  for (let round = 0; round < settings.rounds; round++)
    await withServers(configs, async (servers) => {
      for (const server of servers) if (server.isOwn) await deleteInitialItems(server)
      const generators = servers.map((server) => startLoadGenerator(server, workloads[0]?.profile ?? 'a'))
      // Where CPU time is not known, requests per second are compared: one server at a time.
      const groups = servers.every(({ pid }) => pid) ? [generators] : generators.map((one) => [one])
      try {
        // All workloads first: each is then measured in a process that has already run the code of all.
        for (const workload of workloads)
          for (const group of groups)
            await warmUp(workload, group, (settings.warmUpMs * group.length) / workloads.length)
        for (const [index, workload] of workloads.entries()) {
          onProgress(workload, round)
          for (let window = 0; window < settings.windows; window++) {
            const results = []
            for (const group of groups) results.push(...(await measureWindow(workload, group, settings.windowMs)))
            for (const [at, { cpuPerRequest, requestsPerSecond }] of results.entries()) {
              samples[index]?.[at]?.cpuPerRequest.push(cpuPerRequest)
              samples[index]?.[at]?.requestsPerSecond.push(requestsPerSecond)
            }
          }
        }
        for (const { server, prepare } of generators) if (!server.isOwn) await prepare('get', 0)
      } finally {
        for (const generator of generators) generator.kill()
      }
    })
  return samples
}

/** Brings all servers to the item count of the workload plus `extraItems`. */
async function prepare({ operation, items }: Workload, generators: readonly LoadGenerator[], extraItems: number) {
  await Promise.all(generators.map((one) => one.prepare(operation, (one.server.items ?? items) + extraItems)))
  await sleep(settleMs)
}

async function warmUp(workload: Workload, generators: readonly LoadGenerator[], warmUpMs: number): Promise<void> {
  const deletions = workload.deletionsPerSecond && Math.round((workload.deletionsPerSecond * warmUpMs) / 1000)
  await prepare(workload, generators, deletions ?? 0)
  const runs = Promise.all(generators.map(({ run }) => run(workload, deletions)))
  await Promise.race([sleep(warmUpMs), runs])
  for (const generator of generators) generator.stop()
  await runs
}

async function measureWindow(workload: Workload, generators: readonly LoadGenerator[], windowMs: number) {
  const { deletionsPerSecond } = workload
  const deletions = deletionsPerSecond && (deletionsPerSecond * windowMs) / 1000
  await prepare(workload, generators, deletions ?? 0)
  const runs = generators.map(async ({ server, run }) => {
    const cpuBefore = cpuTimeOf(server.pid, server.isOwn)
    const { requests, seconds } = await run(workload, deletions)
    return {
      cpuPerRequest: (cpuTimeOf(server.pid, server.isOwn) - cpuBefore) / requests,
      requestsPerSecond: requests / seconds,
    }
  })
  // A DELETE window also ends when one server has no more items to delete: from then on the load would be uneven.
  await Promise.race([sleep(windowMs), ...runs])
  for (const generator of generators) generator.stop()
  return Promise.all(runs)
}

/** Profile B of this service starts with three items, the other servers with none. */
async function deleteInitialItems({ port, path }: Server): Promise<void> {
  const url = `http://127.0.0.1:${port}${path}`
  const items = (await (await fetch(url)).json()) as { id: number | string }[]
  for (const { id } of items) await fetch(`${url}/${id}`, { method: 'DELETE' })
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const upper = Math.floor(sorted.length / 2)
  const lower = Math.ceil(sorted.length / 2) - 1
  return ((sorted[lower] ?? Number.NaN) + (sorted[upper] ?? Number.NaN)) / 2
}
