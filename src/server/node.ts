import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import { isAuthority, unmapped } from '../http/proxy.ts'
import { type Ending, headLengthOf, type Request } from '../http/request.ts'
import { buffersOf, byteLengthOf, piecesOf, type Response, type Stream } from '../http/response.ts'
import type { Credentials } from './dev-certificate.ts'
import { type ServerContext, type ServerState, shutDown } from './server.ts'
import { Upload } from './uploads.ts'

/** B11: an id of 1,024 characters has up to twelve bytes each when percent-encoded. */
const maxHeaderBytes = 32 * 1024
/** Each header costs more than its bytes. */
const maxHeaders = 200
/**
 * Requests that wait for the ones in front of them, or that come in one packet. Clients that pipeline send a handful; Node
 * parses what it receives, whatever waits, so a connection with more is closed.
 */
const maxPipelinedRequests = 100
/** Objects of a request that waits, besides its head. */
const requestOverheadBytes = 2_000
/** Connections beyond the limit that still get a 503. */
const maxSurplusConnections = 1_000
/** Larger bodies of responses are written as the client reads them. */
const writeSizeBytes = 256 * 1024
/** An unread body up to this size is read, so that the connection can be kept. */
const maxDrainedBytes = 64 * 1024
/** Rejected bodies are discarded up to these limits, so that the client can read the response. */
const maxDiscardedBytes = 32 * 2 ** 20
const discardTimeoutMs = 5_000
const discardIdleTimeoutMs = 2_000
/** A client has this time to read an error response before the connection is destroyed. */
const closeTimeoutMs = 1_000
const checkIntervalMs = 1_000
/** On shutdown, connections without a request are closed at this interval: one may be on its way. */
const unusedIntervalMs = 500

/** Serves connections, wherever they were accepted. */
export interface NodeServer {
  accept(socket: Socket): void
  /** Without failing a request: see "Stopping" in docs/operations.md. No more connections come after `stopListening`. */
  close(stopListening: () => Promise<void>): Promise<void>
  /** At once: requests in flight get no response. */
  destroy(): Promise<void>
}

interface NodeServerState extends ServerState {
  /** Nearly every request names the same host as the one before it. */
  lastHost: string | undefined
}

/** Hands requests to `handler`, by node:http; HTTPS with credentials. */
export function nodeServer(handler: HttpHandler, context: ServerContext, credentials?: Credentials): NodeServer {
  const { limits } = context
  const { load } = context.overload
  const state: NodeServerState = {
    ...context,
    handler,
    isEncrypted: credentials !== undefined,
    isDraining: false,
    lastHost: undefined,
  }
  /** The key is `incoming.socket`, which with TLS is the TLSSocket, not the TCP socket below it. */
  const connections = new Map<Socket, ClientConnection>()
  const sockets = new Set<Socket>()
  const server = httpServer(connections)
  const tls =
    credentials &&
    createTlsServer({
      ...credentials,
      ALPNProtocols: ['http/1.1'],
      minVersion: 'TLSv1.2',
      handshakeTimeout: limits.headersTimeoutMs,
    })
  tls?.on('secureConnection', (socket) => {
    socket.disableRenegotiation()
    serve(socket)
  })
  tls?.on('tlsClientError', (_error, socket) => socket.destroy())
  const onAllClosed: (() => void)[] = []
  let isDestroyed = false
  handler.onCloseIdle?.(() => {
    for (const connection of connections.values()) if (connection.isBrowser) connection.closeIfIdle(false)
  })

  /** With TLS, a connection closes after its socket. */
  const areAllClosed = () => sockets.size === 0 && connections.size === 0
  const closed = () => {
    if (areAllClosed()) for (const resolve of onAllClosed.splice(0)) resolve()
  }
  const untilAllClosed = () =>
    new Promise<void>((resolve) => {
      onAllClosed.push(resolve)
      closed()
    })

  function accept(socket: Socket): void {
    if (isDestroyed || load.connections >= limits.maxConnections + maxSurplusConnections) {
      socket.destroy()
      return
    }
    // The client may have left while the connection waited to be handed on.
    if (socket.destroyed) return
    load.connections++
    sockets.add(socket)
    socket.once('close', () => {
      load.connections--
      sockets.delete(socket)
      closed()
    })
    if (tls) {
      // Otherwise a client that leaves before the end of the handshake would go unnoticed until its timeout.
      socket.allowHalfOpen = false
      tls.emit('connection', socket)
    } else serve(socket)
  }

  function serve(socket: Socket): void {
    if (socket.destroyed) return
    const connection = new ClientConnection(socket, state, load.connections > limits.maxConnections)
    connections.set(socket, connection)
    socket.once('close', () => {
      connection.closed()
      connections.delete(socket)
      closed()
    })
    // node:http listens to errors from the first packet on.
    // After an attempt to renegotiate, Node leaves the connection open.
    socket.on('error', () => socket.destroy())
    const onEnd = () => socket.destroy()
    socket.once('end', onEnd)
    socket.once('readable', () => {
      const first: Buffer | null = socket.read()
      if (!first) return
      socket.off('end', onEnd)
      if (hasTooManyRequests(first)) {
        socket.destroy()
        return
      }
      connection.hasReceived = true
      server.emit('connection', socket)
      // Node then reads TLS as a stream, which stays paused while the parser is.
      if (tls) socket.on('data', () => {})
      socket.unshift(first)
    })
  }

  const checkTimer = setInterval(() => {
    for (const connection of connections.values()) connection.check()
  }, checkIntervalMs).unref()

  async function destroy(): Promise<void> {
    isDestroyed = true
    for (const socket of sockets) socket.destroy()
    clearInterval(checkTimer)
    await untilAllClosed()
  }

  return {
    accept,
    close: (stopListening) =>
      shutDown(state, {
        isQuiet: areAllClosed,
        stopListening,
        async stop() {
          const unusedTimer = setInterval(() => {
            // With TLS, a connection without a handshake.
            for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
            for (const connection of connections.values()) connection.closeIfIdle(true)
          }, unusedIntervalMs)
          for (const connection of connections.values()) connection.closeIfIdle(false)
          await untilAllClosed()
          clearInterval(unusedTimer)
          clearInterval(checkTimer)
        },
        destroy,
      }),
    destroy,
  }
}

/** A server that listens on no port: connections are emitted. Instead of its timeouts there is `ClientConnection.check`. */
function httpServer(connections: ReadonlyMap<Socket, ClientConnection>): HttpServer {
  const server = createServer({
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: 0,
    // Node would answer itself, and go on with the requests behind that response.
    requireHostHeader: false,
  })
  // Node drops what is beyond: one more than allowed tells that there are too many.
  server.maxHeadersCount = maxHeaders + 1
  const receive = (incoming: IncomingMessage, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing, false)
  server.on('request', receive)
  // Other expectations than 100-continue are ignored.
  server.on('checkExpectation', receive)
  server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing, true),
  )
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // Behind a request with `Connection: close`: Node closes the connection after the response.
    if (error.code === 'HPE_CLOSED_CONNECTION') return
    const connection = connections.get(socket)
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
    if (connection && socket.writable)
      connection.fail({ status, code: 'request-incomplete', reason: error.message.replace('Parse Error: ', '') })
    else socket.destroy()
  })
  return server
}

/**
 * Whether the first packet of a connection has more requests than a connection may have. Found before node:http parses
 * them: that takes tens of milliseconds and megabytes.
 */
function hasTooManyRequests(packet: Buffer): boolean {
  // Nearly every packet has few lines that may begin a request. Those of a body are no requests.
  return countOf(endOfRequestLine, packet) > maxPipelinedRequests && hasManyHeads(packet)
}

const endOfRequestLine = ' HTTP/1.1\r\n'
const endOfHead = '\r\n\r\n'

function countOf(text: string, packet: Buffer): number {
  let count = 0
  for (let at = packet.indexOf(text); at >= 0; at = packet.indexOf(text, at + 1)) count++
  return count
}

function hasManyHeads(packet: Buffer): boolean {
  let start = 0
  for (let count = 0; count <= maxPipelinedRequests; count++) {
    const end = packet.indexOf(endOfHead, start)
    if (end < 0) return false
    const head = packet.toString('latin1', start, end)
    // The parser tells where a chunked body ends.
    if (/\ntransfer-encoding:/i.test(head)) return false
    const length = /\ncontent-length:[ \t]*(\d+)/i.exec(head)?.[1] ?? 0
    start = end + endOfHead.length + Number(length)
  }
  return true
}

/** Bytes that are no HTTP request: the response to them, what happens to a body of which they are part, and for the log. */
interface Failure {
  readonly status: number
  readonly code: ErrorCode
  readonly reason: string
}

/**
 * A client's connection. Node emits pipelined requests as it parses them; here each is handled when the one before it has
 * its response, and none behind a response that closes the connection.
 */
class ClientConnection {
  readonly state: NodeServerState
  readonly #socket: Socket
  /** Beyond the limit of connections: its requests get 503. */
  readonly isSurplus: boolean
  readonly #queue: NodeRequest[] = []
  #isBusy = false
  /** True while `#handleNext` loops: a response that is there at once must not call it again. */
  #isInLoop = false
  #isClosing = false
  /** `socket.bytesRead` when the last head or body was complete; another value means that a head has begun. */
  #requestBytes = 0
  /** Requests received since `#requestBytes` changed: those of one packet. */
  #packetRequests = 0
  /** How many checks in a row have found a head that is not complete. */
  #headChecks = 0
  /** The count at the last check; -1 before the first one. */
  #sentBytes = -1
  #idleMs = 0
  /** The request that was handled last, or is being handled. */
  #last: NodeRequest | undefined
  /** Whether the last request came from a browser, where `#last` is gone. */
  #isBrowser = false
  hasReceived = false
  /** What is wrong with the bytes behind the requests in the queue: they are not parsed. */
  failure: Failure | undefined
  upload: Upload | undefined
  /** Called when the connection closes: for responses that have not been sent by then, in development. */
  unsent: Set<(how: Ending) => void> | undefined

  constructor(socket: Socket, state: NodeServerState, isSurplus: boolean) {
    this.#socket = socket
    this.state = state
    this.isSurplus = isSurplus
  }

  receive(incoming: IncomingMessage, outgoing: ServerResponse, expectsContinue: boolean): void {
    const { bytesRead } = this.#socket
    // Requests of one packet are received at the same count of bytes.
    this.#packetRequests = bytesRead === this.#requestBytes ? this.#packetRequests + 1 : 0
    this.#requestBytes = bytesRead
    if (this.#packetRequests > maxPipelinedRequests) this.destroy()
    if (this.#isClosing) return
    const overloadReason = this.isSurplus
      ? 'the limit of connections is reached (--max-connections)'
      : this.state.overload.reason
    const request = new NodeRequest(incoming, outgoing, this, overloadReason, expectsContinue)
    if (!this.#isBusy) this.#handle(request)
    else this.#enqueue(request)
  }

  #enqueue(request: NodeRequest): void {
    this.#queue.push(request)
    if (this.#queue.length > maxPipelinedRequests) this.destroy()
    else this.state.held.add(this, sizeOf(request))
  }

  destroy(): void {
    this.#isClosing = true
    this.#socket.destroy()
  }

  /** The bytes on the connection are no HTTP request, or were not received in time. */
  fail(failure: Failure): void {
    if (this.#isClosing || this.failure) return
    this.failure = failure
    this.#socket.pause()
    if (this.#last?.incoming.complete === false) this.upload?.settle(failure.code)
    if (!this.#isBusy && !this.#isClosing) this.#respondToFailure(failure)
  }

  /** The peer is gone. */
  closed(): void {
    this.#isClosing = true
    this.state.held.release(this)
    this.upload?.settle('request-incomplete')
    const isByClient = this.#socket.readableEnded || this.#socket.errored
    for (const lost of this.unsent ?? []) lost(isByClient ? 'aborted' : 'closed')
  }

  /** Called at an interval; Node's own timeouts would set a timer for each response. */
  check(): void {
    if (this.#last?.outgoing.writableFinished && this.#last.incoming.complete) {
      this.#isBrowser = this.isBrowser
      this.#last = undefined
    }
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, stalledTimeoutMs } = this.state.limits
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

  /** A connection begins with a head. */
  get #isReceivingHead(): boolean {
    if (this.#isBusy || this.#last?.incoming.complete === false) return false
    if (this.#requestBytes === 0) return true
    // Over TLS, a head that was read waits while Node has paused the parser.
    return this.#socket.bytesRead !== this.#requestBytes && !this.#socket.isPaused()
  }

  get isBrowser(): boolean {
    return this.#last ? this.#last.header('user-agent')?.startsWith('Mozilla/') === true : this.#isBrowser
  }

  /** Closes the connection between two requests, or on shutdown before the first one, which may be on its way. */
  closeIfIdle(alsoUnused: boolean): void {
    const { bytesRead, writableLength } = this.#socket
    const isSent = !this.#last?.outgoing.writableLength && writableLength === 0
    const isBetween = this.#requestBytes > 0 && bytesRead === this.#requestBytes
    if (!this.#isBusy && isSent && (isBetween || (alsoUnused && !this.hasReceived))) this.#socket.destroy()
  }

  #handle(request: NodeRequest): void {
    this.#last = request
    this.#isBusy = true
    const { overload, handler } = this.state
    overload.load.received++
    overload.load.inFlight++
    handler.dispatch(request)
  }

  /** Whether requests wait behind the one that is being handled. */
  get hasWaiting(): boolean {
    return this.#queue.length > 0
  }

  /** No further request is handled on this connection. */
  close(): void {
    this.#isClosing = true
  }

  /** The current request has its response, which may not be sent yet. */
  responded({ incoming, outgoing, hasBody }: NodeRequest, isStream: boolean): void {
    this.state.overload.load.inFlight--
    // An idle connection must not keep the body of its last request.
    this.upload = undefined
    if (this.#socket.destroyed) return
    if (hasBody) {
      if (incoming.complete) this.#requestBytes = this.#socket.bytesRead
      else
        incoming.once('end', () => {
          this.#requestBytes = this.#socket.bytesRead
        })
    }
    // The next response waits until the client has read a large one, or a stream: not in memory, but as a request.
    if (outgoing.writableNeedDrain || isStream) {
      const bytes = this.#socket.writableLength
      this.state.held.add(this, bytes)
      outgoing.once('close', () => {
        this.state.held.remove(this, bytes)
        this.#handleNext()
      })
    } else if (this.#isInLoop || (this.#queue.length === 0 && !this.failure)) this.#isBusy = false
    else this.#handleNext()
  }

  /** Closes the connection without a response to the current request. */
  abort(withReset: boolean): void {
    this.state.overload.load.inFlight--
    this.#isClosing = true
    // Responses before this one are sent by then.
    setImmediate(() => {
      // Only TCP has a reset: neither TLS nor a stream in the process.
      if (withReset && this.#socket instanceof Socket && !(this.#socket instanceof TLSSocket))
        this.#socket.resetAndDestroy()
      else this.#socket.destroy()
    })
  }

  #handleNext(): void {
    this.#isBusy = false
    this.#isInLoop = true
    while (!this.#isBusy && !this.#isClosing && this.#queue.length > 0) {
      const request = this.#queue.shift() as NodeRequest
      this.state.held.remove(this, sizeOf(request))
      this.#handle(request)
    }
    this.#isInLoop = false
    if (this.failure && !this.#isBusy && !this.#isClosing) this.#respondToFailure(this.failure)
  }

  #respondToFailure({ status, reason }: Failure): void {
    this.#isClosing = true
    const { incoming, outgoing } = this.#last ?? {}
    // The rest of a body whose request has its response already.
    if (incoming?.complete === false) {
      this.#socket.destroy()
      return
    }
    this.state.handler.malformed(status, reason, unmapped(this.#socket.remoteAddress ?? ''))
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

/** The memory of a request that waits. */
const sizeOf = (request: NodeRequest) => requestOverheadBytes + headLengthOf(request)

/** Headers that may occur once: with two of them, two servers could disagree about which one counts. */
const singletons = ['host', 'expect', 'if-match', 'content-type', 'authorization', 'if-none-match', 'content-length']

function isSingletonRepeated(rawHeaders: readonly string[]): boolean {
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())
  return singletons.some((name) => names.indexOf(name) !== names.lastIndexOf(name))
}

/** A request, as dispatch sees it, and its response. */
class NodeRequest implements Request {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly method: string
  readonly target: string
  readonly protocolError: ErrorCode | undefined
  readonly overloadReason: string | undefined
  readonly isEncrypted: boolean
  readonly isHttp10: boolean
  readonly hasBody: boolean
  /** Whether the client waits for 100 Continue. Node closes the connection after another response. */
  expectsContinue: boolean
  contentLength = 0
  isChunked = false
  readonly #connection: ClientConnection

  constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    connection: ClientConnection,
    overloadReason: string | undefined,
    expectsContinue: boolean,
  ) {
    this.incoming = incoming
    this.outgoing = outgoing
    this.#connection = connection
    this.method = incoming.method ?? ''
    this.target = incoming.url ?? ''
    this.overloadReason = overloadReason
    this.isEncrypted = connection.state.isEncrypted
    this.isHttp10 = incoming.httpVersionMinor === 0
    this.expectsContinue = expectsContinue
    this.protocolError = this.#inspectHead()
    this.hasBody = this.contentLength > 0 || this.isChunked
  }

  #inspectHead(): ErrorCode | undefined {
    const { httpVersionMajor, rawHeaders, headers } = this.incoming
    let headerCount = 0
    for (const _ in headers) headerCount++
    let error: ErrorCode | undefined
    if (httpVersionMajor !== 1) error = 'request-incomplete'
    else if (rawHeaders.length > 2 * maxHeaders) error = 'headers-too-many'
    else if (rawHeaders.length !== 2 * headerCount && isSingletonRepeated(rawHeaders)) error = 'header-repeated'
    const { host, 'content-length': contentLength, 'transfer-encoding': coding } = headers
    if (contentLength !== undefined) this.contentLength = Number(contentLength)
    if (coding !== undefined) {
      this.isChunked = true
      // Another coding, or chunked in HTTP/1.0, is read differently by different servers (RFC 9112, 6.1).
      if (this.isHttp10 || coding.toLowerCase() !== 'chunked') error ??= 'framing-ambiguous'
    }
    const { state } = this.#connection
    if (host === undefined ? this.isHttp10 : host === state.lastHost) return error
    if (host === undefined || !isAuthority(host)) return error ?? 'host-malformed'
    state.lastHost = host
    return error
  }

  get remoteAddress(): string {
    return this.incoming.socket.remoteAddress ?? ''
  }

  get localPort(): number {
    return this.incoming.socket.localPort ?? 0
  }

  get rawHeaders(): readonly string[] {
    return this.incoming.rawHeaders
  }

  get isAborted(): boolean {
    return this.incoming.socket.destroyed
  }

  header(name: string): string | undefined {
    // Only Set-Cookie, which no request has, is an array.
    return this.incoming.headers[name] as string | undefined
  }

  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void {
    const { failure, state } = this.#connection
    const { incoming, contentLength } = this
    if (contentLength > limitBytes) done('body-too-large')
    else if (failure && !incoming.complete) done(failure.code)
    else {
      if (this.expectsContinue) this.outgoing.writeContinue()
      this.expectsContinue = false
      const upload = new Upload(state.uploads, limitBytes, done)
      this.#connection.upload = upload
      if (this.isChunked) this.#receiveInTurns()
      // Nearly every body comes in one piece.
      let whole: Buffer | undefined
      incoming.on('data', (piece: Buffer) => {
        if (piece.length === contentLength) whole = piece
        else upload.append(piece)
      })
      incoming.on('end', () => upload.settle(whole ?? upload.received))
    }
  }

  /** Closing while the client still sends would reset the connection, and with it a response that is not read yet. */
  #discardBody(): void {
    const { incoming, outgoing } = this
    outgoing.flushHeaders()
    let discardedBytes = 0
    const finish = () => {
      clearTimeout(timeout)
      clearTimeout(idleTimeout)
      incoming.off('data', onData).off('end', finish).off('close', finish)
      outgoing.end()
    }
    const onData = (piece: Buffer) => {
      idleTimeout.refresh()
      discardedBytes += piece.length
      if (discardedBytes > maxDiscardedBytes) finish()
    }
    const timeout = setTimeout(finish, discardTimeoutMs)
    const idleTimeout = setTimeout(finish, discardIdleTimeoutMs)
    if (this.isChunked && incoming.listenerCount('readable') === 0) this.#receiveInTurns()
    incoming.on('data', onData).on('end', finish).on('close', finish)
  }

  /** Connections with a chunked body take turns: each is read again after one packet, when it is its turn. */
  #receiveInTurns(): void {
    const { incoming } = this
    const { socket } = incoming
    const { turns } = this.#connection.state
    let isWaiting = false
    // Node resumes the socket whenever it wants more of the body.
    const keepPaused = () => socket.pause()
    incoming.on('readable', () => {
      // It emits `data`.
      incoming.read()
      if (incoming.complete || isWaiting) return
      isWaiting = true
      socket.on('resume', keepPaused).pause()
      turns.wait(() => {
        isWaiting = false
        socket.off('resume', keepPaused).resume()
      })
    })
  }

  respond(response: Response): void {
    const connection = this.#connection
    const { incoming } = this
    const isIncomplete = this.hasBody && !incoming.complete
    const closes = this.#isLast(response, isIncomplete)
    if (closes) connection.close()
    const discards = isIncomplete && closes && !connection.failure
    try {
      if (!incoming.socket.destroyed) this.#write(response, closes, discards)
    } catch {
      // A header with a character that Node does not send.
      incoming.socket.destroy()
    }
    connection.responded(this, typeof response.body === 'function')
  }

  /** Whether no other request can follow on this connection. */
  #isLast(response: Response, isIncomplete: boolean): boolean {
    const connection = this.#connection
    if (response.closesConnection === true || connection.isSurplus) return true
    if (connection.state.isDraining && !connection.hasWaiting) return true
    // Node cannot keep an HTTP/1.0 connection open after a response without Content-Length.
    if (this.isHttp10) return true
    // The client may send the body, or not.
    if (this.expectsContinue) return true
    // What is left of the body would take too long to read.
    return isIncomplete && (this.isChunked || this.contentLength > maxDrainedBytes)
  }

  onEnd(ended: (how: Ending) => void): void {
    if (this.incoming.socket.closed) {
      // Whoever listens has to return before.
      queueMicrotask(() => ended('aborted'))
      return
    }
    this.#connection.unsent ??= new Set()
    const { unsent } = this.#connection
    unsent.add(ended)
    this.outgoing.once('finish', () => {
      // Node emits it for what it could not write, too.
      if (!this.incoming.socket.destroyed && unsent.delete(ended)) ended('sent')
    })
  }

  abort(withReset: boolean): void {
    this.#connection.abort(withReset)
  }

  /** Writes the response, and ends it, if `discards` after the rest of the body. */
  #write(response: Response, closesConnection: boolean, discards: boolean): void {
    const { status, headers, body = '', contentLength } = response
    const { outgoing } = this
    const list: string[] = []
    for (const name in headers) list.push(name, headers[name] as string)
    if (closesConnection) list.push('connection', 'close')
    if (typeof body === 'function') {
      if (contentLength !== undefined) list.push('content-length', `${contentLength}`)
      outgoing.writeHead(status, list)
      if (this.method === 'HEAD') outgoing.end()
      else this.#writeStream(body)
      return
    }
    if (status !== 204 && status !== 304) {
      const length = typeof body === 'string' ? Buffer.byteLength(body) : byteLengthOf(body)
      list.push('content-length', `${length}`)
      outgoing.writeHead(status, list)
      if (length > writeSizeBytes) {
        this.#writeInPieces(buffersOf(body), discards)
        return
      }
      if (typeof body !== 'string' && body.length === 1 && !discards) {
        outgoing.end(body[0])
        return
      }
      // Head and body in one write: of a string, `end(body)` makes two.
      outgoing.socket?.cork()
      if (typeof body !== 'string') for (const part of body) outgoing.write(part)
      else if (length > 0) outgoing.write(body, length === body.length ? 'latin1' : 'utf8')
      outgoing.socket?.uncork()
    } else outgoing.writeHead(status, list)
    if (discards) this.#discardBody()
    else outgoing.end()
  }

  #writeStream(stream: Stream): void {
    const { outgoing } = this
    outgoing.flushHeaders()
    const { onDrain, onClose } = stream(
      (data) => !outgoing.writableEnded && outgoing.write(data),
      () => outgoing.end(),
      () => outgoing.destroy(),
    )
    outgoing.on('drain', onDrain)
    outgoing.once('close', onClose)
  }

  /**
   * The response is ended when its last piece is flushed: once it is ended, a connection counts as idle, and is closed on
   * shutdown, even if the client has not read it.
   */
  async #writeInPieces(body: readonly Buffer[], discards: boolean): Promise<void> {
    const { outgoing } = this
    const { held } = this.#connection.state
    const drained = () => new Promise((resolve) => outgoing.once('drain', resolve))
    held.addBuffers(this.#connection, body)
    for (const piece of piecesOf(body, writeSizeBytes)) {
      outgoing.write(piece)
      if (outgoing.writableLength >= writeSizeBytes) await drained()
    }
    if (outgoing.writableNeedDrain) await drained()
    held.removeBuffers(this.#connection, body)
    if (discards) this.#discardBody()
    else outgoing.end()
  }
}
