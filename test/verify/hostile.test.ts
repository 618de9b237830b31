import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { readOpenApi, shapeOf } from '../../src/verify/contracts/openapi.ts'
import { createClient } from '../../src/verify/engine/client.ts'
import { numberLiterals, parseExact, UnacceptableJson } from '../../src/verify/engine/json.ts'
import { verify } from '../../src/verify/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { agentInto } from '../support/running.ts'

/** Each takes a fraction of it, also on a busy machine; without a limit it would take hours. */
const maxMs = 20_000

function soon<T>(work: () => T): T {
  const startedAt = performance.now()
  const result = work()
  assert.ok(performance.now() - startedAt < maxMs)
  return result
}

function agentOf(t: TestContext, listener: RequestListener) {
  const server = createServer(listener)
  const agent = agentInto((stream) => server.emit('connection', stream))
  cleanUp(t, () => agent.destroy())
  return agent
}

suite('JSON of a server', () => {
  /** As long as a response may be. */
  const repeated = (text: string) => text.repeat((2 ** 24 - 100) / text.length)
  const [levels, values, digits] = [
    'JSON with at most 500 levels of nesting',
    'JSON with at most 2000000 values',
    'JSON numbers of at most 1000 digits',
  ]
  for (const [title, text, message] of [
    ['arrays without end', repeated('['), levels],
    ['objects without end', repeated('{"a":'), levels],
    ['millions of numbers', `[${repeated('0,')}0]`, values],
    ['millions of objects', `[${repeated('{},')}{}]`, values],
    ['a number of millions of digits', `[${repeated('1')}]`, digits],
    ['a fraction of millions of digits', `[0.${repeated('1')}]`, digits],
  ] as const)
    test(`${title}: refused before it is parsed`, () => {
      soon(() => assert.throws(() => parseExact(text), new UnacceptableJson(message)))
    })

  for (const [title, text, expected] of [
    ['a text of millions of escapes', `["${repeated('\\"')}"]`, [repeated('\\"').replaceAll('\\', '')]],
    ['white space', `[${repeated(' ')}1]`, [1]],
    ['the limits', `[${'1'.repeat(1_000)}, ${'['.repeat(499)}${']'.repeat(499)}]`, undefined],
    // What is in a text is no nesting, no value and no number.
    ['limits in a text', `["${'['.repeat(1e4)}${'1'.repeat(1e4)}${','.repeat(3e6)}"]`, undefined],
  ] as const)
    test(`${title}: accepted`, () => {
      const parsed = soon(() => parseExact(text)) as unknown[]
      if (expected) assert.ok(parsed.length === 1 && parsed[0] === expected[0])
    })

  test('its numbers, whether it is JSON or not', () => {
    soon(() => {
      assert.deepEqual(numberLiterals(`[-1.5e+3,"2\\"3",4,"${'a'.repeat(1e6)}`), ['-1.5e+3', '4'])
      assert.deepEqual(numberLiterals(`"${'\\"'.repeat(1e6)}`), [])
    })
  })

  test('a failure names the limit, and what it got is short', async (t) => {
    for (const [text, expected] of [
      ['['.repeat(600), levels],
      [`[${'9'.repeat(1_001)}]`, digits],
      [`["${'x'.repeat(20_000)}"]`, 'an array of JSON objects'],
    ]) {
      const agent = agentOf(t, (_, response) => response.writeHead(200, { allow: 'x'.repeat(8_000) }).end(text))
      const { outcomes } = await verify({ url: 'http://x', profile: 'a', agent, only: ['A1'], quick: true })
      const [failure] = outcomes.flatMap((outcome) => outcome.failure ?? [])
      assert.equal(failure?.expected, expected)
      assert.ok((failure?.got.length ?? 0) <= 1_000, `${failure?.got.length} characters`)
    }
  })
})

suite('an OpenAPI document with', () => {
  const repeat = <T>(count: number, value: T): T[] => Array(count).fill(value)
  const response = { responses: { 200: { description: 'x', content: {} } } }
  for (const [title, members] of Object.entries({
    'a path of braces': { paths: { [`/${'{'.repeat(300_000)}`]: { get: response } } },
    'a reference of megabytes, again and again': {
      components: {
        schemas: {
          a: { $ref: `#/components/schemas/${'%41'.repeat(300_000)}` },
          ['A'.repeat(300_000)]: {},
          ...Object.fromEntries(repeat(20_000, { $ref: '#/components/schemas/a' }).entries()),
        },
      },
    },
  }))
    test(`${title} is judged soon`, () => {
      soon(() =>
        readOpenApi(
          { openapi: '3.0.1', info: { title: 'x', version: 'v1' }, paths: {}, ...members },
          'http://localhost',
          '/',
        ),
      )
    })

  test('a schema that is composed of itself is judged soon', () => {
    const document = { paths: {}, schema: { type: 'string', allOf: repeat(2_000, { $ref: '#/schema' }) } }
    readOpenApi(document, 'http://localhost', '/')
    assert.equal(soon(() => shapeOf(document.schema)).type, 'string')
  })
})

test('a body in chunks of a byte is one text', async (t) => {
  const agent = agentOf(t, (_, response) => {
    for (const byte of Buffer.from('aä😀'.repeat(1_000))) response.write(Buffer.of(byte))
    response.end()
  })
  const { text } = await createClient('http://x', { agent }).send('GET', '/')
  assert.equal(text, 'aä😀'.repeat(1_000))
})
