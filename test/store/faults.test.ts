import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Agent } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '../../src/verify/client.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { Instance, item, startBehindProxy, Writers } from '../support/instance.ts'
import { freePort } from '../support/port.ts'
import { type Cluster, startPostgres } from '../support/postgres.ts'

async function ownCluster(t: TestContext): Promise<Cluster> {
  const cluster = await startPostgres()
  t.after(() => cluster.remove())
  return cluster
}

/** A standby answers reads all the time. */
const assertWritesRecover = (instance: Instance) =>
  instance.assertRecovers(async () => (await instance.send('POST', '', item(randomUUID()))).status === 201)

suite('failures under load: no acknowledged item is lost, none is stored twice', () => {
  test('A15 returns 503 while the database is down and recovers within 3 seconds of its restart', async (t) => {
    const cluster = await ownCluster(t)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, cluster.url())))
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
    const instances = (await Promise.all([1, 2].map(() => Instance.start(t, url)))) as [Instance, Instance]
    const writers = new Writers(instances)
    await writers.waitFor(100)
    instances[0].running.process.kill('SIGKILL')
    await instances[0].running.ended
    await writers.waitFor(100)
    await writers.stop()
    assert.deepEqual([...new Set(writers.failures)], [0])
    await writers.assertStored(instances[1])
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

  test('does not send a query again when its outcome is unknown', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    for (const action of ['disconnect before', 'no result', 'disconnect after'] as const) {
      proxy.onBytes(action, action)
      assert.equal((await instance.send('POST', '', item(action))).status, 503)
    }
    await instance.assertRecovers()
    let names: string[] = []
    while (!names.includes('disconnect after'))
      names = (await instance.list<{ name: string }>()).map(({ name }) => name)
    assert.deepEqual(names, ['disconnect after'])
  })

  test('answers every request when connections are lost while the process is stopped', async (t) => {
    const { proxy, instance } = await startBehindProxy(t)
    const { pid } = instance.running.process
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
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
    const instance = await Instance.start(t, cluster.url())
    for (let round = 0; round < 3; round++) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => instance.send('POST', '', item('x'))))
      assert.deepEqual([...new Set(responses.map(({ status }) => status))], [201])
      await cluster.kill()
      await cluster.start()
    }
    await instance.running.prints(/^/)
    assert.doesNotMatch(instance.running.stdout, / 503 /)
  })

  test('retries serialization failures until the query succeeds', async (t) => {
    const { sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    await sql`alter database ${sql(name)} set default_transaction_isolation = 'serializable'`
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
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
    const instance = await Instance.start(t, url.replace(host, `${host},127.0.0.1:${await freePort()},${host}`))
    await Promise.all(Array.from({ length: 100 }, () => instance.send('GET', '')))
    instance.running.process.kill('SIGTERM')
    const { stdout, stderr } = await instance.running.ended
    assert.doesNotMatch(`${stdout}${stderr}`, /Warning/)
  })

  test('switches to a promoted synchronous standby within 3 seconds', async (t) => {
    const primary = await ownCluster(t)
    const standby = await primary.startStandby()
    t.after(() => standby.remove())
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
    const url = primary.url().replace(`127.0.0.1:${primary.port}`, hosts)
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
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
