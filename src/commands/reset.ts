import { isValid } from '../common/schema.ts'
import { readCommandLine, readServerUrl } from '../config/config.ts'
import { flagsOnly, option, optionsHelp, type ParsedOptions, toggle } from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { spaceName } from '../control/schema.ts'
import { defaultUrlsByProfile, findService } from '../service/client.ts'
import { ControlError, connectControl } from '../service/control-client.ts'
import { type Command, commandLine, confirm, fail, type Process } from './command.ts'

const options = {
  ...flagsOnly({
    space: option(
      'NAME',
      '1 to 64 of A-Z, a-z, 0-9, _ and -',
      'the space to reset (none: what clients without a space see)',
      (name) => (isValid(spaceName, name) ? name : undefined),
    ),
    yes: { ...toggle('delete items in a file or a database without a question'), short: 'y' },
  }),
  token: bearerToken('a development token; a service on this machine, addressed as localhost, requires none'),
}

export const reset: Command = {
  help: `Resets a service in development mode: items as at the start, no faults, an empty journal.
Before it deletes items in a file or a database it asks.

Usage
  todo-service reset [URL] [flags]    without a URL, each service that runs on the default ports

Flags, defaults in brackets
${optionsHelp(options)}
Exit codes
  0   everything was reset
  1   there is no service, or it has no control API, or its items are to stay
  2   wrong usage

Examples
  todo-service reset
  todo-service reset http://localhost:5080 --space ada
  todo-service reset http://localhost:5080 --yes
`,

  async run(args, process) {
    const { values, rest, problems } = readCommandLine(options, args, process.env, 1)
    const [sent] = rest
    const url = sent === undefined ? undefined : readServerUrl(sent, problems)
    if (problems.length > 0) return { problems }
    return url === undefined
      ? resetFoundServices(Object.values(defaultUrlsByProfile), values, process)
      : resetServices([url], values, process)
  },
}

type ResetOptions = Partial<ParsedOptions<typeof options>['values']>

type Terminal = Omit<Process, 'on' | 'once' | 'exit'>

/** Resets one service of each group of URLs: the first that responds. Returns the exit code. */
export async function resetFoundServices(
  urls: readonly (readonly string[])[],
  resetOptions: ResetOptions,
  terminal: Terminal,
  /** How long to wait for a response from each URL. */
  timeoutMs?: number,
): Promise<number> {
  const found = await Promise.all(urls.map((group) => findService(group, timeoutMs)))
  const running = found.filter((url) => url !== undefined)
  if (running.length > 0) return resetServices(running, resetOptions, terminal)
  const [start, withUrl] = [commandLine(terminal, 'serve'), commandLine(terminal, 'reset', 'http://localhost:8080')]
  return fail(
    terminal,
    `No service responds on the default ports: start one with ${start}, or pass its URL, as in ${withUrl}`,
  )
}

/** Resets the services one after the other, because each reset may ask a question. */
async function resetServices(urls: readonly string[], resetOptions: ResetOptions, terminal: Terminal) {
  let exitCode = 0
  for (const url of urls)
    try {
      terminal.stdout.write(`${await resetService(url, resetOptions, terminal)}\n`)
    } catch (cause) {
      if (!(cause instanceof ControlError)) throw cause
      exitCode = fail(terminal, `${cause.isRejection ? `${url} is not reset: ` : ''}${cause.message}`)
    }
  return exitCode
}

/** Returns a sentence that says what was reset, or throws a `ControlError`. */
async function resetService(url: string, { yes, ...options }: ResetOptions, terminal: Terminal): Promise<string> {
  const tokenCommand = commandLine(terminal, 'token', '--scope', 'control', '-o', 'token')
  const service = await connectControl(url, { ...options, tokenCommand })
  const loss = yes ? undefined : await service.findLoss()
  if (loss) {
    const refusal = await confirm(terminal, yes, `${loss.sentence}.`, `delete ${loss.pronoun}`)
    if (refusal) throw new ControlError(refusal)
  }
  return service.reset()
}
