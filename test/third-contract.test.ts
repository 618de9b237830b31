import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { profiles } from '../src/app.ts'
import { createClient } from '../src/verify/engine/client.ts'
import { developmentToken } from './support/control.ts'
import { newDatabase } from './support/database.ts'
import { temporaryFolder } from './support/folder.ts'
import { notes } from './support/notes.ts'
import { serveWith } from './support/service.ts'

const path = '/api/notes'
const [shopping] = [notes.collection.startingDocuments[0]?.json ?? '']
const idea = { slug: 'idea', text: 'a\0"b"', isPinned: true }

const stores: Record<string, (t: TestContext) => string[] | Promise<string[]>> = {
  memory: () => [],
  SQLite: (t) => ['--data', join(temporaryFolder(t), 'notes.db')],
  PostgreSQL: async () => ['--database-url', (await newDatabase()).url],
}

suite('a third contract is a value: no other file knows its items', () => {
  for (const [kind, flagsOf] of Object.entries(stores))
    test(`${kind}: items, spaces, faults, journal and document`, async (t) => {
      const { url } = await serveWith(
        t,
        ['--no-https', ...(await flagsOf(t))],
        () => ({}),
        undefined,
        { ...profiles, b: notes },
        'b',
      )
      const [client, ada] = [createClient(url), createClient(`${url}/~ada`)]
      assert.equal((await client.send('GET', path)).text, `[${shopping}]`)
      assert.equal((await ada.send('PUT', `${path}/idea`, { ...idea, slug: 'x' })).status, 204)
      const read = await ada.send('GET', `${path}/idea`)
      assert.deepEqual([read.status, JSON.parse(read.text)], [200, idea])
      assert.equal((await ada.send('GET', path)).text, `[${shopping},${read.text}]`)
      assert.equal((await client.send('GET', `${path}/idea`)).text, '{"error":"item-missing"}')
      const stale = await ada.send('PUT', `${path}/idea`, idea, { 'if-match': '"stale"' })
      assert.deepEqual([stale.status, stale.text], [412, '{"error":"precondition-failed"}'])
      assert.equal(
        (await ada.send('POST', '/__admin/faults', { path: `${path}/{id}`, code: 503, times: 1 })).status,
        201,
      )
      assert.deepEqual((await ada.send('GET', `${path}/idea`)).text, '{"error":"store-unavailable"}')
      assert.equal((await ada.send('PUT', '/__admin/items', [idea])).status, 204)
      assert.equal((await ada.send('GET', path)).text, `[${read.text}]`)
      const entries: { method: string; path: string }[] = JSON.parse((await ada.send('GET', '/__admin/requests')).text)
      assert.deepEqual(
        new Set(entries.map((entry) => `${entry.method} ${entry.path}`)),
        new Set([`GET ${path}`, `GET ${path}/idea`, `PUT ${path}/idea`]),
      )
      assert.equal((await ada.send('POST', '/__admin/reset')).status, 204)
      assert.equal((await ada.send('GET', path)).text, `[${shopping}]`)
      const document = JSON.parse(
        (
          await client.send('GET', '/swagger/v1/swagger.json', undefined, {
            authorization: `Bearer ${await developmentToken(client)}`,
          })
        ).text,
      )
      assert.deepEqual(Object.keys(document.components.schemas.Note.properties), ['slug', 'text', 'isPinned'])
    })
})
