import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import { type ParserError, statusFor } from './broken.ts'
import { type Common, Connection, type Handler } from './connection.ts'
import { header, keptHeaders } from './header.ts'
import type { Credentials } from './https.ts'
import { lateness } from './late.ts'
import type { Patience } from './stillness.ts'

export interface Listening {
  readonly port: number
  /** Answers say that the connection ends; then no more connections are taken; the requests in flight are answered. */
  close(): Promise<void>
}

/** How much patience there is with clients, in milliseconds, and for how many of them there is room. */
export interface Limits extends Patience {
  readonly headerTimeout: number
  readonly requestTimeout: number
  readonly drainDelay: number
  readonly drainTimeout: number
  readonly maxConnections: number
}

/** B11: room for an id of 1,024 characters, each up to twelve when percent-encoded, beside the other headers. */
const maxHeaderSize = 32 * 1024
/** A client that has said all it wants to say still waits for the answers. */
const halfOpen = { allowHalfOpen: true }
/** How often connections are looked at. */
const beat = 1_000
/** How long a connection without a request may stay when the service stops: one may be on the way. */
const unusedTimeout = 500
/** What may come in one go in each beat, beyond a few for each connection: clients must not wait for pipelines … */
const spareRequests = 5_000
/** … nor for crumbs. */
const spareChunks = 10_000
/** How long connections that wait to be taken are still taken when the service stops. */
const takingTimeout = 500
/** Connections that have not shaken hands: the oldest makes room for the next. */
const mostHandshaking = 1_000
/** Connections beyond the limit that are told so. */
const mostSurplus = 1_000

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
  const connections = new Map<Socket, Connection>()
  const common: Common = {
    handler,
    isOverloaded: lateness(),
    isClosing: false,
    requests: { spare: spareRequests },
    chunks: { spare: spareChunks },
  }
  /** How many connections have come. */
  let arrivals = 0
  /** Connections that have not shaken hands yet (HTTPS), by their far end. */
  const handshaking = new Map<string, Socket>()

  const take = (request: IncomingMessage, response: ServerResponse, status?: number) =>
    connections.get(request.socket)?.take(request, response, status)
  // One for all: there may be many connections.
  function finish(this: Socket): void {
    connections.get(this)?.finish()
  }
  function forget(this: Socket): void {
    connections.get(this)?.drop()
    connections.delete(this)
  }
  const options = {
    maxHeaderSize,
    headersTimeout: Math.min(limits.headerTimeout, limits.requestTimeout),
    requestTimeout: limits.requestTimeout,
    connectionsCheckingInterval: beat,
    keepAliveTimeout: 0,
    // Node's own refusal would let the requests behind it through.
    requireHostHeader: false,
  }
  const server = credentials
    ? createSecureServer(
        { ...options, ...credentials, ...halfOpen, minVersion: 'TLSv1.2', handshakeTimeout: limits.headerTimeout },
        take,
      )
    : createServer(options, take)
  // Node passes over what is beyond, a second Authorization perhaps.
  server.maxHeadersCount = keptHeaders
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => take(request, response, 417))
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (header(request, 'expect')?.toLowerCase() !== '100-continue') return take(request, response, 417)
    // Whoever listens to the body asks for it; what is refused is not asked for.
    request.on('newListener', (event) => {
      if (event === 'data' && !response.headersSent) response.writeContinue()
    })
    take(request, response)
  })
  server.on('clientError', (cause: ParserError, socket: Socket) => {
    const connection = connections.get(socket)
    // Who has not even shaken hands is not in a state to read a refusal.
    if (!connection) socket.destroy()
    else if (cause.code === 'HPE_PAUSED') connection.putOff(cause.rawPacket)
    else connection.refuse(statusFor(cause), cause.reason ?? cause.message)
  })
  server.on('connection', () => arrivals++)
  server.on(credentials ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (handshaking.size > 0) handshaking.delete(farEnd(socket))
    if (connections.size >= limits.maxConnections + mostSurplus) return void socket.destroy()
    const connection = new Connection(socket, common, connections.size >= limits.maxConnections)
    connections.set(socket, connection)
    socket.on('end', finish)
    socket.on('close', forget)
  })
  if (credentials)
    server.on('connection', (socket: Socket) => {
      const end = farEnd(socket)
      const [oldest] = handshaking.values()
      if (handshaking.size >= mostHandshaking) oldest?.destroy()
      handshaking.set(end, socket)
      socket.once('close', () => handshaking.delete(end))
    })
  const watching = setInterval(() => {
    common.requests.spare = spareRequests
    common.chunks.spare = spareChunks
    for (const connection of connections.values()) connection.look(limits, beat)
  }, beat)
  watching.unref()

  /** Node takes a connection for idle when its answer is written, and would end it before the client has taken it. */
  function closeIdle(): void {
    const taking = [...connections].filter(([, { hasMoreToTake }]) => hasMoreToTake).map(([socket]) => socket)
    for (const socket of taking) socket.destroy = () => socket
    server.closeIdleConnections()
    for (const socket of taking) Reflect.deleteProperty(socket, 'destroy')
  }

  /** Node takes one connection in each turn: those that still wait for that when the listener closes would be reset. */
  async function takeWaiting(): Promise<void> {
    let isEnough = false
    const timer = setTimeout(() => {
      isEnough = true
    }, takingTimeout)
    for (let before = -1; before !== arrivals && !isEnough; ) {
      before = arrivals
      await turn()
    }
    clearTimeout(timer)
  }

  async function close(): Promise<void> {
    common.isClosing = true
    await pause(limits.drainDelay)
    // Whoever was told to close comes again.
    if (limits.drainDelay > 0) await takeWaiting()
    const dropIdle = setInterval(() => {
      for (const connection of connections.values()) if (connection.isUnused) connection.cut()
      for (const socket of handshaking.values()) if (socket.bytesRead === 0) socket.destroy()
      closeIdle()
    }, unusedTimeout)
    const dropAll = setTimeout(() => {
      for (const socket of handshaking.values()) socket.destroy()
      server.closeAllConnections()
    }, limits.drainTimeout)
    // HTTP's own `close` would end idle connections at once, on which a request may be on the way.
    await new Promise((closed) => NetServer.prototype.close.call(server, closed))
    clearInterval(dropIdle)
    clearTimeout(dropAll)
    clearInterval(watching)
  }
  return { server, close }
}

const farEnd = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
