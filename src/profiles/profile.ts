import type { NamedSchema } from '../common/schema.ts'
import { conditionalResponse } from '../http/conditional.ts'
import type { RequestContext } from '../http/context.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import { jsonType, type Response } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'
import { type CollectionType, type Document, type ItemForm, jsonOf } from '../store/store.ts'
import { type MetRules, samplesMet } from './samples.ts'

export type ProfileName = 'a' | 'b'

export const itemsPath = '/api/todoitems'

/** A contract for the to-do items: everything that differs between the two profiles. */
export interface Profile {
  /** The name of the profile in flags such as --port-a, and in the log. */
  readonly name: ProfileName
  readonly title: string
  readonly description: string
  readonly defaultPort: number
  readonly defaultHttpsPort: number
  /** How items are stored. */
  readonly collection: CollectionType
  readonly routes: readonly Route[]
  /** An item as clients send it, with its id. */
  readonly itemSchema: NamedSchema
  /** The rule that a client broke, for each error that is its mistake; if rules differ, by member of the body. */
  readonly rules: Partial<Record<ErrorCode, string | Readonly<Record<string, string>>>>
  /** The rules that a successful request meets. */
  readonly met: MetRules
  readonly errorResponse: Api['errorResponse']
}

interface Members {
  readonly [name: string]: unknown
  readonly secret?: string | null
}

/** Turns items into documents, as they are stored. */
export const documentsOf = (form: ItemForm, items: readonly object[]): Document[] =>
  items.map((item) => {
    const { [form.keyMember]: key, secret = null }: Members = { ...item }
    return { key: `${key}`, json: jsonOf(form, `${key}`, item), secret }
  })

/** Returns the rules of the contract that a request broke, and those that it met. */
export function rulesOf(
  profile: Pick<Profile, 'rules' | 'met'>,
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

/** Returns the rules that a request can meet. Other rules are about responses to mistakes, or about what is stored. */
export function rulesToMeet({ met }: Pick<Profile, 'met'>): Set<string> {
  const ofOperations = Object.values({ ...met, ...samplesMet }).flatMap((byStatus) => Object.values(byStatus).flat())
  // `rulesOf` finds the first four for any operation.
  return new Set(['G1', 'G2', 'G3', 'G6', ...ofOperations])
}

function rulesOfError({ rules }: Pick<Profile, 'rules'>, { code, members = {} }: Rejection): string[] {
  const rule = rules[code] ?? {}
  return typeof rule === 'string' ? [rule] : [...new Set(Object.keys(members).flatMap((name) => rule[name] ?? []))]
}

/** The errors for the outcomes of a store that are not a success. */
export const outcomeErrors = {
  'not-found': new Rejection('item-missing'),
  'in-use': new Rejection('id-in-use'),
  changed: new Rejection('precondition-failed'),
  'item-limit': new Rejection('store-full', undefined, 'the limit of items of a space is reached (--max-items)'),
  'memory-limit': new Rejection('store-full', undefined, 'the limit of memory of all spaces is reached (--max-memory)'),
}

export const etagHeader = { ETag: 'The entity tag of this state, for If-None-Match and If-Match.' }

/** The list of all items has the same route in each profile, but for its order. */
export const listRoute = (itemSchema: NamedSchema, order: string) =>
  route({
    operation: 'listItems',
    docs: {
      summary: `List all items, in order of ${order}`,
      success: { status: 200, description: 'All items.', body: { many: itemSchema }, headers: etagHeader },
      errors: ['precondition-failed', 'store-unavailable'],
    },
    method: 'GET',
    path: itemsPath,
    execute: ({ space, request }) => space.items.list(request),
    toResponse: (list, input) => conditionalResponse(input, list),
  })
