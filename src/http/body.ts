import type { IncomingMessage } from 'node:http'
import { Refusal } from './refusal.ts'

/** G5: the request's body as text, or why it is refused. */
export async function readText(request: IncomingMessage, limit: number): Promise<string | Refusal> {
  if (!isJson(request.headers['content-type'])) return new Refusal('media-type-refused')
  const bytes = await readBytes(request, limit)
  return bytes instanceof Refusal ? bytes : decode(bytes)
}

const token = "[\\w!#$%&'*+.^`|~-]+"
const jsonType = new RegExp(`^(?:application/${token}\\+json|(?:application|text)/json)`, 'i')
const parameter = new RegExp(`[ \\t]*;[ \\t]*(?:(${token})=(?:(${token})|"((?:[^"\\\\]|\\\\.)*)"))?`, 'y')

/** A JSON media type, its charset absent or UTF-8. */
function isJson(contentType = ''): boolean {
  const type = jsonType.exec(contentType)
  if (!type) return false
  parameter.lastIndex = type[0].length
  while (parameter.lastIndex < contentType.length) {
    const [, name = '', plain = '', quoted = plain] = parameter.exec(contentType) ?? []
    if (parameter.lastIndex === 0) return false
    if (name.toLowerCase() === 'charset' && quoted.toLowerCase() !== 'utf-8') return false
  }
  return true
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
