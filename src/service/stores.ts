import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '../common/start-error.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../log.ts'
import { runtime } from '../server/runtime.ts'
import { MemorySpaces } from '../store/memory.ts'
import { limitNotices } from '../store/notices.ts'
import { type DatabaseSettings, describeDatabase } from '../store/postgres/url.ts'
import type { SqliteSpaces } from '../store/sqlite/store.ts'
import type { CollectionType, PersistentSpaces, Snapshots, Spaces } from '../store/store.ts'

export interface OpenSpaces extends Spaces {
  readonly kind: 'memory' | `the file ${string}` | `PostgreSQL, ${string}`
  close(): Promise<void>
  /** Rejects if the store is unavailable. */
  ping(): Promise<unknown>
  /** False if the data file was deleted, moved or replaced: the items are lost when the process ends. */
  isInPlace(): boolean
  /** Returns the number of items by profile; empty for PostgreSQL, where counting costs a query. */
  counts(): Readonly<Record<string, number>>
}

interface StoreContext {
  readonly monotonicNow: () => number
  readonly log: Pick<Log, 'notice'>
  /** Stops waiting for a database when it is aborted. */
  readonly stop: AbortSignal
}

const retryIntervalMs = 500
const maxControlBodyBytes = 64 * 2 ** 20
/** For entity tags of persistent items: with the random numbers of --seed, they would repeat after a restart. */
const random = Math.random

/** Opens the configured store; throws a `StartError` if it cannot be opened. */
export async function openStores(
  config: Pick<Config, 'dataFile' | 'database' | 'databaseSchema' | 'waitForDatabase' | 'maxItems' | 'maxMemoryBytes'>,
  types: readonly CollectionType[],
  context: StoreContext & { readonly newId: () => string },
  /** `shared` if other processes use the data file, too. */
  access: 'exclusive' | 'shared' = 'exclusive',
): Promise<OpenSpaces> {
  const { dataFile, database } = config
  if (dataFile !== undefined) {
    const stores = await openFileStores(dataFile, types, context, { access, migrates: true })
    return { kind: `the file ${resolve(dataFile)}`, ...stores }
  }
  if (database) {
    const { databaseSchema: schema, waitForDatabase } = config
    const advice = waitForDatabase ? '' : ' To wait for it at the start, add --wait-for-database.'
    const options = { migrates: true, waitForDatabase, advice }
    const stores = await openDatabaseStores(database, schema, types, context, options)
    const kind = `PostgreSQL, schema ${schema} of ${describeDatabase(database)}` as const
    return { kind, counts: () => ({}), isInPlace: () => true, ...stores }
  }
  const spaces = new MemorySpaces(types, context.newId().slice(0, 8), {
    maxItems: config.maxItems,
    maxBytes: memoryBudgetBytes(config),
  })
  return {
    kind: 'memory',
    collection: (name, space) => spaces.collection(name, space),
    listSpaces: () => spaces.listSpaces(),
    deleteSpace: (name) => spaces.deleteSpace(name),
    counts: () => spaces.counts(),
    close: async () => {},
    ping: async () => {},
    isInPlace: () => true,
  }
}

/** Opens the items in an SQLite file; throws a `StartError` if they cannot be opened. */
export async function openFileStores(
  path: string,
  types: readonly CollectionType[],
  { log, monotonicNow }: Pick<StoreContext, 'log' | 'monotonicNow'>,
  { access, migrates = false }: { readonly access: 'exclusive' | 'shared'; readonly migrates?: boolean },
): Promise<SqliteSpaces> {
  const { sqliteSpaces } = await import('../store/sqlite/store.ts')
  const notice = limitNotices(log.notice, monotonicNow)
  return sqliteSpaces(resolve(path), types, { random, access, migrates, monotonicNow, notice })
}

/** Reads the items of one space, or of all, from a file of any version; throws a `StartError` if it cannot. */
export async function exportFileItems(path: string, space: string | undefined, monotonicNow: () => number) {
  const { exportItems } = await import('../store/sqlite/snapshots.ts')
  return exportItems(resolve(path), space, monotonicNow)
}

/** Opens the items in a PostgreSQL database; throws a `StartError` if they cannot be opened. */
export async function openDatabaseStores(
  database: DatabaseSettings,
  schema: string,
  types: readonly CollectionType[],
  context: StoreContext,
  { migrates = false, waitForDatabase = false, advice = '' } = {},
): Promise<PersistentSpaces> {
  const { postgresSpaces, describeDatabaseError } = await import('../store/postgres/store.ts')
  const { stop, log } = context
  const options = { ...databaseOptions(database, schema, context), migrates }
  const logged = new Set<string>()
  for (;;)
    try {
      return await postgresSpaces(options, types)
    } catch (error) {
      if (error instanceof StartError) throw error
      const message = describeDatabaseError(error, database, advice)
      if (!waitForDatabase || stop.aborted) throw new StartError(message)
      if (!logged.has(message)) log.notice(`Waiting for the database. ${message}`)
      logged.add(message)
      await sleep(retryIntervalMs, undefined, { signal: stop }).catch(() => {})
    }
}

/** Reads the items of one space, or of all, from tables of any version; throws a `StartError` if it cannot. */
export async function exportDatabaseItems(
  database: DatabaseSettings,
  schema: string,
  types: readonly CollectionType[],
  space: string | undefined,
  context: StoreContext,
): Promise<Snapshots> {
  const { exportItems, describeDatabaseError } = await import('../store/postgres/store.ts')
  try {
    return await exportItems(databaseOptions(database, schema, context), types, space)
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(describeDatabaseError(error, database))
  }
}

function databaseOptions(database: DatabaseSettings, schema: string, { monotonicNow, log, stop }: StoreContext) {
  const password = database.password ?? process.env.PGPASSWORD
  const notice = limitNotices(log.notice, monotonicNow)
  return { database: { ...database, password }, schema, stop, monotonicNow, random, notice }
}

const memoryBudgetBytes = ({ maxMemoryBytes }: Pick<Config, 'maxMemoryBytes'>) =>
  maxMemoryBytes ?? runtime.heapLimitBytes / 4

/** Returns the size of the largest body for the control API; parsing takes several times as much memory. */
export const controlBodyBytes = (config: Pick<Config, 'maxMemoryBytes' | 'maxBodyBytes'>) =>
  Math.max(config.maxBodyBytes, Math.min(maxControlBodyBytes, Math.floor(memoryBudgetBytes(config) / 4)))
