import type { ServerResponse } from 'node:http'
import type { Answer } from './answer.ts'

export function send({ status, headers, body = '' }: Answer, response: ServerResponse): void {
  if (status === 204 || status === 304) response.writeHead(status, headers).end()
  else if (typeof body !== 'string' || body.length > slice) {
    const parts = typeof body === 'string' ? [Buffer.from(body)] : body
    response.writeHead(status, withLength(headers, sizeOf(parts)))
    sendSlices(response, slicesOf(parts))
  } else {
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

function* slicesOf(body: readonly Buffer[]): Iterator<Buffer, undefined> {
  for (const part of body)
    for (let at = 0; at < part.length; at += slice) yield part.length <= slice ? part : part.subarray(at, at + slice)
}

/** So many of them in one go, and more when they are taken. */
function sendSlices(response: ServerResponse, slices: Iterator<Buffer, undefined>): void {
  let sent = 0
  let isTaken = true
  response.socket?.cork()
  for (let next = slices.next(); ; next = slices.next()) {
    if (next.value === undefined) break
    isTaken = response.write(next.value)
    sent += next.value.length
    if (sent >= slice) break
  }
  response.socket?.uncork()
  if (sent < slice) response.end()
  else if (isTaken) sendSlices(response, slices)
  else response.once('drain', () => sendSlices(response, slices))
}

const sizeOf = (body: readonly Buffer[]) => body.reduce((sum, { length }) => sum + length, 0)

/** Names and values in turn, as Node takes them. */
function withLength(headers: Answer['headers'], length: number): string[] {
  const list: string[] = []
  for (const name in headers) list.push(name, headers[name] as string)
  list.push('x-content-type-options', 'nosniff', 'content-length', `${length}`)
  return list
}
