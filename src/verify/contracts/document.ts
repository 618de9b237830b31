/** S4: the OpenAPI document is valid, describes the profile, and agrees with what the server does. */
import { bearer, type Client, type Response } from '../engine/client.ts'
import { type Check, choice, spec, withToken } from '../engine/contract.ts'
import { expectMediaType, expectObject, expectStatus, expectThat, RuleViolation } from '../engine/expect.ts'
import { tryParseExact } from '../engine/json.ts'
import { deleteItem, type ModelItem, type Profile, postItem, StoreModel } from './model.ts'
import {
  type Json,
  jsonSchemaIn,
  mediaTypeIn,
  type Operation,
  objectsIn,
  type Problem,
  readOpenApi,
  responseFor,
  shapeOf,
} from './openapi.ts'
import { itemPath, itemsPath, observe, providing } from './rules.ts'

export const documentPath = '/swagger/v1/swagger.json'
export const secretPath = '/secret'
export const forecastPath = '/weatherforecast'
export const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')

/** What a schema must say about a value. */
interface Value {
  readonly type: string
  /** Of those that this file knows, a schema may state these. */
  readonly formats?: readonly string[]
  readonly isNullable?: boolean
  /** An enumeration has all of these. */
  readonly values?: readonly string[]
}
const formats = ['int32', 'int64', 'date', 'date-time', 'uuid']

/** What a schema must say about an object: it describes these members, and no others. */
interface Statement {
  readonly members: Readonly<Record<string, Value>>
  /** It requires all of these, if it requires any members: some generators state none as required. */
  readonly required?: readonly string[]
  /** It does not require this member. */
  readonly optional?: string
  /** What the server assigns may be left out, too. */
  readonly isAssigned?: boolean
  readonly isList?: boolean
}

const text: Value = { type: 'string' }
const boolean: Value = { type: 'boolean' }
const int64: Value = { type: 'integer', formats: ['int64'] }
const temperature: Value = { type: 'integer', formats: ['int32', 'int64'] }

const itemOfA: Statement = {
  members: { id: int64, name: { ...text, isNullable: true }, isComplete: boolean },
  required: ['isComplete'],
}
const newInA: Statement = { ...itemOfA, optional: 'id', isAssigned: true }
const itemOfB: Statement = { members: { id: text, name: text, notes: text, done: boolean } }
const sentToB: Statement = { ...itemOfB, required: ['id', 'name', 'notes'], optional: 'done' }
const forecast: Statement = {
  members: {
    date: { ...text, formats: ['date-time'] },
    temperatureC: temperature,
    temperatureF: temperature,
    summary: { ...text, values: summaries },
  },
  isList: true,
}

/** An operation of the specification. */
interface Specified {
  readonly method: string
  /** Parameters without their names, in lower case. */
  readonly template: string
  readonly success: number
  readonly errors?: readonly number[]
  readonly request?: Statement
  /** The body of a success. */
  readonly response?: Statement
}

interface Described extends Specified {
  readonly operation: Operation
}

const itemTemplate = `${itemsPath}/{}`
const listOf = (item: Statement): Statement => ({ ...item, isList: true })

const operationsOfA: readonly Specified[] = [
  { method: 'GET', template: itemsPath, success: 200, response: listOf(itemOfA) },
  { method: 'POST', template: itemsPath, success: 201, request: newInA, response: itemOfA },
  { method: 'GET', template: itemTemplate, success: 200, errors: [404], response: itemOfA },
  { method: 'PUT', template: itemTemplate, success: 204, errors: [400, 404], request: itemOfA },
  { method: 'DELETE', template: itemTemplate, success: 204, errors: [404] },
]
const operationsOfB: readonly Specified[] = [
  { method: 'GET', template: itemsPath, success: 200, response: listOf(itemOfB) },
  { method: 'POST', template: itemsPath, success: 200, errors: [400, 409], request: sentToB, response: itemOfB },
  { method: 'PUT', template: itemsPath, success: 204, errors: [400, 404], request: sentToB },
  { method: 'DELETE', template: itemTemplate, success: 204, errors: [400, 404] },
]
const samples: readonly Specified[] = [
  { method: 'GET', template: '/', success: 200 },
  { method: 'GET', template: forecastPath, success: 200, response: forecast },
  { method: 'GET', template: secretPath, success: 200 },
]

type Target = Pick<Specified, 'method' | 'template'>

const title = ({ method, template }: Target) => `${method} ${template.replace('{}', '{id}')}`

const findOperation = (operations: readonly Operation[], { method, template }: Target) =>
  operations.find((one) => one.method === method && one.template === template)

/** A statement about a valid document; another check tells whether it is valid. */
function expectDescribed(expected: string, problem: Problem, response: Response): void {
  if (problem === undefined) return
  observe('document', () => {
    throw new RuleViolation(`the document to describe ${expected}`, response, problem)
  })
}

function findWrongValue(schema: unknown, stated: Value): Problem {
  const { type, format, isNullable, values } = shapeOf(schema)
  if (type !== stated.type) return `of type ${type}`
  if (formats.includes(`${format}`) && !stated.formats?.includes(`${format}`)) return `with the format ${format}`
  if (stated.isNullable && !isNullable) return 'never null'
  const isListed = !Array.isArray(values) || !stated.values || stated.values.every((one) => values.includes(one))
  return isListed ? undefined : `one of ${values}`
}

/** Whether a schema describes the members that the specification states, and no others than the server sends. */
function findWrongSchema(schema: unknown, stated: Statement, sent: ReadonlySet<string>): Problem {
  const { members, optional, isAssigned, isList = false } = stated
  if (!schema) return 'no schema of a body of application/json'
  const whole = shapeOf(schema)
  if ((whole.type === 'array') !== isList) return `a schema of type ${whole.type}`
  const shape = isList ? shapeOf(whole.items) : whole
  for (const [name, value] of Object.entries(members)) {
    const member = shape.members.get(name)
    if (!member && isAssigned && name === optional) continue
    const problem = member ? findWrongValue(member, value) : 'missing'
    if (problem !== undefined) return `the member ${name} ${problem}`
  }
  const unknown = [...shape.members.keys()].find((name) => !Object.hasOwn(members, name) && !sent.has(name))
  if (unknown !== undefined) return `the member ${unknown}`
  if (shape.required.includes(optional) && Object(shape.members.get(`${optional}`)).readOnly !== true)
    return `${optional} as required`
  return undefined
}

/** The members that the document requires of the body of a request. */
const requiredMembers = ({ operation }: Described) => shapeOf(jsonSchemaIn(operation.requestBody)).required

function findWrongResponse(operation: Operation, { status, headers, text }: Response): Problem {
  const described = responseFor(operation, status)
  const ranges = Object.keys(Object(described?.content))
  if (status === 204 && ranges.length > 0) return 'a response 204 with a body'
  if (text === '' || ranges.length === 0) return undefined
  const [mediaType = ''] = (headers['content-type'] ?? '').split(/\s*;/)
  const media = mediaTypeIn(described?.content, mediaType)
  if (!media) return `a body of ${ranges.join(' or ')}`
  const { values } = shapeOf(media.schema)
  return Array.isArray(values) && !values.includes(text) ? `one of ${values}` : undefined
}

/** What the document says about an operation, and the specification does not. */
function findWrongOperation(
  { operation, success, errors = [], request, response }: Described,
  id: Value,
  sent: ReadonlySet<string>,
): Problem {
  const { parameters, template, requestBody, responses } = operation
  const holder = responseFor(operation, success)
  if (!holder) return `only ${Object.keys(responses)}, and no ${success}`
  // That an error is not described is another check.
  const missing = errors.filter((status) => !responseFor(operation, status))
  const others = Object.keys(responses).filter(
    (status) => /^4\d\d$/.test(status) && ![...errors, ...generalErrors].includes(Number(status)),
  )
  if (missing.length > 0 && others.length > 0) return `${others} in place of ${missing}`
  const inPath = parameters.find((one) => one.in === 'path')
  const inId = template.endsWith('{}') ? findWrongValue(inPath?.schema ?? jsonSchemaIn(inPath), id) : undefined
  if (inId !== undefined) return `a path parameter ${inId}`
  const required = requiredParameters(operation).find(({ name }) => !/^authorization$/i.test(`${name}`))
  if (required) return `the required parameter ${required.name}`
  if (!request && requestBody?.required === true) return 'a required body'
  const inRequest = request && findWrongSchema(jsonSchemaIn(requestBody), request, sent)
  if (inRequest !== undefined) return `a request with ${inRequest}`
  const inResponse = response && findWrongSchema(jsonSchemaIn(holder), response, sent)
  return inResponse && `a response with ${inResponse}`
}

const requiredParameters = ({ parameters }: Operation) =>
  parameters.filter((one) => one.in !== 'path' && one.required === true)

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

/** Whether each of these operations requires a token by the document, as it does by the server. */
function expectSecurity(
  { document, response }: { readonly document: Json; readonly response: Response },
  operations: readonly Operation[],
  needsToken: boolean,
): void {
  for (const operation of operations) {
    const problem = needsToken ? findNoToken(document, operation) : isSecured(operation) ? 'security' : undefined
    const { method, path } = operation
    expectDescribed(`${method} ${path} ${needsToken ? 'with a bearer token' : 'without security'}`, problem, response)
  }
}

/** That any operation may have. */
const generalErrors = [400, 401, 403, 405, 406, 408, 411, 412, 413, 414, 415, 429, 431]
const notServed = [404, 405, 501]
const maxOtherPaths = 5

/** Operations that the specification does not have. Other methods than GET are sent to an own item only. */
async function expectOthersServed(client: Client, others: readonly Operation[], id: ModelItem['id']): Promise<void> {
  const readable = others.filter(({ method, template }) => method === 'GET' && !template.includes('{'))
  const ofItem = others.filter(({ method, template }) => template === itemTemplate && method !== 'DELETE')
  for (const operation of [...readable.slice(0, maxOtherPaths), ...ofItem]) {
    const { method, path, template, responses } = operation
    if (requiredParameters(operation).length > 0) continue
    const target = template.includes('{') ? itemPath(id) : template
    const response = await client.send(method, target, method === 'GET' ? undefined : {}, bearer(client.token))
    const isServed = !notServed.includes(response.status) || Object.hasOwn(responses, response.status)
    observe('document', () => expectThat(isServed, `${method} ${path} to be served`, response))
  }
}

/**
 * Basis spec: the document lacks an operation, its success or its members, or says what the server does not do.
 * Basis choice: it leaves out an error or a detail, as generators do that know only the types of a program.
 */
export function documentChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  const isA = profile.read !== undefined
  const specified = [...(isA ? operationsOfA : operationsOfB), ...samples]

  async function fetchDocument(client: Client) {
    const response = await client.send('GET', documentPath, undefined, bearer(client.token))
    observe(documentPath, () => expectStatus(response, 200))
    const document = observe('document', () => expectObject(response))
    const { operations, invalid } = readOpenApi(document, client.url, documentPath)
    const described = specified.flatMap((one): Described[] => {
      const operation = findOperation(operations, one)
      return operation ? [{ ...one, operation }] : []
    })
    return { response, document, operations, invalid, described }
  }

  const createItem = (client: Client) => new StoreModel(client, profile).create()

  /** The names of the members of items and forecasts: a server may send further ones. */
  async function membersSent(client: Client): Promise<Set<string>> {
    await createItem(client)
    const lists = [await client.send('GET', itemsPath), await client.send('GET', forecastPath)]
    return new Set(lists.flatMap(({ text }) => objectsIn(tryParseExact(text))).flatMap(Object.keys))
  }

  /** Requests whose responses have no body, a text or an error. */
  async function exchange(client: Client): Promise<Response[]> {
    const item = await createItem(client)
    const [missing = item.id] = await profile.unusedIds(client, item)
    return [
      await client.send('POST', itemsPath, {}),
      await postItem(client, profile, item),
      await profile.update(client, item),
      await profile.update(client, { ...item, id: missing }),
      await client.send('PUT', isA ? itemPath(item.id) : itemsPath, {}),
      ...(profile.read ? [await profile.read(client, missing)] : []),
      await deleteItem(client, missing),
      await deleteItem(client, item.id),
      await client.send('GET', '/'),
      await client.send('GET', secretPath),
      await client.send('GET', secretPath, undefined, bearer(client.token)),
    ]
  }

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
      // Such as application/vnd.oai.openapi+json.
      if (!/^application\/[\w.-]+\+json\b/i.test(`${response.headers['content-type']}`))
        expectMediaType(response, 'application/json')
    }),
    spec(
      'S4',
      'the OpenAPI document describes the operations, their statuses, requests and responses',
      async (client) => {
        const { response, described, operations } = await fetchDocument(client)
        const sent = await membersSent(client)
        const requiresSome = described.some((one) => one.request && requiredMembers(one).length > 0)
        for (const one of specified) {
          const operation = findOperation(operations, one)
          if (!operation) return expectDescribed(title(one), 'not described', response)
          expectDescribed(title(one), findWrongOperation({ ...one, operation }, isA ? int64 : text, sent), response)
          const optional = one.request?.required?.find((name) => !requiredMembers({ ...one, operation }).includes(name))
          expectDescribed(title(one), requiresSome && optional ? `${optional} as optional` : undefined, response)
        }
      },
    ),
    spec('S4', 'the OpenAPI document describes responses as the server sends them', async (client) => {
      const { operations } = await fetchDocument(client)
      for (const sent of await exchange(client)) {
        const { method } = sent.request
        const path = sent.request.path.slice(new URL(client.url).pathname.replace(/\/$/, '').length)
        const template = path.startsWith(`${itemsPath}/`) ? itemTemplate : path
        const operation = findOperation(operations, { method, template })
        const problem = operation && findWrongResponse(operation, sent)
        expectDescribed(`the response ${sent.status} of ${title({ method, template })}`, problem, sent)
      }
    }),
    spec('S4', 'the OpenAPI document says which operations need a token', async (client) => {
      const fetched = await fetchDocument(client)
      const gets = (...paths: string[]) =>
        fetched.operations.filter(({ method, template }) => method === 'GET' && paths.includes(template))
      expectSecurity(fetched, gets('/', forecastPath), false)
      expectSecurity(fetched, gets(secretPath, documentPath), true)
    }),
    spec('S4', 'the OpenAPI document describes no operation that is not served', async (client) => {
      const { operations, described } = await fetchDocument(client)
      const others = operations.filter((one) => described.every(({ operation }) => operation !== one))
      if (others.length > 0) await expectOthersServed(client, others, (await createItem(client)).id)
    }),
    choice('S4', 'the OpenAPI document states errors, formats, required members and media types', async (client) => {
      const { response, described } = await fetchDocument(client)
      for (const one of described) {
        const { success, errors = [], operation } = one
        const expectStated = (what: string, isStated: unknown) =>
          expectDescribed(`${what} of ${title(one)}`, isStated ? undefined : 'not described', response)
        for (const status of errors) expectStated(`${status}`, responseFor(operation, status))
        const holder = responseFor(operation, success)
        if (!one.response && success === 200) expectStated('the text', mediaTypeIn(holder?.content, 'text/plain'))
        const schema = shapeOf(jsonSchemaIn(holder))
        const item = one.response?.isList ? shapeOf(schema.items) : schema
        if (isA && one.response?.required) expectStated('int64', shapeOf(item.members.get('id')).format === 'int64')
        if (one.request)
          expectStated('the required members', shapeOf(jsonSchemaIn(operation.requestBody)).required.length)
      }
    }),
    choice('S4', 'the OpenAPI document says whether the to-do items need a token', async (client) => {
      const fetched = await fetchDocument(client)
      const { status } = await client.send('GET', itemsPath, undefined, { authorization: undefined })
      const ofItems = fetched.operations.filter(({ template }) => template.startsWith(itemsPath))
      expectSecurity(fetched, ofItems, [401, 403].includes(status))
    }),
  ]
  return checks.map(withToken)
}
