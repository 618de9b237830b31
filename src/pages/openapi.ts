import type { NamedSchema } from '../common/schema.ts'
import { bodyReader } from '../http/body-reader.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, errors, Rejection } from '../http/errors.ts'
import { parseJson } from '../http/json-body.ts'
import { json, type Response } from '../http/response.ts'
import { errorCodesOf, type Route, route, type Success } from '../http/router.ts'

type DocumentPart = Readonly<Record<string, unknown>>

interface DocumentedSettings {
  readonly isRateLimited?: boolean
  /** B12: whether plain HTTP is redirected to HTTPS. */
  readonly redirectsToHttps?: boolean
}

/** S4: creates the OpenAPI document from the routes, schemas and error table that also serve requests. */
export function openApiDocument(api: Api, serverUrl: string, settings: DocumentedSettings = {}): DocumentPart {
  const { title, description, routes } = api
  const documented = routes.filter((candidate) => candidate.docs)
  const paths: Record<string, Record<string, DocumentPart>> = {}
  for (const documentedRoute of documented) {
    const { path, method } = documentedRoute
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation(documentedRoute, api.errorResponse, settings) }
  }
  const tags = [...new Set(documented.map(tagOf))]
  return {
    openapi: '3.0.1',
    info: {
      title: `To-do item service, ${title}`,
      description,
      version: 'v1',
      contact: { name: 'todo-item-service' },
    },
    servers: [{ url: serverUrl }],
    tags: tags.map((name) => ({ name, description: `${name} of this service.` })),
    paths,
    components: {
      schemas: schemas(documented, JSON.stringify(paths).includes(problemType)),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  }
}

/** S4: the route that serves the OpenAPI document. */
export const documentRoute = (
  api: Api,
  settings: DocumentedSettings,
  name = 'getDocument',
  path = '/swagger/v1/swagger.json',
): Route =>
  route({
    operation: name,
    method: 'GET',
    path,
    secured: true,
    execute: ({ baseUrl }) => json(200, JSON.stringify(openApiDocument(api, baseUrl, settings))),
  })

const tagOf = ({ docs }: Route) => docs?.tag ?? 'To-do items'

function operation(described: Route, errorResponse: Api['errorResponse'], settings: DocumentedSettings): DocumentPart {
  const { operation: operationId, method, docs, id, body, secured } = described
  const etag = method === 'GET' ? docs?.success.headers?.ETag : undefined
  const parameters = [
    ...(id ? [{ name: 'id', in: 'path', required: true, schema: id.schema }] : []),
    // Not for GET: importers such as Postman's send every header that is described, and the GET would get 412.
    ...(docs?.errors?.includes('precondition-failed') && method !== 'GET' ? [ifMatch] : []),
    ...(etag ? [ifNoneMatch] : []),
    ...(docs?.parameters ?? []),
  ]
  return {
    operationId,
    summary: docs?.summary,
    tags: [tagOf(described)],
    security: secured ? [{ bearer: [] }] : [],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: reference(body) } } } }),
    ...(docs?.requestBody && { requestBody: { required: true, content: { 'application/json': docs.requestBody } } }),
    responses: {
      ...(docs && { [docs.success.status]: success(docs.success) }),
      ...(etag && { 304: response('If-None-Match has the entity tag of this state.', { ETag: etag }) }),
      ...(settings.redirectsToHttps && { 307: redirect }),
      ...(secured && { 401: unauthorized }),
      ...errorResponses(described, errorResponse, settings.isRateLimited),
    },
  }
}

const textHeader = (description: string) => ({ description, schema: { type: 'string' } })
const condition = (name: string, meaning: string) => ({ name, in: 'header', required: false, ...textHeader(meaning) })
// Importers such as Postman's send the default; without one they would send a placeholder, which matches no entity tag.
const ifMatch = {
  ...condition('If-Match', 'Entity tags, of which the current state must have one; any, by default.'),
  schema: { type: 'string', default: '*' },
}
const ifNoneMatch = condition('If-None-Match', 'Entity tags of states that the client has.')

function response(
  description: string,
  headers: Readonly<Record<string, string>> = {},
  content?: DocumentPart,
): DocumentPart {
  const described = Object.entries(headers).map(([name, meaning]) => [name, textHeader(meaning)])
  return {
    description,
    ...(described.length > 0 && { headers: Object.fromEntries(described) }),
    ...(content && { content }),
  }
}

/** B12: the response to plain HTTP if it is redirected. */
const redirect = response('Plain HTTP is redirected to HTTPS.', { Location: 'The same path and query over HTTPS.' })

/** S6: the response to a request without a valid token. */
const unauthorized = response('The token is missing or not accepted.', {
  'WWW-Authenticate': 'Bearer, and what is wrong with the token that was sent.',
})

const success = ({ description, body, headers }: Success) =>
  response(description, headers, body && successContent(body))

function successContent(body: NonNullable<Success['body']>): DocumentPart {
  if ('schema' in body) {
    const { type = 'application/json', ...described } = body
    return { [type]: described }
  }
  if ('text' in body) return { 'text/plain': { schema: { type: 'string' }, example: body.text } }
  const schema = 'one' in body ? reference(body.one) : { type: 'array', items: reference(body.many) }
  const example = 'one' in body ? body.one.example : [body.many.example]
  return { 'application/json': { schema, example } }
}

/** Describes the responses to all errors of a route by status, as its error table makes them. */
function errorResponses(described: Route, errorResponse: Api['errorResponse'], isRateLimited = false): DocumentPart {
  const { operation: name, body } = described
  const responses = errorCodesOf(described, isRateLimited).map((code) => {
    const error = (body && exampleError(code, body)) ?? new Rejection(code)
    return { code, ...errorResponse(error, name, { traceId: '4bf92f3577b34da6a3ce929d0e0e4736' }) }
  })
  const statuses = [...new Set(responses.map(({ status }) => status))].sort()
  return Object.fromEntries(
    statuses.map((status) => {
      const same = responses.filter((candidate) => candidate.status === status)
      const withBody = same.filter(({ body: sent }) => sent !== undefined)
      const isTemporary = same.some(({ headers }) => headers?.['retry-after'] !== undefined)
      const headers = isTemporary ? { 'Retry-After': 'Seconds to wait before the next attempt.' } : {}
      return [status, response(describe(same), headers, withBody.length > 0 ? errorContent(withBody) : undefined)]
    }),
  )
}

type ErrorResponse = Response & { readonly code: ErrorCode }

const isProblem = ({ headers }: Response) => headers?.['content-type'] === problemType

/** Lists the errors of a status; for bodies that are text codes (B9), by code. */
function describe(responses: readonly ErrorResponse[]): string {
  const textOf = (candidate: Response) => (isProblem(candidate) ? undefined : candidate.body)
  const texts = [...new Set(responses.map(textOf))]
  const describeText = (body: Response['body']) => {
    const titles = responses.filter((candidate) => textOf(candidate) === body).map(({ code }) => errors[code].title)
    return `${body ? `${body}: ` : ''}${[...new Set(titles)].join(' ')}`
  }
  return texts.map(describeText).join(' ')
}

/** Returns an error about the body, as an invalid example body causes it. */
function exampleError(code: ErrorCode, body: NamedSchema): Rejection | undefined {
  const [textMember] = Object.entries(body.properties ?? {}).filter(([, { type }]) => type === 'string')
  const bodies: Partial<Record<ErrorCode, string>> = {
    'body-invalid': '{}',
    'value-unstorable': JSON.stringify({ ...body.example, ...(textMember && { [textMember[0]]: '\ud800' }) }),
    'body-malformed': JSON.stringify(body.example).slice(0, -1),
  }
  const text = bodies[code]
  return text === undefined ? undefined : (parseJson(Buffer.from(text), bodyReader(body), undefined) as Rejection)
}

const problemType = 'application/problem+json'

/** Text codes are described without an enum, because the C# clients of NSwag cannot convert text to an enum. */
function errorContent(responses: readonly ErrorResponse[]): DocumentPart {
  const [first] = responses
  if (first && !isProblem(first)) return { 'text/plain': { schema: { type: 'string' }, example: first.body } }
  const examples = responses.map(({ code, body }) => [code, { value: JSON.parse(`${body}`) }])
  const schema = { $ref: '#/components/schemas/Problem' }
  return { [problemType]: { schema, examples: Object.fromEntries(examples) } }
}

const reference = ({ name }: NamedSchema) => ({ $ref: `#/components/schemas/${name}` })

function schemas(routes: readonly Route[], withProblem: boolean): DocumentPart {
  const all: Record<string, DocumentPart> = {}
  for (const { body, docs } of routes) {
    if (body) all[body.name] = objectSchema(body)
    const content = docs?.success.body
    const schema = content && ('one' in content ? content.one : 'many' in content ? content.many : undefined)
    if (schema) all[schema.name] = objectSchema(schema, true)
  }
  return withProblem ? { ...all, Problem: problem } : all
}

/**
 * Returns the OpenAPI schema of an object. All members are required in a response, those without a default in a
 * request. The description tells the default: with the keyword `default`, openapi-typescript makes a member required.
 */
export function objectSchema({ name: _, ...schema }: NamedSchema, isResponse = false): DocumentPart {
  const { properties = {}, required } = schema
  const described = Object.entries(properties).map(([name, { default: value, description, ...member }]) => [
    name,
    { ...member, description: isResponse || value === undefined ? description : `${value} if absent.` },
  ])
  return {
    ...schema,
    required: isResponse ? Object.keys(properties) : required,
    properties: Object.fromEntries(described),
  }
}

/** A13: the schema of a problem document (RFC 9457) with a trace id and, for an invalid body, messages by member. */
const problem = {
  type: 'object',
  required: ['type', 'title', 'status', 'traceId'],
  properties: {
    type: { type: 'string', format: 'uri' },
    title: { type: 'string' },
    status: { type: 'integer', format: 'int32' },
    traceId: { type: 'string' },
    errors: { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } },
  },
}
