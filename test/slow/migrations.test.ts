import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import Libsql from 'libsql'
import { cleanUp } from '../support/cleanup.ts'
import { node, type Running, serve } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { fileOfVersion2 } from '../support/file-of-version-2.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startOldWriters } from '../support/old-writers.ts'
import { databaseOfVersion2 } from '../support/postgres-version-2.ts'
import { memoryOf } from '../support/process.ts'
import { openSql } from '../support/sql.ts'
import { openPostgres } from '../support/stores.ts'

const maxMemory = 200 * 2 ** 20

function assertLittleMemory({ process: { pid } }: Running): void {
  const bytes = memoryOf(pid as number)
  assert.ok(bytes < maxMemory, `${Math.round(bytes / 2 ** 20)} MiB`)
}

const expected = ['a 600000', 'b 400000']

suite('a million items of version 2', () => {
  test('in PostgreSQL, with what old instances write meanwhile, by three instances that start at once', async (t) => {
    const { url } = await newDatabase()
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    await sql.unsafe(databaseOfVersion2)
    await sql.unsafe(`
      insert into todo.spaces values ('long', 600000, 400000);
      insert into todo.items_a select 'long', i, 'item ' || i, false, null, i from generate_series(1, 600000) as i;
      insert into todo.items_b select 'long', sha256(i::text::bytea), i, i, 'item', 'notes', true
        from generate_series(1, 400000) as i`)
    const old = startOldWriters(t, url, 2)
    await old.untilAcknowledged(200)
    // Without --wait-for-database: each start succeeds at once.
    const instances = await Promise.all([1, 2, 3].map(() => serve(t, ['--database-url', url], {}, 'a', node)))
    const acknowledged = await old.untilRefused()
    for (const { running } of instances) assertLittleMemory(running)
    const { exportItems } = await openPostgres(t, url)
    const names = new Map((await exportItems()).a.items.map(({ id, name }) => [id, name]))
    for (const [id, name] of acknowledged.a) assert.equal(names.get(id), name, `item ${id}`)
    const rows = await sql`
      select collection || ' ' || count(*) as items from todo.documents where space = 'long' group by collection
      order by collection`
    assert.deepEqual(
      rows.map(({ items }) => items),
      expected,
    )
  })

  test('in a file', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const db = new Libsql(file)
    db.exec(`${fileOfVersion2}
      insert into spaces values ('long', 0, 0, 1, 1);
      with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < 600000)
      insert into items_a select 'long', i, 'item ' || i, 0, null, i from numbers;
      with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < 400000)
      insert into items_b select 'long', i, i, 'item', 'notes', 1 from numbers`)
    db.close()
    assertLittleMemory((await serve(t, ['--data', file], {}, 'a', node)).running)
    const migrated = new Libsql(file)
    cleanUp(t, () => migrated.close())
    const rows = migrated.prepare(`
      select collection || ' ' || count(*) from documents where space = 'long' group by collection order by collection`)
    assert.deepEqual(rows.pluck().all(), expected)
  })
})
