import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cleanUp } from '../support/cleanup.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { Instance } from '../support/instance.ts'
import { openSql } from '../support/sql.ts'
import { openPostgres } from '../support/stores.ts'

const item = (id: string, name = 'name') => ({ id, name, notes: 'notes', done: false })
const count = (statuses: readonly number[], status: number) => statuses.filter((one) => one === status).length

suite('several instances on one database', { concurrency: 2 }, () => {
  test('B2 three instances that start at once on an empty database insert the starting items once', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2, 3].map(() => Instance.start(t, url, 'b')))
    for (const instance of instances) assert.equal((await instance.list()).length, 3)
  })

  test('G7 a restarted instance finds the stored items and does not insert the starting items again', async (t) => {
    const { url } = await newDatabase()
    const first = await Instance.start(t, url, 'b')
    for (const { id } of await first.list<{ id: string }>()) await first.send('DELETE', `/${id}`)
    await first.send('POST', '', item('x'))
    first.running.process.kill('SIGTERM')
    assert.equal((await first.running.ended).code, 0)
    const second = await Instance.start(t, url, 'b')
    assert.deepEqual(await second.list(), [item('x')])
  })

  test('a conditional replacement waits for the change of another instance, and does not undo it', async (t) => {
    const { name, url } = await newDatabase()
    const numbered = { id: '1', name: 'x', isComplete: false, secret: null }
    const { a, b } = await openPostgres(t, url, { starting: { a: [numbered], b: [item('1')] } })
    const blocker = openSql(url)
    cleanUp(t, () => blocker.end())
    const cluster = await sharedPostgres()
    for (const [collection, store, replace] of [
      ['a', a, (tags: string[]) => a.replaceAll([numbered], tags)],
      ['b', b, (tags: string[]) => b.replaceAll([item('1')], tags)],
    ] as const) {
      const { etag } = await store.list()
      await blocker.unsafe(`begin; update todo.documents set content = '"changed"' where collection = '${collection}'`)
      const replaced = replace([etag])
      while (
        (await cluster.sql`select from pg_stat_activity where datname = ${name} and wait_event_type = 'Lock'`)
          .length === 0
      )
        await sleep(20)
      await blocker`commit`
      assert.equal(await replaced, 'changed')
      assert.match(`${(await store.list()).json}`, /changed/)
    }
  })

  test('B5, B7, B8 of concurrent requests for one id, one POST and one DELETE succeed, and every PUT', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2, 3].map(() => Instance.start(t, url, 'b')))
    const sendConcurrently = async (send: (instance: Instance, index: number) => ReturnType<Instance['send']>) => {
      const targets = [...instances, ...instances, ...instances, ...instances]
      return (await Promise.all(targets.map(send))).map(({ status }) => status)
    }
    for (let round = 0; round < 10; round++) {
      const id = `id ${round}`
      const created = await sendConcurrently((instance, index) => instance.send('POST', '', item(id, `by ${index}`)))
      assert.deepEqual([count(created, 200), count(created, 409)], [1, 11])
      const winner = created.indexOf(200)
      const stored = (await (instances[0] as Instance).list<{ id: string; name: string }>()).filter(
        (one) => one.id === id,
      )
      assert.deepEqual(stored, [item(id, `by ${winner}`)])
      const replaced = await sendConcurrently((instance) => instance.send('PUT', '', item(id, 'new')))
      assert.equal(count(replaced, 204), 12)
      const deleted = await sendConcurrently((instance) => instance.send('DELETE', `/${encodeURIComponent(id)}`))
      assert.deepEqual([count(deleted, 204), count(deleted, 404)], [1, 11])
    }
  })

  test('A4, A7, A9 ids are unique across instances; of concurrent DELETE requests one succeeds', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
    const create = (instance: Instance) => instance.send('POST', '', { name: null, isComplete: false })
    const responses = await Promise.all(Array.from({ length: 150 }, () => instances.map(create)).flat())
    const ids = responses.map(({ text }) => JSON.parse(text).id)
    assert.equal(new Set(ids).size, 300)
    for (const id of ids.slice(0, 25)) {
      const deleted = await Promise.all(
        [...instances, ...instances, ...instances].map((instance) => instance.send('DELETE', `/${id}`)),
      )
      const statuses = deleted.map(({ status }) => status)
      assert.deepEqual([count(statuses, 204), count(statuses, 404)], [1, 5])
    }
  })

  test('a write on one instance is visible to the next read on another', async (t) => {
    const { url } = await newDatabase()
    const [one, other] = (await Promise.all([1, 2].map(() => Instance.start(t, url)))) as [Instance, Instance]
    for (let round = 0; round < 40; round++) {
      const created = JSON.parse((await one.send('POST', '', { name: 'old', isComplete: false })).text)
      assert.deepEqual(JSON.parse((await other.send('GET', `/${created.id}`)).text), created)
      const changed = { ...created, name: `new ${round}` }
      assert.equal((await other.send('PUT', `/${created.id}`, changed)).status, 204)
      assert.deepEqual((await one.list()).at(-1), changed)
    }
  })

  test('SIGTERM under load: no acknowledged item is lost', async (t) => {
    const { url } = await newDatabase()
    const instance = await Instance.start(t, url)
    const requests = Array.from({ length: 200 }, () => instance.send('POST', '', { name: 'x', isComplete: false }))
    await Promise.race(requests)
    instance.running.process.kill('SIGTERM')
    const settled = await Promise.allSettled(requests)
    const statuses = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value.status] : []))
    assert.equal(count(statuses, 201), statuses.length)
    await instance.running.ended
    const restarted = await Instance.start(t, url)
    assert.ok((await restarted.list()).length >= statuses.length)
  })
})
