/** OpenAPI 3.0 documents: whether one is valid, and whether a value fits a schema. */
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../common/json.ts'
import { stringify } from '../engine/expect.ts'

export type Json = Readonly<Record<string, unknown>>

/** What is wrong, with the place of it; undefined: nothing. */
export type Problem = string | undefined

const membersOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])

function firstOf<T>(values: Iterable<T>, check: (value: T) => Problem): Problem {
  for (const value of values) {
    const problem = check(value)
    if (problem !== undefined) return problem
  }
  return undefined
}

const maxReferences = 20
const maxReferenceLength = 1_000

/** Follows references to another place in the document; undefined if there is nothing. */
export function resolve(document: Json, value: unknown): Json | undefined {
  let target = value
  for (let count = 0; isObject(target) && typeof target.$ref === 'string'; count++) {
    const { length } = target.$ref
    if (!target.$ref.startsWith('#/') || length > maxReferenceLength || count === maxReferences) return undefined
    target = target.$ref
      .slice(2)
      .split('/')
      .map((name) => safeDecode(name).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>(
        (parent, name) => (Object.hasOwn(Object(parent), name) ? Object(parent)[name] : undefined),
        document,
      )
  }
  return isObject(target) ? target : undefined
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** One kind of object or value of the OpenAPI Specification. */
type Kind = (value: unknown, at: string) => Problem

const is =
  (type: 'string' | 'boolean' | 'number'): Kind =>
  (value, at) =>
    typeof value === type ? undefined : `${at} is not a ${type}`
const text = is('string')
const flag = is('boolean')
const count: Kind = (value, at) => (Number.isInteger(value) ? undefined : `${at} is not an integer`)
const any: Kind = () => undefined
const oneOf =
  (...values: string[]): Kind =>
  (value, at) =>
    values.includes(value as string) ? undefined : `${at} is not one of ${values.join(', ')}`
const listOf =
  (kind: Kind): Kind =>
  (value, at) =>
    Array.isArray(value)
      ? firstOf(value.entries(), ([index, one]) => kind(one, `${at}/${index}`))
      : `${at} is not an array`
const atLeastOne =
  (kind: Kind): Kind =>
  (value, at) =>
    Array.isArray(value) && value.length === 0 ? `${at} is empty` : listOf(kind)(value, at)
const mapOf =
  (kind: Kind, name = /^/): Kind =>
  (value, at) => {
    if (!isObject(value)) return `${at} is not an object`
    return firstOf(Object.entries(value), ([key, one]) => {
      if (key.startsWith('x-')) return undefined
      return name.test(key) ? kind(one, `${at}/${key}`) : `${at} must not have the name ${key}`
    })
  }
/** Other members are not looked at: generators add some of their own. */
const object =
  (members: Record<string, Kind>, ...required: string[]): Kind =>
  (value, at) => {
    if (!isObject(value)) return `${at} is not an object`
    const missing = required.find((name) => !Object.hasOwn(value, name))
    if (missing !== undefined) return `${at} has no ${missing}`
    return firstOf(Object.entries(members), ([name, kind]) =>
      Object.hasOwn(value, name) ? kind(value[name], `${at}/${name}`) : undefined,
    )
  }
/** Whether its target exists is checked for all references of the document at once. */
const orReference =
  (kind: Kind): Kind =>
  (value, at) =>
    isObject(value) && '$ref' in value ? text(value.$ref, `${at}/$ref`) : kind(value, at)

const schemaMembers: Record<string, Kind> = {
  // A list of types, and the type null, came with OpenAPI 3.1.
  type: oneOf('string', 'integer', 'number', 'boolean', 'array', 'object'),
  format: text,
  nullable: flag,
  readOnly: flag,
  writeOnly: flag,
  required: atLeastOne(text),
  enum: atLeastOne(any),
  pattern: text,
  exclusiveMinimum: flag,
  exclusiveMaximum: flag,
  uniqueItems: flag,
  ...Object.fromEntries(['minimum', 'maximum', 'multipleOf'].map((name) => [name, is('number')])),
  ...Object.fromEntries(
    ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map((name) => [name, count]),
  ),
}
/** A schema has others in it. */
const innerSchema: Kind = (value, at) => schema(value, at)
const schemaObject = object({
  ...schemaMembers,
  properties: mapOf(innerSchema),
  items: innerSchema,
  additionalProperties: (other, place) => (typeof other === 'boolean' ? undefined : schema(other, place)),
  not: innerSchema,
  ...Object.fromEntries(['allOf', 'oneOf', 'anyOf'].map((name) => [name, atLeastOne(innerSchema)])),
})
const schema: Kind = orReference((value, at) => {
  const isOpenArray = isObject(value) && value.type === 'array' && value.items === undefined
  return schemaObject(value, at) ?? (isOpenArray ? `${at} is an array without items` : undefined)
})
const content = mapOf(object({ schema }), /^[^/\s]+\/[^/\s]+/)
const header = orReference(object({ schema, content, required: flag, description: text }))
const response = orReference(object({ description: text, headers: mapOf(header), content }, 'description'))
const parameter = orReference((value, at) => {
  const problem = object(
    { name: text, in: oneOf('path', 'query', 'header', 'cookie'), required: flag, schema, content },
    'name',
    'in',
  )(value, at)
  const isUntyped = isObject(value) && value.schema === undefined && value.content === undefined
  return problem ?? (isUntyped ? `${at} has neither schema nor content` : undefined)
})
const requestBody = orReference(object({ description: text, content, required: flag }, 'content'))
const security = listOf(mapOf(listOf(text)))
const servers = listOf(object({ url: text }, 'url'))
const operation = object(
  {
    operationId: text,
    summary: text,
    description: text,
    tags: listOf(text),
    parameters: listOf(parameter),
    requestBody,
    responses: (value, at) =>
      mapOf(response, /^([1-5](\d\d|XX)|default)$/)(value, at) ??
      (Object.keys(Object(value)).length === 0 ? `${at} is empty` : undefined),
    security,
    servers,
    deprecated: flag,
  },
  'responses',
)
const methodNames = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const pathItem = object({
  ...Object.fromEntries(methodNames.map((method) => [method, operation])),
  parameters: listOf(parameter),
  servers,
})
const securityScheme = orReference((value, at) => {
  const needed = { apiKey: ['name', 'in'], http: ['scheme'], oauth2: ['flows'], openIdConnect: ['openIdConnectUrl'] }
  const { type } = Object(value)
  if (!Object.hasOwn(needed, type)) return `${at} has no type of security scheme`
  return object({ scheme: text, name: text, in: oneOf('header', 'query', 'cookie') }, ...needed[type as 'http'])(
    value,
    at,
  )
})
const openApi = object(
  {
    openapi: text,
    info: object({ title: text, version: text, description: text }, 'title', 'version'),
    servers,
    paths: mapOf(pathItem, /^\//),
    components: object({
      schemas: mapOf(schema),
      responses: mapOf(response),
      parameters: mapOf(parameter),
      requestBodies: mapOf(requestBody),
      headers: mapOf(header),
      securitySchemes: mapOf(securityScheme),
    }),
    security,
    tags: listOf(object({ name: text, description: text }, 'name')),
  },
  'openapi',
  'info',
  'paths',
)

export interface Operation {
  readonly method: string
  readonly path: string
  /** In place of each parameter: `{}`, since its name is free. */
  readonly template: string
  readonly value: Json
  /** Those of the path and of the operation, with references resolved. */
  readonly parameters: readonly Json[]
}

const templateOf = (path: string) => path.replace(/\{[^{}]*\}/g, '{}')
const placeOf = ({ name, in: place }: Json) => `${place} parameter ${name}`

export const operationsOf = (document: Json): Operation[] =>
  membersOf(document.paths).flatMap(([path, value]) => {
    const item = resolve(document, value) ?? {}
    return methodNames
      .filter((method) => isObject(item[method]))
      .map((method): Operation => {
        const value = item[method] as Json
        const own = listIn(value.parameters).map((one) => resolve(document, one) ?? {})
        const overridden = new Set(own.map(placeOf))
        const shared = listIn(item.parameters).map((one) => resolve(document, one) ?? {})
        const parameters = [...shared.filter((one) => !overridden.has(placeOf(one))), ...own]
        return { method: method.toUpperCase(), path, template: templateOf(path), value, parameters }
      })
  })

const listIn = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** What makes a document no valid OpenAPI 3.0 document. */
export const findInvalid = (document: Json): Problem =>
  openApi(document, '#') ??
  firstOf(referencesIn(document), (reference) =>
    reference.startsWith('#') && !resolve(document, { $ref: reference }) ? `${reference} does not exist` : undefined,
  ) ??
  findDuplicate(Object.keys(Object(document.paths)).map(templateOf), 'the path') ??
  findDuplicate(
    operationsOf(document)
      .map(({ value }) => value.operationId)
      .filter((id) => id !== undefined),
    'the operationId',
  ) ??
  firstOf(operationsOf(document), (one) => findUndeclared(document, one))

function findDuplicate(values: readonly unknown[], what: string): Problem {
  const seen = new Set<unknown>()
  // `add` returns the set.
  const twice = values.find((value) => seen.has(value) || !seen.add(value))
  return twice === undefined ? undefined : `${what} ${twice} occurs twice`
}

function* referencesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const one of value) yield* referencesIn(one)
  for (const [name, member] of membersOf(value)) {
    if (name === '$ref' && typeof member === 'string') yield member
    // What an example contains is data.
    else if (!['example', 'examples', 'default', 'enum'].includes(name)) yield* referencesIn(member)
  }
}

function findUndeclared(document: Json, { method, path, value, parameters }: Operation): Problem {
  const at = `${method} ${path}`
  const inPath = parameters.filter((one) => one.in === 'path')
  const names = new Set([...path.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name))
  const required = new Set(inPath.filter((one) => one.required === true).map(({ name }) => name))
  const schemes = Object(resolve(document, document.components)?.securitySchemes)
  return (
    firstOf(names, (name) =>
      required.has(name) ? undefined : `${at} does not declare its path parameter ${name} as required`,
    ) ??
    firstOf(inPath, ({ name }) => (names.has(`${name}`) ? undefined : `${at} has no {${name}} in its path`)) ??
    findDuplicate(parameters.map(placeOf), `${at}: the`) ??
    firstOf(requirementsOf(document, value).flatMap(Object.keys), (name) =>
      Object.hasOwn(schemes, name) ? undefined : `${at} requires the security scheme ${name}, which is not defined`,
    )
  )
}

/** One of these is required; the requirement without a scheme is that of no security. */
export const requirementsOf = (document: Json, operation: Json): Json[] =>
  listIn(operation.security ?? document.security).filter(isObject)

/** The response that the document describes for a status: exactly, by its range or by default. */
export function responseFor(document: Json, operation: Json, status: number): Json | undefined {
  const responses = Object(resolve(document, operation.responses))
  const described = [`${status}`, `${Math.floor(status / 100)}XX`, 'default'].find((key) =>
    Object.hasOwn(responses, key),
  )
  return described === undefined ? undefined : resolve(document, responses[described])
}

/** Returns the most specific media range of `content`; a media type with the suffix +json is JSON, too. */
export function mediaTypeIn(content: unknown, mediaType: string): Json | undefined {
  const [type = ''] = mediaType.toLowerCase().split('/')
  const ranges = [mediaType.toLowerCase(), ...(/\+json$/i.test(mediaType) ? ['application/json'] : [])]
  if (/^application\/(.+\+)?json$/i.test(mediaType)) ranges.push('application/*+json')
  ranges.push(`${type}/*`, '*/*')
  const described = new Map(
    membersOf(content).map(([range, value]) => [range.toLowerCase().split(';')[0]?.trim(), value]),
  )
  const range = ranges.find((one) => described.has(one))
  return range === undefined ? undefined : (described.get(range) as Json)
}

export interface SchemaContext {
  readonly document: Json
  /** In a request, members that are readOnly are not required; in a response, those that are writeOnly. */
  readonly isRequest: boolean
}

interface Walk extends SchemaContext {
  steps: number
}

/** Schemas can refer to themselves, or to many others. */
const maxDepth = 12
const maxSteps = 2000
/** So many characters, elements or members are a step. */
const sizePerStep = 100

const sizeOf = (value: unknown) =>
  typeof value === 'string' || Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0

/** Why a value does not fit a schema. */
export const findMisfit = (schema: unknown, value: unknown, context: SchemaContext, at = 'the body'): Problem =>
  findMisfitAt(schema, value, { ...context, steps: 0 }, at, 0)

function findMisfitAt(given: unknown, value: unknown, walk: Walk, at: string, depth: number): Problem {
  if (walk.steps++ > maxSteps || depth > maxDepth) return undefined
  const schema = resolve(walk.document, given)
  if (!schema) return undefined
  walk.steps += Math.floor((sizeOf(value) + sizeOf(schema.enum) + sizeOf(schema.required)) / sizePerStep)
  const inner = (other: unknown, part = value, place = at) => findMisfitAt(other, part, walk, place, depth + 1)
  const fits = (other: unknown) => inner(other) === undefined
  if (value === null && schema.nullable === true) return undefined
  return (
    findWrongType(schema, value, at) ??
    (Array.isArray(schema.enum) && !schema.enum.some((one) => isDeepStrictEqual(one, value))
      ? `${at} is not one of ${stringify(schema.enum)}`
      : undefined) ??
    findOutOfRange(schema, value, at) ??
    (Array.isArray(value) && schema.items
      ? firstOf(value.entries(), ([index, one]) => inner(schema.items, one, `${at}[${index}]`))
      : undefined) ??
    (isObject(value) ? findWrongMember(schema, value, walk, at, depth) : undefined) ??
    firstOf(listIn(schema.allOf), (one) => inner(one)) ??
    (schema.anyOf && !listIn(schema.anyOf).some(fits) ? `${at} fits none of anyOf` : undefined) ??
    (schema.oneOf && listIn(schema.oneOf).filter(fits).length !== 1 ? `${at} does not fit one of oneOf` : undefined) ??
    (schema.not && fits(schema.not) ? `${at} fits not` : undefined)
  )
}

const isInteger = (value: unknown) => typeof value === 'bigint' || Number.isInteger(value)
const types: Record<string, (value: unknown) => boolean> = {
  integer: isInteger,
  number: (value) => typeof value === 'number' || typeof value === 'bigint',
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  array: Array.isArray,
  object: isObject,
}
const hasBits = (bits: bigint) => (value: string | number | bigint) => {
  if (!isInteger(value)) return true
  return BigInt(value) >= -(2n ** (bits - 1n)) && BigInt(value) < 2n ** (bits - 1n)
}
const matches = (pattern: RegExp) => (value: string | number | bigint) => pattern.test(`${value}`)
const formats: Record<string, (value: string | number | bigint) => boolean> = {
  int32: hasBits(32n),
  int64: hasBits(64n),
  date: matches(/^\d{4}-\d\d-\d\d$/),
  'date-time': matches(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i),
  uuid: matches(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i),
  email: matches(/@/),
  uri: (value) => URL.canParse(`${value}`),
}

function findWrongType({ type, format }: Json, value: unknown, at: string): Problem {
  const hasType = types[`${type}`] ?? (() => true)
  if (!hasType(value)) return `${at} is not of type ${type}`
  const hasFormat = typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  return hasFormat && formats[`${format}`]?.(value) === false ? `${at} does not have the format ${format}` : undefined
}

function findOutOfRange(schema: Json, value: unknown, at: string): Problem {
  const number = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined
  const length = typeof value === 'string' ? [...value].length : undefined
  const size = Array.isArray(value) ? value.length : undefined
  const members = isObject(value) ? Object.keys(value).length : undefined
  const limits = [
    ['minimum', number, 1],
    ['maximum', number, -1],
    ['minLength', length, 1],
    ['maxLength', length, -1],
    ['minItems', size, 1],
    ['maxItems', size, -1],
    ['minProperties', members, 1],
    ['maxProperties', members, -1],
  ] as const
  for (const [name, measured, sign] of limits) {
    const limit = schema[name]
    if (measured === undefined || typeof limit !== 'number') continue
    const isExclusive = number !== undefined && schema[sign > 0 ? 'exclusiveMinimum' : 'exclusiveMaximum'] === true
    if (sign * (measured - limit) < 0 || (isExclusive && measured === limit)) return `${at} is beyond ${name} ${limit}`
  }
  if (typeof value === 'string' && typeof schema.pattern === 'string' && !isMatch(schema.pattern, value))
    return `${at} does not match the pattern ${schema.pattern}`
  const step = schema.multipleOf
  if (number !== undefined && typeof step === 'number' && Number.isInteger(step) && number % step !== 0)
    return `${at} is not a multiple of ${step}`
  return undefined
}

const maxQuantifiers = 3
const maxMatchedLength = 1_000

/** Not judged: a pattern that this runtime does not know, or that could take very long, as `(a+)+` or `a*a*a*a*` can. */
function isMatch(pattern: string, value: string): boolean {
  const { length: quantifiers } = pattern.match(/[*+?]|\{\d+,/g) ?? []
  if (/\)[*+{]/.test(pattern) || quantifiers > maxQuantifiers || value.length > maxMatchedLength) return true
  try {
    return new RegExp(pattern, 'u').test(value)
  } catch {
    return true
  }
}

function findWrongMember(schema: Json, value: Json, walk: Walk, at: string, depth: number): Problem {
  const { document, isRequest } = walk
  const properties = isObject(schema.properties) ? schema.properties : {}
  const isOptional = (name: string) =>
    resolve(document, properties[name])?.[isRequest ? 'readOnly' : 'writeOnly'] === true
  const missing = listIn(schema.required).find((name) => !Object.hasOwn(value, `${name}`) && !isOptional(`${name}`))
  if (missing !== undefined) return `${at} has no member ${missing}`
  return firstOf(Object.entries(value), ([name, member]) => {
    const other = schema.additionalProperties
    if (!Object.hasOwn(properties, name) && other === false) return `${at} has the additional member ${name}`
    const described = Object.hasOwn(properties, name) ? properties[name] : other
    return isObject(described) ? findMisfitAt(described, member, walk, `${at}.${name}`, depth + 1) : undefined
  })
}

/** The names of the members that a schema describes, those of an array for its items. */
export function describedMembers(document: Json, given: unknown, seen = new Set<Json>()): string[] {
  const schema = resolve(document, given)
  if (!schema || seen.has(schema)) return []
  seen.add(schema)
  const parts = [...listIn(schema.allOf), ...listIn(schema.oneOf), ...listIn(schema.anyOf), schema.items]
  return [...Object.keys(Object(schema.properties)), ...parts.flatMap((part) => describedMembers(document, part, seen))]
}
