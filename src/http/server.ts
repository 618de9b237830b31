import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Answer } from './answer.ts'
import { type ParserError, refuseBytes, statusFor } from './broken.ts'
import { header } from './header.ts'
import type { Credentials } from './https.ts'
import { send } from './send.ts'
import { hasBody, isSmall, letGo } from './unread.ts'
import { watchOver } from './watch.ts'

/** Answers a request, at once or later, and always once; with a refusal where there is too much to do. */
export type Handler = (request: IncomingMessage, reply: Reply, isOverloaded: boolean) => void
export type Reply = (answer: Answer) => void

export interface Listening {
  readonly port: number
  /** Answers say that the connection ends; then no more connections are taken; the requests in flight are answered. */
  close(): Promise<void>
}

/** How much patience there is with clients, in milliseconds, and for how many of them there is room. */
export interface Limits {
  readonly headerTimeout: number
  readonly requestTimeout: number
  readonly keepAliveTimeout: number
  readonly stalledTimeout: number
  readonly drainDelay: number
  readonly drainTimeout: number
  readonly maxConnections: number
  /** A body that is declared larger is not asked for. */
  readonly bodyLimit: number
}

/** B11: room for an id of 1,024 characters, each up to twelve when percent-encoded, beside the other headers. */
const maxHeaderSize = 32 * 1024
/** How often time-outs are looked at. */
const beat = 1_000
/** How long a connection without a request may stay when the service stops: one may be on the way. */
const unusedTimeout = 500
/** Connections beyond the limit that are told so. */
const mostSurplus = 1_000
/** Requests that may wait on one connection for the one before them. */
const mostBehind = 1_000

/** Where to listen, and as whom: with credentials it is HTTPS. Without a host it is every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
  readonly credentials?: Credentials | undefined
}

/** `localhost` is both loopback addresses, on one port. */
export async function listen(handler: Handler, address: Address, limits: Limits): Promise<Listening> {
  if (address.host !== 'localhost') return bind(handler, address, limits)
  const first = await bind(handler, { ...address, host: '127.0.0.1' }, limits)
  try {
    const second = await bind(handler, { ...address, host: '::1', port: first.port }, limits)
    return { port: first.port, close: async () => void (await Promise.all([first.close(), second.close()])) }
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) return first
    await first.close()
    if (address.port === 0 && code === 'EADDRINUSE') return listen(handler, address, limits)
    throw cause
  }
}

function bind(handler: Handler, { host, port, credentials }: Address, limits: Limits): Promise<Listening> {
  const { server, close } = httpServer(handler, limits, credentials)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      resolve({ port: (server.address() as AddressInfo).port, close })
    })
  })
}

export function httpServer(
  handler: Handler,
  limits: Limits,
  credentials?: Credentials,
): { readonly server: Server; close(): Promise<void> } {
  let closing = false
  const connections = new Set<Socket>()
  /** Connections that have not shaken hands yet (HTTPS), by their far end. */
  const handshaking = new Map<string, Socket>()
  /** Connections that have not brought a request yet; Node does not count them as idle. */
  const unused = new Set<Socket>()
  /** Connections for which there is no room: they are told so, and end. */
  const surplus = new Set<Socket>()
  /** Connections that have had their last answer. */
  const ended = new WeakSet<Socket>()
  /** Connections with a request at work, and those that came behind it: they take effect one after the other. */
  const work = new Map<Socket, Work>()

  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    // What follows a last answer is never handled, even if it came in the same breath.
    if (ended.has(socket)) return
    if (unused.size > 0) unused.delete(socket)
    const at = work.get(socket)
    if (!at) respond(request, response)
    else if (at.behind.length < mostBehind) at.behind.push(() => respond(request, response))
    else socket.destroy()
  }
  const options = {
    maxHeaderSize,
    headersTimeout: limits.headerTimeout,
    requestTimeout: limits.requestTimeout,
    connectionsCheckingInterval: beat,
    keepAliveTimeout: 0,
    // Node's own refusal would let the requests behind it through.
    requireHostHeader: false,
  }
  const server = credentials
    ? createSecureServer(
        { ...options, ...credentials, minVersion: 'TLSv1.2', handshakeTimeout: limits.headerTimeout },
        onRequest,
      )
    : createServer(options, onRequest)
  // Node would pass over headers beyond the two-thousandth, a second Authorization among them; their size is limited.
  server.maxHeadersCount = 0
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!(Number(header(request, 'content-length')) > limits.bodyLimit)) response.writeContinue()
    onRequest(request, response)
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    if (ended.has(request.socket)) return
    ended.add(request.socket)
    response.shouldKeepAlive = false
    send({ status: 417 }, response)
    letGo(request)
  })
  server.on('connect', (_request: IncomingMessage, socket: Socket) => refuseBytes(socket, 501))
  server.on('clientError', (cause: ParserError, socket: Socket) => {
    // While a whole request is at work, its answer is the next thing the client expects. Who has not even shaken hands
    // is not in a state to read one.
    if (!socket.writable || !connections.has(socket) || ended.has(socket) || work.get(socket)?.request.complete)
      socket.destroy()
    else refuseBytes(socket, statusFor(cause))
  })
  const watch = watchOver(limits, (socket) => work.has(socket))
  server.on(credentials ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (handshaking.size > 0) handshaking.delete(farEnd(socket))
    if (surplus.size >= mostSurplus) return void socket.destroy()
    connections.add(socket)
    if (connections.size > limits.maxConnections) surplus.add(socket)
    unused.add(socket)
    watch.add(socket)
    socket.once('close', () => {
      connections.delete(socket)
      surplus.delete(socket)
      unused.delete(socket)
      work.delete(socket)
    })
  })
  if (credentials)
    server.on('connection', (socket: Socket) => {
      const end = farEnd(socket)
      if (handshaking.size >= mostSurplus) return void socket.destroy()
      handshaking.set(end, socket)
      socket.once('close', () => handshaking.delete(end))
    })

  function respond(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const isSurplus = surplus.size > 0 && surplus.has(socket)
    let isAnswered = false
    const reply = (answer: Answer) => {
      isAnswered = true
      const isUnread = !request.complete && !request.destroyed && hasBody(request)
      if (closing || isSurplus || answer.isLast || (isUnread && !isSmall(request))) {
        response.shouldKeepAlive = false
        ended.add(socket)
      }
      try {
        send(answer, response)
      } catch {
        response.destroy()
      }
      if (isUnread) letGo(request)
      const at = work.get(socket)
      const next = at?.behind.shift()
      if (next) next()
      else if (at) work.delete(socket)
    }
    handler(request, reply, isSurplus || watch.isBehind())
    if (!isAnswered) work.set(socket, { request, behind: work.get(socket)?.behind ?? [] })
  }

  async function close(): Promise<void> {
    closing = true
    await pause(limits.drainDelay)
    const dropUnused = setTimeout(() => {
      for (const socket of [...unused, ...handshaking.values()]) if (socket.bytesRead === 0) socket.destroy()
      server.closeIdleConnections()
    }, unusedTimeout)
    const dropAll = setTimeout(() => {
      for (const socket of handshaking.values()) socket.destroy()
      server.closeAllConnections()
    }, limits.drainTimeout)
    // HTTP's own `close` would end idle connections at once, on which a request may be on the way.
    await new Promise((closed) => NetServer.prototype.close.call(server, closed))
    clearTimeout(dropUnused)
    clearTimeout(dropAll)
    watch.end()
  }
  return { server, close }
}

/** What a connection is at work on, and what waits for it. */
interface Work {
  readonly request: IncomingMessage
  readonly behind: (() => void)[]
}

const farEnd = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
