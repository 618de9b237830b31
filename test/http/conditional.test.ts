import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { transports } from '../support/running.ts'
import { stores } from '../support/stores.ts'

const items = '/api/todoitems'
const item = { name: 'x', isComplete: false }
const none = { a: [], b: [] }

for (const [kind, open] of Object.entries(stores))
  suite(`entity tags, ${kind} store`, () => {
    test('If-None-Match gets 304 without a body until the item changes', async (t) => {
      const service = await transports['over a socket'](t, 'a', { stores: await open(t, none) })
      const created = await service.send('POST', items, item)
      for (const path of [items, `${items}/1`]) {
        const first = await service.send('GET', path)
        const etag = `${first.headers.etag}`
        assert.match(etag, /^"[\w.+/=-]+"$/)
        for (const header of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
          const again = await service.send('GET', path, undefined, { 'if-none-match': header })
          assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', etag], header)
          assert.equal(again.headers['content-type'], undefined)
        }
        const other = await service.send('GET', path, undefined, { 'if-none-match': '"other"' })
        assert.deepEqual([other.status, other.text], [200, first.text])
        assert.equal((await service.send('HEAD', path, undefined, { 'if-none-match': etag })).status, 304)
      }
      assert.equal(created.headers.etag, (await service.send('GET', `${items}/1`)).headers.etag)
      const before = await Promise.all([items, `${items}/1`].map((path) => service.send('GET', path)))
      await service.send('PUT', `${items}/1`, { id: 1, name: 'y', isComplete: true })
      for (const { request, headers } of before) {
        const after = await service.send('GET', request.path, undefined, { 'if-none-match': headers.etag })
        assert.equal(after.status, 200)
        assert.match(after.text, /"y"/)
      }
    })

    test('If-Match gets 412 when the item has changed, and nothing is written; A8 400 and 404 come first', async (t) => {
      const service = await transports['over a socket'](t, 'a', { stores: await open(t, none) })
      const { headers } = await service.send('POST', items, item)
      const old = { 'if-match': headers.etag }
      const put = (name: string, condition: object) =>
        service.send('PUT', `${items}/1`, { id: 1, name, isComplete: true }, { ...condition })
      assert.equal((await put('first', old)).status, 204)
      for (const condition of [old, { 'if-match': '"1' }, { 'if-match': `W/${headers.etag}` }]) {
        const response = await put('second', condition)
        assert.deepEqual([response.status, response.headers['content-type']], [412, 'application/problem+json'])
        assert.equal((await service.send('DELETE', `${items}/1`, undefined, { ...condition })).status, 412)
      }
      assert.match((await service.send('GET', items)).text, /"first"/)
      assert.equal((await service.send('DELETE', `${items}/2`, undefined, old)).status, 404)
      assert.equal((await service.send('PUT', `${items}/1`, { id: 2, ...item }, old)).status, 400)
      assert.equal((await put('third', { 'if-match': '*' })).status, 204)
      // Generated clients send an empty header where no entity tag is given.
      assert.equal((await put('fourth', { 'if-match': '' })).status, 204)
      const now = (await service.send('GET', `${items}/1`)).headers.etag
      assert.equal((await service.send('DELETE', `${items}/1`, undefined, { 'if-match': `"0", ${now}` })).status, 204)
    })

    test('A7 the response to a PUT has the ETag of this write where GET returns what was sent', async (t) => {
      const service = await transports['over a socket'](t, 'a', { stores: await open(t, none) })
      const put = (body: string, condition: object = {}) =>
        service.send('PUT', `${items}/1`, body, { 'content-type': 'application/json', ...condition })
      const json = (name: string) => `{"id":1,"name":${JSON.stringify(name)},"isComplete":true}`
      let etag = (await service.send('POST', items, item)).headers.etag
      const tags = new Set([etag])
      for (const name of ['first', 'naïve 😀', 'third']) {
        const { status, headers, text } = await put(json(name), { 'if-match': etag })
        assert.deepEqual([status, text, tags.has(headers.etag)], [204, '', false])
        etag = headers.etag
        tags.add(etag)
        const found = await service.send('GET', `${items}/1`)
        assert.deepEqual([found.headers.etag, found.text], [etag, json(name)])
      }
      assert.equal((await put(json('late'), { 'if-match': [...tags][1] })).headers.etag, undefined)
      for (const body of [
        '{"id":1,"isComplete":true}',
        '{"id":1,"name":"x","isComplete":true,"secret":"x"}',
        '{"id":1,"name":"x","isComplete":true,"__proto__":{}}',
      ]) {
        const { status, headers } = await put(body)
        assert.deepEqual([status, headers.etag], [204, undefined], body)
      }
      for (const body of [
        '{"id":1,"isComplete":true,"name":"x"}',
        '{"id": 1, "name": "\\u0078", "isComplete": true}',
        `${json('x')}\n`,
        `\ufeff${json('x')}`,
      ]) {
        const { headers } = await put(body)
        assert.equal(headers.etag, (await service.send('GET', `${items}/1`)).headers.etag, body)
      }
      const names = Array.from({ length: 20 }, (_, index) => `together ${index}`)
      const writes = await Promise.all(names.map((name) => put(json(name))))
      assert.equal(new Set(writes.map(({ headers }) => headers.etag)).size, names.length)
      const last = await service.send('GET', `${items}/1`)
      assert.equal(writes[names.findIndex((name) => last.text === json(name))]?.headers.etag, last.headers.etag)
    })

    test('If-Match gets 412 for a GET when nothing matches, before If-None-Match is evaluated', async (t) => {
      for (const profile of ['a', 'b'] as const) {
        const service = await transports['over a socket'](t, profile, { stores: await open(t, none) })
        if (profile === 'a') await service.send('POST', items, item)
        for (const path of profile === 'a' ? [items, `${items}/1`] : [items]) {
          const { headers } = await service.send('GET', path)
          const get = async (condition: object) => (await service.send('GET', path, undefined, { ...condition })).status
          assert.equal(await get({ 'if-match': '"other"', 'if-none-match': headers.etag }), 412)
          assert.equal(await get({ 'if-match': headers.etag, 'if-none-match': headers.etag }), 304)
          for (const match of [headers.etag, `"other", ${headers.etag}`, '*', ''])
            assert.equal(await get({ 'if-match': match }), 200)
        }
      }
    })

    test('If-None-Match gets 304 for the list of profile B until it changes', async (t) => {
      const service = await transports['over a socket'](t, 'b', { stores: await open(t, none) })
      const { headers } = await service.send('GET', items)
      const again = () => service.send('GET', items, undefined, { 'if-none-match': headers.etag })
      assert.equal((await again()).status, 304)
      await service.send('POST', items, { id: 'x', name: 'x', notes: 'x' })
      assert.equal((await again()).status, 200)
    })
  })

test('an entity tag of another process does not match', async (t) => {
  const [first, second] = [await transports['over a socket'](t, 'a'), await transports['over a socket'](t, 'a')]
  assert.equal((await first.send('GET', items)).headers.etag, '"test-0"')
  assert.equal((await second.send('GET', items, undefined, { 'if-none-match': '"other-0"' })).status, 200)
})
