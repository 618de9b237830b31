import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import {
  defaultSpace,
  etagOf,
  type Full,
  highestId,
  type IfMatch,
  type ItemB,
  type ListRepresentation,
  type PersistentSpaces,
  type ReplaceOutcome,
  type Serializers,
  type Snapshot,
  type Snapshots,
  type StoreA,
  type StoreB,
  setRecent,
  startingStateOf,
  versionsIn,
} from '../store.ts'
import { CreateBatches } from './batches.ts'
import { findPrimary, selectIfSupported, statementTimeoutMs, withConnection } from './connection.ts'
import { isOutOfRange } from './errors.ts'
import { migrate } from './migrations.ts'
import { oneAtMost, Pool, type PoolOptions, type PreparedStatement, prepared, type SqlParameters } from './pool.ts'
import {
  deleteSpace,
  keyOf,
  listSpaces,
  readItems,
  replaceItems,
  rowTypes,
  type Tables,
  tablesOf,
  toRow,
} from './snapshots.ts'

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
export async function postgresSpaces(
  { schema, stop, ...options }: PostgresOptions,
  { a, b }: Serializers,
): Promise<PersistentSpaces> {
  const { database, notice, random } = options
  // Random, so that none is used twice, whatever was imported, reset or restored, by whichever instance.
  const newVersion = () => `${Math.floor(random() * 2 ** 53)}`
  const tables = tablesOf(schema)
  const replace = (client: Client, snapshots: Snapshots, deletesOthers = false) =>
    replaceItems(client, tables, snapshots, newVersion(), deletesOthers)
  const primary = await findPrimary(database, 0, stop)
  if (database.hosts.length > 1 && primary.timeline === 0)
    notice(
      `The server at ${primary.host.name}:${primary.host.port} cannot tell its timeline: a primary that was superseded is not recognized.`,
    )
  await withConnection(database, primary.host, openTimeoutMs, stop, async (client) => {
    const starting = { a: { items: a.startingItems, lastId: '0' }, b: { items: b.startingItems } }
    await migrate(client, schema, () => replace(client, new Map([[defaultSpace, starting]])))
    const setting = "(select setting from pg_settings where name = 'statement_timeout')"
    const timeoutMs = Number((await selectIfSupported(client, setting)) ?? statementTimeoutMs)
    if (timeoutMs === 0 || timeoutMs > statementTimeoutMs)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
  })
  const pool = new Pool(options, primary)

  /** Stores exactly these items, unless `isChanged` finds in the same transaction that they are not to be replaced. */
  async function replaceAll(
    snapshots: Snapshots,
    isChanged?: (client: Client) => Promise<boolean>,
    timeoutMs?: number,
    deletesOthers = false,
  ): Promise<ReplaceOutcome> {
    for (const { a, b } of snapshots.values()) {
      if (!(a?.items ?? []).every(({ name, secret }) => isStorable(name, secret))) return 'unstorable'
      if (!(b?.items ?? []).every(({ id, name, notes }) => isStorable(id, name, notes))) return 'unstorable'
    }
    return pool.transaction(async (client) => {
      if (await isChanged?.(client)) return 'changed'
      await replace(client, snapshots, deletesOthers)
      return 'replaced'
    }, timeoutMs)
  }

  const replaceIn = (space: string, snapshot: Snapshot, table: ItemTable, ifMatch: IfMatch) =>
    replaceAll(new Map([[space, snapshot]]), ifMatch && ((client) => table.isChanged(client, space, ifMatch)))
  const itemsOfA = numberedItems(pool, tables, a, newVersion)
  const itemsOfB = namedItems(pool, tables, b)
  return {
    space: (name) => ({
      a: {
        ...itemsOfA.store(name),
        replaceAll: (items, ifMatch) => replaceIn(name, { a: { items, lastId: '0' } }, itemsOfA.table, ifMatch),
      },
      b: {
        ...itemsOfB.store(name),
        replaceAll: (items, ifMatch) => replaceIn(name, { b: { items } }, itemsOfB.table, ifMatch),
      },
    }),
    listSpaces: () => pool.transaction((client) => listSpaces(client, tables)),
    deleteSpace: (name) => pool.transaction((client) => deleteSpace(client, tables, name)),
    exportItems: (name) => pool.transaction((client) => readItems(client, tables, name), moveTimeoutMs),
    importItems: (snapshots, deletesOthers) => replaceAll(snapshots, undefined, moveTimeoutMs, deletesOthers),
    close: () => pool.close(),
    ping: () => pool.query(ping),
  }
}

const ping = prepared('ping', 'select 1 as one', ['one'])

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

/** Longer lists are sent from one buffer, as long as they do not change: clients that read slowly share it. */
const minSharedLength = 64 * 1024
/** Buffers of the spaces whose lists were read last. */
const maxSharedLists = 100
const emptyList = '[]'

interface TableSettings {
  /** The name of the table. */
  readonly items: string
  readonly spaces: string
  /** The list of a space as one value. */
  readonly list: string
  /** Makes a space with the starting items, unless it exists. The first parameter is its name. */
  readonly make: string
  readonly makeParameters: SqlParameters
  /** The column of the table of spaces that is not null once the profile was written to. */
  readonly counter: string
  readonly starting: ReturnType<typeof startingStateOf>
}

/** The items of a profile in all spaces: their lists, and what a space is that was never written to. */
class ItemTable {
  readonly #pool: Pool
  readonly #settings: TableSettings
  readonly #list: PreparedStatement
  readonly #make: PreparedStatement
  readonly #isWrittenText: string
  readonly #isWritten: PreparedStatement
  /** By space: statements that are sent at the end of this turn of the event loop. */
  readonly #reading = new Map<string, Promise<ListRepresentation>>()
  readonly #shared = new Map<string, { readonly etag: string; readonly bytes: WeakRef<Buffer> }>()

  constructor(pool: Pool, settings: TableSettings) {
    const { spaces, list, make, counter } = settings
    this.#pool = pool
    this.#settings = settings
    this.#list = prepared('list', list, ['json'])
    this.#make = prepared('make_space', make)
    this.#isWrittenText = `select exists (select 1 from ${spaces} where space = $1 and ${counter} is not null) as found`
    this.#isWritten = prepared('find_space', this.#isWrittenText, ['found'])
  }

  /** Calls of one turn of the event loop share one statement, which is sent after all of them. */
  list(space: string): Promise<ListRepresentation> {
    let reading = this.#reading.get(space)
    if (!reading) {
      reading = new Promise((resolve) => {
        setImmediate(() => {
          this.#reading.delete(space)
          resolve(this.#represent(space))
        })
      })
      this.#reading.set(space, reading)
    }
    return reading
  }

  /** Whether the space has its own items. */
  async isWritten(space: string): Promise<boolean> {
    return space === defaultSpace || (await this.#pool.query(this.#isWritten, [space])).rows[0].found
  }

  /** Makes the space with its starting items, where it does not exist. */
  async make(space: string): Promise<void> {
    const { makeParameters, starting } = this.#settings
    await this.#pool.query(this.#make, [space, ...makeParameters], [0, starting.items.size])
  }

  async ensure(space: string): Promise<void> {
    if (!(await this.isWritten(space))) await this.make(space)
  }

  /**
   * Locks all items and compares the entity tag of their list. The list is read before: PostgreSQL has no timeout for a
   * client that does not read, and would keep the lock.
   */
  async isChanged(client: Client, space: string, ifMatch: readonly string[]): Promise<boolean> {
    const { items, spaces, list, make, makeParameters, counter } = this.#settings
    // It would lock the row of a space that exists.
    const { found } = (await client.query(this.#isWrittenText, [space])).rows[0]
    if (!found) await client.query(make, [space, ...makeParameters])
    const { json } = (await client.query(list, [space])).rows[0]
    if (!ifMatch.includes(listEtag(json))) return true
    await client.query(`update ${spaces} set ${counter} = ${counter} where space = $1`, [space])
    await client.query(`select count(*) from (select 1 from ${items} where space = $1 for update) as locked`, [space])
    const { rows } = await client.query(`select md5(json) as md5 from (${list}) as list`, [space])
    return rows[0].md5 !== createHash('md5').update(json).digest('hex')
  }

  /** The entity tag is a hash, so that all instances send the same one. */
  async #represent(space: string): Promise<ListRepresentation> {
    const json = await this.#read(space)
    const etag = listEtag(json)
    if (json.length < minSharedLength) return { json, etag }
    const last = this.#shared.get(space)
    const bytes = (last?.etag === etag && last.bytes.deref()) || Buffer.from(json)
    setRecent(this.#shared, space, { etag, bytes: new WeakRef(bytes) }, maxSharedLists)
    return { json: [bytes], etag }
  }

  async #read(space: string): Promise<string> {
    const { starting } = this.#settings
    const read = async () => (await this.#pool.query(this.#list, [space])).rows[0].json
    const json = await read()
    if (json !== emptyList || starting.items.size === 0 || space === defaultSpace) return json
    // Read again: the space may have been made after the first statement.
    return (await this.isWritten(space)) ? read() : starting.list
  }
}

const listEtag = (json: string) => `"${createHash('sha256').update(json).digest('base64url')}"`

/** The lists have the text that `serialize` makes, too: to_json() escapes as JSON.stringify() does. */
function numberedItems(
  pool: Pool,
  { spaces, a: items }: Tables,
  { startingItems, serialize }: Serializers['a'],
  newVersion: () => string,
) {
  const starting = startingStateOf({ startingItems, serialize })
  const table = new ItemTable(pool, {
    items,
    spaces,
    counter: 'last_id',
    starting,
    list: `select '[' || coalesce(string_agg('{"id":' || id || ',"name":' || coalesce(to_json(name)::text, 'null')
      || ',"isComplete":' || is_complete || '}', ',' order by id), '') || ']' as json from ${items} where space = $1`,
    make: `with made as (insert into ${spaces} as existing (space, last_id) values ($1, $2)
      on conflict (space) do update set last_id = excluded.last_id where existing.last_id is null returning space)
      insert into ${items} (space, id, name, is_complete, secret, version)
      select made.space, id, name, "isComplete", secret, $4::bigint
      from made, jsonb_to_recordset($3) as item (${rowTypes.a})`,
    makeParameters: [`${highestId(startingItems)}`, JSON.stringify(startingItems), starting.version],
  })
  const get = prepared(
    'get',
    `select name, is_complete, version from ${items} where space = $1 and id = $2`,
    ['name', 'is_complete', 'version'],
    oneAtMost,
  )
  const create = prepared(
    'create',
    `with counted as (update ${spaces} set last_id = last_id + $2::bigint
      where space = $1 and last_id is not null returning last_id)
      insert into ${items} (space, id, name, is_complete, version)
      select $1, last_id - $2::bigint + at, name, is_complete, version
      from counted, unnest($3::text[], $4::boolean[], $5::bigint[])
        with ordinality as item (name, is_complete, version, at)
      returning id`,
    ['id'],
  )
  const matches = 'space = $1 and id = $2 and ($3::bigint[] is null or version = any($3::bigint[]))'
  const update = prepared('update', `update ${items} set name = $4, is_complete = $5, version = $6 where ${matches}`)
  const remove = prepared('delete', `delete from ${items} where ${matches}`)
  const find = prepared('find', `select exists (select 1 from ${items} where space = $1 and id = $2) as found`, [
    'found',
  ])

  const batches = new CreateBatches<NewItemA, CreatedA>(pool, {
    keyOf: () => undefined,
    lengthOf: ({ name }) => name?.length ?? 0,
    async create(space, created) {
      const parameters = [
        space,
        created.length,
        created.map(({ name }) => name),
        created.map(({ isComplete }) => isComplete),
        created.map(({ version }) => version),
      ]
      // None only where the space does not exist.
      const count = created.length
      const rowCount = [space === defaultSpace ? count : 0, count] as const
      const { rows } = await pool.query(create, parameters, rowCount).catch((error: unknown) => {
        // A4: there is no next id.
        if (isOutOfRange(error) && created.length === 1) return { rows: ['item-limit'] }
        throw error
      })
      if (rows[0] === 'item-limit') return ['item-limit']
      if (rows.length > 0) {
        const first = rows.map(({ id }) => BigInt(id)).reduce((lowest, id) => (id < lowest ? id : lowest))
        return created.map((item, index) => represent(`${first + BigInt(index)}`, item))
      }
      await table.make(space)
      return this.create(space, created)
    },
  })

  function represent(id: string, { name, isComplete, version }: NewItemA) {
    return { id, json: serialize({ id, name, isComplete, secret: null }), etag: etagOf(version) }
  }

  /**
   * Changes the item that has the id and one of the entity tags. Where there is none, the reason is that of a later moment,
   * at which the request would have changed nothing, either: versions are never used again.
   */
  async function change(
    statement: PreparedStatement,
    space: string,
    id: string,
    ifMatch: IfMatch,
    fields: SqlParameters = [],
  ) {
    const parameters = [space, id, ifMatch ? `{${versionsIn(ifMatch)}}` : null, ...fields]
    const attempt = async () => (await pool.query(statement, parameters)).rowCount === 1
    if (await attempt()) return 'done'
    if (space !== defaultSpace && starting.items.has(id)) {
      if (!(await table.isWritten(space))) {
        if (ifMatch && !ifMatch.includes(etagOf(starting.version))) return 'changed'
        await table.make(space)
      }
      if (await attempt()) return 'done'
    }
    return ifMatch && (await pool.query(find, [space, id])).rows[0].found ? 'changed' : 'not-found'
  }

  const store = (space: string): Omit<StoreA, 'replaceAll'> => ({
    list: () => table.list(space),
    async get(id) {
      const read = async () => (await pool.query(get, [space, id])).rows[0]
      let row = await read()
      const json = starting.items.get(id)
      if (!row && json !== undefined && space !== defaultSpace) {
        if (!(await table.isWritten(space))) return { json, etag: etagOf(starting.version) }
        row = await read()
      }
      if (!row) return 'not-found'
      const item = { id, name: row.name, isComplete: row.is_complete, secret: null }
      return { json: serialize(item), etag: etagOf(row.version) }
    },
    create({ name, isComplete }) {
      return isStorable(name) ? batches.create(space, { name, isComplete, version: newVersion() }) : 'unstorable'
    },
    async update(id, { name, isComplete }, ifMatch) {
      if (!isStorable(name)) return 'unstorable'
      const version = newVersion()
      const outcome = await change(update, space, id, ifMatch, [name, isComplete, version])
      return outcome === 'done' ? { etag: etagOf(version) } : outcome
    },
    async delete(id, ifMatch) {
      const outcome = await change(remove, space, id, ifMatch)
      return outcome === 'done' ? 'deleted' : outcome
    },
  })
  return { table, store }
}

interface NewItemA {
  readonly name: string | null
  readonly isComplete: boolean
  readonly version: string
}

type CreatedA = Exclude<Awaited<ReturnType<StoreA['create']>>, 'unstorable'>

function namedItems(pool: Pool, { spaces, b: items }: Tables, { startingItems, serialize }: Serializers['b']) {
  const starting = startingStateOf({ startingItems, serialize })
  const table = new ItemTable(pool, {
    items,
    spaces,
    counter: 'last_place',
    starting,
    list: `select '[' || coalesce(string_agg('{"id":' || to_json(id) || ',"name":' || to_json(name) || ',"notes":'
      || to_json(notes) || ',"done":' || done || '}', ',' order by place), '') || ']' as json
      from ${items} where space = $1`,
    make: `with made as (insert into ${spaces} as existing (space, last_place) values ($1, $2)
      on conflict (space) do update set last_place = excluded.last_place where existing.last_place is null
      returning space)
      insert into ${items} (space, key, place, id, name, notes, done)
      select made.space, decode(key, 'hex'), place, id, name, notes, done
      from made, jsonb_to_recordset($3) as item (${rowTypes.b})`,
    makeParameters: [
      `${startingItems.length}`,
      JSON.stringify(startingItems.map((item, index) => toRow(item, BigInt(index + 1)))),
    ],
  })
  const create = prepared(
    'create',
    `with counted as (update ${spaces} set last_place = last_place + $2::bigint
      where space = $1 and last_place is not null returning last_place)
      insert into ${items} (space, key, place, id, name, notes, done)
      select $1, key, last_place - $2::bigint + at, id, name, notes, done
      from counted, unnest($3::bytea[], $4::text[], $5::text[], $6::text[], $7::boolean[])
        with ordinality as item (key, id, name, notes, done, at)
      on conflict (space, key) do nothing
      returning key`,
    ['key'],
  )
  const replace = prepared(
    'replace',
    `update ${items} set name = $3, notes = $4, done = $5 where space = $1 and key = $2`,
  )
  const remove = prepared('delete', `delete from ${items} where space = $1 and key = $2`)

  const batches = new CreateBatches<ItemB, CreatedB>(pool, {
    keyOf: ({ id }) => id,
    lengthOf: ({ id, name, notes }) => id.length + name.length + notes.length,
    async create(space, created) {
      const keys = created.map(({ id }) => keyOf(id))
      const attempt = () =>
        pool.query(
          create,
          [
            space,
            created.length,
            keys,
            created.map(({ id }) => id),
            created.map(({ name }) => name),
            created.map(({ notes }) => notes),
            created.map(({ done }) => done),
          ],
          [0, created.length],
        )
      let { rows } = await attempt()
      // All ids are in use, or the space did not exist.
      if (rows.length === 0 && space !== defaultSpace) {
        await table.ensure(space)
        rows = (await attempt()).rows
      }
      return created.map((item, index) =>
        rows.some(({ key }) => keys[index]?.equals(key)) ? { json: serialize(item) } : 'in-use',
      )
    },
  })

  /** Changes the item that has the id. */
  async function change(statement: PreparedStatement, space: string, id: string, fields: SqlParameters = []) {
    const attempt = async () => (await pool.query(statement, [space, keyOf(id), ...fields])).rowCount === 1
    if (await attempt()) return true
    if (space === defaultSpace || !starting.items.has(id)) return false
    await table.ensure(space)
    return attempt()
  }

  const store = (space: string): Omit<StoreB, 'replaceAll'> => ({
    list: () => table.list(space),
    create(item) {
      return isStorable(item.id, item.name, item.notes) ? batches.create(space, item) : 'unstorable'
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      return (await change(replace, space, id, [name, notes, done])) ? 'replaced' : 'not-found'
    },
    async delete(id) {
      return (await change(remove, space, id)) ? 'deleted' : 'not-found'
    },
  })
  return { table, store }
}

type CreatedB = Exclude<Awaited<ReturnType<StoreB['create']>>, 'unstorable' | Full>
