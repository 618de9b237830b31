import { isObject } from '../common/json.ts'
import { checkOf } from '../common/schema.ts'
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

interface MemberCheck {
  readonly name: string
  readonly member: MemberSchema
  readonly findMistake: ReturnType<typeof checkOf>
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
      if (check.findMistake(value)) return allErrors(checks, object, text)
      result[check.name] = value
      if (object[check.name] !== undefined) count++
    }
    if (sent) sent.hasAllMembers = count === checks.length && count === Object.keys(object).length
    return result as FromSchema<S>
  }
}

const checksOf = (members: Members): MemberCheck[] =>
  Object.entries(members).map(([name, member]) => ({ name, member, findMistake: checkOf(member) }))

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
      const values = checks.map(({ name, member, findMistake }) => {
        const exact = member.type === 'integer' && typeof object[name] === 'number'
        const value = exact
          ? int64((numbers[index] as Record<string, string>)[name])
          : memberValue({ name, member }, object, '{}')
        const error = findMistake(value)?.message
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
    const mistake = check.findMistake(memberValue(check, object, text))
    const message = object[check.name] === undefined ? 'is missing' : mistake?.message
    if (mistake) members[check.name] = [`${check.name} ${message}.`]
    if (mistake && !mistake.isUnstorable) code = 'body-invalid'
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

function memberValue(
  { name, member }: Pick<MemberCheck, 'name' | 'member'>,
  object: Record<string, unknown>,
  text: string,
): unknown {
  const value = object[name]
  if (member.type === 'integer') return int64Member(text, name, value)
  return value === undefined ? member.default : value
}
