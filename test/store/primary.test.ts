import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limitNotices } from '../../src/store/postgres/notices.ts'
import { run } from '../support/cli.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { Instance, item, startBehindProxy } from '../support/instance.ts'
import { type Cluster, startPostgres } from '../support/postgres.ts'
import { Stopwatch } from '../support/stopwatch.ts'
import { startProxy } from '../support/tcp-proxy.ts'

/** A primary that does not wait for its standby, so that both accept writes when the standby is promoted. */
async function startPair(t: TestContext): Promise<{ primary: Cluster; standby: Cluster; url: string }> {
  const primary = await startPostgres()
  t.after(() => primary.remove())
  const standby = await primary.startStandby({ synchronous_standby_names: '' })
  t.after(() => standby.remove())
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
    const [{ stale } = { stale: -1 }] = await primary.sql`select count(*)::int as stale from todo.numbered_items`
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
    const [row] = await primary.sql`select to_regclass('todo.numbered_items') as "table"`
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
    const restored = `The database connection is restored. The primary is 127.0.0.1:${proxy.port} (timeline 1).`
    await instance.running.prints(new RegExp(restored.replace(/[.()]/g, '\\$&')))
    const lines = instance.running.stdout.split('\n').filter((line) => line.startsWith('The database'))
    assert.equal(lines.length, 2, lines.join('\n'))
    assert.doesNotMatch(instance.running.stdout, /undefined/)
  })

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
      ...['state 0', 'state 1', 'state 2', 'state 3', 'state 4', 'state 5'],
      'More changes of the state of the database in the last minute: 54. Now: state 59',
      ...['state 60', 'state 61', 'state 62', 'state 63', 'state 64', 'state 65'],
    ])
    pass(60_000)
    assert.deepEqual(lines.slice(13), [
      'More changes of the state of the database in the last minute: 24. Now: state 89',
    ])
    pass(60_000)
    notice('state 90')
    assert.equal(lines.at(-1), 'state 90')
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
  proxy.onBytes('jsonb_to_recordset', 'disconnect before')
  const put = await fetch(`${instance.url}/__admin/items`, {
    method: 'PUT',
    body: '[{"id":7,"name":"new","isComplete":true}]',
    headers: { 'content-type': 'application/json' },
  })
  assert.equal(put.status, 503)
  assert.deepEqual(await instance.list(), [{ id: 1, ...item('kept') }])
})
