import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Answer } from './answer.ts'
import { header } from './header.ts'
import type { Credentials } from './https.ts'
import { watchOver } from './watch.ts'

/** Answers a request, at once or later, and always once. */
export type Handler = (request: IncomingMessage, reply: Reply) => void
export type Reply = (answer: Answer) => void

export interface Listening {
  readonly port: number
  /** Takes no more connections, answers the requests in flight, then is done. */
  close(): Promise<void>
}

/** B11: room for an id of 1,024 characters, each up to twelve when percent-encoded, beside the other headers. */
const maxHeaderSize = 32 * 1024
/** How long the head of a request may take, and a whole one. */
const headersTimeout = 10_000
const requestTimeout = 30_000
/** How often time-outs are looked at. */
const beat = 1_000
/** How long requests in flight may take once the service stops. */
const drainTimeout = 10_000
/** How long a connection that never brought a request may stay then: one may be on the way. */
const unusedTimeout = 500
/** How long a client that is still sending gets to see the answer to what will not be read. */
const unreadTimeout = 1_000

/** Where to listen, and as whom: with credentials it is HTTPS. Without a host it is every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
  readonly credentials?: Credentials | undefined
}

/** `localhost` is both loopback addresses, on one port. */
export async function listen(handler: Handler, address: Address): Promise<Listening> {
  if (address.host !== 'localhost') return bind(handler, address)
  const first = await bind(handler, { ...address, host: '127.0.0.1' })
  try {
    const second = await bind(handler, { ...address, host: '::1', port: first.port })
    return { port: first.port, close: async () => void (await Promise.all([first.close(), second.close()])) }
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) return first
    await first.close()
    if (address.port === 0 && code === 'EADDRINUSE') return listen(handler, address)
    throw cause
  }
}

function bind(handler: Handler, { host, port, credentials }: Address): Promise<Listening> {
  const { server, close } = httpServer(handler, credentials)
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
  credentials?: Credentials,
): { readonly server: Server; close(): Promise<void> } {
  let closing = false
  /** Connections that have not brought a request yet; Node does not count them as idle. */
  const unused = new Set<Socket>()
  /** Connections with a request at work, and those that came behind it: they take effect one after the other. */
  const work = new Map<Socket, (() => void)[]>()

  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    if (unused.size > 0) unused.delete(request.socket)
    const behind = work.get(request.socket)
    if (behind) behind.push(() => respond(request, response))
    else respond(request, response)
  }
  const options = {
    maxHeaderSize,
    headersTimeout,
    requestTimeout,
    connectionsCheckingInterval: beat,
    keepAliveTimeout: 0,
  }
  const server = credentials
    ? createSecureServer(
        { ...options, ...credentials, minVersion: 'TLSv1.2', handshakeTimeout: headersTimeout },
        onRequest,
      )
    : createServer(options, onRequest)
  // Node would pass over headers beyond the two-thousandth, a second Authorization among them; their size is limited.
  server.maxHeadersCount = 0
  const watch = watchOver((socket) => work.has(socket))
  server.on(credentials ? 'secureConnection' : 'connection', (socket: Socket) => {
    unused.add(socket)
    watch.add(socket)
    socket.once('close', () => {
      unused.delete(socket)
      work.delete(socket)
    })
  })
  server.once('close', watch.end)

  function respond(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    let isAnswered = false
    handler(request, (answer) => {
      isAnswered = true
      if (closing) response.shouldKeepAlive = false
      send(answer, response)
      if (!request.complete && !request.destroyed && hasBody(request)) letGo(request)
      const behind = work.get(socket)
      const next = behind?.shift()
      if (next) next()
      else if (behind) work.delete(socket)
    })
    if (!isAnswered && !work.has(socket)) work.set(socket, [])
  }

  async function close(): Promise<void> {
    closing = true
    const dropUnused = setTimeout(() => {
      for (const socket of unused) socket.destroy()
    }, unusedTimeout)
    const dropAll = setTimeout(() => server.closeAllConnections(), drainTimeout)
    await new Promise((closed) => server.close(closed))
    clearTimeout(dropUnused)
    clearTimeout(dropAll)
  }
  return { server, close }
}

function send({ status, headers, body = '' }: Answer, response: ServerResponse): void {
  if (status === 204 || status === 304) response.writeHead(status, headers).end()
  else if (typeof body !== 'string') response.writeHead(status, withLength(headers, body.length)).end(body)
  else {
    const length = Buffer.byteLength(body)
    response.writeHead(status, withLength(headers, length))
    // Head and body in one write: `end(body)` makes it two, and each has its price.
    response.socket?.cork()
    response.write(body, length === body.length ? 'latin1' : 'utf8')
    response.socket?.uncork()
    response.end()
  }
}

/** Names and values in turn, as Node takes them. */
function withLength(headers: Answer['headers'], length: number): string[] {
  const list: string[] = []
  for (const name in headers) list.push(name, headers[name] as string)
  list.push('content-length', `${length}`)
  return list
}

const hasBody = (request: IncomingMessage) =>
  header(request, 'content-length') !== undefined || header(request, 'transfer-encoding') !== undefined

function letGo(request: IncomingMessage): void {
  const timer = setTimeout(() => request.destroy(), unreadTimeout)
  request.once('close', () => clearTimeout(timer))
}
