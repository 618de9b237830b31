import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { storableText } from './support/text.ts'

const { toCurl, toFetch, toCSharp } = await import(`${new URL('../page/format.js', import.meta.url)}`)
const bashMissing = spawnSync('bash', ['--version']).status !== 0 && 'needs bash'

/** No argument of a program has U+0000. */
const argument = storableText().filter((text) => !text.includes('\0'))

/** The arguments that a shell gives to curl, for each command. */
function argumentsOf(commands: readonly string[]): string[][] {
  const script = `curl() { printf '%s\\0' "$@"; printf '\\0'; }\n${commands.join('\n')}`
  const { stdout, stderr, status } = spawnSync('bash', { input: script, encoding: 'utf8' })
  assert.deepEqual([status, stderr], [0, ''], script)
  return stdout
    .split('\0\0')
    .slice(0, -1)
    .map((words) => words.split('\0'))
}

test('a command of "Copy as curl" has the parts of the request and nothing else, whatever they contain', {
  skip: bashMissing,
}, () => {
  const requests = fc.array(fc.tuple(argument, argument, argument, argument), {
    minLength: 50,
    maxLength: 100,
  })
  fc.assert(
    fc.property(requests, (all) => {
      const commands = all.map(([method, path, value, body]) =>
        toCurl(
          'http://localhost:5080',
          { method: `X${method}`, path: `/${path}`, query: '', headers: { 'x-value': value }, body },
          false,
        ),
      )
      for (const command of commands) assertVisible(command)
      assert.deepEqual(
        argumentsOf(commands),
        all.map(([method, path, value, body]) => [
          '-i',
          '-X',
          `X${method}`,
          `http://localhost:5080/${path}`,
          '-H',
          `x-value: ${value}`,
          '-H',
          'content-type:',
          '--data-raw',
          body,
        ]),
      )
    }),
    {
      numRuns: 5,
      examples: [
        [
          [
            ["|touch$IFS'x'", "'; touch x; '", '$(touch x)', '\u001b[201~\rtouch x\r'],
            ['`touch x`', '\u009b', '\\\\', "@/etc/passwd\n\\'"],
            ['\u202eabc', '\u2028', '\u{e0041}', 'a\u00ad\ufeff'],
          ],
        ],
      ],
    },
  )
})

const hostile: [string, string, string, string][] = [
  ['"); Evil("', '";evil();"', '`+evil()+`', '\\"\\'],
  ['\u2028evil()', '\u2029', '\u0085evil()', '\r\nevil()\u0000\u001b[201~'],
  ['\u202eabc', '//', '*/', '</script>\ud83d\ude00\u{e0041}\u200d'],
]
const hostileRequests = () => fc.tuple(storableText(), storableText(), storableText(), storableText())

/** One line each, and nothing that is invisible or turns the text around. */
function assertVisible(code: string): void {
  assert.doesNotMatch(code.replaceAll('\n', ''), /[\p{C}\u2028\u2029]/u)
}

test('a statement of "Copy as fetch" makes the request and does nothing else, whatever it contains', async () => {
  const run = async (code: string) => {
    const calls: unknown[][] = []
    const fetchStub = async (...given: unknown[]) => calls.push(given)
    await new Function('fetch', 'token', `return (async () => {\n${code}\n})()`)(fetchStub, 'T0')
    assert.equal(calls.length, 1)
    const [url, options = {}] = calls[0] as [string, RequestInit?]
    return { url, ...options }
  }
  await fc.assert(
    fc.asyncProperty(hostileRequests(), async ([method, path, value, body]) => {
      const headers = { 'x-value': value, 'content-type': 'text/plain', host: 'elsewhere' }
      const request = { method: `X${method}`, path: `/${path}`, query: '?q', headers, body }
      const code = toFetch('http://localhost:5080', request, false)
      assertVisible(code)
      assert.deepEqual(await run(code), {
        url: `http://localhost:5080/${path}?q`,
        method: `X${method}`,
        headers: { 'x-value': value, 'content-type': 'text/plain' },
        ...(body && { body }),
      })
    }),
    { examples: hostile.map((one): [typeof one] => [one]) },
  )
  const headers = JSON.parse('{"__proto__":"x"}')
  const origin = 'http://localhost:5080'
  const named = await run(toFetch(origin, { method: 'GET', path: '/secret', query: '', headers, body: null }, true))
  assert.deepEqual(Object.entries(named.headers ?? {}), [
    ['authorization', 'Bearer T0'],
    ['__proto__', 'x'],
  ])
  assert.equal(
    toFetch(origin, { method: 'GET', path: '/', query: '', body: null }, false),
    `const response = await fetch("${origin}/")`,
  )
  // Without a content type, as it was sent; and what fetch rejects is left out.
  const untyped = await run(toFetch(origin, { method: 'POST', path: '/', query: '', body: '{}' }, false))
  assert.ok(untyped.body instanceof Blob && untyped.body.type === '' && (await untyped.body.text()) === '{}')
  const get = toFetch(origin, { method: 'GET', path: '/', query: '', body: '{}' }, false)
  assert.match(get, /^\/\/ fetch cannot send the body of this GET\.\n/)
  assert.equal((await run(get)).body, undefined)
})

const csharpLiteral = /"((?:[^"\\\r\n\u0085\u2028\u2029]|\\(?:["\\bfnrt]|u[\da-f]{4}))*)"/g

test('the statements of "Copy as C#" have the parts of the request in literals, whatever they contain', () => {
  fc.assert(
    fc.property(hostileRequests(), ([method, path, value, body]) => {
      const headers = { 'x-value': value, 'content-type': 'text/plain', 'content-language': 'en' }
      const request = { method: `X${method}`, path: `/${path}`, query: '', headers, body }
      const code: string = toCSharp('http://localhost:5080', request, true)
      assertVisible(code)
      // The escapes in it are those of JSON, too.
      const texts = [...code.matchAll(csharpLiteral)].map(([literal]) => JSON.parse(literal))
      assert.deepEqual(texts, [
        `X${method}`,
        `http://localhost:5080/${path}`,
        'authorization',
        'Bearer ',
        body,
        'content-type',
        'x-value',
        value,
        'content-type',
        'text/plain',
        'content-language',
        'en',
      ])
      assert.equal(
        code.replace(csharpLiteral, '_'),
        [
          'using var client = new HttpClient();',
          'using var request = new HttpRequestMessage(new HttpMethod(_), _);',
          'request.Headers.TryAddWithoutValidation(_, _ + token);',
          'request.Content = new StringContent(_);',
          'request.Content.Headers.Remove(_);',
          'request.Headers.TryAddWithoutValidation(_, _);',
          'request.Content.Headers.TryAddWithoutValidation(_, _);',
          'request.Content.Headers.TryAddWithoutValidation(_, _);',
          'using var response = await client.SendAsync(request);',
        ].join('\n'),
      )
    }),
    { examples: hostile.map((one): [typeof one] => [one]) },
  )
})
