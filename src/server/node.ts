import { createServer, type Server as HttpServer, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { HttpHandler } from '../http/dispatch.ts'
import type { Credentials } from './dev-certificate.ts'
import { ClientConnection, checkIntervalMs, maxPipelinedRequests } from './node-connection.ts'
import { Message } from './node-message.ts'
import { maxHeaders } from './node-request.ts'
import { type ServerContext, type ServerState, shutDown } from './server.ts'

/** Ids have up to 1,024 characters (B11), and each takes up to twelve bytes when percent-encoded. */
const maxHeaderBytes = 32 * 1024
/** How many connections beyond the limit get 503. Further ones are closed at once. */
const maxSurplusConnections = 1_000
/** A shutdown closes unused connections at this interval, not at once: a first request may be on its way. */
const unusedIntervalMs = 500

/** Serves connections that this process or the primary process has accepted. */
export interface NodeServer {
  accept(socket: Socket): void
  /** Stops without failing a request (docs/operations.md, "Stopping"). No connection comes after `stopListening`. */
  close(stopListening: () => Promise<void>): Promise<void>
  /** Stops at once: requests in flight get no response. */
  destroy(): Promise<void>
}

/** Parses requests by node:http, with credentials over TLS, and passes them to `handler`. */
export function nodeServer(handler: HttpHandler, context: ServerContext, credentials?: Credentials): NodeServer {
  const { limits } = context
  const { load } = context.overload
  const state: ServerState = {
    ...context,
    handler,
    isEncrypted: credentials !== undefined,
    isDraining: false,
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

  /** Both are needed: a TLSSocket closes after the TCP socket below it. */
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
    // The client may have closed the connection while it waited to be handed over.
    if (socket.destroyed) return
    load.connections++
    sockets.add(socket)
    socket.once('close', () => {
      load.connections--
      sockets.delete(socket)
      closed()
    })
    if (tls) {
      // Otherwise, when a client leaves during the handshake, its socket would stay open until the handshake times out.
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
    // Before the first packet, node:http does not listen for errors.
    // After an attempt to renegotiate TLS, Node does not close the connection by itself.
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
      connection.begin()
      server.emit('connection', socket)
      // With this listener, Node reads TLS as a stream, which it pauses whenever it pauses the parser.
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
            // With TLS, these are clients that have not begun the handshake.
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

/** Returns a server that listens on no port: serve() emits `connection`. ClientConnection.check() has the timeouts. */
function httpServer(connections: ReadonlyMap<Socket, ClientConnection>): HttpServer<typeof Message> {
  const server = createServer({
    IncomingMessage: Message,
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: 0,
    // Otherwise Node would respond by itself, and then emit the requests that follow.
    requireHostHeader: false,
  })
  // Node drops further headers: one more than allowed shows that there are too many.
  server.maxHeadersCount = maxHeaders + 1
  const receive = (incoming: Message, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing, false)
  server.on('request', receive)
  // Other expectations than 100-continue are ignored.
  server.on('checkExpectation', receive)
  server.on('checkContinue', (incoming: Message, outgoing: ServerResponse) =>
    connections.get(incoming.socket)?.receive(incoming, outgoing, true),
  )
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // Bytes follow a request with `Connection: close`: Node closes the connection after the response to it.
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
 * Whether the first packet of a connection has more requests than may be pipelined. This is checked before node:http
 * parses them, which would take tens of milliseconds and megabytes.
 */
function hasTooManyRequests(packet: Buffer): boolean {
  // Most packets have few lines that look like a request line. In others, such lines may be part of a body.
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
    // Only the parser can tell where a chunked body ends.
    if (/\ntransfer-encoding:/i.test(head)) return false
    const length = /\ncontent-length:[ \t]*(\d+)/i.exec(head)?.[1] ?? 0
    start = end + endOfHead.length + Number(length)
  }
  return true
}
