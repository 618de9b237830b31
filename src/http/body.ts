import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { Refusal } from './refusal.ts'

/** G5: the request's body as text, or why it is refused. */
export async function readText(request: IncomingMessage, limit: number): Promise<string | Refusal> {
  if (!isJson(request.headers['content-type'])) return new Refusal('media-type-refused')
  const bytes = await readBytes(request, limit)
  return bytes instanceof Refusal ? bytes : decode(bytes)
}

/** A JSON media type, its charset absent or UTF-8. */
function isJson(contentType = ''): boolean {
  try {
    const { essence, params } = new MIMEType(contentType)
    const isUtf8 = /^utf-8$/i.test(params.get('charset') ?? 'utf-8')
    return isUtf8 && /^(?:application|text)\/json$|^application\/.+\+json$/.test(essence)
  } catch {
    return false
  }
}

function readBytes(request: IncomingMessage, limit: number): Promise<Buffer | Refusal> {
  return new Promise((resolve) => {
    if (Number(request.headers['content-length']) > limit) return resolve(new Refusal('body-too-large'))
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= limit) chunks.push(chunk)
      else resolve(new Refusal('body-too-large'))
    })
    request.on('end', () => resolve(Buffer.concat(chunks)))
    // Cut off half-way: whoever sent it is gone, and nothing of it is stored.
    const cutOff = () => resolve(new Refusal('body-malformed'))
    request.on('close', cutOff)
    if (request.destroyed) cutOff()
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Buffer): string | Refusal {
  try {
    return utf8.decode(bytes)
  } catch {
    return new Refusal('body-malformed')
  }
}
