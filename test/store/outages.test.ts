import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedPostgres } from '../support/database.ts'
import { Instance, item, startBehindProxy } from '../support/instance.ts'
import { type Cluster, startPostgres } from '../support/postgres.ts'
import { openSql } from '../support/sql.ts'
import { Stopwatch } from '../support/stopwatch.ts'

const namedItem = { id: 'x', name: 'name', notes: 'notes' }

suite('while the database is unreachable or slow', { concurrency: 3 }, () => {
  test('A15 returns 503 with Retry-After within 6 seconds when the database does not respond', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    await instance.send('POST', '', item('before'))
    proxy.blackhole()
    const stopwatch = new Stopwatch()
    const requests = Array.from({ length: 60 }, (_, index) => instance.send('POST', '', item(`lost ${index}`)))
    for (const { status, headers, text } of await Promise.all(requests)) {
      assert.deepEqual(
        [status, headers.get('content-type'), headers.get('retry-after')],
        [503, 'application/problem+json', '1'],
      )
      assert.doesNotMatch(text, /database|postgres|127\.0\.0\.1/i)
    }
    stopwatch.assertWithin(6_000)
    proxy.restore()
    await instance.assertRecovers()
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('before') }])
  })

  test("B6 returns the operation's code, and 503 for the list, when the database is unreachable", async (t) => {
    const { proxy, instance } = await startBehindProxy(t, 'b')
    proxy.refuse()
    const { status, headers, text } = await instance.send('GET', '')
    assert.deepEqual([status, headers.get('retry-after'), text], [503, '1', ''])
    for (const [method, path, body, code] of [
      ['POST', '', namedItem, 'CouldNotCreateItem'],
      ['PUT', '', namedItem, 'CouldNotUpdateItem'],
      ['DELETE', '/x', undefined, 'CouldNotDeleteItem'],
    ] as const) {
      const response = await instance.send(method, path, body)
      assert.deepEqual([response.status, response.text], [400, code])
    }
    proxy.restore()
    await instance.assertRecovers()
    await instance.running.prints(/The database connection is restored\./)
  })

  test('rejects invalid requests without using the database', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    proxy.blackhole()
    const responses = [
      await instance.send('POST', '', { name: 7 }),
      await instance.send('POST', '', item('\0')),
      await instance.send('PUT', '/1', { id: 2, ...item('x') }),
      await instance.send('GET', '/x'),
    ]
    assert.deepEqual(
      responses.map(({ status }) => status),
      [400, 400, 400, 400],
    )
  })

  test('cancels slow statements after 5 seconds; at most 1,000 requests wait for a connection', async (t) => {
    const { instance, blocker } = await startWithLockedTable(t)
    const stopwatch = new Stopwatch()
    const requests = Array.from({ length: 1_200 }, () => instance.send('GET', '/1'))
    for (const { status } of await Promise.all(requests)) assert.equal(status, 503)
    const loggedTimes = () => [...instance.running.stdout.matchAll(/ 503 ([\d.]+) ms/g)].map(([, time]) => Number(time))
    while (loggedTimes().length < requests.length) await sleep(20)
    const times = loggedTimes()
    stopwatch.assertWithin(6_000, Math.max(...times))
    stopwatch.assertWithin(1_000, times.toSorted((one, other) => one - other)[149])
    await blocker`commit`
    await instance.assertRecovers()
  })

  test('a statement that cannot be prepared fails alone: those pipelined behind it are sent again', async (t) => {
    const { instance, database, blocker } = await startWithLockedTable(t)
    const { sql } = await sharedPostgres()
    const requests = Promise.all(Array.from({ length: 50 }, () => instance.send('GET', '/1')))
    let cancelled: object[] = []
    while (cancelled.length === 0)
      cancelled = await sql`
        select pg_cancel_backend(pid) from pg_stat_activity where datname = ${database} and wait_event_type = 'Lock'`
    await blocker`commit`
    const statuses = (await requests).map(({ status }) => status)
    assert.deepEqual(
      statuses.toSorted(),
      statuses.map((_, index) => (index < statuses.length - cancelled.length ? 200 : 503)),
    )
  })

  test('a statement that waits for a lock does not hold up the requests after it', async (t) => {
    const { instance, database } = await startBehindProxy(t)
    const cluster = await sharedPostgres()
    for (const name of ['locked', 'free']) await instance.send('POST', '', item(name))
    // The driver pipelines only behind statements that the connection has prepared.
    await instance.send('PUT', '/2', { id: 2, ...item('free') })
    await instance.send('GET', '/2')
    const blocker = openSql(cluster.url(database))
    t.after(() => blocker.end())
    // The lock must outlast the requests: on a slow machine the statement may be cancelled before.
    for (let isLocked = false, attempts = 0; !isLocked; attempts++) {
      assert.ok(attempts < 10, 'this machine is too slow')
      await blocker`begin; update todo.numbered_items set name = 'x' where id = 1`
      isLocked = true
      const locked = instance.send('PUT', '/1', { id: 1, ...item('waits') }).finally(() => {
        isLocked = false
      })
      while ((await cluster.sql`select from pg_stat_activity where wait_event_type = 'Lock'`).length === 0)
        await sleep(20)
      // Until it is known to be slow.
      await sleep(500)
      const responses = await Promise.all(Array.from({ length: 100 }, () => instance.send('GET', '/2')))
      if (isLocked) assert.deepEqual([...new Set(responses.map(({ status }) => status))], [200])
      const wasLocked = isLocked
      await blocker`rollback`
      await locked
      isLocked = wasLocked
    }
  })

  test('replaces connections that are reset while requests wait; opens at most ten', async (t) => {
    const { proxy, instance, database } = await startBehindProxy(t)
    const { sql } = await sharedPostgres()
    for (let round = 0; round < 5; round++) {
      const requests = Array.from({ length: 60 }, () => instance.send('GET', ''))
      await Promise.race(requests)
      proxy.resetAll()
      for (const { status } of await Promise.all(requests)) assert.ok(status === 200 || status === 503)
    }
    // Longer than the query timeout: a query that was forgotten would mark the database as down by then.
    await sleep(6_500)
    const [{ open } = { open: 0 }] = await sql`
      select count(*)::int as open from pg_stat_activity where datname = ${database}`
    assert.ok(open <= 10, `${open} connections`)
    const notices = instance.running.stdout.match(/^The database cannot be used.*does not respond\.$/gm) ?? []
    assert.ok(notices.length <= 1, `${notices.length} notices`)
    await instance.assertRecovers()
  })

  test('commits that wait for a synchronous standby do not exhaust the connections of the server', async (t) => {
    const cluster = await startPostgres()
    t.after(() => cluster.remove())
    const instance = await Instance.start(t, cluster.url())
    await cluster.sql`alter system set synchronous_standby_names = 'missing'`
    await cluster.sql`select pg_reload_conf()`
    await untilCommitsWait(cluster)
    const startedAt = performance.now()
    const writers = Array.from({ length: 20 }, async () => {
      while (performance.now() - startedAt < 9_000)
        assert.equal((await instance.send('POST', '', item('x'))).status, 503)
    })
    await Promise.all(writers)
    const [{ open } = { open: 0 }] = await cluster.sql`
      select count(*)::int as open from pg_stat_activity where application_name = 'todo-item-service'`
    assert.ok(open <= 20, `${open} connections`)
    await cluster.sql`alter system reset synchronous_standby_names`
    await cluster.sql`select pg_reload_conf()`
    await instance.assertRecovers()
  })

  test('B5 a repeated write is rejected, not answered, while the first waits for a synchronous standby', async (t) => {
    const cluster = await startPostgres()
    t.after(() => cluster.remove())
    const instance = await Instance.start(t, cluster.url(), 'b')
    await cluster.sql`alter system set synchronous_standby_names = 'missing'`
    await cluster.sql`select pg_reload_conf()`
    await untilCommitsWait(cluster)
    for (let round = 0; round < 2; round++)
      assert.deepEqual((await instance.send('POST', '', namedItem)).text, 'CouldNotCreateItem')
    await instance.running.prints(/^Commits on 127\.0\.0\.1:\d+ \(timeline 1\) wait for a synchronous standby\.$/m)
    const [{ count } = { count: -1 }] = await cluster.sql`
      select count(*)::int as count from todo.named_items where id = ${namedItem.id}`
    assert.equal(count, 0)
    await cluster.sql`alter system reset synchronous_standby_names`
    await cluster.sql`select pg_reload_conf()`
    await instance.assertRecovers()
    assert.equal((await instance.send('POST', '', namedItem)).status, 409)
  })
})

/** An instance with one item, which nobody can read until the blocker commits. */
async function startWithLockedTable(t: TestContext) {
  const { instance, database } = await startBehindProxy(t)
  await instance.send('POST', '', item('x'))
  const blocker = openSql((await sharedPostgres()).url(database))
  t.after(() => blocker.end())
  await blocker`begin; lock table todo.numbered_items`
  return { instance, database, blocker }
}

/** A reloaded configuration takes effect some time later. */
async function untilCommitsWait({ url, sql }: Cluster): Promise<void> {
  const client = openSql(url())
  for (;;) {
    const commit = client`select pg_logical_emit_message(true, 'test', '')`.then(
      () => 'done',
      () => 'done',
    )
    do {
      const [waiting] = await sql`select from pg_stat_activity where wait_event = 'SyncRep'`
      if (waiting) return void client.end()
    } while ((await Promise.race([commit, sleep(20, 'pending')])) === 'pending')
  }
}
