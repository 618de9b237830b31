import { setTimeout as pause } from 'node:timers/promises'
import { profiles } from '../app.ts'
import type { Config } from '../config.ts'
import { whereabouts } from '../database-url.ts'
import type { Log } from '../log.ts'
import { memoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'

export interface OpenStores extends Stores {
  readonly kind: 'memory' | `PostgreSQL, ${string}`
  close(): Promise<void>
  /** Fails when the items cannot be reached. */
  ping(): Promise<unknown>
  /** How many items there are, by profile, where that is known. */
  counts(): Readonly<Record<string, number>>
}

interface Surroundings {
  readonly ticks: () => number
  readonly random: () => number
  readonly newId: () => string
  readonly log: Log
  /** Ends the waiting for a database. */
  readonly stop: AbortSignal
}

/** How long to wait until a database is tried again. */
const waitingTime = 500

/** The items where the configuration wants them, or the sentence that says why they cannot be there. */
export async function openStores(
  { database, databaseSchema: schema, waitForDatabase, maxItems }: Config,
  { ticks, random, newId, log, stop }: Surroundings,
): Promise<OpenStores | string> {
  if (!database) {
    const { a, b } = memoryStores(profiles, newId().slice(0, 8), maxItems)
    const counts = () => ({ a: a.count(), b: b.count() })
    return { kind: 'memory', a, b, counts, close: async () => {}, ping: async () => {} }
  }
  const { postgresStores, troubleWith, isForGood } = await import('../store/postgres.ts')
  const onDown = (cause: unknown) => log.notice(troubleWith(cause, database))
  const onUp = () => log.notice('The database answers again.')
  const settings = { database, schema, stop, ticks, random, onDown, onUp }
  const said = new Set<string>()
  for (;;)
    try {
      const stores = await postgresStores(settings, profiles)
      return { kind: `PostgreSQL, schema ${schema} of ${whereabouts(database)}`, counts: () => ({}), ...stores }
    } catch (cause) {
      const trouble = troubleWith(cause, database)
      if (!waitForDatabase || isForGood(cause) || stop.aborted) return trouble
      if (!said.has(trouble)) log.notice(`Waiting for the database. ${trouble}`)
      said.add(trouble)
      await pause(waitingTime, undefined, { signal: stop }).catch(() => {})
    }
}
