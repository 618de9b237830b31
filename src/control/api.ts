import {
  arrayOf,
  memberCheck,
  type ObjectOf,
  object,
  type SchemaMembers,
  string,
  type ValueOf,
} from '../common/schema.ts'
import type { NewToken } from '../common/token-request.ts'
import type { VerifyToken } from '../http/auth.ts'
import { arrayReader, bodyReader } from '../http/body-reader.ts'
import { conditionalResponse, ifMatch } from '../http/conditional.ts'
import type { RequestContext } from '../http/context.ts'
import type { Api, DispatchHooks } from '../http/dispatch.ts'
import { describeError, errors, Rejection } from '../http/errors.ts'
import { isJson } from '../http/json-body.ts'
import type { HandlerInput } from '../http/request.ts'
import { hasRetryAfter, json, noContent, type Response, retryAfter, withHeaders } from '../http/response.ts'
import { type Route, route, type Success } from '../http/router.ts'
import { documentRoute, objectSchema } from '../pages/openapi.ts'
import { appPageRoutes } from '../pages/pages.ts'
import type { Awaitable, ReplaceOutcome } from '../store/store.ts'
import { problem, readFault, readFaults } from './faults.ts'
import { type Journal, maxSubscriptions } from './journal.ts'
import {
  activeFaultSchema,
  codeQueryMembers,
  type Fault,
  faultSchema,
  type Info,
  journalEntry,
  journalQueryMembers,
  type SpaceUse,
  spaceUse,
} from './schema.ts'
import type { ControlledSpace, ControlSettings } from './space.ts'

/** The spaces of a control, as its API reads and deletes them. */
interface SpaceList {
  /** Lists all spaces; with `only`, the single space for which the token of the caller is valid. */
  listSpaces(only: string | undefined): Promise<readonly SpaceUse[]>
  /** Returns false if there is no such space. */
  deleteSpace(name: string): Promise<boolean>
}

export const controlScope = 'control'
/** The claim with the name of the space, in a token for a single space. */
const spaceClaim = 'todo_space'
/** The claim that says how often that space had been deleted when the token was created. */
const deletionsClaim = 'todo_deletions'

const heartbeatIntervalMs = 15_000
const maxPutItems = 100_000

/** Returns the control API of an API: its routes, its OpenAPI document and /app. Its errors are problem documents. */
export function controlApi(settings: ControlSettings, spaces: SpaceList): Api {
  const { api } = settings
  const routes = controlRoutes(settings, spaces)
  const control: Api = {
    name: api.name,
    title: `Control of ${api.title}`,
    description: 'Brings a service in development mode into a known state, makes it fail, and shows its requests.',
    routes,
    errorResponse({ code, members, reason }, _operation, { traceId }) {
      // The title does not repeat the messages by member, which are in `errors`.
      const title = describeError({ code, members: undefined, reason })
      const { status } = errors[code]
      const response = problem(status, title, { traceId, errors: members })
      return hasRetryAfter(status) ? withHeaders(response, retryAfter) : response
    },
  }
  const document = documentRoute(control, {}, 'getControlDocument', '/__admin/openapi.json')
  return { ...control, routes: [...routes, document, ...appPageRoutes()] }
}

/**
 * Local clients need no token. Pages of other origins may send no request to the API, not even one whose response they
 * could not read; they may only link to /app.
 */
export const controlAccess: DispatchHooks = {
  headers: { 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'same-origin' },
  isExempt: ({ isLocal }) => isLocal,
  findAccessError(context) {
    const { request, isPage } = context
    const origin = request.header('origin')
    const site = request.header('sec-fetch-site')
    const isByOther = site !== undefined && site !== 'same-origin' && site !== 'none'
    if ((origin !== undefined && origin !== ownOrigin(context)) || (isByOther && !isPage))
      return new Rejection('origin-forbidden')
    if (request.hasBody && !isJson(request.header('content-type'))) return new Rejection('media-type-unsupported')
    return undefined
  },
}

export const ownOrigin = ({ origin: { isSecure, authority } }: RequestContext) =>
  `${isSecure ? 'https' : 'http'}://${authority}`

type Docs = NonNullable<Route['docs']>

interface ControlOperation<Body>
  extends Pick<Docs, 'summary' | 'errors' | 'parameters' | 'requestBody'>,
    Pick<Success, 'body' | 'headers'>,
    Pick<Route<unknown, Body>, 'id' | 'secured' | 'maxBodyBytes' | 'readBody'> {
  /** The status of a success: 200 if absent, or 204 without a body. */
  readonly status?: number
  execute(input: HandlerInput<unknown, Body>): Awaitable<Response | Rejection>
}

function controlRoute<Body>(
  operation: string,
  method: Route['method'],
  path: string,
  { summary, parameters, requestBody, body, status = body ? 200 : 204, ...definition }: ControlOperation<Body>,
): Route {
  const { headers, errors: codes = [], ...handling } = definition
  const docs: Docs = {
    tag: 'Control',
    summary,
    success: { status, description: `${summary}.`, ...(body && { body }), ...(headers && { headers }) },
    errors: ['origin-forbidden', ...(handling.readBody ? bodyErrors : []), ...codes],
    ...(parameters && { parameters }),
    ...(requestBody && { requestBody }),
  }
  return route<unknown, Body, Response>({
    secured: true,
    ...handling,
    operation,
    docs,
    method,
    path: `/__admin${path}`,
  })
}

const bodyErrors = ['body-malformed', 'body-invalid', 'media-type-unsupported', 'body-too-large'] as const
const storeErrors = ['value-unstorable', 'store-full', 'store-unavailable'] as const
const exampleFault = { method: 'POST', path: '/api/todoitems', times: 2, code: 503 }
const exampleActiveFault = { id: 1, ...exampleFault, description: 'POST /api/todoitems: 503, twice', used: 0 }
const wholeNumberText = /^\d{1,15}$/
const faultId: NonNullable<Route['id']> = {
  schema: { type: 'integer', format: 'int64', minimum: 1 },
  parse: (segment = '') => (wholeNumberText.test(segment) ? Number(segment) : new Rejection('fault-missing')),
}

type Input = Pick<HandlerInput<unknown, unknown>, 'space'>

/** Returns the space of a request; with a control API, each space is a `ControlledSpace`. */
export const spaceOf = ({ space }: Input) => space as ControlledSpace

function setFaults(input: Input, faults: readonly Fault[]): Response {
  spaceOf(input).faults.set(faults)
  return noContent
}

const replaceFault = (input: Input, id: unknown, fault?: Fault) =>
  spaceOf(input).faults.replace(id as number, fault) ? noContent : new Rejection('fault-missing')

function controlRoutes(settings: ControlSettings, { listSpaces, deleteSpace }: SpaceList): Route[] {
  const { api, itemSchema, collection, newToken } = settings
  const itemsBody = (isResponse: boolean) => ({
    schema: { type: 'array', items: objectSchema(itemSchema, isResponse) },
    example: [itemSchema.example],
  })
  return [
    controlRoute('getInfo', 'GET', '/info', {
      summary: 'Addresses, operations and rules of this service',
      body: { schema: { type: 'object' } },
      async execute(input) {
        const space = spaceOf(input)
        const operations = api.routes
          .filter(({ docs }) => docs)
          .map((each) => {
            const { operation, method, path, secured = false } = each
            return { operation, method, path, secured, statuses: space.faults.statusesOf(each) }
          })
        const token = input.isLocal ? await newToken?.() : undefined
        const { name: profile, title } = api
        const { name, instance, hasChanged } = space
        const { info, spaces } = settings
        const ofSpace = { instance, space: name || undefined, spaces, hasChanged, operations, token }
        return json(200, JSON.stringify({ profile, title, ...info(), ...ofSpace } satisfies Info))
      },
    }),
    controlRoute('reset', 'POST', '/reset', {
      summary: 'Items and faults as at the start, an empty journal',
      errors: storeErrors,
      execute: async (input) => replaceResponse(await spaceOf(input).reset()),
    }),
    controlRoute('getItems', 'GET', '/items', {
      summary: 'The items',
      body: itemsBody(true),
      headers: { ETag: 'The entity tag of these items, for If-Match of a PUT.' },
      errors: ['precondition-failed', 'store-unavailable'],
      execute: async (input) => conditionalResponse(input, await spaceOf(input).items.list(input.request)),
    }),
    controlRoute<readonly object[]>('putItems', 'PUT', '/items', {
      summary: 'Replace the items by exactly these',
      requestBody: itemsBody(false),
      errors: ['precondition-failed', ...storeErrors],
      readBody: arrayReader(itemSchema, collection.keyMember, maxPutItems),
      async execute(input) {
        const { body } = input
        return replaceResponse(await spaceOf(input).putItems(body, ifMatch(input)))
      },
    }),
    controlRoute('getRequests', 'GET', '/requests', {
      summary: 'The last requests, newest last',
      body: { schema: arrayOf(journalEntry) },
      parameters: parametersOf(journalQueryMembers),
      errors: ['query-invalid'],
      execute(input) {
        const wanted = readQuery(input.query, journalQueryMembers)
        return wanted instanceof Rejection ? wanted : json(200, JSON.stringify(spaceOf(input).journal.list(wanted)))
      },
    }),
    controlRoute('deleteRequests', 'DELETE', '/requests', {
      summary: 'Empty the journal',
      execute(input) {
        spaceOf(input).clearJournal()
        return noContent
      },
    }),
    controlRoute('getEvents', 'GET', '/events', {
      summary: 'Server-sent events: request, item, reset, clear and faults',
      body: { type: 'text/event-stream', schema: { type: 'string' } },
      parameters: [{ name: 'Last-Event-ID', in: 'header', schema: { type: 'integer' } }],
      errors: ['too-many-event-streams'],
      execute(input) {
        const { journal } = spaceOf(input)
        return journal.hasRoom
          ? eventStream(journal, input.request.header('last-event-id'))
          : new Rejection('too-many-event-streams', undefined, `at most ${maxSubscriptions} at a time.`)
      },
    }),
    controlRoute('getFaults', 'GET', '/faults', {
      summary: 'The faults and how often each was used',
      body: { schema: arrayOf(activeFaultSchema), example: [exampleActiveFault] },
      execute: (input) => json(200, JSON.stringify(spaceOf(input).faults.active)),
    }),
    controlRoute<Fault>('postFault', 'POST', '/faults', {
      summary: 'Add a fault behind the others, before those of flags',
      requestBody: { schema: faultSchema, example: exampleFault },
      status: 201,
      body: { schema: activeFaultSchema, example: exampleActiveFault },
      readBody(text, input) {
        const { faults } = spaceOf(input)
        const limit = faults.findProblem(faults.count + 1)
        return limit ? new Rejection('body-invalid', { '': [limit] }) : readFault(text, faults)
      },
      execute: (input) => json(201, JSON.stringify(spaceOf(input).faults.add(input.body))),
    }),
    controlRoute<readonly Fault[]>('putFaults', 'PUT', '/faults', {
      summary: 'Replace the faults but those of flags',
      requestBody: { schema: arrayOf(faultSchema), example: [exampleFault] },
      readBody: (text, input) => readFaults(text, spaceOf(input).faults),
      execute: (input) => setFaults(input, input.body),
    }),
    controlRoute('deleteFaults', 'DELETE', '/faults', {
      summary: 'Remove the faults but those of flags',
      execute: (input) => setFaults(input, []),
    }),
    controlRoute<Fault>('putFault', 'PUT', '/faults/{id}', {
      summary: 'Replace a fault',
      id: faultId,
      requestBody: { schema: faultSchema, example: exampleFault },
      errors: ['fault-missing'],
      readBody: (text, input) => readFault(text, spaceOf(input).faults),
      execute: (input) => replaceFault(input, input.id, input.body),
    }),
    controlRoute('deleteFault', 'DELETE', '/faults/{id}', {
      summary: 'Remove a fault, until the next reset if it is of a flag',
      id: faultId,
      errors: ['fault-missing'],
      execute: (input) => replaceFault(input, input.id),
    }),
    controlRoute('getSpaces', 'GET', '/spaces', {
      summary: 'The spaces, with their items and what their clients did since the start',
      body: { schema: arrayOf(spaceUse), example: [exampleSpaceUse] },
      errors: ['store-unavailable'],
      execute: async ({ caller }) => json(200, JSON.stringify(await listSpaces(grantedSpace(caller)))),
    }),
    controlRoute('deleteSpace', 'DELETE', '/spaces/{id}', {
      summary: 'Delete a space with all its items',
      id: { schema: { type: 'string' }, parse: (segment = '') => segment },
      errors: ['space-missing', 'store-unavailable'],
      async execute({ caller, id }) {
        const name = `${id}`
        const refused = findTokenProblem({ caller }, name)
        return refused ?? ((await deleteSpace(name)) ? noContent : new Rejection('space-missing'))
      },
    }),
    ...(newToken ? tokenRoutes(settings, newToken) : []),
  ]
}

const exampleSpaceUse: SpaceUse = {
  name: 'ada',
  items: 3,
  lastUsed: '2026-01-01T00:00:00.000Z',
  requests: 12,
  rejected: 2,
  met: ['A1', 'A3'],
  broken: ['A6'],
  mistake: {
    time: '2026-01-01T00:00:00.000Z',
    method: 'POST',
    path: '/api/todoitems',
    status: 400,
    rules: ['A6'],
    reason: 'isComplete is missing.',
  },
}

/** Returns the space that the token of a request was created for; undefined if the token is for all spaces. */
export const grantedSpace = (caller: RequestContext['caller']) => {
  const { [spaceClaim]: granted } = caller ?? {}
  return granted === undefined ? undefined : `${granted}`
}

/** Rejects a token that was created for a space, once that space has been deleted. */
export const endedWithSpace =
  (verifyToken: VerifyToken, deletionsOf: ControlSettings['deletionsOf']): VerifyToken =>
  async (token) => {
    const result = await verifyToken(token)
    if (!('claims' in result)) return result
    const { [spaceClaim]: space, [deletionsClaim]: deletions = 0 } = result.claims
    if (space === undefined || Number(deletions) >= deletionsOf(`${space}`)) return result
    return { errorDescription: 'The space of the token has ended', reason: 'the space of the token has ended' }
  }

/** Returns the 403 for a request whose token was created for another space. */
export function findTokenProblem({ caller }: Pick<RequestContext, 'caller'>, space: string): Response | undefined {
  return (grantedSpace(caller) ?? space) === space ? undefined : problem(403, 'The token is for another space.')
}

const code = string()
const exampleCode = { code: 'K7M2P-XW9QD' }
const sentCode = { ...object({ code }), example: exampleCode }
const newCode = {
  ...object({ code, expiresAt: string(undefined, { format: 'date-time' }) }),
  example: { ...exampleCode, expiresAt: '2026-01-01T00:05:00.000Z' },
}
const signedToken = { ...object({ token: string() }), example: { token: 'eyJhb…' } }

/** The routes by which a client on another machine gets a token: for a code that a client with access has created. */
function tokenRoutes({ codes, deletionsOf }: ControlSettings, signToken: NewToken): Route[] {
  return [
    controlRoute('createCode', 'POST', '/codes', {
      summary: 'A code for one token',
      status: 201,
      body: { schema: newCode },
      parameters: parametersOf(codeQueryMembers),
      errors: ['query-invalid', 'too-many-codes'],
      execute({ space, query, caller }) {
        if (grantedSpace(caller) !== undefined) return problem(403, 'A token for a code makes no other codes.')
        const wanted = readQuery(query, codeQueryMembers)
        if (wanted instanceof Rejection) return wanted
        const code = codes.create(space.name, wanted.validForSeconds)
        return code ? json(201, JSON.stringify(code)) : new Rejection('too-many-codes')
      },
    }),
    controlRoute<ValueOf<typeof sentCode>>('createToken', 'POST', '/tokens', {
      summary: 'A token that controls the space of a code',
      secured: false,
      maxBodyBytes: 1_000,
      status: 201,
      requestBody: { schema: sentCode },
      body: { schema: signedToken },
      errors: ['code-invalid', 'too-many-wrong-codes'],
      readBody: bodyReader(sentCode),
      async execute({ body: { code } }) {
        const outcome = codes.redeem(code)
        if (typeof outcome === 'string')
          return new Rejection(outcome === 'wrong' ? 'code-invalid' : 'too-many-wrong-codes')
        const { space, validForSeconds } = outcome
        const claims = { [spaceClaim]: space, [deletionsClaim]: `${deletionsOf(space)}` }
        const token = await signToken({ scopes: [controlScope], claims, validForSeconds })
        return withHeaders(json(201, JSON.stringify({ token })), { 'cache-control': 'no-store' })
      },
    }),
  ]
}

function replaceResponse(outcome: ReplaceOutcome): Response | Rejection {
  if (outcome === 'replaced') return noContent
  if (outcome === 'changed') return new Rejection('precondition-failed')
  if (outcome === 'item-limit') return new Rejection('store-full', undefined, 'raise --max-items.')
  return new Rejection('store-full', undefined, 'raise --max-memory.')
}

const parametersOf = (members: SchemaMembers) =>
  Object.entries(members).map(([name, { description, ...schema }]) => ({ name, in: 'query', description, schema }))

function readQuery<M extends SchemaMembers>(text: string, members: M): Partial<ObjectOf<M>> | Rejection {
  const mistakeIn = memberCheck('parameter', members)
  const query = new Map<string, unknown>()
  const messages = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(text)) {
    const read = wholeNumberText.test(value) ? Number(value) : value === 'true' || (value === 'false' ? false : value)
    const message = mistakeIn(name, read)
    if (message !== undefined) messages.set(name, [message])
    query.set(name, read)
  }
  return messages.size > 0
    ? new Rejection('query-invalid', Object.fromEntries(messages))
    : (Object.fromEntries(query) as Partial<ObjectOf<M>>)
}

function eventStream(journal: Journal, lastEventId = ''): Response {
  const lastId = wholeNumberText.test(lastEventId) ? Number(lastEventId) : undefined
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    body(send, end) {
      send('retry: 1000\n\n')
      const heartbeat = setInterval(() => send(': still here\n\n'), heartbeatIntervalMs)
      const { resume, cancel } = journal.subscribe(send, lastId, end)
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
