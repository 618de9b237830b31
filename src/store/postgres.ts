import type { Row, Sql } from 'postgres'
import type { Database } from '../database-url.ts'
import { openPrimary } from './postgres/connection.ts'
import { type Pool, type PoolSettings, poolOf } from './postgres/pool.ts'
import { keyOf, prepare, Unfit } from './postgres/schema.ts'
import type { NamedStore, NumberedStore, StartingItems, Stores } from './store.ts'

export interface PostgresSettings extends Omit<PoolSettings, 'open'> {
  readonly database: Database
  readonly schema: string
}

/** Items live in PostgreSQL, for any number of instances. Throws when the database cannot be used. */
export async function postgresStores(
  { database, schema, ...settings }: PostgresSettings,
  starting: StartingItems,
): Promise<Stores & Pick<Pool, 'close'>> {
  const first = await openPrimary(database, () => {})
  try {
    await prepare(first.sql, schema, starting)
  } finally {
    await first.end()
  }
  const pool = poolOf({ ...settings, open: (onLost) => openPrimary(database, onLost) })
  return {
    a: numberedStore(pool, `"${schema}".numbered_items`),
    b: namedStore(pool, `"${schema}".named_items`),
    close: pool.close,
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

function numberedStore({ run }: Pool, table: string): NumberedStore {
  const columns = 'id, name, is_complete as "isComplete", secret'
  const list = statement(`select ${columns} from ${table} order by id`)
  const get = statement(`select ${columns} from ${table} where id = ?`)
  const create = statement(`insert into ${table} (name, is_complete) values (?, ?) returning id`)
  const update = statement(`update ${table} set name = ?, is_complete = ? where id = ?`)
  const remove = statement(`delete from ${table} where id = ?`)
  const item = ({ id, name, isComplete, secret }: Row) => ({ id: BigInt(id), name, isComplete, secret })
  return {
    async list() {
      return (await run(list())).map(item)
    },
    async get(id) {
      const [row] = await run(get(id))
      return row ? item(row) : 'not-found'
    },
    async create({ name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const [row] = await run(create(name, isComplete))
      return { id: BigInt(row?.id), name, isComplete, secret: null }
    },
    async update(id, { name, isComplete }) {
      if (!isStorable(name)) return 'unstorable'
      const { count } = await run(update(name, isComplete, id))
      return count === 0 ? 'not-found' : 'updated'
    },
    async delete(id) {
      const { count } = await run(remove(id))
      return count === 0 ? 'not-found' : 'deleted'
    },
  }
}

function namedStore({ run }: Pool, table: string): NamedStore {
  const list = statement(`select id, name, notes, done from ${table} order by place`)
  const create = statement(
    `insert into ${table} (key, id, name, notes, done) values (?, ?, ?, ?, ?) on conflict (key) do nothing`,
  )
  const replace = statement(`update ${table} set name = ?, notes = ?, done = ? where key = ?`)
  const remove = statement(`delete from ${table} where key = ?`)
  return {
    list: () => run(list()),
    async create({ id, name, notes, done }) {
      if (!isStorable(id, name, notes)) return 'unstorable'
      const { count } = await run(create(keyOf(id), id, name, notes, done))
      return count === 0 ? 'in-use' : 'created'
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
