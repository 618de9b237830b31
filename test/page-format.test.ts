import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'

const { toCurl } = await import(`${new URL('../../page/format.js', import.meta.url)}`)
const bashMissing = spawnSync('bash', ['--version']).status !== 0 && 'needs bash'

/** The arguments that a shell gives to curl. */
function argumentsOf(command: string): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const { stdout, stderr, status } = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
  assert.deepEqual([status, stderr], [0, ''], command)
  return stdout.split('\0').slice(0, -1)
}

test('a command of "Copy as curl" has the parts of the request and nothing else, whatever they contain', {
  skip: bashMissing,
}, () => {
  const text = fc
    .string({ unit: 'binary' })
    .filter((value) => !value.includes('\0') && value !== '' && value.isWellFormed())
  fc.assert(
    fc.property(text, text, text, text, (method, path, value, body) => {
      const request = { method: `X${method}`, path: `/${path}`, query: '', headers: { 'x-value': value }, body }
      const command = toCurl('http://localhost:5080', request, false)
      assert.doesNotMatch(command, /\p{Cc}/u)
      assert.deepEqual(argumentsOf(command), [
        ...['-i', '-X', `X${method}`, `http://localhost:5080/${path}`],
        ...['-H', `x-value: ${value}`, '-H', 'content-type:', '--data-raw', body],
      ])
    }),
    {
      numRuns: 100,
      examples: [
        ["|touch$IFS'x'", "'; touch x; '", '$(touch x)', '\u001b[201~\rtouch x\r'],
        ['`touch x`', '\u009b', '\\\\', "@/etc/passwd\n\\'"],
      ],
    },
  )
})
