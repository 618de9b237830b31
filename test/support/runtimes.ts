import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { removeAtExit } from './child-process.ts'
import { type Interpreter, node } from './cli.ts'

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
export const runtimes: readonly Runtime[] = [{ ...node, name: 'Node', env: {}, skip: false }, bun, deno]
