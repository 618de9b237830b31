import type {
  Awaitable,
  Collection,
  Created,
  Document,
  Full,
  IfMatch,
  ListRepresentation,
  Reader,
  ReplaceOutcome,
  Representation,
} from './store.ts'

/** A collection as a store has it. An outcome is undefined if the collection was never written to. */
export interface StoredCollection extends Omit<Collection, 'list' | 'create' | 'replaceAll'> {
  list(reader?: Reader): Awaitable<ListRepresentation | undefined>
  create(item: object, key?: string): Awaitable<Created | 'in-use' | Full | undefined>
  replaceAll(documents: readonly Document[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome | undefined>
  isWritten(): Awaitable<boolean>
  /** Creates the collection with the starting documents if it does not exist, then executes the write. */
  make<Outcome>(write: () => Awaitable<Outcome>): Awaitable<Outcome | Full>
}

/** The state of a collection that was never written to. */
export interface StartingState {
  readonly documents: ReadonlyMap<string, Document>
  /** Each document has this entity tag. */
  readonly etag: string
  readonly list: ListRepresentation
}

/**
 * A collection that has the starting documents until its first write, which creates it in the store. A write that would
 * be refused does not create it.
 */
export class StartingCollection implements Collection {
  readonly #stored: StoredCollection
  readonly #start: StartingState

  constructor(stored: StoredCollection, start: StartingState) {
    this.#stored = stored
    this.#start = start
  }

  list(reader?: Reader): Awaitable<ListRepresentation> {
    return andThen(this.#stored.list(reader), (list) => list ?? this.#start.list)
  }

  get(key: string): Awaitable<Representation | 'not-found'> {
    return this.#find(
      key,
      () => this.#stored.get(key),
      ({ json }, { etag }) => ({ json, etag }),
    )
  }

  create(item: object, key?: string): Awaitable<Created | 'in-use' | Full> {
    return andThen(this.#stored.create(item, key), (outcome) => {
      if (outcome !== undefined) return outcome
      if (key !== undefined && this.#start.documents.has(key)) return 'in-use'
      return this.#stored.make(() => this.create(item, key))
    })
  }

  update(key: string, item: object, ifMatch?: IfMatch): ReturnType<Collection['update']> {
    return this.#change(key, ifMatch, () => this.#stored.update(key, item, ifMatch))
  }

  delete(key: string, ifMatch?: IfMatch): ReturnType<Collection['delete']> {
    return this.#change(key, ifMatch, () => this.#stored.delete(key, ifMatch))
  }

  replaceAll(documents: readonly Document[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome> {
    return andThen(this.#stored.replaceAll(documents, ifMatch), (outcome) => {
      if (outcome !== undefined) return outcome
      if (ifMatch && !ifMatch.includes(this.#start.list.etag)) return 'changed'
      return this.#stored.make(() => this.replaceAll(documents))
    })
  }

  #change<Outcome>(key: string, ifMatch: IfMatch, change: () => Awaitable<Outcome>) {
    return this.#find(key, change, (_, { etag }) =>
      ifMatch && !ifMatch.includes(etag) ? ('changed' as const) : this.#stored.make(change),
    )
  }

  /** Finds a document, or if the collection was never written to, a starting document. */
  #find<Outcome, AtStart>(
    key: string,
    find: () => Awaitable<Outcome>,
    atStart: (document: Document, start: StartingState) => Awaitable<AtStart>,
  ): Awaitable<Outcome | AtStart> {
    return andThen(find(), (outcome): Awaitable<Outcome | AtStart> => {
      const document = outcome === 'not-found' ? this.#start.documents.get(key) : undefined
      if (!document) return outcome
      // The collection may have been created after the first attempt.
      return andThen(this.#stored.isWritten(), (isWritten) => (isWritten ? find() : atStart(document, this.#start)))
    })
  }
}

/** Calls `next` at once if the value is no promise: memory and SQLite return none. */
function andThen<Value, Result>(value: Awaitable<Value>, next: (value: Value) => Awaitable<Result>): Awaitable<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
