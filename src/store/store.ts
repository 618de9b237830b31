import { createHash } from 'node:crypto'

/*
 * What a store offers each profile in a space, a set of items of its own. An operation is atomic and returns an outcome. It
 * throws UnavailableError when the items cannot be reached; anything else it throws is a bug.
 *
 * 'unstorable': a text that this store cannot hold. 'changed': the item, or the list, matches none of the entity tags in
 * If-Match. 'item-limit', 'memory-limit': the store is full.
 */

/** Memory answers at once, a database later; callers await either. */
export type Awaitable<T> = T | Promise<T>

/** The items cannot be reached now and may be later. What was asked for may or may not have happened. */
export class UnavailableError extends Error {}

/** The write may have happened: only a look at the items tells. */
export class OutcomeUnknownError extends UnavailableError {}

/** The operation had no effect, and nobody waits for its outcome any more. */
export class WithdrawnError extends Error {}

/** The request of a client that reads a list: once it is aborted, the client has left. */
export interface Reader {
  readonly isAborted: boolean
}

export interface ItemA {
  /** An int64 in decimal digits, without leading zeros. */
  readonly id: string
  readonly name: string | null
  readonly isComplete: boolean
  /** A10: it is never sent to a client. Only `items export` reads it, so items in memory do without. */
  readonly secret: string | null
}

type FieldsA = Pick<ItemA, 'name' | 'isComplete'>

export interface ItemB {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

export interface Serializer<Item> {
  /** What a space has that was never written to. */
  readonly startingItems: readonly Item[]
  serialize(item: Item): string
}

/** Each profile says what its items are as JSON, and with which it starts. */
export interface Serializers {
  readonly a: Serializer<ItemA>
  readonly b: Serializer<ItemB>
}

/** JSON as it is sent, and the entity tag of this state. */
interface Representation<Json = string> {
  readonly json: Json
  readonly etag: string
}

/** Long lists come as several buffers. */
export type ListRepresentation = Representation<string | readonly Buffer[]>

/** The item, or the list that is replaced, must have one of these entity tags; undefined where the request is unconditional. */
export type IfMatch = readonly string[] | undefined

export type Full = 'item-limit' | 'memory-limit'

export type ReplaceOutcome = 'replaced' | 'changed' | 'unstorable' | Full

/** Profile A: the store assigns ids, ascending and never reused (A4). Lists are ordered by id (A1). */
export interface StoreA {
  list(reader?: Reader): Awaitable<ListRepresentation>
  get(id: string): Awaitable<Representation | 'not-found'>
  create(fields: FieldsA): Awaitable<(Representation & { readonly id: string }) | 'unstorable' | Full>
  /** Changes the fields and nothing else (A7, A10). Returns the entity tag of what this write has stored. */
  update(
    id: string,
    fields: FieldsA,
    ifMatch?: IfMatch,
  ): Awaitable<Pick<Representation, 'etag'> | 'not-found' | 'changed' | 'unstorable' | Full>
  delete(id: string, ifMatch?: IfMatch): Awaitable<'deleted' | 'not-found' | 'changed' | Full>
  /** Stores exactly these items, or changes nothing. The next id is one more than the highest, or 1. Ids are unique. */
  replaceAll(items: readonly ItemA[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome>
}

/** Profile B: the client supplies ids. Lists are in order of creation (B1); a replaced item keeps its place (B7). */
export interface StoreB {
  list(reader?: Reader): Awaitable<ListRepresentation>
  create(item: ItemB): Awaitable<Pick<Representation, 'json'> | 'in-use' | 'unstorable' | Full>
  replace(item: ItemB): Awaitable<'replaced' | 'not-found' | 'unstorable' | Full>
  delete(id: string): Awaitable<'deleted' | 'not-found' | Full>
  /** Stores exactly these items in this order, or changes nothing. Ids are unique. */
  replaceAll(items: readonly ItemB[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome>
}

/** One store for each profile, under the profile's name. */
export interface Stores {
  readonly a: StoreA
  readonly b: StoreB
}

/** The space of requests that name none. */
export const defaultSpace = ''

export interface SpaceSummary {
  readonly name: string
  /** Number of items by profile; undefined where they are the starting items. */
  readonly items: { readonly [Name in keyof Stores]: number | undefined }
}

/** The items of all spaces. One that was never written to has the starting items, and takes no room. */
export interface Spaces {
  /** The stores of a space. This is called for each request. */
  space(name: string): Stores
  /** Those that were written to, by name. */
  listSpaces(): Awaitable<readonly SpaceSummary[]>
  /** Deletes all items: the space is as if it had never been written to. */
  deleteSpace(name: string): Awaitable<void>
}

/** Items of a space move from one store to another as a snapshot. A profile that was never written to is absent. */
export interface Snapshot {
  readonly a?: {
    readonly items: readonly ItemA[]
    /** The highest id that was assigned (A4), maybe to an item that is deleted. */
    readonly lastId: string
  }
  readonly b?: { readonly items: readonly ItemB[] }
}

/** Whether an operation has changed nothing. */
export const isRefusal = (outcome: unknown) =>
  typeof outcome === 'string' && outcome !== 'replaced' && outcome !== 'deleted'

/** The entity tag of a version that a database has stored. */
export const etagOf = (version: string) => `"${version}"`

/** Returns the versions in entity tags. A longer number would be too large for a database. */
export const versionsIn = (etags: readonly string[]) =>
  etags.flatMap((etag) => /^"(\d{1,18})"$/.exec(etag)?.[1] ?? []).join(',')

/** What both databases return for a space that was never written to: the same in every process. */
export function startingStateOf<Item extends { readonly id: string }>({ startingItems, serialize }: Serializer<Item>) {
  const list = `[${startingItems.map(serialize)}]`
  const hash = createHash('sha256').update(list).digest('hex')
  return {
    list,
    items: new Map(startingItems.map((item) => [item.id, serialize(item)])),
    /** Stands for the text of the items. */
    version: `${Number.parseInt(hash.slice(0, 12), 16)}`,
  }
}

/** Sets a value of a map that keeps the values that were set last. */
export function setRecent<Value>(values: Map<string, Value>, key: string, value: Value, maxSize: number): void {
  values.delete(key)
  values.set(key, value)
  const [oldest = key] = values.keys()
  if (values.size > maxSize) values.delete(oldest)
}

/** The highest id. */
export const maxInt64 = `${2n ** 63n - 1n}`

/** Returns the highest id of the items, or `lastId` where that is higher. */
export const highestId = (items: readonly ItemA[], lastId = '0'): bigint =>
  items.reduce((max, { id }) => (BigInt(id) > max ? BigInt(id) : max), BigInt(lastId))

/** Snapshots by the name of their space. One that was never written to is absent. */
export type Snapshots = ReadonlyMap<string, Snapshot>

/** The items of these spaces outlive the process. */
export interface PersistentSpaces extends Spaces {
  /**
   * Stores exactly these items in these spaces, or changes nothing. A profile that a snapshot lacks stays as it is; other
   * spaces do, too, unless they are to be deleted.
   */
  importItems(snapshots: Snapshots, deletesOthers?: boolean): Awaitable<ReplaceOutcome>
  /** Rejects when the items cannot be reached. */
  ping(): Promise<unknown>
  close(): Promise<void>
}
