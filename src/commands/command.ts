import { basename, join, relative, sep } from 'node:path'
import { runtime } from '../server/runtime.ts'
import { quote } from '../service/shell.ts'

export type Process = Pick<
  NodeJS.Process,
  'argv' | 'argv0' | 'execArgv' | 'env' | 'stdin' | 'stdout' | 'stderr' | 'on' | 'once' | 'exit'
>

export interface Command {
  readonly help: string
  /** Returns the exit code, or all usage errors. */
  run(args: readonly string[], process: Process): Promise<number | { problems: readonly string[] }>
}

/** What to type for a command of this program, where and how this one was started. */
export function commandLine(
  { argv, argv0, execArgv, env }: Pick<Process, 'argv' | 'argv0' | 'execArgv' | 'env'>,
  ...args: readonly string[]
): string {
  const [, script = ''] = argv
  const { npm_lifecycle_event: event, npm_package_name: project } = env
  // In another project, the script may start other programs, too.
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
