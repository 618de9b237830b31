import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { header } from './header.ts'
import { Refusal } from './refusal.ts'

/** G5: the request's body as text, or why it is refused. */
export function readText(request: IncomingMessage, limit: number, done: (text: string | Refusal) => void): void {
  if (!isJson(header(request, 'content-type'))) done(new Refusal('media-type-refused'))
  else if (Number(header(request, 'content-length')) > limit) done(new Refusal('body-too-large'))
  else collect(request, limit, (bytes) => done(bytes instanceof Refusal ? bytes : decode(bytes)))
}

/** Bytes of bodies that are not whole yet, of all clients; beyond this there is too much to do. */
const mostHeld = 64 * 2 ** 20
let held = 0

/** One text in one place: many small chunks must not cost more than one large one. */
function collect(request: IncomingMessage, limit: number, done: (bytes: Buffer | Refusal) => void): void {
  let bytes: Buffer | undefined
  let room = 0
  let length = 0
  let isDone = false
  const end = (outcome: Buffer | Refusal) => {
    if (isDone) return
    isDone = true
    held -= room
    bytes = undefined
    done(outcome)
  }
  const grow = (least: number) => {
    const larger = Buffer.allocUnsafeSlow(Math.min(limit, Math.max(2 * room, least)))
    bytes?.copy(larger, 0, 0, length)
    held += larger.length - room
    room = larger.length
    bytes = larger
  }
  const add = (chunk: Buffer) => {
    if (length + chunk.length > room) grow(length + chunk.length)
    if (bytes) chunk.copy(bytes, length)
    length += chunk.length
    if (held > mostHeld) end(new Refusal('overloaded'))
  }
  const whole = Number(header(request, 'content-length'))
  request.on('data', (chunk: Buffer) => {
    if (isDone) return
    if (length + chunk.length > limit) end(new Refusal('body-too-large'))
    else if (chunk.length === whole) end(chunk)
    else add(chunk)
  })
  request.on('end', () => end(bytes?.subarray(0, length) ?? Buffer.alloc(0)))
  // Cut off half-way: whoever sent it is gone, and nothing of it is stored.
  request.on('close', () => end(new Refusal('body-malformed')))
  if (request.destroyed) end(new Refusal('body-malformed'))
}

/** A JSON media type, its charset absent or UTF-8. */
function isJson(contentType = ''): boolean {
  if (contentType === 'application/json') return true
  try {
    const { essence, params } = new MIMEType(contentType)
    const isUtf8 = /^utf-8$/i.test(params.get('charset') ?? 'utf-8')
    return isUtf8 && /^(?:application|text)\/json$|^application\/.+\+json$/.test(essence)
  } catch {
    return false
  }
}

function decode(bytes: Buffer): string | Refusal {
  if (!isUtf8(bytes)) return new Refusal('body-malformed')
  const text = bytes.toString()
  return text.startsWith('\ufeff') ? text.slice(1) : text
}
