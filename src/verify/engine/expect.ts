import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../common/json.ts'
import type { Response } from './client.ts'
import { type Check, ServerFull } from './contract.ts'
import { parseExact, UnacceptableJson } from './json.ts'
import { runState } from './state.ts'

export class RuleViolation extends Error {
  /** A contract may import another copy of this package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'RuleViolation'
  }

  override readonly name = 'RuleViolation'
  readonly expected: string
  readonly response: Response | undefined
  /** Replaces the summary of the response. */
  readonly got: string | undefined
  /** The check could not get as far as its own statement, or sees its effect only through this. */
  prerequisite: string | undefined
  /** The prerequisite is a step towards the statement of the check, and no part of it. */
  isSetup = false
  /** The id of the item that the violation is about, if the request does not name it. */
  aboutId: string | undefined
  /** The rule that is broken, if it is another than that of the check. */
  rule: string | undefined

  constructor(expected: string, response?: Response, got?: string) {
    super(response ? `expected ${expected}, got ${got ?? summarize(response)}` : `expected ${expected}`)
    this.expected = expected
    this.response = response
    this.got = got
  }
}

/**
 * What the checks of a contract build on, by name. With a wrong name, the compiler reports a contract in TypeScript, and a
 * TypeError any other.
 */
export function prerequisites<Name extends string>(...names: readonly Name[]) {
  const known = (name: Name): Name => {
    if (!names.includes(name)) throw new TypeError(`No check provides "${name}", only ${names.join(', ')}.`)
    return name
  }
  return {
    /** Others build on this check. */
    providing: (name: Name, check: Check): Check => ({ ...check, provides: known(name) }),
    /** A step towards the statement of a check: if it fails, the check cannot be judged. */
    setUp: <T>(name: Name, expectations: () => T): T => marking(known(name), true, expectations),
    /** The effect that a check states, as another operation shows it. */
    observe: <T>(name: Name, expectations: () => T): T => marking(known(name), false, expectations),
    /** Whether the check that provides this has failed. */
    hasFailed: (name: Name): boolean => runState().basics.get(known(name)) !== undefined,
  }
}

function marking<T>(prerequisite: string, isSetup: boolean, expectations: () => T): T {
  return changing(expectations, (violation) => {
    if (violation.prerequisite) return
    violation.prerequisite = prerequisite
    violation.isSetup = isSetup
  })
}

/** A violation of these expectations breaks this rule, whatever the check is about. */
export const citing = <T>(rule: string | undefined, expectations: () => T): T =>
  changing(expectations, (violation) => {
    violation.rule ??= rule
  })

function changing<T>(expectations: () => T, change: (violation: RuleViolation) => void): T {
  try {
    return expectations()
  } catch (cause) {
    if (cause instanceof RuleViolation) change(cause)
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

export const isSuccess = ({ status }: Pick<Response, 'status'>) => status >= 200 && status <= 299

/** Another check states the exact status. */
export function expectSuccess(response: Response): void {
  expectThat(isSuccess(response), 'a success status (2xx)', response)
}

/**
 * For a small, valid item: a server without room for it is not to blame. `refusal` is the body of a response 400 with
 * which servers of the contract refuse it.
 */
export function expectRoom(response: Response, refusal?: string): void {
  const { status, text } = response
  if (status === 503 || status === 507 || (status === 400 && text === refusal)) throw new ServerFull(response)
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
  // Other responses than 204 may have a chunked body of no bytes.
  const declaresBody = response.request.method !== 'HEAD' && (length !== '0' || (encoding && status === 204))
  expectThat(response.text === '' && !declaresBody, 'no body', response)
}

const contentTypeOf = ({ headers }: Response) =>
  (headers['content-type'] ?? '').split(';').map((part) => part.trim().toLowerCase().replaceAll('"', ''))

/** Accepts the media type with charset utf-8 or none: whether it is declared is the business of other checks. */
export function expectMediaType(response: Response, mediaType: string): void {
  const [essence = '', ...parameters] = contentTypeOf(response)
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || charset === 'charset=utf-8'
  expectThat(essence === mediaType && isUtf8, `content-type ${mediaType}`, response)
}

/** In any charset: a text of ASCII characters is the same in all of them. */
export function expectTextType(response: Response): void {
  expectThat(contentTypeOf(response)[0] === 'text/plain', 'content-type text/plain', response)
}

export function expectContentType(response: Response, contentType: string): void {
  expectThat(contentTypeOf(response).join('; ') === contentType, `content-type ${contentType}`, response)
}

/** OPTIONS may be listed, too. */
export function expectAllow(response: Response, methods: readonly string[]): void {
  const allowed = (response.headers.allow ?? '').split(',').map((method) => method.trim())
  const others = allowed.filter((method) => method !== 'OPTIONS')
  expectThat(isDeepStrictEqual(others.sort(), [...methods].sort()), `Allow: ${methods.join(', ')}`, response)
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

export function expectMembers(response: Response, expected: object): Record<string, unknown> {
  const value = expectObject(response)
  expectThat(hasMembers(value, expected), `an item with ${stringify(expected)}`, response)
  return value
}

/** Whether members are missing or left over. */
export function expectExactly(response: Response, value: object, members: readonly string[]): void {
  const returned = Object.keys(value).sort()
  expectThat(isDeepStrictEqual(returned, [...members].sort()), `exactly the members ${members.join(', ')}`, response)
}

const parsed = new WeakMap<Response, { readonly value: unknown }>()

/** An integer beyond 2^53 becomes a bigint. */
export function parseJson(response: Response): unknown {
  const known = parsed.get(response)
  if (known) return known.value
  try {
    const value = parseExact(response.text)
    parsed.set(response, { value })
    return value
  } catch (cause) {
    throw new RuleViolation(cause instanceof UnacceptableJson ? cause.message : 'a JSON body', response)
  }
}

export const stringify = (value: unknown) =>
  JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? `${member}` : member))
