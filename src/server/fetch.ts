import { setTimeout as sleep } from 'node:timers/promises'
import type { HeldMemory } from '../common/held-memory.ts'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import type { Ending, Request } from '../http/request.ts'
import { buffersOf, byteLengthOf, jsonType, noContent, piecesOf, type Response, type Stream } from '../http/response.ts'
import { runtime } from './runtime.ts'
import { isValidHost, type Listening, type ServerContext, type ServerState, shutDown, type Turns } from './server.ts'
import { Upload } from './uploads.ts'

type FetchResponse = globalThis.Response

/** What the requests of a listener share on Bun and Deno, whose servers take a fetch Request and return a Response. */
export interface FetchServer extends ServerState {
  /** Known once the server listens. */
  localPort: number
  /** The last list that was sent: as long as it does not change, the store returns the same buffer. */
  lastList: { readonly bytes: Buffer; readonly text: string } | undefined
}

/** An event stream pauses while this much of it is unsent. */
const streamBufferBytes = 64 * 1024
const maxTextBytes = 16 * 1024
/** Longer response bodies are sent in pieces. */
const maxWholeBytes = 64 * 1024
const pieceBytes = 64 * 1024
/** Longer request bodies are received in pieces: Deno cannot discard the received part of a body that is read whole. */
const maxWholeUploadBytes = 16 * 1024
const piecesPerTurn = 16
/** On Deno, a response takes a microsecond less if its headers are set one by one. */
const isDeno = runtime.name === 'Deno'
/** A shutdown checks at this interval whether bodies are still being received. */
const uploadCheckMs = 50

export const fetchServer = (handler: HttpHandler, context: ServerContext, isEncrypted: boolean): FetchServer => ({
  ...context,
  handler,
  isEncrypted,
  localPort: 0,
  isDraining: false,
  lastList: undefined,
})

/** Gives dispatch() a fetch Request as a `Request`, and the runtime its response as a fetch Response. */
export abstract class FetchRequest implements Request {
  readonly request: globalThis.Request
  readonly method: string
  readonly target: string
  readonly protocolError: ErrorCode | undefined
  protected readonly server: FetchServer
  /** Whether the connection is closed after the response. */
  isLast = false
  #contentLength: string | null = null
  #response: FetchResponse | undefined
  #resolve: ((response: FetchResponse) => void) | undefined
  /** The callbacks of onEnd(). Undefined in production, and after they were called. */
  #ended: ((how: Ending) => void) | undefined

  constructor(request: globalThis.Request, target: string, host: string | undefined, server: FetchServer) {
    this.request = request
    this.method = request.method
    this.target = target
    this.server = server
    let error: ErrorCode | undefined
    if (host !== undefined && !isValidHost(host, server)) error = 'host-malformed'
    // A fetch Request has no body with these methods: the runtime discards it.
    if (this.method !== 'GET' && this.method !== 'HEAD') {
      this.#contentLength = request.headers.get('content-length')
      error ??= findFramingError(request.headers, this.#contentLength)
    }
    this.protocolError = error
  }

  abstract get remoteAddress(): string

  /** Called before a streamed response, which may send nothing for a long time. */
  protected onStream(): void {}

  /** Called before a response that closes the connection. */
  protected onFinalResponse(): void {}

  /** Returns a promise only if dispatch() has not responded when it returns. */
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

  get isAborted(): boolean {
    return this.request.signal.aborted
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
    if (Number(length) > limitBytes) {
      done('body-too-large')
      return
    }
    const upload = new Upload(this.server.uploads, limitBytes, done)
    upload.begin()
    const onError = () => upload.settle('request-incomplete')
    if (length === null || Number(length) > maxWholeUploadBytes) {
      receivePieces(this.pieces(), upload, this.server.turns).catch(onError)
      return
    }
    // All of it, because the runtime does not tell how much of the body has been received.
    upload.reserve(Number(length))
    this.request.arrayBuffer().then((bytes) => upload.settle(Buffer.from(bytes)), onError)
  }

  /** Returns the body in pieces, as they are received. */
  protected pieces(): AsyncIterable<Uint8Array> {
    return this.request.body ?? noPieces()
  }

  respond(response: Response): void {
    this.server.overload.load.inFlight--
    if (response.closesConnection) this.onFinalResponse()
    let result: FetchResponse
    try {
      result = this.#toFetch(response)
    } catch {
      // A header value has a character that the runtime does not send.
      result = closingResponse(500)
    }
    this.#finish(result)
    if (this.#ended && !this.#isStreamed(response)) this.#end('sent')
  }

  onEnd(ended: (how: Ending) => void): void {
    const previous = this.#ended
    if (previous) {
      this.#ended = (how) => {
        previous(how)
        ended(how)
      }
      return
    }
    this.#ended = ended
    // Deno prints a warning when `signal` is first read. Most requests end before it is needed.
    setImmediate(() => {
      if (!this.#ended) return
      const { signal } = this.request
      if (signal.aborted) this.#end('aborted')
      else signal.addEventListener('abort', () => this.#end('aborted'))
    })
  }

  /** Calls the callbacks of onEnd() once: Deno aborts the signal after a response, too. */
  #end(how: Ending): void {
    const ended = this.#ended
    this.#ended = undefined
    // Asynchronously, so that the caller of respond() has returned first.
    if (ended) queueMicrotask(() => ended(how))
  }

  /** Responds with a body that fails, so that the runtime closes the connection. */
  abort(): void {
    this.server.overload.load.inFlight--
    this.#finish(closingResponse(500))
    this.#end('closed')
  }

  #finish(response: FetchResponse): void {
    if (this.#resolve) this.#resolve(response)
    else this.#response = response
  }

  /** Whether the body is sent in pieces, as the client reads them. */
  #isStreamed({ body = '' }: Response): boolean {
    return typeof body === 'function' || (this.method !== 'HEAD' && isLong(body))
  }

  #toFetch(response: Response): FetchResponse {
    const isLast = this.isLast || this.server.isDraining
    if (response === noContent && !isLast) return noContentResponse
    const { status, headers, body = '', closesConnection } = response
    let content: string | Buffer | ReadableStream | null = null
    let { contentLength } = response
    if (typeof body === 'function') {
      this.onStream()
      if (this.method !== 'HEAD') content = toReadable(body, (how) => this.#end(how))
    } else if (body.length > 0) {
      // Over HTTP/2, Deno would send the body in response to HEAD, too.
      if (this.method === 'HEAD') contentLength = byteLengthOf(body)
      else if (isLong(body)) {
        const buffers = buffersOf(body)
        // Bun sends no Content-Length with a ReadableStream.
        contentLength = byteLengthOf(buffers)
        content = toReadable(streamOf(buffers, this.server.held), (how) => this.#end(how))
      } else content = this.#contentOf(body, headers?.['content-type'] === jsonType)
    }
    const setsHeaders = headers !== undefined && (status === 200 || isDeno)
    const result = new Response(content, setsHeaders || !headers ? { status } : { status, headers })
    if (setsHeaders) for (const name in headers) result.headers.set(name, headers[name] as string)
    if (contentLength !== undefined) result.headers.set('content-length', `${contentLength}`)
    // Bun sends no Date in response to HEAD.
    if (this.method === 'HEAD' && !headers?.date) result.headers.set('date', this.server.now().toUTCString())
    if (closesConnection || isLast) result.headers.set('connection', 'close')
    return result
  }

  /** Returns JSON as text, unless it is large: Deno takes less CPU time to send text than bytes. */
  #contentOf(body: string | readonly Buffer[], isJson: boolean): string | Buffer {
    if (typeof body === 'string') return body
    const bytes = body[0] as Buffer
    if (!isJson || bytes.length > maxTextBytes) return bytes
    const state = this.server
    if (state.lastList?.bytes !== bytes) state.lastList = { bytes, text: bytes.toString() }
    return state.lastList.text
  }
}

/** A Response without a body can be returned for any number of requests. */
const noContentResponse = new Response(null, { status: 204 })

const isLong = (body: string | readonly Buffer[]) =>
  typeof body === 'string' ? body.length > maxWholeBytes : body.length > 1 || (body[0]?.length ?? 0) > maxWholeBytes

/** Returns a response whose body fails, so that the runtime closes the connection before the end of the response. */
export const closingResponse = (status: number) => new Response(failingStream(), { status })

/** The runtime itself refuses Content-Length with Transfer-Encoding, and two different Content-Lengths. */
function findFramingError(headers: Headers, contentLength: string | null): ErrorCode | undefined {
  // The runtime joins repeated headers with ", ".
  if (contentLength !== null) return contentLength.includes(',') ? 'header-repeated' : undefined
  const coding = headers.get('transfer-encoding')
  return coding === null || coding.toLowerCase() === 'chunked' ? undefined : 'framing-ambiguous'
}

async function* noPieces(): AsyncIterable<Uint8Array> {}

/** Pieces may be single bytes: after `piecesPerTurn` of them, a body waits for its turn of the event loop. */
async function receivePieces(pieces: AsyncIterable<Uint8Array>, upload: Upload, turns: Turns): Promise<void> {
  let count = 0
  for await (const piece of pieces) {
    if (++count % piecesPerTurn === 0) {
      await new Promise<void>((turn) => turns.wait(turn))
    }
    upload.append(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength))
    if (upload.isSettled) return
  }
  upload.end()
}

/** Sends the buffers piece by piece, as the client reads them: they are shared with other responses. */
const streamOf =
  (buffers: readonly Buffer[], held: HeldMemory): Stream =>
  (send, end, destroy) => {
    const pieces = piecesOf(buffers, pieceBytes)
    const holder = { destroy }
    function sendPieces(): void {
      let isDrained = true
      while (isDrained) {
        const { value: piece } = pieces.next()
        isDrained = piece !== undefined && send(piece)
        if (!piece) end()
      }
    }
    held.addBuffers(holder, buffers)
    sendPieces()
    return { onDrain: sendPieces, onClose: () => held.release(holder) }
  }

/** A stream that fails without an error object, which the runtimes would print. */
const failingStream = () => new ReadableStream({ start: (controller) => controller.error() })

function toReadable(stream: Stream, ended: (how: Ending) => void): ReadableStream {
  const encoder = new TextEncoder()
  let events: ReturnType<typeof stream> | undefined
  let isOpen = true
  let isFull = false
  const close = (how: Ending) => {
    isOpen = false
    events?.onClose()
    ended(how)
  }
  return new ReadableStream(
    {
      start(controller) {
        const destroy = () => {
          if (isOpen) controller.error()
          close('closed')
        }
        events = stream(
          (data) => {
            if (!isOpen) return false
            controller.enqueue(typeof data === 'string' ? encoder.encode(data) : data)
            isFull = (controller.desiredSize ?? 0) <= 0
            return !isFull
          },
          () => {
            if (isOpen) controller.close()
            close('sent')
          },
          destroy,
        )
        // The stream has ended before `events` was assigned.
        if (!isOpen) events.onClose()
      },
      // While a read is pending, enqueue() calls this, too.
      pull() {
        if (!isFull) return
        isFull = false
        events?.onDrain()
      },
      cancel: () => close('aborted'),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: streamBufferBytes }),
  )
}

/** The unspecified IPv6 address, on which Node, too, listens without a host. */
export const everyInterface = '::'

/** `stop` resolves when no request is in flight, or when `destroy` was called. */
export function fetchListening(
  server: FetchServer,
  host: string,
  { stop, destroy }: { stop(): Promise<unknown>; destroy(): Promise<unknown> },
): Listening {
  const { overload, uploads } = server
  let isDestroyed = false
  const destroyNow = async () => {
    isDestroyed = true
    await destroy()
  }
  let receivedBefore = -1
  return {
    host,
    port: server.localPort,
    close: () =>
      shutDown(server, {
        isQuiet() {
          const isQuiet = receivedBefore === overload.load.received
          receivedBefore = overload.load.received
          return isQuiet
        },
        async stop() {
          // After shutdown(), Deno 2.9.6 refuses bodies that are being received.
          while (uploads.active.size > 0 && !isDestroyed) await sleep(uploadCheckMs)
          if (!isDestroyed) await stop()
        },
        destroy: destroyNow,
      }),
    destroy: destroyNow,
  }
}
