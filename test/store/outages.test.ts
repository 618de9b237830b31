import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limitNotices } from '../../src/store/notices.ts'
import { cleanUp } from '../support/cleanup.ts'
import { node } from '../support/cli.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { Instance, item, startBehindProxy, startWithLockedTable } from '../support/instance.ts'
import { freePort } from '../support/port.ts'
import { openSql } from '../support/sql.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const namedItem = { id: 'x', name: 'name', notes: 'notes' }

suite('while the database is unreachable or slow', { concurrency: 3 }, () => {
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
      await instance.send('POST', '', item('\ud800')),
      await instance.send('PUT', '/1', { id: 2, ...item('x') }),
      await instance.send('GET', '/x'),
    ]
    assert.deepEqual(
      responses.map(({ status }) => status),
      [400, 400, 400, 400],
    )
  })

  test('a statement that cannot be prepared fails alone: those pipelined behind it are sent again', async (t) => {
    const { instance, database, blocker } = await startWithLockedTable(t)
    const { sql } = await sharedPostgres()
    // On a slow machine, statements are also sent again on other connections, or cancelled after 5 seconds.
    for (let attempts = 0, isSlow = true; isSlow; attempts++) {
      assert.ok(attempts < 50, 'this machine is too slow')
      if (attempts > 0) await blocker`begin; lock table todo.documents`
      const sentAt = performance.now()
      let hasEnded = false
      const requests = Promise.all(Array.from({ length: 50 }, () => instance.send('GET', '/1'))).finally(() => {
        hasEnded = true
      })
      let cancelled: object[] = []
      while (cancelled.length === 0 && !hasEnded)
        cancelled = await sql`
          select pg_cancel_backend(pid) from pg_stat_activity where datname = ${database} and wait_event_type = 'Lock'`
      await blocker`commit`
      const statuses = (await requests).map(({ status }) => status)
      isSlow = performance.now() - sentAt > 1_000 || cancelled.length === 0
      if (!isSlow)
        assert.deepEqual(
          statuses.toSorted(),
          statuses.map((_, index) => (index < statuses.length - cancelled.length ? 200 : 503)),
        )
    }
  })

  test('a statement that waits for a lock does not hold up the requests after it', async (t) => {
    const { instance, database } = await startBehindProxy(t)
    const cluster = await sharedPostgres()
    for (const name of ['locked', 'free']) await instance.send('POST', '', item(name))
    // The driver pipelines only behind statements that the connection has prepared.
    await instance.send('PUT', '/2', { id: 2, ...item('free') })
    await instance.send('GET', '/2')
    const blocker = openSql(cluster.url(database))
    cleanUp(t, () => blocker.end())
    // The lock must outlast the requests: on a slow machine the statement may be cancelled before.
    for (let isLocked = false, attempts = 0; !isLocked; attempts++) {
      assert.ok(attempts < 10, 'this machine is too slow')
      await blocker`begin; update todo.documents set content = '{}' where place = 1`
      isLocked = true
      const locked = instance.send('PUT', '/1', { id: 1, ...item('waits') }).finally(() => {
        isLocked = false
      })
      while (
        isLocked &&
        (await cluster.sql`select from pg_stat_activity where datname = ${database} and wait_event_type = 'Lock'`)
          .length === 0
      )
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

  test('does not send a query again when its outcome is unknown', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    for (const action of ['disconnect before', 'no result', 'disconnect after'] as const) {
      proxy.onBytes(action, action)
      // On a busy machine it may take too long to connect: then it is not sent at all.
      while (!proxy.isTriggered()) assert.equal((await instance.send('POST', '', item(action))).status, 503)
    }
    await instance.assertRecovers()
    let names: string[] = []
    while (!names.includes('disconnect after')) {
      await sleep(20)
      names = (await instance.list<{ name: string }>()).map(({ name }) => name)
    }
    assert.deepEqual(names, ['disconnect after'])
  })

  test('retries serialization failures until the query succeeds', async (t) => {
    const { sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    await sql`alter database ${sql(name)} set default_transaction_isolation = 'serializable'`
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url, 'a', [])))
    const first = instances[0] as Instance
    await first.send('POST', '', item('x'))
    const responses = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        (instances[index % 2] as Instance).send('PUT', '/1', { id: 1, ...item(`${index}`) }),
      ),
    )
    assert.deepEqual([...new Set(responses.map(({ status }) => status))], [204])
  })

  test('connects to several hosts without a warning of Node in the log', async (t) => {
    const { url } = await newDatabase()
    const { host } = new URL(url)
    const hosts = url.replace(host, `${host},127.0.0.1:${await freePort()},${host}`)
    const instance = await Instance.start(t, hosts, 'a', [], node)
    await Promise.all(Array.from({ length: 100 }, () => instance.send('GET', '/1')))
    instance.running.process.kill('SIGTERM')
    const { stdout, stderr } = await instance.running.ended
    assert.doesNotMatch(`${stdout}${stderr}`, /Warning/)
  })
})

suite('state of the database in the log', { concurrency: true }, () => {
  test('a database that is lost and found again is one line each, with the host', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    proxy.refuse()
    while ((await instance.send('GET', '')).status !== 503) await sleep(20)
    await instance.running.prints(/^The database cannot be used .*/m)
    // Long enough for several attempts to connect.
    await sleep(1_500)
    proxy.restore()
    await instance.assertRecovers()
    const restored = `The database connection is restored. The primary is 127.0.0.1:${proxy.port}.`
    await instance.running.prints(new RegExp(restored.replace(/[.()]/g, '\\$&')))
    const lines = instance.running.stdout.split('\n').filter((line) => line.startsWith('The database'))
    assert.equal(lines.length, 2, lines.join('\n'))
    assert.doesNotMatch(instance.running.stdout, /undefined/)
  })

  test('a statement timeout that is not in force is reported once, with the remedy', async (t) => {
    const { port } = await sharedPostgres()
    const { url } = await newDatabase()
    const proxy = await startProxy(t, port)
    // A connection pooler may ignore start parameters.
    proxy.replaceBytes('statement_timeout\0' + '5000', 'statement_timeout\0' + '0000')
    const pooled = await Instance.start(t, url.replace(`:${port}/`, `:${proxy.port}/`))
    await pooled.running.prints(/^The statement timeout is not in force.* run "alter role … set statement_timeout/m)
    const direct = await Instance.start(t, url)
    assert.doesNotMatch(direct.running.stdout, /statement timeout/)
  })
})

test('losing the connection while items are replaced fails that request, not the service', async (t) => {
  const { proxy, instance } = await startBehindProxy(t)
  assert.equal((await instance.send('POST', '', item('kept'))).status, 201)
  proxy.onBytes('do update set place', 'disconnect before')
  const put = await fetch(`${instance.url}/__admin/items`, {
    method: 'PUT',
    body: '[{"id":7,"name":"new","isComplete":true}]',
    headers: { 'content-type': 'application/json' },
  })
  assert.equal(put.status, 503)
  assert.deepEqual(await instance.list(), [{ id: 1, ...item('kept') }])
})

// By itself: the timers of the process are mocked.
test('a state that keeps changing is summed up once a minute', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  const lines: string[] = []
  const notice = limitNotices(
    (line) => lines.push(line),
    () => now,
  )
  const pass = (ms: number) => {
    now += ms
    t.mock.timers.tick(ms)
  }
  for (let second = 0; second < 90; second++) {
    notice(`state ${second}`)
    pass(1_000)
  }
  assert.deepEqual(lines, [
    'state 0',
    'state 1',
    'state 2',
    'state 3',
    'state 4',
    'state 5',
    'More changes of the state of the database in the last minute: 54. Now: state 59',
    'state 60',
    'state 61',
    'state 62',
    'state 63',
    'state 64',
    'state 65',
  ])
  pass(60_000)
  assert.deepEqual(lines.slice(13), ['More changes of the state of the database in the last minute: 24. Now: state 89'])
  pass(60_000)
  notice('state 90')
  assert.equal(lines.at(-1), 'state 90')
})
