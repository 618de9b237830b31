import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cleanUp } from '../support/cleanup.ts'
import { node } from '../support/cli.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { Instance } from '../support/instance.ts'
import { openSql } from '../support/sql.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const cutSeconds = Number(process.env.CUT_SECONDS ?? 30)
const cutIntervalMs = 120
const clientsPerProfile = 8

/** An item, and the names with which it may be stored; undefined: not at all. */
interface Written {
  /** Undefined: an item of Profile A whose POST was not acknowledged, and which is known by its name only. */
  readonly id: string | undefined
  names: (string | undefined)[]
}

/** What is sent to a profile, and what it responds. */
const profiles = {
  a: {
    post: (name: string) => ({ name, isComplete: false }),
    put: (id: string, name: string) => ({ path: `/${id}`, body: { id: Number(id), name, isComplete: true } }),
    idOf: (text: string): string => `${JSON.parse(text).id}`,
    acknowledged: { POST: 201, PUT: 204, DELETE: 204 },
    failure: /^503 /,
  },
  b: {
    post: (name: string) => ({ id: name, name, notes: 'notes' }),
    put: (id: string, name: string) => ({ path: '', body: { id, name, notes: 'notes' } }),
    idOf: (text: string): string => JSON.parse(text).id,
    acknowledged: { POST: 200, PUT: 204, DELETE: 204 },
    failure: /^400 CouldNot(?:Create|Update|Delete)Item$/,
  },
}

test(`no acknowledged write is lost while connections to the database are cut every ${cutIntervalMs} ms`, async (t) => {
  const { port } = await sharedPostgres()
  const { url } = await newDatabase()
  const proxy = await startProxy(t, port)
  const proxyUrl = url.replace(`:${port}/`, `:${proxy.port}/`)
  const deadline = performance.now() + cutSeconds * 1_000
  const counts = { acknowledged: { POST: 0, PUT: 0, DELETE: 0 }, unacknowledged: { POST: 0, PUT: 0, DELETE: 0 } }
  const written = { a: [] as Written[], b: [] as Written[] }

  async function write(profile: 'a' | 'b', instance: Instance, client: number): Promise<void> {
    const { post, put, idOf, acknowledged, failure } = profiles[profile]
    const send = async (method: 'POST' | 'PUT' | 'DELETE', path: string, body?: object) => {
      const { status, text } = await instance.send(method, path, body)
      assert.doesNotMatch(text, /undefined/)
      const isAcknowledged = status === acknowledged[method]
      if (!isAcknowledged) assert.match(`${status} ${text}`, failure, `${method} of profile ${profile}`)
      counts[isAcknowledged ? 'acknowledged' : 'unacknowledged'][method]++
      if (isAcknowledged) return text
      await sleep(20)
      return undefined
    }
    for (let count = 0; performance.now() < deadline; count++) {
      const name = `${client} ${count}`
      const created = await send('POST', '', post(name))
      const item: Written = {
        id: created === undefined ? (profile === 'b' ? name : undefined) : idOf(created),
        names: created === undefined ? [undefined, name] : [name],
      }
      written[profile].push(item)
      // A write that was not acknowledged may be executed later: the item is left alone from then on.
      if (created === undefined || item.id === undefined) continue
      const { path, body } = put(item.id, `${name} new`)
      const isReplaced = (await send('PUT', path, body)) !== undefined
      item.names = isReplaced ? [`${name} new`] : [name, `${name} new`]
      if (!isReplaced || count % 2) continue
      const isDeleted = (await send('DELETE', `/${encodeURIComponent(item.id)}`)) !== undefined
      item.names = isDeleted ? [undefined] : [undefined, `${name} new`]
    }
  }

  const [a, b] = await Promise.all([
    Instance.start(t, proxyUrl, 'a', [], node),
    Instance.start(t, proxyUrl, 'b', [], node),
  ])
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  await sql`delete from todo.documents`
  let cuts = 0
  const timer = setInterval(() => (cuts++ % 2 ? proxy.disconnectAll() : proxy.resetAll()), cutIntervalMs)
  cleanUp(t, () => clearInterval(timer))
  const clients = Array.from({ length: clientsPerProfile }, (_, client) => [
    write('a', a, client),
    write('b', b, client),
  ])
  await Promise.all(clients.flat())
  clearInterval(timer)
  await Promise.all([a.assertRecovers(), b.assertRecovers()])
  // What was sent before a connection was cut is executed by then.
  const isRunning = async () =>
    (
      await sql`
      select 1 from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()`
    ).length > 0
  while (await isRunning()) await sleep(20)

  t.diagnostic(`cuts: ${cuts}; ${JSON.stringify(counts)}`)
  assert.ok(Object.values(counts.acknowledged).every((count) => count > 0))
  for (const profile of ['a', 'b'] as const) {
    const rows = await sql`
      select content::json->>'id' as id, content::json->>'name' as name from todo.documents where collection = ${profile}`
    const stored = new Map(rows.map(({ id, name }) => [id, name as string]))
    const wrong = written[profile].filter(({ id, names }) => id !== undefined && !names.includes(stored.get(id)))
    assert.deepEqual(
      wrong.map((item) => ({ ...item, stored: stored.get(`${item.id}`) })),
      [],
    )
    for (const { id } of written[profile]) if (id !== undefined) stored.delete(id)
    const unidentified = written[profile].flatMap(({ id, names }) => (id === undefined ? names : []))
    const others = [...stored.values()]
    assert.deepEqual(
      others.filter((name) => !unidentified.includes(name)),
      [],
      'items that nobody created',
    )
    assert.equal(new Set(others).size, others.length, 'items that are stored twice')
  }
})
