import assert from 'node:assert/strict'
import { once } from 'node:events'
import { cpSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import Libsql from 'libsql'
import { exportItems } from '../../src/store/sqlite/snapshots.ts'
import { cleanUp } from '../support/cleanup.ts'
import { jsonLines, run } from '../support/cli.ts'
import { newDatabase, sharedPostgres, uniqueName } from '../support/database.ts'
import { startEngineProxy } from '../support/engine-proxy.ts'
import { escapedText, fileOfVersion2, itemsOfAda, itemsOfVersion2 } from '../support/file-of-version-2.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance } from '../support/instance.ts'
import { startOldWriters } from '../support/old-writers.ts'
import { message, readMessages } from '../support/postgres-messages.ts'
import { databaseOfVersion2 } from '../support/postgres-version-2.ts'
import { openSql, type Sql } from '../support/sql.ts'
import {
  itemsIn,
  jsonOfA,
  jsonOfB,
  listIn,
  openFile,
  openPostgres,
  type PersistentStores,
  startingWith,
  storesIn,
  toItems,
  toSnapshot,
} from '../support/stores.ts'
import { databaseOfVersion1, fileOfVersion1, itemsOfVersion1 } from '../support/version-1.ts'

/** A4, B1: ids go on, what is created comes last, and the other spaces begin as new ones. */
async function assertUsable({ a, b, spaces, exportItems }: PersistentStores): Promise<void> {
  assert.deepEqual(await exportItems(), itemsOfVersion1)
  const item = await a.get('1')
  assert.ok(item !== 'not-found')
  assert.equal(item.etag, '"101"')
  const created = await a.create({ name: 'next', isComplete: false })
  assert.ok(typeof created === 'object')
  assert.equal(created.id, '9007199254741000')
  const last = { id: 'last', name: 'n', notes: 'o', done: false }
  assert.equal(typeof (await b.create(last)), 'object')
  assert.deepEqual((await exportItems()).b.items, [...itemsOfVersion1.b.items, last])
  const other = await storesIn(spaces, 'ada').a.create({ name: 'first', isComplete: false })
  assert.ok(typeof other === 'object')
  assert.equal(other.id, '1')
}

function fileOf(t: TestContext, statements = fileOfVersion1): string {
  const file = join(temporaryFolder(t), 'todo.db')
  const old = new Libsql(file)
  old.exec(statements)
  old.close()
  return file
}

const openOld = (file: string) => openFile(file, startingWith({ a: [], b: [] }), { migrates: true })

const engines = ['PostgreSQL', 'an engine that commits before DDL'] as const

/** A database of an older version. The program connects to `url`, where the engine is less than PostgreSQL by a proxy. */
async function databaseOf(t: TestContext, engine: (typeof engines)[number], version: 1 | 2 = 1) {
  const { url: target } = await newDatabase()
  const { port } = await sharedPostgres()
  const sql = openSql(target)
  cleanUp(t, () => sql.end())
  await sql.unsafe(version === 1 ? databaseOfVersion1 : databaseOfVersion2)
  const proxy = engine === 'PostgreSQL' ? undefined : await startEngineProxy(t, port)
  return { sql, target, proxy, url: proxy ? target.replace(`:${port}/`, `:${proxy.port}/`) : target }
}

async function tablesIn(sql: Sql, schema = 'todo'): Promise<string[]> {
  const tables = await sql`select tablename from pg_tables where schemaname = ${schema} order by tablename`
  return tables.map(({ tablename }) => tablename)
}

/** Forwards so many statements, and closes the connection of the next one, as when its client is killed. */
async function startCuttingProxy(t: TestContext, targetPort: number, statements: number) {
  let left = statements
  const listener = createServer((client) => {
    const server = connect(targetPort, '127.0.0.1')
    client.on('error', () => {}).on('close', () => server.destroy())
    server.on('error', () => {}).on('close', () => client.destroy())
    server.on('data', (data) => client.write(data))
    readMessages(client, 0, (type, body) => {
      if ((type === 'Q' || type === 'P') && left-- <= 0) client.destroy()
      else server.write(message(type, body))
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  cleanUp(t, () => listener.close())
  return { port: (listener.address() as AddressInfo).port, isCut: () => left < 0 }
}

suite('items of an older version are all there, those of version 1 in the default space', () => {
  test('in a file', async (t) => {
    const file = fileOf(t)
    const opened = openOld(file)
    await assertUsable(opened)
    await opened.close()
    const again = openOld(file)
    cleanUp(t, () => again.close())
    assert.equal((await again.exportItems()).a.items.length, 3)
  })

  test('A4 in a file, ids go on after the highest one, also where another program has changed an id', async (t) => {
    const changed = 'update numbered_items set id = 9007199254741500 where id = 1'
    const { a, exportItems, close } = openOld(fileOf(t, `${fileOfVersion1}; ${changed}`))
    cleanUp(t, close)
    assert.equal((await exportItems()).a.lastId, '9007199254741500')
    assert.equal(Object(await a.create({ name: 'next', isComplete: false })).id, '9007199254741501')
  })

  test('in a file, also after a start that was killed, whichever statement was the last', async (t) => {
    const file = fileOf(t)
    const states: string[] = []
    const { exec } = Libsql.prototype
    const { mock } = t.mock.method(Libsql.prototype, 'exec', function (this: Libsql.Database, sql: string) {
      exec.call(this, sql)
      const state = join(temporaryFolder(t), 'state')
      cpSync(dirname(file), state, { recursive: true })
      states.push(join(state, basename(file)))
    })
    const opened = openOld(file)
    mock.restore()
    await opened.close()
    assert.ok(states.length > 10)
    for (const state of states) {
      const again = openOld(state)
      await assertUsable(again)
      await again.close()
    }
  })

  test('in a file, which stays as it is while an instance of version 1 uses it', async (t) => {
    const file = fileOf(t)
    const before = readFileSync(file)
    const lock = new Libsql(`${file}-lock`)
    lock.exec('pragma journal_mode = memory; begin exclusive')
    assert.throws(() => openOld(file), /is in use by another process/)
    assert.deepEqual(readFileSync(file), before)
    lock.close()
    const opened = openOld(file)
    cleanUp(t, () => opened.close())
    await assertUsable(opened)
  })

  test('in a file, which another program writes: the start waits, and then leaves it as it is', async (t) => {
    const file = fileOf(t, fileOfVersion2)
    const db = new Libsql(file)
    cleanUp(t, () => db.close())
    db.exec("begin immediate; update items_a set name = 'written' where space = 'ada'")
    assert.throws(() => openOld(file), /is locked by another process/)
    db.exec('commit')
    const { spaces, close } = openOld(file)
    cleanUp(t, close)
    assert.match(await listIn(storesIn(spaces, 'ada').a), /written/)
    assert.throws(() => db.exec("update items_a set name = 'lost'"), /no such table/)
  })

  for (const engine of engines) {
    test(`in ${engine}, where three instances start at once`, async (t) => {
      const { sql, url, proxy } = await databaseOf(t, engine)
      const [first] = await Promise.all([1, 2, 3].map(() => openPostgres(t, url)))
      await assertUsable(first as PersistentStores)
      for (const statement of proxy?.refused ?? []) assert.match(statement, /^lock table/)
      assert.deepEqual(await tablesIn(sql), ['collections', 'documents', 'version'])
    })

    for (const version of [1, 2] as const)
      test(`in ${engine}, with all that instances of version ${version} write until they get errors`, async (t) => {
        const { sql, url, target } = await databaseOf(t, engine, version)
        const old = startOldWriters(t, target, version)
        await old.untilAcknowledged(200)
        const { a, b, exportItems } = await openPostgres(t, url)
        const acknowledged = await old.untilRefused()
        const { a: itemsOfA, b: itemsOfB } = await exportItems()
        const stored = new Map(itemsOfA.items.map(({ id, name }) => [id, name]))
        assert.equal(stored.size, itemsOfA.items.length)
        for (const [id, name] of acknowledged.a) assert.equal(stored.get(id), name, `item ${id} of Profile A`)
        const names = new Map(itemsOfB.items.map(({ id, name }) => [id, name]))
        for (const [id, name] of acknowledged.b) assert.equal(names.get(id), name, `item ${id} of Profile B`)
        const created = await a.create({ name: 'next', isComplete: false })
        assert.ok(typeof created === 'object')
        for (const id of [...stored.keys(), ...acknowledged.a.keys()]) assert.ok(BigInt(id) < BigInt(created.id))
        assert.equal(typeof (await b.create({ id: 'last', name: 'n', notes: 'o', done: false })), 'object')
        assert.deepEqual(await tablesIn(sql), ['collections', 'documents', 'version'])
      })

    test(`in ${engine}, also after a start that was killed, whichever statement was the last`, async (t) => {
      const { sql, url } = await databaseOf(t, engine)
      const { port } = new URL(url)
      /** Returns whether the start had more statements. */
      const isKilledAfter = async (statements: number) => {
        const schema = uniqueName('todo')
        await sql.unsafe(databaseOfVersion1.replaceAll('todo', schema))
        const proxy = await startCuttingProxy(t, Number(port), statements)
        const killed = openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`), { schema })
        const isStarted = await killed.then(() => true).catch(() => false)
        assert.equal(isStarted, !proxy.isCut())
        const { exportItems } = await openPostgres(t, url, { schema })
        assert.deepEqual(await exportItems(), itemsOfVersion1)
        assert.deepEqual(await tablesIn(sql, schema), ['collections', 'documents', 'version'])
        return !isStarted
      }
      for (let last = 0, isKilled = [true]; !isKilled.includes(false); last += isKilled.length)
        isKilled = await Promise.all([0, 1, 2, 3, 4].map((more) => isKilledAfter(last + more)))
    })
  }

  test('in PostgreSQL, also what an instance of version 1 writes meanwhile: it waits, and then fails', async (t) => {
    const { sql, url } = await databaseOf(t, 'PostgreSQL')
    // Whatever is set: the program sees what is committed while it waits.
    await sql.unsafe(
      `alter database ${new URL(url).pathname.slice(1)} set default_transaction_isolation = 'serializable'`,
    )
    const old = openSql(url)
    cleanUp(t, () => old.end())
    await old.unsafe(`begin; update todo.numbered_items set name = 'written' where id = 1`)
    const opening = openPostgres(t, url)
    while ((await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock'`).length === 0);
    await old`commit`
    const { a } = await opening
    assert.match(`${Object(await a.get('1')).json}`, /written/)
    await assert.rejects(old`update todo.numbered_items set name = 'lost'`, { code: '42P01' })
  })
})

suite('items of version 2 are all there, in their spaces', () => {
  test('in a file, which an export leaves as it is', async (t) => {
    const file = fileOf(t, fileOfVersion2)
    const before = readFileSync(file)
    const exported = exportItems(file, undefined, () => 0)
    assert.deepEqual(
      [...exported].map(([space, snapshot]) => [space, toItems(snapshot)]),
      [
        ['', itemsOfVersion2],
        ['ada', itemsOfAda],
      ],
    )
    assert.deepEqual(readFileSync(file), before)
    const { a, b, spaces, close } = openOld(file)
    cleanUp(t, close)
    assert.deepEqual(await spaces.exportItems(), exported)
    assert.equal(await listIn(a), `[${itemsOfVersion2.a.items.map(jsonOfA)}]`)
    assert.equal(await listIn(b), `[${itemsOfVersion2.b.items.map(jsonOfB)}]`)
    assert.equal(Object(await a.get('-5')).etag, '"102"')
    assert.equal(Object(await a.create({ name: null, isComplete: true })).id, '9223372036854775807')
    const last = { id: 'last', name: 'n', notes: 'o', done: false }
    assert.equal(await b.create({ ...last, id: `z${escapedText}` }), 'in-use')
    assert.deepEqual(await b.create(last), { json: JSON.stringify(last) })
    assert.deepEqual((await itemsIn(b)).at(-1), last)
    const ada = storesIn(spaces, 'ada')
    assert.equal(Object(await ada.a.create({ name: 'next', isComplete: false })).id, '8')
    assert.deepEqual(await spaces.listSpaces(), [
      { name: '', items: { a: 3, b: 3 } },
      { name: 'ada', items: { a: 2 } },
    ])
  })

  test('in a file, whose old tables are gone', (t) => {
    const file = fileOf(t, fileOfVersion2)
    openOld(file).close()
    const db = new Libsql(file)
    cleanUp(t, () => db.close())
    for (const table of ['spaces', 'items_a', 'items_b'])
      assert.throws(() => db.exec(`delete from ${table}`), /no such table/)
  })
})

suite('items of version 2 in PostgreSQL', () => {
  const open = async (t: TestContext) => {
    const { url } = await newDatabase()
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    await sql.unsafe(databaseOfVersion2)
    return { sql, url, start: () => openPostgres(t, url) }
  }

  test('are all there, in their spaces, with their entity tags, and ids go on', async (t) => {
    const { start } = await open(t)
    const { spaces, a, b } = await start()
    const named = (id: string, done: boolean, name = 'n') => ({ id, name, notes: 'o', done })
    const [ofA, ofB] = [
      [
        { id: '-1', name: null, isComplete: false, secret: 'hidden' },
        { id: '9007199254740993', name: 'x', isComplete: true, secret: null },
      ],
      [named('y', true), named('z', false)],
    ]
    assert.deepEqual(
      await spaces.exportItems(),
      new Map([
        ['', toSnapshot({ a: { items: ofA, lastId: '9007199254740999' }, b: { items: ofB } })],
        ['ada', toSnapshot({ b: { items: [named('y', true, 'ada')] } })],
        ['bob', toSnapshot({ a: { items: [], lastId: '3' } })],
      ]),
    )
    assert.equal(Object(await a.get('-1')).etag, '"101"')
    const created = await a.create({ name: 'next', isComplete: false })
    assert.equal(Object(created).id, '9007199254741000')
    assert.equal(Object(await storesIn(spaces, 'bob').a.create({ name: 'next', isComplete: false })).id, '4')
    assert.equal(await b.create(named('y', true)), 'in-use')
    assert.equal(typeof (await b.create(named('x', true))), 'object')
    assert.deepEqual(await itemsIn(b), [...ofB, named('x', true)])
  })

  test('have the JSON that a new item has', async (t) => {
    const { sql, start } = await open(t)
    const texts = ['', '\u0001\b\t\n\f\r\u001f"\\/\u007f\u0080\u2028\ufeff👩‍👩‍👧', '{"id":1}']
    for (const [index, text] of texts.entries()) {
      await sql`insert into todo.items_a values ('ada', ${index}, ${text}, false, ${text}, 1)`
      await sql`
        insert into todo.items_b values ('ada', sha256(convert_to(${text}, 'UTF8')), ${index + 3}, ${text}, ${text}, ${text}, false)`
    }
    await sql`update todo.spaces set last_id = 99, last_place = 99 where space = 'ada'`
    const { spaces } = await start()
    const { a, b } = storesIn(spaces, 'ada')
    const expectedA = texts.map((name, id) => ({ id: `${id}`, name, isComplete: false, secret: name }))
    assert.equal(await listIn(a), `[${expectedA.map(jsonOfA)}]`)
    const expectedB = texts.map((text) => ({ id: text, name: text, notes: text, done: false }))
    assert.equal(await listIn(b), `[{"id":"y","name":"ada","notes":"o","done":true},${expectedB.map(jsonOfB)}]`)
    for (const item of expectedB) assert.equal(await b.create(item), 'in-use')
  })

  test('are there for an instance that starts while another one migrates, however long that takes', async (t) => {
    const { sql, start, url } = await open(t)
    // Shorter than the limits of the program, which waits for a migration longer than for other transactions.
    await sql.unsafe(`alter database ${new URL(url).pathname.slice(1)} set lock_timeout = '10ms'`)
    const migrating = openSql(url)
    cleanUp(t, () => migrating.end())
    await migrating.unsafe('begin; lock table todo.version in access exclusive mode')
    const opening = start()
    const waiting = `
      select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and now() - query_start > interval '100 ms'`
    const waits = async () => {
      while (Object(await sql.unsafe(waiting)).rowCount === 0);
    }
    await Promise.race([opening, waits()])
    await migrating`rollback`
    const { b } = await opening
    assert.equal((await itemsIn(b)).length, 2)
    await migrating.unsafe('begin; lock table todo.version in access exclusive mode')
    const refused = assert.rejects(start(), /^Error: Schema todo has version 4, but this program supports/)
    await Promise.race([refused, waits()])
    await migrating.unsafe('update todo.version set version = 4; commit')
    await refused
  })

  test('stay as they are while another program uses them for long: the start says so', async (t) => {
    const { sql, url } = await open(t)
    const { port } = new URL(url)
    const reading = openSql(url)
    cleanUp(t, () => reading.end())
    await reading.unsafe('begin; select 1 from todo.items_a')
    const { code, stderr } = await run(t, ['serve', '--profile', 'a', '--port', '0', '--database-url', url])
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^todo-service: The tables are in use .* timeout\. Wait for the end of the other program, such as a backup, or /,
    )
    assert.ok(stderr.includes(`127.0.0.1:${port}`), stderr)
    assert.deepEqual(await tablesIn(sql), ['items_a', 'items_b', 'spaces', 'version'])
  })

  test('are there while a view needs an old table: the start says to drop it, and then succeeds', async (t) => {
    const { sql, url, start } = await open(t)
    await sql.unsafe('create view report as select * from todo.items_a')
    const { code, stderr } = await run(t, ['serve', '--profile', 'a', '--port', '0', '--database-url', url])
    assert.equal(code, 1)
    assert.match(stderr, /^todo-service: Tables of an older version cannot be deleted .* Drop what was made for them/)
    await sql.unsafe('drop view report')
    const { a, b } = await start()
    assert.deepEqual([(await itemsIn(a)).length, (await itemsIn(b)).length], [2, 2])
    assert.deepEqual(await tablesIn(sql), ['collections', 'documents', 'version'])
  })

  test('what an instance of version 2 sends from then on has no effect', async (t) => {
    const { sql, start } = await open(t)
    await start()
    for (const statement of [
      `update todo.spaces set last_id = last_id + 1 where space = '' returning last_id`,
      `update todo.items_a set name = 'lost'`,
      `delete from todo.items_b`,
    ])
      await assert.rejects(sql.unsafe(statement), { code: '42P01' })
    assert.deepEqual(await tablesIn(sql), ['collections', 'documents', 'version'])
  })
})

test('PostgreSQL: a collection that is new to a database has its starting documents in the default space', async (t) => {
  const { url } = await newDatabase()
  await openPostgres(t, url)
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  await sql.unsafe(
    "delete from todo.collections where collection = 'b'; delete from todo.documents where collection = 'b'",
  )
  const { b } = await openPostgres(t, url)
  assert.equal((await itemsIn(b)).length, 3)
  assert.equal(typeof (await b.create({ id: 'x', name: 'n', notes: 'o', done: false })), 'object')
})

/** What a later version does to the tables, and undoes. */
const stores = {
  'a file': async (t: TestContext) => {
    const file = join(temporaryFolder(t), 'todo.db')
    await openOld(file).close()
    const db = new Libsql(file)
    cleanUp(t, () => db.close())
    const run = (action: string, version: number) =>
      db.exec(`begin immediate; ${action}; pragma user_version = ${version}; commit`)
    return {
      url: '',
      flags: ['--data', file],
      migrate: async () => run('alter table documents rename to d4', 4),
      undo: async () => run('alter table d4 rename to documents', 3),
      reason: `Another version of the program has migrated the data file ${file}: it has version 4, and this one needs version 3. Stop the service and start that version.`,
    }
  },
  PostgreSQL: async (t: TestContext) => {
    const { url } = await newDatabase()
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    const run = (action: string, version: number) =>
      sql.unsafe(`begin; ${action}; update todo.version set version = ${version}; commit`)
    return {
      url,
      flags: [],
      migrate: () => run('alter table todo.documents rename to documents_4', 4),
      undo: () => run('alter table todo.documents_4 rename to documents', 3),
      reason:
        'Another version of the program has migrated the tables: they have version 4, and this one needs version 3. Replace this instance by one of that version.',
    }
  },
}

suite('while another version has migrated the tables of a service that runs', { concurrency: true }, () => {
  for (const [kind, open] of Object.entries(stores))
    for (const profile of ['a', 'b'] as const)
      test(`${profile === 'a' ? 'A15' : 'B6'} in ${kind}, Profile ${profile.toUpperCase()} cannot reach its items, is not ready, and says why`, async (t) => {
        const { url, flags, migrate, undo, reason } = await open(t)
        const service = await Instance.start(t, url, profile, ['--mode', 'production', '--log-level', 'warn', ...flags])
        const isReady = async () => (await fetch(`${service.url}/health/ready`)).status
        assert.equal(await isReady(), 200)
        await migrate()
        assert.equal(await isReady(), 503)
        const sent = { id: profile === 'a' ? 1 : 'x', name: 'x', notes: 'x', isComplete: true }
        const path = profile === 'a' ? '/1' : ''
        for (let round = 0; round < 2; round++) {
          const responses = [
            await service.send('GET', ''),
            await service.send('POST', '', sent),
            await service.send('PUT', path, sent),
            await service.send('DELETE', '/1'),
          ]
          const answers = responses.map(({ status, text }) => (status === 503 ? status : text))
          const codes = ['CouldNotCreateItem', 'CouldNotUpdateItem', 'CouldNotDeleteItem']
          assert.deepEqual(answers, profile === 'a' ? [503, 503, 503, 503] : [503, ...codes])
        }
        await undo()
        await service.assertRecovers()
        await service.running.prints(/Reads succeed again/)
        await service.send('POST', '', sent)
        await service.running.prints(/Writes succeed again/)
        assert.equal(await isReady(), 200)
        const messages = jsonLines(service.running.stdout).map(({ message }) => message)
        assert.deepEqual(
          messages.filter((message) => /^(?:Reads|Writes) /.test(message)),
          [`Reads fail: ${reason}`, `Writes fail: ${reason}`, 'Reads succeed again.', 'Writes succeed again.'],
        )
      })
})
