import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import type { Response } from '../http/response.ts'
import { discardBody, type Upload } from './body.ts'
import { Exchange } from './exchange.ts'
import type { OverloadMonitor } from './overload.ts'

/** What the connections of a server share. */
export interface ServerState {
  readonly handler: HttpHandler
  readonly overload: OverloadMonitor
  /** Set on shutdown: responses then carry `Connection: close`. */
  isDraining: boolean
}

export interface IdleTimeouts {
  /** Between requests. */
  readonly keepAliveTimeoutMs: number
  /** For a client that reads nothing of its response. */
  readonly stalledTimeoutMs: number
}

/** An unread body up to this size is read, so that the connection can be kept. */
const maxDrainedBytes = 64 * 1024
/** Pipelined requests that wait for the ones in front of them. */
const maxQueuedRequests = 1_000
/** How long a client has to read an error response before the connection is destroyed. */
const closeTimeoutMs = 1_000

/**
 * A client's connection. Node emits pipelined requests as it parses them; here each is handled when the one before it has
 * its response, and none behind a response that closes the connection.
 */
export class Connection {
  readonly #socket: Socket
  readonly #server: ServerState
  /** Beyond the limit of connections: its requests get 503. */
  readonly #isSurplus: boolean
  readonly #queue: Exchange[] = []
  #isBusy = false
  /** In `#handleNext`: a response that is there at once must not call it again. */
  #isInLoop = false
  #isClosing = false
  /** No more requests are accepted: the connection is closed after the last one in the queue. */
  #isFull = false
  #sentBytes = 0
  #idleMs = 0
  /** The request that was handled last, or is being handled. */
  #last: Exchange | undefined
  /** What is wrong with the bytes behind the requests in the queue, as status and for the log. */
  #failure: { readonly status: number; readonly reason: string } | undefined
  parseError: ErrorCode | undefined
  upload: Upload | undefined

  constructor(socket: Socket, server: ServerState, isSurplus: boolean) {
    this.#socket = socket
    this.#server = server
    this.#isSurplus = isSurplus
  }

  receive(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    expectsContinue?: boolean,
    protocolError?: ErrorCode,
  ): void {
    if (this.#isClosing) return
    const overloadReason = this.#isSurplus
      ? 'the limit of connections is reached (--max-connections)'
      : this.#server.overload.reason
    const exchange = new Exchange(incoming, outgoing, this, overloadReason, expectsContinue, protocolError)
    if (!this.#isBusy) this.#handle(exchange)
    else if (!this.#isFull) {
      this.#isFull = this.#queue.push(exchange) === maxQueuedRequests
      // Node would go on parsing requests, and keep them.
      if (this.#isFull) this.#socket.pause()
    }
  }

  /** The bytes on the connection are no HTTP request, or were not received in time. */
  fail(status: number, code: ErrorCode, reason: string): void {
    if (this.#isClosing || this.parseError) return
    this.parseError = code
    this.#failure = { status, reason }
    this.#socket.pause()
    if (this.#last?.incoming.complete === false) this.upload?.fail(code)
    if (!this.#isBusy && !this.#isClosing) this.#respondToFailure(this.#failure)
  }

  /** The peer is gone. */
  closed(): void {
    this.#isClosing = true
    this.upload?.fail('request-incomplete')
  }

  /** Called at an interval; Node's own timeouts for this would set a timer for each response. */
  closeIfIdle(intervalMs: number, { keepAliveTimeoutMs, stalledTimeoutMs }: IdleTimeouts): void {
    if (this.#last?.outgoing.writableFinished && this.#last.incoming.complete) this.#last = undefined
    const { bytesWritten, writableLength } = this.#socket
    const sentBytes = bytesWritten - writableLength
    const isIdle = sentBytes === this.#sentBytes && (writableLength > 0 || !this.#isBusy)
    this.#sentBytes = sentBytes
    this.#idleMs = isIdle ? this.#idleMs + intervalMs : 0
    if (this.#idleMs >= (writableLength > 0 ? stalledTimeoutMs : keepAliveTimeoutMs)) this.#socket.destroy()
  }

  #handle(exchange: Exchange): void {
    this.#last = exchange
    this.#isBusy = true
    this.#server.overload.load.received++
    this.#server.overload.load.inFlight++
    this.#server.handler.dispatch(exchange)
  }

  respond(exchange: Exchange, response: Response): void {
    const { outgoing } = exchange
    this.#server.overload.load.inFlight--
    this.#send(response, exchange)
    // The next response waits until the client has read a large one, or a stream: not in memory, but as a request.
    if (outgoing.writableNeedDrain || typeof response.body === 'function')
      outgoing.once('close', () => this.#handleNext())
    else if (this.#isInLoop || (this.#queue.length === 0 && !this.#failure)) this.#isBusy = false
    else this.#handleNext()
  }

  /** Closes the connection without a response to the current request. */
  abort(withReset: boolean): void {
    this.#server.overload.load.inFlight--
    this.#isClosing = true
    // Only TCP has a reset: neither TLS nor a stream in the process.
    if (withReset && this.#socket instanceof Socket && !(this.#socket instanceof TLSSocket))
      this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  #handleNext(): void {
    this.#isBusy = false
    this.#isInLoop = true
    while (!this.#isBusy && !this.#isClosing && this.#queue.length > 0) {
      this.#handle(this.#queue.shift() as Exchange)
    }
    this.#isInLoop = false
    if (this.#failure && !this.#isBusy && !this.#isClosing) this.#respondToFailure(this.#failure)
  }

  #send(response: Response, exchange: Exchange): void {
    if (this.#socket.destroyed) return
    const { incoming, outgoing } = exchange
    const isIncomplete = exchange.hasBody && !incoming.complete
    const closes =
      response.closesConnection === true ||
      this.#isSurplus ||
      ((this.#server.isDraining || this.#isFull) && this.#queue.length === 0) ||
      // Node cannot keep an HTTP/1.0 connection open after a response without Content-Length.
      exchange.isHttp10 ||
      // Node does not parse what follows a request with Upgrade in the same packet.
      exchange.hasUpgrade ||
      (isIncomplete && (exchange.expectsContinue || exchange.isChunked || exchange.contentLength > maxDrainedBytes))
    if (closes) this.#isClosing = true
    try {
      if (isIncomplete && closes && !this.parseError)
        exchange.write(response, closes, () => {
          outgoing.flushHeaders()
          discardBody(incoming, exchange.isChunked, () => outgoing.end())
        })
      else exchange.write(response, closes)
    } catch {
      // A header with a character that Node does not send.
      this.#socket.destroy()
    }
  }

  #respondToFailure({ status, reason }: { readonly status: number; readonly reason: string }): void {
    this.#isClosing = true
    const { incoming, outgoing } = this.#last ?? {}
    // The rest of a body whose request has its response already.
    if (incoming?.complete === false) {
      this.#socket.destroy()
      return
    }
    this.#server.handler.malformed(status, reason)
    const respond = () => {
      this.#socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
      const timer = setTimeout(() => this.#socket.destroy(), closeTimeoutMs)
      this.#socket.once('close', () => clearTimeout(timer))
    }
    // Node sends pipelined responses one after the other.
    if (outgoing && !outgoing.writableFinished) outgoing.once('finish', respond)
    else respond()
  }
}
