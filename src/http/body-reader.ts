import { isObject } from '../common/json.ts'
import { checkOf, isExact, type Schema } from '../common/schema.ts'
import { bodyError, type ErrorCode, Rejection } from './errors.ts'
import { int64, int64Member, quoteNumbers } from './int64.ts'

/** Throws a SyntaxError for text that is not JSON. */
export type BodyReader<Body> = (text: string, sent?: SentBody) => Body | Rejection

/** The properties of the body that a reader reports, besides its members. */
export interface SentBody {
  /** Whether the body had all members of the schema and no others. */
  hasAllMembers: boolean
}

interface MemberCheck {
  readonly name: string
  readonly isExact: boolean
  readonly default: unknown
  readonly findMistake: ReturnType<typeof checkOf>
}

/** Returns a function that reads the members of the schema, and no others, from JSON text (G4, A10). */
export function bodyReader<T>(schema: Schema<T>): BodyReader<T> {
  const checks = checksOf(schema)
  const usualForm = usualFormOf(schema)
  return (text, sent) => {
    const tokens = text.length <= maxUsualLength ? usualForm?.exec(text) : undefined
    const object = tokens ? undefined : JSON.parse(text)
    if (!tokens && !isObject(object)) {
      const kind = Array.isArray(object) ? 'an array' : object === null ? 'null' : `a ${typeof object}`
      return bodyError(`The body is ${kind}, not an object.`)
    }
    const result: Record<string, unknown> = {}
    let count = 0
    for (const check of checks) {
      const value = tokens ? tokenValue(tokens[count + 1] as string, check.isExact) : memberValue(check, object, text)
      if (check.findMistake(value)) return allErrors(checks, object ?? JSON.parse(text), text)
      result[check.name] = value
      if (tokens || object[check.name] !== undefined) count++
    }
    if (sent) sent.hasAllMembers = count === checks.length && (!object || count === Object.keys(object).length)
    return result as T
  }
}

/** Longer texts gain nothing, and a regular expression takes memory for each of their characters. */
const maxUsualLength = 10_000

/**
 * Returns the pattern of the JSON that most clients send: all members in the order of the schema, and no others. Its
 * groups are the values, so that the object need not be parsed. Any other JSON takes the longer way.
 */
function usualFormOf({ properties = {} }: Schema<unknown>): RegExp | undefined {
  const members = Object.entries(properties).map(([name, schema]) => {
    const token = isExact(schema) ? '0|[1-9]\\d{0,14}' : usualTokens[schema.type]
    return token && `"${name}" ?: ?(${token})`
  })
  return members.includes(undefined) ? undefined : new RegExp(`^\\{${members.join(', ?')}\\}$`)
}

const usualTokens: Partial<Record<Schema<unknown>['type'], string>> = {
  string: '"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"|null',
  boolean: 'true|false',
}

/** Returns the value of a token of `usualFormOf`. A slice of the text would keep all of it in memory. */
const tokenValue = (token: string, isExact: boolean): unknown => (isExact ? token : JSON.parse(token))

const checksOf = ({ properties = {} }: Schema<unknown>): MemberCheck[] =>
  Object.entries(properties).map(([name, schema]) => ({
    name,
    isExact: isExact(schema),
    default: schema.default,
    findMistake: checkOf(schema),
  }))

/** Returns a function that reads an array of objects from JSON text. The member `key` must be unique. */
export function arrayReader<T>(
  schema: Schema<T>,
  key: string,
  maxItems = Number.POSITIVE_INFINITY,
): BodyReader<readonly T[]> {
  const check = arrayCheck(schema, key)
  return (text) => {
    const array: unknown = JSON.parse(text)
    if (Array.isArray(array) && array.length > maxItems)
      return new Rejection('body-too-large', undefined, `it has ${array.length} items, and may have ${maxItems}.`)
    return check(array, JSON.parse(quoteNumbers(text)))
  }
}

/** How many mistakes in an array a response lists. */
const maxArrayErrors = 1_000

/** Returns a function that checks an array. `numbers` is the same array, with each number as a string of its digits. */
export function arrayCheck<T>(schema: Schema<T>, key: string) {
  const checks = checksOf(schema)
  return (array: unknown, numbers: readonly unknown[]): readonly T[] | Rejection => {
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
      const values = checks.map((check) => {
        const { name } = check
        const value =
          check.isExact && typeof object[name] === 'number'
            ? int64((numbers[index] as Record<string, string>)[name])
            : memberValue(check, object, '{}')
        const error = check.findMistake(value)?.message
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
    return errorCount > 0 ? new Rejection('body-invalid', errors) : (result as T[])
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

/** Describes a common mistake for the log: `Name` instead of `name`. */
function misspelledName(missing: readonly string[], object: Record<string, unknown>): string | undefined {
  for (const name of missing) {
    const sent = Object.keys(object).find((key) => key !== name && key.toLowerCase() === name.toLowerCase())
    if (sent !== undefined) return `Names are camelCase: send ${name}, not ${sent}.`
  }
  return undefined
}

function memberValue(check: MemberCheck, object: Record<string, unknown>, text: string): unknown {
  const value = object[check.name]
  if (check.isExact) return int64Member(text, check.name, value)
  return value === undefined ? check.default : value
}
