import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import type { HttpHandler } from '../http/dispatch.ts'
import type { ErrorCode } from '../http/errors.ts'
import { Connection, maxPipelinedRequests, type ServerState, type TimeLimits } from './connection.ts'
import type { Credentials } from './dev-certificate.ts'
import { maxHeaders } from './exchange.ts'
import type { Resources } from './resources.ts'

export interface ServerLimits extends TimeLimits {
  readonly drainDelayMs: number
  readonly drainTimeoutMs: number
  readonly maxConnections: number
}

/** B11: an id of 1,024 characters has up to twelve bytes each when percent-encoded. */
const maxHeaderBytes = 32 * 1024
const checkIntervalMs = 1_000
/** HTTPS: pipelined requests that a client may send before it reads the responses. */
const maxPausedBytes = 128 * 1024
/** Connections beyond the limit that still get a 503. */
const maxSurplusConnections = 1_000
/** On shutdown, idle connections stay open for this time: a request may be on its way. */
const idleGraceMs = 500

/** Serves connections, wherever they were accepted. */
export interface NodeServer {
  accept(socket: Socket): void
  /** Without failing a request: see "Stopping" in docs/operations.md. No more connections come after `stopListening`. */
  close(stopListening: () => Promise<void>): Promise<void>
  /** At once: requests in flight get no response. */
  destroy(): void
}

/** Hands requests to `handler`, by node:http; HTTPS with credentials. */
export function nodeServer(
  handler: HttpHandler,
  limits: ServerLimits,
  resources: Resources,
  credentials?: Credentials,
): NodeServer {
  const { load } = resources.overload
  const state: ServerState = { ...resources, handler, isDraining: false }
  /** It listens on no port: connections come by `accept`, and timeouts are those of Connection. */
  const server = createServer({
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: 0,
    // Node would answer itself, and go on with the requests behind that response.
    requireHostHeader: false,
  })
  // Node drops what is beyond: one more than allowed tells that there are too many.
  server.maxHeadersCount = maxHeaders + 1
  const tls =
    credentials &&
    createTlsServer({
      ...credentials,
      ALPNProtocols: ['http/1.1'],
      minVersion: 'TLSv1.2',
      handshakeTimeout: limits.headersTimeoutMs,
    })
  tls?.on('secureConnection', serve)
  tls?.on('tlsClientError', (_error, socket) => socket.destroy())

  /** By the socket that requests name: with TLS, the one on top. */
  const connections = new Map<Socket, Connection>()
  const sockets = new Set<Socket>()
  let onLastClosed = () => {}

  function accept(socket: Socket): void {
    if (load.connections >= limits.maxConnections + maxSurplusConnections) {
      socket.destroy()
      return
    }
    load.connections++
    sockets.add(socket)
    socket.once('close', () => {
      load.connections--
      sockets.delete(socket)
      if (sockets.size === 0) onLastClosed()
    })
    if (tls) {
      // Or a client that leaves before the end of the handshake would go unnoticed until its timeout.
      socket.allowHalfOpen = false
      tls.emit('connection', socket)
    } else serve(socket)
  }

  function serve(socket: Socket): void {
    if (socket.destroyed) return
    const connection = new Connection(socket, state, load.connections > limits.maxConnections)
    connections.set(socket, connection)
    // Until node:http does.
    socket.on('error', () => {})
    const end = () => socket.destroy()
    socket.once('end', end)
    socket.once('data', (first: Buffer) => {
      connection.isUsed = true
      socket.off('end', end)
      if (hasTooManyRequests(first)) {
        socket.destroy()
        return
      }
      socket.pause()
      server.emit('connection', socket)
      socket.unshift(first)
      socket.resume()
      resources.turns.add(connection)
    })
    socket.once('close', () => {
      connection.closed()
      connections.delete(socket)
    })
  }

  const check = setInterval(() => {
    for (const connection of connections.values()) connection.check(checkIntervalMs, limits)
  }, checkIntervalMs)
  check.unref()
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
    if (connection && socket.writable) connection.fail(...parserFailure(error), error.reason ?? error.message)
    else socket.destroy()
  })

  const closeIdle = (alsoUnused: boolean) => {
    for (const connection of connections.values()) connection.closeIfIdle(alsoUnused)
  }

  return {
    accept,
    async close(stopListening) {
      state.isDraining = true
      await sleep(limits.drainDelayMs)
      for (let waitedMs = 0; sockets.size > 0 && waitedMs < idleGraceMs; waitedMs += 20) await sleep(20)
      await stopListening()
      const closed = new Promise<void>((resolve) => {
        onLastClosed = resolve
      })
      const unusedTimer = setInterval(() => {
        // With TLS, a connection without a handshake.
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
        closeIdle(true)
      }, idleGraceMs)
      const forceTimer = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, limits.drainTimeoutMs)
      closeIdle(false)
      if (sockets.size > 0) await closed
      clearInterval(unusedTimer)
      clearTimeout(forceTimer)
      clearInterval(check)
    },
    destroy() {
      for (const socket of sockets) socket.destroy()
      clearInterval(check)
    },
  }
}

/**
 * Whether the first packet of a connection has more requests than a connection may have. Found before node:http parses
 * them: that takes tens of milliseconds and megabytes.
 */
function hasTooManyRequests(packet: Buffer): boolean {
  let count = 0
  let index = -1
  do index = packet.indexOf(endOfRequestLine, index + 1)
  while (index >= 0 && ++count <= maxPipelinedRequests)
  return index >= 0
}

const endOfRequestLine = Buffer.from(' HTTP/1.1\r\n')

/** `clientError`: what the parser rejected, and where. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
  readonly reason?: string
}

/** By error code: the status where there is no request to answer, and the error of one whose body is being received. */
const parserFailures: Record<string, [status: number, code: ErrorCode]> = {
  HPE_HEADER_OVERFLOW: [431, 'request-incomplete'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'body-too-large'],
}

function parserFailure({ code = '', rawPacket, bytesParsed = 0 }: ParserError): [status: number, code: ErrorCode] {
  const line = rawPacket?.toString('latin1', rawPacket.lastIndexOf('\n', bytesParsed - 1) + 1) ?? ''
  const isUnknownMethod = code === 'HPE_INVALID_METHOD' && /^[A-Z]+ [/*]/.test(line)
  const isUnknownVersion = code === 'HPE_INVALID_VERSION' && /^[^\n]* HTTP\/\d\.\d\r/.test(line)
  return parserFailures[code] ?? [isUnknownMethod ? 501 : isUnknownVersion ? 505 : 400, 'request-incomplete']
}
