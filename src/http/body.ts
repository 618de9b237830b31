import type { IncomingMessage } from 'node:http'
import { Refusal } from './refusal.ts'

/** G5: the request's body as text, or why it is refused. */
export async function readText(request: IncomingMessage, limit: number): Promise<string | Refusal> {
  if (!isJson(request.headers['content-type'])) return new Refusal('media-type-refused')
  const bytes = await readBytes(request, limit)
  return bytes instanceof Refusal ? bytes : decode(bytes)
}

function isJson(contentType = ''): boolean {
  const [mediaType = '', ...parameters] = contentType.split(';')
  return (
    /^(?:application|text)\/json$|^application\/[\w!#$&^.+-]+\+json$/i.test(mediaType.trim()) &&
    parameters.every(isUtf8)
  )
}

function isUtf8(parameter: string): boolean {
  const [name = '', value = ''] = parameter.split('=')
  return name.trim().toLowerCase() !== 'charset' || /^("?)utf-8\1$/i.test(value.trim())
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
    request.on('close', () => resolve(new Refusal('body-malformed')))
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
