import { createHash } from 'node:crypto'
import type { Sql } from 'postgres'
import {
  highestId,
  type ListRepresentation,
  type NamedItem,
  type NamedStore,
  type NumberedItem,
  type NumberedStore,
  type PersistentStores,
  type Serializers,
  type Snapshot,
} from '../store.ts'
import { findPrimary, statementTimeoutMs, withConnection } from './connection.ts'
import { keyOf, migrate } from './migrations.ts'
import { createPool, type Parameters, type Pool, type PoolOptions } from './pool.ts'

export { describeDatabaseError, isPermanent } from './errors.ts'
export { limitNotices } from './notices.ts'

interface PostgresOptions extends PoolOptions {
  readonly schema: string
  /** Cancels opening the stores. */
  readonly stop: AbortSignal
}

/** Connecting and migrating. */
const openTimeoutMs = 15_000
/** Exporting or importing any number of items. */
const moveTimeoutMs = 600_000

/** Items in PostgreSQL, for any number of instances. Throws when the database cannot be used. */
export async function postgresStores(
  { schema, stop, ...options }: PostgresOptions,
  { a, b }: Serializers,
): Promise<PersistentStores> {
  const { database, notice } = options
  const primary = await findPrimary(database, 0, stop)
  await withConnection(database, primary.host, openTimeoutMs, stop, async (sql) => {
    await migrate(sql, schema, { a: a.startingItems, b: b.startingItems })
    const [timeout] = await sql`select setting from pg_settings where name = 'statement_timeout'`
    const isInForce = timeout?.setting > 0 && timeout?.setting <= statementTimeoutMs
    if (timeout && !isInForce)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
  })
  const pool = createPool(options, primary)
  const tables = { a: `"${schema}".numbered_items`, b: `"${schema}".named_items` }
  return {
    a: numberedStore(pool, tables.a, a),
    b: namedStore(pool, tables.b, b),
    exportItems: () =>
      pool.transaction(async (sql) => {
        await sql`set transaction isolation level repeatable read, read only`
        return { a: await readNumbered(sql, tables.a), b: await readNamed(sql, tables.b) }
      }, moveTimeoutMs),
    async importItems(snapshot) {
      const { a: numbered, b: named } = snapshot
      if (!(numbered?.items ?? []).every(isStorableNumbered) || !(named?.items ?? []).every(isStorableNamed))
        return 'unstorable'
      await pool.transaction(async (sql) => {
        if (numbered) await replaceNumbered(sql, tables.a, numbered.items, numbered.lastId)
        if (named) await replaceNamed(sql, tables.b, named.items)
      }, moveTimeoutMs)
      return 'imported'
    },
    close: pool.close,
    ping: () => pool.query('select 1'),
  }
}

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

const isStorableNumbered = ({ name, secret }: NumberedItem) => isStorable(name, secret)
const isStorableNamed = ({ id, name, notes }: NamedItem) => isStorable(id, name, notes)

/** The JSON of a list as one value. The entity tag is its hash, so that all instances send the same one. */
async function readList({ query }: Pool, statement: string): Promise<ListRepresentation> {
  const [row] = await query(statement)
  const json: string = row?.json
  return { json, etag: `"${createHash('sha256').update(json).digest('base64url')}"` }
}

const etagOf = (version: string) => `"${version}"`

/** The versions in entity tags, as a PostgreSQL array literal. */
const versionsIn = (etags: readonly string[]) =>
  `{${etags.flatMap((etag) => /^"(\d{1,18})"$/.exec(etag)?.[1] ?? []).join(',')}}`

/** The lists have the text that `serialize` makes, too: to_json() escapes as JSON.stringify() does. */
function numberedStore(pool: Pool, table: string, { serialize }: Serializers['a']): NumberedStore {
  const { query } = pool
  const list = `
    select '[' || coalesce(string_agg('{"id":' || id || ',"name":' || coalesce(to_json(name)::text, 'null')
      || ',"isComplete":' || is_complete || '}', ',' order by id), '') || ']' as json from ${table}`
  const get = `select name, is_complete, version from ${table} where id = $1`
  const create = `insert into ${table} (name, is_complete) values ($1, $2) returning id, version`
  const update = `update ${table} set name = $2, is_complete = $3, version = version + 1 where id = $1`
  const remove = `delete from ${table} where id = $1`
  const secretOf = `select secret from ${table} where id = $1`
  /** One statement, so that existence and version are read in the same snapshot. */
  const ifMatch = (change: string, versions: string) => `
    with item as (select from ${table} where id = $1),
    changed as (${change} and version = any(${versions}::bigint[]) returning 1)
    select exists (select from item) as exists, exists (select from changed) as changed`
  const updateIfMatch = ifMatch(update, '$4')
  const removeIfMatch = ifMatch(remove, '$2')

  async function changeIfMatch<Done>(statement: string, parameters: Parameters, done: Done) {
    const [row] = await query(statement, parameters)
    return row?.changed ? done : row?.exists ? 'changed' : 'not-found'
  }

  return {
    list: () => readList(pool, list),
    async get(id) {
      const [row] = await query(get, [id])
      if (!row) return 'not-found'
      const json = serialize({ id, name: row.name, isComplete: row.is_complete, secret: null })
      return { json, etag: etagOf(row.version) }
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const [row] = await query(create, [name, isComplete])
      const json = serialize({ id: row?.id, name, isComplete, secret: null })
      return { id: row?.id, json, etag: etagOf(row?.version) }
    },
    async update(id, { name, isComplete }, etags) {
      if (!isStorable(name)) return 'unstorable'
      if (etags) return changeIfMatch(updateIfMatch, [id, name, isComplete, versionsIn(etags)], 'updated' as const)
      const { count } = await query(update, [id, name, isComplete])
      return count === 0 ? 'not-found' : 'updated'
    },
    async delete(id, etags) {
      if (etags) return changeIfMatch(removeIfMatch, [id, versionsIn(etags)], 'deleted' as const)
      const { count } = await query(remove, [id])
      return count === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNumbered)) return 'unstorable'
      await pool.transaction((sql) => replaceNumbered(sql, table, items))
      return 'replaced'
    },
    async secretOf(id) {
      const [row] = await query(secretOf, [id])
      return row?.secret
    },
  }
}

function namedStore(pool: Pool, table: string, { serialize }: Serializers['b']): NamedStore {
  const { query } = pool
  const list = `
    select '[' || coalesce(string_agg('{"id":' || to_json(id) || ',"name":' || to_json(name) || ',"notes":'
      || to_json(notes) || ',"done":' || done || '}', ',' order by place), '') || ']' as json from ${table}`
  const create = `
    insert into ${table} (key, id, name, notes, done) values ($1, $2, $3, $4, $5) on conflict (key) do nothing`
  const replace = `update ${table} set name = $2, notes = $3, done = $4 where key = $1`
  const remove = `delete from ${table} where key = $1`

  return {
    list: () => readList(pool, list),
    async create(item) {
      const { id, name, notes, done } = item
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await query(create, [keyOf(id), id, name, notes, done])
      return count === 0 ? 'in-use' : { json: serialize(item) }
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await query(replace, [keyOf(id), name, notes, done])
      return count === 0 ? 'not-found' : 'replaced'
    },
    async delete(id) {
      const { count } = await query(remove, [keyOf(id)])
      return count === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNamed)) return 'unstorable'
      await pool.transaction((sql) => replaceNamed(sql, table, items))
      return 'replaced'
    },
  }
}

async function replaceNumbered(sql: Sql, table: string, items: readonly NumberedItem[], lastId?: string) {
  await clear(sql, table)
  await sql`
    insert into ${sql.unsafe(table)} (id, name, is_complete, secret)
    select id, name, "isComplete", secret
    from jsonb_to_recordset(${sql.json(items as never)}) as (id bigint, name text, "isComplete" boolean, secret text)`
  await setNextValue(sql, table, 'id', highestId(items, lastId))
}

async function replaceNamed(sql: Sql, table: string, items: readonly NamedItem[]): Promise<void> {
  const rows = items.map((item, index) => ({ ...item, key: keyOf(item.id).toString('hex'), place: index + 1 }))
  await clear(sql, table)
  await sql`
    insert into ${sql.unsafe(table)} (key, place, id, name, notes, done)
    select decode(key, 'hex'), place, id, name, notes, done
    from jsonb_to_recordset(${sql.json(rows as never)})
      as (key text, place bigint, id text, name text, notes text, done boolean)`
  await setNextValue(sql, table, 'place', BigInt(rows.length))
}

async function readNumbered(sql: Sql, table: string): Promise<NonNullable<Snapshot['a']>> {
  const items = await sql<NumberedItem[]>`
    select id, name, is_complete as "isComplete", secret from ${sql.unsafe(table)} order by id`
  const [sequence] = await sql`
    select coalesce(last_value, 0) as "lastId" from pg_sequences
    where format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence(${table}, 'id')`
  return { items: [...items], lastId: `${sequence?.lastId ?? 0}` }
}

async function readNamed(sql: Sql, table: string): Promise<NonNullable<Snapshot['b']>> {
  const items = await sql<NamedItem[]>`select id, name, notes, done from ${sql.unsafe(table)} order by place`
  return { items: [...items] }
}

/** Locked, so that no item is created meanwhile. */
async function clear(sql: Sql, table: string): Promise<void> {
  await sql`lock table ${sql.unsafe(table)} in exclusive mode`
  await sql`delete from ${sql.unsafe(table)}`
}

/** The next value of an identity column is one more than `last`. */
const setNextValue = (sql: Sql, table: string, column: string, last: bigint) =>
  sql`select setval(pg_get_serial_sequence(${table}, ${column}), ${`${last > 0n ? last : 1n}`}::bigint, ${last > 0n})`
