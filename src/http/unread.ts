import type { IncomingMessage } from 'node:http'
import { passOver } from './crumbs.ts'
import { header } from './header.ts'

/** How long a client that is still sending gets to see the answer to what will not be read. */
const unreadTimeout = 1_000
/** How much of what will not be used is read. */
const mostUnread = 64 * 1024

export const hasBody = (request: IncomingMessage) =>
  (header(request, 'content-length') ?? '0') !== '0' || header(request, 'transfer-encoding') !== undefined

/** A body that may be passed over, so that the connection can go on. */
export const isSmall = (request: IncomingMessage) => Number(header(request, 'content-length')) <= mostUnread

/** Gives the client time to see the answer, without taking much more of what it sends. */
export function letGo(request: IncomingMessage): void {
  let unread = 0
  request.on('data', (chunk: Buffer) => {
    unread += chunk.length
    if (unread > mostUnread) passOver(request)
  })
  request.resume()
  const timer = setTimeout(() => request.destroy(), unreadTimeout)
  request.once('close', () => clearTimeout(timer))
}
