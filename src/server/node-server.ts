import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import { Connection, type IdleTimeouts, type ServerState } from './connection.ts'
import type { Credentials } from './dev-certificate.ts'
import { maxHeaders } from './exchange.ts'
import type { OverloadMonitor } from './overload.ts'

export interface ServerLimits extends IdleTimeouts {
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly drainDelayMs: number
  readonly drainTimeoutMs: number
  readonly maxConnections: number
}

/** B11: an id of 1,024 characters has up to twelve bytes each when percent-encoded. */
const maxHeaderBytes = 32 * 1024
const checkIntervalMs = 1_000
/** HTTPS: pipelined requests that a client may send before it reads the responses. */
const maxPausedBytes = 2 ** 20
/** Connections beyond the limit that still get a 503. */
const maxSurplusConnections = 1_000
/** On shutdown, connections that were idle for so long are closed: a request may be on its way on the others. */
const idleGraceMs = 500

/** A node:http server that hands requests to `handler`; HTTPS with credentials. */
export function nodeServer(
  handler: HttpHandler,
  limits: ServerLimits,
  overload: OverloadMonitor,
  credentials?: Credentials,
): { readonly server: Server; close(): Promise<void>; destroy(): Promise<void> } {
  const { load } = overload
  const state: ServerState = { handler, overload, isDraining: false }
  const options = {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: checkIntervalMs,
    keepAliveTimeout: 0,
    // Node would answer itself, and go on with the requests behind that response.
    requireHostHeader: false,
  }
  const server = credentials
    ? createSecureServer({
        ...options,
        ...credentials,
        minVersion: 'TLSv1.2',
        handshakeTimeout: limits.headersTimeoutMs,
      })
    : createServer(options)
  // Node drops what is beyond: one more than allowed tells that there are too many.
  server.maxHeadersCount = maxHeaders + 1

  /** By the socket that requests name: with TLS, the one on top. */
  const connections = new Map<Socket, Connection>()
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    if (load.connections >= limits.maxConnections + maxSurplusConnections) {
      socket.destroy()
      return
    }
    load.connections++
    sockets.add(socket)
    socket.once('close', () => {
      load.connections--
      sockets.delete(socket)
    })
  })
  server.on(credentials ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (socket.destroyed) return
    connections.set(socket, new Connection(socket, state, load.connections > limits.maxConnections))
    socket.once('close', () => {
      connections.get(socket)?.closed()
      connections.delete(socket)
    })
  })
  const idleCheck = setInterval(() => {
    for (const connection of connections.values()) connection.closeIfIdle(checkIntervalMs, limits)
  }, checkIntervalMs)
  idleCheck.unref()
  server.on('request', (incoming: IncomingMessage, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing),
  )
  server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const isOnlyExpectation = incoming.headers.expect?.toLowerCase() === '100-continue'
    const error = isOnlyExpectation ? undefined : 'expectation-failed'
    connections.get(incoming.socket)?.receive(incoming, outgoing, true, error)
  })
  server.on('checkExpectation', (incoming: IncomingMessage, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing, true, 'expectation-failed'),
  )
  server.on('clientError', (error: ParserError, socket: Socket) => {
    const connection = connections.get(socket)
    // TLS hands over what it has decrypted even while the parser is paused: it is read again when Node resumes.
    if (error.code === 'HPE_PAUSED') {
      if (socket.readableLength < maxPausedBytes) socket.push(error.rawPacket)
      else socket.destroy()
      return
    }
    // Behind a request with `Connection: close`: Node closes the connection after the response.
    if (error.code === 'HPE_CLOSED_CONNECTION') return
    // No connection: the TLS handshake failed.
    if (connection && socket.writable) connection.fail(...parserFailure(error), error.reason ?? error.message)
    else socket.destroy()
  })

  /** Stops without failing a request: see "Stopping" in docs/operations.md. */
  async function close(): Promise<void> {
    state.isDraining = true
    await sleep(limits.drainDelayMs)
    for (let waitedMs = 0; sockets.size > 0 && waitedMs < idleGraceMs; waitedMs += 20) await sleep(20)
    await acceptBacklog(server)
    const closeUnused = setInterval(() => {
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      server.closeIdleConnections()
    }, idleGraceMs)
    const destroyAll = setTimeout(() => {
      for (const socket of sockets) socket.destroy()
    }, limits.drainTimeoutMs)
    await new Promise((closed) => server.close(closed))
    clearInterval(closeUnused)
    clearTimeout(destroyAll)
    clearInterval(idleCheck)
  }

  /** Stops at once: requests in flight get no response. */
  async function destroy(): Promise<void> {
    const closed = new Promise((done) => server.close(done))
    for (const socket of sockets) socket.destroy()
    await closed
    clearInterval(idleCheck)
  }
  return { server, close, destroy }
}

/** Clients that got `Connection: close` reconnect; accept them before closing the listener, which would reset them. */
async function acceptBacklog(server: Server): Promise<void> {
  let accepted = 0
  const count = () => accepted++
  server.on('connection', count)
  for (let turns = 0, before = -1; before !== accepted && turns < 1_000; turns++) {
    before = accepted
    await nextTurn()
  }
  server.off('connection', count)
}

/** `clientError`: what the parser rejected, and where. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
  readonly reason?: string
}

/** By error code: the status where there is no request to answer, and the error of one whose body is being received. */
const parserFailures: Record<string, [status: number, code: ErrorCode]> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request-timeout'],
  HPE_HEADER_OVERFLOW: [431, 'request-incomplete'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'body-too-large'],
}

function parserFailure({ code = '', rawPacket, bytesParsed = 0 }: ParserError): [status: number, code: ErrorCode] {
  const line = rawPacket?.toString('latin1', rawPacket.lastIndexOf('\n', bytesParsed - 1) + 1) ?? ''
  const isUnknownMethod = code === 'HPE_INVALID_METHOD' && /^[A-Z]+ [/*]/.test(line)
  const isUnknownVersion = code === 'HPE_INVALID_VERSION' && /^[^\n]* HTTP\/\d\.\d\r/.test(line)
  return parserFailures[code] ?? [isUnknownMethod ? 501 : isUnknownVersion ? 505 : 400, 'request-incomplete']
}
