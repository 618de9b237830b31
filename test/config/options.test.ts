import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  anyText,
  flagsOnly,
  integerFrom,
  many,
  type Options,
  option,
  readOptions,
  rejectArguments,
  toggle,
} from '../../src/config/options.ts'

const options = {
  port: integerFrom('N', 0, 9, ''),
  'drain-delay': integerFrom('SECONDS', 0, 9, ''),
  cors: many(anyText('ORIGIN', 'an origin', '')),
  hsts: toggle(''),
  ...flagsOnly({ output: { ...anyText('FILE', 'a file name', ''), short: 'o' } }),
  password: { ...option('TEXT', 'a password', '', () => undefined), secret: true },
  key: { variable: 'only', expects: 'a key', help: '', read: () => undefined },
} as const satisfies Options

/** The options that are set, and where from. */
function valuesOf(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { values, sourceOf, rest, problems } = readOptions(options, args, env)
  assert.deepEqual(problems, [])
  const names = Object.keys(options) as (keyof typeof options)[]
  const set = names.filter((name) => sourceOf(name)).map((name) => [name, values[name], sourceOf(name)])
  return { set, rest }
}

const problemsOf = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => readOptions(options, args, env).problems

suite('options', () => {
  test('accepts a value after a space and after an equals sign', () => {
    for (const [args, name, value, source] of [
      [['--port', '1'], 'port', 1, '--port'],
      [['--port=1'], 'port', 1, '--port'],
      [['--output=a=b'], 'output', 'a=b', '--output'],
      [['-o', 'x'], 'output', 'x', '-o'],
      [['-o=x'], 'output', 'x', '-o'],
      [['-o', '-'], 'output', '-', '-o'],
      [['-o', '-x'], 'output', '-x', '-o'],
    ] as const)
      assert.deepEqual(valuesOf(args), { set: [[name, value, source]], rest: [] }, args.join(' '))
  })

  test('reads a boolean flag without a value as true', () => {
    for (const [args, value] of [
      [['--hsts'], true],
      [['--hsts=true'], true],
      [['--hsts=false'], false],
      [['--hsts=no'], false],
      [['--hsts', '--hsts=0'], false],
    ] as const)
      assert.deepEqual(valuesOf(args).set, [['hsts', value, '--hsts']], args.join(' '))
    assert.deepEqual(problemsOf(['--hsts=maybe']), ['--hsts must be true or false, not "maybe".'])
  })

  test('collects the values of a flag that can be repeated; otherwise the last value wins', () => {
    assert.deepEqual(valuesOf(['--cors', 'a', '--port', '1', '--cors=b', '--port', '2']).set, [
      ['port', 2, '--port'],
      ['cors', ['a', 'b'], '--cors'],
    ])
    assert.deepEqual(valuesOf([], { TODO_CORS: 'a, b' }).set, [['cors', ['a', 'b'], 'TODO_CORS']])
  })

  test('prefers a flag to its variable, and ignores an empty variable', () => {
    assert.deepEqual(valuesOf(['--port', '1'], { TODO_PORT: '2' }).set, [['port', 1, '--port']])
    assert.deepEqual(valuesOf([], { TODO_PORT: '2', TODO_HSTS: '', TODO_OUTPUT: 'x' }).set, [['port', 2, 'TODO_PORT']])
  })

  test('returns positional arguments, including every argument after --', () => {
    assert.deepEqual(valuesOf(['a', '--hsts', 'b', '-', '--', '--port', '-o']), {
      set: [['hsts', true, '--hsts']],
      rest: ['a', 'b', '-', '--port', '-o'],
    })
  })

  test('reports a flag without its value, and still reads the flag after it', () => {
    assert.deepEqual(problemsOf(['--port', '--hsts=maybe', '--cors']), [
      '--port needs a value: a whole number from 0 to 9.',
      '--cors needs a value: an origin.',
      '--hsts must be true or false, not "maybe".',
    ])
    assert.deepEqual(problemsOf(['--port=']), ['--port must be a whole number from 0 to 9, not "".'])
  })

  test('accepts a negative number as a value, so that the error is about the value', () => {
    for (const args of [['--drain-delay', '-1'], ['--drain-delay=-1']])
      assert.deepEqual(problemsOf(args), ['--drain-delay must be a whole number from 0 to 9, not "-1".'])
  })

  test('reports an unknown flag once, without its value, and suggests the nearest flag', () => {
    for (const [args, message] of [
      [['--prot', '1'], 'Unknown flag --prot. Did you mean --port?'],
      [['--prot=1'], 'Unknown flag --prot. Did you mean --port?'],
      [['--dran-delay', '-1'], 'Unknown flag --dran-delay. Did you mean --drain-delay?'],
      [['--drain-delays'], 'Unknown flag --drain-delays. Did you mean --drain-delay?'],
      [['-port', '1'], 'Unknown flag -port. Did you mean --port?'],
      [['-output', 'x'], 'Unknown flag -output. Did you mean --output?'],
      [['--verbose'], 'Unknown flag --verbose.'],
      [['--pt'], 'Unknown flag --pt.'],
      [['-p', '1'], 'Unknown flag -p.'],
      [['-1'], 'Unknown flag -1.'],
      [['--no-hsts'], 'Unknown flag --no-hsts.'],
      [['--constructor'], 'Unknown flag --constructor.'],
      [['--__proto__'], 'Unknown flag --__proto__.'],
    ] as const)
      assert.deepEqual(problemsOf(args), [message], args.join(' '))
  })

  test('reports every unknown flag', () => {
    assert.deepEqual(problemsOf(['--prot', '--verbose', 'x', '-o', 'y', '--hst']), [
      'Unknown flag --prot. Did you mean --port?',
      'Unknown flag --verbose.',
      'Unknown flag --hst. Did you mean --hsts?',
    ])
  })

  test('does not show an argument that starts with - and cannot be a flag', () => {
    for (const argument of ['-----BEGIN PRIVATE KEY-----\nabc=', '--hunter2!', '-1.5', '--=x', `--${'x'.repeat(50)}`])
      assert.deepEqual(problemsOf([argument]), ['An argument starts with - but is not a flag.'], argument)
  })

  test('does not show secrets in error messages', () => {
    for (const [args, env] of [
      [['--password', 'hunter2'], {}],
      [[], { TODO_PASSWORD: 'hunter2' }],
      [[], { TODO_KEY: 'hunter2' }],
      [['--key', 'hunter2'], {}],
      [['--key=hunter2'], {}],
      [['--port', 'https://user:hunter2@host/'], {}],
      [['--port', '-----BEGIN PRIVATE KEY-----\nhunter2'], {}],
      [['postgres://user:hunter2@host/'], {}],
    ] as const) {
      const { rest, problems } = readOptions(options, args, env)
      rejectArguments(rest, problems)
      assert.notEqual(problems.length, 0)
      assert.doesNotMatch(problems.join('\n'), /hunter2/)
    }
  })
})
