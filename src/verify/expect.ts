import { isDeepStrictEqual } from 'node:util'
import type { Received } from './service.ts'

/** A rule is broken: what was expected of an answer, and the answer that came. */
export class Broken extends Error {
  readonly expected: string
  readonly received: Received | undefined

  constructor(expected: string, received?: Received) {
    super(received ? `expected ${expected}, got ${outline(received)}` : `expected ${expected}`)
    this.expected = expected
    this.received = received
  }
}

/** Status, the headers that matter, and the body, on one line. */
export function outline({ status, headers, text }: Received): string {
  const names = ['content-type', 'location', 'allow', 'www-authenticate']
  const told = names.filter((name) => headers[name]).map((name) => `${name}: ${headers[name]}`)
  const body = text.length > 300 ? `${text.slice(0, 300)}…` : text
  return [`status ${status}`, ...told, body === '' ? 'no body' : `body ${body}`].join('; ')
}

export function expectThat(holds: boolean, expected: string, received?: Received): asserts holds {
  if (!holds) throw new Broken(expected, received)
}

export function expectStatus(received: Received, status: number): void {
  expectThat(received.status === status, `status ${status}`, received)
}

export function expectEmpty(received: Received, status: number): void {
  expectStatus(received, status)
  const { 'content-length': length, 'transfer-encoding': encoding } = received.headers
  const announced = received.sent.method !== 'HEAD' && ((length ?? '0') !== '0' || encoding !== undefined)
  expectThat(received.text === '' && !announced, 'no body', received)
}

/** A profile B error: the code's name as plain text and nothing else. */
export function expectCode(received: Received, status: number, code: string): void {
  expectStatus(received, status)
  expectThat(received.text === code, `the body ${code}`, received)
}

/** A media type in UTF-8; to name the charset is a choice. */
export function expectMedia(received: Received, type: string): void {
  const [essence = '', ...parameters] = (received.headers['content-type'] ?? '').toLowerCase().split(/\s*;\s*/)
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset)
  expectThat(essence === type && isUtf8, `content-type ${type}`, received)
}

export function expectType(received: Received, type: string): void {
  const sent = received.headers['content-type']?.toLowerCase().replace(/\s*;\s*/, '; ')
  expectThat(sent === type, `content-type ${type}`, received)
}

export function expectAllow(received: Received, methods: readonly string[]): void {
  const allowed = (received.headers.allow ?? '').split(',').map((method) => method.trim())
  expectThat(isDeepStrictEqual(allowed.sort(), [...methods].sort()), `Allow: ${methods.join(', ')}`, received)
}

export function expectBody(received: Received, status: number, body: unknown): void {
  expectStatus(received, status)
  expectThat(isDeepStrictEqual(jsonOf(received), body), `the body ${show(body)}`, received)
}

export function expectArray(received: Received): unknown[] {
  expectStatus(received, 200)
  const body = jsonOf(received)
  expectThat(Array.isArray(body), 'a JSON array', received)
  return body
}

/** The body as a value; an `id` that is an integer comes as a bigint, because JSON.parse would round it. */
export function jsonOf(received: Received): unknown {
  const marked = received.text.replace(/("id"\s*:\s*)(-?\d+)(?=\s*[,}])/g, '$1"\\u0000$2"')
  try {
    return JSON.parse(marked, (_, value) =>
      typeof value === 'string' && /^\0-?\d+$/.test(value) ? BigInt(value.slice(1)) : value,
    )
  } catch {
    throw new Broken('a JSON body', received)
  }
}

const show = (value: unknown) =>
  JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? `int64 ${member}` : member))
