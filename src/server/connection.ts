import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import type { Response } from '../http/response.ts'
import { discardBody } from './body.ts'
import { Exchange } from './exchange.ts'
import type { HeldMemory } from './held-memory.ts'
import type { Reader } from './read-turns.ts'
import type { Resources } from './resources.ts'
import type { Upload, UploadBudget } from './uploads.ts'

/** What the connections of a server share. */
export interface ServerState extends Resources {
  readonly handler: HttpHandler
  /** Set on shutdown: responses then carry `Connection: close`. */
  isDraining: boolean
}

export interface TimeLimits {
  /** For the head of a request. */
  readonly headersTimeoutMs: number
  /** For a whole request. */
  readonly requestTimeoutMs: number
  /** Between requests. */
  readonly keepAliveTimeoutMs: number
  /** For a client that reads nothing of its response. */
  readonly stalledTimeoutMs: number
}

/** An unread body up to this size is read, so that the connection can be kept. */
const maxDrainedBytes = 64 * 1024
/**
 * Requests that wait for the ones in front of them, or that come in one packet. Clients that pipeline send a handful; Node
 * parses what it receives, whatever waits, so a connection with more is closed.
 */
export const maxPipelinedRequests = 100
/** A client that sends more requests at once waits for its turn before it is read again. */
const maxPacketBytes = 16 * 1024
const maxQueuedBytes = 256 * 1024
/** Objects of a request that waits, besides its head. */
const requestOverheadBytes = 2_000
/** How long a client has to read an error response before the connection is destroyed. */
const closeTimeoutMs = 1_000

/**
 * A client's connection. Node emits pipelined requests as it parses them; here each is handled when the one before it has
 * its response, and none behind a response that closes the connection.
 */
export class Connection implements Reader {
  readonly #socket: Socket
  readonly #server: ServerState
  /** Beyond the limit of connections: its requests get 503. */
  readonly #isSurplus: boolean
  readonly #queue: Exchange[] = []
  #isBusy = false
  /** In `#handleNext`: a response that is there at once must not call it again. */
  #isInLoop = false
  #isClosing = false
  #queuedBytes = 0
  /** Up to the packet with the last request's head, or with the end of its body. */
  #bytesRead = 0
  /** Requests received since `#bytesRead` changed: those of one packet. */
  #packetRequests = 0
  /** At the last check; -1 before the first one. */
  #sentBytes = -1
  #idleMs = 0
  /** How many checks in a row have found a request that is not complete. */
  #receivingChecks = 0
  /** The request that was handled last, or is being handled. */
  #last: Exchange | undefined
  /** What is wrong with the bytes behind the requests in the queue, as status and for the log. */
  #failure: { readonly status: number; readonly reason: string } | undefined
  packets = 0
  /** Whether anything was received. */
  isUsed = false
  parseError: ErrorCode | undefined
  upload: Upload | undefined
  readonly uploads: UploadBudget
  readonly held: HeldMemory

  constructor(socket: Socket, server: ServerState, isSurplus: boolean) {
    this.#socket = socket
    this.#server = server
    this.#isSurplus = isSurplus
    this.uploads = server.uploads
    this.held = server.held
  }

  receive(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    expectsContinue?: boolean,
    protocolError?: ErrorCode,
  ): void {
    this.#countPacket()
    if (this.#isClosing) return
    const overloadReason = this.#isSurplus
      ? 'the limit of connections is reached (--max-connections)'
      : this.#server.overload.reason
    const exchange = new Exchange(incoming, outgoing, this, overloadReason, expectsContinue, protocolError)
    if (!this.#isBusy) this.#handle(exchange)
    else this.#enqueue(exchange)
  }

  /** Requests of one packet are received at the same count of bytes. */
  #countPacket(): void {
    const { bytesRead } = this.#socket
    if (bytesRead === this.#bytesRead) {
      if (++this.#packetRequests > maxPipelinedRequests) this.#refuseFlood()
      return
    }
    if (bytesRead - this.#bytesRead > maxPacketBytes) this.waitForTurn()
    this.#bytesRead = bytesRead
    this.#packetRequests = 0
    this.packets++
  }

  #enqueue(exchange: Exchange): void {
    const bytes = sizeOf(exchange)
    this.#queue.push(exchange)
    this.#queuedBytes += bytes
    if (this.#queue.length > maxPipelinedRequests || this.#queuedBytes > maxQueuedBytes) this.#refuseFlood()
    else this.held.add(this, bytes)
  }

  /** Closes the connection. Other clients may do the same: they are read in turns. */
  #refuseFlood(): void {
    if (this.#isClosing) return
    this.destroy()
    this.#server.turns.waitAll()
  }

  destroy(): void {
    this.#isClosing = true
    // Node makes an error for each request without a response: its stack trace would take most of the time.
    const { stackTraceLimit } = Error
    this.#socket.prependOnceListener('close', () => {
      Error.stackTraceLimit = 0
    })
    this.#socket.once('close', () => {
      Error.stackTraceLimit = stackTraceLimit
    })
    this.#socket.destroy()
  }

  waitForTurn(): void {
    this.#server.turns.wait(this)
  }

  pause(): void {
    this.#socket.on('resume', this.#keepPaused)
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.off('resume', this.#keepPaused)
    this.#socket.resume()
  }

  /** Node resumes the socket after each request. */
  readonly #keepPaused = () => this.#socket.pause()

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
    this.held.release(this)
    this.#server.turns.remove(this)
    this.upload?.fail('request-incomplete')
  }

  /** Called at an interval; Node's own timeouts would set a timer for each response. */
  check(intervalMs: number, limits: TimeLimits): void {
    if (this.#last?.outgoing.writableFinished && this.#last.incoming.complete) this.#last = undefined
    this.#receivingChecks = this.#isReceiving ? this.#receivingChecks + 1 : 0
    const receivingMs = (this.#receivingChecks - 1) * intervalMs
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, stalledTimeoutMs } = limits
    if (receivingMs >= (this.#last ? requestTimeoutMs : Math.min(headersTimeoutMs, requestTimeoutMs)))
      this.fail(408, 'request-timeout', 'the request was not received in time')
    const { bytesWritten, writableLength } = this.#socket
    const sentBytes = bytesWritten - writableLength
    const isIdle = sentBytes === this.#sentBytes && (writableLength > 0 || !this.#isBusy)
    this.#sentBytes = sentBytes
    this.#idleMs = isIdle ? this.#idleMs + intervalMs : 0
    if (this.#idleMs >= (writableLength > 0 ? stalledTimeoutMs : keepAliveTimeoutMs)) this.#socket.destroy()
  }

  /** Whether a request has begun and is not complete; a connection begins with one. */
  get #isReceiving(): boolean {
    if (this.#last?.incoming.complete === false) return true
    return !this.#isBusy && (this.#socket.bytesRead !== this.#bytesRead || this.packets === 0)
  }

  /** On shutdown: closes the connection between two requests, or before the first one, which may be on its way. */
  closeIfIdle(alsoUnused: boolean): void {
    const { bytesRead, writableLength } = this.#socket
    const isSent = !this.#last?.outgoing.writableLength && writableLength === 0
    const isBetween = this.packets > 0 && bytesRead === this.#bytesRead
    if (!this.#isBusy && isSent && (isBetween || (alsoUnused && !this.isUsed))) this.#socket.destroy()
  }

  #handle(exchange: Exchange): void {
    this.#last = exchange
    this.#isBusy = true
    this.#server.overload.load.received++
    this.#server.overload.load.inFlight++
    this.#server.handler.dispatch(exchange)
  }

  respond(exchange: Exchange, response: Response): void {
    const { incoming, outgoing } = exchange
    this.#server.overload.load.inFlight--
    if (exchange.hasBody) {
      if (incoming.complete) this.#onReceived()
      else incoming.once('end', this.#onReceived)
    }
    this.#send(response, exchange)
    // The next response waits until the client has read a large one, or a stream: not in memory, but as a request.
    if (outgoing.writableNeedDrain || typeof response.body === 'function') {
      const bytes = this.#socket.writableLength
      this.held.add(this, bytes)
      outgoing.once('close', () => {
        this.held.remove(this, bytes)
        this.#handleNext()
      })
    } else if (this.#isInLoop || (this.#queue.length === 0 && !this.#failure)) this.#isBusy = false
    else this.#handleNext()
  }

  readonly #onReceived = () => {
    this.#bytesRead = this.#socket.bytesRead
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
      const exchange = this.#queue.shift() as Exchange
      const bytes = sizeOf(exchange)
      this.#queuedBytes -= bytes
      this.held.remove(this, bytes)
      this.#handle(exchange)
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
      (this.#server.isDraining && this.#queue.length === 0) ||
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
          discardBody(incoming, exchange.isChunked, this, () => outgoing.end())
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

/** Of a request that waits. */
const sizeOf = ({ target, rawHeaders }: Exchange) =>
  rawHeaders.reduce((sum, { length }) => sum + length, requestOverheadBytes + target.length)
