import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import { StartError } from '../../common/start-error.ts'
import { inTransaction } from './connection.ts'
import { isConflict, sqlStateOf } from './errors.ts'

const schemaVersion = 2

/**
 * Each statement can be repeated: they are executed one by one, because there are databases that commit before DDL, and the
 * version is written last.
 */
const createTables = (schema: string) => [
  `create table if not exists "${schema}".spaces (
    space text primary key,
    last_id bigint,
    last_place bigint
  )`,
  `create table if not exists "${schema}".items_a (
    space text,
    id bigint,
    name text,
    is_complete boolean not null,
    secret text,
    version bigint not null,
    primary key (space, id)
  )`,
  `create table if not exists "${schema}".items_b (
    space text,
    key bytea,
    place bigint not null,
    id text not null,
    name text not null,
    notes text not null,
    done boolean not null,
    primary key (space, key)
  )`,
]

/** The tables of version 1, which had no spaces. */
const oldTables = (schema: string) => [`"${schema}".numbered_items`, `"${schema}".named_items`] as const

/** Writes of an instance of version 1 wait for this, and then fail. */
async function moveToDefaultSpace(client: Client, schema: string): Promise<void> {
  const [numbered, named] = oldTables(schema)
  await client.query(`update "${schema}".version set version = version where version = 1`)
  for (const table of [numbered, named])
    await client.query(`select count(*) from (select 1 from ${table} for update) as locked`)
  const { rows } = await client.query("select pg_get_serial_sequence($1, 'id') as name", [numbered])
  await client.query(`
    insert into "${schema}".items_a (space, id, name, is_complete, secret, version)
    select '', id, name, is_complete, secret, version from ${numbered}`)
  await client.query(`
    insert into "${schema}".items_b (space, key, place, id, name, notes, done)
    select '', key, place, id, name, notes, done from ${named}`)
  await client.query(`
    insert into "${schema}".spaces (space, last_id, last_place)
    select '', greatest(0, (select max(id) from ${numbered}), (select last_value from ${rows[0].name} where is_called)),
      greatest(0, (select max(place) from ${named}))`)
}

const maxAttempts = 10

/** Brings the schema to the version of this program. Several instances may do so at once. */
export async function migrate(client: Client, schema: string, insertStartingItems: () => Promise<void>): Promise<void> {
  const { rows } = await client.query('show server_encoding')
  const encoding = rows[0]?.server_encoding
  if (encoding !== 'UTF8')
    throw new StartError(`The database encoding is ${encoding}. Use a database with encoding UTF8.`)
  for (let attempt = 1; ; attempt++)
    try {
      const version = await readVersion(client, schema)
      if (version === schemaVersion) return
      if (version > schemaVersion)
        throw new StartError(
          `Schema ${schema} has version ${version}, but this program supports versions up to ${schemaVersion}. Run the newer program that created it, or set another schema with --database-schema.`,
        )
      for (const statement of createTables(schema)) await client.query(statement)
      await inTransaction(client, async () => {
        // Locks out other instances: their insert waits for this one and then fails.
        await client.query(`insert into "${schema}".version values ($1)`, [schemaVersion])
        await (version === 0 ? insertStartingItems() : moveToDefaultSpace(client, schema))
      })
      if (version === 1) for (const table of oldTables(schema)) await client.query(`drop table if exists ${table}`)
      return
    } catch (error) {
      if (attempt === maxAttempts || !isLostRace(error)) throw error
      await sleep(20 * attempt)
    }
}

async function readVersion(client: Client, schema: string): Promise<number> {
  const select = () => client.query(`select coalesce(max(version), 0) as version from "${schema}".version`)
  const { rows } = await select().catch(async (error: unknown) => {
    if (!isMissing(error)) throw error
    // "create schema if not exists" needs the privilege to create schemas even when the schema exists.
    const existing = await client.query('select 1 from pg_catalog.pg_namespace where nspname = $1', [schema])
    if (existing.rowCount === 0) await client.query(`create schema if not exists "${schema}"`)
    await client.query(`create table if not exists "${schema}".version (version integer primary key)`)
    return select()
  })
  return Number(rows[0]?.version)
}

/** undefined_table, invalid_schema_name */
const isMissing = (error: unknown) => ['42P01', '3F000'].includes(sqlStateOf(error) ?? '')

/** Another instance created or creates the same object. */
const isLostRace = (error: unknown) =>
  isConflict(error) || ['42P06', '42P07', '42710', 'XX000'].includes(sqlStateOf(error) ?? '')
