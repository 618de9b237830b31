/* An OpenAPI schema is the only definition of a JSON value: its type and its check are derived from it. */
import { isObject } from './json.ts'

/** The key of an error message that replaces the schema's own: `be a method such as POST`. Documents do not have it. */
export const expects = Symbol('expects')

/** An OpenAPI schema of values of the type T. */
export interface Schema<T> {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object'
  readonly description?: string | undefined
  readonly nullable?: true
  readonly enum?: readonly T[]
  /** An integer with a format is a string with its digits here: a number may round it. */
  readonly format?: 'date-time' | 'int32' | 'int64'
  readonly pattern?: string
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  /** The value of a member that is absent from a request. */
  readonly default?: T
  readonly items?: Schema<unknown>
  readonly properties?: SchemaMembers
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema<unknown> | false
  readonly [expects]?: string
}

/** An object to which documents refer by its name. */
export interface NamedSchema<T = ObjectOf<SchemaMembers>> extends Schema<T> {
  readonly name: string
  readonly example: object
}

export type SchemaMembers = Readonly<Record<string, Schema<unknown>>>
export type ValueOf<S> = S extends Schema<infer T> ? T : never
export type ObjectOf<M extends SchemaMembers> = { readonly [Name in keyof M]: ValueOf<M[Name]> }
type Limits = Pick<Schema<unknown>, 'format' | 'pattern' | 'maxLength' | 'minimum' | 'maximum' | typeof expects>

const scalar =
  <T>(type: Schema<T>['type']) =>
  (description?: string, limits?: Limits): Schema<T> => ({ type, description, ...limits })
export const string = scalar<string>('string')
export const number = scalar<number>('number')
export const integer = scalar<number>('integer')
export const boolean = scalar<boolean>('boolean')
export const wholeNumber = integer(undefined, { minimum: 0 })
export const alwaysTrue: Schema<true> = { type: 'boolean', enum: [true] }
export const oneOf = <const T extends string>(values: readonly T[], description?: string): Schema<T> => ({
  type: 'string',
  description,
  enum: values,
})
export const nullable = <T>(schema: Schema<T>): Schema<T | null> => ({ ...schema, nullable: true })
export const arrayOf = <T>(items: Schema<T>): Schema<readonly T[]> => ({ type: 'array', items })
export const mapOf = <T>(additionalProperties: Schema<T>): Schema<Readonly<Record<string, T>>> => ({
  type: 'object',
  additionalProperties,
})
export const object = <M extends SchemaMembers, Optional extends SchemaMembers = Record<never, never>>(
  required: M,
  optional?: Optional,
): Schema<ObjectOf<M> & Partial<ObjectOf<Optional>>> => ({
  type: 'object',
  required: Object.keys(required).filter((name) => required[name]?.default === undefined),
  properties: { ...required, ...optional },
})
export const partial = <M extends SchemaMembers>(members: M): Schema<Partial<ObjectOf<M>>> => object({}, members)

/**
 * The pattern of a text that is not blank. It matches the whole text, because generated C# and Java clients require
 * that; for JSON Schema, a match of a part would be enough.
 */
export const notBlank = '^[\\s\\S]*\\S[\\s\\S]*$'

/** The pattern of the name of a space in a path or a header. */
export const spaceNamePattern = '^[\\w-]{1,64}$'

interface Mistake {
  /** What follows the name of the value in an error message: `must be true or false`. */
  readonly message: string
  /** Whether the value matches the schema, but cannot be stored. */
  readonly isUnstorable: boolean
}

type Check = (value: unknown) => Mistake | undefined

/** Returns a function that checks a value by its schema. Of an object it checks only the type, not the members. */
export function checkOf(schema: Schema<unknown>): Check {
  const { type, enum: values, nullable = false } = schema
  const mistake = { message: `must ${schema[expects] ?? expectation(schema)}`, isUnstorable: false }
  const unless = (isValid: (value: unknown) => boolean): Check =>
    nullable
      ? (value) => (value === null || isValid(value) ? undefined : mistake)
      : (value) => (isValid(value) ? undefined : mistake)
  if (values) return unless((value) => values.includes(value))
  if (type === 'boolean') return unless((value) => typeof value === 'boolean')
  if (type === 'string') return textCheck(schema, mistake)
  if (type === 'object') return unless(isObject)
  if (type === 'array') {
    const check = schema.items && checkOf(schema.items)
    return unless((value) => Array.isArray(value) && value.every((item) => !check?.(item)))
  }
  if (isExact(schema)) return unless((value) => typeof value === 'string')
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
  const isNumber = type === 'integer' ? Number.isInteger : Number.isFinite
  return unless((value) => isNumber(value) && Number(value) >= minimum && Number(value) <= maximum)
}

/** Returns a function that checks a member by name and returns a message. `kind` names a member in it: `parameter`. */
export function memberCheck(kind: string, members: SchemaMembers) {
  const checks = new Map(Object.entries(members).map(([name, schema]) => [name, checkOf(schema)]))
  return (name: string, value: unknown, shownName = name): string | undefined => {
    const check = checks.get(name)
    if (!check) return `There is no ${kind} ${name}: use ${[...checks.keys()].join(', ')}.`
    const mistake = check(value)
    return mistake && `${shownName} ${mistake.message}.`
  }
}

export const isValid = <T>(schema: Schema<T>, value: unknown): value is T => checkOf(schema)(value) === undefined

function textCheck(schema: Schema<unknown>, mistake: Mistake): Check {
  const { nullable = false, pattern: source, maxLength = Number.POSITIVE_INFINITY, [expects]: ownMessage } = schema
  const isNotBlank = source === notBlank
  const pattern = isNotBlank ? /\S/ : source === undefined ? undefined : new RegExp(source, 'u')
  const say = (message: string) => (ownMessage === undefined ? message : mistake.message)
  const noMatch = { message: say(isNotBlank ? 'must not be blank' : `must match ${source}`), isUnstorable: false }
  const loneSurrogate = { message: 'must not contain a lone surrogate', isUnstorable: true }
  const tooLong = { message: say(`must have at most ${maxLength} characters`), isUnstorable: true }
  return (value) => {
    if (typeof value !== 'string') return nullable && value === null ? undefined : mistake
    if (pattern && !pattern.test(value)) return noMatch
    if (!value.isWellFormed()) return loneSurrogate
    return value.length > maxLength && isLongerThan(value, maxLength) ? tooLong : undefined
  }
}

function expectation(schema: Schema<unknown>): string {
  const { type, enum: values, nullable, format, minimum, maximum } = schema
  if (values) return `be ${values.join(', ')}`
  if (type === 'boolean') return 'be true or false'
  if (type === 'string') return nullable ? 'be a string or null' : 'be a string'
  if (type === 'object' || type === 'array') return `be an ${type}`
  if (isExact(schema)) return `be an ${format}`
  if (maximum === undefined && minimum === 0) return 'be a whole number'
  if (maximum === undefined && minimum === 1) return 'be a positive integer'
  return `be ${type === 'integer' ? 'an integer' : 'a number'}${maximum === undefined ? '' : ` from ${minimum} to ${maximum}`}`
}

export const isExact = ({ type, format }: Schema<unknown>) => type === 'integer' && format !== undefined

/** B11: counts characters, not UTF-16 code units: 😀 is one character. */
export const isLongerThan = (value: string, maxLength: number) =>
  value.length > maxLength && (value.length > 2 * maxLength || [...value].length > maxLength)
