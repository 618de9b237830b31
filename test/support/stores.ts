import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { profiles } from '../../src/app.ts'
import { MemorySpaces } from '../../src/store/memory.ts'
import { exportItems as exportDatabase, postgresSpaces } from '../../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../../src/store/postgres/url.ts'
import { exportItems as exportFile } from '../../src/store/sqlite/snapshots.ts'
import { sqliteSpaces } from '../../src/store/sqlite/store.ts'
import {
  defaultSpace,
  type ItemA,
  type ItemB,
  type ListRepresentation,
  type PersistentSpaces,
  type Serializers,
  type Snapshot,
  type Snapshots,
  type Spaces,
  type Stores,
} from '../../src/store/store.ts'
import { cleanUp } from './cleanup.ts'
import { sharedPostgres, uniqueName } from './database.ts'

interface StartingItems {
  readonly a: readonly ItemA[]
  readonly b: readonly ItemB[]
}

/** The serializers of the service with other starting items. */
export const startingWith = ({ a, b }: StartingItems) => ({
  a: { ...profiles.a, startingItems: a },
  b: { ...profiles.b, startingItems: b },
})

/** The JSON text of a list. */
export const listIn = async (store: Stores['a'] | Stores['b']): Promise<string> => textIn(await store.list())

export const textIn = ({ json }: ListRepresentation) =>
  typeof json === 'string' ? json : Buffer.concat(json).toString()

export const itemsIn = async (store: Stores['a'] | Stores['b']): Promise<unknown[]> => JSON.parse(await listIn(store))

/** The stores of one space, and what is done with all. */
export interface OpenedStores extends Stores {
  readonly spaces: Spaces
}

interface ExportedSpaces extends PersistentSpaces {
  exportItems(space?: string): Promise<Snapshots>
}

export interface PersistentStores extends OpenedStores, Pick<PersistentSpaces, 'close' | 'ping'> {
  readonly spaces: ExportedSpaces
  exportItems(): Promise<Required<Snapshot>>
  importItems(snapshot: Snapshot): ReturnType<PersistentSpaces['importItems']>
}

const storesOf = (spaces: ExportedSpaces, space = defaultSpace): PersistentStores => ({
  ...spaces.space(space),
  spaces,
  exportItems: async () => (await spaces.exportItems(space)).get(space) as Required<Snapshot>,
  importItems: (snapshot) => spaces.importItems(new Map([[space, snapshot]])),
  close: () => spaces.close(),
  ping: () => spaces.ping(),
})

/** Stores in a file; exported as by the command. */
export function openFile(
  file: string,
  serializers: Serializers,
  options: Partial<Parameters<typeof sqliteSpaces>[2]> = {},
  space?: string,
): PersistentStores {
  const defaults = {
    random: Math.random,
    access: 'exclusive',
    monotonicNow: () => performance.now(),
    notice: () => {},
  } as const
  const spaces = sqliteSpaces(file, serializers, { ...defaults, ...options })
  return storesOf({ ...spaces, exportItems: async (name) => exportFile(file, name, () => 0) }, space)
}

/** The default space of new ones in memory. */
export function memoryStores(...parameters: ConstructorParameters<typeof MemorySpaces>) {
  const spaces = new MemorySpaces(...parameters)
  return { ...spaces.space(defaultSpace), spaces }
}

/** Opens new stores of each kind; they are closed after the test. */
export const stores = {
  memory: async (_: TestContext, starting: StartingItems, space = defaultSpace): Promise<OpenedStores> => {
    const spaces = new MemorySpaces(startingWith(starting), 'test')
    return {
      spaces,
      get a() {
        return spaces.space(space).a
      },
      get b() {
        return spaces.space(space).b
      },
    }
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
  const opened = await postgresSpaces({ ...options, migrates: true }, starting ? startingWith(starting) : profiles)
  cleanUp(t, () => opened.close())
  return storesOf({ ...opened, exportItems: (name) => exportDatabase(options, name) }, space)
}
