import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runCommand } from '../support/cli.ts'

const fileAt = (path: string) => fileURLToPath(new URL(path, import.meta.url))

test('all tests of HTTP pass where Node does not push bodies, but lets them be read as streams', async (t) => {
  const env = {
    ...process.env,
    NODE_OPTIONS: `--import=${new URL('../support/bodies-as-streams.js', import.meta.url)}`,
  }
  const { code, stdout } = await runCommand(t, process.execPath, [fileAt('../run.js'), 'http', 'commands/shutdown'], {
    env,
  })
  assert.equal(
    code,
    0,
    stdout
      .split('\n')
      .filter((line) => /^\s*not ok/.test(line))
      .join('\n'),
  )
  assert.match(stdout, /^# pass \d{3}/m)
})
