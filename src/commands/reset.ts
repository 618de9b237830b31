import { baseUrlFormat, readBaseUrl } from '../config/config.ts'
import { flagsOnly, option, optionsHelp, readOptions, rejectArguments } from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { defaultUrlsByProfile, findService } from '../service/find-service.ts'
import { type Client, createClient, NoResponseError, type Response } from '../verify/client.ts'
import type { Command } from './command.ts'

const options = {
  ...flagsOnly({
    sandbox: option(
      'NAME',
      '1 to 64 of A-Z, a-z, 0-9, _ and -',
      'the sandbox to reset (none: what clients without a sandbox see)',
      (name) => /^[\w-]{1,64}$/.exec(name)?.[0],
    ),
  }),
  token: bearerToken('a development token; a service on this machine, addressed as localhost, requires none'),
}

export const reset: Command = {
  help: `Resets a service in development mode: items as at the start, no failures, an empty journal.
In a database, too, the items are replaced by those of the start.

Usage
  todo-service reset [URL] [flags]    without a URL, each service that runs on the default ports

Flags, defaults in brackets
${optionsHelp(options)}
Exit codes
  0   everything was reset
  1   there is no service, or it has no control API
  2   wrong usage

Examples
  todo-service reset
  todo-service reset http://localhost:5080 --sandbox ada
`,

  async run(args, { env, stdout, stderr }) {
    const { values, rest, problems } = readOptions(options, args, env)
    const [sent, ...more] = rest
    const url = sent === undefined ? undefined : readBaseUrl(sent)
    if (sent !== undefined && url === undefined)
      problems.push(`The URL must be ${baseUrlFormat}, not ${JSON.stringify(sent)}.`)
    if (/\/api\/todoitems$/i.test(url ?? ''))
      problems.push('The URL must be that of the server, without /api/todoitems.')
    rejectArguments(more, problems)
    if (problems.length > 0) return { problems }
    const results =
      url === undefined ? await resetServices(defaultUrlsByProfile, values) : [await resetService(url, values)]
    for (const { message, isReset } of results)
      if (isReset) stdout.write(`${message}\n`)
      else stderr.write(`todo-service: ${message}\n`)
    return results.every(({ isReset }) => isReset) ? 0 : 1
  },
}

interface ResetOptions {
  readonly sandbox?: string | undefined
  readonly token?: string | undefined
  /** For each response of a service that is looked for. */
  readonly timeoutMs?: number
}

interface Result {
  readonly message: string
  readonly isReset: boolean
}

/** Resets the service at the first URL of each group where one runs. */
export async function resetServices(
  urls: readonly (readonly string[])[],
  resetOptions: ResetOptions,
): Promise<Result[]> {
  const found = await Promise.all(urls.map((group) => findService(group, resetOptions.timeoutMs)))
  const results = await Promise.all(found.flatMap((url) => (url ? [resetService(url, resetOptions)] : [])))
  return results.length > 0 ? results : [failure(`No service responds on the default ports: ${startOrPassUrl}`)]
}

const startOrPassUrl =
  'start one with todo-service serve, or pass its URL, as in todo-service reset http://localhost:8080'

async function resetService(url: string, { sandbox, token }: ResetOptions): Promise<Result> {
  // Without a token nothing secret is sent, and the development certificate is self-signed.
  const client = createClient(url, { insecure: token === undefined })
  const headers = { 'x-todo-sandbox': sandbox, authorization: token && `Bearer ${token}` }
  const send = (method: string, path: string) => client.send(method, `/__admin${path}`, undefined, headers)
  try {
    // Nothing is changed on a server that is not known to be ours.
    const document = await send('GET', '/openapi.json')
    const profile = document.status === 200 && controlledProfile(document.text)
    if (!profile) return failure(describeRejection(document, client))
    const response = await send('POST', '/reset')
    if (response.status !== 204) return failure(describeRejection(response, client))
    const items = JSON.parse((await send('GET', '/items')).text) as unknown[]
    const what = `${sandbox === undefined ? '' : `Sandbox ${sandbox} of `}${profile} at ${url}`
    return { message: `${what} is reset: it has ${items.length} items now.`, isReset: true }
  } catch (cause) {
    if (!(cause instanceof NoResponseError)) throw cause
    return failure(`No server responds at ${url} (${cause.message}): check the URL, or start the service.`)
  }
}

const failure = (message: string): Result => ({ message, isReset: false })

/** The title of the profile, from the document of the control API. */
function controlledProfile(document: string): string | undefined {
  return /"title":"[^"]*Control of ([\w ]+)"/.exec(document)?.[1]
}

function describeRejection({ status, headers, text }: Response, { url }: Client): string {
  if (status === 401 || status === 403)
    return `The service at ${url} requires a token from this client: add --token "$(todo-service token --scope control -o token)".`
  const title = headers['content-type'] === 'application/problem+json' && status !== 404 ? titleOf(text) : undefined
  if (title !== undefined) return `${url} is not reset: ${title}`
  return `The server at ${url} has no control API: it is in production mode, has --no-admin, or is another program.`
}

/** Short and printable: any server may have sent it. */
function titleOf(problem: string): string | undefined {
  try {
    const { title } = JSON.parse(problem)
    return typeof title === 'string' ? title.replace(/[^ -~]/g, '?').slice(0, 200) : undefined
  } catch {
    return undefined
  }
}
