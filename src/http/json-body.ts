import { isUtf8 } from 'node:buffer'
import { MIMEType } from 'node:util'
import { bodyError, Rejection } from './errors.ts'
import { describeSyntaxError, positionIn } from './json-syntax.ts'

const byteOrderMark = '\ufeff'
/** A decoder replaces malformed UTF-8 by this character. A client may also have sent the character itself. */
const replacementCharacter = '\ufffd'
const replacementBytes = Buffer.from(replacementCharacter)

/** G5: returns the members of the JSON body that the schema names, or the mistakes in it. */
export function parseJson<Body, Input>(
  bytes: Buffer,
  read: (text: string, input: Input) => Body | Rejection,
  input: Input,
  maxValues = defaultMaxValues,
) {
  const error = bytes.length > maxDepth ? findCostlyJson(bytes, maxValues) : undefined
  if (error) return error
  // A TextDecoder with `fatal` would reject malformed UTF-8, but takes four times as long on Deno.
  const text = bytes.toString()
  const start = text.startsWith(byteOrderMark) ? byteOrderMark.length : 0
  const json = text.slice(start)
  if (text.includes(replacementCharacter) && !isUtf8(bytes))
    return bodyError(`The body is not UTF-8 at ${positionIn(json, malformedUtf8In(text, bytes) - start)}.`)
  try {
    return read(json, input)
  } catch {
    return bodyError(describeSyntaxError(json))
  }
}

/** Returns the index of the first replacement character that was not sent, but stands for malformed bytes. */
function malformedUtf8In(text: string, bytes: Buffer): number {
  let [index, byteIndex] = [0, 0]
  for (const part of text.split(replacementCharacter)) {
    index += part.length
    byteIndex += Buffer.byteLength(part)
    if (!bytes.subarray(byteIndex, byteIndex + replacementBytes.length).equals(replacementBytes)) break
    index++
    byteIndex += replacementBytes.length
  }
  return index
}

/** Whether this is a JSON media type whose charset is absent or UTF-8. */
export function isJson(contentType = ''): boolean {
  if (contentType === 'application/json') return true
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

/** Rejects too many or too deeply nested values: parsing them would take many times the size of the body in memory. */
function findCostlyJson(bytes: Buffer, maxValues: number): Rejection | undefined {
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
      if (byte !== comma && ++depth > maxDepth) return bodyError('The body is nested more than 1,000 levels deep.')
      if (++values > maxValues)
        return new Rejection('body-too-large', undefined, `it has more than ${maxValues} values.`)
    }
  }
  return undefined
}
