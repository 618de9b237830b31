import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import { isAuthority } from '../http/proxy.ts'
import type { Request } from '../http/request.ts'
import { jsonType, noContent, type Response } from '../http/response.ts'
import { maxBufferedBytes } from './body.ts'
import type { Listening } from './listen.ts'
import type { ServerLimits } from './node-server.ts'
import type { OverloadMonitor } from './overload.ts'

type FetchRequest = globalThis.Request
type FetchResponse = globalThis.Response

/** What the requests of a server share, where the runtime's own server takes a fetch Request and returns a Response. */
export interface FetchServer {
  readonly handler: HttpHandler
  readonly limits: ServerLimits
  readonly overload: OverloadMonitor
  readonly now: () => Date
  readonly isEncrypted: boolean
  localPort: number
  /** Set on shutdown: responses then carry `Connection: close`. */
  isDraining: boolean
}

const checkIntervalMs = 1_000
/** On shutdown, so long after the last request no more are expected on open connections. */
const quietMs = 100
const maxQuietWaitMs = 500
/** Of a stream of events, for a client that does not keep up. */
const streamBufferBytes = 64 * 1024
const maxTextBytes = 16 * 1024
const initialBufferBytes = 1024
const chunksPerTurn = 16
/** A response is cut off when its first half has been sent. */
const truncateAfterMs = 50

/** A body that is being received. */
class Upload {
  readonly server: FetchServer
  /** As announced by Content-Length; in chunks, as many as there may be. */
  readonly bytes: number
  /** In checks of the timeout. */
  age = 0
  readonly #done: (body: Buffer | ErrorCode) => void

  constructor(server: FetchServer, bytes: number, done: (body: Buffer | ErrorCode) => void) {
    this.server = server
    this.bytes = bytes
    this.#done = done
    uploads.add(this)
    uploadBytes += bytes
  }

  /** Once: what comes later is ignored. */
  settle(body: Buffer | ErrorCode): void {
    if (!uploads.delete(this)) return
    uploadBytes -= this.bytes
    this.#done(body)
  }
}

/** Of all servers, oldest first. */
const uploads = new Set<Upload>()
let uploadBytes = 0

/** `localPort` is known once the server listens. */
export const fetchServer = (
  handler: HttpHandler,
  limits: ServerLimits,
  overload: OverloadMonitor,
  now: () => Date,
  isEncrypted: boolean,
): FetchServer => ({ handler, limits, overload, now, isEncrypted, localPort: 0, isDraining: false })

/** A request, as dispatch sees it, and its response. */
export abstract class FetchExchange implements Request {
  readonly request: FetchRequest
  readonly method: string
  readonly target: string
  readonly protocolError: ErrorCode | undefined
  protected readonly server: FetchServer
  #contentLength: string | null
  #response: FetchResponse | undefined
  #resolve: ((response: FetchResponse) => void) | undefined

  constructor(request: FetchRequest, target: string, host: string | undefined, server: FetchServer) {
    this.request = request
    this.method = request.method
    this.target = target
    this.server = server
    this.#response = undefined
    this.#resolve = undefined
    this.#contentLength = null
    let error: ErrorCode | undefined
    if (host !== undefined && !isAuthority(host)) error = 'host-malformed'
    // fetch knows no body of these methods: the runtime discards it.
    if (this.method !== 'GET' && this.method !== 'HEAD') {
      this.#contentLength = request.headers.get('content-length')
      error ??= findFramingError(request.headers, this.#contentLength)
    }
    this.protocolError = error
  }

  abstract get remoteAddress(): string

  /** Called before a stream, which may send nothing for long. */
  protected onStream(): void {}

  /** Called before a response behind which no request may be handled. */
  protected onFinalResponse(): void {}

  /** A response without a promise where there is one at once. */
  handle(): FetchResponse | Promise<FetchResponse> {
    const { handler, overload } = this.server
    overload.load.received++
    overload.load.inFlight++
    handler.dispatch(this)
    return (
      this.#response ??
      new Promise((resolve) => {
        this.#resolve = resolve
      })
    )
  }

  get overloadReason(): string | undefined {
    return this.server.overload.reason
  }

  get isEncrypted(): boolean {
    return this.server.isEncrypted
  }

  get localPort(): number {
    return this.server.localPort
  }

  get hasBody(): boolean {
    if (this.#contentLength !== null) return this.#contentLength !== '0'
    return this.method !== 'GET' && this.method !== 'HEAD' && this.header('transfer-encoding') !== undefined
  }

  get rawHeaders(): readonly string[] {
    return [...this.request.headers].flat()
  }

  header(name: string): string | undefined {
    return this.request.headers.get(name) ?? undefined
  }

  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void {
    const length = this.#contentLength
    const bytes = Number(length ?? limitBytes)
    if (bytes > limitBytes) {
      done('body-too-large')
      return
    }
    const upload = new Upload(this.server, bytes, done)
    // The oldest makes room: a client that stalls must not keep others from sending.
    while (uploadBytes > maxBufferedBytes(limitBytes)) uploads.values().next().value?.settle('uploads-exceeded')
    const body = length === null ? readChunks(this.request, limitBytes) : this.request.arrayBuffer()
    body.then(
      (result) => upload.settle(result instanceof ArrayBuffer ? Buffer.from(result) : result),
      () => upload.settle('request-incomplete'),
    )
  }

  respond(response: Response): void {
    this.server.overload.load.inFlight--
    if (response.closesConnection) this.onFinalResponse()
    let result: FetchResponse
    try {
      result = this.#toFetch(response)
    } catch {
      // A header with a character that cannot be sent.
      result = closingResponse(500)
    }
    this.#finish(result)
  }

  /** The connection is closed when the stream fails. */
  abort(): void {
    this.server.overload.load.inFlight--
    this.#finish(closingResponse(500))
  }

  #finish(response: FetchResponse): void {
    if (this.#resolve) this.#resolve(response)
    else this.#response = response
  }

  #toFetch(response: Response): FetchResponse {
    if (response === noContent && !this.server.isDraining) return noContentResponse
    const { status, headers, body = '', isTruncated, closesConnection } = response
    let content: string | Buffer | ReadableStream | null = null
    let contentLength: string | undefined
    if (typeof body === 'function') {
      this.onStream()
      if (this.method !== 'HEAD') content = toReadable(body)
    } else if (isTruncated) {
      const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.concat(body)
      content = failingStream(bytes.subarray(0, bytes.length >> 1))
      contentLength = `${bytes.length}`
    } else if (body.length > 0) {
      // Over HTTP/2, Deno would send the body in response to HEAD, too.
      if (this.method === 'HEAD') contentLength = `${byteLengthOf(body)}`
      else content = contentOf(body, headers?.['content-type'] === jsonType)
    }
    // In Deno, a response with a text takes a microsecond less if it gets its headers like this.
    const result = new Response(content, status === 200 || !headers ? { status } : { status, headers })
    if (status === 200) for (const name in headers) result.headers.set(name, headers[name] as string)
    if (contentLength !== undefined) result.headers.set('content-length', contentLength)
    // Bun leaves it out.
    if (this.method === 'HEAD' && !headers?.date) result.headers.set('date', this.server.now().toUTCString())
    if (closesConnection || this.server.isDraining) result.headers.set('connection', 'close')
    return result
  }
}

/** Without a body, it can be sent again and again. */
const noContentResponse = new Response(null, { status: 204 })

const byteLengthOf = (body: string | readonly Buffer[]) =>
  typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((sum, { length }) => sum + length, 0)

/** A list that has not changed is the same buffer again. */
let lastBytes: Buffer | undefined
let lastText = ''

/** JSON as text, unless it is large: Deno sends it with less effort than bytes. */
function contentOf(body: string | readonly Buffer[], isJson: boolean): string | Buffer {
  if (typeof body === 'string') return body
  const bytes = body.length === 1 ? (body[0] as Buffer) : Buffer.concat(body)
  if (!isJson || bytes.length > maxTextBytes) return bytes
  if (bytes !== lastBytes) {
    lastBytes = bytes
    lastText = bytes.toString()
  }
  return lastText
}

/** Its connection is closed before the end of the response. */
export const closingResponse = (status: number) => new Response(failingStream(), { status })

/** The runtime itself refuses Content-Length with Transfer-Encoding, and two different Content-Lengths. */
function findFramingError(headers: Headers, contentLength: string | null): ErrorCode | undefined {
  // The runtime joins repeated headers with ", ".
  if (contentLength !== null) return contentLength.includes(',') ? 'header-repeated' : undefined
  const coding = headers.get('transfer-encoding')
  return coding === null || coding.toLowerCase() === 'chunked' ? undefined : 'framing-ambiguous'
}

/** The end of the last turn that a chunked body waits for. */
let lastTurn: Promise<unknown> = Promise.resolve()

/** Chunks may be single bytes: they are copied into one buffer, of a few bodies in each turn of the event loop. */
async function readChunks({ body }: FetchRequest, limitBytes: number): Promise<Buffer | ErrorCode> {
  let bytes = Buffer.alloc(initialBufferBytes)
  let length = 0
  let chunks = 0
  for await (const chunk of body ?? []) {
    if (++chunks % chunksPerTurn === 0) {
      lastTurn = lastTurn.then(() => nextTurn())
      await lastTurn
    }
    const end = length + chunk.length
    if (end > limitBytes) return 'body-too-large'
    if (end > bytes.length) bytes = Buffer.concat([bytes], Math.max(end, 2 * bytes.length))
    bytes.set(chunk, length)
    length = end
  }
  return bytes.subarray(0, length)
}

const failingStream = (bytes?: Buffer) =>
  new ReadableStream({
    async start(controller) {
      if (bytes) {
        controller.enqueue(bytes)
        await sleep(truncateAfterMs)
      }
      // Without a reason, which the runtimes would print.
      controller.error()
    },
  })

function toReadable(stream: Extract<Response['body'], (...args: never) => unknown>): ReadableStream {
  const encoder = new TextEncoder()
  let events: ReturnType<typeof stream> | undefined
  let isOpen = true
  let isFull = false
  const close = () => {
    isOpen = false
    events?.onClose()
  }
  return new ReadableStream(
    {
      start(controller) {
        events = stream(
          (text) => {
            if (!isOpen) return false
            controller.enqueue(encoder.encode(text))
            isFull = (controller.desiredSize ?? 0) <= 0
            return !isFull
          },
          () => {
            if (isOpen) controller.close()
            close()
          },
        )
        // It has ended already.
        if (!isOpen) events.onClose()
      },
      // A waiting reader makes `enqueue` call it, too.
      pull() {
        if (!isFull) return
        isFull = false
        events?.onDrain()
      },
      cancel: close,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: streamBufferBytes }),
  )
}

/** Timeouts and shutdown of a server; `stop` waits for the requests in flight. */
export function fetchListening(
  state: FetchServer,
  { stop, destroy }: { stop(): Promise<unknown>; destroy(): Promise<unknown> },
): Listening {
  const { limits, overload } = state
  const uploadCheck = setInterval(() => {
    for (const upload of [...uploads])
      if (upload.server === state && ++upload.age * checkIntervalMs > limits.requestTimeoutMs)
        upload.settle('request-timeout')
  }, checkIntervalMs)
  uploadCheck.unref()
  return {
    port: state.localPort,
    /** Stops without failing a request: see "Stopping" in docs/operations.md. */
    async close() {
      state.isDraining = true
      await sleep(limits.drainDelayMs)
      for (let waitedMs = 0, received = -1; waitedMs < maxQuietWaitMs; waitedMs += quietMs) {
        if (received === overload.load.received) break
        received = overload.load.received
        await sleep(quietMs)
      }
      const force = setTimeout(destroy, limits.drainTimeoutMs)
      await stop()
      clearTimeout(force)
      clearInterval(uploadCheck)
    },
    async destroy() {
      await destroy()
      clearInterval(uploadCheck)
    },
  }
}
