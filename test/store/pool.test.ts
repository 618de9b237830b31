import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type QueryResult } from 'pg'
import { prepared } from '../../src/store/postgres/statements.ts'
import { UnavailableError } from '../../src/store/store.ts'
import { cleanUp } from '../support/cleanup.ts'
import { newDatabase, sharedPostgres, uniqueName } from '../support/database.ts'
import { startEngineProxy } from '../support/engine-proxy.ts'
import { openSql } from '../support/sql.ts'
import { itemsIn, openPostgres } from '../support/stores.ts'
import { startProxy } from '../support/tcp-proxy.ts'

/** Stores that reach the database through a proxy, and whose clock goes forward only when the test says so. */
async function openStores(t: TestContext, role?: string) {
  const { port, sql } = await sharedPostgres()
  const { name, url } = await newDatabase(role)
  if (role) await sql`grant create on database ${sql(name)} to ${sql(role)}`
  const proxy = await startProxy(t, port)
  const clock = { now: 0 }
  const notices: string[] = []
  const { a, close } = await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`), {
    monotonicNow: () => clock.now,
    notice: (message) => notices.push(message),
  })
  const openConnections = async () => {
    const [row] =
      await sql`select count(*)::int as open from pg_stat_activity where datname = ${name} and application_name = 'todo-item-service'`
    return Number(row?.open)
  }
  const superuser = openSql((await sharedPostgres()).url(name))
  cleanUp(t, () => superuser.end())
  const create = async (text: string) => a.create({ name: text, isComplete: false })
  return {
    read: async () => a.get('1'),
    list: async () => a.list(),
    create,
    close,
    proxy,
    clock,
    notices,
    openConnections,
    sql: superuser,
  }
}

/** Makes `count` calls at once. `outcomes` has what is settled, and the messages of errors; any other error rejects. */
function callOften(call: () => Promise<unknown>, count: number) {
  const outcomes: string[] = []
  const settled = Array.from({ length: count }, () =>
    call().then(
      () => void outcomes.push('result'),
      (error: Error) => {
        outcomes.push(error.message)
        if (!(error instanceof UnavailableError)) throw error
      },
    ),
  )
  return { outcomes, settled: Promise.all(settled) }
}

/** Advances the clock until the condition holds. */
async function passTime(clock: { now: number }, holds: () => boolean): Promise<void> {
  while (!holds()) {
    clock.now += 50
    await sleep(10)
  }
}

/** Calls until there is a result: on a busy machine, an attempt to connect may fail. */
async function untilResult(clock: { now: number }, call: () => Promise<unknown>): Promise<void> {
  for (let outcome: string | undefined; outcome !== 'result'; ) {
    const { outcomes } = callOften(call, 1)
    await passTime(clock, () => outcomes.length === 1)
    outcome = outcomes[0]
  }
}

/** The clock goes on by itself: on a busy machine, a connection may be lost and looked for again. */
function runClock(t: TestContext, clock: { now: number }): void {
  const timer = setInterval(() => {
    clock.now += 10
  }, 10)
  cleanUp(t, () => clearInterval(timer))
}

/** More than one period of the timer that looks for calls that are late. */
const checked = () => sleep(600)

suite('the PostgreSQL pool', { concurrency: true }, () => {
  test('rejects what has no outcome after 5.5 seconds, and nothing before', async (t) => {
    const { read, proxy, clock } = await openStores(t)
    await untilResult(clock, read)
    proxy.blackhole()
    const { outcomes, settled } = callOften(read, 20)
    clock.now += 5_499
    await checked()
    assert.deepEqual(outcomes, [])
    clock.now += 1
    await settled
    assert.deepEqual(new Set(outcomes), new Set(['The database does not respond in time.']))
  })

  test('sends nothing later of creates that were rejected while they waited for others', async (t) => {
    const { create, list, proxy, clock } = await openStores(t)
    await untilResult(clock, () => create('before'))
    const { etag } = await list()
    proxy.blackhole()
    const first = callOften(() => create('first'), 2)
    clock.now += 200
    const second = callOften(() => create('second'), 10)
    clock.now += 5_300
    await first.settled
    await checked()
    clock.now += 200
    await second.settled
    proxy.restore()
    await untilResult(clock, list)
    await checked()
    assert.equal((await list()).etag, etag)
  })

  test('rejects what waits for a database that has been down for a second, and from then on at once', async (t) => {
    const { read, proxy, clock, notices } = await openStores(t)
    await untilResult(clock, read)
    proxy.refuse()
    const first = callOften(read, 1)
    await passTime(clock, () => notices.length > 0)
    const { outcomes, settled } = callOften(read, 20)
    clock.now += 999
    await checked()
    assert.deepEqual(outcomes, [])
    clock.now += 1
    await Promise.all([first.settled, settled])
    assert.deepEqual(new Set(outcomes), new Set(['The database is down.']))
    await assert.rejects(read(), { message: 'The database is down.' })
    proxy.restore()
    await passTime(clock, () => notices.length > 1)
    assert.match(`${notices[1]}`, /^The database connection is restored\./)
    await untilResult(clock, read)
  })

  test('rejects at once what comes when 1,000 wait', async (t) => {
    const { read, proxy, clock } = await openStores(t)
    await untilResult(clock, read)
    proxy.blackhole()
    const { outcomes, settled } = callOften(read, 1_200)
    await checked()
    assert.deepEqual(outcomes, Array(200).fill('Too many requests wait for the database.'))
    clock.now += 5_500
    await settled
  })

  test('sends one statement for the lists of one turn of the event loop, and another for later ones', async (t) => {
    const { read, list, create, clock } = await openStores(t)
    runClock(t, clock)
    await untilResult(clock, read)
    const lists = await Promise.all(Array.from({ length: 1_200 }, async () => list()))
    assert.equal(new Set(lists).size, 1)
    await create('x')
    assert.notDeepEqual(await list(), lists[0])
  })

  test('replaces connections that are reset while calls wait: at most ten, and no call is forgotten', async (t) => {
    const { read, proxy, clock, notices, openConnections } = await openStores(t)
    for (let round = 0; round < 5; round++) {
      const { outcomes, settled } = callOften(read, 60)
      await Promise.race([settled, sleep(10)])
      proxy.resetAll()
      await passTime(clock, () => outcomes.length === 60)
      await settled
    }
    await untilResult(clock, read)
    // A call that was forgotten would mark the database as down.
    const before = notices.length
    clock.now += 6_500
    await checked()
    assert.deepEqual(notices.slice(before), [])
    assert.ok((await openConnections()) <= 10)
    await untilResult(clock, read)
  })

  test('keeps the connections that work when the server accepts no more of them', async (t) => {
    const { sql } = await sharedPostgres()
    const role = uniqueName('limited')
    await sql`create role ${sql(role)} login password 'sesame'`
    const { read, create, proxy, clock, notices, openConnections } = await openStores(t, role)
    runClock(t, clock)
    // Each waits for its own connection. On a busy machine, an attempt to open one may fail.
    while ((await openConnections()) < 3) {
      await callOften(read, 20).settled
      clock.now += 1_000
    }
    await sql`alter role ${sql(role)} connection limit 0`
    proxy.onBytes('is lost', 'disconnect before')
    await assert.rejects(create('is lost'), UnavailableError)
    for (let round = 0; round < 40; round++) {
      clock.now += 50
      await sleep(10)
      const { outcomes, settled } = callOften(read, 1)
      await passTime(clock, () => outcomes.length > 0)
      await settled
      assert.deepEqual(outcomes, ['result'])
    }
    assert.deepEqual(notices, [])
  })

  test('reports once that the disk of the server is full, and once that writes succeed again', async (t) => {
    const { read, create, clock, sql, notices } = await openStores(t)
    runClock(t, clock)
    await untilResult(clock, read)
    await sql.unsafe(`
      create function todo.fail() returns trigger language plpgsql as
        $$ begin raise exception using errcode = '53100', message = 'No space left on device'; end $$;
      create trigger fail before insert on todo.documents for each row execute function todo.fail()`)
    for (let round = 0; round < 5; round++) {
      await assert.rejects(create('x'), { name: 'Error', message: 'No space left on device.' })
      await read()
    }
    assert.deepEqual(notices, ['Writes fail: No space left on device.'])
    await sql`drop trigger fail on todo.documents`
    for (let round = 0; round < 5; round++) await create('x')
    assert.deepEqual(notices.slice(1), ['Writes succeed again.'])
  })

  test('settles what is to be sent again when it is closed, and leaves no connection behind', async (t) => {
    const { read, create, close, clock, sql, openConnections } = await openStores(t)
    runClock(t, clock)
    await untilResult(clock, read)
    await sql.unsafe(`
      create function todo.fail() returns trigger language plpgsql as
        $$ begin raise exception using errcode = '40001'; end $$;
      create trigger fail before insert on todo.documents for each row execute function todo.fail()`)
    const { outcomes, settled } = callOften(() => create('x'), 10)
    await sleep(20)
    await close()
    await settled
    assert.equal(outcomes.length, 10)
    await assert.rejects(read(), { message: 'The service is stopping.' })
    while ((await openConnections()) > 0) await sleep(10)
    await sleep(300)
    assert.equal(await openConnections(), 0)
  })
})

test('errors are recognized by their SQLSTATE, in whichever language the server describes them', async (t) => {
  const { port } = await sharedPostgres()
  const { url } = await newDatabase()
  const proxy = await startEngineProxy(t, port, { severity: 'FEHLER' })
  const proxyUrl = url.replace(`:${port}/`, `:${proxy.port}/`)
  // Of several that create the tables at once, the others get errors.
  const opened = await Promise.all(Array.from({ length: 6 }, () => openPostgres(t, proxyUrl)))
  for (const { b } of opened) assert.equal((await itemsIn(b)).length, 3)
})

// `prepared` relies on it: a config with own members would be copied for each call.
test('the driver reads inherited members of a query config, and prepares the statement by its name', async (t) => {
  const client = new Client({ connectionString: (await newDatabase()).url })
  await client.connect()
  cleanUp(t, () => client.end())
  const { named, unnamed } = prepared('greeting', 'select $1::text as greeting')
  for (const query of [named, unnamed]) {
    assert.deepEqual(Object.keys(query), [])
    const { rows } = await new Promise<QueryResult>((resolve, reject) => {
      client.query(query, ['hello'], (error, result) => (error ? reject(error) : resolve(result)))
    })
    assert.deepEqual(rows, [{ greeting: 'hello' }])
  }
  const { rows } = await client.query('select name, statement from pg_prepared_statements')
  assert.deepEqual(
    rows.map(({ name, statement }) => [name.replace(/[\da-f]{32}$/, 'HASH'), statement]),
    [['greeting_HASH', 'select $1::text as greeting']],
  )
})
