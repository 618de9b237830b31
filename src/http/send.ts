import type { ServerResponse } from 'node:http'
import type { Answer } from './answer.ts'

export function send({ status, headers, body = '' }: Answer, response: ServerResponse): void {
  if (status === 204 || status === 304) response.writeHead(status, headers).end()
  else if (typeof body !== 'string') sendSlices(response.writeHead(status, withLength(headers, body.length)), body)
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

/** Small enough to see that a slow client takes them. */
const slice = 256 * 1024

function sendSlices(response: ServerResponse, body: Buffer, from = 0): void {
  const to = from + slice
  if (to >= body.length) response.end(from === 0 ? body : body.subarray(from))
  else if (response.write(body.subarray(from, to))) sendSlices(response, body, to)
  else response.once('drain', () => sendSlices(response, body, to))
}

/** Names and values in turn, as Node takes them. */
function withLength(headers: Answer['headers'], length: number): string[] {
  const list: string[] = []
  for (const name in headers) list.push(name, headers[name] as string)
  list.push('x-content-type-options', 'nosniff', 'content-length', `${length}`)
  return list
}
