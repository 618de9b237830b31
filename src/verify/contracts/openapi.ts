/** OpenAPI 3.0 documents: whether a client can be generated from one, and what its schemas say. */
import { unescape as decode } from 'node:querystring'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../common/json.ts'
import { stringify } from '../engine/expect.ts'

export type Json = Readonly<Record<string, unknown>>

/** What is wrong, with the place of it; undefined: nothing. */
export type Problem = string | undefined

const membersOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])
const listIn = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
export const objectsIn = (value: unknown): Json[] => listIn(value).filter(isObject)

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

/** Puts what references lead to in their place, so that a schema may contain itself. Returns one that leads nowhere. */
function linkReferences(document: Json): string | undefined {
  let broken: string | undefined
  const holders = new Set<Record<string, unknown>>([document])
  // The loop gets to the objects that are added meanwhile, too.
  for (const holder of holders)
    for (const [name, member] of Object.entries(holder)) {
      // Their values are data.
      if (['example', 'examples', 'enum'].includes(name)) continue
      const target = resolve(document, member)
      if (isReference(member)) {
        holder[name] = Object(target)
        if (member.$ref.startsWith('#') && !isObject(target)) broken ??= member.$ref
      }
      if (isObject(target) || Array.isArray(target)) holders.add(target as Record<string, unknown>)
    }
  return broken
}

export interface Operation {
  readonly method: string
  readonly path: string
  /** In lower case, and `{}` in place of each parameter, since its name is free. */
  readonly template: string
  readonly id: unknown
  /** Those of the path and of the operation. */
  readonly parameters: readonly Json[]
  readonly requestBody: Json | undefined
  readonly responses: Json
  /** One of these is required; the requirement without a scheme is that of no security. */
  readonly requirements: readonly Json[]
}

const methodNames = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const templateOf = (path: string) => path.replace(/\{[^{}]*\}/g, '{}').toLowerCase()
const placeOf = ({ name, in: place }: Json) => `${place} parameter ${name}`

/** The path of the first server, which is relative to the document. Another origin may be behind a proxy. */
function basePathOf(servers: unknown, documentUrl: string): string {
  const [{ url = '/' } = {}] = objectsIn(servers)
  const base = `${url}`.includes('{') || !URL.canParse(`${url}`, documentUrl) ? '/' : `${url}`
  const { origin, pathname } = new URL(base, documentUrl)
  return origin === new URL(documentUrl).origin ? pathname.replace(/\/+$/, '') : ''
}

function operationsOf(document: Json, baseUrl: string, documentPath: string): Operation[] {
  const root = new URL(baseUrl).pathname.replace(/\/$/, '')
  /** The path below the base URL. */
  const pathBelow = (path: string) => (path.startsWith(`${root}/`) ? path.slice(root.length) : path)
  return membersOf(document.paths).flatMap(([path, item]) =>
    membersOf(item)
      .filter(([method, value]) => methodNames.includes(method) && isObject(value))
      .map(([method, value]): Operation => {
        const { operationId, parameters, requestBody, responses, security = document.security } = value as Json
        const { servers = Object(item).servers ?? document.servers } = value as Json
        const basePath = basePathOf(servers, `${baseUrl}${documentPath}`)
        const own = objectsIn(parameters)
        const shared = objectsIn(Object(item).parameters)
        return {
          method: method.toUpperCase(),
          path,
          template: templateOf(pathBelow(`${basePath}${path}`)),
          id: operationId,
          parameters: [...shared.filter((one) => !own.some((other) => placeOf(other) === placeOf(one))), ...own],
          requestBody: requestBody === undefined ? undefined : Object(requestBody),
          responses: Object(responses),
          requirements: objectsIn(security),
        }
      }),
  )
}

/** Returns the operations of a document, and what makes it no valid OpenAPI 3.0 document. Links its references. */
export function readOpenApi(
  document: Json,
  baseUrl: string,
  documentPath: string,
): { operations: Operation[]; invalid: Problem } {
  const broken = linkReferences(document)
  const operations = operationsOf(document, baseUrl, documentPath)
  const ids = operations.map(({ id }) => id).filter((id) => id !== undefined)
  const paths = Object.keys(Object(document.paths))
  const { title, version } = Object(document.info)
  const isBegun = [document.openapi, title, version].every((one) => typeof one === 'string') && isObject(document.paths)
  const invalid =
    (broken && `${broken} does not exist`) ??
    (isBegun ? undefined : 'openapi, info.title, info.version or paths is missing') ??
    firstOf(paths, (path) => (/^(\/|x-)/.test(path) ? undefined : `the path ${path} does not begin with a slash`)) ??
    firstOf(operations, findInvalidPart) ??
    findInvalidSchema(document, operations) ??
    findDuplicate(paths.map(templateOf), 'the path') ??
    findDuplicate(ids, 'the operationId') ??
    firstOf(operations, (one) => findUndeclared(document, one))
  return { operations, invalid }
}

function findInvalidPart({ method, path, parameters, responses, requestBody }: Operation): Problem {
  const at = `${method} ${path}`
  const described = membersOf(responses).filter(([status]) => !status.startsWith('x-'))
  if (described.length === 0) return `${at} has no responses`
  const wrong = described.find(
    ([status, one]) => !/^([1-5](\d\d|XX)|default)$/.test(status) || typeof Object(one).description !== 'string',
  )
  if (wrong) return `${at}: the response ${wrong[0]} is no status with a description`
  if (isObject(requestBody) && !isObject(requestBody.content)) return `${at}: its requestBody has no content`
  const other = parameters.find(
    ({ name, in: place, schema, content }) =>
      typeof name !== 'string' ||
      !['path', 'query', 'header', 'cookie'].includes(`${place}`) ||
      !(isObject(schema) || isObject(content)),
  )
  return other && `${at}: a parameter has no name, place or schema (${placeOf(other)})`
}

/** A list of types, and the type null, came with OpenAPI 3.1. */
const types: readonly unknown[] = ['string', 'integer', 'number', 'boolean', 'object', 'array', undefined]

function findInvalidSchema(document: Json, operations: readonly Operation[]): Problem {
  const places = new Map<unknown, string>()
  const add = (schema: unknown, place: string) => {
    if (schema !== undefined && !places.has(schema)) places.set(schema, place)
  }
  for (const [name, schema] of membersOf(Object(document.components).schemas)) add(schema, `the schema ${name}`)
  for (const { method, path, parameters, requestBody, responses } of operations)
    for (const holder of [...parameters, requestBody, ...Object.values(responses)]) {
      add(Object(holder).schema, `the schema of a parameter of ${method} ${path}`)
      for (const [range, media] of membersOf(Object(holder).content))
        add(Object(media).schema, `the schema of ${range} of ${method} ${path}`)
    }
  // The loop gets to the schemas that are added meanwhile, too.
  for (const [schema, at] of places) {
    if (!isObject(schema)) return `${at} is no schema`
    const { type, items, properties, required = [], additionalProperties } = schema
    if (!types.includes(type)) return `${at} has the type ${stringify(type)}`
    if (type === 'array' && !isObject(items)) return `${at} has no items`
    if (!Array.isArray(required)) return `${at} has the value ${stringify(required)} of required`
    for (const [name, member] of membersOf(properties)) add(member, `${at}/${name}`)
    for (const part of componentsOf(schema)) add(part, `a part of ${at}`)
    add(items, `${at}[]`)
    if (isObject(additionalProperties)) add(additionalProperties, `${at}/*`)
  }
  return undefined
}

function findDuplicate(values: readonly unknown[], what: string): Problem {
  const seen = new Set<unknown>()
  // `add` returns the set.
  const twice = values.find((value) => seen.has(value) || !seen.add(value))
  return twice === undefined ? undefined : `${what} ${twice} occurs twice`
}

function findUndeclared(document: Json, { method, path, parameters, requirements }: Operation): Problem {
  const at = `${method} ${path}`
  const declared = parameters.filter((one) => one.in === 'path').map(({ name, required }) => `${name} ${required}`)
  const named = [...path.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => `${name} true`)
  const schemes = Object(Object(document.components).securitySchemes)
  const undefinedScheme = requirements.flatMap(Object.keys).find((name) => !Object.hasOwn(schemes, name))
  if (!isDeepStrictEqual(new Set(named), new Set(declared)))
    return `${at} does not declare each parameter of its path as required, and no other`
  if (undefinedScheme !== undefined)
    return `${at} requires the security scheme ${undefinedScheme}, which is not defined`
  return findDuplicate(parameters.map(placeOf), `${at}: the`)
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
  const described = new Map(membersOf(content).map(([range, value]) => [range.toLowerCase().split(/\s*;/)[0], value]))
  const ranges = [given, ...json, `${given.split('/')[0]}/*`, '*/*']
  return ranges.map((range) => described.get(range)).find(isObject)
}

const componentsOf = ({ allOf, oneOf, anyOf }: Json) => [allOf, oneOf, anyOf].flatMap(listIn)

function partsOf(schema: unknown, seen = new Set<unknown>()): Json[] {
  if (!isObject(schema) || seen.has(schema)) return []
  seen.add(schema)
  return [schema, ...componentsOf(schema).flatMap((part) => partsOf(part, seen))]
}

/** What a schema says about a value, the schemas that it is composed of put together. */
export function shapeOf(schema: unknown) {
  const parts = partsOf(schema)
  const first = (name: string) => parts.map((part) => part[name]).find((value) => value !== undefined)
  return {
    type: first('type'),
    format: first('format'),
    values: first('enum'),
    items: first('items'),
    isNullable: parts.some(({ nullable }) => nullable === true),
    members: new Map(parts.flatMap(({ properties }) => membersOf(properties))),
    required: parts.flatMap(({ required }) => listIn(required)),
  }
}
