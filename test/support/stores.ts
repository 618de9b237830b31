import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { collectionsOf, profiles } from '../../src/app.ts'
import { documentsOf } from '../../src/profiles/profile.ts'
import { memorySpaces } from '../../src/store/memory.ts'
import { exportItems as exportDatabase, postgresSpaces } from '../../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../../src/store/postgres/url.ts'
import { exportItems as exportFile } from '../../src/store/sqlite/snapshots.ts'
import { sqliteSpaces } from '../../src/store/sqlite/store.ts'
import {
  type Awaitable,
  type Collection,
  type CollectionType,
  type Document,
  defaultSpace,
  type IfMatch,
  jsonOf,
  type ListRepresentation,
  type PersistentSpaces,
  type ReplaceOutcome,
  type Snapshot,
  type Snapshots,
  type Spaces,
} from '../../src/store/store.ts'
import { cleanUp } from './cleanup.ts'
import { sharedPostgres, uniqueName } from './database.ts'

export interface ItemA {
  readonly id: string
  readonly name: string | null
  readonly isComplete: boolean
  readonly secret: string | null
}

export interface ItemB {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

export interface StartingItems {
  readonly a: readonly ItemA[]
  readonly b: readonly ItemB[]
}

/** An item as it is sent. */
export const jsonOfA = (item: ItemA) => jsonOf(profiles.a.collection, item.id, item)
export const jsonOfB = (item: ItemB) => jsonOf(profiles.b.collection, item.id, item)

const itemsOf = <Item>(documents: readonly Document[]) => documents.map(({ json }): Item => JSON.parse(json))
export const startingItemsB = itemsOf<ItemB>(profiles.b.collection.startingDocuments)

/** The collections of the service with other starting items. */
export const startingWith = ({ a, b }: StartingItems): CollectionType[] => [
  { ...profiles.a.collection, startingDocuments: documentsOf(profiles.a.collection, a) },
  { ...profiles.b.collection, startingDocuments: documentsOf(profiles.b.collection, b) },
]

/** The collection of Profile A, with items. */
export interface StoreA extends Omit<Collection, 'create' | 'update' | 'replaceAll'> {
  create(fields: Pick<ItemA, 'name' | 'isComplete'>): Awaitable<Created | 'item-limit' | 'memory-limit' | 'in-use'>
  update(id: string, fields: Pick<ItemA, 'name' | 'isComplete'>, ifMatch?: IfMatch): ReturnType<Collection['update']>
  replaceAll(items: readonly ItemA[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome>
}

type Created = { readonly id: string; readonly json: string; readonly etag: string }

/** The collection of Profile B, with items. */
export interface StoreB extends Omit<Collection, 'create' | 'update' | 'replaceAll'> {
  create(item: ItemB): Awaitable<{ readonly json: string } | 'in-use' | 'item-limit' | 'memory-limit'>
  replace(item: ItemB): Awaitable<'replaced' | 'not-found' | 'changed' | 'item-limit' | 'memory-limit'>
  replaceAll(items: readonly ItemB[], ifMatch?: IfMatch): Awaitable<ReplaceOutcome>
}

export interface Stores {
  readonly a: StoreA
  readonly b: StoreB
}

const andThen = <Value, Result>(value: Awaitable<Value>, next: (value: Value) => Result): Awaitable<Result> =>
  value instanceof Promise ? value.then(next) : next(value)

const shared = (open: () => Collection, type: CollectionType) => ({
  list: (...given: Parameters<Collection['list']>) => open().list(...given),
  get: (...given: Parameters<Collection['get']>) => open().get(...given),
  delete: (...given: Parameters<Collection['delete']>) => open().delete(...given),
  replaceAll: (items: readonly object[], ifMatch?: IfMatch) => open().replaceAll(documentsOf(type, items), ifMatch),
})

const storeA = (open: () => Collection): StoreA => ({
  ...shared(open, profiles.a.collection),
  update: (...given) => open().update(...given),
  create: (fields) =>
    andThen(open().create(fields), (created) =>
      typeof created === 'string' ? created : { id: created.key, json: created.json, etag: created.etag },
    ),
})

const storeB = (open: () => Collection): StoreB => ({
  ...shared(open, profiles.b.collection),
  create: (item) =>
    andThen(open().create(item, item.id), (created) =>
      typeof created === 'string' ? created : { json: created.json },
    ),
  replace: (item) =>
    andThen(open().update(item.id, item), (outcome) => (typeof outcome === 'string' ? outcome : 'replaced')),
})

/** The collections of a space, opened for each operation as for a request. */
export const storesIn = (spaces: Spaces, space: string): Stores => ({
  a: storeA(() => spaces.collection('a', space)),
  b: storeB(() => spaces.collection('b', space)),
})

/** A snapshot with items. */
export interface ItemsSnapshot {
  readonly a?: { readonly items: readonly ItemA[]; readonly lastId: string }
  readonly b?: { readonly items: readonly ItemB[] }
}

export const toSnapshot = ({ a, b }: ItemsSnapshot): Snapshot => ({
  ...(a && { a: { documents: documentsOf(profiles.a.collection, a.items), lastNumber: a.lastId } }),
  ...(b && { b: { documents: documentsOf(profiles.b.collection, b.items), lastNumber: '0' } }),
})

/** With ids as exact as their keys. */
export const toItems = ({ a, b }: Snapshot): ItemsSnapshot => ({
  ...(a && {
    a: {
      items: a.documents.map(({ key, json, secret }) => {
        const { name, isComplete } = JSON.parse(json)
        return { id: key, name, isComplete, secret }
      }),
      lastId: a.lastNumber,
    },
  }),
  ...(b && { b: { items: itemsOf<ItemB>(b.documents) } }),
})

/** The JSON text of a list. */
export const listIn = async (store: Pick<Collection, 'list'>): Promise<string> => textIn(await store.list())

export const textIn = ({ json }: ListRepresentation) =>
  typeof json === 'string' ? json : Buffer.concat(json).toString()

export const itemsIn = async (store: Pick<Collection, 'list'>): Promise<unknown[]> => JSON.parse(await listIn(store))

/** The stores of one space, and what is done with all. */
export interface OpenedStores extends Stores {
  readonly spaces: Spaces
}

interface ExportedSpaces extends PersistentSpaces {
  exportItems(space?: string): Promise<Snapshots>
}

export interface PersistentStores extends OpenedStores, Pick<PersistentSpaces, 'close' | 'ping'> {
  readonly spaces: ExportedSpaces
  exportItems(): Promise<Required<ItemsSnapshot>>
  importItems(snapshot: ItemsSnapshot): ReturnType<PersistentSpaces['importItems']>
}

const storesOf = (spaces: ExportedSpaces, space = defaultSpace): PersistentStores => ({
  ...storesIn(spaces, space),
  spaces,
  exportItems: async () => toItems((await spaces.exportItems(space)).get(space) ?? {}) as Required<ItemsSnapshot>,
  importItems: (snapshot) => spaces.importItems(new Map([[space, toSnapshot(snapshot)]])),
  close: () => spaces.close(),
  ping: () => spaces.ping(),
})

/** Stores in a file; exported as by the command. */
export function openFile(
  file: string,
  types: readonly CollectionType[],
  options: Partial<Parameters<typeof sqliteSpaces>[2]> = {},
  space?: string,
): PersistentStores {
  const defaults = {
    random: Math.random,
    access: 'exclusive',
    monotonicNow: () => performance.now(),
    notice: () => {},
  } as const
  const spaces = sqliteSpaces(file, types, { ...defaults, ...options })
  return storesOf({ ...spaces, exportItems: async (name) => exportFile(file, name, () => 0) }, space)
}

/** The default space of new ones in memory. */
export function memoryStores(...parameters: Parameters<typeof memorySpaces>) {
  const spaces = memorySpaces(...parameters)
  return { ...storesIn(spaces, defaultSpace), spaces }
}

/** Opens new stores of each kind; they are closed after the test. */
export const stores = {
  memory: async (_: TestContext, starting: StartingItems, space = defaultSpace): Promise<OpenedStores> => {
    const spaces = memorySpaces(startingWith(starting), 'test')
    return { ...storesIn(spaces, space), spaces }
  },
  SQLite: async (t: TestContext, starting: StartingItems, space?: string): Promise<PersistentStores> => {
    const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
    const opened = openFile(join(folder, 'todo.db'), startingWith(starting), {}, space)
    cleanUp(t, async () => {
      await opened.close()
      rmSync(folder, { recursive: true })
    })
    return opened
  },
  PostgreSQL: async (t: TestContext, starting: StartingItems, space?: string): Promise<PersistentStores> =>
    openPostgres(t, (await sharedPostgres()).url(), { starting, schema: uniqueName('todo'), space }),
}

/** Stores in the database at this URL; closed after the test. */
export async function openPostgres(
  t: TestContext,
  url: string,
  {
    starting,
    schema = 'todo',
    space,
    monotonicNow = () => performance.now(),
    notice = () => {},
  }: {
    readonly starting?: StartingItems
    readonly schema?: string
    readonly space?: string | undefined
    readonly monotonicNow?: () => number
    readonly notice?: (message: string) => void
  } = {},
): Promise<PersistentStores> {
  const database = readDatabaseUrl(url)
  if (!database) throw new Error('readDatabaseUrl rejects the URL of the test database.')
  const { signal: stop } = new AbortController()
  const options = { database, schema, stop, monotonicNow, random: Math.random, notice }
  const opened = await postgresSpaces(
    { ...options, migrates: true },
    starting ? startingWith(starting) : collectionsOf(profiles),
  )
  cleanUp(t, () => opened.close())
  return storesOf({ ...opened, exportItems: (name) => exportDatabase(options, collectionsOf(profiles), name) }, space)
}
