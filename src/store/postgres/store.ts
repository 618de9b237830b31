import { createHash } from 'node:crypto'
import type { Client, QueryResult } from 'pg'
import {
  hashEtag,
  joinParts,
  KnownLists,
  ListReads,
  LongReads,
  lengthOf,
  maxWholeBytes,
  partBytes,
} from '../list-reads.ts'
import {
  defaultSpace,
  etagOf,
  highestId,
  type IfMatch,
  type ItemB,
  type ListRepresentation,
  type PersistentSpaces,
  type Reader,
  type ReplaceOutcome,
  type Serializers,
  type Snapshot,
  type Snapshots,
  type StoreA,
  type StoreB,
  startingStateOf,
  versionsIn,
} from '../store.ts'
import { createBatches } from './batches.ts'
import { findPrimary, selectIfSupported, statementTimeoutMs, withConnection } from './connection.ts'
import { isOutOfRange } from './errors.ts'
import { findTables, migrate, moveTimeoutMs, prepareTables, tablesVersion } from './migrations.ts'
import { oneAtMost, Pool, type PoolOptions, type PreparedStatement, prepared, type SqlParameters } from './pool.ts'
import {
  deleteSpace,
  keyOf,
  listSpaces,
  onlyRead,
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
  /** Whether tables of an older version are migrated, rather than refused. */
  readonly migrates?: boolean
  /** Cancels opening the stores. */
  readonly stop: AbortSignal
}

/** Connecting, and making the tables. */
const openTimeoutMs = 15_000

/** Items in PostgreSQL, for any number of instances. Throws when the database cannot be used. */
export async function postgresSpaces(
  { schema, migrates = false, stop, ...options }: PostgresOptions,
  { a, b }: Serializers,
): Promise<PersistentSpaces> {
  const { database, notice, random } = options
  // Random, so that none is used twice, whatever was imported, reset or restored, by whichever instance.
  const newVersion = () => `${Math.floor(random() * 2 ** 53)}`
  const tables = tablesOf((name) => `"${schema}".${name}`)
  const replace = (client: Client, snapshots: Snapshots, deletesOthers = false) =>
    replaceItems(client, tables, snapshots, newVersion(), deletesOthers)
  const primary = await findPrimary(database, 0, stop)
  if (database.hosts.length > 1 && primary.timeline === 0)
    notice(
      `The server at ${primary.host.name}:${primary.host.port} cannot tell its timeline: a primary that was superseded is not recognized.`,
    )
  const found = await withConnection(database, primary.host, openTimeoutMs, stop, async (client) => {
    const starting = { a: { items: a.startingItems, lastId: '0' }, b: { items: b.startingItems } }
    const insertStartingItems = () => replace(client, new Map([[defaultSpace, starting]]))
    const found = await prepareTables(client, schema, insertStartingItems, migrates)
    const setting = "(select setting from pg_settings where name = 'statement_timeout')"
    const timeoutMs = Number((await selectIfSupported(client, setting)) ?? statementTimeoutMs)
    if (timeoutMs === 0 || timeoutMs > statementTimeoutMs)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
    return found
  })
  if (found === 'old')
    await withConnection(database, primary.host, moveTimeoutMs, stop, (client) => migrate(client, schema))
  const pool = new Pool(options, primary, tablesVersion(schema))

  const replaceAll: TableContext['replaceAll'] = async (snapshots, isChanged, timeoutMs, deletesOthers) => {
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

  const context = { pool, tables, longReads: new LongReads(), newVersion, replaceAll }
  const itemsOfA = numberedItems(context, a)
  const itemsOfB = namedItems(context, b)
  return {
    space: (name) => ({ a: itemsOfA(name), b: itemsOfB(name) }),
    listSpaces: () => pool.transaction((client) => listSpaces(client, tables)),
    deleteSpace: (name) => pool.transaction((client) => deleteSpace(client, tables, name)),
    importItems: (snapshots, deletesOthers) => replaceAll(snapshots, undefined, moveTimeoutMs, deletesOthers),
    close: () => pool.close(),
    ping: () => pool.check(),
  }
}

/** The items of this space, or of all, in tables of any version, which stay as they are. */
export async function exportItems({ schema, stop, ...options }: PostgresOptions, space: string | undefined) {
  const pool = new Pool(options, await findPrimary(options.database, 0, stop))
  try {
    return await pool.transaction(async (client) => {
      await onlyRead(client)
      return readItems(client, await findTables(client, schema), space)
    }, moveTimeoutMs)
  } finally {
    await pool.close()
  }
}

/** PostgreSQL's text type cannot hold U+0000. */
const isStorable = (...texts: (string | null)[]) => !texts.some((text) => text?.includes('\0'))

/** Longer lists are sent from the same buffers, as long as they do not change: clients that read slowly share them. */
const minSharedBytes = 64 * 1024
const emptyList = '[]'

interface TableContext {
  readonly pool: Pool
  readonly tables: Tables
  readonly longReads: LongReads
  newVersion(): string
  /** Stores exactly these items, unless `isChanged` finds in the same transaction that they are not to be replaced. */
  replaceAll(
    snapshots: Snapshots,
    isChanged: ((client: Client) => Promise<boolean>) | undefined,
    timeoutMs?: number,
    deletesOthers?: boolean,
  ): Promise<ReplaceOutcome>
}

interface TableSettings {
  readonly profile: 'a' | 'b'
  /** The column by which lists are ordered. */
  readonly order: 'id' | 'place'
  /** An item of a list, with the text that `serialize` makes, too: to_json() escapes as JSON.stringify() does. */
  readonly json: string
  /** About the bytes of that. */
  readonly length: string
  /** Inserts the starting items, $3, into the space `made`. */
  readonly insert: string
  /** The last id or place, the starting items, and what else `insert` needs. */
  readonly startingRows: SqlParameters
  readonly starting: ReturnType<typeof startingStateOf>
}

/** The items of a profile in all spaces: their lists, and what a space is that was never written to. */
function itemTable(
  { pool, tables, longReads, replaceAll }: TableContext,
  { profile, order, json, length, insert, startingRows, starting }: TableSettings,
) {
  const { spaces, [profile]: items } = tables
  // It is not null once the profile was written to.
  const last = `last_${order}`
  const selectList = prepared(
    'list',
    `select '[' || coalesce(string_agg(${json}, ',' order by ${order}), '') || ']' as json from ${items} where space = $1`,
    ['json'],
  )
  const insertSpace = prepared(
    'make_space',
    `with made as (insert into ${spaces} as existing (space, ${last}) values ($1, $2)
      on conflict (space) do update set ${last} = excluded.${last} where existing.${last} is null returning space)
    ${insert}`,
  )
  const selectWritten = prepared(
    'find_space',
    `select exists (select 1 from ${spaces} where space = $1 and ${last} is not null) as found`,
    ['found'],
  )
  const selectParts = prepared(
    'list_parts',
    `select string_agg(',' || ${json}, '' order by ${order}) as part
    from (select *, sum(${length}) over (order by ${order}) / ${partBytes} as number from ${items} where space = $1) as items
    group by number order by number`,
    ['part'],
    [0, Number.POSITIVE_INFINITY],
    (part) => Buffer.from(part),
  )
  const known = new KnownLists<string>()
  const lists = new ListReads({
    read: readList,
    // A list that was never read here may be short: it does not wait for others.
    isLong: (space) => (known.get(space)?.bytes ?? 0) > maxWholeBytes,
    longReads,
  })

  /** Whether the space has its own items. */
  const isWritten = async (space: string): Promise<boolean> =>
    space === defaultSpace || (await pool.query(selectWritten, [space])).rows[0].found

  /** Makes the space with its starting items, where it does not exist. */
  const make = (space: string) => pool.query(insertSpace, [space, ...startingRows], [0, starting.items.size])

  /** Reads what a space has, or has at the start where it was never written to. */
  async function read<T>(space: string, atStart: T | undefined, select: () => Promise<T | undefined>) {
    const found = await select()
    if (found !== undefined || atStart === undefined || space === defaultSpace) return found
    // Read again: the space may have been made after the first statement.
    return (await isWritten(space)) ? select() : atStart
  }

  /** In one text where the list was short when it was read last. */
  async function selectJson(space: string, isWanted: () => boolean): Promise<string | readonly Buffer[] | undefined> {
    const isShort = (known.get(space)?.bytes ?? Number.POSITIVE_INFINITY) <= maxWholeBytes
    if (isShort) {
      const { json } = (await pool.query(selectList, [space], undefined, isWanted)).rows[0]
      return json === emptyList ? undefined : json
    }
    const { rows } = await pool.query(selectParts, [space], undefined, isWanted)
    return rows.length === 0 ? undefined : joinParts(rows.map(({ part }) => part))
  }

  /** The entity tag is a hash, so that all instances send the same one. */
  async function readList(space: string, isWanted: () => boolean): Promise<ListRepresentation> {
    const atStart = starting.items.size > 0 ? starting.list : undefined
    const json = (await read(space, atStart, () => selectJson(space, isWanted))) ?? emptyList
    const [bytes, etag] =
      typeof json === 'string' ? [json.length, listEtag(json)] : [lengthOf(json), await hashEtag(json)]
    const last = known.get(space)
    const shared = last?.version === etag ? last.buffers?.deref() : undefined
    const buffers = bytes < minSharedBytes ? undefined : (shared ?? toBuffers(json))
    known.set(space, etag, bytes, buffers)
    return { json: buffers ?? json, etag }
  }

  /**
   * Locks all items and compares the entity tag of their list. The list is read before: PostgreSQL has no timeout for a
   * client that does not read, and would keep the lock.
   */
  async function isChanged(client: Client, space: string, ifMatch: readonly string[]): Promise<boolean> {
    // It would lock the row of a space that exists.
    const { found } = (await client.query(selectWritten.text, [space])).rows[0]
    if (!found) await client.query(insertSpace.text, [space, ...startingRows])
    const { json } = (await client.query(selectList.text, [space])).rows[0]
    if (!ifMatch.includes(listEtag(json))) return true
    await client.query(`update ${spaces} set ${last} = ${last} where space = $1`, [space])
    await client.query(`select count(*) from (select 1 from ${items} where space = $1 for update) as locked`, [space])
    const { rows } = await client.query(`select md5(json) as md5 from (${selectList.text}) as list`, [space])
    return rows[0].md5 !== createHash('md5').update(json).digest('hex')
  }

  return {
    make,
    read,
    async ensure(space: string) {
      if (!(await isWritten(space))) await make(space)
    },
    list: (space: string, reader?: Reader) => lists.list(space, reader),
    /** Changes one item. One of the start is there once the space is made, unless the change would be refused. */
    async change(
      statement: PreparedStatement,
      space: string,
      id: string,
      parameters: SqlParameters,
      isRefused = false,
    ) {
      const attempt = async () => (await pool.query(statement, [space, ...parameters])).rowCount === 1
      if (await attempt()) return true
      if (space === defaultSpace || !starting.items.has(id)) return false
      if (!(await isWritten(space))) {
        if (isRefused) return false
        await make(space)
      }
      return attempt()
    },
    replaceAll: (space: string, snapshot: Snapshot, ifMatch: IfMatch) =>
      replaceAll(new Map([[space, snapshot]]), ifMatch && ((client) => isChanged(client, space, ifMatch))),
  }
}

const listEtag = (json: string) => `"${createHash('sha256').update(json).digest('base64url')}"`

const toBuffers = (json: string | readonly Buffer[]) => (typeof json === 'string' ? [Buffer.from(json)] : json)

const columnsOf = <Item>(items: readonly Item[], ...names: (keyof Item)[]) =>
  names.map((name) => items.map((item) => item[name]))

function numberedItems(context: TableContext, { startingItems, serialize }: Serializers['a']) {
  const { pool, newVersion } = context
  const { spaces, a: items } = context.tables
  const starting = startingStateOf({ startingItems, serialize })
  const table = itemTable(context, {
    profile: 'a',
    order: 'id',
    json: `'{"id":' || id || ',"name":' || coalesce(to_json(name)::text, 'null') || ',"isComplete":' || is_complete || '}'`,
    length: `40 + coalesce(octet_length(name), 0)`,
    insert: `insert into ${items} (space, id, name, is_complete, secret, version)
      select made.space, id, name, "isComplete", secret, $4::bigint
      from made, jsonb_to_recordset($3) as item (${rowTypes.a})`,
    startingRows: [`${highestId(startingItems)}`, JSON.stringify(startingItems), starting.version],
    starting,
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
  const createOne = createBatches<NewItemA, Awaited<ReturnType<StoreA['create']>>>(pool, {
    lengthOf: ({ name }) => name?.length ?? 0,
    async create(space, created, isWanted) {
      const parameters = [space, created.length, ...columnsOf(created, 'name', 'isComplete', 'version')]
      // None only where the space does not exist.
      const count = created.length
      const rowCount = [space === defaultSpace ? count : 0, count] as const
      let rows: QueryResult['rows']
      try {
        rows = (await pool.query(create, parameters, rowCount, isWanted)).rows
      } catch (error) {
        // A4: there is no next id.
        if (isOutOfRange(error) && count === 1) return ['item-limit']
        throw error
      }
      if (rows.length > 0) {
        const first = highestId(rows) - BigInt(rows.length - 1)
        return created.map(({ name, isComplete, version }, index) => {
          const id = `${first + BigInt(index)}`
          return { id, json: serialize({ id, name, isComplete, secret: null }), etag: etagOf(version) }
        })
      }
      await table.make(space)
      return this.create(space, created, isWanted)
    },
  })

  /**
   * Changes the item that has the id and one of the entity tags. Where there is none, the reason is that of a later moment,
   * at which the request would have changed nothing, either: versions are never used again.
   */
  async function change<Changed>(
    changed: Changed,
    statement: PreparedStatement,
    space: string,
    id: string,
    ifMatch: IfMatch,
    fields: SqlParameters = [],
  ) {
    const parameters = [id, ifMatch ? `{${versionsIn(ifMatch)}}` : null, ...fields]
    const isRefused = ifMatch && !ifMatch.includes(etagOf(starting.version))
    if (await table.change(statement, space, id, parameters, isRefused)) return changed
    return ifMatch && (await read(space, id)) !== 'not-found' ? 'changed' : 'not-found'
  }

  async function read(space: string, id: string) {
    const json = starting.items.get(id)
    const atStart = json === undefined ? undefined : { json, etag: etagOf(starting.version) }
    const found = await table.read(space, atStart, async () => {
      const [row] = (await pool.query(get, [space, id])).rows
      const item = row && { id, name: row.name, isComplete: row.is_complete, secret: null }
      return row && { json: serialize(item), etag: etagOf(row.version) }
    })
    return found ?? 'not-found'
  }

  return (space: string): StoreA => ({
    list: (reader) => table.list(space, reader),
    get: (id) => read(space, id),
    create({ name, isComplete }) {
      return isStorable(name) ? createOne(space, { name, isComplete, version: newVersion() }) : 'unstorable'
    },
    async update(id, { name, isComplete }, ifMatch) {
      if (!isStorable(name)) return 'unstorable'
      const version = newVersion()
      return change({ etag: etagOf(version) }, update, space, id, ifMatch, [name, isComplete, version])
    },
    delete: (id, ifMatch) => change('deleted' as const, remove, space, id, ifMatch),
    replaceAll: (items, ifMatch) => table.replaceAll(space, { a: { items, lastId: '0' } }, ifMatch),
  })
}

interface NewItemA {
  readonly name: string | null
  readonly isComplete: boolean
  readonly version: string
}

function namedItems(context: TableContext, { startingItems, serialize }: Serializers['b']) {
  const { pool } = context
  const { spaces, b: items } = context.tables
  const table = itemTable(context, {
    profile: 'b',
    order: 'place',
    json: `'{"id":' || to_json(id) || ',"name":' || to_json(name) || ',"notes":' || to_json(notes) || ',"done":' || done || '}'`,
    length: '40 + octet_length(id) + octet_length(name) + octet_length(notes)',
    insert: `insert into ${items} (space, key, place, id, name, notes, done)
      select made.space, decode(key, 'hex'), place, id, name, notes, done
      from made, jsonb_to_recordset($3) as item (${rowTypes.b})`,
    startingRows: [
      `${startingItems.length}`,
      JSON.stringify(startingItems.map((item, index) => toRow(item, BigInt(index + 1)))),
    ],
    starting: startingStateOf({ startingItems, serialize }),
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

  const createOne = createBatches<ItemB, Awaited<ReturnType<StoreB['create']>>>(pool, {
    keyOf: ({ id }) => id,
    lengthOf: ({ id, name, notes }) => id.length + name.length + notes.length,
    async create(space, created, isWanted) {
      const keys = created.map(({ id }) => keyOf(id))
      const parameters = [space, created.length, keys, ...columnsOf(created, 'id', 'name', 'notes', 'done')]
      const attempt = () => pool.query(create, parameters, [0, created.length], isWanted)
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

  return (space: string): StoreB => ({
    list: (reader) => table.list(space, reader),
    create(item) {
      return isStorable(item.id, item.name, item.notes) ? createOne(space, item) : 'unstorable'
    },
    async replace({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      return (await table.change(replace, space, id, [keyOf(id), name, notes, done])) ? 'replaced' : 'not-found'
    },
    async delete(id) {
      return (await table.change(remove, space, id, [keyOf(id)])) ? 'deleted' : 'not-found'
    },
    replaceAll: (items, ifMatch) => table.replaceAll(space, { b: { items } }, ifMatch),
  })
}
