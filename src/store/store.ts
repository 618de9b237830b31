/**
 * What a store offers to each profile. An operation is atomic and gives back an outcome; it throws Unavailable when the
 * items cannot be reached, and otherwise only the unforeseen. 'unstorable': a text that this store cannot hold.
 */

export interface NumberedItem {
  readonly id: bigint
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

/** Profile A: the store assigns ids, ascending and never used twice (A4). Lists are in order of id (A1). */
export interface NumberedStore {
  list(): Promise<readonly NumberedItem[]>
  get(id: bigint): Promise<NumberedItem | 'not-found'>
  create(fields: NumberedFields): Promise<NumberedItem | 'unstorable'>
  /** Changes the fields and leaves everything else of the item as it is (A7, A10). */
  update(id: bigint, fields: NumberedFields): Promise<'updated' | 'not-found' | 'unstorable'>
  delete(id: bigint): Promise<'deleted' | 'not-found'>
}

/** Profile B: the client supplies ids. Lists are in order of creation (B1); a replaced item keeps its place (B7). */
export interface NamedStore {
  list(): Promise<readonly NamedItem[]>
  create(item: NamedItem): Promise<'created' | 'in-use' | 'unstorable'>
  replace(item: NamedItem): Promise<'replaced' | 'not-found' | 'unstorable'>
  delete(id: string): Promise<'deleted' | 'not-found'>
}

/** One store for each profile, under the profile's name. */
export interface Stores {
  a: NumberedStore
  b: NamedStore
}

export interface StartingItems {
  a: readonly NumberedItem[]
  b: readonly NamedItem[]
}
