import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { removeAtExit, spawnTied } from './child-process.ts'

export const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** A production log: one JSON object per line. */
export const jsonLines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** The environment of the tests without the variables that configure the service or Node. */
export const cleanEnvironment = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(TODO_|NODE_ENV$|NODE_OPTIONS$|NODE_TEST_CONTEXT$)/.test(name)),
  )

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** What registers cleanup: a test's context, or `sharedService` for a suite. */
type Cleanup = Pick<TestContext, 'after'>

/** Far above what a slow machine needs: a test fails instead of waiting for ever. */
const printTimeoutMs = 120_000

/** A child process that is killed when its test ends. */
export class Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''

  constructor(t: Cleanup, command: string, args: readonly string[], options: SpawnOptions) {
    this.process = spawnTied(command, args, options)
    this.process.stdout?.on('data', (data) => (this.stdout += data))
    this.process.stderr?.on('data', (data) => (this.stderr += data))
    this.ended = once(this.process, 'close').then(([code]) => ({ code, stdout: this.stdout, stderr: this.stderr }))
    t.after(async () => {
      this.process.kill('SIGKILL')
      await this.ended
    })
  }

  /** Waits until standard output matches. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    const { stdout } = this.process
    const timeout = AbortSignal.timeout(printTimeoutMs)
    for (;;) {
      const match = pattern.exec(this.stdout)
      if (match) return match
      const data = stdout && once(stdout, 'data', { signal: timeout }).catch(() => 'within two minutes')
      const more = await Promise.race([data, this.ended.then(() => 'before it ended')])
      if (typeof more === 'string') throw new Error(`${pattern} was not printed ${more}: ${this.stdout}${this.stderr}`)
    }
  }
}

/** Any command, with the environment of the tests. */
export const runCommand = (t: Cleanup, command: string, args: readonly string[], options: SpawnOptions = {}) =>
  new Running(t, command, args, { env: cleanEnvironment(), ...options }).ended

/** What runs the compiled program. */
export interface Interpreter {
  readonly command: string
  readonly args: readonly string[]
}

export const node: Interpreter = { command: process.execPath, args: ['--throw-deprecation'] }

/** A `todo-service` process with an empty configuration directory. */
export function start(
  t: Cleanup,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { command, args: flags } = node,
): Running {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
  removeAtExit(folder)
  const environment = { ...cleanEnvironment(), XDG_CONFIG_HOME: folder, ...env }
  const running = new Running(t, command, [...flags, cli, ...args], { env: environment })
  t.after(() => rmSync(folder, { recursive: true }))
  return running
}

export const run = (t: Cleanup, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
  start(t, args, env).ended

export interface Service {
  readonly running: Running
  readonly url: string
  readonly port: number
}

/** The service with one profile on a free port, once it listens. */
export async function serve(
  t: Cleanup,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  profile: 'a' | 'b' = 'a',
  interpreter = node,
): Promise<Service> {
  const flags = ['--profile', profile, '--port', '0', '--host', '127.0.0.1', ...args]
  const running = start(t, ['serve', ...flags], env, interpreter)
  const [url] = await running.prints(/http:\/\/127\.0\.0\.1:\d+/)
  return { running, url, port: Number(new URL(url).port) }
}

/** One service for all tests of a suite; to be called in the body of the suite, and to be read in its tests. */
export function sharedService(
  args: readonly string[],
  profile: 'a' | 'b' = 'a',
  env: NodeJS.ProcessEnv = {},
  interpreter = node,
): Service {
  const cleanups: (() => unknown)[] = []
  const service = {}
  before(async () => {
    const t = { after: (cleanup: () => unknown) => void cleanups.push(cleanup) }
    Object.assign(service, await serve(t, args, env, profile, interpreter))
  })
  after(async () => {
    for (const cleanup of cleanups) await cleanup()
  })
  return service as Service
}
