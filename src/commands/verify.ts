import { writeFileSync } from 'node:fs'
import {
  choice,
  flagsOnly,
  integer,
  option,
  optionsHelp,
  readOptions,
  rejectArguments,
  text,
  toggle,
} from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { CannotVerify, type Verification, verify as verifyServer } from '../verify/index.ts'
import { json } from '../verify/report/json.ts'
import { junit } from '../verify/report/junit.ts'
import { markdown } from '../verify/report/markdown.ts'
import { type Colorize, pretty, totals } from '../verify/report/pretty.ts'
import type { Command, Process } from './command.ts'

const options = {
  ...flagsOnly({
    profile: choice('a|b', ['a', 'b'], 'the contract to check'),
    only: option(
      'RULES',
      'rule ids separated by commas, such as A8,S*',
      'ids of the rules to check, * is a wildcard: A8,S* (all)',
      (rules) => (/^[\w*]+(?:,[\w*]+)*$/.test(rules) ? rules.split(',') : undefined),
    ),
    strict: toggle('count deviations from choices as failures'),
    bail: toggle('stop at the first failure'),
    reset: toggle(
      'also check what only a fresh server shows, on a todo-service in development: resets it, restores its items',
    ),
    report: choice('FORMAT', ['pretty', 'json', 'junit', 'markdown'], 'pretty, json, junit or markdown (pretty)'),
    out: text('FILE', 'a file name', 'file for the report (standard output)'),
    timeout: integer('MS', 1, 600_000, 'response timeout in milliseconds (10000)'),
    insecure: toggle('accept a self-signed certificate'),
  }),
  token: bearerToken('a token that the server accepts, for the rules about tokens'),
}

export const verify: Command = {
  help: `Checks any running server against the contract, and cites the rule behind each failure.
It changes only items that it creates, and deletes them. With --reset it needs the control API of a todo-service in
development: faults and the journal are cleared, the items are restored at the end.

Usage
  todo-service verify URL --profile a|b [flags]

Flags, defaults in brackets
${optionsHelp(options)}
Exit codes
  0   every check of a specified rule passed
  1   a check failed
  2   the server could not be checked, or not to the end: no server, no HTTP, wrong usage

Examples
  todo-service verify http://localhost:5080 --profile a
  todo-service verify https://localhost:5001 --profile b --insecure --only 'B*'
  todo-service verify "$URL" --profile a --token "$TOKEN" --report junit --out contract.xml
`,

  async run(args, process) {
    const { values, rest, problems } = readOptions(options, args, process.env)
    const [url, ...more] = rest
    if (url === undefined)
      problems.push('Which server? Pass its URL: todo-service verify http://localhost:5080 --profile a')
    else if (!/^https?:\/\/[^/?#]+[^?#]*$/i.test(url) || !URL.canParse(url))
      problems.push(`The URL must be an http or https URL without query or fragment, not ${JSON.stringify(url)}.`)
    if (/\/api\/todoitems\/?$/i.test(url ?? ''))
      problems.push('The URL must be that of the server, without /api/todoitems.')
    rejectArguments(more, problems)
    if (!values.profile && !problems.some((problem) => problem.startsWith('--profile')))
      problems.push('Which contract? Add --profile a or --profile b.')
    if (problems.length > 0 || url === undefined || !values.profile) return { problems }

    const { profile, report = 'pretty', out, ...verifyOptions } = values
    const writeError = out && tryWrite(out)
    if (writeError) {
      process.stderr.write(`todo-service: Cannot write ${out}: ${writeError}. Choose another file with --out.\n`)
      return 2
    }
    const abort = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => abort.abort())
    const progress = createProgressLine(process)
    try {
      const verification = await verifyServer({
        ...verifyOptions,
        url,
        profile,
        signal: abort.signal,
        onOutcome: progress.show,
      })
      progress.clear()
      writeReport(verification, report, out, process)
      if (abort.signal.aborted) process.stderr.write('todo-service: Stopped before the end.\n')
      return verification.failed > 0 ? 1 : verification.complete ? 0 : 2
    } catch (cause) {
      progress.clear()
      if (!(cause instanceof CannotVerify)) throw cause
      process.stderr.write(`todo-service: ${cause.message}\n`)
      return 2
    }
  },
}

const reports = { pretty: (verification: Verification) => pretty(verification), json, junit, markdown }

function writeReport(
  verification: Verification,
  format: keyof typeof reports,
  out: string | undefined,
  process: Process,
): void {
  const { stdout, stderr } = process
  const { leftovers } = verification
  if (out) {
    writeFileSync(out, reports[format](verification))
    stdout.write(`${totals(verification)}. The report is in ${out}.\n`)
  } else
    stdout.write(format === 'pretty' ? pretty(verification, createColorize(process)) : reports[format](verification))
  if (leftovers.length > 0)
    stderr.write(`todo-service: ${leftovers.length} items of this run could not be deleted; the report lists them.\n`)
}

/** Fails before the run rather than after it. Returns the error code. */
function tryWrite(file: string): string | undefined {
  try {
    writeFileSync(file, '')
    return undefined
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code
  }
}

const colorCodes = { red: 31, green: 32, yellow: 33, dim: 2 }

function createColorize({ stdout, env }: Process): Colorize {
  const isPlain = !stdout.isTTY || Boolean(env.NO_COLOR)
  return (color, text) => (isPlain ? text : `\u001b[${colorCodes[color]}m${text}\u001b[0m`)
}

/** A line on the terminal that shows the current check. */
function createProgressLine({ stderr }: Process) {
  if (!stderr.isTTY) return { show: () => {}, clear: () => {} }
  return {
    show: ({ rule, name }: { rule: string; name: string }, done: number, total: number) =>
      void stderr.write(`\r\u001b[K${done}/${total}  ${rule}  ${name.slice(0, 60)}`),
    clear: () => void stderr.write('\r\u001b[K'),
  }
}
