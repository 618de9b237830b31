/** OpenAPI 3.0 documents: whether one is valid, and whether a value fits a schema. */
import { unescape as decode } from 'node:querystring'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../common/json.ts'
import { arrayOf, boolean, mapOf, object, oneOf, type Schema, text } from '../../common/schema.ts'
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

const maxReferences = 5
const maxReferenceLength = 1_000

const isReference = (value: unknown): value is { $ref: string } => isObject(value) && typeof value.$ref === 'string'

/** Follows references to another place in the document; undefined if there is nothing. */
function resolve(document: Json, value: unknown): unknown {
  let target = value
  for (let count = 0; isReference(target); count++) {
    const { $ref: reference } = target
    const isEndless = count === maxReferences || reference.length > maxReferenceLength
    if (!reference.startsWith('#/') || isEndless) return undefined
    target = document
    for (const part of reference.slice(2).split('/')) {
      const name = decode(part).replaceAll('~1', '/').replaceAll('~0', '~')
      target = Object.hasOwn(Object(target), name) ? Object(target)[name] : undefined
    }
  }
  return target
}

/** Puts what references lead to in their place, so that a schema may contain itself. Returns those that lead nowhere. */
function linkReferences(document: Json): string[] {
  const broken: string[] = []
  const holders = new Set<Record<string, unknown>>([document])
  // The loop gets to the objects that are added meanwhile, too.
  for (const holder of holders)
    for (const [name, member] of Object.entries(holder)) {
      // Their values are data.
      if (['example', 'examples', 'enum'].includes(name)) continue
      const target = resolve(document, member)
      if (isReference(member)) {
        holder[name] = Object(target)
        if (member.$ref.startsWith('#') && !isObject(target)) broken.push(member.$ref)
      }
      if (isObject(target) || Array.isArray(target)) holders.add(target as Record<string, unknown>)
    }
  return broken
}

/** The names of the members must match; a schema of a document cannot say that. */
const withNames = <T>(schema: Schema<T>, names: RegExp) => ({ ...schema, names })
/** Has one of these members, at least. */
const withOneOf = <T>(schema: Schema<T>, ...names: string[]) => ({
  ...schema,
  anyOf: names.map((name) => ({ required: [name] })),
})
const atLeastOne = <T>(items: Schema<T>) => ({ ...arrayOf(items), minItems: 1 })
const arraylessTypes = ['string', 'integer', 'number', 'boolean', 'object']
/** A schema has others in it. Other members than these are not looked at: generators add some of their own. */
const schema: Schema<unknown> & { anyOf: unknown } = {
  type: 'object',
  get properties() {
    return schemaMembers
  },
  // An array has items.
  anyOf: [{ required: ['items'] }, { properties: { type: { enum: arraylessTypes } } }],
}
const limits = ['minimum', 'maximum', 'multipleOf', 'minLength', 'maxLength', 'minItems', 'maxItems']
const schemaMembers = {
  // A list of types, and the type null, came with OpenAPI 3.1, as did limits that are numbers and exclude themselves.
  type: oneOf([...arraylessTypes, 'array']),
  exclusiveMinimum: boolean(),
  exclusiveMaximum: boolean(),
  ...Object.fromEntries(limits.map((name) => [name, { type: 'number' as const }])),
  $ref: text(),
  format: text(),
  pattern: text(),
  uniqueItems: boolean(),
  nullable: boolean(),
  readOnly: boolean(),
  writeOnly: boolean(),
  required: atLeastOne(text()),
  enum: { type: 'array' as const, minItems: 1 },
  properties: mapOf(schema),
  items: schema,
  not: schema,
  allOf: atLeastOne(schema),
  anyOf: atLeastOne(schema),
  oneOf: atLeastOne(schema),
}
const content = withNames(mapOf(object({}, { schema })), /^[^/\s]+\/[^/\s]+/)
const header = object({}, { schema, content, required: boolean() })
const response = object({ description: text() }, { headers: mapOf(header), content })
const parameter = withOneOf(
  object({ name: text(), in: oneOf(['path', 'query', 'header', 'cookie']) }, { required: boolean(), schema, content }),
  'schema',
  'content',
)
const requestBody = object({ content }, { required: boolean() })
const security = arrayOf(mapOf(arrayOf(text())))
const servers = arrayOf(object({ url: text() }, {}))
const operation = object(
  { responses: { ...withNames(mapOf(response), /^([1-5](\d\d|XX)|default)$/), minProperties: 1 } },
  {
    summary: text(),
    description: text(),
    deprecated: boolean(),
    operationId: text(),
    tags: arrayOf(text()),
    parameters: arrayOf(parameter),
    requestBody,
    security,
    servers,
  },
)
const methodNames = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const operations = Object.fromEntries(methodNames.map((method) => [method, operation]))
const securityScheme = {
  type: 'object' as const,
  anyOf: [
    object({ type: oneOf(['apiKey']), name: text(), in: oneOf(['header', 'query', 'cookie']) }),
    object({ type: oneOf(['http']), scheme: text() }),
    object({ type: oneOf(['oauth2']), flows: object({}) }),
    object({ type: oneOf(['openIdConnect']), openIdConnectUrl: text() }),
  ],
}
const components = {
  schemas: mapOf(schema),
  responses: mapOf(response),
  parameters: mapOf(parameter),
  requestBodies: mapOf(requestBody),
  headers: mapOf(header),
  securitySchemes: mapOf(securityScheme),
}
/** What OpenAPI 3.0 says about a document, stated as a schema of OpenAPI 3.0. */
const openApi = object(
  {
    openapi: text(),
    info: object({ title: text(), version: text() }, {}),
    paths: withNames(mapOf(object({}, { ...operations, parameters: arrayOf(parameter), servers })), /^\//),
  },
  { servers, components: object({}, components), security, tags: arrayOf(object({ name: text() }, {})) },
)

export interface Operation {
  readonly method: string
  readonly path: string
  /** In place of each parameter: `{}`, since its name is free. */
  readonly template: string
  readonly id: unknown
  /** Those of the path and of the operation. */
  readonly parameters: readonly Json[]
  readonly requestBody: Json
  readonly responses: Json
  /** One of these is required; the requirement without a scheme is that of no security. */
  readonly requirements: readonly Json[]
}

const templateOf = (path: string) => path.replace(/\{[^{}]*\}/g, '{}')
const placeOf = ({ name, in: place }: Json) => `${place} parameter ${name}`

/** The path of the first server, which is relative to the document. Another origin may be behind a proxy. */
function basePathOf(servers: unknown, documentUrl: string): string | undefined {
  const [url] = objectsIn(servers).map((server) => `${server.url}`)
  if (url === undefined || url.includes('{') || !URL.canParse(url, documentUrl)) return undefined
  const { origin, pathname } = new URL(url, documentUrl)
  return origin === new URL(documentUrl).origin ? pathname.replace(/\/+$/, '') : undefined
}

function operationsOf(document: Json, baseUrl: string, documentPath: string): Operation[] {
  const requirements = objectsIn(document.security)
  const root = new URL(baseUrl).pathname.replace(/\/$/, '')
  /** The path below the base URL, by the servers of the operation, of its path or of the document. */
  const pathBelow = (path: string, ...servers: readonly unknown[]) => {
    const [base] = servers.map((one) => basePathOf(one, `${baseUrl}${documentPath}`)).filter((one) => one !== undefined)
    const whole = `${base ?? ''}${path}`
    return root !== '' && whole.startsWith(`${root}/`) ? whole.slice(root.length) : whole
  }
  return membersOf(document.paths).flatMap(([path, item]) =>
    membersOf(item)
      .filter(([method, value]) => methodNames.includes(method) && isObject(value))
      .map(([method, value]): Operation => {
        const { operationId, parameters, requestBody, responses, security } = value as Json
        const own = objectsIn(parameters)
        const overridden = new Set(own.map(placeOf))
        const shared = objectsIn(Object(item).parameters).filter((one) => !overridden.has(placeOf(one)))
        return {
          method: method.toUpperCase(),
          path,
          template: templateOf(pathBelow(path, (value as Json).servers, Object(item).servers, document.servers)),
          id: operationId,
          parameters: [...shared, ...own],
          requestBody: Object(requestBody),
          responses: Object(responses),
          requirements: security === undefined ? requirements : objectsIn(security),
        }
      }),
  )
}

const listIn = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const objectsIn = (value: unknown): Json[] => listIn(value).filter(isObject)

/** Returns the operations of a document, and what makes it no valid OpenAPI 3.0 document. Links its references. */
export function readOpenApi(
  document: Json,
  baseUrl: string,
  documentPath: string,
): { operations: Operation[]; invalid: Problem } {
  const misfit = findMisfitAt(openApi, document, { isDocument: true, stepsLeft: Infinity }, '#', 0)
  const [broken] = linkReferences(document)
  const operations = operationsOf(document, baseUrl, documentPath)
  const ids = operations.map(({ id }) => id).filter((id) => id !== undefined)
  const invalid =
    misfit ??
    (broken && `${broken} does not exist`) ??
    findDuplicate(Object.keys(Object(document.paths)).map(templateOf), 'the path') ??
    findDuplicate(ids, 'the operationId') ??
    firstOf(operations, (one) => findUndeclared(document, one))
  return { operations, invalid }
}

function findDuplicate(values: readonly unknown[], what: string): Problem {
  const seen = new Set<unknown>()
  // `add` returns the set.
  const twice = values.find((value) => seen.has(value) || !seen.add(value))
  return twice === undefined ? undefined : `${what} ${twice} occurs twice`
}

function findUndeclared(document: Json, { method, path, parameters, requirements }: Operation): Problem {
  const at = `${method} ${path}`
  const inPath = parameters.filter((one) => one.in === 'path')
  const names = new Set([...path.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name))
  const required = new Set(inPath.filter((one) => one.required === true).map(({ name }) => name))
  const schemes = Object(Object(document.components).securitySchemes)
  return (
    firstOf(names, (name) =>
      required.has(name) ? undefined : `${at} does not declare its path parameter ${name} as required`,
    ) ??
    firstOf(inPath, ({ name }) => (names.has(`${name}`) ? undefined : `${at} has no {${name}} in its path`)) ??
    findDuplicate(parameters.map(placeOf), `${at}: the`) ??
    firstOf(requirements.flatMap(Object.keys), (name) =>
      Object.hasOwn(schemes, name) ? undefined : `${at} requires the security scheme ${name}, which is not defined`,
    )
  )
}

/** The response that the document describes for a status: exactly, by its range or by default. */
export function responseFor({ responses }: Operation, status: number): Json | undefined {
  const keys = [`${status}`, `${Math.floor(status / 100)}XX`, 'default']
  return keys.map((key) => responses[key]).find(isObject)
}

/** Returns the schema of a body of application/json. */
export const jsonSchemaIn = (holder: Json | undefined) => mediaTypeIn(holder?.content, 'application/json')?.schema

/** Returns the most specific media range of `content`; a media type with the suffix +json is JSON, too. */
export function mediaTypeIn(content: unknown, mediaType: string): Json | undefined {
  const given = mediaType.toLowerCase()
  const json = /^application\/(.+\+)?json$/.test(given) ? ['application/json', 'application/*+json'] : []
  const ranges = [given, ...json, `${given.split('/')[0]}/*`, '*/*']
  const described = new Map(
    membersOf(content).map(([range, value]) => [range.toLowerCase().split(';')[0]?.trim(), value]),
  )
  return ranges.map((range) => described.get(range)).find(isObject)
}

interface Walk {
  /** In an OpenAPI document a reference may stand for any object, and extensions (x-…) are free. */
  readonly isDocument: boolean
  stepsLeft: number
}

/** As deep as JSON of a server is nested at most; schemas can refer to themselves, or to many others. */
const maxDepth = 500
const maxSteps = 2000
/** So many characters, elements or members are a step. */
const sizePerStep = 100

function sizeOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length
  return membersOf(value).length
}

/** Why a value does not fit a schema. */
export const findMisfit = (schema: unknown, value: unknown, at = 'the body'): Problem =>
  findMisfitAt(schema, value, { isDocument: false, stepsLeft: maxSteps }, at, 0)

function findMisfitAt(schema: unknown, value: unknown, walk: Walk, at: string, depth: number): Problem {
  if (walk.stepsLeft-- < 0 || depth > maxDepth) return undefined
  if (!isObject(schema) || (walk.isDocument && isReference(value))) return undefined
  walk.stepsLeft -= Math.floor((sizeOf(value) + sizeOf(schema.enum) + sizeOf(schema.required)) / sizePerStep)
  const inner = (other: unknown, part = value, place = at) => findMisfitAt(other, part, walk, place, depth + 1)
  const fits = (other: unknown) => inner(other) === undefined
  if (value === null && schema.nullable === true) return undefined
  return (
    findWrongType(schema, value, at) ??
    findOutOfRange(schema, value, at) ??
    (Array.isArray(value) && schema.items
      ? firstOf(value.entries(), ([index, one]) => inner(schema.items, one, placeIn(walk, at, index)))
      : undefined) ??
    (isObject(value) ? findWrongMember(schema, value, walk, at, depth) : undefined) ??
    firstOf(listIn(schema.allOf), (one) => inner(one)) ??
    (schema.anyOf && !listIn(schema.anyOf).some(fits)
      ? `${at} fits none of anyOf (${inner(listIn(schema.anyOf)[0])})`
      : undefined) ??
    (schema.oneOf && listIn(schema.oneOf).filter(fits).length !== 1 ? `${at} does not fit one of oneOf` : undefined) ??
    (schema.not && fits(schema.not) ? `${at} fits not` : undefined)
  )
}

function placeIn({ isDocument }: Walk, at: string, name: string | number): string {
  if (isDocument) return `${at}/${name}`
  return typeof name === 'number' ? `${at}[${name}]` : `${at}.${name}`
}

const isInteger = (value: unknown): value is number | bigint => typeof value === 'bigint' || Number.isInteger(value)
const types: Record<string, (value: unknown) => boolean> = {
  integer: isInteger,
  number: (value) => typeof value === 'number' || typeof value === 'bigint',
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  array: Array.isArray,
  object: isObject,
}
const hasBits = (bits: number) => (value: unknown) =>
  !isInteger(value) || BigInt.asIntN(bits, BigInt(value)) === BigInt(value)
const matches = (pattern: RegExp) => (value: unknown) => typeof value !== 'string' || pattern.test(value)
const formats: Record<string, (value: unknown) => boolean> = {
  int32: hasBits(32),
  int64: hasBits(64),
  date: matches(/^\d{4}-\d\d-\d\d$/),
  'date-time': matches(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i),
  uuid: matches(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i),
}

function findWrongType(schema: Json, value: unknown, at: string): Problem {
  const { type, format } = schema
  if (types[`${type}`]?.(value) === false) return `${at} is not of type ${type}`
  if (formats[`${format}`]?.(value) === false) return `${at} does not have the format ${format}`
  const isListed = !Array.isArray(schema.enum) || schema.enum.some((one) => isDeepStrictEqual(one, value))
  return isListed ? undefined : `${at} is not one of ${stringify(schema.enum)}`
}

/** The limits of a value, and what they limit. */
function measure(value: unknown): [lower: string, upper: string, measured: number] | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return ['minimum', 'maximum', Number(value)]
  if (typeof value === 'string') return ['minLength', 'maxLength', [...value].length]
  if (Array.isArray(value)) return ['minItems', 'maxItems', value.length]
  return isObject(value) ? ['minProperties', 'maxProperties', Object.keys(value).length] : undefined
}

function findOutOfRange(schema: Json, value: unknown, at: string): Problem {
  const [lower, upper, measured] = measure(value) ?? ['', '', 0]
  const { [lower]: min, [upper]: max } = schema
  if (typeof min === 'number' && (measured < min || (measured === min && schema.exclusiveMinimum === true)))
    return measured === 0 && lower !== 'minimum' ? `${at} is empty` : `${at} is beyond ${lower} ${min}`
  if (typeof max === 'number' && (measured > max || (measured === max && schema.exclusiveMaximum === true)))
    return `${at} is beyond ${upper} ${max}`
  if (typeof value === 'string' && typeof schema.pattern === 'string' && !isMatch(schema.pattern, value))
    return `${at} does not match the pattern ${schema.pattern}`
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
  const properties = isObject(schema.properties) ? schema.properties : {}
  const isOptional = (name: string) => {
    const { readOnly, writeOnly } = Object(properties[name])
    return readOnly === true || writeOnly === true
  }
  const missing = listIn(schema.required).find((name) => !Object.hasOwn(value, `${name}`) && !isOptional(`${name}`))
  if (missing !== undefined) return `${at} has no member ${missing}`
  return firstOf(Object.entries(value), ([name, member]) => {
    if (walk.isDocument && name.startsWith('x-')) return undefined
    if (schema.names instanceof RegExp && !schema.names.test(name)) return `${at} must not have the name ${name}`
    const other = schema.additionalProperties
    if (!Object.hasOwn(properties, name) && other === false) return `${at} has the additional member ${name}`
    const described = Object.hasOwn(properties, name) ? properties[name] : other
    return isObject(described) ? findMisfitAt(described, member, walk, placeIn(walk, at, name), depth + 1) : undefined
  })
}

/** The names of the members that a schema describes, those of an array for its items. */
export function describedMembers(schema: unknown, seen = new Set<unknown>()): string[] {
  if (!isObject(schema) || seen.has(schema)) return []
  seen.add(schema)
  const parts = [...listIn(schema.allOf), ...listIn(schema.oneOf), ...listIn(schema.anyOf), schema.items]
  return [...Object.keys(Object(schema.properties)), ...parts.flatMap((part) => describedMembers(part, seen))]
}
