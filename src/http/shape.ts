import { int64, memberSource } from './int64.ts'
import { Refusal } from './refusal.ts'

/** What a JSON object holds. The request check, the types and the OpenAPI document come from this one statement. */
export interface Shape {
  readonly name: string
  readonly members: Members
  readonly example: Readonly<Record<string, unknown>>
}

/** In the words of an OpenAPI 3.0 schema. In a request, a member without a default is required. */
type Members = Readonly<Record<string, Member>>

export type Member =
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
    }

type Value<M extends Member> = M extends { type: 'string' }
  ? string | (M extends { nullable: true } ? null : never)
  : M extends { type: 'boolean' }
    ? boolean
    : /** A canonical decimal. */ string

export type Shaped<S extends Shape> = { readonly [Name in keyof S['members']]: Value<S['members'][Name]> }

export type Reader<S extends Shape> = (text: string) => Shaped<S> | Refusal

/** JSON text → just the members of the shape; everything else is left behind (G4, A10). */
export function readerOf<S extends Shape>({ members }: S): Reader<S> {
  const rules = Object.entries(members).map(([name, member]) => ({ name, member, isFine: checkOf(member) }))
  return (text) => {
    const object = parseObject(text)
    if (!object) return new Refusal('body-malformed')
    const shaped: Record<string, unknown> = {}
    for (const { name, member, isFine } of rules) {
      const value = memberValue(name, member, object, text)
      if (!isFine(value)) return refusalOf(members, object, text)
      shaped[name] = value
    }
    return shaped as Shaped<S>
  }
}

/** Everything that is wrong with a body. */
function refusalOf(members: Members, object: Record<string, unknown>, text: string): Refusal {
  const errors: Record<string, string[]> = {}
  let isInvalid = false
  for (const [name, member] of Object.entries(members)) {
    const value = memberValue(name, member, object, text)
    const mismatch = mismatchOf(member, value)
    const problem = mismatch ?? unstorable(member, value)
    if (mismatch) isInvalid = true
    if (problem) errors[name] = [`${name} ${problem}.`]
  }
  return new Refusal(isInvalid ? 'body-invalid' : 'value-refused', errors)
}

/** Whether there is nothing wrong with a value: what nearly every one of them is asked. */
function checkOf(member: Member): (value: unknown) => boolean {
  if (member.type !== 'string') return (value) => mismatchOf(member, value) === undefined
  const { nullable = false, pattern, maxLength } = member
  const expression = pattern ? new RegExp(pattern, 'u') : undefined
  return (value) => {
    if (typeof value !== 'string') return nullable && value === null
    if (expression && !expression.test(value)) return false
    return value.isWellFormed() && !(maxLength && isLonger(value, maxLength))
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function memberValue(name: string, member: Member, object: Record<string, unknown>, text: string): unknown {
  const value = object[name]
  if (member.type === 'integer') return typeof value === 'number' ? int64(memberSource(text, name)) : undefined
  return value === undefined ? member.default : value
}

function mismatchOf(member: Member, value: unknown): string | undefined {
  switch (member.type) {
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false'
    case 'integer':
      return typeof value === 'string' ? undefined : 'must be an int64'
    case 'string':
      if (value === null && member.nullable) return undefined
      if (typeof value !== 'string') return member.nullable ? 'must be a string or null' : 'must be a string'
      return member.pattern && !new RegExp(member.pattern, 'u').test(value) ? `must match ${member.pattern}` : undefined
  }
}

/** G5, B11: what no store is given. */
function unstorable(member: Member, value: unknown): string | undefined {
  if (member.type !== 'string' || typeof value !== 'string') return undefined
  if (!value.isWellFormed()) return 'must not hold a lone surrogate'
  if (member.maxLength && isLonger(value, member.maxLength)) return `must have at most ${member.maxLength} characters`
  return undefined
}

/** B11: characters are counted, not UTF-16 units: 😀 is one. */
export function isLonger(text: string, maxLength: number): boolean {
  return text.length > maxLength && (text.length > 2 * maxLength || [...text].length > maxLength)
}
