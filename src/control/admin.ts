import { appPageRoutes } from '../docs/app-page.ts'
import { openApiDocument } from '../docs/openapi.ts'
import type { Api, DispatchHooks } from '../http/dispatch.ts'
import { ApiError, errors } from '../http/errors.ts'
import type { RequestContext } from '../http/request.ts'
import { json, noContent, type Response } from '../http/response.ts'
import { type Route, readerRoute, route } from '../http/router.ts'
import { arrayReader, type FromSchema, type ObjectSchema } from '../http/schema.ts'
import type { Awaitable, Full, ListRepresentation } from '../store/store.ts'
import { type FaultRule, type Faults, readFaultRules } from './faults.ts'
import type { Journal, JournalEvent } from './journal.ts'

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
  reset(): Awaitable<unknown>
  /** Exactly these items. */
  putItems(items: readonly FromSchema<ObjectSchema>[]): Awaitable<'replaced' | 'unstorable' | Full>
}

const tag = 'Control'
const heartbeatIntervalMs = 15_000

/** The control API: its routes, and the errors as problem documents. */
export function adminApi(api: Api, controlled: Controlled): Api {
  const routes = adminRoutes(api, controlled)
  const admin: Api = {
    name: api.name,
    title: `Control of ${api.title}`,
    description: 'Brings a service in development mode into a known state, makes it fail, and shows its requests.',
    routes,
    errorResponse({ code, members, reason }) {
      const { status, title } = errors[code]
      const headers = { 'content-type': 'application/problem+json' }
      const text = reason ? `${title.slice(0, -1)}: ${reason}` : title
      return { status, headers, body: JSON.stringify({ type: 'about:blank', title: text, status, errors: members }) }
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
    const origin = context.request.header('origin')
    if (origin === undefined || origin === ownOrigin(context)) return undefined
    return new ApiError('origin-forbidden')
  },
}

const ownOrigin = ({ origin: { isSecure, authority } }: RequestContext) =>
  `${isSecure ? 'https' : 'http'}://${authority}`

function adminRoutes(api: Api, controlled: Controlled): Route[] {
  const { journal, faults, itemSchema, list, reset, putItems } = controlled
  const docs = (summary: string, status: number, body?: { readonly schema: object; readonly example?: unknown }) => ({
    tag,
    summary,
    success: { status, description: `${summary}.`, ...(body && { body }) },
  })
  const faultsPath = `${adminPath}/faults`
  const itemsPath = `${adminPath}/items`
  const requestsPath = `${adminPath}/requests`
  const readItems = arrayReader(itemSchema)
  const itemsBody = {
    schema: { type: 'array', items: { type: 'object', properties: itemSchema.members, required: ['id'] } },
    example: [itemSchema.example],
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
      docs: docs('Items as at the start, no faults, an empty journal', 204),
      method: 'POST',
      path: `${adminPath}/reset`,
      secured: true,
      execute: reset,
      respond: () => noContent,
    }),
    route({
      operation: 'getItems',
      docs: docs('The items', 200, itemsBody),
      method: 'GET',
      path: itemsPath,
      secured: true,
      execute: list,
      respond: (items: ListRepresentation) => json(200, items.json),
    }),
    readerRoute({
      operation: 'putItems',
      docs: { ...docs('Replace the items by exactly these', 204), requestBody: itemsBody },
      method: 'PUT',
      path: itemsPath,
      secured: true,
      readBody(text) {
        const items = readItems(text)
        return items instanceof ApiError ? items : (findDuplicates(items) ?? items)
      },
      execute: ({ body }) => putItems(body),
      respond: (outcome) => (outcome === 'replaced' ? noContent : new ApiError(outcomeErrors[outcome])),
    }),
    route({
      operation: 'getRequests',
      docs: docs('The last requests, newest last', 200, { schema: { type: 'array', items: { type: 'object' } } }),
      method: 'GET',
      path: requestsPath,
      secured: true,
      execute({ query }) {
        const range = readRange(query)
        return range instanceof ApiError ? range : json(200, JSON.stringify(journal.list(range)))
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
      docs: docs('Server-sent events: request, item, reset, clear and faults', 200, { schema: { type: 'string' } }),
      method: 'GET',
      path: `${adminPath}/events`,
      secured: true,
      execute: ({ request }) => eventStream(journal, request.header('last-event-id')),
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
      docs: { ...docs('Replace the rules; the first that matches is applied', 204), requestBody: faultsBody },
      method: 'PUT',
      path: faultsPath,
      secured: true,
      readBody: (text) => readFaultRules(text, faults, api.routes),
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
        delay: { type: 'integer', minimum: 0 },
      },
    },
  },
  example: [{ method: 'POST', path: '/api/todoitems', times: 2, code: 503 }],
}

const outcomeErrors = {
  unstorable: 'value-unstorable',
  'item-limit': 'store-full',
  'memory-limit': 'store-full',
} as const

function findDuplicates(items: readonly FromSchema<ObjectSchema>[]): ApiError | undefined {
  const positions = new Map<unknown, number>()
  const duplicates: Record<string, string[]> = {}
  for (const [index, { id }] of items.entries()) {
    const first = positions.get(id)
    if (first === undefined) positions.set(id, index)
    else duplicates[`[${index}].id`] = [`[${index}].id is the same as [${first}].id.`]
  }
  return Object.keys(duplicates).length > 0 ? new ApiError('body-invalid', duplicates) : undefined
}

/** `?since=ID&limit=COUNT` */
function readRange(query: string): { since?: number; limit?: number } | ApiError {
  const range: Record<string, number> = {}
  const messages: Record<string, string[]> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== 'since' && name !== 'limit') messages[name] = [`There is no parameter ${name}: use since and limit.`]
    else if (!/^\d{1,15}$/.test(value)) messages[name] = [`${name} must be a whole number.`]
    else range[name] = Number(value)
  }
  return Object.keys(messages).length > 0 ? new ApiError('query-invalid', messages) : range
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
      const unsubscribe = journal.subscribe((event) => send(formatEvent(event)), lastId, end)
      return () => {
        clearInterval(heartbeat)
        unsubscribe()
      }
    },
  }
}

function formatEvent(event: JournalEvent): string {
  const id = event.event === 'request' ? event.entry.id : event.id
  const data = event.event === 'request' ? event.entry : event.event === 'item' ? event.item : {}
  return `id: ${id}\nevent: ${event.event}\ndata: ${JSON.stringify(data)}\n\n`
}
