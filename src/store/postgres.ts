import { createHash } from 'node:crypto'
import type { Row, Sql } from 'postgres'
import type { Database } from '../database-url.ts'
import { openPrimary } from './postgres/connection.ts'
import { type Pool, type PoolSettings, poolOf } from './postgres/pool.ts'
import { keyOf, prepare, Unfit } from './postgres/schema.ts'
import type { Kinds, NamedStore, NumberedItem, NumberedStore, Shown, Stores } from './store.ts'

export interface PostgresSettings extends Omit<PoolSettings, 'open'> {
  readonly database: Database
  readonly schema: string
  /** Ends the attempt to open it. */
  readonly stop: AbortSignal
}

/** How long it may take until the tables are there. */
const preparation = 15_000

/** Items live in PostgreSQL, for any number of instances. Throws when the database cannot be used. */
export async function postgresStores(
  { database, schema, stop, ...settings }: PostgresSettings,
  { a, b }: Kinds,
): Promise<Stores & Pick<Pool, 'close'> & { ping(): Promise<unknown> }> {
  const enough = AbortSignal.any([stop, AbortSignal.timeout(preparation)])
  const first = await openPrimary(database, enough)
  enough.addEventListener('abort', first.drop)
  try {
    await prepare(first.sql, schema, { a: a.startingItems, b: b.startingItems })
  } finally {
    enough.removeEventListener('abort', first.drop)
    await first.end()
  }
  const pool = poolOf({ ...settings, open: (...how) => openPrimary(database, ...how) })
  const ping = statement('select 1')
  return {
    a: numberedStore(pool, `"${schema}".numbered_items`, a),
    b: namedStore(pool, `"${schema}".named_items`, b),
    close: pool.close,
    ping: () => pool.run(ping()),
  }
}

/** SQL with a ? for each value; the driver knows a statement by its strings, so that it is made once. */
function statement(text: string): (...values: readonly unknown[]) => (sql: Sql) => ReturnType<Sql['unsafe']> {
  const parts = text.split('?')
  const strings = Object.assign(parts, { raw: parts }) as TemplateStringsArray
  return (...values) =>
    (sql) =>
      sql(strings, ...(values as never[])) as never
}

/** PostgreSQL's text holds every character but this. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

/** The tag of a list is made from its text: every instance makes the same. */
const listed = (json: string): Shown => ({ json, tag: `"${createHash('sha256').update(json).digest('base64url')}"` })

const tagOf = (version: unknown) => `"${version}"`

/** The versions that the tags stand for, as an array of PostgreSQL. */
const versionsIn = (tags: readonly string[]) =>
  `{${tags.flatMap((tag) => /^"(\d{1,18})"$/.exec(tag)?.[1] ?? []).join(',')}}`

function numberedStore({ run }: Pool, table: string, { wire, wireList }: Kinds['a']): NumberedStore {
  const columns = 'id, name, is_complete as "isComplete"'
  const list = statement(`select ${columns} from ${table} order by id`)
  const get = statement(`select ${columns}, version from ${table} where id = ?`)
  const create = statement(`insert into ${table} (name, is_complete) values (?, ?) returning id, version`)
  const update = statement(`update ${table} set name = ?, is_complete = ?, version = version + 1 where id = ?`)
  const remove = statement(`delete from ${table} where id = ?`)
  const secret = statement(`select secret from ${table} where id = ?`)
  // Whether the item is there is seen in the same moment as whether it has the version.
  const ifMatch = (change: string) =>
    `with item as (select 1 from ${table} where id = ?), changed as (${change} where id = ? and version = any(?::bigint[]) returning version) select (select count(*) from item)::int as found, (select version from changed) as version`
  const updateIfMatch = statement(ifMatch(`update ${table} set name = ?, is_complete = ?, version = version + 1`))
  const removeIfMatch = statement(ifMatch(`delete from ${table}`))
  return {
    async list() {
      const rows = await run((sql) => list()(sql).values())
      return listed(wireList(rows.map((row) => ({ id: row[0], name: row[1], isComplete: row[2], secret: null }))))
    },
    async get(id) {
      const [row] = await run(get(id))
      return row ? { json: wire(row as NumberedItem), tag: tagOf(row.version) } : 'not-found'
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const [row] = await run(create(name, isComplete))
      const { id, version } = row as Row
      return { id, json: wire({ id, name, isComplete, secret: null }), tag: tagOf(version) }
    },
    async update(id, { name, isComplete }, condition) {
      if (!isStorable(name)) return 'unstorable'
      if (!condition) return (await run(update(name, isComplete, id))).count === 0 ? 'not-found' : 'updated'
      const [row] = await run(updateIfMatch(id, name, isComplete, id, versionsIn(condition)))
      return row?.version ? 'updated' : row?.found ? 'changed' : 'not-found'
    },
    async delete(id, condition) {
      if (!condition) return (await run(remove(id))).count === 0 ? 'not-found' : 'deleted'
      const [row] = await run(removeIfMatch(id, id, versionsIn(condition)))
      return row?.version ? 'deleted' : row?.found ? 'changed' : 'not-found'
    },
    async secretOf(id) {
      const [row] = await run(secret(id))
      return row?.secret
    },
  }
}

function namedStore({ run }: Pool, table: string, { wire, wireList }: Kinds['b']): NamedStore {
  const list = statement(`select id, name, notes, done from ${table} order by place`)
  const create = statement(
    `insert into ${table} (key, id, name, notes, done) values (?, ?, ?, ?, ?) on conflict (key) do nothing`,
  )
  const replace = statement(`update ${table} set name = ?, notes = ?, done = ? where key = ?`)
  const remove = statement(`delete from ${table} where key = ?`)
  return {
    async list() {
      const rows = await run((sql) => list()(sql).values())
      return listed(wireList(rows.map((row) => ({ id: row[0], name: row[1], notes: row[2], done: row[3] }))))
    },
    async create(item) {
      const { id, name, notes, done } = item
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await run(create(keyOf(id), id, name, notes, done))
      return count === 0 ? 'in-use' : { json: wire(item) }
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await run(replace(name, notes, done, keyOf(id)))
      return count === 0 ? 'not-found' : 'replaced'
    },
    async delete(id) {
      const { count } = await run(remove(keyOf(id)))
      return count === 0 ? 'not-found' : 'deleted'
    },
  }
}

export const isForGood = (cause: unknown) => cause instanceof Unfit

export { troubleWith } from './postgres/trouble.ts'
