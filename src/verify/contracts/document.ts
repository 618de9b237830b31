/** S4: the OpenAPI document is valid, describes the profile, and agrees with what the server does. */
import { bearer, type Client, type Response } from '../../common/client.ts'
import { type Check, choice, spec, withToken } from '../engine/contract.ts'
import { expectMediaType, expectObject, expectStatus, expectThat, parseJson, RuleViolation } from '../engine/expect.ts'
import { deleteItem, type ModelItem, type Profile, postItem, StoreModel } from './model.ts'
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
import { itemPath, itemsPath, observe, providing } from './rules.ts'

export const documentPath = '/swagger/v1/swagger.json'
export const secretPath = '/secret'
export const forecastPath = '/weatherforecast'
export const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')

/** What a schema must say about an object. */
interface Statement {
  /** It allows these. */
  readonly valid: readonly Json[]
  /** It allows none of these values of a member, and describes no other members. */
  readonly wrong: Readonly<Record<string, readonly unknown[]>>
  /** Members of which it requires all, if it requires any: some generators state no member as required. */
  readonly required?: readonly string[]
  readonly isList?: boolean
}

const notIntegers = ['x', 1.5, true]
const notTexts = [1, true, {}]
const notBooleans = ['true', 0]

/** Where a null counts as missing, a document may allow it. */
const wrongInA = { id: [...notIntegers, null], name: notTexts, isComplete: [...notBooleans, null] }
const newOfA = { name: 'name', isComplete: false }
const namelessOfA = { name: null, isComplete: true }
const newInA: Statement = { valid: [newOfA, namelessOfA], wrong: wrongInA, required: ['isComplete'] }
const withIds = [1, 2 ** 40].flatMap((id) => [newOfA, namelessOfA].map((item) => ({ id, ...item })))
const itemOfA: Statement = { valid: withIds, wrong: wrongInA, required: ['isComplete'] }

const wrongInB = { id: notTexts, name: notTexts, notes: notTexts, done: notBooleans }
const withoutDone = { id: 'id', name: 'name', notes: 'notes' }
const itemsOfB = [false, true].map((done) => ({ ...withoutDone, done }))
const itemOfB: Statement = { valid: itemsOfB, wrong: wrongInB }
const sentToB: Statement = { valid: [...itemsOfB, withoutDone], wrong: wrongInB, required: ['id', 'name', 'notes'] }

const date = '2026-06-02T12:00:00.000+00:00'
const extremes = [
  { date, temperatureC: -20, temperatureF: -3 },
  { date, temperatureC: 54, temperatureF: 129 },
]
const forecast: Statement = {
  valid: summaries.flatMap((summary) => extremes.map((entry) => ({ ...entry, summary }))),
  wrong: {
    date: [...notTexts, null],
    temperatureC: [...notIntegers, null],
    temperatureF: [...notIntegers, null],
    summary: notTexts,
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
  operations.find((one) => one.method === method && one.template.toLowerCase() === template)

/** A statement about a valid document; another check tells whether it is valid. */
function expectDescribed(expected: string, problem: Problem, response: Response): void {
  if (problem === undefined) return
  observe('document', () => {
    throw new RuleViolation(`the document to describe ${expected}`, response, problem)
  })
}

/** Whether a schema allows what the specification allows, and only the members and types that it states. */
function findWrongSchema(schema: unknown, { valid, wrong, isList }: Statement): Problem {
  if (!schema) return 'no schema of a body of application/json'
  const misfitOf = (object: Json) => findMisfit(schema, isList ? Array(5).fill(object) : object)
  const problem = valid.map(misfitOf).find((one) => one !== undefined)
  if (problem !== undefined) return `a schema by which ${problem}`
  const [sample = {}] = valid
  if (isList && findMisfit(schema, sample) === undefined) return 'a schema that is not that of an array'
  for (const name of Object.keys(sample)) {
    const accepted = wrong[name]?.find((value) => misfitOf({ ...sample, [name]: value }) === undefined)
    if (accepted !== undefined) return `a schema by which ${name} may be ${JSON.stringify(accepted)}`
  }
  const unknown = describedMembers(schema).find((name) => !Object.hasOwn(wrong, name))
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
  const problem = findMisfit(media.schema, /[/+]json$/i.test(mediaType) ? parseJson(response) : text)
  return problem === undefined ? undefined : `a schema by which ${problem}`
}

/** `ids` are values that the id in a path may not have. */
function findWrongRequest({ operation, request }: Described, ids: readonly unknown[]): Problem {
  const { parameters, template, requestBody } = operation
  if (template.endsWith('{}')) {
    const inPath = parameters.find((one) => one.in === 'path')
    const schema = { properties: { id: inPath?.schema ?? jsonSchemaIn(inPath) } }
    const problem = findWrongSchema(schema, { valid: [{ id: ids.includes('x') ? 2 ** 40 : 'id' }], wrong: { id: ids } })
    if (problem !== undefined) return `for the path parameter ${problem}`
  }
  const required = requiredParameters(operation).find(({ name }) => !/^authorization$/i.test(`${name}`))
  if (required) return `the required parameter ${required.name}`
  if (request) return findWrongSchema(jsonSchemaIn(requestBody), request)
  return requestBody.required === true ? 'a required body' : undefined
}

const requiredParameters = ({ parameters }: Operation) =>
  parameters.filter((one) => one.in !== 'path' && one.required === true)

/** The members that the document requires of a request; undefined where it describes no body. */
function requiredMembers({ operation, request }: Described): string[] | undefined {
  const schema = jsonSchemaIn(operation.requestBody)
  const [body] = request?.valid ?? []
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

/** That any operation may have. */
const generalErrors = [400, 401, 403, 405, 406, 408, 411, 412, 413, 414, 415, 429, 431]
const notServed = [404, 405, 501]
const maxOtherPaths = 5

/** Operations that the specification does not have. Other methods than GET are sent to an own item only. */
async function expectOthersServed(client: Client, others: readonly Operation[], id: ModelItem['id']): Promise<void> {
  const readable = others.filter(({ method, template }) => method === 'GET' && !template.includes('{'))
  const ofItem = others.filter(({ method, template }) => template.toLowerCase() === itemTemplate && method !== 'DELETE')
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
      expectMediaType(response, 'application/json')
    }),
    spec('S4', 'the OpenAPI document describes the operations, and no other status than theirs', async (client) => {
      const { response, operations } = await fetchDocument(client)
      for (const one of specified) {
        const operation = findOperation(operations, one)
        if (!operation) return expectDescribed(title(one), 'not described', response)
        const { success, errors = [] } = one
        const problem = responseFor(operation, success) ? undefined : `only ${Object.keys(operation.responses)}`
        expectDescribed(`${success} of ${title(one)}`, problem, response)
        // That an error is not described is another check.
        const missing = errors.filter((status) => !responseFor(operation, status))
        const others = Object.keys(operation.responses).filter(
          (status) => /^4\d\d$/.test(status) && ![...errors, ...generalErrors].includes(Number(status)),
        )
        const isInstead = missing.length > 0 && others.length > 0
        expectDescribed(`${missing} of ${title(one)}`, isInstead ? `${others}` : undefined, response)
      }
    }),
    spec('S4', 'the OpenAPI document describes requests as the server accepts them', async (client) => {
      const { response, described } = await fetchDocument(client)
      const ids = isA ? notIntegers : notTexts
      for (const one of described) expectDescribed(`the request ${title(one)}`, findWrongRequest(one, ids), response)
      const requiresSome = described.some((one) => requiredMembers(one)?.length)
      for (const one of requiresSome ? described : []) {
        const stated = requiredMembers(one)
        const missing = stated && one.request?.required?.find((name) => !stated.includes(name))
        expectDescribed(`required members of ${title(one)}`, missing && `${missing} is optional`, response)
      }
    }),
    spec('S4', 'the OpenAPI document describes responses as the server sends them', async (client) => {
      const { response, operations, described } = await fetchDocument(client)
      for (const one of described) {
        const holder = responseFor(one.operation, one.success)
        const problem = one.response && holder && findWrongSchema(jsonSchemaIn(holder), one.response)
        expectDescribed(`the response ${one.success} of ${title(one)}`, problem, response)
      }
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
      const { response, document, operations } = await fetchDocument(client)
      for (const operation of operations) {
        const { method, path, template } = operation
        const isOpen = ['/', forecastPath].includes(template.toLowerCase()) && method === 'GET'
        const isClosed = [secretPath, documentPath].includes(template.toLowerCase()) && method === 'GET'
        if (isOpen && isSecured(operation)) expectDescribed(`${method} ${path} without security`, 'security', response)
        if (isClosed)
          expectDescribed(`the bearer token of ${method} ${path}`, findNoToken(document, operation), response)
      }
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
        if (one.response?.wrong === wrongInA) {
          const item = { id: 2n ** 63n, name: '', isComplete: false }
          expectStated('int64', findMisfit(jsonSchemaIn(holder), one.response.isList ? [item] : item))
        }
        expectStated('the required members', requiredMembers(one)?.length !== 0)
      }
    }),
    choice('S4', 'the OpenAPI document says whether the to-do items need a token', async (client) => {
      const { response, document, operations } = await fetchDocument(client)
      const isGuarded = await deniesWithoutToken(client)
      for (const operation of operations.filter(isOfItems)) {
        const { method, path } = operation
        if (isGuarded)
          expectDescribed(`the bearer token of ${method} ${path}`, findNoToken(document, operation), response)
        else
          expectDescribed(`${method} ${path} without security`, isSecured(operation) ? 'security' : undefined, response)
      }
    }),
  ]
  return checks.map(withToken)
}
