import { bodyError, type ErrorCode, Rejection } from './errors.ts'
import { int64, int64Member, quoteNumbers } from './int64.ts'

/** A JSON object. Request check, types and OpenAPI document come from this one statement. */
export interface ObjectSchema {
  readonly name: string
  readonly members: Members
  readonly example: Readonly<Record<string, unknown>>
}

/** Members are described as in an OpenAPI 3.0 schema. In a request, a member without a default is required. */
type Members = Readonly<Record<string, MemberSchema>>

export type MemberSchema =
  | {
      readonly type: 'string'
      readonly nullable?: true
      readonly default?: string | null
      readonly pattern?: string
      readonly maxLength?: number
      readonly format?: 'date-time'
      readonly enum?: readonly (string | null)[]
    }
  | { readonly type: 'boolean'; readonly default?: boolean }
  | {
      readonly type: 'integer'
      readonly format: 'int32' | 'int64'
      readonly minimum?: number
      readonly maximum?: number
      readonly default?: never
    }

/**
 * The pattern of a text that is not blank. It matches the whole text: C# and Java clients demand that of a pattern, while
 * one of a JSON schema may match a part.
 */
export const notBlank = '^[\\s\\S]*\\S[\\s\\S]*$'

type FromMember<M extends MemberSchema> = M extends { type: 'string' }
  ? string | (M extends { nullable: true } ? null : never)
  : M extends { type: 'boolean' }
    ? boolean
    : /** A canonical decimal: a JavaScript number cannot hold every int64. */ string

export type FromSchema<S extends ObjectSchema> = FromMembers<S['members']>

type FromMembers<M extends Members> = { readonly [Name in keyof M]: FromMember<M[Name]> }

/** Throws a SyntaxError for text that is not JSON. */
export type BodyReader<Body> = (text: string, sent?: SentBody) => Body | Rejection

/** What a reader notes besides the members. */
export interface SentBody {
  /** Whether all members of the schema were sent, and no others. */
  hasAllMembers: boolean
}

interface MemberError {
  readonly code: 'body-invalid' | 'value-unstorable'
  readonly message: string
}

interface MemberCheck {
  readonly name: string
  readonly member: MemberSchema
  findError(value: unknown): MemberError | undefined
}

/** JSON text → the members of the schema and nothing else (G4, A10). */
export function bodyReader<S extends ObjectSchema>({ members }: S): BodyReader<FromSchema<S>> {
  const checks = checksOf(members)
  return (text, sent) => {
    const object = JSON.parse(text)
    if (typeof object !== 'object' || object === null || Array.isArray(object)) {
      const kind = Array.isArray(object) ? 'an array' : object === null ? 'null' : `a ${typeof object}`
      return bodyError(`The body is ${kind}, not an object.`)
    }
    const result: Record<string, unknown> = {}
    let count = 0
    for (const check of checks) {
      const value = memberValue(check, object, text)
      if (check.findError(value)) return allErrors(checks, object, text)
      result[check.name] = value
      if (object[check.name] !== undefined) count++
    }
    if (sent) sent.hasAllMembers = count === checks.length && count === Object.keys(object).length
    return result as FromSchema<S>
  }
}

const checksOf = (members: Members): MemberCheck[] =>
  Object.entries(members).map(([name, member]) => ({ name, member, findError: memberCheck(member) }))

/** A JSON array of objects, no two with the same `key`. */
export function arrayReader<S extends ObjectSchema>(
  schema: S,
  key: string,
  maxItems = Number.POSITIVE_INFINITY,
): BodyReader<readonly FromSchema<S>[]> {
  const check = arrayCheck(schema, key)
  return (text) => {
    const array: unknown = JSON.parse(text)
    if (Array.isArray(array) && array.length > maxItems)
      return new Rejection('body-too-large', undefined, `it has ${array.length} items, and may have ${maxItems}.`)
    return check(array, JSON.parse(quoteNumbers(text)))
  }
}

/** A response names this many mistakes in an array. */
const maxArrayErrors = 1_000

/** Checks an array with all its numbers, and as strings with all their digits. Errors have a position: `[2].name`. */
export function arrayCheck<S extends Pick<ObjectSchema, 'members'>>({ members }: S, key: string) {
  const checks = checksOf(members)
  return (array: unknown, numbers: readonly unknown[]): readonly FromMembers<S['members']>[] | Rejection => {
    if (!Array.isArray(array)) return new Rejection('body-invalid', { '': ['The body must be an array.'] })
    const errors: Record<string, readonly string[]> = {}
    let errorCount = 0
    const addError = (position: string, message: string) => {
      if (errorCount++ < maxArrayErrors) errors[position] = [`${position} ${message}.`]
    }
    const positions = new Map<unknown, number>()
    const result = array.map((object: unknown, index) => {
      if (!isObject(object)) {
        addError(`[${index}]`, 'must be an object')
        return {}
      }
      const values = checks.map(({ name, member, findError }) => {
        const exact = member.type === 'integer' && typeof object[name] === 'number'
        const value = exact
          ? int64((numbers[index] as Record<string, string>)[name])
          : memberValue({ name, member }, object, '{}')
        const error = findError(value)?.message
        let message = error !== undefined && object[name] === undefined ? 'is missing' : error
        if (name === key && error === undefined) {
          const first = positions.get(value)
          if (first === undefined) positions.set(value, index)
          else message = `is the same as [${first}].${name}`
        }
        if (message !== undefined) addError(`[${index}].${name}`, message)
        return [name, value]
      })
      return Object.fromEntries(values)
    })
    return errorCount > 0 ? new Rejection('body-invalid', errors) : (result as FromMembers<S['members']>[])
  }
}

function allErrors(checks: readonly MemberCheck[], object: Record<string, unknown>, text: string): Rejection {
  const members: Record<string, string[]> = {}
  let code: ErrorCode = 'value-unstorable'
  for (const check of checks) {
    const error = check.findError(memberValue(check, object, text))
    const message = object[check.name] === undefined ? 'is missing' : error?.message
    if (error) members[check.name] = [`${check.name} ${message}.`]
    if (error?.code === 'body-invalid') code = error.code
  }
  return new Rejection(code, members, misspelledName(Object.keys(members), object))
}

/** A common mistake, for the log: `Name` instead of `name`. */
function misspelledName(missing: readonly string[], object: Record<string, unknown>): string | undefined {
  for (const name of missing) {
    const sent = Object.keys(object).find((key) => key !== name && key.toLowerCase() === name.toLowerCase())
    if (sent !== undefined) return `Names are camelCase: send ${name}, not ${sent}.`
  }
  return undefined
}

function memberCheck(member: MemberSchema): MemberCheck['findError'] {
  const invalid = (message: string): MemberError => ({ code: 'body-invalid', message })
  if (member.type === 'boolean') {
    const notBoolean = invalid('must be true or false')
    return (value) => (typeof value === 'boolean' ? undefined : notBoolean)
  }
  if (member.type === 'integer') {
    const notInt64 = invalid('must be an int64')
    return (value) => (typeof value === 'string' ? undefined : notInt64)
  }
  const { nullable = false, maxLength = Number.POSITIVE_INFINITY } = member
  const notText = invalid(nullable ? 'must be a string or null' : 'must be a string')
  const isNotBlank = member.pattern === notBlank
  const noMatch = invalid(isNotBlank ? 'must not be blank' : `must match ${member.pattern}`)
  const loneSurrogate: MemberError = { code: 'value-unstorable', message: 'must not contain a lone surrogate' }
  const tooLong: MemberError = { code: 'value-unstorable', message: `must have at most ${maxLength} characters` }
  const pattern = isNotBlank ? /\S/ : member.pattern ? new RegExp(member.pattern, 'u') : undefined
  return (value) => {
    if (typeof value !== 'string') return nullable && value === null ? undefined : notText
    if (pattern && !pattern.test(value)) return noMatch
    if (!value.isWellFormed()) return loneSurrogate
    return value.length > maxLength && isLongerThan(value, maxLength) ? tooLong : undefined
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function memberValue(
  { name, member }: Pick<MemberCheck, 'name' | 'member'>,
  object: Record<string, unknown>,
  text: string,
): unknown {
  const value = object[name]
  if (member.type === 'integer') return int64Member(text, name, value)
  return value === undefined ? member.default : value
}

/** B11: counts characters, not UTF-16 code units: 😀 is one. */
export const isLongerThan = (text: string, maxLength: number) =>
  text.length > maxLength && (text.length > 2 * maxLength || [...text].length > maxLength)
