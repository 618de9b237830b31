import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { profiles } from '../app.ts'
import type { Config } from '../config/config.ts'
import { describeDatabase } from '../config/database-url.ts'
import type { Log } from '../log.ts'
import { type MemoryStores, memoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'

export interface OpenStores extends Stores {
  /** Stores of their own for a sandbox; undefined where the items are in a database. */
  readonly openAnother: MemoryStores['openAnother'] | undefined
  readonly kind: 'memory' | `PostgreSQL, ${string}`
  close(): Promise<void>
  /** Rejects when the store is unavailable. */
  ping(): Promise<unknown>
  /** Number of items by profile, where it is known without a query. */
  counts(): Readonly<Record<string, number>>
}

interface Runtime {
  readonly monotonicNow: () => number
  readonly random: () => number
  readonly newId: () => string
  readonly log: Log
  /** Cancels waiting for a database. */
  readonly stop: AbortSignal
}

const retryIntervalMs = 500

/** Opens the configured stores, or returns an error message. */
export async function openStores(
  { database, databaseSchema: schema, waitForDatabase, maxItems, maxMemoryBytes }: Config,
  { monotonicNow, random, newId, log, stop }: Runtime,
): Promise<OpenStores | string> {
  if (!database) {
    const stores = openMemoryStores({ maxItems, maxMemoryBytes }, newId)
    return { kind: 'memory', ...stores, close: async () => {}, ping: async () => {} }
  }
  const { postgresStores, describeDatabaseError, isPermanent } = await import('../store/postgres/store.ts')
  const onDown = (error: unknown) => log.notice(describeDatabaseError(error, database))
  const onUp = () => log.notice('The database connection is restored.')
  const options = { database, schema, stop, monotonicNow, random, onDown, onUp }
  const logged = new Set<string>()
  for (;;)
    try {
      const stores = await postgresStores(options, profiles)
      return {
        kind: `PostgreSQL, schema ${schema} of ${describeDatabase(database)}`,
        counts: () => ({}),
        openAnother: undefined,
        ...stores,
      }
    } catch (error) {
      const message = describeDatabaseError(error, database)
      if (!waitForDatabase || isPermanent(error) || stop.aborted) return message
      if (!logged.has(message)) log.notice(`Waiting for the database. ${message}`)
      logged.add(message)
      await sleep(retryIntervalMs, undefined, { signal: stop }).catch(() => {})
    }
}

export const openMemoryStores = (
  { maxItems, maxMemoryBytes }: Pick<Config, 'maxItems' | 'maxMemoryBytes'>,
  newId: () => string,
): MemoryStores =>
  memoryStores(profiles, newId().slice(0, 8), {
    maxItems,
    maxBytes: maxMemoryBytes ?? getHeapStatistics().heap_size_limit / 4,
  })
