import { checkOf, type SchemaMembers } from '../common/schema.ts'
import type { VerifyToken } from '../http/auth.ts'
import { ifMatch, respondWith } from '../http/conditional.ts'
import type { RequestContext } from '../http/context.ts'
import type { Api, DispatchHooks } from '../http/dispatch.ts'
import { describeError, errors, Rejection } from '../http/errors.ts'
import { isJson } from '../http/json-body.ts'
import type { HandlerInput } from '../http/request.ts'
import { hasRetryAfter, json, noContent, type Response, retryAfter, withHeaders } from '../http/response.ts'
import { type Route, readerRoute, type Success } from '../http/router.ts'
import { arrayReader, bodyReader, type FromSchema, type ObjectSchema, type SentBody } from '../http/schema.ts'
import { documentRoute, objectSchema } from '../pages/openapi.ts'
import { appPageRoutes } from '../pages/pages.ts'
import type { Awaitable, ReplaceOutcome } from '../store/store.ts'
import type { Codes } from './codes.ts'
import { problem, readFault, readFaults } from './faults.ts'
import { type Journal, maxSubscriptions } from './journal.ts'
import {
  activeFaultSchema,
  activeFaultsSchema,
  type CodeQuery,
  codeQueryMembers,
  entriesSchema,
  type Fault,
  faultSchema,
  faultsSchema,
  type Info,
  type JournalQuery,
  journalQueryMembers,
  type SpaceUse,
  spaceUsesSchema,
} from './schema.ts'
import type { ControlledSpace, ItemBodies } from './space.ts'

type SignToken = (request?: {
  readonly scopes: readonly string[]
  readonly claims?: Readonly<Record<string, string>>
  readonly validForSeconds?: number
}) => Promise<string>

/** What the control APIs of all spaces share. */
export interface ControlApiSettings {
  readonly itemSchema: ObjectSchema
  readonly newToken: SignToken | undefined
  readonly codes: Codes
  /** How often the space was deleted. */
  readonly deletionsOf: (space: string) => number
  /** The spaces that somebody who controls `only` may know of; undefined for all. */
  listSpaces(only: string | undefined): Promise<readonly SpaceUse[]>
  /** Returns false where there is no such space. */
  deleteSpace(name: string): Promise<boolean>
}

export const controlScope = 'control'
/** A token that was made for one space names it in this claim. */
const spaceClaim = 'todo_space'
/** How often that had been deleted. */
const deletionsClaim = 'todo_deletions'

const heartbeatIntervalMs = 15_000
const maxPutItems = 100_000

/** The control API has its routes, its document and the page that uses it. Errors are problem documents. */
export function controlApi(api: Api, settings: ControlApiSettings): Api {
  const routes = controlRoutes(api, settings)
  const control: Api = {
    name: api.name,
    title: `Control of ${api.title}`,
    description: 'Brings a service in development mode into a known state, makes it fail, and shows its requests.',
    routes,
    errorResponse({ code, members, reason }, _operation, { traceId }) {
      // `errors` has the members, so the title is without them.
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
 * Loopback clients that named a loopback host need no token. Pages of other origins may not use the API at all, also not in
 * ways in which they cannot read the response; they may link to the page.
 */
export const controlAccess: DispatchHooks = {
  headers: { 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'same-origin' },
  findFault: () => undefined,
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
    Pick<Route, 'id' | 'secured' | 'maxBodyBytes'> {
  /** 200, where absent, or 204 without a body. */
  readonly status?: number
  readBody?(text: string, input: SentBody & Input): Body | Rejection
  execute(input: HandlerInput<unknown, Body>): Awaitable<Response | Rejection>
}

function controlRoute<Body>(
  operation: string,
  method: Route['method'],
  path: string,
  stated: ControlOperation<Body>,
): Route {
  const { body, status = body ? 200 : 204, headers, errors: codes = [], readBody, execute, ...rest } = stated
  const { id, secured = true, maxBodyBytes, ...described } = rest
  const docs: Docs = {
    ...described,
    tag: 'Control',
    success: { status, description: `${stated.summary}.`, ...(body && { body }), ...(headers && { headers }) },
    errors: ['origin-forbidden', ...(readBody ? bodyErrors : []), ...codes],
  }
  return readerRoute<Body, Response>({
    operation,
    docs,
    method,
    path: `/__admin${path}`,
    secured,
    execute,
    ...(readBody && { readBody }),
    ...(maxBodyBytes && { maxBodyBytes }),
    ...(id && { id }),
    respond: (response) => response,
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

/** In development, every request works on a space. */
export const spaceOf = ({ space }: Input) => space as ControlledSpace

function setFaults(input: Input, faults: readonly Fault[]): Response {
  spaceOf(input).faults.set(faults)
  return noContent
}

const replaceFault = (input: Input, id: unknown, fault?: Fault) =>
  spaceOf(input).faults.replace(id as number, fault) ? noContent : new Rejection('fault-missing')

function controlRoutes(api: Api, settings: ControlApiSettings): Route[] {
  const { itemSchema, newToken, listSpaces, deleteSpace } = settings
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
        const { name, title } = api
        const info: Info = { profile: name, title, ...space.info(), operations, token }
        return json(200, JSON.stringify(info))
      },
    }),
    controlRoute('reset', 'POST', '/reset', {
      summary: 'Items and faults as at the start, an empty journal',
      errors: storeErrors,
      execute: async (input) => respondToReplace(await spaceOf(input).reset(), []),
    }),
    controlRoute('getItems', 'GET', '/items', {
      summary: 'The items',
      body: itemsBody(true),
      headers: { ETag: 'The entity tag of these items, for If-Match of a PUT.' },
      errors: ['precondition-failed', 'store-unavailable'],
      execute: async (input) => respondWith(input, await spaceOf(input).list(input.request)),
    }),
    controlRoute<ItemBodies>('putItems', 'PUT', '/items', {
      summary: 'Replace the items by exactly these',
      requestBody: itemsBody(false),
      errors: ['precondition-failed', ...storeErrors],
      readBody: arrayReader(itemSchema, 'id', maxPutItems),
      async execute(input) {
        const { body } = input
        return respondToReplace(await spaceOf(input).putItems(body, ifMatch(input)), body)
      },
    }),
    controlRoute('getRequests', 'GET', '/requests', {
      summary: 'The last requests, newest last',
      body: { schema: entriesSchema },
      parameters: journalParameters,
      errors: ['query-invalid'],
      execute(input) {
        const wanted = readQuery<JournalQuery>(input.query, journalParameters)
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
      body: { schema: activeFaultsSchema, example: [exampleActiveFault] },
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
      requestBody: { schema: faultsSchema, example: [exampleFault] },
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
      body: { schema: spaceUsesSchema, example: [exampleSpaceUse] },
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

/** The space that the token of a request was made for; undefined where it controls all. */
export const grantedSpace = (caller: RequestContext['caller']) => {
  const { [spaceClaim]: granted } = caller ?? {}
  return granted === undefined ? undefined : `${granted}`
}

/** Accepts a token for a code until its space is deleted. */
export const endedWithSpace =
  (verifyToken: VerifyToken, deletionsOf: ControlApiSettings['deletionsOf']): VerifyToken =>
  async (token) => {
    const result = await verifyToken(token)
    if (!('claims' in result)) return result
    const { [spaceClaim]: space, [deletionsClaim]: deletions = 0 } = result.claims
    if (space === undefined || Number(deletions) >= deletionsOf(`${space}`)) return result
    return { errorDescription: 'The space of the token has ended', reason: 'the space of the token has ended' }
  }

/** A token that was made for one space controls no other. */
export function findTokenProblem({ caller }: Pick<RequestContext, 'caller'>, space: string): Response | undefined {
  return (grantedSpace(caller) ?? space) === space ? undefined : problem(403, 'The token is for another space.')
}

const codeText = { type: 'string' } as const
const sentCode = { name: 'Code', members: { code: codeText }, example: { code: 'K7M2P-XW9QD' } } as const
const newCode: ObjectSchema = {
  name: 'NewCode',
  members: { code: codeText, expiresAt: { type: 'string', format: 'date-time' } },
  example: { ...sentCode.example, expiresAt: '2026-01-01T00:05:00.000Z' },
}
const signedToken: ObjectSchema = {
  name: 'Token',
  members: { token: { type: 'string' } },
  example: { token: 'eyJhb…' },
}

/** A client elsewhere gets its token for a code that somebody who has access shows it. */
function tokenRoutes({ codes, deletionsOf }: ControlApiSettings, signToken: SignToken): Route[] {
  return [
    controlRoute('createCode', 'POST', '/codes', {
      summary: 'A code for one token',
      status: 201,
      body: { schema: objectSchema(newCode, true) },
      parameters: codeParameters,
      errors: ['query-invalid', 'too-many-codes'],
      execute({ space, query, caller }) {
        if (grantedSpace(caller) !== undefined) return problem(403, 'A token for a code makes no other codes.')
        const wanted = readQuery<CodeQuery>(query, codeParameters)
        if (wanted instanceof Rejection) return wanted
        const code = codes.create(space.name, wanted.validForSeconds)
        return code ? json(201, JSON.stringify(code)) : new Rejection('too-many-codes')
      },
    }),
    controlRoute<FromSchema<typeof sentCode>>('createToken', 'POST', '/tokens', {
      summary: 'A token that controls the space of a code',
      secured: false,
      maxBodyBytes: 1_000,
      status: 201,
      requestBody: { schema: objectSchema(sentCode) },
      body: { schema: objectSchema(signedToken, true) },
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

function respondToReplace(outcome: ReplaceOutcome, items: ItemBodies): Response | Rejection {
  if (outcome === 'replaced') return noContent
  if (outcome === 'changed') return new Rejection('precondition-failed')
  if (outcome === 'item-limit') return new Rejection('store-full', undefined, 'raise --max-items.')
  if (outcome === 'memory-limit') return new Rejection('store-full', undefined, 'raise --max-memory.')
  const names = items.flatMap((item, index) =>
    Object.entries(item).flatMap(([name, value]) => (`${value}`.includes('\0') ? [`[${index}].${name}`] : [])),
  )
  const messages = names.map((name) => [name, [`${name} must not contain U+0000.`]])
  return new Rejection('value-unstorable', Object.fromEntries(messages))
}

type Parameters = ReturnType<typeof parametersOf>
const parametersOf = (members: SchemaMembers) =>
  Object.entries(members).map(([name, { description, ...schema }]) => ({ name, in: 'query', description, schema }))

const journalParameters = parametersOf(journalQueryMembers)
const codeParameters = parametersOf(codeQueryMembers)

function readQuery<Query extends object>(text: string, parameters: Parameters): Query | Rejection {
  const names = parameters.map(({ name }) => name).join(', ')
  const query = new Map<string, unknown>()
  const messages = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(text)) {
    const parameter = parameters.find((one) => one.name === name)
    const read = wholeNumberText.test(value) ? Number(value) : value === 'true' || (value === 'false' ? false : value)
    if (!parameter) messages.set(name, [`There is no parameter ${name}: use ${names}.`])
    else {
      const mistake = checkOf(parameter.schema)(read)
      if (mistake) messages.set(name, [`${name} ${mistake.message}.`])
    }
    query.set(name, read)
  }
  return messages.size > 0
    ? new Rejection('query-invalid', Object.fromEntries(messages))
    : (Object.fromEntries(query) as Query)
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
