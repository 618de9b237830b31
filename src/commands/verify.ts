import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, extname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readCommandLine, readServerUrl } from '../config/config.ts'
import {
  anyText,
  choice,
  file,
  fileName,
  flagsOnly,
  integerFrom,
  option,
  optionsHelp,
  toggle,
} from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { configDirectory } from '../config-directory.ts'
import { developmentTokens } from '../service/tokens.ts'
import {
  CannotVerify,
  type Contract,
  defineContract,
  parseWaivers,
  type Verification,
  verify as verifyServer,
  type Waiver,
} from '../verify/index.ts'
import { json } from '../verify/report/json.ts'
import { junit } from '../verify/report/junit.ts'
import { markdown } from '../verify/report/markdown.ts'
import { type Colorize, pretty, totals } from '../verify/report/pretty.ts'
import { type Command, commandLine, fail, type Process } from './command.ts'

const ruleIds = (help: string) =>
  option('RULES', 'rule ids separated by commas, such as A8,S*', help, (rules) =>
    /^[\w*-]+(?:,[\w*-]+)*$/.test(rules) ? rules.split(',') : undefined,
  )

const header = (help: string) =>
  option('HEADER', "a header, as in 'X-Api-Key: …'", help, (line) => {
    const [, name, value] = /^([!#$%&'*+.^\w`|~-]+): *(.*\S)\s*$/.exec(line) ?? []
    return name === undefined || value === undefined ? undefined : { [name.toLowerCase()]: value }
  })

const options = {
  ...flagsOnly({
    profile: choice('a|b', ['a', 'b'], 'the contract to check'),
    contract: anyText('FILE', 'a JavaScript file', 'another contract, instead of --profile: a module that exports it'),
    only: ruleIds('ids of the rules to check, * is a wildcard: A8,S* (all)'),
    except: ruleIds('ids of rules that the server may break: their failures are counted apart'),
    waivers: fileName('the same in a file, with reasons (verify.waivers.json, if there is one)'),
    strict: toggle('count deviations from choices as failures'),
    quick: toggle('check only what is specified, and leave out the checks that take long'),
    bail: toggle('stop at the first failure'),
    'no-shrink': toggle('report a failing sequence of operations as it was generated, with all its steps'),
    seed: integerFrom('N', 0, 2 ** 31, 'seed of the generated texts and sequences (1)'),
    wait: integerFrom('SECONDS', 0, 3600, 'wait for a server that is starting (0)'),
    fresh: toggle('the server was started for this run and may lose its items: check what only a fresh server shows'),
    'public-url': anyText(
      'URL',
      'a URL',
      'the URL that the server gives its clients, in Location (that of the server)',
    ),
    reset: toggle(
      'also check what only a fresh server shows, on a todo-service in development: resets it, restores its items',
    ),
    report: choice('FORMAT', ['pretty', 'json', 'junit', 'markdown'], 'pretty, json, junit or markdown (pretty)'),
    out: fileName('file for the report; .xml (JUnit), .json and .md choose its format (standard output)'),
    timeout: integerFrom('MS', 1, 600_000, 'response timeout in milliseconds (10000)'),
    insecure: toggle('accept any certificate'),
    ca: file('a readable file in PEM format', 'certificates of the authorities to trust, PEM', (pem) =>
      pem.includes('BEGIN CERTIFICATE') ? pem : undefined,
    ),
  }),
  token: bearerToken('a token that the server accepts; sent to the items, too, if they require one'),
  'other-token': bearerToken('a token of another caller, for what must differ between callers'),
  ...flagsOnly({
    header: header("a header of each request to the items, such as 'Authorization: Token …'; hidden in reports"),
    'other-header': header('the same, of another user'),
  }),
}

const defaultWaiversFile = 'verify.waivers.json'

export const verify: Command = {
  help: `Checks any running server against the contract, and cites the rule behind each failure.
It changes only items that it creates, and deletes them. For a todo-service in development on this machine it makes its
own tokens. With --reset it needs the control API of a todo-service in
development: faults and the journal are cleared, the items are restored at the end.

Usage
  todo-service verify URL --profile a|b [flags]
  todo-service verify URL --contract FILE [flags]

Flags, defaults in brackets
${optionsHelp(options)}
Exit codes
  0   every check of a specified rule passed, or its failure is waived
  1   a check failed
  2   the server could not be checked, or not to the end without a failure before: no server, no HTTP, wrong usage

Examples
  todo-service verify http://localhost:5080 --profile a
  todo-service verify http://localhost:5000 --profile b --wait 30 --except 'S*'
  todo-service verify https://localhost:5001 --profile b --insecure --only 'B*'
  todo-service verify "$URL" --profile a --token "$TOKEN" --out contract.xml
`,

  async run(args, process) {
    const { values, rest, problems } = readCommandLine(options, args, process.env, 1)
    const [sent] = rest
    const url = sent === undefined ? '' : readServerUrl(sent, problems)
    if (sent === undefined)
      problems.push(
        `Which server? Pass its URL: ${commandLine(process, 'verify', 'http://localhost:5080', '--profile', 'a')}`,
      )
    if (values.profile && values.contract)
      problems.push('--profile and --contract exclude each other: use one of them.')
    if (!values.profile && !values.contract && !problems.some((problem) => problem.startsWith('--profile')))
      problems.push('Which contract? Add --profile a or --profile b, or --contract with a file.')
    if (problems.length > 0) return { problems }

    const { report = 'pretty', out, contract: contractFile, waivers: waiversFile, wait = 0, ...verifyOptions } = values
    const publicUrl = values['public-url']
    const progress = createProgressLine(process)
    try {
      const contract = contractFile === undefined ? undefined : await loadContract(contractFile)
      const waivers = readWaivers(waiversFile)
      if (out) requireWritable(out)
      const abort = new AbortController()
      for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => abort.abort())
      const verification = await verifyServer({
        ...verifyOptions,
        url,
        contract,
        waivers,
        publicUrl,
        ...(values['other-token'] !== undefined && { otherToken: values['other-token'] }),
        credentials: values.header,
        otherCredentials: values['other-header'],
        shrink: values['no-shrink'] !== true,
        findTokens: () => developmentTokens(url, configDirectory(process.env)),
        waitMs: wait * 1000,
        signal: abort.signal,
        onOutcome: progress.show,
      })
      progress.clear()
      writeReport(verification, report, out, process)
      if (abort.signal.aborted) fail(process, 'Stopped before the end.')
      return verification.failed > 0 ? 1 : verification.complete ? 0 : 2
    } catch (cause) {
      progress.clear()
      if (!(cause instanceof CannotVerify)) throw cause
      return fail(process, cause.message, 2)
    }
  },
}

/** Loads the default export of a module, or else its export `contract`. */
async function loadContract(path: string): Promise<Contract> {
  const explain = (problem: string) =>
    new CannotVerify(`Cannot load the contract ${path}: ${problem.replace(/\.?$/, '.')}`)
  if (!existsSync(path)) throw explain('there is no such file')
  const module = await import(pathToFileURL(resolve(path)).href).catch((cause: Error) => {
    const hint = cause instanceof SyntaxError ? ` (node --check ${path} shows the line)` : ''
    throw explain(`${cause.message.replace(/\s+/g, ' ')}${hint}`)
  })
  const contract = module.default ?? module.contract
  if (!contract?.checks) throw new CannotVerify(`${path} exports no contract: export default defineContract({ … })`)
  try {
    return defineContract(contract)
  } catch (cause) {
    throw new CannotVerify(`The contract ${path} is not valid. ${(cause as Error).message}`)
  }
}

function readWaivers(path: string | undefined): readonly Waiver[] | undefined {
  if (path === undefined && !existsSync(defaultWaiversFile)) return undefined
  const file = path ?? defaultWaiversFile
  try {
    return parseWaivers(readFileSync(file, 'utf8'))
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    throw new CannotVerify(`Cannot read the waivers in ${file}: ${code ?? message}.`)
  }
}

type Format = keyof typeof reports
const reports = { pretty: (verification: Verification) => pretty(verification), json, junit, markdown }

const formatsByExtension: Readonly<Record<string, Format>> = { '.xml': 'junit', '.json': 'json', '.md': 'markdown' }

/** Writes the report to the file, if any, and to standard output unless the file has the same format. */
function writeReport(verification: Verification, format: Format, out: string | undefined, process: Process): void {
  const { stdout } = process
  const { leftovers } = verification
  const fileFormat = out && (formatsByExtension[extname(out).toLowerCase()] ?? format)
  if (out && fileFormat) replaceFile(out, reports[fileFormat](verification))
  if (fileFormat === format) stdout.write(`${totals(verification)}. The report is in ${out}.\n`)
  else stdout.write(format === 'pretty' ? pretty(verification, createColorize(process)) : reports[format](verification))
  if (leftovers.length > 0)
    fail(process, `${leftovers.length} items of this run could not be deleted; the report lists them.`)
}

/** Tries whether the report can be written, so that the command fails before the run rather than after it. */
function requireWritable(file: string): void {
  try {
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK)
  } catch (cause) {
    throw cannotWrite(file, cause)
  }
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) throw cannotWrite(file, { code: 'EISDIR' })
}

const cannotWrite = (file: string, cause: unknown) =>
  new CannotVerify(`Cannot write ${file}: ${(cause as NodeJS.ErrnoException).code}. Choose another file with --out.`)

/** The errors of a rename in a directory of another user, or onto a file that is mounted into a container. */
const unreplaceable = ['EACCES', 'EPERM', 'EBUSY']

/** Keeps the previous report until the new one is complete. Writes directly to pipes, and to /dev/stdout. */
function replaceFile(file: string, text: string): void {
  const existing = lstatSync(file, { throwIfNoEntry: false })
  try {
    if (existing && !existing.isFile()) writeFileSync(file, text)
    else replaceByRename(file, text, existing?.mode)
  } catch (cause) {
    throw cannotWrite(file, cause)
  }
}

function replaceByRename(file: string, text: string, mode: number | undefined): void {
  let directory: string | undefined
  try {
    directory = mkdtempSync(join(dirname(file), '.tmp-'))
    const temporaryFile = join(directory, 'report')
    writeFileSync(temporaryFile, text)
    if (mode !== undefined) chmodSync(temporaryFile, mode)
    renameSync(temporaryFile, file)
  } catch (cause) {
    if (!unreplaceable.includes(`${(cause as NodeJS.ErrnoException).code}`)) throw cause
    writeFileSync(file, text)
  } finally {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
  }
}

const colorCodes = { red: 31, green: 32, yellow: 33, dim: 2 }

function createColorize({ stdout, env }: Process): Colorize {
  const isPlain = !stdout.isTTY || Boolean(env.NO_COLOR)
  return (color, text) => (isPlain ? text : `\u001b[${colorCodes[color]}m${text}\u001b[0m`)
}

function createProgressLine({ stderr }: Process) {
  if (!stderr.isTTY) return { show: () => {}, clear: () => {} }
  return {
    show: ({ rule, name }: { rule: string; name: string }, done: number, total: number) =>
      void stderr.write(`\r\u001b[K${done}/${total}  ${rule}  ${name.slice(0, 60)}`),
    clear: () => void stderr.write('\r\u001b[K'),
  }
}
