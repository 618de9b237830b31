import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { Client } from 'pg'
import { cleanUp } from '../support/cleanup.ts'
import { sharedPostgres, uniqueName } from '../support/database.ts'
import { startEngineProxy } from '../support/engine-proxy.ts'
import { openSql } from '../support/sql.ts'
import { type ItemA, type ItemB, itemsIn, listIn, openPostgres } from '../support/stores.ts'

const numbered = (id: string, name = 'name'): ItemA => ({ id, name, isComplete: false, secret: 'hidden' })
const named = (id: string, name = 'name'): ItemB => ({ id, name, notes: 'notes', done: false })
const fields = { name: 'new', isComplete: true }

/** All tests but that of the migration use one schema: creating tables is what loads the server of the run. */
const schema = uniqueName('portable')

async function startEngine(t: TestContext) {
  const { port, url } = await sharedPostgres()
  const proxy = await startEngineProxy(t, port)
  const proxyUrl = url().replace(`:${port}/`, `:${proxy.port}/`)
  return { proxy, url: proxyUrl }
}

async function openThroughEngine(t: TestContext) {
  const { proxy, url } = await startEngine(t)
  const stores = await openPostgres(t, url, { schema })
  return { ...stores, proxy }
}

suite('on an engine that only speaks the protocol of PostgreSQL', () => {
  test('three instances that start at once create the tables; another start changes nothing', async (t) => {
    const { proxy, url } = await startEngine(t)
    const opened = await Promise.all([1, 2, 3].map(() => openPostgres(t, url, { schema })))
    for (const { b } of opened) assert.equal((await itemsIn(b)).length, 3)
    const [one] = opened
    const { b } = await openPostgres(t, url, { schema })
    await one?.b.create(named('x'))
    assert.equal((await itemsIn(b)).length, 4)
    assert.deepEqual(proxy.refused, [])
  })

  test('a start completes tables that an interrupted one has left without items and version', async (t) => {
    const { proxy, url } = await startEngine(t)
    const interrupted = uniqueName('portable')
    await openPostgres(t, url, { schema: interrupted })
    const sql = openSql((await sharedPostgres()).url())
    cleanUp(t, () => sql.end())
    for (const table of ['version', 'collections']) await sql.unsafe(`delete from ${interrupted}.${table}`)
    await sql.unsafe(`drop table ${interrupted}.documents`)
    const { a, b } = await openPostgres(t, url, { schema: interrupted })
    assert.deepEqual([(await itemsIn(a)).length, (await itemsIn(b)).length], [0, 3])
    assert.deepEqual(proxy.refused, [])
  })

  test('creates, reads, changes, deletes and lists the items of both profiles', async (t) => {
    const { a, b, proxy } = await openThroughEngine(t)
    assert.equal(await a.replaceAll([]), 'replaced')
    const created = await a.create({ name: 'old', isComplete: false })
    assert.ok(typeof created === 'object')
    const { id, json, etag } = created
    assert.deepEqual([id, await a.get(id)], ['1', { json, etag }])
    const updated = await a.update(id, fields, [etag])
    assert.deepEqual({ ...Object(await a.get(id)), json: undefined }, { ...Object(updated), json: undefined })
    assert.equal(await a.update(id, fields, [etag]), 'changed')
    assert.equal(await a.delete(id, [etag]), 'changed')
    assert.deepEqual(await itemsIn(a), [{ id: 1, ...fields }])
    assert.equal(await a.delete(id), 'deleted')
    assert.equal(await a.get(id), 'not-found')

    assert.equal(await b.replaceAll([named('x')]), 'replaced')
    assert.notEqual(await b.create(named('y')), 'in-use')
    assert.equal(await b.create(named('x')), 'in-use')
    assert.equal(await b.replace(named('x', 'new')), 'replaced')
    assert.deepEqual(await itemsIn(b), [named('x', 'new'), named('y')])
    assert.equal(await b.delete('x'), 'deleted')
    assert.equal(await b.delete('x'), 'not-found')
    assert.deepEqual(proxy.refused, [])
  })

  test('exports and imports the items of both profiles; a reset starts with id 1 again', async (t) => {
    const { a, b, exportItems, importItems, proxy } = await openThroughEngine(t)
    const snapshot = {
      a: { items: [numbered('2'), numbered('9007199254740993')], lastId: '9007199254740999' },
      b: { items: ['z', 'x', '__proto__'].map((id) => named(id)) },
    }
    await a.replaceAll([numbered('1'), numbered('2', 'changes')])
    await b.replaceAll([named('x', 'changes'), named('is deleted')])
    assert.equal(await importItems(snapshot), 'replaced')
    assert.deepEqual(await exportItems(), snapshot)
    assert.match(await listIn(a), /^\[\{"id":2,.*\{"id":9007199254740993,/)
    const created = await a.create(fields)
    assert.ok(typeof created === 'object')
    assert.equal(created.id, '9007199254741000')
    await b.create(named('last'))
    assert.deepEqual(await itemsIn(b), [...snapshot.b.items, named('last')])
    assert.equal(await a.replaceAll([]), 'replaced')
    assert.equal((await exportItems()).a.lastId, '0')
    const first = await a.create(fields)
    assert.ok(typeof first === 'object')
    assert.equal(first.id, '1')
    assert.deepEqual(proxy.refused, [])
  })

  test('an item that is there before and after an import is never missing for an update', async (t) => {
    const { a, importItems } = await openThroughEngine(t)
    const items = Array.from({ length: 100 }, (_, at) => numbered(`${at + 1}`))
    await a.replaceAll(items)
    for (let round = 0; round < 3; round++) {
      let isImported = false
      const imported = Promise.resolve(importItems({ a: { items, lastId: '0' } })).then(() => {
        isImported = true
      })
      while (!isImported)
        for (const outcome of await Promise.all(['1', '50', '100'].map((id) => a.update(id, fields))))
          assert.equal(typeof outcome, 'object')
      await imported
    }
  })

  test('where several hosts cannot tell their timeline, one is used, and one line says what that means', async (t) => {
    const { proxy, url } = await startEngine(t)
    const notices: string[] = []
    const hosts = `127.0.0.1:${proxy.port}`
    const { a } = await openPostgres(t, url.replace(hosts, `${hosts},${hosts}`), {
      schema,
      notice: (message) => notices.push(message),
    })
    await a.list()
    assert.deepEqual(notices, [
      `The server at ${hosts} cannot tell its timeline: a primary that was superseded is not recognized.`,
    ])
    assert.deepEqual([...new Set(proxy.refused)], ['select pg_walfile_name(pg_current_wal_lsn()) as value'])
  })
})

test('the proxy refuses what such engines refuse, and keeps pipelined statements apart', async (t) => {
  const { proxy, url } = await startEngine(t)
  const client = new Client({ connectionString: url, pipeline: true })
  await client.connect()
  cleanUp(t, () => client.end())
  const statements = [
    ['select 1 as value', 1],
    ['lock table pg_class', '0A000'],
    ['select 2 as value', 2],
    ['select from pg_class', '0A000'],
    ['select pg_current_wal_lsn()', '0A000'],
    ['select pg_advisory_lock(1)', '0A000'],
    ['select 3 as value', 3],
    ['begin', undefined],
    ['create temporary table t (id int)', undefined],
    ['insert into t values (1)', '0A000'],
    ['select 4 as value', '25P02'],
    ['rollback', undefined],
    ['select 5 as value', 5],
  ] as const
  const results = statements.map(([text], index) =>
    // Prepared and simple queries in turn.
    client.query(index % 2 ? { text, name: `statement ${index}` } : text).then(
      ({ rows }) => rows[0]?.value,
      (error: { code: string }) => error.code,
    ),
  )
  assert.deepEqual(
    await Promise.all(results),
    statements.map(([, expected]) => expected),
  )
  assert.equal(proxy.refused.length, 5)
})
