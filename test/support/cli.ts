import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { after, afterEach, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { commandLine, type Process } from '../../src/commands/command.ts'
import { main } from '../../src/commands/main.ts'
import { removeAtExit, spawnTied } from './child-process.ts'
import { type Cleanup, cleanUp } from './cleanup.ts'

export const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** What a command in this process tells its user to type. */
export const typed = (...args: readonly string[]) =>
  commandLine({ argv: ['node', cli], argv0: 'node', execArgv: [], env: {} }, ...args)

/** A production log: one JSON object per line. */
export const jsonLines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** The environment of the tests without the variables that configure the service or Node, or tell how npm started them. */
export const cleanEnvironment = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(TODO_|npm_lifecycle_|NODE_ENV$|NODE_OPTIONS$|NODE_TEST_CONTEXT$)/.test(name),
    ),
  )

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Far above what a slow machine needs: a test fails instead of waiting for ever. */
const printTimeoutMs = 120_000
/** Much more than any drain time: on a busy machine, what a flood has left is parsed slowly. */
const stopTimeoutMs = 60_000
const reportedCharacters = 5_000

/** What the context of a test has; `error` is documented, but not in the types. */
interface FailedTest {
  readonly error?: Error | null
  diagnostic?(message: string): void
}

const isStopSignal = (signal: NodeJS.Signals | number = 'SIGTERM') => signal === 'SIGTERM' || signal === 'SIGINT'

/** A command that runs, as a program or in this process. */
export abstract class Running {
  abstract readonly process: Pick<ChildProcess, 'kill' | 'pid' | 'exitCode' | 'stdin' | 'stdout'>
  abstract readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''
  /** Whether it was told to stop: a second signal would end it at once, with exit code 1. */
  protected isStopping = false
  readonly #output = new EventEmitter()

  protected receive(stream: 'stdout' | 'stderr', data: unknown): void {
    this[stream] += data
    this.#output.emit('data')
  }

  /** Waits until standard output matches. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    const timeout = AbortSignal.timeout(printTimeoutMs)
    for (;;) {
      const match = pattern.exec(this.stdout)
      if (match) return match
      const data = once(this.#output, 'data', { signal: timeout }).catch(() => 'within two minutes')
      const more = await Promise.race([data, this.ended.then(() => 'before it ended')])
      if (typeof more === 'string' && !pattern.test(this.stdout))
        throw new Error(`${pattern} was not printed ${more}: ${this.stdout}${this.stderr}`)
    }
  }

  /** The end of what it printed, as a diagnostic message of a test that failed. */
  reportTo(t: FailedTest): void {
    if (t.error) t.diagnostic?.(`The service printed:\n${this.stdout.slice(-reportedCharacters)}${this.stderr}`)
  }

  /** Ends it by SIGTERM, if it runs. It must stop in time, with exit code 0. */
  protected async stop(): Promise<void> {
    if (!this.isStopping) this.process.kill('SIGTERM')
    const timer = setTimeout(() => this.process.kill('SIGKILL'), stopTimeoutMs)
    const { code } = await this.ended
    clearTimeout(timer)
    if (code !== 0) throw new Error(`SIGTERM: exit code ${code} instead of 0: ${this.stdout}${this.stderr}`)
  }
}

/** A child process. `isService`: it must stop on SIGTERM when its test ends. */
export class Program extends Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>

  constructor(t: Cleanup, command: string, args: readonly string[], options: SpawnOptions, isService = false) {
    super()
    this.process = spawnTied(command, args, options)
    const kill = this.process.kill.bind(this.process)
    this.process.kill = (signal) => {
      this.isStopping ||= isStopSignal(signal)
      return kill(signal)
    }
    this.process.stdout?.on('data', (data) => this.receive('stdout', data))
    this.process.stderr?.on('data', (data) => this.receive('stderr', data))
    this.ended = once(this.process, 'close').then(([code]) => ({ code, stdout: this.stdout, stderr: this.stderr }))
    cleanUp(t, async () => {
      const { exitCode, signalCode } = this.process
      if (exitCode === null && signalCode === null && isService) await this.stop()
      this.process.kill('SIGKILL')
      await this.ended
    })
  }
}

/** A command in this process, which gets a `process` of its own. */
class InProcess extends Running {
  readonly process
  readonly ended: Promise<Ended>

  constructor(t: Cleanup, args: readonly string[], env: NodeJS.ProcessEnv, answers?: string) {
    super()
    const events = new EventEmitter()
    const running = this
    let exitCode: number | null = null
    let exit = (_code: number) => {}
    const exited = new Promise<number>((resolve) => {
      exit = resolve
    })
    const process = {
      argv: ['node', cli, ...args],
      argv0: 'node',
      execArgv: [],
      env,
      stdin: Object.assign(new PassThrough().end(answers), { isTTY: answers !== undefined }),
      stdout: Object.assign(this.#stream('stdout'), { isTTY: answers !== undefined }),
      stderr: this.#stream('stderr'),
      on: events.on.bind(events),
      once: events.once.bind(events),
      exit,
    }
    this.process = {
      pid: undefined,
      stdin: null,
      stdout: null,
      get exitCode() {
        return exitCode
      },
      kill(signal: NodeJS.Signals | number = 'SIGTERM') {
        running.isStopping ||= isStopSignal(signal)
        if (exitCode === null && !events.emit(`${signal}`)) throw new Error(`${signal} takes a program: pass \`node\`.`)
        return exitCode === null
      },
    }
    const failed = (error: unknown) => {
      this.receive('stderr', inspect(error))
      return 1
    }
    this.ended = Promise.race([main(process as unknown as Process).catch(failed), exited]).then((code) => {
      exitCode = code
      return { code, stdout: this.stdout, stderr: this.stderr }
    })
    cleanUp(t, () => (exitCode === null ? this.stop() : undefined))
  }

  #stream(name: 'stdout' | 'stderr'): Writable {
    return new Writable({
      decodeStrings: false,
      write: (data, _encoding, done) => {
        this.receive(name, data)
        done()
      },
    })
  }
}

/** Any command, with the environment of the tests. */
export const runCommand = (t: Cleanup, command: string, args: readonly string[], options: SpawnOptions = {}) =>
  new Program(t, command, args, { env: cleanEnvironment(), ...options }).ended

/** What runs the compiled program. */
export interface Interpreter {
  readonly command: string
  readonly args: readonly string[]
}

export const node: Interpreter = { command: process.execPath, args: ['--throw-deprecation'] }

/** A command of `todo-service` with an empty configuration directory: in this process, unless it takes a program. */
export function start(
  t: Cleanup,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  interpreter?: Interpreter,
  /** What somebody types at a terminal; undefined without one. */
  answers?: string,
): Running {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
  cleanUp(t, () => rmSync(folder, { recursive: true }))
  const environment = { ...cleanEnvironment(), XDG_CONFIG_HOME: folder, ...env }
  const needsProgram = env.NODE_OPTIONS !== undefined || args.includes('--workers')
  if (interpreter || needsProgram) removeAtExit(folder)
  const { command, args: flags } = interpreter ?? node
  const running =
    interpreter || needsProgram
      ? new Program(t, command, [...flags, cli, ...args], { env: environment }, true)
      : new InProcess(t, args, environment, answers)
  cleanUp(t, () => running.reportTo(t as FailedTest))
  return running
}

export const run = (t: Cleanup, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
  start(t, args, env).ended

/** At a terminal, where somebody types these answers. */
export const runAtTerminal = (t: Cleanup, args: readonly string[], answers: string): Promise<Ended> =>
  start(t, args, {}, undefined, answers).ended

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
  interpreter?: Interpreter,
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
  interpreter?: Interpreter,
): Service {
  let cleanup = (): unknown => undefined
  const service = {}
  before(async () => {
    const t = {
      after(callback: () => unknown) {
        cleanup = callback
      },
    }
    Object.assign(service, await serve(t, args, env, profile, interpreter))
  })
  afterEach((t) => (service as Service).running.reportTo(t as FailedTest))
  after(() => cleanup())
  return service as Service
}
