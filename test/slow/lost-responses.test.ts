import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProfileName } from '../../src/profiles/profile.ts'
import type { Client, Response } from '../../src/verify/engine/client.ts'
import { cleanUp } from '../support/cleanup.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { transports } from '../support/running.ts'
import { openSql, type Sql } from '../support/sql.ts'
import { openPostgres } from '../support/stores.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const items = '/api/todoitems'

interface Operation {
  readonly profile: ProfileName
  readonly method: string
  readonly path: string
  readonly body?: object
  /** Adds If-Match with the current entity tag. */
  readonly isConditional?: true
}

/** Each statement of the store. An update, delete or create goes to the item that there is, or is not. */
const operations: Record<string, Operation> = {
  'A1 list': { profile: 'a', method: 'GET', path: items },
  'A2 get': { profile: 'a', method: 'GET', path: `${items}/1` },
  'A3 create': { profile: 'a', method: 'POST', path: items, body: { name: 'new', isComplete: true } },
  'A7 update': { profile: 'a', method: 'PUT', path: `${items}/1`, body: { id: 1, name: 'new', isComplete: true } },
  'A7 conditional update': {
    profile: 'a',
    method: 'PUT',
    path: `${items}/1`,
    body: { id: 1, name: 'new', isComplete: true },
    isConditional: true,
  },
  'A9 delete': { profile: 'a', method: 'DELETE', path: `${items}/2` },
  'A9 conditional delete': { profile: 'a', method: 'DELETE', path: `${items}/2`, isConditional: true },
  'B1 list': { profile: 'b', method: 'GET', path: items },
  'B3 create': { profile: 'b', method: 'POST', path: items, body: { id: 'y', name: 'new', notes: 'new' } },
  'B7 replace': { profile: 'b', method: 'PUT', path: items, body: { id: 'x', name: 'new', notes: 'new' } },
  'B8 delete': { profile: 'b', method: 'DELETE', path: `${items}/x` },
}

/** Brings the tables into the same state before each request. */
async function reset(sql: Sql): Promise<void> {
  await sql.unsafe(`
    delete from todo.documents where (collection, place) <> ('a', 1);
    insert into todo.documents (space, collection, place, version, content)
      values ('', 'a', 1, 7, '{"id":1,"name":"old","isComplete":false}')
      on conflict (space, collection, place) do update set content = excluded.content, version = 7;
    insert into todo.documents (space, collection, place, version, content)
      values ('', 'a', 2, 7, '{"id":2,"name":"old","isComplete":false}');
    update todo.collections set last = 2;
    insert into todo.documents (space, collection, place, key, version, content)
      values ('', 'b', 1, sha256('x'), 7, '{"id":"x","name":"old","notes":"old","done":false}')`)
}

const storedItems = async (sql: Sql, profile: ProfileName) =>
  (await sql`select content from todo.documents where collection = ${profile} order by place`).map(({ content }) =>
    JSON.parse(`${content}`),
  )

async function startService(t: TestContext, profile: ProfileName) {
  const { port } = await sharedPostgres()
  const { url } = await newDatabase()
  const proxy = await startProxy(t, port)
  const stores = await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`))
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  const client = await transports['over a socket'](t, profile, { stores })
  return { proxy, sql, client }
}

const isFailure = ({ status, text }: Response) => status === 503 || (status === 400 && text.startsWith('CouldNot'))

/** What statements get next, on any connection, is their own result, or none. */
async function assertOwnResults(client: Client, profile: ProfileName, stored: readonly object[]): Promise<void> {
  const list = await client.send('GET', items)
  if (!isFailure(list)) assert.deepEqual([list.status, JSON.parse(list.text).slice(0, stored.length)], [200, stored])
  if (profile === 'b') return
  const got = await client.send('GET', `${items}/1`)
  if (!isFailure(got)) assert.deepEqual([got.status, got.text], [200, JSON.stringify(stored[0])])
  const created = await client.send('POST', items, { name: 'next', isComplete: false })
  if (isFailure(created)) return
  const { id } = JSON.parse(created.text)
  assert.deepEqual([created.status, created.text], [201, JSON.stringify({ id, name: 'next', isComplete: false })])
  assert.ok(created.headers.location?.endsWith(`${items}/${id}`))
  const updated = await client.send(
    'PUT',
    `${items}/${id}`,
    { id, name: 'x', isComplete: true },
    {
      'if-match': created.headers.etag,
    },
  )
  assert.ok(isFailure(updated) || updated.status === 204, `${updated.status} ${updated.text}`)
}

suite('a response of PostgreSQL that ends after any of its messages is a lost connection', {
  concurrency: true,
}, () => {
  for (const [name, { profile, method, path, body, isConditional }] of Object.entries(operations))
    test(name, async (t) => {
      const { proxy, sql, client } = await startService(t, profile)
      const headers = isConditional ? { 'if-match': '"7"' } : {}
      const send = () => client.send(method, path, body, headers)
      let succeeded = false
      let boundaries = 0
      for (; !succeeded; boundaries++) {
        await reset(sql)
        // A statement that was sent before: its connection is idle, and has it prepared.
        while (isFailure(await send())) await sleep(20)
        await reset(sql)
        proxy.endResponseAfter(boundaries)
        const response = await send()
        succeeded = !isFailure(response)
        if (succeeded) assert.ok(response.status < 300, `${response.status} ${response.text}`)
        const stored = await storedItems(sql, profile)
        await Promise.all(Array.from({ length: 12 }, () => assertOwnResults(client, profile, stored)))
        proxy.disconnectAll()
      }
      assert.ok(boundaries > 3, `${boundaries}`)
    })
})
