import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Eventually } from '../eventually.ts'
import type { Answer } from './answer.ts'
import type { Credentials } from './https.ts'

export type Handler = (request: IncomingMessage) => Eventually<Answer>

export interface Listening {
  readonly port: number
  /** Takes no more connections, answers the requests in flight, then is done. */
  close(): Promise<void>
}

/** B11: room for an id of 1,024 characters, each up to twelve when percent-encoded, beside the other headers. */
const maxHeaderSize = 32 * 1024
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
  /** Connections that have not brought a request yet, by their far end; Node does not count them as idle. */
  const unused = new Map<string, Socket>()
  /** What a connection is at work on: requests that come in one go take effect one after the other. */
  const work = new Map<Socket, Promise<void>>()

  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if (unused.size > 0) unused.delete(farEnd(socket))
    const before = work.get(socket)
    const now = before ? before.then(() => respond(request, response)) : respond(request, response)
    if (!now) return
    const done = now.then(() => {
      if (work.get(socket) === done) work.delete(socket)
    })
    work.set(socket, done)
  }
  const server = credentials
    ? createSecureServer({ ...credentials, minVersion: 'TLSv1.2', maxHeaderSize }, onRequest)
    : createServer({ maxHeaderSize }, onRequest)
  // Node would pass over headers beyond the two-thousandth, a second Authorization among them; their size is limited.
  server.maxHeadersCount = 0
  server.on('connection', (socket: Socket) => {
    const end = farEnd(socket)
    unused.set(end, socket)
    socket.once('close', () => unused.delete(end))
  })

  function respond(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    const answer = handler(request)
    if (answer instanceof Promise)
      return answer.then(
        (later) => finish(request, response, later),
        () => void response.destroy(),
      )
    finish(request, response, answer)
    return undefined
  }

  function finish(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
    if (closing) response.shouldKeepAlive = false
    send(answer, response)
    if (!request.complete && !request.destroyed) letGo(request)
  }

  async function close(): Promise<void> {
    closing = true
    const dropUnused = setTimeout(() => {
      for (const socket of unused.values()) socket.destroy()
    }, unusedTimeout)
    const dropAll = setTimeout(() => server.closeAllConnections(), drainTimeout)
    await new Promise((closed) => server.close(closed))
    clearTimeout(dropUnused)
    clearTimeout(dropAll)
  }
  return { server, close }
}

const farEnd = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`

function send({ status, headers, body }: Answer, response: ServerResponse): void {
  if (status === 204 || status === 304) response.writeHead(status, headers).end()
  else if (typeof body !== 'string')
    response.writeHead(status, { ...headers, 'content-length': body?.length ?? 0 }).end(body)
  else {
    const length = Buffer.byteLength(body)
    // Where every character is a byte, Node need not count them again.
    const encoding = length === body.length ? 'latin1' : 'utf8'
    response.writeHead(status, { ...headers, 'content-length': length }).end(body, encoding)
  }
}

function letGo(request: IncomingMessage): void {
  const timer = setTimeout(() => request.destroy(), unreadTimeout)
  request.once('close', () => clearTimeout(timer))
}
