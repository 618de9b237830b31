import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import {
  highestId,
  type ItemA,
  type ItemB,
  type ListRepresentation,
  type PersistentStores,
  type Serializers,
  type Snapshot,
  type StoreA,
  type StoreB,
} from '../store.ts'
import { findPrimary, statementTimeoutMs, withConnection } from './connection.ts'
import { keyOf, migrate } from './migrations.ts'
import { createPool, type Parameters, type Pool, type PoolOptions, type Statement } from './pool.ts'

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
  const { database, notice, random } = options
  // Random, so that none is used twice, whatever was imported, reset or restored, by whichever instance.
  const newVersion = () => `${Math.floor(random() * 2 ** 53)}`
  const primary = await findPrimary(database, 0, stop)
  await withConnection(database, primary.host, openTimeoutMs, stop, async (client) => {
    await migrate(client, schema, { a: a.startingItems, b: b.startingItems, version: newVersion() })
    const { rows } = await client.query("select setting from pg_settings where name = 'statement_timeout'")
    const isInForce = rows[0]?.setting > 0 && rows[0]?.setting <= statementTimeoutMs
    if (rows[0] && !isInForce)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
  })
  const pool = createPool(options, primary)
  const tables = { a: `"${schema}".numbered_items`, b: `"${schema}".named_items` }
  return {
    a: createStoreA(pool, tables.a, a, newVersion),
    b: createStoreB(pool, tables.b, b),
    exportItems: () =>
      pool.transaction(async (client) => {
        await client.query('set transaction isolation level repeatable read, read only')
        return { a: await readNumbered(client, tables.a), b: await readNamed(client, tables.b) }
      }, moveTimeoutMs),
    async importItems(snapshot) {
      const { a: numbered, b: named } = snapshot
      if (!(numbered?.items ?? []).every(isStorableNumbered) || !(named?.items ?? []).every(isStorableNamed))
        return 'unstorable'
      await pool.transaction(async (client) => {
        if (numbered) await replaceNumbered(client, tables.a, numbered.items, newVersion(), numbered.lastId)
        if (named) await replaceNamed(client, tables.b, named.items)
      }, moveTimeoutMs)
      return 'imported'
    },
    close: pool.close,
    ping: () => pool.query({ name: 'ping', text: 'select 1 as one', command: 'SELECT', columns: ['one'] }),
  }
}

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

const isStorableNumbered = ({ name, secret }: ItemA) => isStorable(name, secret)
const isStorableNamed = ({ id, name, notes }: ItemB) => isStorable(id, name, notes)

/** Longer lists are sent from one buffer, as long as they do not change: clients that read slowly share it. */
const minSharedLength = 64 * 1024

/** The JSON of a list as one value. The entity tag is its hash, so that all instances send the same one. */
function listReader({ query }: Pool, statement: Statement): () => Promise<ListRepresentation> {
  let last: { readonly etag: string; readonly bytes: WeakRef<Buffer> } | undefined
  return async () => {
    const json: string = (await query(statement)).rows[0].json
    const etag = `"${createHash('sha256').update(json).digest('base64url')}"`
    if (json.length < minSharedLength) return { json, etag }
    const bytes = (last?.etag === etag && last.bytes.deref()) || Buffer.from(json)
    last = { etag, bytes: new WeakRef(bytes) }
    return { json: [bytes], etag }
  }
}

const etagOf = (version: string) => `"${version}"`

/** The versions in entity tags, as a PostgreSQL array literal. */
const versionsIn = (etags: readonly string[]) =>
  `{${etags.flatMap((etag) => /^"(\d{1,18})"$/.exec(etag)?.[1] ?? []).join(',')}}`

/** The lists have the text that `serialize` makes, too: to_json() escapes as JSON.stringify() does. */
function createStoreA(pool: Pool, table: string, { serialize }: Serializers['a'], newVersion: () => string): StoreA {
  const { query } = pool
  const list: Statement = {
    name: 'list_numbered',
    command: 'SELECT',
    columns: ['json'],
    text: `
      select '[' || coalesce(string_agg('{"id":' || id || ',"name":' || coalesce(to_json(name)::text, 'null')
        || ',"isComplete":' || is_complete || '}', ',' order by id), '') || ']' as json from ${table}`,
  }
  const get: Statement = {
    name: 'get_numbered',
    command: 'SELECT',
    columns: ['name', 'is_complete', 'version'],
    isOptional: true,
    text: `select name, is_complete, version from ${table} where id = $1`,
  }
  const create: Statement = {
    name: 'create_numbered',
    command: 'INSERT',
    columns: ['id'],
    text: `insert into ${table} (name, is_complete, version) values ($1, $2, $3) returning id`,
  }
  const update: Statement = {
    name: 'update_numbered',
    command: 'UPDATE',
    text: `update ${table} set name = $2, is_complete = $3, version = $4 where id = $1`,
  }
  const remove: Statement = {
    name: 'delete_numbered',
    command: 'DELETE',
    text: `delete from ${table} where id = $1`,
  }
  /** One statement, so that existence and version are read in the same snapshot. */
  const ifMatch = ({ name, text }: Statement, versions: string): Statement => ({
    name: `${name}_if_match`,
    command: 'SELECT',
    columns: ['exists', 'changed'],
    text: `
      with item as (select 1 from ${table} where id = $1),
      changed as (${text} and version = any(${versions}::bigint[]) returning 1)
      select exists (select 1 from item) as exists, exists (select 1 from changed) as changed`,
  })
  const updateIfMatch = ifMatch(update, '$5')
  const removeIfMatch = ifMatch(remove, '$2')

  async function changeIfMatch<Done>(statement: Statement, parameters: Parameters, done: Done) {
    const { rows } = await query(statement, parameters)
    return rows[0].changed ? done : rows[0].exists ? 'changed' : 'not-found'
  }

  return {
    list: listReader(pool, list),
    async get(id) {
      const [row] = (await query(get, [id])).rows
      if (!row) return 'not-found'
      const json = serialize({ id, name: row.name, isComplete: row.is_complete, secret: null })
      return { json, etag: etagOf(row.version) }
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const version = newVersion()
      const { id } = (await query(create, [name, isComplete, version])).rows[0]
      return { id, json: serialize({ id, name, isComplete, secret: null }), etag: etagOf(version) }
    },
    async update(id, { name, isComplete }, etags) {
      if (!isStorable(name)) return 'unstorable'
      const parameters = [id, name, isComplete, newVersion()]
      if (etags) return changeIfMatch(updateIfMatch, [...parameters, versionsIn(etags)], 'updated' as const)
      const { rowCount } = await query(update, parameters)
      return rowCount === 0 ? 'not-found' : 'updated'
    },
    async delete(id, etags) {
      if (etags) return changeIfMatch(removeIfMatch, [id, versionsIn(etags)], 'deleted' as const)
      const { rowCount } = await query(remove, [id])
      return rowCount === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNumbered)) return 'unstorable'
      await pool.transaction((client) => replaceNumbered(client, table, items, newVersion()))
      return 'replaced'
    },
  }
}

function createStoreB(pool: Pool, table: string, { serialize }: Serializers['b']): StoreB {
  const { query } = pool
  const list: Statement = {
    name: 'list_named',
    command: 'SELECT',
    columns: ['json'],
    text: `
      select '[' || coalesce(string_agg('{"id":' || to_json(id) || ',"name":' || to_json(name) || ',"notes":'
        || to_json(notes) || ',"done":' || done || '}', ',' order by place), '') || ']' as json from ${table}`,
  }
  const create: Statement = {
    name: 'create_named',
    command: 'INSERT',
    text: `
      insert into ${table} (key, id, name, notes, done) values ($1, $2, $3, $4, $5) on conflict (key) do nothing`,
  }
  const replace: Statement = {
    name: 'replace_named',
    command: 'UPDATE',
    text: `update ${table} set name = $2, notes = $3, done = $4 where key = $1`,
  }
  const remove: Statement = {
    name: 'delete_named',
    command: 'DELETE',
    text: `delete from ${table} where key = $1`,
  }

  return {
    list: listReader(pool, list),
    async create(item) {
      const { id, name, notes, done } = item
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { rowCount } = await query(create, [keyOf(id), id, name, notes, done])
      return rowCount === 0 ? 'in-use' : { json: serialize(item) }
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { rowCount } = await query(replace, [keyOf(id), name, notes, done])
      return rowCount === 0 ? 'not-found' : 'replaced'
    },
    async delete(id) {
      const { rowCount } = await query(remove, [keyOf(id)])
      return rowCount === 0 ? 'not-found' : 'deleted'
    },
    async replaceAll(items) {
      if (!items.every(isStorableNamed)) return 'unstorable'
      await pool.transaction((client) => replaceNamed(client, table, items))
      return 'replaced'
    },
  }
}

async function replaceNumbered(
  client: Client,
  table: string,
  items: readonly ItemA[],
  version: string,
  lastId?: string,
) {
  await clear(client, table)
  await client.query(
    `insert into ${table} (id, name, is_complete, secret, version)
    select id, name, "isComplete", secret, $2
    from jsonb_to_recordset($1) as (id bigint, name text, "isComplete" boolean, secret text)`,
    [JSON.stringify(items), version],
  )
  await setNextValue(client, table, 'id', highestId(items, lastId))
}

async function replaceNamed(client: Client, table: string, items: readonly ItemB[]): Promise<void> {
  const rows = items.map((item, index) => ({ ...item, key: keyOf(item.id).toString('hex'), place: index + 1 }))
  await clear(client, table)
  await client.query(
    `insert into ${table} (key, place, id, name, notes, done)
    select decode(key, 'hex'), place, id, name, notes, done
    from jsonb_to_recordset($1) as (key text, place bigint, id text, name text, notes text, done boolean)`,
    [JSON.stringify(rows)],
  )
  await setNextValue(client, table, 'place', BigInt(rows.length))
}

async function readNumbered(client: Client, table: string): Promise<NonNullable<Snapshot['a']>> {
  const { rows: items } = await client.query<ItemA>(
    `select id, name, is_complete as "isComplete", secret from ${table} order by id`,
  )
  const { rows } = await client.query(
    `select coalesce(last_value, 0) as "lastId" from pg_sequences
    where format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence($1, 'id')`,
    [table],
  )
  return { items, lastId: `${rows[0]?.lastId ?? 0}` }
}

async function readNamed(client: Client, table: string): Promise<NonNullable<Snapshot['b']>> {
  const { rows: items } = await client.query<ItemB>(`select id, name, notes, done from ${table} order by place`)
  return { items }
}

/** Locked, so that no item is created meanwhile. */
async function clear(client: Client, table: string): Promise<void> {
  await client.query(`lock table ${table} in exclusive mode`)
  await client.query(`delete from ${table}`)
}

/** The next value of an identity column is one more than `last`. */
const setNextValue = (client: Client, table: string, column: string, last: bigint) =>
  client.query('select setval(pg_get_serial_sequence($1, $2), $3::bigint, $4)', [
    table,
    column,
    `${last > 0n ? last : 1n}`,
    last > 0n,
  ])
