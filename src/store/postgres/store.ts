import { createHash } from 'node:crypto'
import type { Fragment, Sql, TransactionSql } from 'postgres'
import type { Database } from '../../config/database-url.ts'
import type {
  NamedItem,
  NamedStore,
  NumberedItem,
  NumberedStore,
  PersistentStores,
  Representation,
  Serializers,
  Snapshot,
} from '../store.ts'
import { connectToPrimary } from './connection.ts'
import { keyOf, migrate } from './migrations.ts'
import { createPool, type Pool, type PoolOptions } from './pool.ts'

export { describeDatabaseError, isPermanent } from './errors.ts'

interface PostgresOptions extends Omit<PoolOptions, 'connect'> {
  readonly database: Database
  readonly schema: string
  /** Cancels opening the stores. */
  readonly stop: AbortSignal
}

/** Connecting and migrating. */
const openTimeoutMs = 15_000

/** Items in PostgreSQL, for any number of instances. Throws when the database cannot be used. */
export async function postgresStores(
  { database, schema, stop, ...poolOptions }: PostgresOptions,
  { a, b }: Serializers,
): Promise<PersistentStores> {
  const cancelled = AbortSignal.any([stop, AbortSignal.timeout(openTimeoutMs)])
  const connection = await connectToPrimary(database, cancelled)
  cancelled.addEventListener('abort', connection.drop)
  try {
    await migrate(connection.sql, schema, { a: a.startingItems, b: b.startingItems })
  } finally {
    cancelled.removeEventListener('abort', connection.drop)
    await connection.end()
  }
  const pool = createPool({ ...poolOptions, connect: (...args) => connectToPrimary(database, ...args) })
  return {
    a: numberedStore(pool, schema, a),
    b: namedStore(pool, schema, b),
    exportItems: () =>
      pool.query((sql) =>
        sql.begin('isolation level repeatable read read only', (transaction) => readAll(transaction, schema)),
      ),
    async importItems(snapshot) {
      const { a, b } = snapshot
      if (!(a?.items ?? []).every(isStorableNumbered) || !(b?.items ?? []).every(isStorableNamed)) return 'unstorable'
      await pool.query((sql) =>
        sql.begin(async (transaction) => {
          if (a) await replaceNumbered(transaction, schema, a.items, a.lastId)
          if (b) await replaceNamed(transaction, schema, b.items)
        }),
      )
      return 'imported'
    },
    close: pool.close,
    ping: () => pool.query((sql) => sql`select 1`),
  }
}

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

const isStorableNumbered = ({ name, secret }: NumberedItem) => isStorable(name, secret)
const isStorableNamed = ({ id, name, notes }: NamedItem) => isStorable(id, name, notes)

/** The entity tag is a hash of the list, so that all instances send the same one. */
const toListRepresentation = (json: string): Representation => ({
  json,
  etag: `"${createHash('sha256').update(json).digest('base64url')}"`,
})

const etagOf = (version: string) => `"${version}"`

/** The versions in entity tags, as a PostgreSQL array literal. */
const versionsIn = (etags: readonly string[]) =>
  `{${etags.flatMap((etag) => /^"(\d{1,18})"$/.exec(etag)?.[1] ?? []).join(',')}}`

function numberedStore({ query }: Pool, schema: string, { serialize, serializeList }: Serializers['a']): NumberedStore {
  /** One statement, so that existence and version are read in the same snapshot. */
  async function changeIfMatch(id: string, ifMatch: readonly string[], change: (sql: Sql) => Fragment) {
    const [row] = await query(
      (sql) => sql`
        with item as (select from ${sql(schema)}.numbered_items where id = ${id}),
        changed as (${change(sql)} where id = ${id} and version = any(${versionsIn(ifMatch)}::bigint[]) returning 1)
        select exists (select from item) as exists, exists (select from changed) as changed`,
    )
    return row?.changed ? 'done' : row?.exists ? 'changed' : 'not-found'
  }

  return {
    async list() {
      const rows = await query((sql) =>
        sql`select id, name, is_complete from ${sql(schema)}.numbered_items order by id`.values(),
      )
      const items = rows.map(([id, name, isComplete]) => ({ id, name, isComplete, secret: null }))
      return toListRepresentation(serializeList(items))
    },
    async get(id) {
      const [row] = await query(
        (sql) => sql`select name, is_complete, version from ${sql(schema)}.numbered_items where id = ${id}`,
      )
      if (!row) return 'not-found'
      const json = serialize({ id, name: row.name, isComplete: row.is_complete, secret: null })
      return { json, etag: etagOf(row.version) }
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const [row] = await query(
        (sql) => sql<[{ id: string; version: string }]>`
          insert into ${sql(schema)}.numbered_items (name, is_complete)
          values (${name}, ${isComplete}) returning id, version`,
      )
      return {
        id: row.id,
        json: serialize({ id: row.id, name, isComplete, secret: null }),
        etag: etagOf(row.version),
      }
    },
    async update(id, { name, isComplete }, ifMatch) {
      if (!isStorable(name)) return 'unstorable'
      if (ifMatch) {
        const outcome = await changeIfMatch(
          id,
          ifMatch,
          (sql) => sql`
          update ${sql(schema)}.numbered_items set name = ${name}, is_complete = ${isComplete}, version = version + 1`,
        )
        return outcome === 'done' ? 'updated' : outcome
      }
      const { count } = await query(
        (sql) => sql`
          update ${sql(schema)}.numbered_items
          set name = ${name}, is_complete = ${isComplete}, version = version + 1 where id = ${id}`,
      )
      return count === 0 ? 'not-found' : 'updated'
    },
    async delete(id, ifMatch) {
      if (ifMatch) {
        const outcome = await changeIfMatch(id, ifMatch, (sql) => sql`delete from ${sql(schema)}.numbered_items`)
        return outcome === 'done' ? 'deleted' : outcome
      }
      const { count } = await query((sql) => sql`delete from ${sql(schema)}.numbered_items where id = ${id}`)
      return count === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNumbered)) return 'unstorable'
      await query((sql) => sql.begin((transaction) => replaceNumbered(transaction, schema, items)))
      return 'replaced'
    },
    async secretOf(id) {
      const [row] = await query((sql) => sql`select secret from ${sql(schema)}.numbered_items where id = ${id}`)
      return row?.secret
    },
  }
}

function namedStore({ query }: Pool, schema: string, { serialize, serializeList }: Serializers['b']): NamedStore {
  return {
    async list() {
      const rows = await query((sql) =>
        sql`select id, name, notes, done from ${sql(schema)}.named_items order by place`.values(),
      )
      const items = rows.map(([id, name, notes, done]) => ({ id, name, notes, done }))
      return toListRepresentation(serializeList(items))
    },
    async create(item) {
      const { id, name, notes, done } = item
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await query(
        (sql) => sql`
          insert into ${sql(schema)}.named_items (key, id, name, notes, done)
          values (${keyOf(id)}, ${id}, ${name}, ${notes}, ${done}) on conflict (key) do nothing`,
      )
      return count === 0 ? 'in-use' : { json: serialize(item) }
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await query(
        (sql) => sql`
          update ${sql(schema)}.named_items
          set name = ${name}, notes = ${notes}, done = ${done} where key = ${keyOf(id)}`,
      )
      return count === 0 ? 'not-found' : 'replaced'
    },
    async delete(id) {
      const { count } = await query((sql) => sql`delete from ${sql(schema)}.named_items where key = ${keyOf(id)}`)
      return count === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNamed)) return 'unstorable'
      await query((sql) => sql.begin((transaction) => replaceNamed(transaction, schema, items)))
      return 'replaced'
    },
  }
}

async function replaceNumbered(sql: TransactionSql, schema: string, items: readonly NumberedItem[], lastId = '0') {
  const table = sql`${sql(schema)}.numbered_items`
  await sql`lock table ${table} in exclusive mode`
  await sql`delete from ${table}`
  await sql`
    insert into ${table} (id, name, is_complete, secret)
    select id, name, "isComplete", secret
    from jsonb_to_recordset(${sql.json(items as never)}) as (id bigint, name text, "isComplete" boolean, secret text)`
  const highestId = items.reduce((max, { id }) => (BigInt(id) > max ? BigInt(id) : max), BigInt(lastId))
  await setNextValue(sql, schema, 'numbered_items', 'id', highestId)
}

async function replaceNamed(sql: TransactionSql, schema: string, items: readonly NamedItem[]) {
  const table = sql`${sql(schema)}.named_items`
  const rows = items.map((item, index) => ({ ...item, key: keyOf(item.id).toString('hex'), place: index + 1 }))
  await sql`lock table ${table} in exclusive mode`
  await sql`delete from ${table}`
  await sql`
    insert into ${table} (key, place, id, name, notes, done)
    select decode(key, 'hex'), place, id, name, notes, done
    from jsonb_to_recordset(${sql.json(rows as never)})
      as (key text, place bigint, id text, name text, notes text, done boolean)`
  await setNextValue(sql, schema, 'named_items', 'place', BigInt(rows.length))
}

/** In a transaction with a snapshot of its own (repeatable read). */
async function readAll(sql: TransactionSql, schema: string): Promise<Required<Snapshot>> {
  const numbered = await sql<NumberedItem[]>`
    select id, name, is_complete as "isComplete", secret from ${sql(schema)}.numbered_items order by id`
  const named = await sql<NamedItem[]>`select id, name, notes, done from ${sql(schema)}.named_items order by place`
  const [sequence] = await sql`
    select coalesce(max(last_value), 0) as "lastId" from pg_sequences
    where schemaname = ${schema} and sequencename = 'numbered_items_id_seq'`
  return { a: { items: [...numbered], lastId: `${sequence?.lastId}` }, b: { items: [...named] } }
}

/** The next value of an identity column is one more than `last`. */
const setNextValue = (sql: TransactionSql, schema: string, table: string, column: string, last: bigint) =>
  sql`select setval(pg_get_serial_sequence(${`${schema}.${table}`}, ${column}), ${`${last > 0n ? last : 1n}`}::bigint, ${last > 0n})`
