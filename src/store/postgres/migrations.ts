import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import { StartError } from '../../common/start-error.ts'
import { inTransaction, statementTimeoutMs } from './connection.ts'
import { isConflict, isLocked, isLockTimeout, isMissing, isUnsupported, sqlStateOf } from './errors.ts'
import type { TablesVersion } from './pool.ts'
import { type Tables, tablesOf } from './snapshots.ts'
import { prepared } from './statements.ts'

/** Returns the SQL expression for a table of a version. */
type TableOf = (name: string) => string

/** Leads from a version of the tables to the next one. */
interface Step {
  /** The tables of the version before. No later one has the same name: statements of old instances must fail. */
  readonly replaces: readonly string[]
  /** What each table has, from the tables of the version before: queries with its columns, in their order. */
  rows(table: TableOf, client: Client): Promise<Readonly<Record<string, string>>>
}

const spaces: Step = {
  replaces: ['numbered_items', 'named_items'],
  /** Version 1 had the items of the default space. */
  async rows(table, client) {
    const [numbered, named] = [table('numbered_items'), table('named_items')]
    const { rows } = await client.query("select pg_get_serial_sequence($1, 'id') as name", [numbered])
    return {
      items_a: `select '' as space, id, name, is_complete, secret, version from ${numbered}`,
      items_b: `select '' as space, key, place, id, name, notes, done from ${named}`,
      spaces: `select '' as space,
        greatest(0, (select max(id) from ${numbered}), (select last_value from ${rows[0].name} where is_called)) as last_id,
        greatest(0, (select max(place) from ${named})) as last_place`,
    }
  },
}

/** A text as JSON: to_json() escapes as JSON.stringify() does. */
const json = (column: string) => `coalesce(to_json(${column})::text, 'null')`

const documents: Step = {
  replaces: ['spaces', 'items_a', 'items_b'],
  /** Version 2 had a table for the items of each profile. */
  rows: async (table) => ({
    collections: `
      select space, 'a' as collection, last_id as last from ${table('spaces')} where last_id is not null
      union all select space, 'b', last_place from ${table('spaces')} where last_place is not null`,
    documents: `
      select space, 'a' as collection, id as place, null::bytea as key, version,
        '{"id":' || id || ',"name":' || ${json('name')} || ',"isComplete":' || is_complete || '}' as content, secret
      from ${table('items_a')}
      union all select space, 'b', place, key, 0,
        '{"id":' || ${json('id')} || ',"name":' || ${json('name')} || ',"notes":' || ${json('notes')} || ',"done":' || done || '}', null
      from ${table('items_b')}`,
  }),
}

/** The first one leads from version 1 to 2. Append only. */
const steps: readonly Step[] = [spaces, documents]
const schemaVersion = steps.length + 1

/** Makes the tables of this program. Each statement can be repeated. */
const create = (schema: string) => [
  `create table if not exists "${schema}".collections (
    space text,
    collection text,
    last bigint not null,
    primary key (space, collection)
  )`,
  `create table if not exists "${schema}".documents (
    space text,
    collection text,
    place bigint,
    key bytea,
    version bigint not null,
    content text not null,
    secret text,
    primary key (space, collection, place),
    unique (space, collection, key)
  )`,
]

export const tablesVersion = (schema: string): TablesVersion => ({
  select: prepared('version', `select max(version) as version from "${schema}".version`, ['version']),
  needed: schemaVersion,
})

/** A migration may move any number of items. */
export const moveTimeoutMs = 600_000
const maxAttempts = 10

/**
 * Creates the tables and the default space if they are missing. Returns whether tables of an older version have to be
 * migrated. Several instances may call this at once.
 */
export async function prepareTables(
  client: Client,
  schema: string,
  makeDefaultSpace: (client: Client) => Promise<void>,
  migrates: boolean,
): Promise<'ready' | 'old'> {
  const { rows } = await client.query('show server_encoding')
  const encoding = rows[0]?.server_encoding
  if (encoding !== 'UTF8')
    throw new StartError(`The database encoding is ${encoding}. Use a database with encoding UTF8.`)
  return retryRaces(async () => {
    const versions = await readVersions(client, schema).catch(async (error: unknown) => {
      // Another instance migrates them: `migrate` waits for it.
      if (migrates && isLockTimeout(error)) return undefined
      if (!isMissing(error)) throw error
      // "create schema if not exists" needs the privilege to create schemas even when the schema exists.
      const existing = await client.query('select 1 from pg_catalog.pg_namespace where nspname = $1', [schema])
      if (existing.rowCount === 0) await client.query(`create schema if not exists "${schema}"`)
      await client.query(`create table if not exists "${schema}".version (version integer primary key)`)
      return readVersions(client, schema)
    })
    if (!versions) return 'old'
    const { oldest, newest } = versions
    assertSupported(schema, newest)
    if (newest > 0 && newest < schemaVersion && !migrates)
      throw new StartError(
        `Schema ${schema} has version ${newest}, and this program writes version ${schemaVersion}. Start todo-service serve with it once: that migrates the items.`,
      )
    if (newest > 0 && oldest < schemaVersion) return 'old'
    if (newest === 0) {
      // One by one: there are databases that commit before DDL. The version is written last.
      for (const statement of create(schema)) await client.query(statement)
      await insertVersion(client, schema, schemaVersion)
    }
    await makeDefaultSpace(client)
    return 'ready'
  })
}

function assertSupported(schema: string, version: number): void {
  if (version > schemaVersion)
    throw new StartError(
      `Schema ${schema} has version ${version}, but this program supports versions up to ${schemaVersion}. Run the newer program that created it, or set another schema with --database-schema.`,
    )
}

/** Returns the tables of this version, as queries if the schema has an older version. Changes nothing. */
export async function findTables(client: Client, schema: string): Promise<Tables> {
  const { newest } = await readVersions(client, schema).catch((error: unknown) => {
    if (!isOfOthers(error)) throw error
    return { newest: 0 }
  })
  if (newest === 0)
    throw new StartError(
      `Schema ${schema} has no tables of this service. Set another database with --database-url, or another schema with --database-schema.`,
    )
  assertSupported(schema, newest)
  return tablesFrom(client, newest, (name) => `"${schema}".${name}`)
}

/** The tables of this program, as queries on those of a version. */
async function tablesFrom(client: Client, version: number, tableOf: TableOf): Promise<Tables> {
  let latest = tableOf
  for (const { rows } of steps.slice(version - 1)) {
    const before = latest
    const queries = await rows(before, client)
    latest = (name) => (name in queries ? `(${queries[name]}) as ${name}` : before(name))
  }
  return tablesOf(latest)
}

/** Migrates tables of an older version to this one. Several instances may call this at once. */
export const migrate = (
  client: Client,
  schema: string,
  makeDefaultSpace: (client: Client) => Promise<void>,
): Promise<void> =>
  retryRaces(async () => {
    const { newest } = await waitForVersions(client, schema)
    assertSupported(schema, newest)
    const { replaces } = steps[newest - 1] ?? {}
    try {
      if (replaces) await moveItems(client, schema, newest, replaces)
    } catch (error) {
      // Another instance has moved the items while this one waited for the tables.
      if (!isLockTimeout(error) || (await waitForVersions(client, schema)).newest === newest) throw error
    }
    // An interrupted migration may have left tables of any version.
    for (const name of steps.flatMap(({ replaces }) => replaces.flatMap((old) => [retired(old), old])))
      await client.query(`drop table if exists "${schema}".${name}`)
    // As long as the older version is there, the next start continues an unfinished migration.
    await client.query(`delete from "${schema}".version where version < $1`, [schemaVersion])
    await makeDefaultSpace(client)
  })

/** Returns the name that a table gets so that instances of an older version can no longer use it. */
const retired = (name: string) => `old_${name}`

/** Old instances get errors from the moment at which their tables have other names: what they have written is all there. */
async function moveItems(client: Client, schema: string, version: number, replaces: readonly string[]): Promise<void> {
  const makeTables = async () => {
    for (const name of replaces)
      if (!(await exists(client, schema, retired(name))))
        await client.query(`alter table "${schema}".${name} rename to ${retired(name)}`)
    for (const statement of create(schema)) await client.query(statement)
  }
  const move = async () => {
    await insertVersion(client, schema, schemaVersion)
    const before = (name: string) => `"${schema}".${replaces.includes(name) ? retired(name) : name}`
    for (const [name, query] of Object.entries(await tablesFrom(client, version, before)))
      await client.query(`insert into "${schema}".${name} select * from ${query}`)
  }
  if (!(await canLock(client, schema))) {
    await makeTables()
    await inTransaction(client, move, moveTimeoutMs)
    return
  }
  const names = [...replaces, 'version'].map((name) => `"${schema}".${name}`)
  await inTransaction(
    client,
    async () => {
      await client.query(`set local lock_timeout = ${statementTimeoutMs}`)
      // Before the first query: so rows that are written while this waits are moved, too, at any isolation level.
      await client.query(`lock table ${names} in access exclusive mode`)
      await makeTables()
      await move()
    },
    moveTimeoutMs,
  )
}

/** Whether the database can lock a table. If not, it commits before DDL, and statements are executed one by one. */
async function canLock(client: Client, schema: string): Promise<boolean> {
  try {
    await inTransaction(client, () => client.query(`lock table "${schema}".version in access exclusive mode nowait`))
    return true
  } catch (error) {
    if (isLocked(error)) return true
    if (isUnsupported(error)) return false
    throw error
  }
}

/** Inserts the version, which keeps other instances out: their insert waits for this one and then fails. */
const insertVersion = (client: Client, schema: string, version: number) =>
  client.query(`insert into "${schema}".version values ($1)`, [version])

/** Returns the versions as soon as no other instance migrates. */
const waitForVersions = (client: Client, schema: string) =>
  inTransaction(
    client,
    async () => {
      await client.query('set local lock_timeout = 0')
      return readVersions(client, schema)
    },
    moveTimeoutMs,
  )

/** Returns zeros if there is no version. The two differ until the migration from the older version has ended. */
async function readVersions(client: Client, schema: string): Promise<{ oldest: number; newest: number }> {
  const { rows } = await client.query(
    `select coalesce(min(version), 0) as oldest, coalesce(max(version), 0) as newest from "${schema}".version`,
  )
  return { oldest: Number(rows[0]?.oldest), newest: Number(rows[0]?.newest) }
}

async function exists(client: Client, schema: string, table: string): Promise<boolean> {
  const text = 'select 1 from information_schema.tables where table_schema = $1 and table_name = $2'
  return (await client.query(text, [schema, table])).rowCount === 1
}

async function retryRaces<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++)
    try {
      return await run()
    } catch (error) {
      if (attempt === maxAttempts || !isLostRace(error)) throw error
      await sleep(20 * attempt)
    }
}

/** Whether there is no such table, or it belongs to another program. A missing privilege is neither. */
const isOfOthers = (error: unknown) => /^(?:3F|42(?!501))/.test(sqlStateOf(error) ?? '')

/** Whether another instance creates, has created or has removed the same object. */
const isLostRace = (error: unknown) =>
  isConflict(error) || isMissing(error) || ['42P06', '42P07', '42710', 'XX000'].includes(sqlStateOf(error) ?? '')
