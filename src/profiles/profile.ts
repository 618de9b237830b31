import { respondWith } from '../http/conditional.ts'
import type { RequestContext } from '../http/context.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import { jsonType, type Response } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'
import type { FromSchema, ObjectSchema } from '../http/schema.ts'
import type { Awaitable, IfMatch, ReplaceOutcome, Serializers, Stores } from '../store/store.ts'
import { type MetRules, samplesMet } from './samples.ts'

export type ProfileName = keyof Stores

export const itemsPath = '/api/todoitems'
export const itemsTag = 'To-do items'

/** A contract for the to-do items, as a value: all that differs between the profiles is in here. */
export interface Profile<Name extends ProfileName> {
  readonly name: Name
  readonly title: string
  readonly description: string
  readonly defaultPort: number
  readonly defaultHttpsPort: number
  readonly startingItems: Serializers[Name]['startingItems']
  readonly serialize: Serializers[Name]['serialize']
  readonly routes: readonly Route[]
  /** An item as clients send it, with its id. */
  readonly itemSchema: ObjectSchema
  replaceAll(
    store: Stores[Name],
    items: readonly FromSchema<ObjectSchema>[],
    ifMatch?: IfMatch,
  ): Awaitable<ReplaceOutcome>
  /** The rule that a client broke by each error that is its mistake; where it differs, by member of the body. */
  readonly rules: Partial<Record<ErrorCode, string | Readonly<Record<string, string>>>>
  /** The rules that a client keeps whose request succeeds. */
  readonly met: MetRules
  readonly errorResponse: Api['errorResponse']
}

/** The rules of the contract that a request broke, and those that its client has kept. */
export function rulesOf(
  profile: Pick<Profile<ProfileName>, 'rules' | 'met'>,
  { method, path, route, request }: Pick<RequestContext, 'method' | 'path' | 'route' | 'request'>,
  { status, headers = {}, error }: Response,
): { rules: string[]; met: string[] } {
  if (error) return { rules: rulesOfError(profile, error), met: [] }
  if (method === 'OPTIONS' && status === 204) return { rules: [], met: ['G6'] }
  if (!route || status >= 300) return { rules: [], met: [] }
  const literal = route.path.replace('{id}', '')
  const sent = path.slice(0, literal.length)
  const met = [
    ...(method === 'HEAD' ? ['G6'] : ({ ...profile.met, ...samplesMet }[route.operation]?.[status] ?? [])),
    ...(sent !== literal && sent.toLowerCase() === literal ? ['G1'] : []),
    ...(path.length > 1 && path.endsWith('/') ? ['G2'] : []),
    ...(headers['content-type'] === jsonType ? ['G3'] : []),
  ]
  return { rules: [], met: met.filter((rule) => rule !== 'S7' || request.header('authorization') === undefined) }
}

/** The rules that requests of a client can meet; the others say how mistakes are answered, or what the service keeps. */
export function rulesToMeet({ met }: Pick<Profile<ProfileName>, 'met'>): Set<string> {
  const ofOperations = Object.values({ ...met, ...samplesMet }).flatMap((byStatus) => Object.values(byStatus).flat())
  // Those that `rulesOf` finds for any operation come first.
  return new Set(['G1', 'G2', 'G3', 'G6', ...ofOperations])
}

function rulesOfError({ rules }: Pick<Profile<ProfileName>, 'rules'>, { code, members = {} }: Rejection): string[] {
  const rule = rules[code] ?? {}
  return typeof rule === 'string' ? [rule] : [...new Set(Object.keys(members).flatMap((name) => rule[name] ?? []))]
}

/** Store outcomes that are no success. */
export const outcomeErrors = {
  'not-found': new Rejection('item-missing'),
  'in-use': new Rejection('id-in-use'),
  unstorable: new Rejection('value-unstorable'),
  changed: new Rejection('precondition-failed'),
  'item-limit': new Rejection('store-full', undefined, 'the limit of items of a space is reached (--max-items)'),
  'memory-limit': new Rejection('store-full', undefined, 'the limit of memory of all spaces is reached (--max-memory)'),
}

export const etagHeader = { ETag: 'The entity tag of this state, for If-None-Match and If-Match.' }

/** The list of all items has the same route in each profile, but for its order. */
export const listRoute = (profile: ProfileName, itemSchema: ObjectSchema, order: string) =>
  route({
    operation: 'listItems',
    docs: {
      tag: itemsTag,
      summary: `List all items, in order of ${order}`,
      success: { status: 200, description: 'All items.', body: { many: itemSchema }, headers: etagHeader },
      errors: ['precondition-failed', 'store-unavailable'],
    },
    method: 'GET',
    path: itemsPath,
    execute: ({ space, request }) => space.stores[profile].list(request),
    respond: (list, input) => respondWith(input, list),
  })
