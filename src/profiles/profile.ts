import type { Face } from '../http/handler.ts'
import { Refusal } from '../http/refusal.ts'
import type { Route } from '../http/route.ts'
import type { StartingItems, Stores } from '../store/store.ts'

export type ProfileName = keyof Stores

export const items = '/api/todoitems'
export const itemsTag = 'To-do items'

/** What a store's outcome means to the client, where it is no success. */
export const refused = {
  'not-found': new Refusal('item-missing'),
  'in-use': new Refusal('id-in-use'),
  unstorable: new Refusal('value-refused'),
}

/** One contract for the to-do items, as a value: everything that sets it apart from the other is in here. */
export interface Profile<Name extends ProfileName> {
  readonly name: Name
  readonly title: string
  readonly about: string
  readonly defaultPort: number
  readonly defaultHttpsPort: number
  readonly startingItems: StartingItems[Name]
  routes(store: Stores[Name]): Route[]
  readonly refuse: Face['refuse']
}
