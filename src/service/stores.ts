import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '../common/start-error.ts'
import type { Config } from '../config/config.ts'
import type { Log, StartMessage } from '../log.ts'
import { runtime } from '../server/runtime.ts'
import { memorySpaces } from '../store/memory.ts'
import { limitNotices } from '../store/notices.ts'
import { type DatabaseSettings, describeDatabase } from '../store/postgres/url.ts'
import type { CollectionType, PersistentSpaces, Snapshots, Spaces } from '../store/store.ts'
import type { Clock } from './clock.ts'

export interface OpenSpaces extends Spaces {
  readonly kind: StartMessage['store']
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
/** Makes entity tags of persistent items; with the random numbers of --seed, the tags would repeat after a restart. */
const random = Math.random

/** The place of items that outlive the process. */
type ItemPlace = { readonly dataFile: string } | { readonly database: DatabaseSettings; readonly schema: string }

/** Returns undefined if the items are in memory. */
export const placeOf = ({
  dataFile,
  database,
  databaseSchema: schema,
}: Pick<Config, 'dataFile' | 'database' | 'databaseSchema'>): ItemPlace | undefined =>
  dataFile === undefined ? database && { database, schema } : { dataFile }

interface OpenOptions {
  /** `shared` if other processes use the data file, too. */
  readonly access?: 'exclusive' | 'shared'
  readonly migrates?: boolean
  readonly waitForDatabase?: boolean
}

/** Opens the configured store; throws a `StartError` if it cannot be opened. */
export async function openStores(
  config: Config,
  types: readonly CollectionType[],
  context: StoreContext & Pick<Clock, 'newId'>,
  options: OpenOptions,
): Promise<OpenSpaces> {
  const place = placeOf(config)
  if (place) return openPlace(place, types, context, options)
  const spaces = memorySpaces(types, context.newId().slice(0, 8), {
    maxItems: config.maxItems,
    maxBytes: memoryBudgetBytes(config),
  })
  return {
    kind: 'memory',
    ...spaces,
    close: async () => {},
    ping: async () => {},
    isInPlace: () => true,
  }
}

/** Opens the items in a file or a database; throws a `StartError` if they cannot be opened. */
export async function openPlace(
  place: ItemPlace,
  types: readonly CollectionType[],
  context: StoreContext,
  { access = 'exclusive', migrates = false, waitForDatabase = false }: OpenOptions,
): Promise<OpenSpaces & PersistentSpaces> {
  const { stop, log, monotonicNow } = context
  if ('dataFile' in place) {
    const path = resolve(place.dataFile)
    const { sqliteSpaces } = await import('../store/sqlite/store.ts')
    const notice = limitNotices(log.notice, monotonicNow)
    return {
      kind: `the file ${path}`,
      ...sqliteSpaces(path, types, { random, access, migrates, monotonicNow, notice }),
    }
  }
  const { database, schema } = place
  const { postgresSpaces, describeDatabaseError } = await import('../store/postgres/store.ts')
  const advice = migrates && !waitForDatabase ? ' To wait for it at the start, add --wait-for-database.' : ''
  const kind = `PostgreSQL, schema ${schema} of ${describeDatabase(database)}` as const
  const options = { ...databaseOptions(database, schema, context), migrates }
  const logged = new Set<string>()
  for (;;)
    try {
      return { kind, counts: () => ({}), isInPlace: () => true, ...(await postgresSpaces(options, types)) }
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
export async function exportItems(
  place: ItemPlace,
  types: readonly CollectionType[],
  space: string | undefined,
  context: StoreContext,
): Promise<Snapshots> {
  if ('dataFile' in place)
    return (await import('../store/sqlite/snapshots.ts')).exportItems(
      resolve(place.dataFile),
      space,
      context.monotonicNow,
    )
  const { database, schema } = place
  const postgres = await import('../store/postgres/store.ts')
  try {
    return await postgres.exportItems(databaseOptions(database, schema, context), types, space)
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(postgres.describeDatabaseError(error, database))
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
