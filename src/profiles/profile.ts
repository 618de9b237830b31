import { respondWith } from '../http/conditional.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import type { HandlerInput } from '../http/request.ts'
import type { Route } from '../http/router.ts'
import type { FromSchema, ObjectSchema } from '../http/schema.ts'
import type { ListRepresentation, Serializers, Stores } from '../store/store.ts'

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
  replaceAll(store: Stores[Name], items: readonly FromSchema<ObjectSchema>[]): ReturnType<Stores[Name]['replaceAll']>
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

/** All items, or 304. */
export const listItems = (store: Pick<Stores[ProfileName], 'list'>) => ({
  execute: () => store.list(),
  respond: (list: ListRepresentation, input: Pick<HandlerInput<unknown, unknown>, 'request'>) =>
    respondWith(input, list),
})
