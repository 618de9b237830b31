import { after, type TestContext } from 'node:test'
import { profiles } from '../../src/app.ts'
import { readDatabaseUrl } from '../../src/database-url.ts'
import { memoryStores } from '../../src/store/memory.ts'
import { postgresStores } from '../../src/store/postgres.ts'
import type { NamedItem, NumberedItem, Stores } from '../../src/store/store.ts'
import { type Cluster, startPostgres } from './postgres.ts'

/** A cluster for the tests of one file, started by the first that asks for it. */
let shared: Promise<Cluster> | undefined
after(async () => (await shared)?.remove())

export const sharedPostgres = () => {
  shared ??= startPostgres()
  return shared
}

let schemas = 0
export const newSchema = () => `todo_${++schemas}`

interface StartingItems {
  readonly a: readonly NumberedItem[]
  readonly b: readonly NamedItem[]
}

/** What the service keeps, with other items to start with. */
export const startingWith = ({ a, b }: StartingItems) => ({
  a: { ...profiles.a, startingItems: a },
  b: { ...profiles.b, startingItems: b },
})

/** What clients see of a store, as text. */
export async function listIn(store: Stores['a'] | Stores['b']): Promise<string> {
  const { json } = await store.list()
  return typeof json === 'string' ? json : Buffer.concat(json).toString()
}

/** What clients see of a store. */
export const itemsIn = async (store: Stores['a'] | Stores['b']): Promise<unknown[]> => JSON.parse(await listIn(store))

/** Every kind of store, fresh; it is gone when the test ends. */
export const stores = {
  memory: async (_: TestContext, starting: StartingItems): Promise<Stores> =>
    memoryStores(startingWith(starting), 'test'),
  PostgreSQL: async (t: TestContext, starting: StartingItems, schema = newSchema()): Promise<Stores> => {
    const database = readDatabaseUrl((await sharedPostgres()).url())
    if (!database) throw new Error('The URL of the test database is not understood.')
    const settings = {
      database,
      schema,
      stop: new AbortController().signal,
      ticks: () => performance.now(),
      random: Math.random,
    }
    const opened = await postgresStores({ ...settings, onDown: () => {}, onUp: () => {} }, startingWith(starting))
    t.after(() => opened.close())
    return opened
  },
}
