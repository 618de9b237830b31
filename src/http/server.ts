import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Answer } from './answer.ts'

export type Handler = (request: IncomingMessage) => Promise<Answer>

export interface Listening {
  readonly port: number
  /** Takes no more connections, answers the requests in flight, then is done. */
  close(): Promise<void>
}

/** B11: room for an id of 1,024 characters, each up to twelve when percent-encoded, beside the other headers. */
const maxHeaderSize = 32 * 1024
/** How long requests in flight may take once the service stops. */
const drainTimeout = 10_000
/** How long a client that is still sending gets to see the answer to what will not be read. */
const unreadTimeout = 1_000

/** `localhost` is both loopback addresses, on one port; without a host it is every interface. */
export async function listen(handler: Handler, host: string | undefined, port: number): Promise<Listening> {
  const first = await bind(handler, host === 'localhost' ? '127.0.0.1' : host, port)
  const servers = [first]
  const bound = (first.address() as AddressInfo).port
  const close = async () => void (await Promise.all(servers.map(drain)))
  if (host === 'localhost') {
    try {
      servers.push(await bind(handler, '::1', bound))
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const noIPv6 = code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT'
      if (!noIPv6) {
        await close()
        if (code === 'EADDRINUSE' && port === 0) return listen(handler, host, port)
        throw cause
      }
    }
  }
  return { port: bound, close }
}

function bind(handler: Handler, address: string | undefined, port: number): Promise<Server> {
  const server = httpServer(handler)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: address, port }, () => resolve(server.off('error', reject)))
  })
}

const draining = new WeakSet<Server>()

export function httpServer(handler: Handler): Server {
  const server = createServer({ maxHeaderSize }, async (request, response) => {
    const answer = await handler(request)
    if (draining.has(server)) response.shouldKeepAlive = false
    send(answer, response)
    if (!request.complete) letGo(request)
  })
  return server
}

async function drain(server: Server): Promise<void> {
  draining.add(server)
  const cut = setTimeout(() => server.closeAllConnections(), drainTimeout)
  await new Promise((closed) => server.close(closed))
  clearTimeout(cut)
}

function send({ status, headers, body }: Answer, response: ServerResponse): void {
  const length = status === 204 ? {} : { 'content-length': Buffer.byteLength(body ?? '') }
  response.writeHead(status, { ...headers, ...length }).end(body)
}

function letGo(request: IncomingMessage): void {
  const timer = setTimeout(() => request.destroy(), unreadTimeout)
  request.once('close', () => clearTimeout(timer))
}
