/*
 * What many spaces cost: GET, list and POST in one of 100,000 spaces of ten items against one of ten, on each store, in
 * process. Batches of both alternate; reported is the ratio of the fastest batches.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { collectionsOf, profiles } from '../src/app.ts'
import { documentsOf } from '../src/profiles/profile.ts'
import { memorySpaces } from '../src/store/memory.ts'
import { postgresSpaces } from '../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../src/store/postgres/url.ts'
import { sqliteSpaces } from '../src/store/sqlite/store.ts'
import type { PersistentSpaces, Snapshots, Spaces } from '../src/store/store.ts'
import { startPostgres } from '../test/support/postgres.ts'

const counts = { few: 10, many: 100_000 }
const itemsPerSpace = 10
const operations = 300
const rounds = 40

const types = collectionsOf(profiles)

const documents = documentsOf(
  profiles.a.collection,
  Array.from({ length: itemsPerSpace }, (_, index) => ({
    id: `${index + 1}`,
    name: `walk the dog ${index}`,
    isComplete: false,
  })),
)

const snapshotsOf = (count: number): Snapshots =>
  new Map(Array.from({ length: count }, (_, index) => [`space-${index}`, { a: { documents, lastNumber: '10' } }]))

const work: Readonly<Record<string, (spaces: Spaces, name: string) => unknown>> = {
  'GET item': (spaces, name) => spaces.collection('a', name).get('5'),
  'list of 10': (spaces, name) => spaces.collection('a', name).list(),
  POST: (spaces, name) => spaces.collection('a', name).create({ name: 'x', isComplete: false }),
}

/** Microseconds for each operation. */
async function measure(run: (typeof work)[string], spaces: Spaces, count: number): Promise<number> {
  const startedAt = performance.now()
  // Ten of them, far apart.
  for (let index = 0; index < operations; index++) await run(spaces, `space-${((index % 10) * count) / 10}`)
  return ((performance.now() - startedAt) * 1000) / operations
}

async function compare(store: string, few: Spaces, many: Spaces): Promise<void> {
  for (const [name, run] of Object.entries(work)) {
    const best = { few: Number.POSITIVE_INFINITY, many: Number.POSITIVE_INFINITY }
    for (let round = 0; round < rounds; round++) {
      best.few = Math.min(best.few, await measure(run, few, counts.few))
      best.many = Math.min(best.many, await measure(run, many, counts.many))
    }
    const ratio = (best.many / best.few).toFixed(2)
    print(`${store} ${name}: ${ratio} (${best.few.toFixed(1)} µs, ${best.many.toFixed(1)} µs)`)
  }
}

const print = (line: string) => void process.stdout.write(`${line}\n`)

const options = { random: Math.random, monotonicNow: () => performance.now(), notice: () => {} }

async function inMemory(): Promise<void> {
  const open = (count: number) => {
    const spaces = memorySpaces(types, 'bench')
    for (let index = 0; index < count; index++) void spaces.collection('a', `space-${index}`).replaceAll(documents)
    return spaces
  }
  const few = open(counts.few)
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const many = open(counts.many)
  globalThis.gc?.()
  const bytes = (process.memoryUsage().heapUsed - before) / counts.many
  if (globalThis.gc) print(`memory: ${bytes.toFixed(0)} bytes of heap for a space of ten items`)
  await compare('memory', few, many)
}

async function filled(open: (name: string) => PersistentSpaces | Promise<PersistentSpaces>, store: string) {
  const [few, many] = [await open('few'), await open('many')]
  await few.importItems(snapshotsOf(counts.few))
  await many.importItems(snapshotsOf(counts.many))
  await compare(store, few, many)
  await few.close()
  await many.close()
}

await inMemory()

const folder = mkdtempSync(join(tmpdir(), 'todo-bench-'))
await filled((name) => sqliteSpaces(join(folder, `${name}.db`), types, { ...options, access: 'exclusive' }), 'SQLite')
rmSync(folder, { recursive: true })

const cluster = await startPostgres()
const database = readDatabaseUrl(cluster.url())
if (!database) throw new Error('The URL of the cluster is not valid.')
const { signal: stop } = new AbortController()
await filled((schema) => postgresSpaces({ ...options, database, schema, stop }, types), 'PostgreSQL')
await cluster.remove()
