import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import {
  etagOf,
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  type ListRepresentation,
  type PersistentStores,
  type ReplaceOutcome,
  type Serializers,
  type Snapshot,
  type StoreA,
  type StoreB,
  versionsIn,
} from '../store.ts'
import { findPrimary, selectIfSupported, statementTimeoutMs, withConnection } from './connection.ts'
import { sqlStateOf } from './errors.ts'
import { migrate } from './migrations.ts'
import { Pool, type PoolOptions, type PreparedStatement, prepared, type SqlParameters } from './pool.ts'

export { describeDatabaseError } from './errors.ts'

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
  const tables = tablesOf(schema)
  const replace = (client: Client, snapshot: Snapshot) => replaceItems(client, tables, snapshot, newVersion())
  const primary = await findPrimary(database, 0, stop)
  if (database.hosts.length > 1 && primary.timeline === 0)
    notice(
      `The server at ${primary.host.name}:${primary.host.port} cannot tell its timeline: a primary that was superseded is not recognized.`,
    )
  await withConnection(database, primary.host, openTimeoutMs, stop, async (client) => {
    await migrate(client, schema, () =>
      replace(client, { a: { items: a.startingItems, lastId: '0' }, b: { items: b.startingItems } }),
    )
    const setting = "(select setting from pg_settings where name = 'statement_timeout')"
    const timeoutMs = Number((await selectIfSupported(client, setting)) ?? statementTimeoutMs)
    if (timeoutMs === 0 || timeoutMs > statementTimeoutMs)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
  })
  const pool = new Pool(options, primary)

  async function replaceAll(
    snapshot: Snapshot,
    isChanged: (client: Client) => Promise<boolean>,
    timeoutMs?: number,
  ): Promise<ReplaceOutcome> {
    const texts = [
      ...(snapshot.a?.items ?? []).flatMap(({ name, secret }) => [name, secret]),
      ...(snapshot.b?.items ?? []).flatMap(({ id, name, notes }) => [id, name, notes]),
    ]
    if (!texts.every((text) => isStorable(text))) return 'unstorable'
    return pool.transaction(async (client) => {
      if (await isChanged(client)) return 'changed'
      await replace(client, snapshot)
      return 'replaced'
    }, timeoutMs)
  }

  /**
   * Locks all items and compares the entity tag of their list. The list is read before: PostgreSQL has no timeout for a
   * client that does not read, and would keep the lock.
   */
  const changeFinder = (table: string, listText: string, ifMatch: IfMatch) => async (client: Client) => {
    if (!ifMatch) return false
    const { json } = (await client.query(listText)).rows[0]
    if (!ifMatch.includes(listEtag(json))) return true
    await lockOutCreates(client, tables)
    await client.query(`select count(*) from (select 1 from ${table} for update) as locked`)
    const { rows } = await client.query(`select md5(json) as md5 from (${listText}) as list`)
    return rows[0].md5 !== createHash('md5').update(json).digest('hex')
  }

  return {
    a: {
      ...createStoreA(pool, tables, a, newVersion),
      replaceAll: (items, ifMatch) =>
        replaceAll({ a: { items, lastId: '0' } }, changeFinder(tables.numbered, numberedList(tables), ifMatch)),
    },
    b: {
      ...createStoreB(pool, tables, b),
      replaceAll: (items, ifMatch) =>
        replaceAll({ b: { items } }, changeFinder(tables.named, namedList(tables), ifMatch)),
    },
    exportItems: () => pool.transaction((client) => readItems(client, tables), moveTimeoutMs),
    importItems: (snapshot) => replaceAll(snapshot, async () => false, moveTimeoutMs),
    close: () => pool.close(),
    ping: () => pool.query(ping),
  }
}

const ping = prepared('ping', 'select 1 as one', { columns: ['one'] })

const tablesOf = (schema: string) => ({
  numbered: `"${schema}".numbered_items`,
  named: `"${schema}".named_items`,
  version: `"${schema}".version`,
})

type Tables = ReturnType<typeof tablesOf>

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

/** Primary key of an item of profile B: its id can be longer than an index entry allows. */
const keyOf = (id: string) => createHash('sha256').update(id).digest()

/**
 * The row that replacing all items updates and creating one locks for share, so that these come one after the other, on
 * whichever instances. Where a database locks nothing for share, it reports the conflict.
 */
const lockRow = 'version = 1'

/** Longer lists are sent from one buffer, as long as they do not change: clients that read slowly share it. */
const minSharedLength = 64 * 1024

/**
 * The JSON of a list as one value. The entity tag is its hash, so that all instances send the same one. Calls of one turn
 * of the event loop share one statement, which is sent after all of them.
 */
function listReader(pool: Pool, statement: PreparedStatement): () => Promise<ListRepresentation> {
  let last: { readonly etag: string; readonly bytes: WeakRef<Buffer> } | undefined
  let shared: Promise<ListRepresentation> | undefined
  async function read(): Promise<ListRepresentation> {
    const json: string = (await pool.query(statement)).rows[0].json
    const etag = listEtag(json)
    if (json.length < minSharedLength) return { json, etag }
    const bytes = (last?.etag === etag && last.bytes.deref()) || Buffer.from(json)
    last = { etag, bytes: new WeakRef(bytes) }
    return { json: [bytes], etag }
  }
  return () => {
    shared ??= new Promise((resolve) => {
      setImmediate(() => {
        shared = undefined
        resolve(read())
      })
    })
    return shared
  }
}

const listEtag = (json: string) => `"${createHash('sha256').update(json).digest('base64url')}"`

const numberedList = ({ numbered }: Tables) => `
  select '[' || coalesce(string_agg('{"id":' || id || ',"name":' || coalesce(to_json(name)::text, 'null')
    || ',"isComplete":' || is_complete || '}', ',' order by id), '') || ']' as json from ${numbered}`

const namedList = ({ named }: Tables) => `
  select '[' || coalesce(string_agg('{"id":' || to_json(id) || ',"name":' || to_json(name) || ',"notes":'
    || to_json(notes) || ',"done":' || done || '}', ',' order by place), '') || ']' as json from ${named}`

/** SQLSTATE */
const uniqueViolation = '23505'

/** The lists have the text that `serialize` makes, too: to_json() escapes as JSON.stringify() does. */
function createStoreA(
  pool: Pool,
  tables: Tables,
  { serialize }: Serializers['a'],
  newVersion: () => string,
): Omit<StoreA, 'replaceAll'> {
  const { numbered: table, version: versions } = tables
  const list = prepared('list_numbered', numberedList(tables), { columns: ['json'] })
  const get = prepared('get_numbered', `select name, is_complete, version from ${table} where id = $1`, {
    columns: ['name', 'is_complete', 'version'],
    isOptional: true,
  })
  const create = prepared(
    'create_numbered',
    `insert into ${table} (name, is_complete, version) select $1::text, $2::boolean, $3::bigint
    from ${versions} where ${lockRow} for share returning id`,
    { columns: ['id'] },
  )
  const matches = 'id = $1 and ($2::bigint[] is null or version = any($2::bigint[]))'
  const update = prepared(
    'update_numbered',
    `update ${table} set name = $3, is_complete = $4, version = $5 where ${matches}`,
  )
  const remove = prepared('delete_numbered', `delete from ${table} where ${matches}`)
  const find = prepared('find_numbered', `select exists (select 1 from ${table} where id = $1) as found`, {
    columns: ['found'],
  })

  /**
   * Changes the item that has the id and one of the entity tags. Where there is none, the reason is that of a later moment,
   * at which the request would have changed nothing, either: versions are never used again.
   */
  async function change(statement: PreparedStatement, id: string, ifMatch: IfMatch, fields: SqlParameters = []) {
    const versions = ifMatch ? `{${versionsIn(ifMatch)}}` : null
    const { rowCount } = await pool.query(statement, [id, versions, ...fields])
    if (rowCount === 1) return 'done'
    return ifMatch && (await pool.query(find, [id])).rows[0].found ? 'changed' : 'not-found'
  }

  return {
    list: listReader(pool, list),
    async get(id) {
      const [row] = (await pool.query(get, [id])).rows
      if (!row) return 'not-found'
      const json = serialize({ id, name: row.name, isComplete: row.is_complete, secret: null })
      return { json, etag: etagOf(row.version) }
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const version = newVersion()
      const parameters = [name, isComplete, version]
      const { rows } = await pool.query(create, parameters).catch(async (error: unknown) => {
        if (sqlStateOf(error) !== uniqueViolation) throw error
        await pool.transaction((client) => raiseSequence(client, tables))
        return pool.query(create, parameters)
      })
      const { id } = rows[0]
      return { id, json: serialize({ id, name, isComplete, secret: null }), etag: etagOf(version) }
    },
    async update(id, { name, isComplete }, ifMatch) {
      if (!isStorable(name)) return 'unstorable'
      const version = newVersion()
      const outcome = await change(update, id, ifMatch, [name, isComplete, version])
      return outcome === 'done' ? { etag: etagOf(version) } : outcome
    },
    async delete(id, ifMatch) {
      const outcome = await change(remove, id, ifMatch)
      return outcome === 'done' ? 'deleted' : outcome
    },
  }
}

function createStoreB(pool: Pool, tables: Tables, { serialize }: Serializers['b']): Omit<StoreB, 'replaceAll'> {
  const { named: table, version: versions } = tables
  const list = prepared('list_named', namedList(tables), { columns: ['json'] })
  const create = prepared(
    'create_named',
    `insert into ${table} (key, id, name, notes, done)
    select $1::bytea, $2::text, $3::text, $4::text, $5::boolean from ${versions} where ${lockRow} for share
    on conflict (key) do nothing`,
  )
  const replace = prepared('replace_named', `update ${table} set name = $2, notes = $3, done = $4 where key = $1`)
  const remove = prepared('delete_named', `delete from ${table} where key = $1`)

  return {
    list: listReader(pool, list),
    async create(item) {
      const { id, name, notes, done } = item
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { rowCount } = await pool.query(create, [keyOf(id), id, name, notes, done])
      return rowCount === 0 ? 'in-use' : { json: serialize(item) }
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { rowCount } = await pool.query(replace, [keyOf(id), name, notes, done])
      return rowCount === 0 ? 'not-found' : 'replaced'
    },
    async delete(id) {
      const { rowCount } = await pool.query(remove, [keyOf(id)])
      return rowCount === 0 ? 'not-found' : 'deleted'
    },
  }
}

/**
 * Moves the sequence of ids behind the highest one. It is lower after a replacement whose connection was lost before the
 * commit: `setval` is not undone with its transaction.
 */
async function raiseSequence(client: Client, tables: Tables): Promise<void> {
  const { numbered } = tables
  await lockOutCreates(client, tables)
  const sequence = await sequenceOf(client, tables)
  await client.query(
    `select setval($1, max(id)) from ${numbered} having max(id) > (select last_value from ${sequence})`,
    [sequence],
  )
}

/** Until the end of the transaction. */
const lockOutCreates = (client: Client, { version }: Tables) =>
  client.query(`update ${version} set version = version where ${lockRow}`)

async function sequenceOf(client: Client, { numbered }: Tables): Promise<string> {
  return (await client.query("select pg_get_serial_sequence($1, 'id') as name", [numbered])).rows[0].name
}

/** Exactly the items of the snapshot. A profile that it lacks stays as it is. Items that stay are updated, never deleted. */
async function replaceItems(client: Client, tables: Tables, { a, b }: Snapshot, version: string): Promise<void> {
  const { numbered, named } = tables
  await lockOutCreates(client, tables)
  if (a) {
    for (const json of jsonBatches(a.items))
      await client.query(
        `insert into ${numbered} (id, name, is_complete, secret, version)
        select id, name, "isComplete", secret, $2
        from jsonb_to_recordset($1) as new (id bigint, name text, "isComplete" boolean, secret text)
        on conflict (id) do update set name = excluded.name, is_complete = excluded.is_complete,
          secret = excluded.secret, version = excluded.version`,
        [json, version],
      )
    await client.query(`delete from ${numbered} where version <> $1`, [version])
    const lastId = highestId(a.items, a.lastId)
    const hasIds = lastId > 0n
    await client.query("select setval(pg_get_serial_sequence($1, 'id'), $2::bigint, $3)", [
      numbered,
      `${hasIds ? lastId : 1n}`,
      hasIds,
    ])
  }
  if (b) {
    // Places below all others, and those that the sequence assigns: what is created later comes last.
    const { rows } = await client.query(`select least(min(place), 1) as place from ${named}`)
    const end = BigInt(rows[0].place)
    const first = end - BigInt(b.items.length)
    const placed = b.items.map((item, index) => ({
      ...item,
      key: keyOf(item.id).toString('hex'),
      place: `${first + BigInt(index)}`,
    }))
    for (const json of jsonBatches(placed))
      await client.query(
        `insert into ${named} (key, place, id, name, notes, done)
        select decode(key, 'hex'), place, id, name, notes, done
        from jsonb_to_recordset($1) as new (key text, place bigint, id text, name text, notes text, done boolean)
        on conflict (key) do update set place = excluded.place, name = excluded.name, notes = excluded.notes,
          done = excluded.done`,
        [json],
      )
    await client.query(`delete from ${named} where place >= $1`, [`${end}`])
  }
}

/** PostgreSQL ends a transaction while it waits for a long statement: many items are sent in several. */
const batchLength = 2 ** 20

/** JSON arrays of the items. */
function* jsonBatches(items: readonly object[]): Iterable<string> {
  let batch: string[] = []
  let length = 0
  for (const item of items) {
    const json = JSON.stringify(item)
    batch.push(json)
    length += json.length
    if (length < batchLength) continue
    yield `[${batch}]`
    batch = []
    length = 0
  }
  if (batch.length > 0) yield `[${batch}]`
}

async function readItems(client: Client, tables: Tables): Promise<Required<Snapshot>> {
  const { numbered, named } = tables
  await client.query('set transaction isolation level repeatable read, read only')
  const a = await client.query<ItemA>(
    `select id, name, is_complete as "isComplete", secret from ${numbered} order by id`,
  )
  const b = await client.query<ItemB>(`select id, name, notes, done from ${named} order by place`)
  const last = await client.query(`select last_value, is_called from ${await sequenceOf(client, tables)}`)
  const { last_value: lastId, is_called: isAssigned } = last.rows[0]
  return { a: { items: a.rows, lastId: isAssigned ? `${lastId}` : '0' }, b: { items: b.rows } }
}
