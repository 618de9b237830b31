import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import postgres from 'postgres'
import { Instance, item, timeToRecover, wired } from '../support/instance.ts'
import { startPostgres } from '../support/postgres.ts'
import { sharedPostgres } from '../support/stores.ts'

const named = { id: 'x', name: 'name', notes: 'notes' }

suite('while the database cannot be reached, or is too slow', { concurrency: true }, () => {
  test('A15 a database that answers nothing: 503 with Retry-After within 6 seconds, on within 3 of its return', async (t) => {
    const { wire, instance } = await wired(t)
    await instance.send('POST', '', item('before'))
    wire.swallow()
    const since = performance.now()
    const asked = Array.from({ length: 60 }, (_, at) => instance.send('POST', '', item(`lost ${at}`)))
    for (const { status, headers, text } of await Promise.all(asked)) {
      assert.deepEqual(
        [status, headers.get('content-type'), headers.get('retry-after')],
        [503, 'application/problem+json', '1'],
      )
      assert.doesNotMatch(text, /database|postgres|127\.0\.0\.1/i)
    }
    assert.ok(performance.now() - since < 6_000, `${performance.now() - since} ms`)
    wire.mend()
    assert.ok((await timeToRecover(instance)) < 3_000)
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('before') }])
  })

  test('B6 a database that cannot be reached: the code of the operation, and 503 for the list', async (t) => {
    const { wire, instance } = await wired(t, 'b')
    wire.refuse()
    const { status, headers, text } = await instance.send('GET', '')
    assert.deepEqual([status, headers.get('retry-after'), text], [503, '1', ''])
    for (const [method, path, body, code] of [
      ['POST', '', named, 'CouldNotCreateItem'],
      ['PUT', '', named, 'CouldNotUpdateItem'],
      ['DELETE', '/x', undefined, 'CouldNotDeleteItem'],
    ] as const) {
      const refused = await instance.send(method, path, body)
      assert.deepEqual([refused.status, refused.text], [400, code])
    }
    wire.mend()
    assert.ok((await timeToRecover(instance)) < 3_000)
    await instance.running.prints(/The database answers again/)
  })

  test('a request that is refused anyway asks for no connection', async (t) => {
    const { wire, instance } = await wired(t)
    wire.swallow()
    const refused = [
      await instance.send('POST', '', { name: 7 }),
      await instance.send('POST', '', item('\0')),
      await instance.send('PUT', '/1', { id: 2, ...item('x') }),
      await instance.send('GET', '/x'),
    ]
    assert.deepEqual(
      refused.map(({ status }) => status),
      [400, 400, 400, 400],
    )
  })

  test('a statement that takes too long is called off; no more than a thousand wait for it', async (t) => {
    const { instance, database } = await wired(t)
    const cluster = await sharedPostgres()
    await instance.send('POST', '', item('x'))
    const blocker = postgres(cluster.url(database), { max: 1, onnotice: () => {} })
    t.after(() => blocker.end({ timeout: 0 }))
    await blocker.unsafe('begin; lock table todo.numbered_items')
    const asked = Array.from({ length: 1_200 }, () => instance.send('GET', '/1'))
    for (const { status } of await Promise.all(asked)) assert.equal(status, 503)
    const times = [...instance.running.stdout.matchAll(/ 503 ([\d.]+) ms/g)].map(([, time]) => Number(time))
    assert.equal(times.length, 1_200)
    assert.ok(Math.max(...times) < 6_000, `${Math.max(...times)} ms`)
    assert.ok(times.filter((time) => time < 1_000).length >= 150)
    await blocker.unsafe('commit')
    assert.ok((await timeToRecover(instance)) < 3_000)
  })

  test('connections that are reset while others wait for them are replaced, and there are no more than ten', async (t) => {
    const { wire, instance, database } = await wired(t)
    const { sql } = await sharedPostgres()
    for (let round = 0; round < 5; round++) {
      const asked = Array.from({ length: 60 }, () => instance.send('GET', ''))
      await Promise.race(asked)
      wire.reset()
      for (const { status } of await Promise.all(asked)) assert.ok(status === 200 || status === 503)
    }
    // Longer than the longest that a statement may be without an answer.
    await pause(6_500)
    const [{ open } = { open: 0 }] = await sql`
      select count(*)::int as open from pg_stat_activity where datname = ${database}`
    assert.ok(open <= 10, `${open} connections`)
    const notices = instance.running.stdout.match(/^The database cannot be used.*does not answer\.$/gm) ?? []
    assert.ok(notices.length <= 1, 'it goes up and down')
    assert.equal((await instance.send('GET', '')).status, 200)
  })

  test('commits that wait for a standby do not use up the connections of the server', async (t) => {
    const cluster = await startPostgres()
    t.after(() => cluster.remove())
    const instance = await Instance.start(t, cluster.url())
    await cluster.sql`alter system set synchronous_standby_names = 'gone'`
    await cluster.sql`select pg_reload_conf()`
    const since = performance.now()
    const writing = Array.from({ length: 20 }, async () => {
      while (performance.now() - since < 9_000) assert.equal((await instance.send('POST', '', item('x'))).status, 503)
    })
    await Promise.all(writing)
    const [{ open } = { open: 0 }] = await cluster.sql`
      select count(*)::int as open from pg_stat_activity where application_name = 'todo-item-service'`
    assert.ok(open <= 20, `${open} connections`)
    await cluster.sql`alter system reset synchronous_standby_names`
    await cluster.sql`select pg_reload_conf()`
    assert.ok((await timeToRecover(instance)) < 3_000)
  })
})
