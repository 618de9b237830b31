import { Agent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { setTimeout as setTimer } from 'node:timers/promises'

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
  /** Names are in lower case; several lines of one header are joined with ", ". */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** The server sent no response, or an incomplete one. */
export class NoResponseError extends Error {
  readonly request: Request
  /** The code of Node's error, such as ECONNREFUSED. */
  readonly code: string | undefined

  constructor(message: string, request: Request, code?: string) {
    super(message)
    this.request = request
    this.code = code
  }
}

/** HTTP client for the server under test. */
export interface Client {
  /** Base URL without trailing slash. */
  readonly url: string
  /** The URL that the server gives its clients, without trailing slash. */
  readonly publicUrl: string
  /** A bearer token that the server accepts. */
  readonly token: string | undefined
  /** A token of another caller. */
  readonly otherToken: string | undefined
  /**
   * Appends the path, unchanged, to the base URL. A body that is neither a string nor bytes is sent as JSON.
   * A body sets content-type and content-length; `headers` overrides them, and undefined removes one.
   */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Response>
}

export interface ClientOptions {
  readonly token?: string | undefined
  /** A token of another caller. */
  readonly otherToken?: string | undefined
  /** The URL that the server gives its clients, if that is another than the one under test. */
  readonly publicUrl?: string | undefined
  /** Milliseconds until the response must be complete. */
  readonly timeout?: number | undefined
  /** Accepts any certificate. */
  readonly insecure?: boolean | undefined
  /** Certificates in PEM format of the authorities to trust, instead of those that Node trusts. */
  readonly ca?: string | undefined
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
  { token, otherToken, publicUrl = url, timeout = defaultTimeoutMs, ...tls }: ClientOptions = {},
): Client {
  const baseUrl = withoutSlash(url)
  const basePath = new URL(baseUrl).pathname.replace(/\/$/, '')
  const agent = (tls.agent ?? createAgent(baseUrl, tls)) as Agent
  return {
    url: baseUrl,
    publicUrl: withoutSlash(publicUrl),
    token,
    otherToken,
    send(method, path, content, headers = {}) {
      const body = content === undefined ? undefined : toBytes(content)
      const defaults = body && { 'content-type': 'application/json', 'content-length': `${body.length}` }
      const set = Object.entries({ ...defaults, ...headers }).filter(([, value]) => value !== undefined)
      const request = { method, path: `${basePath}${path}`, headers: Object.fromEntries(set), body }
      return exchange(baseUrl, request, agent, timeout)
    },
  }
}

const withoutSlash = (url: string) => new URL(url).href.replace(/\/+$/, '')

/** Not declared as an Agent: users of this package need no types of Node. */
export function createAgent(url: string, { insecure = false, ca }: ClientOptions): { destroy(): void } {
  const options = { keepAlive: true, timeout: 1000 }
  const isTls = new URL(url).protocol === 'https:'
  return isTls ? new HttpsAgent({ ...options, rejectUnauthorized: !insecure, ca }) : new Agent(options)
}

const maxPauseMs = 120_000
/** A server may ask to retry at once, or not say when. */
const minPauseMs = 100
const defaultPauseMs = 1000
/** A run that was stopped waits at most this long before each request that deletes its items. */
const maxPauseWhenStoppedMs = 2000
const pollMs = 100

/** The run was stopped, or cannot go on. */
export class Interrupted extends Error {}

/** An AbortSignal. Not declared as such: users of this package need no types of Node. */
export interface StopSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
}

export interface Pacing {
  readonly onRetry: () => void
  readonly signal?: StopSignal | undefined
  readonly maxPauseMs?: number
}

/**
 * Repeats a request that got 429, when the time of its Retry-After has come; other requests wait as long. Throws
 * `Interrupted` when a request would wait too long, or when the run is stopped during a long pause.
 */
export function obeyRetryAfter(client: Client, { onRetry, signal, ...limits }: Pacing): Client {
  let resumeAt = 0

  async function pause(startedAt: number): Promise<void> {
    for (let now = Date.now(); now < resumeAt; now = Date.now()) {
      const longestMs = signal?.aborted ? maxPauseWhenStoppedMs : (limits.maxPauseMs ?? maxPauseMs)
      if (resumeAt - startedAt > longestMs) {
        const [waited, more] = [now - startedAt, resumeAt - now].map((ms) => Math.round(ms / 1000))
        // The items of the run can still be deleted, if the server has changed its mind.
        resumeAt = 0
        throw new Interrupted(
          signal?.aborted ? stoppedReason : `the server responds 429 after ${waited} s, and asks for another ${more} s`,
        )
      }
      await setTimer(Math.min(resumeAt - now, pollMs))
    }
  }

  return {
    ...client,
    async send(...request) {
      const startedAt = Date.now()
      for (let isRepeated = false; ; isRepeated = true) {
        await pause(startedAt)
        if (isRepeated) onRetry()
        const response = await client.send(...request)
        if (response.status !== 429) return response
        const pauseMs = retryAfterMs(response.headers['retry-after']) ?? defaultPauseMs
        resumeAt = Math.max(resumeAt, Date.now() + Math.max(pauseMs, minPauseMs))
      }
    },
  }
}

export const stoppedReason = 'the run was stopped'

/** What waits for work, by the signal that stops it: a signal has one listener, however many requests are in flight. */
const waiting = new WeakMap<StopSignal, Set<() => void>>()

/** Waits for the work, unless the signal is aborted before it ends. */
export function unlessStopped<T>(signal: StopSignal | undefined, work: Promise<T>): Promise<T> {
  if (!signal) return work
  const stops = stopsOf(signal)
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Interrupted(stoppedReason))
    if (signal.aborted) stop()
    stops.add(stop)
    work.then(resolve, reject).finally(() => stops.delete(stop))
  })
}

function stopsOf(signal: StopSignal): Set<() => void> {
  const known = waiting.get(signal)
  if (known) return known
  const stops = new Set<() => void>()
  waiting.set(signal, stops)
  signal.addEventListener('abort', () => {
    for (const stop of stops) stop()
  })
  return stops
}

/** Seconds or a date (RFC 9110, 10.2.3). */
function retryAfterMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : ms
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
    const fail = (message: string, code?: string) => {
      isSettled = true
      clearTimeout(timer)
      socket?.off('data', recordRaw)
      outgoing.destroy()
      reject(new NoResponseError(message, request, code))
    }
    const outgoing = send(url, { method, path, headers, agent }, (incoming) => {
      isSettled = true
      // One buffer, because a chunk may be a single byte.
      let received = Buffer.alloc(0)
      let length = 0
      incoming.on('data', (chunk: Buffer) => {
        if (length + chunk.length > received.length)
          received = Buffer.concat([received], Math.max(2 * received.length, length + chunk.length))
        chunk.copy(received, length)
        length += chunk.length
        if (length > maxResponseBytes) fail(`the response is larger than ${maxResponseBytes} bytes`)
      })
      incoming.on('error', () => fail('the connection was closed in the middle of the response'))
      incoming.on('end', () => {
        clearTimeout(timer)
        const { statusCode: status = 0, headersDistinct } = incoming
        const finish = (text: string) => {
          socket?.off('data', recordRaw)
          const joined = Object.entries(headersDistinct).map(([name, values = []]) => [name, values.join(', ')])
          resolve({ request, status, headers: Object.fromEntries(joined), text })
        }
        // Node's parser drops a body after 204 or HEAD; find it in the bytes of the socket.
        if (status === 204 || method === 'HEAD') setTimeout(() => finish(bodyIn(raw)), unexpectedBodyDelayMs)
        else finish(received.toString('utf8', 0, length))
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
      } else fail(code?.startsWith('HPE_') ? `the response is not HTTP: ${message}` : message, code)
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
