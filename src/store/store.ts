import { createHash } from 'node:crypto'

/*
 * A store keeps documents in the collections of spaces. It does not look into them: a profile turns its items into
 * documents. An operation is atomic and returns an outcome. It throws UnavailableError if the documents cannot be
 * reached; any other exception is a bug.
 *
 * 'changed': the document, or the list, matches none of the entity tags in If-Match. 'item-limit', 'memory-limit': the
 * store is full.
 */

/** Memory returns a value, a database a promise; callers await either. */
export type Awaitable<T> = T | Promise<T>

/** Thrown if the items cannot be reached now, but maybe later. The operation may or may not have taken place. */
export class UnavailableError extends Error {}

/** Thrown if a write may have taken place, which only reading the items tells. */
export class OutcomeUnknownError extends UnavailableError {}

/** Thrown if the operation had no effect, because no client waits for its outcome any more. */
export class WithdrawnError extends Error {}

/** The request that reads a list. It is aborted once the client has closed the connection. */
export interface Reader {
  readonly isAborted: boolean
}

/** An entry of a collection: JSON under a key. */
export interface Document {
  /** In a collection that numbers its documents, the key is the number in decimal digits. */
  readonly key: string
  readonly json: string
  /** A10: it is never sent to a client. Only `items export` reads it, so documents in memory do without. */
  readonly secret: string | null
}

/** A collection that each space has, as a profile states it. */
export interface CollectionType<Item extends object = object> {
  readonly name: string
  /** The member of an item that has its key. */
  readonly keyMember: string
  /** Whether the store assigns the keys, ascending numbers from 1. The number is the first member of an item. */
  readonly isNumbered?: true
  /** The documents in a space that was never written to. */
  readonly startingDocuments: readonly Document[]
  /** The members of an item as JSON, without braces and without a number that the store assigns. */
  serialize(item: Item): string
}

/** JSON as it is sent, and the entity tag of this state. */
export interface Representation<Json = string> {
  readonly json: Json
  readonly etag: string
}

/** Long lists come as several buffers. */
export type ListRepresentation = Representation<string | readonly Buffer[]>

/** The entity tags in If-Match, one of which the item, or the replaced list, must have; undefined without If-Match. */
export type IfMatch = readonly string[] | undefined

export type Full = 'item-limit' | 'memory-limit'

export type ReplaceOutcome = 'replaced' | 'changed' | Full

export type Created = Representation & { readonly key: string }

/** Documents by key, in the order of their numbers or of their creation (A1, B1). An update keeps the place (B7). */
export interface Collection {
  list(reader?: Reader): Awaitable<ListRepresentation>
  get(key: string): Awaitable<Representation | 'not-found'>
  /** `key` is undefined if the collection numbers its documents. It never reuses a number (A4). */
  create(item: object, key?: string): Awaitable<Created | 'in-use' | Full>
  /** Changes the JSON and nothing else (A10). Returns the entity tag of what this write has stored. */
  update(
    key: string,
    item: object,
    ifMatch?: IfMatch,
  ): Awaitable<Pick<Representation, 'etag'> | 'not-found' | 'changed' | Full>
  delete(key: string, ifMatch?: IfMatch): Awaitable<'deleted' | 'not-found' | 'changed' | Full>
  /** Stores exactly these documents, or changes nothing. The next number is the highest plus one. Keys are unique. */
  replaceAll(documents: readonly Document[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome>
}

/** The space of requests whose path names no space. */
export const defaultSpace = ''

export interface SpaceSummary {
  readonly name: string
  /** The number of documents by collection. A collection with the starting documents is absent. */
  readonly items: Readonly<Record<string, number>>
}

/** The collections of all spaces. Until the first write, a collection has the starting documents and takes no room. */
export interface Spaces {
  /** This is called for each request. */
  collection(name: string, space: string): Collection
  /** Returns the spaces that were written to, by name. */
  listSpaces(): Awaitable<readonly SpaceSummary[]>
  /** Deletes all documents: the space is as if it had never been written to. */
  deleteSpace(name: string): Awaitable<void>
}

/** A collection moves from one store to another as a snapshot. */
export interface CollectionSnapshot {
  readonly documents: readonly Document[]
  /** The highest number that was assigned (A4), maybe to a document that is deleted; 0 without numbers. */
  readonly lastNumber: string
}

/** The collections of a space by name. A collection that was never written to is absent. */
export type Snapshot = Readonly<Record<string, CollectionSnapshot>>

/** Whether an operation has changed nothing. */
export const isRefusal = (outcome: unknown) =>
  typeof outcome === 'string' && outcome !== 'replaced' && outcome !== 'deleted'

/** The entity tag of a version that a database has stored. */
export const etagOf = (version: string) => `"${version}"`

export type ItemForm = Pick<CollectionType, 'keyMember' | 'isNumbered' | 'serialize'>

/** The JSON of an item with its key. */
export const jsonOf = ({ keyMember, isNumbered, serialize }: ItemForm, key: string, item: object): string =>
  isNumbered ? `{"${keyMember}":${key},${serialize(item)}}` : `{${serialize(item)}}`

/** Returns the state of a collection in a database until its first write, which is the same in every process. */
export function startingStateOf({ startingDocuments }: CollectionType) {
  const list = `[${startingDocuments.map(({ json }) => json)}]`
  const hash = createHash('sha256').update(list).digest('hex')
  return {
    list,
    documents: new Map(startingDocuments.map((document) => [document.key, document])),
    /** Depends on the text of the documents alone. */
    version: `${Number.parseInt(hash.slice(0, 12), 16)}`,
  }
}

/** Sets a value; if the map is then too large, deletes the value that was set first. */
export function setRecent<Value>(values: Map<string, Value>, key: string, value: Value, maxSize: number): void {
  values.delete(key)
  values.set(key, value)
  const [oldest = key] = values.keys()
  if (values.size > maxSize) values.delete(oldest)
}

/** The highest number of a document. */
export const maxInt64 = `${2n ** 63n - 1n}`

/** Returns the highest number of the documents, or `last` where that is higher. */
export const highestNumber = (documents: readonly Pick<Document, 'key'>[], last = '0'): bigint =>
  documents.reduce((max, { key }) => (BigInt(key) > max ? BigInt(key) : max), BigInt(last))

/** Snapshots by the name of their space. A space that was never written to is absent. */
export type Snapshots = ReadonlyMap<string, Snapshot>

/** The items of these spaces outlive the process. */
export interface PersistentSpaces extends Spaces {
  /**
   * Stores exactly these documents in these spaces, atomically. Collections that a snapshot lacks stay as they are; so
   * do other spaces, unless `deletesOthers`.
   */
  importItems(snapshots: Snapshots, deletesOthers?: boolean): Awaitable<'replaced'>
  /** Rejects when the items cannot be reached. */
  ping(): Promise<unknown>
  close(): Promise<void>
}
