import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import {
  hashEtag,
  joinParts,
  KnownLists,
  LongReads,
  lengthOf,
  listReads,
  maxWholeBytes,
  partBytes,
} from '../list-reads.ts'
import { StartingCollection, type StartingState, type StoredCollection } from '../starting.ts'
import {
  type Collection,
  type CollectionType,
  defaultSpace,
  etagOf,
  type IfMatch,
  jsonOf,
  type ListRepresentation,
  type PersistentSpaces,
  startingStateOf,
} from '../store.ts'
import { createBatches } from './batches.ts'
import { findPrimary, selectIfSupported, statementTimeoutMs, withConnection } from './connection.ts'
import { isOutOfRange } from './errors.ts'
import { findTables, migrate, moveTimeoutMs, prepareTables, tablesVersion } from './migrations.ts'
import { Pool, type PoolOptions } from './pool.ts'
import {
  deleteSpace,
  hashOf,
  keyColumnOf,
  listSpaces,
  makeCollection,
  readItems,
  replaceItems,
  startingRows,
  type Tables,
  tablesOf,
} from './snapshots.ts'
import { oneAtMost, type PreparedStatement, prepared, type SqlParameters } from './statements.ts'

export { describeDatabaseError } from './errors.ts'

interface PostgresOptions extends PoolOptions {
  readonly schema: string
  /** Whether tables of an older version are migrated, rather than refused. */
  readonly migrates?: boolean
  /** Cancels opening the stores. */
  readonly stop: AbortSignal
}

/** The time limit for connecting and creating the tables. */
const openTimeoutMs = 15_000

/** Opens documents in PostgreSQL, which any number of instances may share. Throws if the database cannot be used. */
export async function postgresSpaces(
  { schema, migrates = false, stop, ...options }: PostgresOptions,
  types: readonly CollectionType[],
): Promise<PersistentSpaces> {
  const { database, notice, random } = options
  // Random, so that no version is used twice: neither by several instances nor after an import, reset or restore.
  const newVersion = () => `${Math.floor(random() * 2 ** 52)}`
  const tables = tablesOf((name) => `"${schema}".${name}`)
  /** Called at every start, because a type may be newer than the database. */
  const makeDefaultSpace = async (client: Client) => {
    for (const type of types) await client.query(makeCollection(tables, type), startingRows(type, defaultSpace))
  }
  const primary = await findPrimary(database, 0, stop)
  if (database.hosts.length > 1 && primary.timeline === 0)
    notice(
      `The server at ${primary.host.name}:${primary.host.port} cannot tell its timeline: a primary that was superseded is not recognized.`,
    )
  const found = await withConnection(database, primary.host, openTimeoutMs, stop, async (client) => {
    const found = await prepareTables(client, schema, makeDefaultSpace, migrates)
    const setting = "(select setting from pg_settings where name = 'statement_timeout')"
    const timeoutMs = Number((await selectIfSupported(client, setting)) ?? statementTimeoutMs)
    if (timeoutMs === 0 || timeoutMs > statementTimeoutMs)
      notice(
        `The statement timeout is not in force, probably because of a connection pooler, so a rejected write may be applied later: run "alter role … set statement_timeout = '${statementTimeoutMs / 1000}s'" for the role of --database-url.`,
      )
    return found
  })
  if (found === 'old')
    await withConnection(database, primary.host, moveTimeoutMs, stop, (client) =>
      migrate(client, schema, makeDefaultSpace),
    )
  const pool = new Pool(options, primary, tablesVersion(schema))

  const context = { pool, tables, longReads: new LongReads(), newVersion }
  const collections = new Map(types.map((type) => [type.name, openType(context, type)]))
  return {
    collection(name, space) {
      const open = collections.get(name)
      if (!open) throw new Error(`There is no collection ${name}.`)
      return open(space)
    },
    listSpaces: () => pool.transaction((client) => listSpaces(client, tables)),
    deleteSpace: (name) => pool.transaction((client) => deleteSpace(client, tables, name)),
    importItems: (snapshots, deletesOthers) =>
      pool.transaction(
        (client) => replaceItems(client, tables, types, snapshots, newVersion(), deletesOthers),
        moveTimeoutMs,
      ),
    close: () => pool.close(),
    ping: () => pool.check(),
  }
}

/** Reads the documents of this space, or of all, from tables of any version, without changing them. */
export async function exportItems(
  { schema, stop, ...options }: PostgresOptions,
  types: readonly CollectionType[],
  space: string | undefined,
) {
  const pool = new Pool(options, await findPrimary(options.database, 0, stop))
  try {
    return await pool.transaction(async (client) => {
      // All statements read the same snapshot.
      await client.query('set transaction isolation level repeatable read, read only')
      return readItems(client, await findTables(client, schema), types, space)
    }, moveTimeoutMs)
  } finally {
    await pool.close()
  }
}

/** Longer lists are sent from the same buffers, as long as they do not change: clients that read slowly share them. */
const minSharedBytes = 64 * 1024

interface Context {
  readonly pool: Pool
  readonly tables: Tables
  readonly longReads: LongReads
  newVersion(): string
}

interface NewDocument {
  readonly key: string | undefined
  readonly item: object
  readonly version: string
  /** The JSON of the item; if it gets a number, the part after that number. */
  readonly content: string
}

/** Opens the documents of a type in all spaces. */
function openType(
  { pool, tables, longReads, newVersion }: Context,
  type: CollectionType,
): (space: string) => Collection {
  const { name, keyMember, isNumbered, startingDocuments, serialize } = type
  const { collections, documents } = tables
  const { list: startingList, version: startingVersion, documents: startingByKey } = startingStateOf(type)
  const start: StartingState = {
    documents: startingByKey,
    etag: etagOf(startingVersion),
    list: { json: startingList, etag: listEtag(startingList) },
  }
  const inCollection = `space = $1 and collection = '${name}'`
  const inDocument = `${inCollection} and ${keyColumnOf(type)} = $2`
  const isMatched = `${inDocument} and ($3::bigint[] is null or version = any($3::bigint[]))`
  const isWrittenTo = `exists (select 1 from ${collections} where ${inCollection})`
  const selectWritten = prepared('find', `select ${isWrittenTo} as written`, ['written'])
  const selectList = prepared(
    'list',
    `select '[' || coalesce(string_agg(content, ',' order by place), '') || ']' as json, ${isWrittenTo} as written
    from ${documents} where ${inCollection}`,
    ['json', 'written'],
  )
  const selectParts = prepared(
    'list_parts',
    `select string_agg(',' || content, '' order by place) as part
    from (select place, content, sum(octet_length(content)) over (order by place) / ${partBytes} as number
      from ${documents} where ${inCollection}) as items
    group by number order by number`,
    ['part'],
    [0, Number.POSITIVE_INFINITY],
    (part) => Buffer.from(part),
  )
  const select = prepared(
    'get',
    `select content, version from ${documents} where ${inDocument}`,
    ['content', 'version'],
    oneAtMost,
  )
  const make = prepared('make', makeCollection(tables, type))
  const place = 'last - $2::bigint + at'
  const create = prepared(
    'create',
    `with counted as (update ${collections} set last = last + $2::bigint where ${inCollection} returning last)
    insert into ${documents} (space, collection, place, key, version, content)
      select $1, '${name}', ${place}, key, version,
        ${isNumbered ? `'{"${keyMember}":' || ${place} || ',' || content` : 'content'}
      from counted, unnest($3::bytea[], $4::bigint[], $5::text[]) with ordinality as new (key, version, content, at)
      on conflict (space, collection, ${keyColumnOf(type)}) do nothing
      returning place, version`,
    ['place', 'version'],
  )
  const update = prepared('update', `update ${documents} set content = $4, version = $5 where ${isMatched}`)
  const remove = prepared('delete', `delete from ${documents} where ${isMatched}`)
  const known = new KnownLists<string>()
  const list = listReads({
    read: readList,
    // A list of unknown size may be short, so it does not wait for long ones.
    isLong: (space) => (known.get(space)?.bytes ?? 0) > maxWholeBytes,
    longReads,
  })

  const isWritten = async (space: string): Promise<boolean> =>
    space === defaultSpace || (await pool.query(selectWritten, [space])).rows[0].written

  /** Returns the list as one text if it was short when it was last read, otherwise in parts. */
  async function selectJson(space: string, isWanted: () => boolean): Promise<string | readonly Buffer[]> {
    if ((known.get(space)?.bytes ?? Number.POSITIVE_INFINITY) > maxWholeBytes) {
      const { rows } = await pool.query(selectParts, [space], undefined, isWanted)
      if (rows.length > 0) return joinParts(rows.map(({ part }) => part))
    }
    const { json, written } = (await pool.query(selectList, [space], undefined, isWanted)).rows[0]
    return written ? json : startingList
  }

  /** The entity tag is a hash, so that all instances send the same one. */
  async function readList(space: string, isWanted: () => boolean): Promise<ListRepresentation> {
    const json = await selectJson(space, isWanted)
    const [bytes, etag] =
      typeof json === 'string' ? [json.length, listEtag(json)] : [lengthOf(json), await hashEtag(json)]
    const last = known.get(space)
    const shared = last?.version === etag ? last.buffers?.deref() : undefined
    const buffers =
      bytes < minSharedBytes ? undefined : (shared ?? (typeof json === 'string' ? [Buffer.from(json)] : json))
    known.set(space, etag, bytes, buffers)
    return { json: buffers ?? json, etag }
  }

  /**
   * Locks all documents and compares the entity tag of their list. The list is read before the lock: PostgreSQL has no
   * timeout for a client that does not read, and would keep the lock.
   */
  async function isChanged(client: Client, space: string, ifMatch: readonly string[]): Promise<boolean> {
    const { json, written } = (await client.query(selectList.text, [space])).rows[0]
    const list = written ? json : startingList
    if (!ifMatch.includes(listEtag(list))) return true
    if (!written) await client.query(make.text, startingRows(type, space))
    await client.query(`update ${collections} set last = last where ${inCollection}`, [space])
    await client.query(`select count(*) from (select 1 from ${documents} where ${inCollection} for update) as locked`, [
      space,
    ])
    const { rows } = await client.query(`select md5(json) as md5 from (${selectList.text}) as list`, [space])
    return rows[0].md5 !== createHash('md5').update(list).digest('hex')
  }

  const createOne = createBatches<NewDocument, Awaited<ReturnType<StoredCollection['create']>>>(pool, {
    lengthOf: ({ content }) => content.length,
    async create(space, created, isWanted) {
      const count = created.length
      const keys = created.map(({ key }) => (key === undefined ? null : hashOf(key)))
      const versions = created.map(({ version }) => version)
      const parameters = [space, count, keys, versions, created.map(({ content }) => content)]
      const min = space === defaultSpace && isNumbered ? count : 0
      const attempt = async () => (await pool.query(create, parameters, [min, count], isWanted)).rows
      try {
        let rows = await attempt()
        // All keys are in use, or the collection does not exist yet.
        if (rows.length === 0 && space !== defaultSpace) {
          if (!(await isWritten(space))) return () => undefined
          rows = await attempt()
        }
        const places = new Map<string, string>(rows.map(({ version, place }) => [version, place]))
        return ({ key: itemKey, item, version }) => {
          const place = places.get(version)
          if (place === undefined) return itemKey === undefined ? undefined : 'in-use'
          const key = itemKey ?? place
          return { key, json: jsonOf(type, key, item), etag: etagOf(version) }
        }
      } catch (error) {
        // A4: the last number is the highest possible one.
        if (isOutOfRange(error) && count === 1) return () => 'item-limit'
        throw error
      }
    },
  })

  const storedKey = (key: string) => (isNumbered ? key : hashOf(key))

  async function read(space: string, key: string) {
    const [row] = (await pool.query(select, [space, storedKey(key)])).rows
    return row ? { json: row.content, etag: etagOf(row.version) } : 'not-found'
  }

  /**
   * Changes the document that has the key and one of the entity tags. If there is none, another statement finds out
   * why. A change between the two makes no difference, because no version is used twice.
   */
  async function change<Changed>(
    changed: Changed,
    statement: PreparedStatement,
    space: string,
    key: string,
    ifMatch: IfMatch,
    values: SqlParameters = [],
  ) {
    // A number with more digits is no version, and too large for a bigint.
    const versions = ifMatch?.flatMap((etag) => /^"(\d{1,18})"$/.exec(etag)?.[1] ?? []) ?? null
    const { rowCount } = await pool.query(statement, [space, storedKey(key), versions, ...values])
    if (rowCount === 1) return changed
    return ifMatch && (await read(space, key)) !== 'not-found' ? 'changed' : 'not-found'
  }

  const stored = (space: string): StoredCollection => ({
    isWritten: () => isWritten(space),
    list: (reader) => list(space, reader),
    get: (key) => read(space, key),
    create(item, key) {
      const content = `${isNumbered ? '' : '{'}${serialize(item)}}`
      return createOne(space, { key, item, version: newVersion(), content })
    },
    async update(key, item, ifMatch) {
      const version = newVersion()
      const values = [jsonOf(type, key, item), version]
      return change({ etag: etagOf(version) }, update, space, key, ifMatch, values)
    },
    delete: (key, ifMatch) => change('deleted' as const, remove, space, key, ifMatch),
    replaceAll: (documents, ifMatch) =>
      pool.transaction(async (client) => {
        if (ifMatch && (await isChanged(client, space, ifMatch))) return 'changed'
        const snapshots = new Map([[space, { [name]: { documents, lastNumber: '0' } }]])
        return replaceItems(client, tables, [type], snapshots, newVersion())
      }),
    async make(write) {
      await pool.query(make, startingRows(type, space), [0, startingDocuments.length])
      return write()
    },
  })
  return (space) => new StartingCollection(stored(space), start)
}

const listEtag = (json: string) => `"${createHash('sha256').update(json).digest('base64url')}"`
