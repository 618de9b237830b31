import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { profiles } from '../../src/app.ts'
import { memoryStores } from '../../src/store/memory.ts'
import { postgresStores } from '../../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../../src/store/postgres/url.ts'
import { sqliteStores } from '../../src/store/sqlite/store.ts'
import type { ItemA, ItemB, PersistentStores, Stores } from '../../src/store/store.ts'
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
export async function listIn(store: Stores['a'] | Stores['b']): Promise<string> {
  const { json } = await store.list()
  return typeof json === 'string' ? json : Buffer.concat(json).toString()
}

export const itemsIn = async (store: Stores['a'] | Stores['b']): Promise<unknown[]> => JSON.parse(await listIn(store))

/** Opens new stores of each kind; they are closed after the test. */
export const stores = {
  memory: async (_: TestContext, starting: StartingItems): Promise<Stores> =>
    memoryStores(startingWith(starting), 'test'),
  SQLite: async (t: TestContext, starting: StartingItems): Promise<PersistentStores> => {
    const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
    const opened = sqliteStores(join(folder, 'todo.db'), startingWith(starting), {
      random: Math.random,
      access: 'exclusive',
      monotonicNow: () => performance.now(),
      notice: () => {},
    })
    cleanUp(t, async () => {
      await opened.close()
      rmSync(folder, { recursive: true })
    })
    return opened
  },
  PostgreSQL: async (t: TestContext, starting: StartingItems): Promise<PersistentStores> =>
    openPostgres(t, (await sharedPostgres()).url(), { starting, schema: uniqueName('todo') }),
}

/** Stores in the database at this URL; closed after the test. */
export async function openPostgres(
  t: TestContext,
  url: string,
  {
    starting,
    schema = 'todo',
    monotonicNow = () => performance.now(),
    notice = () => {},
  }: {
    readonly starting?: StartingItems
    readonly schema?: string
    readonly monotonicNow?: () => number
    readonly notice?: (message: string) => void
  } = {},
): Promise<PersistentStores> {
  const database = readDatabaseUrl(url)
  if (!database) throw new Error('readDatabaseUrl rejects the URL of the test database.')
  const opened = await postgresStores(
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
  return opened
}
