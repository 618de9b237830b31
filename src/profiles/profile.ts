import { andThen } from '../eventually.ts'
import { type Answer, json } from '../http/answer.ts'
import { isKnown, notModified } from '../http/conditional.ts'
import type { Face } from '../http/handler.ts'
import { Refusal } from '../http/refusal.ts'
import type { Call, Route } from '../http/route.ts'
import type { Kinds, Shown, Stores } from '../store/store.ts'

export type ProfileName = keyof Stores

export const items = '/api/todoitems'
export const itemsTag = 'To-do items'

/** What a store's outcome means to the client, where it is no success. */
export const refused = {
  'not-found': new Refusal('item-missing'),
  'in-use': new Refusal('id-in-use'),
  unstorable: new Refusal('value-refused'),
  changed: new Refusal('item-changed'),
  full: new Refusal('store-full'),
}

/** One contract for the to-do items, as a value: everything that sets it apart from the other is in here. */
export interface Profile<Name extends ProfileName> {
  readonly name: Name
  readonly title: string
  readonly about: string
  readonly defaultPort: number
  readonly defaultHttpsPort: number
  readonly startingItems: Kinds[Name]['startingItems']
  readonly wire: Kinds[Name]['wire']
  readonly wireList: Kinds[Name]['wireList']
  routes(store: Stores[Name]): Route[]
  readonly refuse: Face['refuse']
}

/** A header of every answer that shows something. */
export const tagged = { ETag: 'A tag for this state, for If-None-Match and If-Match.' }

/** All items, unless the client has them in this state already. */
export const list = (store: Pick<Stores[ProfileName], 'list'>) => (call: Pick<Call<unknown, unknown>, 'header'>) =>
  andThen(store.list(), (all) => shownTo(call, all))

/** What the store shows, unless the client has it already. */
export function shownTo(
  call: Pick<Call<unknown, unknown>, 'header'>,
  found: Shown<string | readonly Buffer[]>,
): Answer {
  const { tag } = found
  return isKnown(call.header('if-none-match'), tag) ? notModified(tag) : json(200, found.json, { etag: tag })
}
