import { Agent, type ClientRequest, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { setTimeout as setTimer } from 'node:timers/promises'
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'

export type Headers = Readonly<Record<string, string | string[] | undefined>>

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: Uint8Array | undefined
  /** For a body that is sent in pieces: the index at which each piece ends, except the last. */
  readonly cuts?: readonly number[]
}

/** A body that is written to the socket in pieces with pauses, so that each usually becomes a packet of its own. */
export class PiecewiseBody {
  readonly bytes: Uint8Array
  readonly cuts: readonly number[]

  constructor(bytes: Uint8Array, cuts: readonly number[]) {
    this.bytes = bytes
    this.cuts = cuts
  }
}

/** Which of two clients sends a request: each has its own connections. */
type Caller = 'first' | 'second'

export interface Response {
  readonly request: Request
  readonly status: number
  /** Names are in lower case; the values of a repeated header are joined with ", ". */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** Thrown if the server sent no response, or an incomplete one. */
export class NoResponseError extends Error {
  readonly request: Request
  /** The code of the error of Node, such as ECONNREFUSED. */
  readonly code: string | undefined

  constructor(message: string, request: Request, code?: string) {
    super(message)
    this.request = request
    this.code = code
  }
}

/** An HTTP client for the server under test. */
export interface Client {
  /** The base URL of the server, without trailing slash. */
  readonly url: string
  /** The URL that the server gives its clients, without trailing slash. */
  readonly publicUrl: string
  /** A bearer token that the server accepts. */
  readonly token: string | undefined
  /** A token of another caller. */
  readonly otherToken: string | undefined
  /** The headers that authenticate the user; undefined: none were passed. */
  readonly credentials: Headers | undefined
  /** The headers that authenticate another user. */
  readonly otherCredentials: Headers | undefined
  /**
   * Sends a request to the base URL followed by the path, which is not encoded. A body that is neither a string nor
   * bytes is sent as JSON. content-type and content-length are set for a body; `headers` overrides them, undefined
   * removes one.
   */
  send(method: string, path: string, body?: unknown, headers?: Headers, caller?: Caller): Promise<Response>
}

/** Headers of another program, such as a browser: no contract lets them change a response. */
const otherHeaders = {
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) verify/2',
  'accept-language': 'de-DE, de;q=0.9, fr;q=0.8, es;q=0.7, ja;q=0.6, en;q=0.5',
  'accept-encoding': 'gzip',
  cookie: 'theme=dark',
}

/** Sends like another program: on its own connections, with different headers that must not change a response. */
export const asSecondCaller = (client: Client): Client => ({
  ...client,
  send: (method, path, body, headers) =>
    client.send(method, path, body, { ...otherHeaders, ...client.credentials, ...headers }, 'second'),
})

export interface ClientOptions {
  readonly token?: string | undefined
  /** A token of another caller. */
  readonly otherToken?: string | undefined
  /** The headers that authenticate the user. Default: Authorization with `token`. */
  readonly credentials?: Headers | undefined
  /** The headers that authenticate another user. Default: Authorization with `otherToken`. */
  readonly otherCredentials?: Headers | undefined
  /** The URL that the server gives its clients, if it differs from the URL under test. */
  readonly publicUrl?: string | undefined
  /** How many milliseconds the response may take until it is complete. */
  readonly timeout?: number | undefined
  /** Whether to accept any certificate. */
  readonly insecure?: boolean | undefined
  /** PEM certificates of the authorities to trust, instead of those that Node trusts. */
  readonly ca?: string | undefined
  /** An Agent of node:http or node:https; declared as `object`, so that users of this package need no types of Node. */
  readonly agent?: object | undefined
  /** The Agent of the second caller. Default: `agent`. */
  readonly secondAgent?: object | undefined
}

const defaultTimeoutMs = 10_000
/** Stops servers that stream endlessly; far above any response of a contract. */
const maxResponseBytes = 2 ** 24
const maxRawBytes = 2 ** 16
/** A body after 204 or HEAD may arrive in a later packet than the headers. */
const unexpectedBodyDelayMs = 2

export function createClient(
  url: string,
  { token, otherToken, publicUrl = url, timeout = defaultTimeoutMs, ...options }: ClientOptions = {},
): Client {
  const baseUrl = withoutSlash(url)
  const basePath = new URL(baseUrl).pathname.replace(/\/$/, '')
  const agent = (options.agent ?? createAgent(baseUrl, options)) as Agent
  const agents = { first: agent, second: (options.secondAgent ?? agent) as Agent }
  return {
    url: baseUrl,
    publicUrl: withoutSlash(publicUrl),
    token,
    otherToken,
    credentials: options.credentials ?? (token === undefined ? undefined : bearer(token)),
    otherCredentials: options.otherCredentials ?? (otherToken === undefined ? undefined : bearer(otherToken)),
    send(method, path, content, headers = {}, caller = 'first') {
      const body = content === undefined ? undefined : toBytes(content)
      const cuts = content instanceof PiecewiseBody ? { cuts: content.cuts } : {}
      const defaults = body && { 'content-type': 'application/json', 'content-length': `${body.length}` }
      const set = Object.entries({ ...defaults, ...headers }).filter(([, value]) => value !== undefined)
      const request = { method, path: `${basePath}${path}`, headers: Object.fromEntries(set), body, ...cuts }
      return exchange(baseUrl, request, agents[caller], timeout)
    },
  }
}

export const bearer = (token: string | undefined) => ({ authorization: `Bearer ${token}` })
const withoutSlash = (url: string) => new URL(url).href.replace(/\/+$/, '')

/** Not declared to return an Agent, so that users of this package need no types of Node. */
export function createAgent(url: string, { insecure = false, ca }: ClientOptions): { destroy(): void } {
  const options = { keepAlive: true, timeout: 1000 }
  const isTls = new URL(url).protocol === 'https:'
  return isTls ? new HttpsAgent({ ...options, rejectUnauthorized: !insecure, ca }) : new Agent(options)
}

const maxPauseMs = 120_000
/** The pause for a server that asks to retry at once, and for one that does not say when. */
const minPauseMs = 100
const defaultPauseMs = 1000
/** A stopped run still deletes its items; it waits at most this long before each of these requests. */
const maxPauseWhenStoppedMs = 2000
const pollMs = 100
const maxRepetitionsOf503 = 3
const maxPauseOf503Ms = 1_000

/** Thrown when the run was stopped or cannot go on. */
export class Interrupted extends Error {}

/** An AbortSignal; declared here, so that users of this package need no types of Node. */
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
 * Repeats a request that got 429 after the time in Retry-After; all other requests wait until then, too. Throws
 * `Interrupted` if a request would wait too long, or if the run is stopped during a long pause. A request that got 503
 * with Retry-After is repeated a few times, but not again for a method whose last request got nothing else.
 */
export function obeyRetryAfter(client: Client, { onRetry, signal, ...limits }: Pacing): Client {
  let resumeAt = 0
  /** Methods whose last request got 503 each time that it was repeated. */
  const unavailable = new Set<string>()

  async function pause(startedAt: number): Promise<void> {
    for (let now = Date.now(); now < resumeAt; now = Date.now()) {
      const longestMs = signal?.aborted ? maxPauseWhenStoppedMs : (limits.maxPauseMs ?? maxPauseMs)
      if (resumeAt - startedAt > longestMs) {
        const [waited, more] = [now - startedAt, resumeAt - now].map((ms) => Math.round(ms / 1000))
        // The requests that delete the items of the run do not wait: the server may accept them by now.
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
      for (let repetitions = 0; ; repetitions++) {
        await pause(startedAt)
        if (repetitions > 0) onRetry()
        const response = await client.send(...request)
        const { status, headers } = response
        const pauseMs = retryAfterMs(headers['retry-after'])
        if (status !== 503) unavailable.delete(request[0])
        if (status === 503 && pauseMs !== undefined && !unavailable.has(request[0])) {
          if (repetitions + 1 >= maxRepetitionsOf503) unavailable.add(request[0])
          await setTimer(Math.min(Math.max(pauseMs, minPauseMs), maxPauseOf503Ms))
        } else if (status !== 429) return response
        else resumeAt = Math.max(resumeAt, Date.now() + Math.max(pauseMs ?? defaultPauseMs, minPauseMs))
      }
    },
  }
}

export const stoppedReason = 'the run was stopped'

/** What to call when a signal aborts: the signal gets one listener, however many requests are in flight. */
const waiting = new WeakMap<StopSignal, Set<() => void>>()

/** Waits for the work; rejects with `Interrupted` if the signal aborts first. */
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

/** Retry-After is a number of seconds or a date (RFC 9110, 10.2.3). */
function retryAfterMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : ms
}

function toBytes(content: unknown): Uint8Array {
  if (content instanceof PiecewiseBody) return content.bytes
  if (content instanceof Uint8Array) return content
  return Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
}

function exchange(url: string, request: Request, agent: Agent, timeoutMs: number): Promise<Response> {
  const { method, path, headers, body } = request
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    /** True after the response headers or a failure; errors of the request that follow are ignored. */
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
      // The chunks are copied into one growing buffer: a list could get an element for each byte.
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
        // Node would reuse the connection if the server leaves it open, and a request after `Connection: close` fails.
        if (headers.connection === 'close') socket?.destroy()
        const { statusCode: status = 0, headersDistinct } = incoming
        const finish = (text: string) => {
          socket?.off('data', recordRaw)
          const joined = Object.entries(headersDistinct).map(([name, values = []]) => [name, values.join(', ')])
          resolve({ request, status, headers: Object.fromEntries(joined), text })
        }
        // The parser of Node drops a body after 204 or HEAD; `bodyIn` finds it in the bytes of the socket.
        if (status === 204 || method === 'HEAD') setTimeout(() => finish(bodyIn(raw)), unexpectedBodyDelayMs)
        else finish(decode(received.subarray(0, length), incoming.headers))
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
    if (request.cuts && body) writePieces(outgoing, body, request.cuts)
    else outgoing.end(body)
  })
}

const decoders: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
}

/** The single-byte charset that older frameworks use for text/plain; JSON is always UTF-8. */
export const singleByteCharset = /^text\/.*;\s*charset="?(iso-8859-\d+|windows-125\d)/i

/** Returns the text of a body. If it is not encoded as its headers say, the text is not valid JSON. */
function decode(bytes: Buffer, headers: IncomingHttpHeaders): string {
  const { 'content-encoding': encoding = 'identity', 'content-type': type = '' } = headers
  try {
    const decoded = decoders[encoding.toLowerCase()]?.(bytes) ?? bytes
    const [, charset] = singleByteCharset.exec(type) ?? []
    return charset === undefined ? decoded.toString() : new TextDecoder(charset).decode(decoded)
  } catch {
    return `Not ${encoding}: ${bytes}`
  }
}

const pauseBetweenPiecesMs = 3

async function writePieces(outgoing: ClientRequest, body: Uint8Array, cuts: readonly number[]): Promise<void> {
  let start = 0
  for (const cut of cuts) {
    outgoing.write(body.subarray(start, cut))
    await setTimer(pauseBetweenPiecesMs)
    start = cut
  }
  outgoing.end(body.subarray(start))
}

/** Returns the bytes between the headers of the first final response on a connection and the next response. */
function bodyIn(raw: Buffer): string {
  const [, body = ''] = /^(?:HTTP\/1\.\d 1[\s\S]*?\r\n\r\n)*HTTP[\s\S]*?\r\n\r\n([\s\S]*)$/.exec(raw.toString()) ?? []
  return body.replace(/HTTP\/1\.\d \d{3} [\s\S]*$/, '')
}
