import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { storableText } from './support/text.ts'

const { toCurl } = await import(`${new URL('../page/format.js', import.meta.url)}`)
const bashMissing = spawnSync('bash', ['--version']).status !== 0 && 'needs bash'

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
  const requests = fc.array(fc.tuple(storableText(), storableText(), storableText(), storableText()), {
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
      for (const command of commands) assert.doesNotMatch(command, /\p{Cc}/u)
      assert.deepEqual(
        argumentsOf(commands),
        all.map(([method, path, value, body]) => [
          ...['-i', '-X', `X${method}`, `http://localhost:5080/${path}`],
          ...['-H', `x-value: ${value}`, '-H', 'content-type:', '--data-raw', body],
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
          ],
        ],
      ],
    },
  )
})
