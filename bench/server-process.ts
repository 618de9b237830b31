import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/port.ts'

/** A server under test: a program to start, or the URL of one that is already running. */
export interface ServerConfig {
  readonly name: string
  /** What runs the server, with its arguments; Node, where absent. */
  readonly interpreter?: readonly string[]
  /** Arguments for the interpreter; PORT in them is replaced. */
  readonly args?: readonly string[]
  /** The collection of a server of Profile A on this machine. */
  readonly url?: string
  /** The process at `url`; undefined where its CPU time is not measured. */
  readonly pid?: number | undefined
  /** Overrides the item count of the workloads. */
  readonly items?: number
}

export interface Server {
  readonly name: string
  readonly port: number
  /** Path of the collection. */
  readonly path: string
  /** Undefined where the CPU time is not known. */
  readonly pid: number | undefined
  /** Whether the benchmark started it. */
  readonly isOwn: boolean
  /** Profile A: the id that the next created item gets. */
  readonly firstId: number
  readonly items: number | undefined
  /** From the start of the process to its first response. */
  readonly startMs: number
  readonly startCpuMs: number
  stop(): Promise<void>
}

const collectionPath = '/api/todoitems'
const serverCore = '0'
const loadCore = '1'

/** Whether processes can be pinned. Pins this process and with it the load generators, which inherit the core. */
export const isPinned = (() => {
  try {
    execFileSync('taskset', ['-pc', loadCore, `${process.pid}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

export const compiledFile = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export const thisService = (profile: 'a' | 'b', ...flags: string[]): ServerConfig => ({
  name: 'this service',
  args: [
    compiledFile('../src/cli.js'),
    'serve',
    '--profile',
    profile,
    '--host',
    '127.0.0.1',
    '--port',
    'PORT',
    '--mode',
    'production',
    ...flags,
  ],
})

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})
process.once('SIGINT', () => process.exit(130))
process.once('SIGTERM', () => process.exit(143))

export async function startServer(config: ServerConfig): Promise<Server> {
  const { name, interpreter = [process.execPath], args = [], items, url, pid } = config
  if (url) return externalServer(name, url, pid)
  const port = await freePort()
  const serverArgs = args.map((arg) => arg.replace('PORT', `${port}`))
  const pinned = isPinned ? ['taskset', '-c', serverCore] : []
  const [command, ...commandArgs] = [...pinned, ...interpreter, ...serverArgs]
  const startedAt = performance.now()
  const child = spawn(command as string, commandArgs, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  await waitForResponse(`http://127.0.0.1:${port}${collectionPath}`, child)
  return {
    name,
    port,
    path: collectionPath,
    pid: child.pid,
    isOwn: true,
    firstId: 1,
    items,
    startMs: performance.now() - startedAt,
    startCpuMs: cpuTimeOf(child.pid) / 1000,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

async function externalServer(name: string, url: string, pid: number | undefined): Promise<Server> {
  const { port, pathname } = new URL(url)
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"name":"walk the dog","isComplete":false}',
  })
  if (response.status !== 201) throw new Error(`${url} returns ${response.status} for a POST, not 201.`)
  const { id } = (await response.json()) as { id: number }
  await fetch(`${url}/${id}`, { method: 'DELETE' })
  return {
    name,
    port: Number(port),
    path: pathname,
    pid,
    isOwn: false,
    firstId: id + 1,
    items: undefined,
    startMs: Number.NaN,
    startCpuMs: Number.NaN,
    stop: async () => {},
  }
}

async function waitForResponse(url: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null && child.signalCode === null) {
    const response = await fetch(url).catch(() => undefined)
    if (response) return void (await response.text())
    await sleep(1)
  }
  throw new Error(`A server exited before its first response: ${child.spawnargs.join(' ')}`)
}

/**
 * Microseconds of CPU time of all threads; NaN without a process id. To the nanosecond on Linux, else to 10 ms; also for an
 * external server, which may end threads: their time is only in the total of the process.
 */
export function cpuTimeOf(pid: number | undefined, isOwn = true): number {
  if (pid === undefined) return Number.NaN
  try {
    if (!isOwn) {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      return (Number(fields[11]) + Number(fields[12])) * 10_000
    }
    const threads = readdirSync(`/proc/${pid}/task`)
    const nanoseconds = threads.map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    )
    return nanoseconds.reduce((sum, value) => sum + value, 0) / 1000
  } catch {
    const time = execFileSync('ps', ['-o', 'time=', '-p', `${pid}`], { encoding: 'utf8' }).trim()
    return time.split(/[-:]/).reduce((sum, part) => sum * 60 + Number(part), 0) * 1e6
  }
}
