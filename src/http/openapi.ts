import { type Answer, json } from './answer.ts'
import type { Face } from './handler.ts'
import { Refusal, type RefusalCode, refusals } from './refusal.ts'
import { type Route, route, type Success } from './route.ts'
import { type Member, readerOf, type Shape } from './shape.ts'

type Json = Readonly<Record<string, unknown>>

/** S4: the OpenAPI document of what a face serves, from the same statements that serve it. */
export function openApiDocument({ title, about, routes, refuse }: Face, serverUrl: string): Json {
  const documented = routes.filter((candidate) => candidate.docs)
  const paths: Record<string, Record<string, Json>> = {}
  for (const one of documented)
    paths[one.path] = { ...paths[one.path], [one.method.toLowerCase()]: operation(one, refuse) }
  const tags = [...new Set(documented.map(({ docs }) => docs?.tag))]
  return {
    openapi: '3.0.1',
    info: {
      title: `To-do item service, ${title}`,
      description: about,
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

/** S4: where the document is served. */
export const documentRoute = (face: Face): Route =>
  route({
    operation: 'getDocument',
    method: 'GET',
    path: '/swagger/v1/swagger.json',
    secured: true,
    handle: ({ baseUrl }) => json(200, JSON.stringify(openApiDocument(face, baseUrl))),
  })

function operation(one: Route, refuse: Face['refuse']): Json {
  const { operation: operationId, docs, id, body, secured } = one
  return {
    operationId,
    summary: docs?.summary,
    description: `${docs?.summary}.`,
    tags: [docs?.tag],
    security: secured ? [{ bearer: [] }] : [],
    ...(id && { parameters: [{ name: 'id', in: 'path', required: true, schema: id.schema }] }),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: reference(body) } } } }),
    responses: {
      ...(docs && { [docs.success.status]: success(docs.success) }),
      ...(one.method === 'GET' && docs?.success.headers?.ETag && { 304: notModified(docs.success.headers.ETag) }),
      ...(secured && { 401: unauthorized }),
      ...refused(one, refuse),
    },
  }
}

const notModified = (tag: string) => ({
  description: 'If-None-Match names this state: the client has it already.',
  headers: { ETag: textHeader(tag) },
})

function success({ description, body, headers = {} }: Success): Json {
  const described = Object.entries(headers).map(([name, words]) => [name, textHeader(words)])
  return {
    description,
    ...(described.length > 0 && { headers: Object.fromEntries(described) }),
    ...(body && { content: successContent(body) }),
  }
}

function successContent(body: NonNullable<Success['body']>): Json {
  if ('text' in body) return { 'text/plain': { schema: { type: 'string' }, example: body.text } }
  const schema = 'one' in body ? reference(body.one) : { type: 'array', items: reference(body.many) }
  const example = 'one' in body ? body.one.example : [body.many.example]
  return { 'application/json': { schema, example } }
}

const textHeader = (description: string) => ({ description, schema: { type: 'string' } })

/** S6. */
const unauthorized = {
  description: 'There is no token, or it is not accepted.',
  headers: { 'WWW-Authenticate': textHeader('Bearer, and what is wrong with a token that was sent.') },
}

/** The refusals as the client sees them, the likeliest first: each is put to the failure table that answers it. */
function refused({ operation: name, docs, body }: Route, refuse: Face['refuse']): Json {
  const codes: RefusalCode[] = [
    ...(body
      ? (['body-invalid', 'value-refused', 'body-malformed', 'media-type-refused', 'body-too-large'] as const)
      : []),
    ...(docs?.refusals ?? []),
    'overloaded',
    'unforeseen',
    'host-malformed',
    'header-doubled',
    'framing-refused',
  ]
  const answers = codes.map((code) => {
    const refusal = (body && exampleOf(code, body)) ?? new Refusal(code)
    return { code, ...refuse(refusal, name, '4bf92f3577b34da6a3ce929d0e0e4736') }
  })
  const statuses = [...new Set(answers.map(({ status }) => status))].sort()
  return Object.fromEntries(
    statuses.map((status) => {
      const same = answers.filter((answer) => answer.status === status)
      const words = [...new Set(same.map(({ code }) => refusals[code]))].join(' ')
      const withBody = same.filter((answer) => answer.body !== undefined)
      const content = withBody.length > 0 && { content: refusalContent(withBody) }
      return [status, { description: words, ...(same.some(isTemporary) && { headers: retryAfter }), ...content }]
    }),
  )
}

const isTemporary = ({ headers }: Refused) => headers?.['retry-after'] !== undefined
const retryAfter = { 'Retry-After': textHeader('After how many seconds to try again.') }

/** A refusal that says something about members says it of a body that is refused. */
function exampleOf(code: RefusalCode, body: Shape): Refusal | undefined {
  const texts = Object.entries(body.members).filter(([, { type }]) => type === 'string')
  const unstorable = Object.fromEntries(texts.slice(0, 1).map(([name]) => [name, '\ud800']))
  const bodies: Partial<Record<RefusalCode, object>> = {
    'body-invalid': {},
    'value-refused': { ...body.example, ...unstorable },
  }
  return bodies[code] && (readerOf(body)(JSON.stringify(bodies[code])) as Refusal)
}

const problemType = 'application/problem+json'

interface Refused {
  readonly code: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Required<Answer>['body']
}

function refusalContent(answers: readonly Refused[]): Json {
  if (answers[0]?.headers?.['content-type'] !== problemType) {
    const bodies = [...new Set(answers.map(({ body }) => body))]
    return { 'text/plain': { schema: { type: 'string', enum: bodies }, example: bodies[0] } }
  }
  const examples = answers.map(({ code, body }) => [code, { value: JSON.parse(`${body}`) }])
  const schema = { $ref: '#/components/schemas/Problem' }
  return { [problemType]: { schema, examples: Object.fromEntries(examples) } }
}

const reference = ({ name }: Shape) => ({ $ref: `#/components/schemas/${name}` })

function schemas(routes: readonly Route[], withProblem: boolean): Json {
  const all: Record<string, Json> = {}
  for (const { body, docs } of routes) {
    if (body) all[body.name] = objectSchema(body, ([, member]) => !('default' in member))
    const answered = docs?.success.body
    const shape = answered && ('one' in answered ? answered.one : 'many' in answered ? answered.many : undefined)
    if (shape) all[shape.name] = objectSchema(shape, () => true)
  }
  return withProblem ? { ...all, Problem: problem } : all
}

function objectSchema({ members, example }: Shape, isRequired: (entry: [string, Member]) => boolean): Json {
  const required = Object.entries(members).filter(isRequired)
  return { type: 'object', required: required.map(([name]) => name), properties: members, example }
}

/** A13: RFC 9457's members, with a trace id and, for an invalid body, messages by member. */
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
