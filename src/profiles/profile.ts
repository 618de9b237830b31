import { respondWith } from '../http/conditional.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import { type Route, route } from '../http/router.ts'
import type { FromSchema, ObjectSchema } from '../http/schema.ts'
import type { Awaitable, IfMatch, ReplaceOutcome, Serializers, Stores } from '../store/store.ts'

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
  routes(store: Stores[Name]): Route[]
  /** An item as clients send it, with its id. */
  readonly itemSchema: ObjectSchema
  replaceAll(
    store: Stores[Name],
    items: readonly FromSchema<ObjectSchema>[],
    ifMatch?: IfMatch,
  ): Awaitable<ReplaceOutcome>
  /** The rule behind each error, for people who look for it; where it differs, by operation or by member of the body. */
  readonly rules: Partial<Record<ErrorCode, string | Readonly<Record<string, string>>>>
  readonly errorResponse: Api['errorResponse']
}

/** The rule by which an operation fails with the error. */
export function ruleOf(
  { rules }: Pick<Profile<ProfileName>, 'rules'>,
  { code, members = {} }: Rejection,
  operation = '',
): string | undefined {
  const rule = rules[code]
  if (typeof rule !== 'object') return rule
  const name = [operation, ...Object.keys(members)].find((candidate) => Object.hasOwn(rule, candidate))
  return name === undefined ? undefined : rule[name]
}

/** Store outcomes that are no success. */
export const outcomeErrors = {
  'not-found': new Rejection('item-missing'),
  'in-use': new Rejection('id-in-use'),
  unstorable: new Rejection('value-unstorable'),
  changed: new Rejection('precondition-failed'),
  'item-limit': new Rejection('store-full', undefined, 'the limit of items is reached (--max-items)'),
  'memory-limit': new Rejection('store-full', undefined, 'the limit of memory is reached (--max-memory)'),
}

export const etagHeader = { ETag: 'The entity tag of this state, for If-None-Match and If-Match.' }

/** The list of all items has the same route in each profile, but for its order. */
export const listRoute = (store: Pick<Stores[ProfileName], 'list'>, itemSchema: ObjectSchema, order: string) =>
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
    execute: () => store.list(),
    respond: (list, input) => respondWith(input, list),
  })
