/** S4: the OpenAPI document is valid, describes the profile, and agrees with what the server does. */
import { bearer, type Client, type Response } from '../../common/client.ts'
import { type Check, choice, spec, uniqueText, withToken } from '../engine/contract.ts'
import {
  expectMediaType,
  expectObject,
  expectStatus,
  expectSuccess,
  expectThat,
  parseJson,
  RuleViolation,
} from '../engine/expect.ts'
import {
  describedMembers,
  findMisfit,
  type Json,
  jsonSchemaIn,
  mediaTypeIn,
  type Operation,
  type Problem,
  readOpenApi,
  responseFor,
} from './openapi.ts'
import { itemPath, itemsPath, observe, providing, setUp } from './rules.ts'

/** The methods that a profile offers. */
export interface Methods {
  readonly collection: readonly string[]
  readonly item: readonly string[]
}

export const documentPath = '/swagger/v1/swagger.json'
export const secretPath = '/secret'
export const forecastPath = '/weatherforecast'
export const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')

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
  /** Objects that the specification allows, made from an item that the server returned. */
  variants(item: Json): Json[]
}

const itemOfA: SpecifiedObject = {
  types: { id: 'integer', name: 'string', isComplete: 'boolean' },
  notNull: ['id', 'isComplete'],
  variants: (item) => [item, { ...item, name: null }, { ...item, isComplete: true }, { ...item, id: 2 ** 40 }],
}
const itemOfB: SpecifiedObject = {
  types: { id: 'string', name: 'string', notes: 'string', done: 'boolean' },
  notNull: [],
  variants: (item) => [item, { ...item, done: true }],
}
const date = '2026-06-02T12:00:00.000+00:00'
const forecastEntry: SpecifiedObject = {
  types: { date: 'string', temperatureC: 'integer', temperatureF: 'integer', summary: 'string' },
  notNull: ['date', 'temperatureC', 'temperatureF'],
  variants: () =>
    summaries.flatMap((summary) => [
      { date, temperatureC: -20, temperatureF: -3, summary },
      { date, temperatureC: 54, temperatureF: 129, summary },
    ]),
}

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
  readonly validBodies?: readonly Json[]
}

interface Described extends Specified {
  readonly operation: Operation
}

interface DocumentedProfile {
  readonly item: SpecifiedObject
  /** The members that a request must have. */
  readonly required: readonly string[]
  readonly operations: readonly Specified[]
  newItem(): Json
  /** Requests whose responses have no body, or an error. */
  exchanges(client: Client, item: Json): Promise<Response[]>
}

const itemTemplate = `${itemsPath}/{}`

/** Items of a real store do not have it. */
const unusedId = '9007199254740993'
const creationsOfA = ['name', null].map((name) => ({ name, isComplete: false }))
const updatesOfA = [1, 2 ** 40].map((id) => ({ id, name: null, isComplete: true }))
const withoutDone = { id: 'id', name: 'name', notes: 'notes' }
const bodiesOfB = [{ ...withoutDone, done: false }, withoutDone]

const profileA: DocumentedProfile = {
  item: itemOfA,
  required: ['isComplete'],
  operations: [
    { method: 'GET', template: itemsPath, success: 200, shape: itemOfA, isList: true },
    { method: 'POST', template: itemsPath, success: 201, shape: itemOfA, validBodies: creationsOfA },
    { method: 'GET', template: itemTemplate, success: 200, errors: [404], shape: itemOfA },
    { method: 'PUT', template: itemTemplate, success: 204, errors: [400, 404], validBodies: updatesOfA },
    { method: 'DELETE', template: itemTemplate, success: 204, errors: [404] },
  ],
  newItem: () => ({ name: uniqueText(), isComplete: false }),
  exchanges: async (client, item) => [
    await client.send('POST', itemsPath, {}),
    await client.send('PUT', itemPath(item.id), stringifyItem(item)),
    await client.send('PUT', itemPath(item.id), stringifyItem({ ...item, id: unusedId })),
    await client.send('PUT', `${itemsPath}/${unusedId}`, stringifyItem({ ...item, id: unusedId })),
    await client.send('GET', `${itemsPath}/${unusedId}`),
    await client.send('DELETE', `${itemsPath}/${unusedId}`),
  ],
}

const profileB: DocumentedProfile = {
  item: itemOfB,
  required: ['id', 'name', 'notes'],
  operations: [
    { method: 'GET', template: itemsPath, success: 200, shape: itemOfB, isList: true },
    { method: 'POST', template: itemsPath, success: 200, errors: [400, 409], shape: itemOfB, validBodies: bodiesOfB },
    { method: 'PUT', template: itemsPath, success: 204, errors: [400, 404], validBodies: bodiesOfB },
    { method: 'DELETE', template: itemTemplate, success: 204, errors: [400, 404] },
  ],
  newItem: () => ({ id: uniqueText(), name: uniqueText(), notes: 'notes', done: false }),
  exchanges: async (client, item) => [
    await client.send('POST', itemsPath, {}),
    await client.send('POST', itemsPath, item),
    await client.send('PUT', itemsPath, item),
    await client.send('PUT', itemsPath, {}),
    await client.send('PUT', itemsPath, { ...item, id: uniqueText() }),
    await client.send('DELETE', `${itemsPath}/${uniqueText()}`),
  ],
}

/** JSON.stringify cannot write a bigint. */
const stringifyItem = ({ id, name }: Json) => `{"id":${id},"name":${JSON.stringify(name)},"isComplete":true}`

const samples: readonly Specified[] = [
  { method: 'GET', template: '/', success: 200 },
  { method: 'GET', template: forecastPath, success: 200, shape: forecastEntry, isList: true },
  { method: 'GET', template: secretPath, success: 200 },
]

async function fetchDocument(client: Client) {
  const response = await client.send('GET', documentPath, undefined, bearer(client.token))
  observe(documentPath, () => expectStatus(response, 200))
  const document = observe('document', () => expectObject(response))
  return { response, document, ...readOpenApi(document, client.url, documentPath) }
}

type Target = Pick<Specified, 'method' | 'template'>

const title = ({ method, template }: Target) => `${method} ${template.replace('{}', '{id}')}`

const findOperation = (operations: readonly Operation[], { method, template }: Target) =>
  operations.find((one) => one.method === method && one.template.toLowerCase() === template)

/** A statement about a valid document; other checks tell whether it is valid. */
function expectDescribed(expected: string, problem: Problem, response: Response): void {
  if (problem === undefined) return
  observe('document', () => {
    throw new RuleViolation(`the document to describe ${expected}`, response, problem)
  })
}

/** Whether a schema allows what the specification allows, and only the members and types that it states. */
function findWrongSchema(schema: unknown, valid: readonly Json[], shape: SpecifiedObject, isList?: boolean): Problem {
  if (!schema) return 'no schema of a body of application/json'
  const misfitOf = (object: Json) => findMisfit(schema, isList ? Array(5).fill(object) : object)
  for (const object of valid) {
    const problem = misfitOf(object)
    if (problem !== undefined) return `a schema by which ${problem}`
  }
  const [sample = {}] = valid
  if (isList && findMisfit(schema, sample) === undefined) return 'a schema that is not that of an array'
  for (const [name, type] of Object.entries(shape.types).filter(([name]) => Object.hasOwn(sample, name))) {
    const wrong = [...wrongValues[type], ...(shape.notNull.includes(name) ? [null] : [])]
    const accepted = wrong.find((value) => misfitOf({ ...sample, [name]: value }) === undefined)
    if (accepted !== undefined) return `a schema by which ${name} may be ${JSON.stringify(accepted)}`
  }
  const unknown = describedMembers(schema).find((name) => !Object.hasOwn(shape.types, name))
  return unknown === undefined ? undefined : `the member ${unknown}`
}

function findWrongResponse(operation: Operation, response: Response): Problem {
  const { status, headers, text } = response
  const described = responseFor(operation, status)
  if (!described) return undefined
  const ranges = Object.keys(Object(described.content))
  if (status === 204 && ranges.length > 0) return 'a response 204 with a body'
  for (const [name, header] of Object.entries(Object(described.headers)))
    if (Object(header).required === true && headers[name.toLowerCase()] === undefined)
      return `a header ${name} that is always present`
  if (text === '' || ranges.length === 0) return undefined
  const [mediaType = ''] = (headers['content-type'] ?? '').split(/\s*;/)
  const media = mediaTypeIn(described.content, mediaType)
  if (!media) return `a body of ${ranges.join(' or ')}`
  const body = /[/+]json$/i.test(mediaType) ? parseJson(response) : text
  const problem = findMisfit(media.schema, body)
  return problem === undefined ? undefined : `a schema by which ${problem}`
}

function findWrongRequest({ operation, validBodies }: Described, item: SpecifiedObject): Problem {
  const { parameters, template, requestBody } = operation
  if (template.endsWith('{}')) {
    const type = item.types.id as Type
    const inPath = parameters.find((one) => one.in === 'path')
    const schema = inPath?.schema ?? jsonSchemaIn(inPath)
    const problem = findMisfit(schema, type === 'integer' ? 2 ** 40 : 'id', 'the id')
    if (problem !== undefined) return `a path parameter by which ${problem}`
    const accepted = wrongValues[type].find((wrong) => findMisfit(schema, wrong) === undefined)
    if (accepted !== undefined) return `a path parameter that may be ${JSON.stringify(accepted)}`
  }
  const required = requiredParameters(operation).find(({ name }) => !/^authorization$/i.test(`${name}`))
  if (required) return `the required parameter ${required.name}`
  if (!validBodies) return requestBody.required === true ? 'a required body' : undefined
  return findWrongSchema(jsonSchemaIn(requestBody), validBodies, item)
}

const requiredParameters = ({ parameters }: Operation) =>
  parameters.filter((one) => one.in !== 'path' && one.required === true)

/** Returns the members that the document requires of a request; undefined where it describes no body. */
function requiredMembers({ operation, validBodies = [] }: Described): string[] | undefined {
  const schema = jsonSchemaIn(operation.requestBody)
  const [body] = validBodies
  if (!schema || !body) return undefined
  return Object.keys(body).filter((name) => {
    const { [name]: _, ...rest } = body
    return findMisfit(schema, rest) !== undefined
  })
}

/** A JWT in the header Authorization: OAuth 2.0 and OpenID Connect use bearer tokens, too. */
const isBearer = ({ type, scheme, name, in: place }: Json) =>
  (type === 'http' && /^bearer$/i.test(`${scheme}`)) ||
  ['oauth2', 'openIdConnect'].includes(`${type}`) ||
  (type === 'apiKey' && place === 'header' && /^authorization$/i.test(`${name}`))

const isSecured = ({ requirements }: Operation) =>
  requirements.length > 0 && requirements.every((one) => Object.keys(one).length > 0)

function findNoToken(document: Json, operation: Operation): Problem {
  if (!isSecured(operation)) return 'no security requirement'
  const schemes = Object(Object(document.components).securitySchemes)
  const names = operation.requirements.flatMap(Object.keys)
  return names.some((name) => isBearer(Object(schemes[name]))) ? undefined : `${names}: no definition of a bearer token`
}

const deniesWithoutToken = async (client: Client) =>
  [401, 403].includes((await client.send('GET', itemsPath, undefined, { authorization: undefined })).status)

const isOfItems = ({ template }: Operation) => template.toLowerCase().startsWith(itemsPath)

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

/** Operations that the specification does not have. Other methods than GET are sent to an own item only. */
async function expectOthersServed(client: Client, others: readonly Operation[], item: Json): Promise<void> {
  const readable = others
    .filter(({ method, template }) => method === 'GET' && !template.includes('{'))
    .slice(0, maxOtherPaths)
  const ofItem = others.filter(({ method, template }) => template.toLowerCase() === itemTemplate && method !== 'DELETE')
  const sendable = [...readable, ...ofItem].filter((one) => requiredParameters(one).length === 0)
  for (const { method, path, template, responses } of sendable) {
    const target = template.includes('{') ? itemPath(item.id) : template
    const response = await client.send(method, target, method === 'GET' ? undefined : {}, bearer(client.token))
    const isServed = !notServed.includes(response.status) || Object.hasOwn(responses, response.status)
    observe('document', () => expectThat(isServed, `${method} ${path} to be served`, response))
  }
}

/**
 * Basis spec: the document lacks an operation, its success or its members, or says what the server does not do.
 * Basis choice: it leaves out an error or a detail, as generators do that know only the types of a program.
 */
export function documentChecks(methods: Methods): Check[] {
  const profile = methods.item.includes('PUT') ? profileA : profileB
  const specified = [...profile.operations, ...samples]
  const described = (operations: readonly Operation[]): Described[] =>
    specified.flatMap((one) => {
      const operation = findOperation(operations, one)
      return operation ? [{ ...one, operation }] : []
    })

  const checks = [
    providing(
      'document',
      spec('S4', 'the OpenAPI document is valid', async (client) => {
        const { response, invalid } = await fetchDocument(client)
        if (invalid !== undefined) throw new RuleViolation('a valid OpenAPI 3.0.1 document', response, invalid)
      }),
    ),
    spec('S4', 'the OpenAPI document has version 3.0.1 and info.version v1', async (client) => {
      const { response, document } = await fetchDocument(client)
      expectThat(document.openapi === '3.0.1', 'openapi 3.0.1', response)
      expectThat(Object(document.info).version === 'v1', 'info.version v1', response)
      expectMediaType(response, 'application/json')
    }),
    spec('S4', 'the OpenAPI document describes the operations and their success', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of specified) {
        const operation = findOperation(operations, one)
        if (!operation) return expectDescribed(title(one), 'not described', response)
        const problem = responseFor(operation, one.success) ? undefined : `only ${Object.keys(operation.responses)}`
        expectDescribed(`${one.success} of ${title(one)}`, problem, response)
      }
    }),
    spec('S4', 'the OpenAPI document describes requests as the server accepts them', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of described(operations))
        expectDescribed(`the request ${title(one)}`, findWrongRequest(one, profile.item), response)
      // Some generators state no member as required; where one is, the others are optional.
      const statesRequired = described(operations).some((one) => requiredMembers(one)?.length)
      for (const one of statesRequired ? described(operations) : []) {
        const stated = requiredMembers(one)
        const missing = stated && profile.required.find((name) => !stated.includes(name))
        expectDescribed(`required members of ${title(one)}`, missing && `${missing} is optional`, response)
      }
    }),
    spec('S4', 'the OpenAPI document describes responses as the server sends them', async (client) => {
      const { response, operations } = await fetchDocument(client)
      const item = await createItem(client, profile)
      for (const one of described(operations)) {
        const { shape, isList, success, operation } = one
        const holder = responseFor(operation, success)
        if (!shape || !holder) continue
        const problem = findWrongSchema(jsonSchemaIn(holder), shape.variants(item), shape, isList)
        expectDescribed(`the response ${success} of ${title(one)}`, problem, response)
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
        const operation = findOperation(operations, { method, template })
        const problem = operation && findWrongResponse(operation, exchange)
        expectDescribed(`the response ${exchange.status} of ${title({ method, template })}`, problem, exchange)
      }
    }),
    spec('S4', 'the OpenAPI document describes no other error instead of one that the server sends', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of described(operations)) {
        const { errors = [], operation } = one
        const missing = errors.filter((status) => !responseFor(operation, status))
        const others = Object.keys(operation.responses).filter(
          (status) => /^4\d\d$/.test(status) && ![...errors, ...generalErrors].includes(Number(status)),
        )
        const problem = missing.length > 0 && others.length > 0 ? `${others}` : undefined
        expectDescribed(`${missing} of ${title(one)}`, problem, response)
      }
    }),
    spec('S4', 'the OpenAPI document says which operations need a token', async (client) => {
      const { response, document, operations } = await fetchDocument(client)
      const isGuarded = await deniesWithoutToken(client)
      for (const operation of operations) {
        const { method, path, template } = operation
        const isOpen = ['/', forecastPath].includes(template.toLowerCase()) && method === 'GET'
        const isClosed = [secretPath, documentPath].includes(template.toLowerCase()) && method === 'GET'
        if (isOpen && isSecured(operation)) expectDescribed(`${method} ${path} without security`, 'security', response)
        if (isClosed || (isGuarded && isOfItems(operation)))
          expectDescribed(`the bearer token of ${method} ${path}`, findNoToken(document, operation), response)
      }
    }),
    spec('S4', 'the OpenAPI document describes no operation that is not served', async (client) => {
      const { operations } = await fetchDocument(client)
      const known = described(operations).map(({ operation }) => operation)
      const others = operations.filter((one) => !known.includes(one))
      if (others.length > 0) await expectOthersServed(client, others, await createItem(client, profile))
    }),
    choice('S4', 'the OpenAPI document describes the errors of the operations', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of described(operations))
        for (const status of one.errors ?? []) {
          const isDescribed = responseFor(one.operation, status)
          expectDescribed(`${status} of ${title(one)}`, isDescribed ? undefined : 'not described', response)
        }
    }),
    choice('S4', 'the OpenAPI document states formats, required members and media types', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of described(operations)) {
        const { shape, success, isList, operation } = one
        const holder = responseFor(operation, success)
        const isText = !shape && success === 200
        const problem = isText && !mediaTypeIn(holder?.content, 'text/plain') ? 'no media type' : undefined
        expectDescribed(`the body of ${title(one)}`, problem, response)
        if (shape === itemOfA) {
          const item = { id: 2n ** 63n, name: '', isComplete: false }
          const isFree = findMisfit(jsonSchemaIn(holder), isList ? [item] : item) === undefined
          expectDescribed(`the format int64 of id in ${title(one)}`, isFree ? 'no format' : undefined, response)
        }
        const requiresNone = requiredMembers(one)?.length === 0
        expectDescribed(`the required members of ${title(one)}`, requiresNone ? 'none' : undefined, response)
      }
    }),
    choice(
      'S4',
      'the OpenAPI document requires a token for the to-do items only if the server does',
      async (client) => {
        const { response, operations } = await fetchDocument(client)
        if (await deniesWithoutToken(client)) return
        const secured = operations.find((one) => isOfItems(one) && isSecured(one))
        expectDescribed(`${secured?.method} ${secured?.path} without security`, secured && 'security', response)
      },
    ),
  ]
  return checks.map(withToken)
}
