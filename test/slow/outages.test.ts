import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { UnavailableError } from '../../src/store/store.ts'
import { cleanUp } from '../support/cleanup.ts'
import { node, run } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item, startBehindProxy, startWithLockedTable, Writers } from '../support/instance.ts'
import { type Cluster, startPostgres } from '../support/postgres.ts'
import { openSql } from '../support/sql.ts'
import { Stopwatch } from '../support/stopwatch.ts'
import { itemsIn, openPostgres } from '../support/stores.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const namedItem = { id: 'x', name: 'name', notes: 'notes' }

async function ownCluster(t: TestContext): Promise<Cluster> {
  const cluster = await startPostgres()
  cleanUp(t, () => cluster.remove())
  return cluster
}

/** A standby answers reads all the time. */
const assertWritesRecover = (instance: Instance) =>
  instance.assertRecovers(async () => (await instance.send('POST', '', item(randomUUID()))).status === 201)

suite('failures under load: no acknowledged item is lost, none is stored twice', () => {
  test('A15 returns 503 while the database is down and recovers within 3 seconds of its restart', async (t) => {
    const cluster = await ownCluster(t)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, cluster.url(), 'a', [], node)))
    const writers = new Writers(instances)
    await writers.waitFor(100)
    await cluster.kill()
    while (writers.failures.length < 20) await sleep(5)
    await cluster.start()
    await Promise.all(instances.map(assertWritesRecover))
    await writers.waitFor(100)
    await writers.stop()
    assert.deepEqual([...new Set(writers.failures)], [503])
    for (const instance of instances) await writers.assertStored(instance)
  })

  test('an instance keeps serving when another one is killed', async (t) => {
    const { url } = await newDatabase()
    const instances = (await Promise.all([1, 2].map(() => Instance.start(t, url, 'a', [], node)))) as [
      Instance,
      Instance,
    ]
    const writers = new Writers(instances)
    await writers.waitFor(100)
    instances[0].running.process.kill('SIGKILL')
    await instances[0].running.ended
    await writers.waitFor(100)
    await writers.stop()
    assert.deepEqual([...new Set(writers.failures)], [0])
    await writers.assertStored(instances[1])
  })

  test('an instance on a data file that is killed again and again', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const rounds: Writers[] = []
    for (let round = 0; round < 5; round++) {
      const instance = await Instance.startOnFile(t, file, 'a', node)
      const writers = new Writers([instance], 8, `round ${round}`)
      rounds.push(writers)
      await writers.waitFor(40 + 17 * round)
      instance.running.process.kill('SIGKILL')
      await writers.stop()
    }
    const instance = await Instance.startOnFile(t, file)
    for (const writers of rounds) await writers.assertStored(instance)
  })

  test('recovers from repeatedly closed and reset database connections', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    const writers = new Writers([instance], 12)
    for (let round = 0; round < 12; round++) {
      await writers.waitFor(20)
      if (round % 2) proxy.disconnectAll()
      else proxy.resetAll()
    }
    await writers.waitFor(20)
    await writers.stop()
    await writers.assertStored(instance)
  })

  test('answers every request when connections are lost while the process is stopped', async (t) => {
    const { proxy, instance } = await startBehindProxy(t, 'a', node)
    const { pid } = instance.running.process
    const agent = new Agent({ keepAlive: true })
    cleanUp(t, () => agent.destroy())
    const client = createClient(`${instance.url}/api/todoitems`, { agent })
    const sendAll = () =>
      Array.from({ length: 24 }, (_, index) =>
        index % 2 ? client.send('GET', '/1') : client.send('POST', '', item('x')),
      )
    for (let round = 0; round < 3; round++) {
      // All connections are open and idle.
      for (let warmUp = 0; warmUp < 3; warmUp++) await Promise.all(sendAll())
      process.kill(pid as number, 'SIGSTOP')
      proxy.resetAll()
      proxy.refuse()
      await sleep(100)
      const requests = sendAll()
      // They are in the buffers of the kernel now, behind the resets of the connections to the database.
      await sleep(100)
      process.kill(pid as number, 'SIGCONT')
      assert.deepEqual([...new Set((await Promise.all(requests)).map(({ status }) => status))], [503])
      proxy.restore()
      await instance.assertRecovers()
    }
  })

  test('replaces connections lost while idle without failing a request', async (t) => {
    const cluster = await ownCluster(t)
    const instance = await Instance.start(t, cluster.url(), 'a', [], node)
    for (let round = 0; round < 3; round++) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => instance.send('POST', '', item('x'))))
      assert.deepEqual([...new Set(responses.map(({ status }) => status))], [201])
      await cluster.kill()
      await cluster.start()
    }
    await instance.running.prints(/^/)
    assert.doesNotMatch(instance.running.stdout, / 503 /)
  })

  test('switches to a promoted synchronous standby within 3 seconds', async (t) => {
    const primary = await ownCluster(t)
    const standby = await primary.startStandby()
    cleanUp(t, () => standby.remove())
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
    const url = primary.url().replace(`127.0.0.1:${primary.port}`, hosts)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url, 'a', [], node)))
    const writers = new Writers(instances)
    await writers.waitFor(100)
    await primary.kill()
    await standby.sql`select pg_promote()`
    await Promise.all(instances.map(assertWritesRecover))
    await writers.waitFor(100)
    await writers.stop()
    for (const instance of instances) await writers.assertStored(instance)
  })
})

suite('slow statements and commits', { concurrency: 3 }, () => {
  test('cancels slow statements after 5 seconds; at most 1,000 requests wait for a connection', async (t) => {
    // A program of its own: beside its clients it would take longer than it promises.
    const { instance, blocker } = await startWithLockedTable(t, node)
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

  test('commits that wait for a synchronous standby do not exhaust the connections of the server', async (t) => {
    const cluster = await startPostgres()
    cleanUp(t, () => cluster.remove())
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
    cleanUp(t, () => cluster.remove())
    const instance = await Instance.start(t, cluster.url(), 'b')
    await cluster.sql`alter system set synchronous_standby_names = 'missing'`
    await cluster.sql`select pg_reload_conf()`
    await untilCommitsWait(cluster)
    for (let round = 0; round < 2; round++)
      assert.deepEqual((await instance.send('POST', '', namedItem)).text, 'CouldNotCreateItem')
    await instance.running.prints(/^Commits on 127\.0\.0\.1:\d+ wait for a synchronous standby\.$/m)
    const [{ count } = { count: -1 }] = await cluster.sql`
      select count(*)::int as count from todo.documents where content::json->>'id' = ${namedItem.id}`
    assert.equal(count, 0)
    await cluster.sql`alter system reset synchronous_standby_names`
    await cluster.sql`select pg_reload_conf()`
    await instance.assertRecovers()
    assert.equal((await instance.send('POST', '', namedItem)).status, 409)
  })
})

/** A primary that does not wait for its standby, so that both accept writes when the standby is promoted. */
async function startPair(t: TestContext): Promise<{ primary: Cluster; standby: Cluster; url: string }> {
  const primary = await startPostgres()
  cleanUp(t, () => primary.remove())
  const standby = await primary.startStandby({ synchronous_standby_names: '' })
  cleanUp(t, () => standby.remove())
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`
  return { primary, standby, url: primary.url().replace(`127.0.0.1:${primary.port}`, hosts) }
}

async function promote({ sql }: Cluster): Promise<void> {
  await sql`select pg_promote()`
}

/** Waits until the standby has what the primary has written. */
async function untilReplicated(primary: Cluster, standby: Cluster): Promise<void> {
  const [{ lsn } = { lsn: '' }] = await primary.sql`select pg_current_wal_lsn()::text as lsn`
  for (;;) {
    const [row] = await standby.sql`select pg_last_wal_replay_lsn() >= ${lsn}::pg_lsn as done`
    if (row?.done) return
    await sleep(20)
  }
}

suite('several hosts', { concurrency: true }, () => {
  test('a superseded primary that still accepts connections is left, and never used again', async (t) => {
    const { primary, standby, url } = await startPair(t)
    const instance = await Instance.start(t, url)
    assert.equal((await instance.send('POST', '', item('first'))).status, 201)
    await untilReplicated(primary, standby)
    await promote(standby)
    await instance.running.prints(
      new RegExp(`The primary is now 127\\.0\\.0\\.1:${standby.port} \\(timeline 2\\), before .*:${primary.port} `),
    )
    const second = `/${JSON.parse((await instance.send('POST', '', item('second'))).text).id}`
    const [{ stale } = { stale: -1 }] =
      await primary.sql`select count(*)::int as stale from todo.documents where collection = 'a'`
    assert.equal(stale, 1)

    // While the new primary is down, the old one must not take its place.
    await standby.kill()
    let lost = await instance.send('GET', second)
    for (; lost.status === 200; lost = await instance.send('GET', second)) await sleep(20)
    assert.equal(lost.status, 503)
    await instance.running.prints(/timeline 1, and 2 was seen/)
    assert.equal((await fetch(`${instance.url}/health/ready`)).status, 503)
    await standby.start()
    const stopwatch = new Stopwatch()
    let response = await instance.send('GET', second)
    for (; response.status === 503; response = await instance.send('GET', second)) await sleep(20)
    stopwatch.assertWithin(3_000)
    assert.equal(response.status, 200)
  })

  test('a start chooses the newest of two primaries', async (t) => {
    const { primary, standby, url } = await startPair(t)
    await untilReplicated(primary, standby)
    await promote(standby)
    const instance = await Instance.start(t, url)
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    const [row] = await primary.sql`select to_regclass('todo.documents') as "table"`
    assert.equal(row?.table, null)
  })

  test('the message names the standbys that answer, not the server that does not', async (t) => {
    const { primary, standby, url } = await startPair(t)
    await primary.kill()
    const { code, stderr } = await run(t, ['serve', '--profile', 'a', '--port', '0'], { TODO_DATABASE_URL: url })
    assert.equal(code, 1)
    assert.match(stderr, new RegExp(`The server at 127\\.0\\.0\\.1:${standby.port} is a standby`))
    assert.doesNotMatch(stderr, /Start it|undefined/)
  })
})

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

test('uses the connections that it has while no others can be opened', async (t) => {
  const { proxy, instance } = await startBehindProxy(t)
  assert.equal((await instance.send('GET', '')).status, 200)
  proxy.blackholeNew()
  const deadline = performance.now() + 8_000
  while (performance.now() < deadline) {
    const responses = await Promise.all(Array.from({ length: 20 }, () => instance.send('GET', '/1')))
    assert.deepEqual([...new Set(responses.map(({ status }) => status))], [404])
  }
  assert.doesNotMatch(instance.running.stdout, /^The database/m)
})

test('an import whose host vanishes says so, and keeps others from creating items for seconds only', async (t) => {
  const { port } = await sharedPostgres()
  const { url } = await newDatabase()
  const proxy = await startProxy(t, port)
  const notices: string[] = []
  const stopwatch = new Stopwatch()
  const importing = await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`), {
    notice: (message) => notices.push(message),
  })
  const { a } = await openPostgres(t, url)
  proxy.onBytes('do update set place', 'blackhole')
  const imported = importing.importItems({ a: { items: [{ id: '7', ...item('new'), secret: null }], lastId: '7' } })
  await proxy.triggered
  const create = async () => a.create(item('created'))
  for (let isCreated = false; !isCreated; stopwatch.assertWithin(12_000))
    isCreated = await create().then(
      () => true,
      () => false,
    )
  while (notices.length === 0) await sleep(20)
  assert.match(`${notices[0]}`, /^No response from 127\.0\.0\.1:\d+ for 3 seconds\. Waiting for up to 600\.$/)
  await importing.close()
  await assert.rejects(async () => imported, UnavailableError)
  assert.deepEqual(await itemsIn(a), [{ id: 1, ...item('created') }])
})

test('a replacement with If-Match that reads nothing of a long list keeps nobody from creating items', async (t) => {
  const { port } = await sharedPostgres()
  const { url } = await newDatabase()
  const proxy = await startProxy(t, port)
  const stopwatch = new Stopwatch()
  const stopped = await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`))
  const { a, importItems } = await openPostgres(t, url)
  // More than sockets buffer.
  const items = Array.from({ length: 32 }, (_, index) => ({
    id: `${index + 1}`,
    ...item('x'.repeat(2 ** 20)),
    secret: null,
  }))
  await importItems({ a: { items, lastId: '32' } })
  const { etag } = await a.list()
  proxy.onBytes('string_agg', 'read nothing')
  const replaced = stopped.a.replaceAll([], [etag])
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  const isSending = () =>
    sql`select 1 from pg_stat_activity where datname = current_database() and wait_event = 'ClientWrite'`
  while ((await isSending()).length === 0) await sleep(20)
  assert.equal(typeof (await a.create(item('created'))), 'object')
  stopwatch.assertWithin(30_000)
  await stopped.close()
  await assert.rejects(async () => replaced, UnavailableError)
})
