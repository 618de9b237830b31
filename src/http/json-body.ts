import { isUtf8 } from 'node:buffer'
import { MIMEType } from 'node:util'
import { type ErrorCode, Rejection } from './errors.ts'
import type { BodyReader } from './schema.ts'

const byteOrderMark = '\ufeff'
/** What a decoder puts in place of malformed UTF-8. It may also have been sent. */
const replacementCharacter = '\ufffd'

/** G5: the members of the JSON body that the schema names, or what is wrong with it. */
export function parseJson<Body>(bytes: Buffer, read: BodyReader<Body>, maxValues = defaultMaxValues) {
  const error = bytes.length > maxDepth ? findCostlyJson(bytes, maxValues) : undefined
  if (error === 'body-too-large') return new Rejection(error, undefined, `it has more than ${maxValues} values.`)
  if (error) return new Rejection(error)
  // In Deno, a TextDecoder that rejects malformed UTF-8 takes four times as long.
  const text = bytes.toString()
  if (text.includes(replacementCharacter) && !isUtf8(bytes)) return new Rejection('body-malformed')
  try {
    return read(text.startsWith(byteOrderMark) ? text.slice(1) : text)
  } catch {
    return new Rejection('body-malformed')
  }
}

const maxMediaTypeLength = 1_000

/** A JSON media type, its charset absent or UTF-8. */
export function isJson(contentType = ''): boolean {
  if (contentType === 'application/json') return true
  if (contentType.length > maxMediaTypeLength) return false
  try {
    const { essence, params } = new MIMEType(contentType)
    return (
      /^utf-8$/i.test(params.get('charset') ?? 'utf-8') &&
      /^(?:application|text)\/json$|^application\/.+\+json$/.test(essence)
    )
  } catch {
    return false
  }
}

const maxDepth = 1_000
const defaultMaxValues = 10_000
const [quote, backslash, comma, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\,[]{}')

/** A body of nothing but small or nested values takes JSON.parse many times its size in memory and time. */
function findCostlyJson(bytes: Buffer, maxValues: number): ErrorCode | undefined {
  let depth = 0
  let values = 0
  let isInString = false
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (isInString) {
      if (byte === backslash) index++
      else if (byte === quote) isInString = false
    } else if (byte === quote) isInString = true
    else if (byte === closeBracket || byte === closeBrace) depth--
    else if (byte === comma || byte === openBracket || byte === openBrace) {
      if (byte !== comma && ++depth > maxDepth) return 'body-malformed'
      if (++values > maxValues) return 'body-too-large'
    }
  }
  return undefined
}
