import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { collectionsOf, profiles } from '../../src/app.ts'
import { jsonLog } from '../../src/log.ts'
import { defaultSpace, type Spaces } from '../../src/store/store.ts'
import { transports } from '../support/running.ts'
import { itemsIn, memoryStores, stores as openStores, startingWith } from '../support/stores.ts'

const items = '/api/todoitems'

const failures = {
  throws(cause: Error): never {
    throw cause
  },
  rejects: (cause: Error) => Promise.reject(cause),
}

/** Stores whose operations fail at the first call only. */
function failingOnce(fail: (cause: Error) => unknown): { readonly spaces: Spaces } {
  const failing = <T extends object>(target: T): T => {
    const failed = new Set<string | symbol>()
    return new Proxy(target, {
      get(target, operation) {
        if (!failed.has(operation)) {
          failed.add(operation)
          return () => fail(new Error(`disk failure in ${String(operation)}`))
        }
        const method = Reflect.get(target, operation)
        return typeof method === 'function' ? method.bind(target) : method
      },
    })
  }
  const { spaces } = memoryStores(collectionsOf(profiles), 'test')
  const collections = new Map(['a', 'b'].map((name) => [name, failing(spaces.collection(name, defaultSpace))]))
  const collection = (name: string) => collections.get(name) ?? assert.fail(name)
  return { spaces: { collection, listSpaces: () => [], deleteSpace() {} } }
}

function recordingLog() {
  const lines: Record<string, unknown>[] = []
  return {
    lines,
    log: jsonLog(
      (line) => void lines.push(JSON.parse(line)),
      'error',
      () => new Date(0),
    ),
  }
}

for (const [transport, connect] of Object.entries(transports)) {
  for (const [verb, fail] of Object.entries(failures))
    suite(`store failures: a store that ${verb}, ${transport}`, () => {
      const numbered = { id: 1, name: 'x', isComplete: true }
      for (const [operation, method, path, body, next] of [
        ['list', 'GET', items, undefined, 200],
        ['create', 'POST', items, numbered, 201],
        ['get', 'GET', `${items}/1`, undefined, 404],
        ['update', 'PUT', `${items}/1`, numbered, 404],
        ['delete', 'DELETE', `${items}/1`, undefined, 404],
      ] as const)
        test(`A15, G8 ${operation} in profile A: 500, the cause only in the log, then ${next}`, async (t) => {
          const { lines, log } = recordingLog()
          const service = await connect(t, 'a', { stores: failingOnce(fail), log })
          const response = await service.send(method, path, body)
          assert.equal(response.status, 500)
          assert.equal(response.headers['content-type'], 'application/problem+json')
          const problem = JSON.parse(response.text)
          assert.deepEqual(Object.keys(problem), ['type', 'title', 'status', 'traceId'])
          assert.doesNotMatch(response.text, /disk/)
          assert.equal(lines.length, 1)
          assert.deepEqual(
            { level: lines[0]?.level, id: lines[0]?.id, method: lines[0]?.method, path: lines[0]?.path },
            { level: 'error', id: problem.traceId, method, path },
          )
          assert.match(String(lines[0]?.cause), new RegExp(`^Error: disk failure in ${operation}\n +at `))
          assert.equal((await service.send(method, path, body)).status, next)
        })

      const named = { id: 'x', name: 'x', notes: 'x' }
      for (const [operation, method, path, body, status, code, next] of [
        ['list', 'GET', items, undefined, 500, '', 200],
        ['create', 'POST', items, named, 400, 'CouldNotCreateItem', 200],
        ['replace', 'PUT', items, named, 400, 'CouldNotUpdateItem', 404],
        ['delete', 'DELETE', `${items}/x`, undefined, 400, 'CouldNotDeleteItem', 404],
      ] as const)
        test(`B6, G8 ${operation} in profile B: ${`${status} ${code}`.trim()}, the cause only in the log, then ${next}`, async (t) => {
          const { lines, log } = recordingLog()
          const service = await connect(t, 'b', { stores: failingOnce(fail), log })
          const response = await service.send(method, path, body)
          assert.deepEqual([response.status, response.text], [status, code])
          assert.equal(lines.length, 1)
          assert.match(String(lines[0]?.id), /^request-\d+$/)
          assert.match(String(lines[0]?.cause), /disk failure/)
          assert.equal((await service.send(method, path, body)).status, next)
        })
    })

  test(`B11 ids of reserved characters can be created and deleted, ${transport}`, async (t) => {
    const service = await connect(t, 'b')
    for (const id of ['/', '//', '%', '%2F', '.', '..', '?', '#', '__proto__']) {
      assert.equal((await service.send('POST', items, { id, name: 'x', notes: 'x' })).status, 200, id)
      assert.equal((await service.send('DELETE', `${items}/${encodeURIComponent(id)}`)).status, 204, id)
    }
  })

  suite(`profile A, ${transport}`, () => {
    test('A10 a stored secret is in no response and is unchanged by a PUT', async (t) => {
      const a = [{ id: '5', name: 'x', isComplete: false, secret: 'hidden' }]
      const stores = await openStores.SQLite(t, { a, b: [] })
      const service = await connect(t, 'a', { stores })
      const put = await service.send('PUT', `${items}/5`, { id: 5, name: 'y', isComplete: true, secret: 'sent' })
      assert.equal(put.status, 204)
      for (const path of [items, `${items}/5`])
        assert.doesNotMatch((await service.send('GET', path)).text, /secret|hidden|sent/)
      assert.deepEqual(await itemsIn(stores.a), [{ id: 5, name: 'y', isComplete: true }])
      assert.equal((await stores.exportItems()).a.items[0]?.secret, 'hidden')
    })

    test('A11 reads, updates and deletes an item with an id above 2^53, and not the one with the next lower id', async (t) => {
      const item = (id: string) => ({ id, name: 'x', isComplete: false, secret: null })
      const a = [item('9007199254740992'), item('9007199254740993')]
      const stores = memoryStores(startingWith({ a, b: [] }), 'test')
      const service = await connect(t, 'a', { stores })
      const path = `${items}/9007199254740993`
      // G4: the last of two equal names wins, wherever it stands and however it is written.
      for (const id of ['1.0', '1e0', '01', '2', '"1"', 'null'])
        for (const name of ['id', '\\u0069d'])
          for (const text of [
            `{"id":1,"name":"x","isComplete":true,"${name}":${id}}`,
            `{"name":"x","id":1,"isComplete":true,"${name}":${id}}`,
          ])
            assert.equal((await service.send('PUT', `${items}/1`, text)).status, 400, text)
      assert.equal((await service.send('PUT', `${items}/1`, '{"id":2,"isComplete":true,"id":1}')).status, 404)
      assert.equal((await service.send('GET', path)).text, '{"id":9007199254740993,"name":"x","isComplete":false}')
      const body = (id: string) => `{"id":${id},"name":"y","isComplete":true}`
      assert.equal((await service.send('PUT', path, body('9007199254740992'))).status, 400)
      assert.equal((await service.send('PUT', path, body('9007199254740993'))).status, 204)
      const created = await service.send('POST', items, { isComplete: true })
      assert.match(created.headers.location ?? '', /\/api\/todoitems\/9007199254740994$/)
      assert.equal((await service.send('DELETE', path)).status, 204)
      const remaining = [...(await service.send('GET', items)).text.matchAll(/"id":(\d+)/g)].map(([, id]) => id)
      assert.deepEqual(remaining, ['9007199254740992', '9007199254740994'])
    })

    test('A3 a malformed Host gets 400, and nothing is stored', async (t) => {
      const service = await connect(t, 'a')
      for (const host of ['a b', 'http://x', 'a/b', 'x:y', '<x>', '[::1'])
        assert.equal((await service.send('POST', items, { isComplete: true }, { host })).status, 400, host)
      assert.equal((await service.send('GET', items)).text, '[]')
      for (const host of ['[::1]:80', '10.0.2.2:5000', 'todo_1.example'])
        assert.equal((await service.send('GET', items, undefined, { host })).status, 200, host)
    })

    test('A3 Location has the scheme and authority of the request, or of the configured base URL', async (t) => {
      const create = async (options: { baseUrl?: string }) => {
        const service = await connect(t, 'a', options)
        const response = await service.send('POST', items, { isComplete: true }, { host: 'todo.example:81' })
        return response.headers.location
      }
      assert.equal(await create({}), 'http://todo.example:81/api/todoitems/1')
      assert.equal(await create({ baseUrl: 'https://public.example/x' }), 'https://public.example/x/api/todoitems/1')
    })
  })
}
