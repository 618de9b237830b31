import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { newDatabase } from '../support/database.ts'
import { Instance } from '../support/instance.ts'

const item = (id: string, name = 'name') => ({ id, name, notes: 'notes', done: false })
const count = (statuses: readonly number[], status: number) => statuses.filter((one) => one === status).length

suite('many instances on one database', () => {
  test('B2 three that start at once on an empty database put the three items in once', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2, 3].map(() => Instance.start(t, url, 'b')))
    for (const instance of instances) assert.equal((await instance.list()).length, 3)
  })

  test('G7 what is deleted stays deleted, what is written stays written, whoever starts again', async (t) => {
    const { url } = await newDatabase()
    const first = await Instance.start(t, url, 'b')
    for (const { id } of await first.list<{ id: string }>()) await first.send('DELETE', `/${id}`)
    await first.send('POST', '', item('x'))
    first.running.process.kill('SIGTERM')
    assert.equal((await first.running.ended).code, 0)
    const second = await Instance.start(t, url, 'b')
    assert.deepEqual(await second.list(), [item('x')])
  })

  test('B5, B7, B8 of many who race for one id exactly one wins', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2, 3].map(() => Instance.start(t, url, 'b')))
    const race = (send: (instance: Instance, at: number) => ReturnType<Instance['send']>) =>
      Promise.all([0, 1, 2, 3].flatMap((lap) => instances.map((instance, at) => send(instance, lap * 3 + at)))).then(
        (all) => all.map(({ status }) => status),
      )
    for (let round = 0; round < 25; round++) {
      const id = `id ${round}`
      const created = await race((instance, at) => instance.send('POST', '', item(id, `by ${at}`)))
      assert.deepEqual([count(created, 200), count(created, 409)], [1, 11])
      const winner = created.indexOf(200)
      const stored = (await (instances[0] as Instance).list<{ id: string; name: string }>()).filter(
        (one) => one.id === id,
      )
      assert.deepEqual(stored, [item(id, `by ${winner}`)])
      const replaced = await race((instance) => instance.send('PUT', '', item(id, 'new')))
      assert.equal(count(replaced, 204), 12)
      const deleted = await race((instance) => instance.send('DELETE', `/${encodeURIComponent(id)}`))
      assert.deepEqual([count(deleted, 204), count(deleted, 404)], [1, 11])
    }
  })

  test('A4, A7, A9 ids of all instances are distinct; a deletion has one winner', async (t) => {
    const { url } = await newDatabase()
    const instances = await Promise.all([1, 2].map(() => Instance.start(t, url)))
    const create = (instance: Instance) => instance.send('POST', '', { name: null, isComplete: false })
    const made = await Promise.all(Array.from({ length: 150 }, () => instances.map(create)).flat())
    const ids = made.map(({ text }) => JSON.parse(text).id)
    assert.equal(new Set(ids).size, 300)
    for (const id of ids.slice(0, 25)) {
      const deleted = await Promise.all(
        [...instances, ...instances, ...instances].map((instance) => instance.send('DELETE', `/${id}`)),
      )
      const statuses = deleted.map(({ status }) => status)
      assert.deepEqual([count(statuses, 204), count(statuses, 404)], [1, 5])
    }
  })

  test('what is written on one is seen by the next read on the other', async (t) => {
    const { url } = await newDatabase()
    const [one, other] = (await Promise.all([1, 2].map(() => Instance.start(t, url)))) as [Instance, Instance]
    for (let round = 0; round < 100; round++) {
      const created = JSON.parse((await one.send('POST', '', { name: 'old', isComplete: false })).text)
      assert.deepEqual(JSON.parse((await other.send('GET', `/${created.id}`)).text), created)
      const changed = { ...created, name: `new ${round}` }
      assert.equal((await other.send('PUT', `/${created.id}`, changed)).status, 204)
      assert.deepEqual((await one.list()).at(-1), changed)
    }
  })

  test('a stop under load drops no request', async (t) => {
    const { url } = await newDatabase()
    const instance = await Instance.start(t, url)
    const requests = Array.from({ length: 200 }, () => instance.send('POST', '', { name: 'x', isComplete: false }))
    await Promise.race(requests)
    instance.running.process.kill('SIGTERM')
    const settled = await Promise.allSettled(requests)
    const answered = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value.status] : []))
    assert.equal(count(answered, 201), answered.length)
    await instance.running.ended
    const again = await Instance.start(t, url)
    assert.ok((await again.list()).length >= answered.length)
  })
})
