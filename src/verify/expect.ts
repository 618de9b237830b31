import { isDeepStrictEqual } from 'node:util'
import type { Response } from './client.ts'

export class RuleViolation extends Error {
  readonly expected: string
  readonly response: Response | undefined

  constructor(expected: string, response?: Response) {
    super(response ? `expected ${expected}, got ${summarize(response)}` : `expected ${expected}`)
    this.expected = expected
    this.response = response
  }
}

const maxSummaryBodyLength = 300

/** Status, the headers that the rules name, and the start of the body, on one line. */
export function summarize({ status, headers, text }: Response): string {
  const named = ['content-type', 'location', 'allow', 'www-authenticate']
    .filter((name) => headers[name])
    .map((name) => `${name}: ${headers[name]}`)
  const body = text.length > maxSummaryBodyLength ? `${text.slice(0, maxSummaryBodyLength)}…` : text
  return [`status ${status}`, ...named, body === '' ? 'no body' : `body ${body}`].join('; ')
}

export function expectThat(condition: boolean, expected: string, response?: Response): asserts condition {
  if (!condition) throw new RuleViolation(expected, response)
}

export function expectStatus(response: Response, status: number): void {
  expectThat(response.status === status, `status ${status}`, response)
}

export function expectEmpty(response: Response, status: number): void {
  expectStatus(response, status)
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = response.headers
  const declaresBody = response.request.method !== 'HEAD' && (length !== '0' || encoding !== undefined)
  expectThat(response.text === '' && !declaresBody, 'no body', response)
}

/** Accepts the media type with charset utf-8 or none: declaring it is a choice (G3). */
export function expectMediaType(response: Response, mediaType: string): void {
  const [essence = '', ...parameters] = (response.headers['content-type'] ?? '').toLowerCase().split(/\s*;\s*/)
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset)
  expectThat(essence === mediaType && isUtf8, `content-type ${mediaType}`, response)
}

export function expectContentType(response: Response, contentType: string): void {
  const normalized = response.headers['content-type']?.toLowerCase().replace(/\s*;\s*/, '; ')
  expectThat(normalized === contentType, `content-type ${contentType}`, response)
}

export function expectAllow(response: Response, methods: readonly string[]): void {
  const allowed = (response.headers.allow ?? '').split(',').map((method) => method.trim())
  expectThat(isDeepStrictEqual(allowed.sort(), [...methods].sort()), `Allow: ${methods.join(', ')}`, response)
}

export function expectMethodNotAllowed(response: Response, methods: readonly string[]): void {
  expectEmpty(response, 405)
  expectAllow(response, methods)
}

export function expectJson(response: Response, status: number, body: unknown): void {
  expectStatus(response, status)
  expectThat(isDeepStrictEqual(parseJson(response), body), `the body ${stringify(body)}`, response)
}

export function expectArray(response: Response): unknown[] {
  expectStatus(response, 200)
  const body = parseJson(response)
  expectThat(Array.isArray(body), 'a JSON array', response)
  return body
}

/** Integer values of `id` become bigint: JSON.parse would round an int64. */
export function parseJson(response: Response): unknown {
  const marked = response.text.replace(/("id"\s*:\s*)(-?\d+)(?=\s*[,}])/g, '$1"\\u0000$2"')
  try {
    return JSON.parse(marked, (_, value) =>
      typeof value === 'string' && /^\0-?\d+$/.test(value) ? BigInt(value.slice(1)) : value,
    )
  } catch {
    throw new RuleViolation('a JSON body', response)
  }
}

const stringify = (value: unknown) =>
  JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? `int64 ${member}` : member))
