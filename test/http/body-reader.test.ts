import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { profiles } from '../../src/app.ts'
import type { NamedSchema } from '../../src/common/schema.ts'
import { bodyReader } from '../../src/http/body-reader.ts'

const schemas = new Set(Object.values(profiles).flatMap(({ routes }) => routes.flatMap(({ body }) => body ?? [])))

const oftenOf = <T>(usual: T, others: readonly T[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

/** White space that JSON allows, and that it does not. */
const space = oftenOf('', [' ', '  ', '\t', '\r\n', '\u00a0', '\ufeff', '\u2028', '\v'])

const strings = fc.oneof(
  fc.string({ unit: 'grapheme' }).map((text) => JSON.stringify(text)),
  fc.constantFrom('""', '" "', '"a', '"\\u0041"', '"\\ud800"', '"\ud800"', '"\0"', '"\u007f"', '"\n"', '"\\"', '"{}"'),
  fc.constantFrom(1024, 1025).map((length) => `"${'x'.repeat(length)}"`),
)
const numbers = fc.oneof(
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String),
  fc.nat().map(String),
  fc.constantFrom('-0', '00', '01', '1.0', '1e3', '+1', '0x1', '1_000', '999999999999999', '9007199254740993', '"1"'),
)
const others = fc.constantFrom('true', 'false', 'null', 'True', 'nulll', '', '{}', '[]', '{"id":1}', 'undefined')

const tokens = { string: strings, integer: numbers } as Partial<Record<string, fc.Arbitrary<string>>>

function textsOf({ properties = {} }: NamedSchema): fc.Arbitrary<string> {
  const names = Object.keys(properties)
  const members = Object.entries(properties).map(([name, { type }]) => {
    const usual = tokens[type] ?? fc.constantFrom('true', 'false')
    const token = fc.oneof(
      { weight: 8, arbitrary: usual },
      { weight: 1, arbitrary: fc.oneof(strings, numbers, others) },
    )
    return fc.tuple(
      space,
      oftenOf(name, [...names, 'more', name.toUpperCase(), '__proto__']),
      space,
      space,
      token,
      space,
    )
  })
  const usualOrder = fc.tuple(...members)
  const anyOrder = fc.array(fc.oneof(...members), { maxLength: names.length + 2 })
  return fc
    .tuple(
      fc.oneof({ weight: 4, arbitrary: usualOrder }, { weight: 1, arbitrary: anyOrder }),
      oftenOf(
        ['{', '}'],
        [
          ['', '}'],
          ['{', ''],
          ['{,', '}'],
          ['{', ',}'],
          ['{', '}}'],
          ['{', '}\n'],
          ['[', ']'],
        ],
      ),
    )
    .map(
      ([list, [start, end]]) =>
        start +
        list
          .map(([before, name, mid, next, token, after]) => `${before}"${name}"${mid}:${next}${token}${after}`)
          .join() +
        end,
    )
}

suite('JSON bodies', () => {
  for (const schema of schemas) {
    const read = bodyReader(schema)
    const outcomeOf = (text: string) => {
      const sent = { hasAllMembers: false }
      try {
        const result = read(text, sent)
        return { result, ...sent }
      } catch (error) {
        return (error as Error).name
      }
    }

    test(`${schema.name} in the usual form gives what the parser gives`, () => {
      // The white space behind it makes a text unusual, and changes nothing else.
      fc.assert(
        fc.property(textsOf(schema), (text) => assert.deepEqual(outcomeOf(text), outcomeOf(`${text} `))),
        { numRuns: 3_000 },
      )
    })

    test(`${schema.name} in the usual form is not parsed as a whole, with and without spaces`, (t) => {
      const names = Object.keys(schema.properties ?? {})
      const compact = JSON.stringify(Object.fromEntries(names.map((name) => [name, schema.example[name as never]])))
      const parse = t.mock.method(JSON, 'parse')
      const isParsed = (text: string) => {
        outcomeOf(text)
        return parse.mock.calls.some(({ arguments: [parsed] }) => parsed === text)
      }
      assert.equal(isParsed(compact), false)
      assert.equal(isParsed(compact.replaceAll(/(?<=[:,]) ?(?=["tfn\d])/g, ' ')), false)
      assert.equal(isParsed(`${compact} `), true)
    })
  }
})
