import type { RequestContext } from '../http/context.ts'
import type { Api, DispatchHooks } from '../http/dispatch.ts'
import { describeError, type ErrorCode, errors, Rejection } from '../http/errors.ts'
import { isJson } from '../http/json-body.ts'
import { json, noContent, type Response } from '../http/response.ts'
import { type DescribedBody, type Route, readerRoute, route } from '../http/router.ts'
import { arrayReader, type FromSchema, type ObjectSchema } from '../http/schema.ts'
import { appPageRoutes } from '../pages/app-page.ts'
import { openApiDocument } from '../pages/openapi.ts'
import type { Awaitable, Full, ListRepresentation } from '../store/store.ts'
import { type Faults, problem, readFaultRules } from './faults.ts'
import { type Journal, type JournalEvent, maxSubscriptions } from './journal.ts'
import type { FaultRule } from './types.ts'

const adminPath = '/__admin'

/** What the control API of a sandbox works on. */
export interface Controlled {
  readonly journal: Journal
  readonly faults: Faults
  readonly itemSchema: ObjectSchema
  list(): Awaitable<ListRepresentation>
  /** What the page says about this service. */
  info(): object
  /** A token for local clients. */
  readonly newToken: (() => Promise<string>) | undefined
  setFaults(rules: readonly FaultRule[]): void
  clearJournal(): void
  /** Starting items, no faults, an empty journal. */
  reset(): Awaitable<ReplaceOutcome>
  /** Exactly these items. */
  putItems(items: readonly FromSchema<ObjectSchema>[]): Awaitable<ReplaceOutcome>
}

export type ReplaceOutcome = 'replaced' | 'unstorable' | Full

const tag = 'Control'
const heartbeatIntervalMs = 15_000
/** Of one PUT. */
const maxItems = 100_000

/** The control API: its routes, and the errors as problem documents. */
export function adminApi(api: Api, controlled: Controlled): Api {
  const routes = adminRoutes(api, controlled)
  const admin: Api = {
    name: api.name,
    title: `Control of ${api.title}`,
    description: 'Brings a service in development mode into a known state, makes it fail, and shows its requests.',
    routes,
    errorResponse({ code, members, reason }, _operation, traceId) {
      // `errors` has the members, so the title is without them.
      const title = describeError({ code, members: undefined, reason })
      return problem(errors[code].status, title, { traceId, errors: members })
    },
  }
  const document = route({
    operation: 'getControlDocument',
    method: 'GET',
    path: `${adminPath}/openapi.json`,
    secured: true,
    execute: ({ baseUrl }) => json(200, JSON.stringify(openApiDocument(admin, baseUrl))),
  })
  return { ...admin, routes: [...routes, document, ...appPageRoutes()] }
}

/** Loopback clients that named a loopback host need no token. Pages of other origins may not use the API at all. */
export const adminAccess: DispatchHooks = {
  findFault: () => undefined,
  record: () => {},
  isExempt: ({ isLocal }) => isLocal,
  findAccessError(context) {
    const { request } = context
    const origin = request.header('origin')
    if (origin !== undefined && origin !== ownOrigin(context)) return new Rejection('origin-forbidden')
    if (request.hasBody && !isJson(request.header('content-type'))) return new Rejection('media-type-unsupported')
    return undefined
  },
}

export const ownOrigin = ({ origin: { isSecure, authority } }: RequestContext) =>
  `${isSecure ? 'https' : 'http'}://${authority}`

function adminRoutes(api: Api, controlled: Controlled): Route[] {
  const { journal, faults, itemSchema, list, reset, putItems } = controlled
  const docs = (summary: string, status: number, body?: DescribedBody, ...more: readonly ErrorCode[]) => ({
    tag,
    summary,
    success: { status, description: `${summary}.`, ...(body && { body }) },
    errors: ['origin-forbidden' as const, ...more],
  })
  const faultsPath = `${adminPath}/faults`
  const itemsPath = `${adminPath}/items`
  const requestsPath = `${adminPath}/requests`
  const { members, example } = itemSchema
  const required = Object.entries(members).flatMap(([name, member]) => ('default' in member ? [] : [name]))
  const itemsBody = {
    schema: { type: 'array', items: { type: 'object', properties: members, required } },
    example: [example],
  }
  return [
    route({
      operation: 'getInfo',
      docs: docs('Addresses, operations and rules of this service', 200, { schema: { type: 'object' } }),
      method: 'GET',
      path: `${adminPath}/info`,
      secured: true,
      async execute({ isLocal }) {
        const operations = api.routes.flatMap((each) => (each.docs ? [describeOperation(each, faults)] : []))
        const token = isLocal ? await controlled.newToken?.() : undefined
        return json(
          200,
          JSON.stringify({ profile: api.name, title: api.title, ...controlled.info(), operations, token }),
        )
      },
    }),
    route({
      operation: 'reset',
      docs: docs('Items as at the start, no faults, an empty journal', 204, undefined, ...storeErrors),
      method: 'POST',
      path: `${adminPath}/reset`,
      secured: true,
      execute: reset,
      respond: (outcome: ReplaceOutcome) => respondToReplace(outcome, []),
    }),
    route({
      operation: 'getItems',
      docs: docs('The items', 200, itemsBody, 'store-unavailable'),
      method: 'GET',
      path: itemsPath,
      secured: true,
      execute: list,
      respond: (items: ListRepresentation) => json(200, items.json),
    }),
    readerRoute({
      operation: 'putItems',
      docs: {
        ...docs('Replace the items by exactly these', 204, undefined, ...bodyErrors, ...storeErrors),
        requestBody: itemsBody,
      },
      method: 'PUT',
      path: itemsPath,
      secured: true,
      readBody: arrayReader(itemSchema, 'id', maxItems),
      execute: ({ body }: ItemsInput) => putItems(body),
      respond: (outcome: ReplaceOutcome, { body }: ItemsInput) => respondToReplace(outcome, body),
    }),
    route({
      operation: 'getRequests',
      docs: {
        ...docs('The last requests, newest last', 200, requestsBody, 'query-invalid'),
        parameters: rangeParameters,
      },
      method: 'GET',
      path: requestsPath,
      secured: true,
      execute({ query }) {
        const range = readRange(query)
        return range instanceof Rejection ? range : json(200, JSON.stringify(journal.list(range)))
      },
    }),
    route({
      operation: 'deleteRequests',
      docs: docs('Empty the journal', 204),
      method: 'DELETE',
      path: requestsPath,
      secured: true,
      execute: () => controlled.clearJournal(),
      respond: () => noContent,
    }),
    route({
      operation: 'getEvents',
      docs: {
        ...docs(
          'Server-sent events: request, item, reset, clear and faults',
          200,
          eventsBody,
          'too-many-event-streams',
        ),
        parameters: [{ name: 'Last-Event-ID', in: 'header', schema: { type: 'integer' } }],
      },
      method: 'GET',
      path: `${adminPath}/events`,
      secured: true,
      execute: ({ request }) =>
        journal.hasRoom
          ? eventStream(journal, request.header('last-event-id'))
          : new Rejection('too-many-event-streams', undefined, `at most ${maxSubscriptions} at a time.`),
    }),
    route({
      operation: 'getFaults',
      docs: docs('The rules and how often each was used', 200, faultsBody),
      method: 'GET',
      path: faultsPath,
      secured: true,
      execute: () => json(200, JSON.stringify(faults.rules)),
    }),
    readerRoute({
      operation: 'putFaults',
      docs: {
        ...docs('Replace the rules; the first that matches is applied', 204, undefined, ...bodyErrors),
        requestBody: faultsBody,
      },
      method: 'PUT',
      path: faultsPath,
      secured: true,
      readBody: (text) => readFaultRules(text, faults),
      execute: ({ body }: { readonly body: readonly FaultRule[] }) => controlled.setFaults(body),
      respond: () => noContent,
    }),
    route({
      operation: 'deleteFaults',
      docs: docs('Remove the rules', 204),
      method: 'DELETE',
      path: faultsPath,
      secured: true,
      execute: () => controlled.setFaults([]),
      respond: () => noContent,
    }),
  ]
}

const bodyErrors = ['body-malformed', 'body-invalid', 'media-type-unsupported', 'body-too-large'] as const
const storeErrors = ['value-unstorable', 'store-full', 'store-unavailable'] as const

const wholeNumber = { type: 'integer', minimum: 0 }
const rangeParameters = [
  { name: 'since', in: 'query', description: 'Only entries with a higher id.', schema: wholeNumber },
  { name: 'limit', in: 'query', description: 'At most so many, the newest.', schema: wholeNumber },
]
const messageSchema = {
  type: 'object',
  required: ['headers', 'body'],
  properties: {
    headers: { type: 'object', additionalProperties: { type: 'string' } },
    body: { type: 'string', nullable: true, description: 'The first 16 KiB.' },
    isTruncated: { type: 'boolean' },
  },
}
const requestsBody = {
  schema: {
    type: 'array',
    items: {
      type: 'object',
      required: ['id', 'time', 'client', 'method', 'path', 'query', 'status', 'milliseconds', 'request', 'response'],
      properties: {
        id: wholeNumber,
        time: { type: 'string', format: 'date-time' },
        client: { type: 'string' },
        method: { type: 'string' },
        path: { type: 'string' },
        query: { type: 'string' },
        status: { type: 'integer', nullable: true, description: 'Null where there was no response.' },
        milliseconds: { type: 'number' },
        request: messageSchema,
        response: messageSchema,
        reason: { type: 'string', description: 'Why the request was rejected.' },
        rule: { type: 'string', description: 'The rule of the contract that says so.' },
        errors: { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } },
        fault: { type: 'string', description: 'The delay or failure that was applied.' },
        item: {
          type: 'object',
          required: ['change', 'id'],
          properties: {
            change: { type: 'string', enum: ['created', 'updated', 'deleted'] },
            id: { type: 'string' },
          },
        },
      },
    },
  },
}
const eventsBody = { type: 'text/event-stream', schema: { type: 'string' } }

interface ItemsInput {
  readonly body: readonly FromSchema<ObjectSchema>[]
}

const describeOperation = (each: Route, faults: Faults) => {
  const { operation, method, path, secured = false } = each
  return { operation, method, path, secured, statuses: faults.statusesOf(each) }
}

const faultsBody = {
  schema: {
    type: 'array',
    items: {
      type: 'object',
      properties: {
        method: { type: 'string' },
        path: { type: 'string' },
        times: { type: 'integer', minimum: 1 },
        share: { type: 'number', minimum: 0, maximum: 1 },
        code: { type: 'integer' },
        fault: { type: 'string', enum: ['reset', 'truncate', 'lost'] },
        delay: { type: 'integer', minimum: 0, description: 'Milliseconds.' },
        used: { type: 'integer', readOnly: true, description: 'How often it was applied.' },
      },
    },
  },
  example: [{ method: 'POST', path: '/api/todoitems', times: 2, code: 503 }],
}

function respondToReplace(outcome: ReplaceOutcome, items: readonly FromSchema<ObjectSchema>[]): Response | Rejection {
  if (outcome === 'replaced') return noContent
  if (outcome === 'item-limit') return new Rejection('store-full', undefined, 'raise --max-items.')
  if (outcome === 'memory-limit') return new Rejection('store-full', undefined, 'raise --max-memory.')
  const names = items.flatMap((item, index) =>
    Object.entries(item).flatMap(([name, value]) => (`${value}`.includes('\0') ? [`[${index}].${name}`] : [])),
  )
  const messages = names.map((name) => [name, [`${name} must not contain U+0000.`]])
  return new Rejection('value-unstorable', Object.fromEntries(messages))
}

/** `?since=ID&limit=COUNT` */
function readRange(query: string): { since?: number; limit?: number } | Rejection {
  const range: Record<string, number> = {}
  const messages: Record<string, string[]> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== 'since' && name !== 'limit') messages[name] = [`There is no parameter ${name}: use since and limit.`]
    else if (!/^\d{1,15}$/.test(value)) messages[name] = [`${name} must be a whole number.`]
    else range[name] = Number(value)
  }
  return Object.keys(messages).length > 0 ? new Rejection('query-invalid', messages) : range
}

/** https://html.spec.whatwg.org/multipage/server-sent-events.html */
function eventStream(journal: Journal, lastEventId: string | undefined): Response {
  const lastId = lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId) ? Number(lastEventId) : undefined
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    body(send, end) {
      send('retry: 1000\n\n')
      const heartbeat = setInterval(() => send(': still here\n\n'), heartbeatIntervalMs)
      const { resume, cancel } = journal.subscribe((event) => send(formatEvent(event)), lastId, end)
      return {
        onDrain: resume,
        onClose() {
          clearInterval(heartbeat)
          cancel()
        },
      }
    },
  }
}

const formatEvent = ({ id, event, json: data }: JournalEvent) => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`
