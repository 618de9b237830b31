import { once } from 'node:events'
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { profileA } from '../profiles/a.ts'
import { profileB } from '../profiles/b.ts'
import type { Profile } from '../profiles/profile.ts'

/** Marks the requests of a command, so that /app can hide them among those of clients. */
const commandHeader = { 'x-todo-client': 'command' }
/** Any server may respond, with any body. */
const maxResponseBytes = 2 ** 24

interface SentRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly body?: unknown
  /** Whether only certificates are accepted that Node trusts; the development certificate is self-signed. */
  readonly checksCertificate?: boolean
  readonly timeoutMs?: number | undefined
}

export interface ServerResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends a request of a command to a server. Rejects with a reason if there is no complete response. */
export async function sendRequest(
  url: string,
  { method = 'GET', headers, body, checksCertificate = false, timeoutMs = 10_000 }: SentRequest = {},
): Promise<ServerResponse> {
  const signal = AbortSignal.timeout(timeoutMs)
  const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const contentHeaders = content && { 'content-type': 'application/json', 'content-length': `${content.length}` }
  const set = Object.entries({ ...commandHeader, ...contentHeaders, ...headers }).filter(([, value]) => value)
  const options = { method, headers: Object.fromEntries(set), signal, agent: false as const }
  const outgoing = url.startsWith('https:')
    ? httpsRequest(url, { ...options, rejectUnauthorized: checksCertificate })
    : httpRequest(url, options)
  try {
    const responded = once(outgoing, 'response')
    // A server may respond, and close the connection, before it has read the body.
    outgoing.on('error', () => {}).end(content)
    const [incoming] = (await responded) as [IncomingMessage]
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of incoming) {
      length += chunk.length
      if (length > maxResponseBytes) throw new Error(`the response is larger than ${maxResponseBytes} bytes`)
      chunks.push(chunk)
    }
    return { status: incoming.statusCode ?? 0, headers: incoming.headers, text: Buffer.concat(chunks).toString() }
  } catch (cause) {
    throw signal.aborted
      ? new Error(`no complete response within ${timeoutMs} ms`)
      : new Error(describe(cause as Error))
  }
}

function describe({ message, code = '' }: NodeJS.ErrnoException): string {
  if (code.startsWith('HPE_')) return `the response is not HTTP: ${message}`
  // The error of a host with several addresses has no message.
  return message === 'aborted' ? 'the connection was closed in the middle of the response' : message || code
}

/** Long enough for a busy service on this machine, and short enough if another program there does not respond. */
const responseTimeoutMs = 500

/** The HTTP and HTTPS URLs of each profile if `serve` is started without flags. */
export const defaultUrlsByProfile = { a: defaultUrlsOf(profileA), b: defaultUrlsOf(profileB) }

function defaultUrlsOf({ defaultPort, defaultHttpsPort }: Profile) {
  return [`http://localhost:${defaultPort}`, `https://localhost:${defaultHttpsPort}`] as const
}

const { a, b } = defaultUrlsByProfile
/** All default URLs, those with HTTP first. */
export const defaultUrls: readonly string[] = [a[0], b[0], a[1], b[1]]

/** Returns the first URL at which this service responds. Sends no token, because another program may listen there. */
export async function findService(urls: readonly string[], timeoutMs = responseTimeoutMs): Promise<string | undefined> {
  const found = await Promise.all(
    urls.map(async (url) => {
      const response = await sendRequest(`${url}/health/live`, { timeoutMs }).catch(() => undefined)
      return response?.status === 200 && response.text === 'live'
    }),
  )
  return urls.find((_, index) => found[index])
}
