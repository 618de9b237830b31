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

/** One body in one place: many small chunks must not cost more than one large one. */
class Gathered {
  #bytes = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  add(chunk: Buffer): void {
    const least = this.#length + chunk.length
    if (least > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, least))
      this.#bytes.copy(larger, 0, 0, this.#length)
      held += larger.length - this.#bytes.length
      this.#bytes = larger
    }
    chunk.copy(this.#bytes, this.#length)
    this.#length = least
  }

  release(): void {
    held -= this.#bytes.length
  }
}

function collect(request: IncomingMessage, limit: number, done: (bytes: Buffer | Refusal) => void): void {
  const whole = Number(header(request, 'content-length'))
  let gathered: Gathered | undefined
  let isDone = false
  const end = (outcome: Buffer | Refusal) => {
    if (isDone) return
    isDone = true
    gathered?.release()
    done(outcome)
  }
  request.on('data', (chunk: Buffer) => {
    if (isDone) return
    // Nearly every body comes in one piece.
    if (!gathered && chunk.length === whole) return end(chunk)
    gathered ??= new Gathered()
    if (gathered.length + chunk.length > limit) return end(new Refusal('body-too-large'))
    gathered.add(chunk)
    if (held > mostHeld) end(new Refusal('overloaded'))
  })
  request.on('end', () => end(gathered?.bytes ?? Buffer.alloc(0)))
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
