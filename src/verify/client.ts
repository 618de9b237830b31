import { Agent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'

type Headers = Readonly<Record<string, string | string[] | undefined>>

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: Uint8Array | undefined
}

export interface Response {
  readonly request: Request
  readonly status: number
  /** By lower-case name; several lines of one header are joined with ", ". */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** The server sent no response, or an incomplete one. */
export class NoResponseError extends Error {
  readonly request: Request

  constructor(message: string, request: Request) {
    super(message)
    this.request = request
  }
}

/** HTTP client for the server under test. */
export interface Client {
  /** Base URL without trailing slash. */
  readonly url: string
  /** A bearer token that the server accepts. */
  readonly token: string | undefined
  /**
   * Appends the path, unchanged, to the base URL. A body that is neither a string nor bytes is sent as JSON.
   * A body sets content-type and content-length; `headers` overrides them, and undefined removes one.
   */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Response>
}

export interface ClientOptions {
  readonly token?: string | undefined
  /** Milliseconds until the response must be complete. */
  readonly timeout?: number | undefined
  /** Accepts a self-signed certificate. */
  readonly insecure?: boolean | undefined
  /** An Agent of node:http or node:https. Not declared as such: users of this package need no types of Node. */
  readonly agent?: object | undefined
}

const defaultTimeoutMs = 10_000
/** Far above any response of the contract; stops servers that stream endlessly. */
const maxResponseBytes = 2 ** 24
const maxRawBytes = 2 ** 16
/** A body after 204 or HEAD may arrive in a later packet than the headers. */
const unexpectedBodyDelayMs = 2

export function createClient(
  url: string,
  { token, timeout = defaultTimeoutMs, insecure = false, agent }: ClientOptions = {},
): Client {
  const baseUrl = new URL(url).href.replace(/\/+$/, '')
  const basePath = new URL(baseUrl).pathname.replace(/\/$/, '')
  const usedAgent = (agent as Agent | undefined) ?? createAgent(baseUrl, insecure)
  return {
    url: baseUrl,
    token,
    send(method, path, content, headers = {}) {
      const body = content === undefined ? undefined : toBytes(content)
      const defaults = body && { 'content-type': 'application/json', 'content-length': `${body.length}` }
      const set = Object.entries({ ...defaults, ...headers }).filter(([, value]) => value !== undefined)
      const request = { method, path: `${basePath}${path}`, headers: Object.fromEntries(set), body }
      return exchange(baseUrl, request, usedAgent, timeout)
    },
  }
}

function createAgent(url: string, insecure: boolean): Agent {
  const options = { keepAlive: true, timeout: 1000 }
  return url.startsWith('https:') ? new HttpsAgent({ ...options, rejectUnauthorized: !insecure }) : new Agent(options)
}

function toBytes(content: unknown): Uint8Array {
  if (content instanceof Uint8Array) return content
  return Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
}

function exchange(url: string, request: Request, agent: Agent, timeoutMs: number): Promise<Response> {
  const { method, path, headers, body } = request
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    /** Set by the response headers or by a failure; later errors of the request are ignored. */
    let isSettled = false
    let socket: Socket | undefined
    let raw = Buffer.alloc(0)
    const recordRaw = (bytes: Buffer) => {
      if (raw.length < maxRawBytes) raw = Buffer.concat([raw, bytes])
    }
    const fail = (message: string) => {
      isSettled = true
      clearTimeout(timer)
      socket?.off('data', recordRaw)
      outgoing.destroy()
      reject(new NoResponseError(message, request))
    }
    const outgoing = send(url, { method, path, headers, agent }, (incoming) => {
      isSettled = true
      const chunks: Buffer[] = []
      let length = 0
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > maxResponseBytes) fail(`the response is larger than ${maxResponseBytes} bytes`)
      })
      incoming.on('error', () => fail('the connection was closed in the middle of the response'))
      incoming.on('end', () => {
        clearTimeout(timer)
        const { statusCode: status = 0, headers: responseHeaders } = incoming
        const finish = (text: string) => {
          socket?.off('data', recordRaw)
          // Only Set-Cookie is an array.
          const joined = Object.entries(responseHeaders).map(([name, value]) => [name, `${value}`])
          resolve({ request, status, headers: Object.fromEntries(joined), text })
        }
        // Node's parser drops a body after 204 or HEAD; find it in the bytes of the socket.
        if (status === 204 || method === 'HEAD') setTimeout(() => finish(bodyIn(raw)), unexpectedBodyDelayMs)
        else finish(Buffer.concat(chunks).toString())
      })
    })
    const timer = setTimeout(() => fail(`no complete response within ${timeoutMs} ms`), timeoutMs)
    outgoing.on('error', ({ message, code }: NodeJS.ErrnoException) => {
      // A server may respond, and stop reading, before the body is sent.
      if (isSettled) return
      // A server may close an idle connection at the moment of its reuse.
      if (outgoing.reusedSocket && code === 'ECONNRESET') {
        clearTimeout(timer)
        resolve(exchange(url, request, agent, timeoutMs))
      } else fail(code?.startsWith('HPE_') ? `the response is not HTTP: ${message}` : message)
    })
    outgoing.once('socket', (assigned) => {
      socket = assigned.prependListener('data', recordRaw)
    })
    outgoing.end(body)
  })
}

/** What follows the headers of the last response in the bytes of a connection. */
function bodyIn(raw: Buffer): string {
  const start = raw.lastIndexOf('HTTP/1.1 ')
  const end = start < 0 ? -1 : raw.indexOf('\r\n\r\n', start)
  return end < 0 ? '' : raw.subarray(end + 4).toString()
}
