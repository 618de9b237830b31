import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { Gathered, isTooMuchHeld } from './gathered.ts'
import { header, isSingle, isTooMany } from './header.ts'
import { Refusal } from './refusal.ts'

/** G5: the request's body as text, or why it is refused. */
export function readText(request: IncomingMessage, limit: number, done: (text: string | Refusal) => void): void {
  if (!isJson(header(request, 'content-type'))) done(new Refusal('media-type-refused'))
  else readBody(request, limit, (body) => done(body instanceof Refusal ? body : decode(body)))
}

/** Bytes in pieces; they are used for something else afterwards. */
type Body = readonly Buffer[]

/** The request's body, whole, or why it is refused. */
export function readBody(request: IncomingMessage, limit: number, done: (body: Body | Refusal) => void): void {
  const whole = Number(header(request, 'content-length') ?? 0)
  if (whole > limit) done(new Refusal('body-too-large'))
  else collect(request, whole, limit, done)
}

function collect(request: IncomingMessage, whole: number, limit: number, done: (body: Body | Refusal) => void): void {
  let gathered: Gathered | undefined
  let isDone = false
  const end = (outcome: Body | Refusal) => {
    if (isDone) return
    isDone = true
    try {
      done(outcome)
    } finally {
      gathered?.release()
      // The request may stay for a while.
      gathered = undefined
    }
  }
  request.on('data', (piece: Buffer) => {
    if (isDone) return
    // Nearly every body comes in one piece.
    if (!gathered && piece.length === whole) return end([piece])
    gathered ??= new Gathered(request, whole)
    if (gathered.length + piece.length > limit) return end(new Refusal('body-too-large'))
    gathered.add(piece)
    if (isTooMuchHeld()) end(new Refusal('overloaded'))
  })
  request.on('end', () => {
    const { rawTrailers } = request
    if (isTooMany(rawTrailers)) end(new Refusal('body-too-large'))
    else if (rawTrailers.some((name, at) => at % 2 === 0 && isSingle(name))) end(new Refusal('header-doubled'))
    else end(gathered?.pieces ?? [])
  })
  // Cut off half-way: whoever sent it is gone, and nothing of it is stored.
  const cutOff = () => end(new Refusal('body-malformed', undefined, 'it did not come in full'))
  request.on('close', cutOff)
  if (request.destroyed) cutOff()
}

const longestMediaType = 1_000

/** A JSON media type, its charset absent or UTF-8. */
function isJson(contentType = ''): boolean {
  if (contentType === 'application/json') return true
  if (contentType.length > longestMediaType) return false
  try {
    const { essence, params } = new MIMEType(contentType)
    const isUtf8 = /^utf-8$/i.test(params.get('charset') ?? 'utf-8')
    return isUtf8 && /^(?:application|text)\/json$|^application\/.+\+json$/.test(essence)
  } catch {
    return false
  }
}

function decode(body: Body): string | Refusal {
  const wrong = costOf(body)
  if (wrong) return new Refusal(wrong)
  const bytes = body.length === 1 ? (body[0] as Buffer) : Buffer.concat(body)
  if (!isUtf8(bytes)) return new Refusal('body-malformed')
  const text = bytes.toString()
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

/** Arrays and objects within each other, and values: with more, a body costs many times its size to read. */
const mostDeep = 1_000
const mostValues = 10_000
const [quote, backslash, comma, openingBracket, closingBracket, openingBrace, closingBrace] = Buffer.from('"\\,[]{}')

/** Why a body would cost too much, if so. */
function costOf(body: Body): 'body-malformed' | 'body-too-large' | undefined {
  if (body.length === 1 && (body[0] as Buffer).length <= mostDeep) return undefined
  let [depth, values, isText, isEscaped] = [0, 0, false, false]
  for (const piece of body)
    for (const byte of piece)
      if (isEscaped) isEscaped = false
      else if (isText && byte === backslash) isEscaped = true
      else if (byte === quote) isText = !isText
      else if (isText) continue
      else if (byte === closingBracket || byte === closingBrace) depth--
      else if (byte === comma || byte === openingBracket || byte === openingBrace) {
        if (byte !== comma && ++depth > mostDeep) return 'body-malformed'
        if (++values > mostValues) return 'body-too-large'
      }
  return undefined
}
