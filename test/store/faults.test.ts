import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { newDatabase } from '../support/database.ts'
import { Instance, item, timeToRecover, Writers, wired } from '../support/instance.ts'
import { type Cluster, startPostgres } from '../support/postgres.ts'
import { sharedPostgres } from '../support/stores.ts'

async function own(t: TestContext): Promise<Cluster> {
  const cluster = await startPostgres()
  t.after(() => cluster.remove())
  return cluster
}

suite('when something breaks, nothing acknowledged is lost and nothing is doubled', () => {
  test('A15 the database is killed under load: 503 until it is back, then on within 3 seconds', async (t) => {
    const cluster = await own(t)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, cluster.url())))
    const writers = new Writers(instances)
    await writers.more(100)
    await cluster.kill()
    while (writers.refused.length < 20) await pause(5)
    await cluster.start()
    const since = performance.now()
    await writers.more(1)
    assert.ok(performance.now() - since < 3_000, `${performance.now() - since} ms`)
    await writers.more(100)
    await writers.stop()
    assert.deepEqual([...new Set(writers.refused)], [503])
    for (const instance of instances) await writers.holdAgainst(instance)
  })

  test('an instance is killed under load: the other goes on', async (t) => {
    const { url } = await newDatabase()
    const instances = (await Promise.all([1, 2].map(() => Instance.start(t, url)))) as [Instance, Instance]
    const writers = new Writers(instances)
    await writers.more(100)
    instances[0].running.process.kill('SIGKILL')
    await instances[0].running.ended
    await writers.more(100)
    await writers.stop()
    assert.deepEqual([...new Set(writers.refused)], [0])
    await writers.holdAgainst(instances[1])
  })

  test('connections are cut under load, again and again', async (t) => {
    const { wire, instance } = await wired(t)
    const writers = new Writers([instance], 12)
    for (let cut = 0; cut < 12; cut++) {
      await writers.more(20)
      if (cut % 2) wire.cut()
      else wire.reset()
    }
    await writers.more(20)
    await writers.stop()
    await writers.holdAgainst(instance)
  })

  test('a statement whose outcome is unknown is not sent again, whether it arrived or not', async (t) => {
    const { wire, instance } = await wired(t)
    for (const when of ['before', 'after'] as const) {
      wire.cutOn(`cut ${when}`, when)
      assert.equal((await instance.send('POST', '', item(`cut ${when}`))).status, 503)
    }
    await timeToRecover(instance)
    let names: string[] = []
    while (!names.includes('cut after')) names = (await instance.list<{ name: string }>()).map(({ name }) => name)
    assert.deepEqual(names, ['cut after'])
  })

  test('a connection that was lost before is replaced without anyone noticing', async (t) => {
    const cluster = await own(t)
    const instance = await Instance.start(t, cluster.url())
    for (let round = 0; round < 3; round++) {
      const statuses = await Promise.all(Array.from({ length: 10 }, () => instance.send('POST', '', item('x'))))
      assert.deepEqual([...new Set(statuses.map(({ status }) => status))], [201])
      await cluster.kill()
      await cluster.start()
    }
    await instance.running.prints(/^/)
    assert.doesNotMatch(instance.running.stdout, / 503 /)
  })

  test('a conflict that the database calls off is tried again until it succeeds', async (t) => {
    const { sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    await sql.unsafe(`alter database ${name} set default_transaction_isolation = 'serializable'`)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
    const first = instances[0] as Instance
    await first.send('POST', '', item('x'))
    const writes = Array.from({ length: 60 }, (_, at) =>
      (instances[at % 2] as Instance).send('PUT', '/1', { id: 1, ...item(`${at}`) }),
    )
    const statuses = (await Promise.all(writes)).map(({ status }) => status)
    assert.deepEqual([...new Set(statuses)], [204])
  })

  test('the primary is killed and its synchronous standby promoted', async (t) => {
    const primary = await own(t)
    const standby = await primary.standby()
    t.after(() => standby.remove())
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
    const url = primary.url().replace(`127.0.0.1:${primary.port}`, hosts)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
    const writers = new Writers(instances)
    await writers.more(100)
    await primary.kill()
    await standby.sql`select pg_promote()`
    const since = performance.now()
    await writers.more(1)
    assert.ok(performance.now() - since < 3_000, `${performance.now() - since} ms`)
    await writers.more(100)
    await writers.stop()
    for (const instance of instances) await writers.holdAgainst(instance)
  })
})
