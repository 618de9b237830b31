import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/port.ts'

/** A server under load: a process of its own, on its own core where the system can. */
export interface Contender {
  readonly name: string
  readonly port: number
  /** Undefined for a server that somebody else started. */
  readonly pid: number | undefined
  /** Path of the collection. */
  readonly items: string
  /** Milliseconds from its start to its first answer. */
  readonly startedIn: number
  stop(): Promise<void>
}

/** A program that can be started as a contender: arguments of Node. `PORT` in them is replaced. */
export interface Program {
  readonly name: string
  readonly args: readonly string[]
  readonly items?: string
  readonly env?: Readonly<Record<string, string>>
}

/** This service, as it runs for real. */
export const ours = 'this service'
export const thisService = (profile: 'a' | 'b', ...more: string[]): Program => ({
  name: ours,
  args: [
    file('../src/cli.js'),
    ...['serve', '--profile', profile, '--host', '127.0.0.1', '--port', 'PORT', '--mode', 'production'],
    ...more,
  ],
})

const serverCore = '0'
const loadCore = '1'

/** Whether processes can be bound to a core. */
export const canPin = (() => {
  try {
    execFileSync('taskset', ['-pc', loadCore, `${process.pid}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

export const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export async function start({ name, args, items = '/api/todoitems', env = {} }: Program): Promise<Contender> {
  const port = await freePort()
  const own = args.map((arg) => arg.replace('PORT', `${port}`))
  const [command, ...all] = canPin
    ? ['taskset', '-c', serverCore, process.execPath, ...own]
    : [process.execPath, ...own]
  const startedAt = performance.now()
  const child = spawn(command as string, all, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  })
  const startedIn = (await firstAnswer(port, items, child)) - startedAt
  return {
    name,
    port,
    items,
    startedIn,
    pid: child.pid,
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

export function contenderAt(name: string, url: string): Contender {
  const { port, pathname } = new URL(url)
  return { name, port: Number(port), pid: undefined, items: pathname, startedIn: 0, stop: async () => {} }
}

async function firstAnswer(port: number, path: string, child: ChildProcess): Promise<number> {
  while (child.exitCode === null) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined)
    const at = performance.now()
    await answer?.text()
    if (answer) return at
    await new Promise((next) => setTimeout(next, 1))
  }
  throw new Error('a contender ended before it answered')
}

/** Microseconds of CPU that the process has used: to the nanosecond on Linux, to a hundredth of a second elsewhere. */
export function cpuOf(pid: number): number {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`)
    const nanoseconds = tasks.map((task) =>
      Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]),
    )
    return nanoseconds.reduce((sum, one) => sum + one, 0) / 1000
  } catch {
    const text = execFileSync('ps', ['-o', 'time=', '-p', `${pid}`], { encoding: 'utf8' }).trim()
    return text.split(/[-:]/).reduce((sum, part) => sum * 60 + Number(part), 0) * 1e6
  }
}
