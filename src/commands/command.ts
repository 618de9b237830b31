import { basename, join, relative, sep } from 'node:path'
import { createInterface } from 'node:readline'
import { quote } from '../common/escape.ts'
import { runtime } from '../server/runtime.ts'

export type Process = Pick<
  NodeJS.Process,
  'argv' | 'argv0' | 'execArgv' | 'env' | 'stdin' | 'stdout' | 'stderr' | 'on' | 'once' | 'exit'
>

export interface Command {
  readonly help: string
  /** Returns the exit code, or all usage errors. */
  run(args: readonly string[], process: Process): Promise<number | { problems: readonly string[] }>
}

/** Prints a message for the user. Returns the exit code. */
export function fail({ stderr }: Pick<Process, 'stderr'>, message: string, code = 1): number {
  stderr.write(`todo-service: ${message}\n`)
  return code
}

/** Returns what the user types to run a command of this program in the same shell and in the same way. */
export function commandLine(
  { argv, argv0, execArgv, env }: Pick<Process, 'argv' | 'argv0' | 'execArgv' | 'env'>,
  ...args: readonly string[]
): string {
  const [, script = ''] = argv
  const { npm_lifecycle_event: event, npm_package_name: project } = env
  // In another project, `npm start` may run other programs before or beside this one.
  const isNpmStart = event === 'start' && project === 'todo-item-service'
  const name = /^todo-(?:item-)?service$/.exec(basename(script))?.[0]
  const isLocal = event === 'npx' || isNpmStart || script.includes(join('node_modules', '.bin'))
  const flagsOfRuntime = runtime.name === 'Deno' ? ['run', '-A'] : execArgv
  const asStarted = [argv0, ...flagsOfRuntime, relative('', script).replaceAll(sep, '/')]
  const [command, ...flags] = args
  const words =
    isNpmStart && command === 'serve'
      ? ['npm', 'start', ...(flags.length > 0 ? ['--', ...flags] : [])]
      : [...(isLocal ? ['npx', name ?? 'todo-service'] : name ? [name] : asStarted), ...args]
  return words.map(quote).join(' ')
}

/** Asks the user before something is lost. Returns undefined if the user agrees, and otherwise the message to print. */
export async function confirm(
  { stdin, stdout }: Pick<Process, 'stdin' | 'stdout'>,
  yes: boolean | undefined,
  sentence: string,
  action: string,
): Promise<string | undefined> {
  if (yes) return undefined
  if (!stdin.isTTY || !stdout.isTTY) return `${sentence} Nothing was changed: to ${action}, add --yes.`
  const question = `${action.charAt(0).toUpperCase()}${action.slice(1)}?`
  const answer = await ask(`${sentence} ${question} [y/N] `, stdin, stdout)
  return /^\s*y(?:es)?\s*$/i.test(answer) ? undefined : 'Nothing was changed.'
}

/** Returns the line that the user types; empty if the input ends first. */
const ask = (question: string, input: Process['stdin'], output: Process['stdout']) =>
  new Promise<string>((resolve) => {
    const lines = createInterface({ input, output })
    let answer: string | undefined
    lines.once('close', () => {
      if (answer === undefined) output.write('\n')
      resolve(answer ?? '')
    })
    lines.question(question, (line) => {
      answer = line
      lines.close()
    })
    // readline does not emit `close` for an input that ended before.
    if (input.readableEnded) lines.close()
  })
