import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { Agent } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { verify } from '../../src/verify/index.ts'
import { env as callerEnv, tokenWith } from './callers.ts'
import { removeAtExit } from './child-process.ts'
import { cleanUp } from './cleanup.ts'
import { type Interpreter, node, run, serve } from './cli.ts'
import { newDatabase } from './database.ts'
import { temporaryFolder } from './folder.ts'

export interface Runtime extends Interpreter {
  readonly name: 'Node' | 'Bun' | 'Deno'
  readonly env: NodeJS.ProcessEnv
  /** Why it cannot be tested on this machine; false where it can. */
  readonly skip: string | false
}

const { resolve } = createRequire(import.meta.url)
const extension = process.platform === 'win32' ? '.exe' : ''

/** A program in an npm package, which has binaries for some platforms. */
function find(name: 'Bun' | 'Deno', file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Runtime {
  const packageName = name.toLowerCase()
  let command = ''
  try {
    command = join(dirname(resolve(`${packageName}/package.json`)), file)
  } catch {
    // Not installed.
  }
  const { status } = spawnSync(command, ['--version'], { env: { ...process.env, ...env } })
  const skip = status === 0 ? false : `npm has no ${name} for ${process.platform} ${process.arch}`
  return { name, command, args, env, skip }
}

/** Deno keeps compiled code there. */
function denoDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'todo-service-'))
  removeAtExit(directory)
  return directory
}

const bun = find('Bun', 'bin/bun.exe', [])
const deno = find('Deno', `deno${extension}`, ['run', '-A'], {
  DENO_DIR: denoDirectory(),
  DENO_NO_UPDATE_CHECK: '1',
})
export const nodeRuntime: Runtime = { ...node, name: 'Node', env: {}, skip: false }
export const runtimes: readonly Runtime[] = [nodeRuntime, bun, deno]

type Store = 'memory' | 'SQLite' | 'PostgreSQL'

async function flagsOf(t: TestContext, store: Store): Promise<readonly string[]> {
  if (store === 'SQLite') return ['--data', join(temporaryFolder(t), 'todo.db')]
  return store === 'PostgreSQL' ? ['--database-url', (await newDatabase()).url] : []
}

/** `verify --strict` of the service on this runtime finds nothing. */
export async function assertConforms(
  t: TestContext,
  { env, ...interpreter }: Runtime,
  profile: 'a' | 'b',
  store: Store,
  path: '' | '/~ada' = '',
): Promise<void> {
  const XDG_CONFIG_HOME = temporaryFolder(t)
  // Without CORS as in production, where responses have fewer headers.
  const cors = store === 'memory' ? ['--cors', 'none'] : []
  const args = ['--no-https', '--log-level', 'error', ...cors, ...(await flagsOf(t, store))]
  const service = await serve(t, args, { ...env, XDG_CONFIG_HOME }, profile, interpreter)
  const tokenOf = async (name: string) =>
    (await run(t, ['token', '--name', name, '-o', 'token'], { XDG_CONFIG_HOME })).stdout.trim()
  const [token, otherToken] = [await tokenOf('ada'), await tokenOf('bob')]
  const agent = new Agent({ keepAlive: true })
  cleanUp(t, () => agent.destroy())
  const result = await verify({
    url: `${service.url}${path}`,
    profile,
    strict: true,
    reset: true,
    token,
    otherToken,
    agent,
  })
  const { ok, failed, skipped, outcomes } = result
  const problems = outcomes.filter(({ status }) => status !== 'passed')
  assert.deepEqual({ ok, failed, skipped }, { ok: true, failed: 0, skipped: 0 }, JSON.stringify(problems))
}

/** `verify --token` of the service in production on this runtime, where each caller has a space, finds nothing. */
export async function assertConformsForCaller(
  t: TestContext,
  { env, ...interpreter }: Runtime,
  profile: 'a' | 'b',
  store: Store,
): Promise<void> {
  const args = ['--spaces', 'caller', '--mode', 'production', '--drain-delay', '0', ...(await flagsOf(t, store))]
  const { url } = await serve(t, args, { ...env, ...callerEnv }, profile, interpreter)
  const { failed, ok } = await verify({ url, profile, token: tokenWith({ sub: 'ada' }), quick: true })
  assert.deepEqual([failed, ok], [0, true])
}
