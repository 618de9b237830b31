import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { cleanUp } from './cleanup.ts'
import { openSql, type Sql } from './sql.ts'

/** What instances of a version send to PostgreSQL. */
const statements = {
  1: {
    create: (sql: Sql, name: string) => sql`
      insert into todo.numbered_items (name, is_complete, version) select ${name}::text, false, 1::bigint
      from todo.version where version = 1 for share returning id`,
    update: (sql: Sql, id: string, name: string) => sql`
      update todo.numbered_items set name = ${name} where id = ${id} returning id`,
    delete: (sql: Sql, id: string) => sql`delete from todo.numbered_items where id = ${id} returning id`,
    createNamed: (sql: Sql, name: string) => sql`
      insert into todo.named_items (key, id, name, notes, done)
      select sha256(${name}::text::bytea), ${name}::text, ${name}::text, 'n', false
      from todo.version where version = 1 for share on conflict (key) do nothing returning id`,
  },
  2: {
    create: (sql: Sql, name: string) => sql`
      with counted as (update todo.spaces set last_id = last_id + 1 where space = '' returning last_id)
      insert into todo.items_a (space, id, name, is_complete, version)
      select '', last_id, ${name}::text, false, 1 from counted returning id`,
    update: (sql: Sql, id: string, name: string) => sql`
      update todo.items_a set name = ${name} where space = '' and id = ${id} returning id`,
    delete: (sql: Sql, id: string) => sql`delete from todo.items_a where space = '' and id = ${id} returning id`,
    createNamed: (sql: Sql, name: string) => sql`
      with counted as (update todo.spaces set last_place = last_place + 1 where space = '' returning last_place)
      insert into todo.items_b (space, key, place, id, name, notes, done)
      select '', sha256(${name}::text::bytea), last_place, ${name}::text, ${name}::text, 'n', false from counted
      on conflict (space, key) do nothing returning id`,
  },
}

/** Clients that write as instances of that version do, each until its first error. */
export function startOldWriters(t: TestContext, url: string, version: 1 | 2) {
  const send = statements[version]
  /** The names by id; undefined for a deleted item. */
  const acknowledged = { a: new Map<string, string | undefined>(), b: new Map<string, string>() }
  let count = 0
  const writers = Array.from({ length: 4 }, async (_, writer) => {
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    const succeed = async (statement: Promise<Record<string, string>[]>) => {
      const [row] = await statement
      assert.ok(row?.id)
      count++
      return row.id
    }
    for (let round = 0; ; round++) {
      const name = `${writer}-${round}`
      const id = await succeed(send.create(sql, name))
      assert.ok(!acknowledged.a.has(id), 'an id was assigned twice')
      acknowledged.a.set(id, name)
      await succeed(send.update(sql, id, `${name} changed`))
      acknowledged.a.set(id, `${name} changed`)
      await succeed(send.createNamed(sql, name))
      acknowledged.b.set(name, name)
      if (round % 3 > 0) continue
      await succeed(send.delete(sql, id))
      acknowledged.a.set(id, undefined)
    }
  }).map((writer) => writer.catch((error: Error) => error))
  return {
    async untilAcknowledged(writes: number) {
      while (count < writes) await Promise.race([...writers, new Promise(setImmediate)])
    },
    async untilRefused() {
      for (const error of await Promise.all(writers)) assert.equal(Object(error).code, '42P01', `${error}`)
      return acknowledged
    },
  }
}
