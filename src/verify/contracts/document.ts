/** S4: the OpenAPI document is valid, describes the profile, and agrees with what the server does. */
import type { Client, Response } from '../../common/client.ts'
import { isObject } from '../../common/json.ts'
import { type Check, choice, providing, spec, uniqueText, withToken } from '../engine/contract.ts'
import {
  expectMediaType,
  expectObject,
  expectStatus,
  expectSuccess,
  expectThat,
  observe,
  parseJson,
  RuleViolation,
  setUp,
} from '../engine/expect.ts'
import {
  describedMembers,
  findInvalid,
  findMisfit,
  type Json,
  mediaTypeIn,
  type Operation,
  operationsOf,
  type Problem,
  requirementsOf,
  resolve,
  responseFor,
} from './openapi.ts'
import { itemPath, itemsPath } from './rules.ts'

/** The methods that a profile offers. */
export interface Methods {
  readonly collection: readonly string[]
  readonly item: readonly string[]
}

export const documentPath = '/swagger/v1/swagger.json'
export const secretPath = '/secret'
export const forecastPath = '/weatherforecast'
export const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')
export const bearer = (token: string | undefined) => ({ authorization: `Bearer ${token}` })

type Type = 'integer' | 'string' | 'boolean'

/** Values of other types. */
const wrongValues: Record<Type, readonly unknown[]> = {
  integer: ['x', 1.5, true],
  string: [1, true, {}],
  boolean: ['true', 0],
}

/** The objects of the specification: items and entries of the forecast. */
interface SpecifiedObject {
  readonly types: Readonly<Record<string, Type>>
  /** Members that must not be null. Where a null counts as missing, a document may allow it. */
  readonly notNull: readonly string[]
  /** Objects that the specification allows, made from one that the server returned. */
  variants(object: Json): Json[]
}

const shapes: Record<'a' | 'b' | 'forecast', SpecifiedObject> = {
  a: {
    types: { id: 'integer', name: 'string', isComplete: 'boolean' },
    notNull: ['id', 'isComplete'],
    variants: (item) => [item, { ...item, name: null }, { ...item, isComplete: true }, { ...item, id: 2 ** 40 }],
  },
  b: {
    types: { id: 'string', name: 'string', notes: 'string', done: 'boolean' },
    notNull: [],
    variants: (item) => [item, { ...item, done: true }],
  },
  forecast: {
    types: { date: 'string', temperatureC: 'integer', temperatureF: 'integer', summary: 'string' },
    notNull: ['date', 'temperatureC', 'temperatureF'],
    variants: (entry) => [
      { ...entry, temperatureC: -20, temperatureF: -3 },
      { ...entry, temperatureC: 54, temperatureF: 129 },
      ...summaries.map((summary) => ({ ...entry, summary })),
    ],
  },
}

const forecastEntry = { date: '2026-06-02T12:00:00.000+00:00', temperatureC: 20, temperatureF: 67, summary: 'Mild' }

/** An operation of the specification. */
interface Specified {
  readonly method: string
  /** Parameters without their names, in lower case. */
  readonly template: string
  readonly success: number
  readonly errors?: readonly number[]
  /** What the body of a success contains. */
  readonly shape?: SpecifiedObject
  readonly isList?: boolean
  readonly request?: {
    readonly shape: SpecifiedObject
    /** Valid bodies. */
    readonly bodies: () => readonly Json[]
    readonly required: readonly string[]
  }
}

interface DocumentedProfile {
  readonly shape: SpecifiedObject
  readonly operations: readonly Specified[]
  newItem(): Json
  /** Requests whose responses have no body, or an error. */
  exchanges(client: Client, item: Json): Promise<Response[]>
}

const itemTemplate = `${itemsPath}/{}`

const newItemA = (): Json => ({ name: uniqueText(), isComplete: false })
const newItemB = (): Json => ({ id: uniqueText(), name: uniqueText(), notes: 'notes', done: false })
/** Items of a real store do not have it. */
const unusedId = '9007199254740993'

const { id: _, ...createdTypes } = shapes.a.types
const requestA = { shape: shapes.a, required: ['isComplete'] }
const requestB = {
  shape: shapes.b,
  required: ['id', 'name', 'notes'],
  bodies: () => {
    const { done, ...rest } = newItemB()
    return [{ ...rest, done }, rest]
  },
}

const profiles: Record<'a' | 'b', DocumentedProfile> = {
  a: {
    shape: shapes.a,
    operations: [
      { method: 'GET', template: itemsPath, success: 200, shape: shapes.a, isList: true },
      {
        method: 'POST',
        template: itemsPath,
        success: 201,
        shape: shapes.a,
        request: {
          ...requestA,
          shape: { ...shapes.a, types: createdTypes, notNull: ['isComplete'] },
          bodies: () => [newItemA(), { name: null, isComplete: true }],
        },
      },
      { method: 'GET', template: itemTemplate, success: 200, errors: [404], shape: shapes.a },
      {
        method: 'PUT',
        template: itemTemplate,
        success: 204,
        errors: [400, 404],
        request: { ...requestA, bodies: () => [1, 2 ** 40].map((id) => ({ id, name: null, isComplete: true })) },
      },
      { method: 'DELETE', template: itemTemplate, success: 204, errors: [404] },
    ],
    newItem: newItemA,
    exchanges: async (client, item) => [
      await client.send('POST', itemsPath, {}),
      await client.send('PUT', itemPath(item.id), stringifyItem(item)),
      await client.send('PUT', itemPath(item.id), stringifyItem({ ...item, id: unusedId })),
      await client.send('PUT', `${itemsPath}/${unusedId}`, stringifyItem({ ...newItemA(), id: unusedId })),
      await client.send('GET', `${itemsPath}/${unusedId}`),
      await client.send('DELETE', `${itemsPath}/${unusedId}`),
    ],
  },
  b: {
    shape: shapes.b,
    operations: [
      { method: 'GET', template: itemsPath, success: 200, shape: shapes.b, isList: true },
      { method: 'POST', template: itemsPath, success: 200, errors: [400, 409], shape: shapes.b, request: requestB },
      { method: 'PUT', template: itemsPath, success: 204, errors: [400, 404], request: requestB },
      { method: 'DELETE', template: itemTemplate, success: 204, errors: [400, 404] },
    ],
    newItem: newItemB,
    exchanges: async (client, item) => [
      await client.send('POST', itemsPath, {}),
      await client.send('POST', itemsPath, item),
      await client.send('PUT', itemsPath, item),
      await client.send('PUT', itemsPath, {}),
      await client.send('PUT', itemsPath, newItemB()),
      await client.send('DELETE', `${itemsPath}/${uniqueText()}`),
    ],
  },
}

/** JSON.stringify cannot write a bigint. */
const stringifyItem = ({ id, name }: Json) => `{"id":${id},"name":${JSON.stringify(name)},"isComplete":true}`

const samples: readonly Specified[] = [
  { method: 'GET', template: '/', success: 200 },
  { method: 'GET', template: forecastPath, success: 200, shape: shapes.forecast, isList: true },
  { method: 'GET', template: secretPath, success: 200 },
]

async function fetchDocument(client: Client): Promise<{ response: Response; document: Json }> {
  const response = await client.send('GET', documentPath, undefined, bearer(client.token))
  observe(documentPath, () => expectStatus(response, 200))
  return { response, document: observe('document', () => expectObject(response)) }
}

const title = ({ method, template }: Specified) => `${method} ${template.replace('{}', '{id}')}`

const findOperation = (document: Json, { method, template }: Specified): Operation | undefined =>
  operationsOf(document).find((one) => one.method === method && one.template.toLowerCase() === template)

/** A statement about a valid document; other checks tell whether it is valid. */
function expectDescribed(expected: string, problem: Problem, response: Response): void {
  if (problem === undefined) return
  observe('document', () => {
    throw new RuleViolation(`the document to describe ${expected}`, response, problem)
  })
}

/** Whether a schema allows what the specification allows, and only the members and types that it states. */
function findWrongSchema(
  document: Json,
  schema: unknown,
  valid: readonly unknown[],
  shape: SpecifiedObject,
  isRequest: boolean,
) {
  const context = { document, isRequest }
  for (const value of valid) {
    const problem = findMisfit(schema, value, context)
    if (problem !== undefined) return `a schema by which ${problem}`
  }
  const [sample] = valid
  const isList = Array.isArray(sample)
  const object = (isList ? sample[0] : sample) as Json
  if (isList && findMisfit(schema, object, context) === undefined) return 'a schema that is not that of an array'
  for (const [name, type] of Object.entries(shape.types)) {
    const wrong = [...wrongValues[type], ...(shape.notNull.includes(name) ? [null] : [])]
    for (const value of wrong) {
      const other = { ...object, [name]: value }
      if (findMisfit(schema, isList ? [other] : other, context) === undefined)
        return `a schema by which ${name} may be ${JSON.stringify(value)}`
    }
  }
  const known = Object.keys(isRequest ? { ...shape.types, id: '' } : shape.types)
  const unknown = describedMembers(document, schema).find((name) => !known.includes(name))
  return unknown === undefined ? undefined : `the member ${unknown}`
}

/** Returns the schema of a body of application/json. */
const jsonSchemaIn = (document: Json, holder: Json | undefined) =>
  resolve(document, mediaTypeIn(holder?.content, 'application/json')?.schema)

function findWrongResponse(document: Json, operation: Operation, response: Response): Problem {
  const described = responseFor(document, operation.value, response.status)
  if (!described) return undefined
  const ranges = Object.keys(Object(described.content))
  if (response.status === 204 && ranges.length > 0) return 'a response 204 with a body'
  for (const [name, header] of Object.entries(Object(described.headers)))
    if (resolve(document, header)?.required === true && response.headers[name.toLowerCase()] === undefined)
      return `a header ${name} that is always present`
  if (response.text === '' || ranges.length === 0) return undefined
  const [mediaType = ''] = (response.headers['content-type'] ?? '').split(/\s*;/)
  const media = mediaTypeIn(described.content, mediaType)
  if (!media) return `a body of ${ranges.join(' or ')}`
  const body = /[/+]json$/i.test(mediaType) ? parseJson(response) : response.text
  const problem = findMisfit(media.schema, body, { document, isRequest: false })
  return problem === undefined ? undefined : `a schema by which ${problem}`
}

function findWrongRequest(
  document: Json,
  { value, parameters, template }: Operation,
  { request }: Specified,
  shape: SpecifiedObject,
) {
  const context = { document, isRequest: true }
  const [inPath] = parameters.filter((one) => one.in === 'path')
  if (template.endsWith('{}')) {
    const type = shape.types.id as Type
    const schema = inPath?.schema ?? Object(Object.values(Object(inPath?.content))[0]).schema
    const problem = findMisfit(schema, type === 'integer' ? 2 ** 40 : uniqueText(), context, 'the id')
    if (problem !== undefined) return `a path parameter by which ${problem}`
    const accepted = wrongValues[type].find((wrong) => findMisfit(schema, wrong, context) === undefined)
    if (accepted !== undefined) return `a path parameter that may be ${JSON.stringify(accepted)}`
  }
  const required = parameters.find(
    (one) => one.in !== 'path' && one.required === true && !/^authorization$/i.test(`${one.name}`),
  )
  if (required) return `the required parameter ${required.name}`
  const body = resolve(document, value.requestBody)
  if (!request) return body?.required === true ? 'a required body' : undefined
  const schema = jsonSchemaIn(document, body)
  if (!schema) return 'no schema of a body of application/json'
  return findWrongSchema(document, schema, request.bodies(), request.shape, true)
}

/** Returns the members that the document requires of a request; undefined where it describes no body. */
function requiredMembers(document: Json, operation: Operation, { request }: Specified): string[] | undefined {
  const schema = jsonSchemaIn(document, resolve(document, operation.value.requestBody))
  const [body] = request?.bodies() ?? []
  if (!schema || !body) return undefined
  return Object.keys(body).filter((name) => {
    const { [name]: __, ...rest } = body
    return findMisfit(schema, rest, { document, isRequest: true }) !== undefined
  })
}

/** A JWT in the header Authorization: OAuth 2.0 and OpenID Connect use bearer tokens, too. */
const isBearer = ({ type, scheme, name, in: place }: Json) =>
  (type === 'http' && /^bearer$/i.test(`${scheme}`)) ||
  type === 'oauth2' ||
  type === 'openIdConnect' ||
  (type === 'apiKey' && place === 'header' && /^authorization$/i.test(`${name}`))

const isSecured = (document: Json, { value }: Operation) => {
  const requirements = requirementsOf(document, value)
  return requirements.length > 0 && requirements.every((one) => Object.keys(one).length > 0)
}

function findNoToken(document: Json, operation: Operation): Problem {
  if (!isSecured(document, operation)) return 'no security requirement'
  const schemes = Object(Object(document.components).securitySchemes)
  const names = requirementsOf(document, operation.value).flatMap(Object.keys)
  return names.some((name) => isBearer(resolve(document, schemes[name]) ?? {}))
    ? undefined
    : `${names}: no bearer token`
}

const deniesWithoutToken = async (client: Client) =>
  [401, 403].includes((await client.send('GET', itemsPath, undefined, { authorization: undefined })).status)

const isOfItems = ({ template }: Operation | Specified) => template.toLowerCase().startsWith(itemsPath)

/** The item as it was sent, with its id: whether the server returns it is the business of other checks. */
async function createItem(client: Client, { newItem }: DocumentedProfile): Promise<Json> {
  const sent = newItem()
  const response = await client.send('POST', itemsPath, sent)
  return setUp('create', () => {
    expectSuccess(response)
    const { id } = expectObject(response)
    expectThat(id !== undefined, 'an item with an id', response)
    return { id, ...sent }
  })
}

/** That any operation may have. */
const generalErrors = [400, 401, 403, 405, 406, 408, 411, 412, 413, 414, 415, 429, 431]
const notServed = [404, 405, 501]
const maxOtherPaths = 5

/** Operations that the document describes and the specification does not. Other methods than GET are sent to an own item only. */
async function findNotServed(client: Client, others: readonly Operation[], item: Json) {
  const readable = others.filter(({ method, path }) => method === 'GET' && !path.includes('{')).slice(0, maxOtherPaths)
  const ofItem = others.filter(({ method, template }) => template.toLowerCase() === itemTemplate && method !== 'DELETE')
  for (const operation of [...readable, ...ofItem]) {
    const { method, path, value, parameters } = operation
    if (parameters.some((one) => one.in !== 'path' && one.required === true)) continue
    const target = path.includes('{') ? itemPath(item.id) : path
    const response = await client.send(method, target, method === 'GET' ? undefined : {}, bearer(client.token))
    const isDescribed = Object.hasOwn(Object(value.responses), response.status)
    if (notServed.includes(response.status) && !isDescribed) return { operation, response }
  }
  return undefined
}

/** A relative URL of a server is relative to the document. Another origin, or the root, may be behind a proxy. */
function findWrongServers(document: Json, { url }: Client): Problem {
  const urls = Array.isArray(document.servers) ? document.servers.filter(isObject).map((server) => `${server.url}`) : []
  const reaches = (server: string) => {
    if (server.includes('{')) return true
    if (!URL.canParse(server, `${url}${documentPath}`)) return false
    const { origin, href } = new URL(server, `${url}${documentPath}`)
    return origin !== new URL(url).origin || [url, origin].includes(href.replace(/\/+$/, ''))
  }
  return urls.length === 0 || urls.some(reaches) ? undefined : `servers at ${urls.join(', ')}`
}

const isProfileA = ({ item }: Methods) => item.includes('PUT')

/**
 * Basis spec: the document lacks an operation, its success or its members, or says what the server does not do.
 * Basis choice: it leaves out an error or a detail, as generators do that know only the types of a program.
 */
export function documentChecks(methods: Methods): Check[] {
  const profile = profiles[isProfileA(methods) ? 'a' : 'b']
  const specified = [...profile.operations, ...samples]
  const described = (document: Json) =>
    specified.flatMap((one) => {
      const operation = findOperation(document, one)
      return operation ? [{ specified: one, operation }] : []
    })

  const checks = [
    providing(
      'document',
      spec('S4', 'the OpenAPI document is valid', async (client) => {
        const { response, document } = await fetchDocument(client)
        const problem = findInvalid(document)
        if (problem !== undefined) throw new RuleViolation('a valid OpenAPI 3.0.1 document', response, problem)
      }),
    ),
    spec('S4', 'the OpenAPI document has version 3.0.1 and info.version v1', async (client) => {
      const { response, document } = await fetchDocument(client)
      expectThat(document.openapi === '3.0.1', 'openapi 3.0.1', response)
      expectThat(Object(document.info).version === 'v1', 'info.version v1', response)
      expectMediaType(response, 'application/json')
    }),
    spec('S4', 'the OpenAPI document describes the operations and their success', async (client) => {
      const { response, document } = await fetchDocument(client)
      for (const one of specified) {
        const operation = findOperation(document, one)
        expectDescribed(title(one), operation ? undefined : 'not described', response)
        const statuses = Object.keys(Object(operation?.value.responses))
        const isDescribed = operation && responseFor(document, operation.value, one.success)
        expectDescribed(`${one.success} of ${title(one)}`, isDescribed ? undefined : `only ${statuses}`, response)
      }
    }),
    spec('S4', 'the OpenAPI document describes requests as the server accepts them', async (client) => {
      const { response, document } = await fetchDocument(client)
      for (const { specified, operation } of described(document)) {
        const problem = findWrongRequest(document, operation, specified, profile.shape)
        expectDescribed(`the request ${title(specified)}`, problem, response)
      }
      const required = described(document).map(({ specified, operation }) => ({
        specified,
        stated: requiredMembers(document, operation, specified),
      }))
      // Some generators state no member as required; where one is, the others are optional.
      const statesRequired = required.some(({ stated }) => stated !== undefined && stated.length > 0)
      for (const { specified, stated } of statesRequired ? required : []) {
        const missing = specified.request?.required.find((name) => stated && !stated.includes(name))
        expectDescribed(`required members of ${title(specified)}`, missing && `${missing} is optional`, response)
      }
      const problem = findWrongServers(document, client)
      expectDescribed(`a server at ${client.url}`, problem, response)
    }),
    spec('S4', 'the OpenAPI document describes responses as the server sends them', async (client) => {
      const { response, document } = await fetchDocument(client)
      const item = await createItem(client, profile)
      for (const { specified, operation } of described(document)) {
        const { shape, isList, success } = specified
        const object = shape === shapes.forecast ? forecastEntry : item
        const holder = responseFor(document, operation.value, success)
        if (!shape || !holder) continue
        const schema = jsonSchemaIn(document, holder)
        const valid = shape
          .variants(object)
          .map((one) => (isList ? Array(shape === shapes.forecast ? 5 : 1).fill(one) : one))
        const problem = schema
          ? findWrongSchema(document, schema, valid, shape, false)
          : 'no schema of application/json'
        expectDescribed(`the response ${success} of ${title(specified)}`, problem, response)
      }
      for (const exchange of [
        ...(await profile.exchanges(client, item)),
        await client.send('DELETE', itemPath(item.id)),
        await client.send('GET', '/'),
        await client.send('GET', secretPath),
        await client.send('GET', secretPath, undefined, bearer(client.token)),
      ]) {
        const { method } = exchange.request
        const path = exchange.request.path.slice(new URL(client.url).pathname.replace(/\/$/, '').length)
        const template = path.startsWith(`${itemsPath}/`) ? itemTemplate : path
        const operation = findOperation(document, { method, template, success: 0 })
        const problem = operation && findWrongResponse(document, operation, exchange)
        expectDescribed(
          `the response ${exchange.status} of ${method} ${template.replace('{}', '{id}')}`,
          problem,
          exchange,
        )
      }
    }),
    spec('S4', 'the OpenAPI document describes no other error instead of one that the server sends', async (client) => {
      const { response, document } = await fetchDocument(client)
      for (const { specified, operation } of described(document)) {
        const { errors = [] } = specified
        const missing = errors.filter((status) => !responseFor(document, operation.value, status))
        const others = Object.keys(Object(operation.value.responses)).filter(
          (status) => /^4\d\d$/.test(status) && ![...errors, ...generalErrors].includes(Number(status)),
        )
        const problem = missing.length > 0 && others.length > 0 ? `${others}` : undefined
        expectDescribed(`${missing} of ${title(specified)}`, problem, response)
      }
    }),
    spec('S4', 'the OpenAPI document says which operations need a token', async (client) => {
      const { response, document } = await fetchDocument(client)
      const isGuarded = await deniesWithoutToken(client)
      for (const operation of operationsOf(document)) {
        const { method, path, template } = operation
        const isOpen = ['/', forecastPath].includes(template.toLowerCase()) && method === 'GET'
        const isClosed = [secretPath, documentPath].includes(template.toLowerCase()) && method === 'GET'
        if (isOpen && isSecured(document, operation))
          expectDescribed(`${method} ${path} without security`, 'security', response)
        if (isClosed || (isGuarded && isOfItems(operation)))
          expectDescribed(`the bearer token of ${method} ${path}`, findNoToken(document, operation), response)
      }
    }),
    spec('S4', 'the OpenAPI document describes no operation that is not served', async (client) => {
      const { document } = await fetchDocument(client)
      const known = described(document).map(({ operation }) => operation)
      const others = operationsOf(document).filter((one) => !known.some(({ value }) => value === one.value))
      if (others.length === 0) return
      const item = await createItem(client, profile)
      const found = await findNotServed(client, others, item)
      if (found)
        observe('document', () => {
          throw new RuleViolation(`${found.operation.method} ${found.operation.path} to be served`, found.response)
        })
    }),
    choice('S4', 'the OpenAPI document describes the errors of the operations', async (client) => {
      const { response, document } = await fetchDocument(client)
      for (const { specified, operation } of described(document))
        for (const status of specified.errors ?? []) {
          const isDescribed = responseFor(document, operation.value, status)
          expectDescribed(`${status} of ${title(specified)}`, isDescribed ? undefined : 'not described', response)
        }
    }),
    choice('S4', 'the OpenAPI document states formats, required members and media types', async (client) => {
      const { response, document } = await fetchDocument(client)
      for (const { specified, operation } of described(document)) {
        const { shape, success, isList } = specified
        const context = { document, isRequest: false }
        const holder = responseFor(document, operation.value, success)
        const isText = !shape && success === 200
        const problem = isText && !mediaTypeIn(holder?.content, 'text/plain') ? 'no media type' : undefined
        expectDescribed(`the body of ${title(specified)}`, problem, response)
        if (shape === shapes.a) {
          const item = { id: 2n ** 63n, name: '', isComplete: false }
          const isFree = findMisfit(jsonSchemaIn(document, holder), isList ? [item] : item, context) === undefined
          expectDescribed(`the format int64 of id in ${title(specified)}`, isFree ? 'no format' : undefined, response)
        }
        const stated = requiredMembers(document, operation, specified)
        expectDescribed(
          `the required members of ${title(specified)}`,
          stated?.length === 0 ? 'none' : undefined,
          response,
        )
      }
    }),
    choice(
      'S4',
      'the OpenAPI document requires a token for the to-do items only if the server does',
      async (client) => {
        const { response, document } = await fetchDocument(client)
        if (await deniesWithoutToken(client)) return
        const secured = operationsOf(document).find((one) => isOfItems(one) && isSecured(document, one))
        expectDescribed(`${secured?.method} ${secured?.path} without security`, secured && 'security', response)
      },
    ),
  ]
  return checks.map(withToken)
}
