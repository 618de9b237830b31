import { isDeepStrictEqual } from 'node:util'
import type { Prerequisite } from './check.ts'
import type { Response } from './client.ts'

export class RuleViolation extends Error {
  readonly expected: string
  readonly response: Response | undefined
  /** Replaces the summary of the response. */
  readonly got: string | undefined
  /** The check could not get as far as its own statement, or sees its effect only through this. */
  prerequisite: Prerequisite | undefined
  /** The prerequisite is a step towards the statement of the check, and no part of it. */
  isSetup = false

  constructor(expected: string, response?: Response, got?: string) {
    super(response ? `expected ${expected}, got ${got ?? summarize(response)}` : `expected ${expected}`)
    this.expected = expected
    this.response = response
    this.got = got
  }
}

/** A step towards the statement of a check: if it fails, the check cannot be judged. */
export function setUp<T>(prerequisite: Prerequisite, expectations: () => T): T {
  return marking(prerequisite, true, expectations)
}

/** The effect that a check states, as another operation shows it. */
export function observe<T>(prerequisite: Prerequisite, expectations: () => T): T {
  return marking(prerequisite, false, expectations)
}

function marking<T>(prerequisite: Prerequisite, isSetup: boolean, expectations: () => T): T {
  try {
    return expectations()
  } catch (cause) {
    if (cause instanceof RuleViolation && !cause.prerequisite) {
      cause.prerequisite = prerequisite
      cause.isSetup = isSetup
    }
    throw cause
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

/** For requests whose exact status another check states. */
export function expectSuccess(response: Response): void {
  expectThat(response.status >= 200 && response.status <= 299, 'a success status (2xx)', response)
}

export function expectClientError(response: Response): void {
  expectThat(response.status >= 400 && response.status <= 499, 'a client error status (4xx)', response)
}

export function expectServed(response: Response): void {
  const { method, path } = response.request
  if (response.status === 404) throw new RuleViolation(`${method} ${path} to be served`, response, 'not served (404)')
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

export function expectObject(response: Response): Record<string, unknown> {
  const body = parseJson(response)
  expectThat(isObject(body), 'a JSON object', response)
  return body
}

/** An array of objects; their members are not checked. */
export function expectItems<T = Record<string, unknown>>(response: Response): T[] {
  const list = expectArray(response)
  expectThat(list.every(isObject), 'an array of JSON objects', response)
  return list as T[]
}

/** Other members than the expected ones are the business of the checks for exactly the members. */
export const hasMembers = (value: Record<string, unknown>, expected: object) =>
  Object.entries(expected).every(([name, member]) => isDeepStrictEqual(value[name], member))

export function expectMembers(response: Response, expected: object): void {
  expectThat(hasMembers(expectObject(response), expected), `an item with ${stringify(expected)}`, response)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

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
