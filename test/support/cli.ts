import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'

export const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** What a production log holds: one JSON object per line. */
export const jsonLines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** The test's own environment without what would steer the service. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(TODO_|NODE_ENV$|NODE_OPTIONS$|NODE_TEST_CONTEXT$)/.test(name)),
  )
}

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A `todo-service` process; it is gone when the test ends. */
export class Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''

  constructor(t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv) {
    const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
    const environment = { ...cleanEnvironment(), XDG_CONFIG_HOME: folder, ...env }
    this.process = spawn(process.execPath, [cli, ...args], { env: environment })
    this.process.stdout?.on('data', (data) => (this.stdout += data))
    this.process.stderr?.on('data', (data) => (this.stderr += data))
    this.ended = once(this.process, 'close').then(([code]) => ({ code, stdout: this.stdout, stderr: this.stderr }))
    t.after(async () => {
      this.process.kill('SIGKILL')
      await this.ended
      rmSync(folder, { recursive: true })
    })
  }

  /** Waits until it has printed what matches. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.stdout)
      if (match) return match
      const { stdout } = this.process
      const more = await Promise.race([stdout && once(stdout, 'data'), this.ended])
      if (!Array.isArray(more)) throw new Error(`ended before it printed ${pattern}: ${this.stdout}${this.stderr}`)
    }
  }
}

export const start = (t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv = {}) => new Running(t, args, env)

export const run = (t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
  start(t, args, env).ended

/** The service with profile A on a free port, once it listens. */
export async function serve(t: TestContext, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const running = start(t, ['serve', '--profile', 'a', '--port', '0', '--host', '127.0.0.1', ...args], env)
  const [url] = await running.prints(/http:\/\/127\.0\.0\.1:\d+/)
  return { running, url, port: Number(new URL(url).port) }
}
