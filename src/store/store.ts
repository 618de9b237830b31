import type { Eventually } from '../eventually.ts'

/*
 * What a store offers to each profile. An operation is atomic and gives back an outcome; it throws Unavailable when the
 * items cannot be reached, and otherwise only the unforeseen. 'unstorable': a text that this store cannot hold.
 * 'changed': the item is in none of the states that the client asked for. 'full': there is no room for more.
 */

export interface NumberedItem {
  /** A canonical decimal int64. */
  readonly id: string
  readonly name: string | null
  readonly isComplete: boolean
  /** A10: kept in the store, never on the wire. */
  readonly secret: string | null
}

type NumberedFields = Pick<NumberedItem, 'name' | 'isComplete'>

export interface NamedItem {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

/** One kind of items: what is there at the start, and what an item looks like to clients. */
interface Kind<Item> {
  readonly startingItems: readonly Item[]
  wire(item: Item): string
  wireList(items: readonly Item[]): string
}

/** One kind for each profile, under the profile's name. */
export interface Kinds {
  readonly a: Kind<NumberedItem>
  readonly b: Kind<NamedItem>
}

/** What clients see, and a tag for its state: another state has another tag. */
export interface Shown<Json = string> {
  readonly json: Json
  readonly tag: string
}

/** An item is to be in a state with one of these tags; undefined: in whichever. */
export type Condition = readonly string[] | undefined

/** Profile A: the store assigns ids, ascending and never used twice (A4). Lists are in order of id (A1). */
export interface NumberedStore {
  list(): Eventually<Shown<string | readonly Buffer[]>>
  get(id: string): Eventually<Shown | 'not-found'>
  create(fields: NumberedFields): Eventually<(Shown & { readonly id: string }) | 'unstorable' | 'full'>
  /** Changes the fields and leaves everything else of the item as it is (A7, A10). */
  update(
    id: string,
    fields: NumberedFields,
    condition?: Condition,
  ): Eventually<'updated' | 'not-found' | 'changed' | 'unstorable'>
  delete(id: string, condition?: Condition): Eventually<'deleted' | 'not-found' | 'changed'>
  /** A10: for whoever looks after the items. */
  secretOf(id: string): Eventually<string | null | undefined>
}

/** Profile B: the client supplies ids. Lists are in order of creation (B1); a replaced item keeps its place (B7). */
export interface NamedStore {
  list(): Eventually<Shown<string | readonly Buffer[]>>
  create(item: NamedItem): Eventually<Pick<Shown, 'json'> | 'in-use' | 'unstorable' | 'full'>
  replace(item: NamedItem): Eventually<'replaced' | 'not-found' | 'unstorable'>
  delete(id: string): Eventually<'deleted' | 'not-found'>
}

/** One store for each profile, under the profile's name. */
export interface Stores {
  a: NumberedStore
  b: NamedStore
}
