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
  /** The rule behind each error, for people who look for it; where it differs, by operation or by member of the body. */
  readonly rules: Partial<Record<ErrorCode, string | Readonly<Record<string, string>>>>
  /** The rules that a response without an error shows. */
  readonly met: MetRules
  /** The rule about the body of an error. */
  readonly errorBodyRule: string
  readonly errorResponse: Api['errorResponse']
}

/** What a client sent breaks the rule. Other errors are as the contract demands: they show the rule. */
const brokenBy: ReadonlySet<ErrorCode> = new Set([
  ...(['id-malformed', 'id-too-long', 'ids-differ', 'media-type-unsupported', 'body-too-large'] as const),
  ...(['body-malformed', 'body-invalid', 'value-unstorable'] as const),
])

/** The rules of the contract that a request broke, and those that its response has shown. */
export function rulesOf(
  profile: Pick<Profile<ProfileName>, 'rules' | 'met' | 'errorBodyRule'>,
  { method, path, route, request }: Pick<RequestContext, 'method' | 'path' | 'route' | 'request'>,
  { status, headers = {}, body, error }: Response,
): { rules: string[]; met: string[] } {
  const operation = route?.operation ?? `Allow: ${headers.allow}`
  if (error) {
    const found = rulesOfError(profile, error, operation)
    const bodyRule = body ? [profile.errorBodyRule] : []
    return brokenBy.has(error.code) ? { rules: found, met: bodyRule } : { rules: [], met: [...found, ...bodyRule] }
  }
  if (status === 401) return { rules: [], met: ['S6'] }
  const byOperation = { ...profile.met, ...samplesMet }[operation]?.[status] ?? []
  if (status === 405 || (method === 'OPTIONS' && status === 204)) return { rules: [], met: ['G6', ...byOperation] }
  if (!route || status >= 300) return { rules: [], met: [] }
  const literal = route.path.replace('{id}', '')
  const sent = path.slice(0, literal.length)
  const met = [
    ...(method === 'HEAD' ? ['G6'] : byOperation),
    ...(sent !== literal && sent.toLowerCase() === literal ? ['G1'] : []),
    ...(path.length > 1 && path.endsWith('/') ? ['G2'] : []),
    ...(headers['content-type'] === jsonType ? ['G3'] : []),
  ]
  return { rules: [], met: met.filter((rule) => rule !== 'S7' || request.header('authorization') === undefined) }
}

function rulesOfError(
  { rules }: Pick<Profile<ProfileName>, 'rules'>,
  { code, members = {} }: Rejection,
  operation: string,
) {
  const rule = rules[code] ?? {}
  if (typeof rule === 'string') return [rule]
  return [...new Set([operation, ...Object.keys(members)].flatMap((name) => rule[name] ?? []))]
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
    execute: ({ space }) => space.stores[profile].list(),
    respond: (list, input) => respondWith(input, list),
  })
