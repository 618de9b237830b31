import { writeFileSync } from 'node:fs'
import {
  anyText,
  type Options,
  oneOf,
  optionsHelp,
  readOptions,
  refuseArguments,
  toggle,
  wholeNumber,
} from '../options.ts'
import { CannotVerify, type Verification, verify as verifyServer } from '../verify/index.ts'
import { json } from '../verify/report/json.ts'
import { junit } from '../verify/report/junit.ts'
import { markdown } from '../verify/report/markdown.ts'
import { type Paint, pretty } from '../verify/report/pretty.ts'
import type { Command, Process } from './command.ts'

const options = {
  profile: {
    takes: 'a|b',
    variable: 'none',
    expects: 'a or b',
    help: 'the contract that it should keep',
    read: oneOf('a', 'b'),
  },
  token: {
    takes: 'TOKEN',
    expects: 'a JSON Web Token: three parts with dots between them',
    help: 'a token that it accepts, for the rules about tokens',
    read: (text: string) => (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(text.trim()) ? text.trim() : undefined),
  },
  only: {
    takes: 'RULES',
    variable: 'none',
    expects: 'rule ids separated by commas, such as A8,S*',
    help: 'check these rules, * standing for anything: A8,S* (all)',
    read: (text: string) => (/^[\w*]+(?:,[\w*]+)*$/.test(text) ? text.split(',') : undefined),
  },
  strict: { ...toggle('fail on deviations from choices, too'), variable: 'none' },
  report: {
    takes: 'FORM',
    variable: 'none',
    expects: 'pretty, json, junit or markdown',
    help: 'pretty, json, junit or markdown (pretty)',
    read: oneOf('pretty', 'json', 'junit', 'markdown'),
  },
  out: {
    takes: 'FILE',
    variable: 'none',
    expects: 'a file name',
    help: 'where to write the report (standard output)',
    read: anyText,
  },
  timeout: {
    takes: 'MS',
    variable: 'none',
    expects: 'a whole number from 1 to 600000',
    help: 'how long an answer may take, in milliseconds (10000)',
    read: wholeNumber(1, 600_000),
  },
  insecure: { ...toggle('accept a certificate that nobody vouches for'), variable: 'none' },
} as const satisfies Options

export const verify: Command = {
  help: `Checks a running server of any make against the contract, and cites the rule behind each failure.
It works only on items that it makes itself, and deletes them.

Usage
  todo-service verify URL --profile a|b [flags]

Flags, and in brackets what holds without them
${optionsHelp(options)}
Exit codes
  0   every specified rule that was checked holds
  1   a rule is broken
  2   it could not be checked: nobody there, no HTTP, wrong usage

Examples
  todo-service verify http://localhost:5080 --profile a
  todo-service verify https://localhost:5001 --profile b --insecure --only 'B*'
  todo-service verify "$URL" --profile a --token "$TOKEN" --report junit --out contract.xml
`,

  async run(args, process) {
    const { values, rest, problems } = readOptions(options, args, process.env)
    const [url, ...more] = rest
    if (url === undefined)
      problems.push('Which server? Name its URL: todo-service verify http://localhost:5080 --profile a')
    else if (!/^https?:\/\/[^/?#]+[^?#]*$/i.test(url) || !URL.canParse(url))
      problems.push(`The URL must be an http or https URL without query or fragment, not ${JSON.stringify(url)}.`)
    if (/\/api\/todoitems\/?$/i.test(url ?? '')) problems.push('The URL is that of the server, without /api/todoitems.')
    refuseArguments(more, problems)
    if (!values.profile && !problems.some((problem) => problem.startsWith('--profile')))
      problems.push('Which contract? Add --profile a or --profile b.')
    if (problems.length > 0 || url === undefined || !values.profile) return { problems }

    const unwritable = values.out && whyUnwritable(values.out)
    if (unwritable) {
      process.stderr.write(`todo-service: Cannot write ${values.out}: ${unwritable}. Name another file with --out.\n`)
      return 2
    }
    const stopping = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort())
    const progress = progressOn(process)
    try {
      const { profile, report = 'pretty', out, ...how } = values
      const verification = await verifyServer({
        ...how,
        url,
        profile,
        signal: stopping.signal,
        onOutcome: progress.show,
      })
      progress.clear()
      return conclude(verification, report, out, stopping.signal.aborted, process)
    } catch (cause) {
      progress.clear()
      if (!(cause instanceof CannotVerify)) throw cause
      process.stderr.write(`todo-service: ${cause.message}\n`)
      return 2
    }
  },
}

function conclude(
  verification: Verification,
  form: keyof typeof reports,
  out: string | undefined,
  stopped: boolean,
  process: Process,
): number {
  const { stdout, stderr } = process
  const text = form === 'pretty' && !out ? pretty(verification, paintOn(process)) : reports[form](verification)
  if (!out) stdout.write(text)
  else {
    writeFileSync(out, text)
    const { passed, failed, skipped } = verification
    stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped. The report is in ${out}.\n`)
  }
  if (verification.leftovers.length > 0)
    stderr.write(
      `todo-service: ${verification.leftovers.length} items of this run could not be deleted; the report names them.\n`,
    )
  if (stopped) stderr.write('todo-service: Stopped before the end.\n')
  return verification.failed > 0 ? 1 : verification.complete ? 0 : 2
}

/** Before an hour's work is done for a report that cannot be written. */
function whyUnwritable(file: string): string | undefined {
  try {
    writeFileSync(file, '')
    return undefined
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code
  }
}

const reports = { pretty: (verification: Verification) => pretty(verification), json, junit, markdown }

const codes = { red: 31, green: 32, yellow: 33, dim: 2 }

function paintOn({ stdout, env }: Process): Paint {
  const isPlain = !stdout.isTTY || Boolean(env.NO_COLOR)
  return (colour, text) => (isPlain ? text : `\u001b[${codes[colour]}m${text}\u001b[0m`)
}

/** On a terminal, one line that says how far it is. */
function progressOn({ stderr }: Process) {
  if (!stderr.isTTY) return { show: () => {}, clear: () => {} }
  return {
    show: ({ rule, name }: { rule: string; name: string }, done: number, total: number) =>
      void stderr.write(`\r\u001b[K${done}/${total}  ${rule}  ${name.slice(0, 60)}`),
    clear: () => void stderr.write('\r\u001b[K'),
  }
}
