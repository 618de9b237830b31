import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { profiles } from '../../src/app.ts'
import { MemorySpaces } from '../../src/store/memory.ts'
import { postgresSpaces } from '../../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../../src/store/postgres/url.ts'
import { sqliteSpaces } from '../../src/store/sqlite/store.ts'
import {
  defaultSpace,
  type ItemA,
  type ItemB,
  type ListRepresentation,
  type PersistentSpaces,
  type Snapshot,
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

export interface PersistentStores extends OpenedStores, Pick<PersistentSpaces, 'close' | 'ping'> {
  readonly spaces: PersistentSpaces
  exportItems(): Promise<Required<Snapshot>>
  importItems(snapshot: Snapshot): ReturnType<PersistentSpaces['importItems']>
}

export const storesOf = (spaces: PersistentSpaces, space = defaultSpace): PersistentStores => ({
  ...spaces.space(space),
  spaces,
  exportItems: async () => (await spaces.exportItems(space)).get(space) as Required<Snapshot>,
  importItems: (snapshot) => spaces.importItems(new Map([[space, snapshot]])),
  close: () => spaces.close(),
  ping: () => spaces.ping(),
})

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
    const opened = sqliteSpaces(join(folder, 'todo.db'), startingWith(starting), {
      random: Math.random,
      access: 'exclusive',
      monotonicNow: () => performance.now(),
      notice: () => {},
    })
    cleanUp(t, async () => {
      await opened.close()
      rmSync(folder, { recursive: true })
    })
    return storesOf(opened, space)
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
  const opened = await postgresSpaces(
    {
      database,
      schema,
      stop: new AbortController().signal,
      monotonicNow,
      random: Math.random,
      notice,
    },
    starting ? startingWith(starting) : profiles,
  )
  cleanUp(t, () => opened.close())
  return storesOf(opened, space)
}
