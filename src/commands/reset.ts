import { createInterface } from 'node:readline'
import { profiles } from '../app.ts'
import { baseUrlFormat, findUnknownVariables, readBaseUrl } from '../config/config.ts'
import { flagsOnly, option, optionsHelp, readOptions, rejectArguments, toggle } from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { commandHeader, defaultUrlsByProfile, findService } from '../service/find-service.ts'
import { type Client, createClient, NoResponseError, type Response } from '../verify/client.ts'
import { type Command, commandLine, type Process } from './command.ts'

const options = {
  ...flagsOnly({
    sandbox: option(
      'NAME',
      '1 to 64 of A-Z, a-z, 0-9, _ and -',
      'the sandbox to reset (none: what clients without a sandbox see)',
      (name) => /^[\w-]{1,64}$/.exec(name)?.[0],
    ),
    yes: { ...toggle('delete items in a file or a database without a question'), short: 'y' },
  }),
  token: bearerToken('a development token; a service on this machine, addressed as localhost, requires none'),
}

export const reset: Command = {
  help: `Resets a service in development mode: items as at the start, no failures, an empty journal.
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
  todo-service reset http://localhost:5080 --sandbox ada
  todo-service reset http://localhost:5080 --yes
`,

  async run(args, process) {
    const { values, rest, problems } = readOptions(options, args, process.env)
    const [sent, ...more] = rest
    const url = sent === undefined ? undefined : readBaseUrl(sent)
    if (sent !== undefined && url === undefined)
      problems.push(`The URL must be ${baseUrlFormat}, not ${JSON.stringify(sent)}.`)
    if (/\/api\/todoitems$/i.test(url ?? ''))
      problems.push('The URL must be that of the server, without /api/todoitems.')
    rejectArguments(more, problems)
    problems.push(...findUnknownVariables(process.env))
    if (problems.length > 0) return { problems }
    return url === undefined
      ? resetFoundServices(defaultUrlsByProfile, values, process)
      : resetServices([url], values, process)
  },
}

interface ResetOptions {
  readonly sandbox?: string | undefined
  readonly token?: string | undefined
  readonly yes?: boolean | undefined
}

type Terminal = Omit<Process, 'on' | 'once' | 'exit'>

/** Resets the service at the first URL of each group where one runs. Returns the exit code. */
export async function resetFoundServices(
  urls: readonly (readonly string[])[],
  resetOptions: ResetOptions,
  terminal: Terminal,
  /** For each response of a service that is looked for. */
  timeoutMs?: number,
): Promise<number> {
  const found = await Promise.all(urls.map((group) => findService(group, timeoutMs)))
  const running = found.filter((url) => url !== undefined)
  if (running.length > 0) return resetServices(running, resetOptions, terminal)
  const [start, withUrl] = [commandLine(terminal, 'serve'), commandLine(terminal, 'reset', 'http://localhost:8080')]
  terminal.stderr.write(
    `todo-service: No service responds on the default ports: start one with ${start}, or pass its URL, as in ${withUrl}\n`,
  )
  return 1
}

/** One after the other: each may ask a question. */
async function resetServices(urls: readonly string[], resetOptions: ResetOptions, terminal: Terminal) {
  let exitCode = 0
  for (const url of urls) {
    const { message, isReset } = await resetService(url, resetOptions, terminal)
    if (isReset) terminal.stdout.write(`${message}\n`)
    else {
      terminal.stderr.write(`todo-service: ${message}\n`)
      exitCode = 1
    }
  }
  return exitCode
}

interface Result {
  readonly message: string
  readonly isReset: boolean
}

async function resetService(url: string, { sandbox, token, yes }: ResetOptions, terminal: Terminal): Promise<Result> {
  const { stdin, stdout } = terminal
  const describe = (response: Response) => describeRejection(response, client, terminal)
  // Without a token nothing secret is sent, and the development certificate is self-signed.
  const client = createClient(url, { insecure: token === undefined })
  const headers = { ...commandHeader, 'x-todo-sandbox': sandbox, authorization: token && `Bearer ${token}` }
  const send = (method: string, path: string) => client.send(method, `/__admin${path}`, undefined, headers)
  const readItems = async () => {
    const response = await send('GET', '/items')
    return response.status === 200 ? (JSON.parse(response.text) as readonly unknown[]) : response
  }
  try {
    // Nothing is changed on a server that is not known to be ours.
    const response = await send('GET', '/info')
    const info = response.status === 200 ? readInfo(response.text) : undefined
    if (!info) return failure(describe(response))
    const what = `${sandbox === undefined ? '' : `Sandbox ${sandbox} of `}${info.title} at ${url}`
    const items = yes || !info.isPersistent ? [] : await readItems()
    if ('status' in items) return failure(describe(items))
    const starting = info.startingItems.map((item) => JSON.stringify(item))
    if (items.some((item) => !starting.includes(JSON.stringify(item)))) {
      const [count, them] = items.length === 1 ? ['1 item', 'it'] : [`${items.length} items`, 'them']
      const loss = `${what} has ${count} in ${info.store}`
      if (!stdin.isTTY || !stdout.isTTY) return failure(`${loss}. Nothing was changed: to delete ${them}, add --yes.`)
      const answer = await ask(`${loss}. Delete ${them}? [y/N] `, stdin, stdout)
      if (!/^\s*y(?:es)?\s*$/i.test(answer)) return failure('Nothing was changed.')
    }
    const outcome = await send('POST', '/reset')
    if (outcome.status !== 204) return failure(describe(outcome))
    const now = await readItems()
    return { message: `${what} is reset${'status' in now ? '' : `: it has ${now.length} items now`}.`, isReset: true }
  } catch (cause) {
    if (!(cause instanceof NoResponseError)) throw cause
    return failure(`No server responds at ${url} (${cause.message}): check the URL, or start the service.`)
  }
}

/** Returns the answer, or an empty text where the input ends. */
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
    // It has ended before: readline does not notice.
    if (input.readableEnded) lines.close()
  })

const failure = (message: string): Result => ({ message, isReset: false })

/** Returns what GET /__admin/info of this service says; undefined for what another program sends. */
function readInfo(text: string) {
  try {
    const { profile, title, store, isPersistent } = JSON.parse(text)
    if (!Object.hasOwn(profiles, profile)) return undefined
    const { startingItems } = profiles[profile as keyof typeof profiles]
    // Of a service that does not say it, the items may be in a file.
    return { title: printable(title), store: printable(store), isPersistent: isPersistent !== false, startingItems }
  } catch {
    return undefined
  }
}

function describeRejection({ status, headers, text }: Response, { url }: Client, terminal: Terminal): string {
  if (status === 401 || status === 403)
    return `The service at ${url} requires a token from this client: add --token "$(${commandLine(terminal, 'token', '--scope', 'control', '-o', 'token')})".`
  const title = headers['content-type'] === 'application/problem+json' && status !== 404 ? titleOf(text) : undefined
  if (title !== undefined) return `${url} is not reset: ${title}`
  return `The server at ${url} has no control API: it is in production mode, has --no-admin, or is another program.`
}

function titleOf(problem: string): string | undefined {
  try {
    const { title } = JSON.parse(problem)
    return typeof title === 'string' ? printable(title) : undefined
  } catch {
    return undefined
  }
}

/** Short, and without what could control the terminal: any server may have sent it. */
const printable = (text: unknown) => `${text}`.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').slice(0, 200)
