import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { cleanEnvironment, runCommand } from '../support/cli.ts'

const runner = fileURLToPath(new URL('../run.js', import.meta.url))
const preloaded = new URL('../support/bodies-as-streams.js', import.meta.url)

test('all tests of HTTP pass where Node does not push bodies, but the one that it pushes them', async (t) => {
  const env = { ...cleanEnvironment(), NODE_OPTIONS: `--import=${preloaded}` }
  const { stdout } = await runCommand(t, process.execPath, [runner, 'http', 'commands/shutdown'], { env })
  const failed = stdout.match(/(?<=^ {4}not ok \d+ - ).*/gm)
  assert.deepEqual(failed, [
    'are received without events of the stream, as soon as one body has shown that Node pushes them',
  ])
  assert.match(stdout, /^# pass \d{3}$/m)
})
