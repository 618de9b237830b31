import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cleanUp } from '../support/cleanup.ts'
import { newDatabase } from '../support/database.ts'
import { pgBouncer, startPgBouncer, startPooler } from '../support/pooler.ts'
import { openSql } from '../support/sql.ts'
import { itemsIn, openPostgres } from '../support/stores.ts'

/** Clients of each store, which take turns at the connections of the pooler. */
const clients = 5
const itemsPerClient = 4

/** Every operation of both profiles, by several clients of several stores at once. Fails where one has no success. */
async function useAtOnce(t: TestContext, url: string, schemas: readonly string[]): Promise<void> {
  const stores = await Promise.all(
    // The clock stands still: statements may take long on a busy machine.
    schemas.map(async (schema) => ({ schema, ...(await openPostgres(t, url, { schema, monotonicNow: () => 0 })) })),
  )
  const use = async ({ a, b, schema }: (typeof stores)[number], client: string) => {
    for (let count = 0; count < itemsPerClient; count++) {
      const name = `${schema} ${client} ${count}`
      const created = await a.create({ name, isComplete: false })
      assert.ok(typeof created === 'object')
      assert.ok(typeof (await a.update(created.id, { name, isComplete: true })) === 'object')
      assert.deepEqual(JSON.parse((await readA(a, created.id)).json), {
        id: Number(created.id),
        name,
        isComplete: true,
      })
      await b.create({ id: name, name, notes: schema, done: false })
      assert.equal(await b.replace({ id: name, name, notes: schema, done: true }), 'replaced')
    }
  }
  await Promise.all(
    stores.flatMap((store, index) => Array.from({ length: clients }, (_, client) => use(store, `${index}-${client}`))),
  )
  for (const { a, b, schema } of stores) {
    const expected = itemsPerClient * clients * schemas.filter((one) => one === schema).length
    const ofA = (await itemsIn(a)) as { name: string }[]
    assert.equal(ofA.length, expected)
    assert.ok(ofA.every(({ name }) => name.startsWith(`${schema} `)))
    const ofB = (await itemsIn(b)) as { notes: string }[]
    assert.equal(ofB.filter(({ notes }) => notes === schema).length, expected)
    assert.equal(ofB.length, expected + 3)
  }
}

async function readA(a: Awaited<ReturnType<typeof openPostgres>>['a'], id: string) {
  const found = await a.get(id)
  assert.ok(typeof found === 'object')
  return found
}

suite('behind a connection pooler that does not keep prepared statements apart', { concurrency: true }, () => {
  test('items of two schemas stay in their own tables', async (t) => {
    await useAtOnce(t, await startPooler(t, (await newDatabase()).url), ['one', 'two'])
  })

  test('several instances on one schema succeed', async (t) => {
    await useAtOnce(t, await startPooler(t, (await newDatabase()).url), ['todo', 'todo', 'todo'])
  })

  test('PgBouncer: both', { skip: pgBouncer ? false : 'PgBouncer is not installed' }, async (t) => {
    const pooled = await startPgBouncer(t, `${pgBouncer}`, (await newDatabase()).url)
    await useAtOnce(t, pooled, ['one', 'two', 'two'])
  })
})

test('a column of another type is read again without a restart, and later by prepared statements again', async (t) => {
  const { url } = await newDatabase()
  const clock = { now: 0 }
  const { a } = await openPostgres(t, url, { monotonicNow: () => clock.now })
  const created = await a.create({ name: 'x', isComplete: false })
  assert.ok(typeof created === 'object')
  const { id } = created
  await Promise.all(Array.from({ length: 50 }, () => readA(a, id)))
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  const openConnections = async () =>
    await sql`select from pg_stat_activity where datname = current_database() and application_name = 'todo-item-service'`
  await sql`alter table todo.documents alter column content type varchar(1000)`
  await Promise.all(Array.from({ length: 50 }, () => readA(a, id)))
  const before = await openConnections()
  clock.now += 60_000
  while ((await openConnections()).length === before.length) await sleep(10)
  await readA(a, id)
})
