import { type ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ErrorCode } from '../http/errors.ts'
import { unmapped } from '../http/proxy.ts'
import { type Ending, headLengthOf } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { Message } from './node-message.ts'
import { NodeRequest } from './node-request.ts'
import { writeResponse } from './node-response.ts'
import type { ServerState } from './server.ts'
import type { Upload } from './uploads.ts'

/**
 * The limit of requests that wait for earlier ones on a connection, or that come in one packet. Clients that pipeline
 * send a handful; Node parses all that it receives, however many wait, so a connection with more is closed.
 */
export const maxPipelinedRequests = 100
/** The memory that a waiting request takes besides its head. */
const requestOverheadBytes = 2_000
/** An unread body up to this size is read, so that the connection can be kept. */
const maxDrainedBytes = 64 * 1024
/** A client has this time to read an error response before the connection is destroyed. */
const closeTimeoutMs = 1_000
export const checkIntervalMs = 1_000

/** Bytes that are no HTTP request: the status to respond, the error of a body with these bytes, a text for the log. */
interface Failure {
  readonly status: number
  readonly code: ErrorCode
  readonly reason: string
}

/**
 * - `unused`: nothing was received yet.
 * - `idle`: no request is being handled. A head, or the rest of a rejected body, may arrive.
 * - `handling`: a request is being handled, and has no response yet.
 * - `writing`: the client has not read a large response, or a stream, to its end.
 * - `closed`: no request is handled any more. Only the error response to malformed bytes may still be written.
 */
type State = 'unused' | 'idle' | 'handling' | 'writing' | 'closed'

/**
 * A client's connection. Node emits pipelined requests as it parses them; this class handles each when the previous
 * request has its response, and none after a response that closes the connection.
 */
export class ClientConnection {
  readonly shared: ServerState
  readonly #socket: Socket
  /** Whether the limit of connections was reached before this connection: its requests get 503. */
  readonly #isSurplus: boolean
  #state: State = 'unused'
  /** Whether a response closes the connection. That response may not be sent yet. */
  #isLast = false
  readonly #queue: NodeRequest[] = []
  /** `socket.bytesRead` when the last head or body was complete; a higher value means that the next head has begun. */
  #requestBytes = 0
  /** Requests since `#requestBytes` changed: they came in the same packet. */
  #packetRequests = 0
  /** How many checks in a row have found an incomplete head. */
  #headChecks = 0
  /** How many bytes had been sent at the last check; -1 before the first check. */
  #sentBytes = -1
  #idleMs = 0
  /** The request that is being handled, or the last one that was. */
  #last: NodeRequest | undefined
  /** Whether the last request came from a browser; set when `#last` is cleared. */
  #isBrowser = false
  /** Set when the bytes that follow the queued requests are no HTTP request. */
  #failure: Failure | undefined
  upload: Upload | undefined
  /** The callbacks of requests whose response is not sent yet, in development. They are called when the connection closes. */
  #unsent: Set<(how: Ending) => void> | undefined

  constructor(socket: Socket, shared: ServerState, isSurplus: boolean) {
    this.#socket = socket
    this.shared = shared
    this.#isSurplus = isSurplus
  }

  /** Called when the first packet was received. */
  begin(): void {
    this.#state = 'idle'
  }

  get bodyError(): ErrorCode | undefined {
    return this.#failure?.code
  }

  /** Whether no further request is handled. */
  get #isClosing(): boolean {
    return this.#isLast || this.#state === 'closed'
  }

  get #isBusy(): boolean {
    return this.#state === 'handling' || this.#state === 'writing'
  }

  receive(incoming: Message, outgoing: ServerResponse, expectsContinue: boolean): void {
    const { bytesRead } = this.#socket
    // Requests of one packet are received at the same count of bytes.
    this.#packetRequests = bytesRead === this.#requestBytes ? this.#packetRequests + 1 : 0
    this.#requestBytes = bytesRead
    if (this.#packetRequests > maxPipelinedRequests) this.destroy()
    if (this.#isClosing) return
    const overloadReason = this.#isSurplus
      ? 'the limit of connections is reached (--max-connections)'
      : this.shared.overload.reason
    const request = new NodeRequest(incoming, outgoing, this, overloadReason, expectsContinue)
    if (this.#state === 'idle' && this.#queue.length === 0) this.#handle(request)
    else this.#enqueue(request)
  }

  #enqueue(request: NodeRequest): void {
    this.#queue.push(request)
    if (this.#queue.length > maxPipelinedRequests) this.destroy()
    else this.shared.held.add(this, sizeOf(request))
  }

  #handle(request: NodeRequest): void {
    this.#last = request
    this.#state = 'handling'
    const { overload, handler } = this.shared
    overload.load.received++
    overload.load.inFlight++
    handler.dispatch(request)
  }

  /** Handles the next request in the queue; if there is none, responds to the failure. */
  readonly #handleNext = (): void => {
    if (this.#isClosing || this.#isBusy) return
    const request = this.#queue.shift()
    if (request) {
      this.shared.held.remove(this, sizeOf(request))
      this.#handle(request)
    } else if (this.#failure) this.#respondToFailure(this.#failure)
  }

  respond(request: NodeRequest, response: Response): void {
    const isIncomplete = request.hasBody && !request.incoming.complete
    const closesConnection = this.#closesAfter(request, response, isIncomplete)
    if (closesConnection) this.#isLast = true
    const discardsBody = isIncomplete && closesConnection && !this.#failure
    this.shared.overload.load.inFlight--
    // An idle connection must not keep the body of its last request.
    this.upload = undefined
    if (isIncomplete) request.incoming.receiver = undefined
    if (this.#socket.destroyed) return
    try {
      writeResponse({ request, response, closesConnection, discardsBody }, this.shared.held, this)
    } catch {
      // A header value has a character that Node does not send.
      this.#socket.destroy()
    }
    this.#responded(request, typeof response.body === 'function')
  }

  /** Whether the connection closes after the response, because no other request can follow. */
  #closesAfter(request: NodeRequest, response: Response, isIncomplete: boolean): boolean {
    if (response.closesConnection === true || this.#isSurplus) return true
    if (this.shared.isDraining && this.#queue.length === 0) return true
    // Node cannot keep an HTTP/1.0 connection open after a response without Content-Length.
    if (request.isHttp10) return true
    // Without 100 Continue, the client may send the body or leave it out.
    if (request.expectsContinue) return true
    // The rest of the body is too long to be read, or of unknown length.
    return isIncomplete && (request.isChunked || request.contentLength > maxDrainedBytes)
  }

  /** Called when the response was written, which does not mean that it was sent. */
  #responded({ incoming, outgoing, hasBody }: NodeRequest, isStream: boolean): void {
    if (hasBody) {
      if (incoming.complete) this.#requestBytes = this.#socket.bytesRead
      else
        incoming.once('end', () => {
          this.#requestBytes = this.#socket.bytesRead
        })
    }
    if (outgoing.writableNeedDrain || isStream) {
      // Until the client has read this response, the next request waits unhandled: a queued request is smaller.
      this.#state = 'writing'
      const bytes = this.#socket.writableLength
      this.shared.held.add(this, bytes)
      outgoing.once('close', () => {
        this.shared.held.remove(this, bytes)
        if (this.#state === 'writing') this.#state = 'idle'
        this.#handleNext()
      })
      return
    }
    this.#state = 'idle'
    // Asynchronously: otherwise the calls for many pipelined requests would be nested.
    if (this.#queue.length > 0 || this.#failure) queueMicrotask(this.#handleNext)
  }

  /** Closes the connection without a response to the current request. */
  abort(withReset: boolean): void {
    this.shared.overload.load.inFlight--
    this.#state = 'closed'
    // By then, the responses to earlier requests are sent.
    setImmediate(() => {
      // resetAndDestroy() works on TCP sockets, neither with TLS nor on a stream within the process.
      if (withReset && this.#socket instanceof Socket && !(this.#socket instanceof TLSSocket))
        this.#socket.resetAndDestroy()
      else this.#socket.destroy()
    })
  }

  destroy(): void {
    this.#state = 'closed'
    this.#socket.destroy()
  }

  /** Called when the socket was closed. */
  closed(): void {
    this.#state = 'closed'
    this.shared.held.release(this)
    this.upload?.settle('request-incomplete')
    const isByClient = this.#socket.readableEnded || this.#socket.errored
    for (const ended of this.#unsent ?? []) ended(isByClient ? 'aborted' : 'closed')
  }

  onEnd({ incoming, outgoing }: NodeRequest, ended: (how: Ending) => void): void {
    if (incoming.socket.closed) {
      // Asynchronously, so that the caller has returned first.
      queueMicrotask(() => ended('aborted'))
      return
    }
    this.#unsent ??= new Set()
    const unsent = this.#unsent
    unsent.add(ended)
    outgoing.once('finish', () => {
      // Node emits `finish` also for a response that it could not write.
      if (!incoming.socket.destroyed && unsent.delete(ended)) ended('sent')
    })
  }

  /** Called when bytes on the connection are no HTTP request, or when a request is not received in time. */
  fail(failure: Failure): void {
    if (this.#isClosing || this.#failure) return
    this.#failure = failure
    this.#socket.pause()
    if (this.#last?.incoming.complete === false) this.upload?.settle(failure.code)
    if (this.#queue.length === 0) this.#handleNext()
  }

  #respondToFailure({ status, reason }: Failure): void {
    this.#state = 'closed'
    const { incoming, outgoing } = this.#last ?? {}
    // The bytes belong to the body of a request that has its response already.
    if (incoming?.complete === false) {
      this.#socket.destroy()
      return
    }
    this.shared.handler.malformed(status, reason, unmapped(this.#socket.remoteAddress ?? ''))
    const respond = () => {
      this.#socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
      const timer = setTimeout(() => this.#socket.destroy(), closeTimeoutMs)
      this.#socket.once('close', () => clearTimeout(timer))
    }
    // Responses must be sent in the order of their requests.
    if (outgoing && !outgoing.writableFinished) outgoing.once('finish', respond)
    else respond()
  }
  /** Applies the timeouts, at an interval: Node's own ones would set a timer for each response. */
  check(): void {
    this.upload?.begin()
    if (this.#last?.outgoing.writableFinished && this.#last.incoming.complete) {
      this.#isBrowser = this.isBrowser
      this.#last = undefined
    }
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, stalledTimeoutMs } = this.shared.limits
    this.#headChecks = this.#isReceivingHead ? this.#headChecks + 1 : 0
    if ((this.#headChecks - 1) * checkIntervalMs >= Math.min(headersTimeoutMs, requestTimeoutMs))
      this.fail({ status: 408, code: 'request-timeout', reason: 'the request was not received in time' })
    const { bytesWritten, writableLength } = this.#socket
    const sentBytes = bytesWritten - writableLength
    const isIdle = sentBytes === this.#sentBytes && (writableLength > 0 || !this.#isBusy)
    this.#sentBytes = sentBytes
    this.#idleMs = isIdle ? this.#idleMs + checkIntervalMs : 0
    if (this.#idleMs >= (writableLength > 0 ? stalledTimeoutMs : keepAliveTimeoutMs)) this.#socket.destroy()
  }

  /** Whether the connection waits for the rest of a head, or for the first one. */
  get #isReceivingHead(): boolean {
    if (this.#isBusy || this.#last?.incoming.complete === false) return false
    if (this.#requestBytes === 0) return true
    // Over TLS, a complete head may wait because Node has paused the parser.
    return this.#socket.bytesRead !== this.#requestBytes && !this.#socket.isPaused()
  }

  get isBrowser(): boolean {
    return this.#last ? this.#last.header('user-agent')?.startsWith('Mozilla/') === true : this.#isBrowser
  }

  /** Closes the connection if it is between two requests; with `alsoUnused` also before the first request. */
  closeIfIdle(alsoUnused: boolean): void {
    const { bytesRead, writableLength } = this.#socket
    const isSent = !this.#last?.outgoing.writableLength && writableLength === 0
    const isBetween = this.#requestBytes > 0 && bytesRead === this.#requestBytes
    if (!this.#isBusy && isSent && (isBetween || (alsoUnused && this.#state === 'unused'))) this.#socket.destroy()
  }
}

const sizeOf = (request: NodeRequest) => requestOverheadBytes + headLengthOf(request)
