import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { type Allowance, Pace } from './pace.ts'

/** Chunks of a body that may always come in one go. */
const fewChunks = 100

/** Each chunk costs as much as a thousand bytes, and `data` comes only when all that came in one go is parsed. */
export function watchChunks(request: IncomingMessage, allowance: Allowance, refuse: () => void): void {
  const { socket } = request
  const pace = new Pace(fewChunks)
  request.push = (chunk: Buffer | null) => {
    if (chunk === null || !pace.isTooFast(socket.bytesRead, allowance))
      return Readable.prototype.push.call(request, chunk)
    refuse()
    passOver(request)
    return false
  }
}

/** What else has come of a body is dropped. Node's parser cannot stop there, but need not make a buffer of each chunk. */
export function passOver(request: IncomingMessage): void {
  const socket: Socket & { parser?: Record<string, unknown> } = request.socket
  // Node would read on to have more of it.
  request._read = () => {}
  socket.pause()
  const { parser = {} } = socket
  const place = Object.keys(parser).find((key) => (parser[key] as { name?: string } | null)?.name === 'parserOnBody')
  if (place === undefined) return
  const take = parser[place]
  parser[place] = undefined
  // It serves another connection afterwards.
  socket.once('close', () => {
    parser[place] = take
  })
}
