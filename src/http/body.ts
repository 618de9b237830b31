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

function collect(request: IncomingMessage, limit: number, done: (bytes: Buffer | Refusal) => void): void {
  const chunks: Buffer[] = []
  let length = 0
  let isDone = false
  const end = (bytes: Buffer | Refusal) => {
    if (isDone) return
    isDone = true
    done(bytes)
  }
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= limit) chunks.push(chunk)
    else end(new Refusal('body-too-large'))
  })
  request.on('end', () => end(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
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
