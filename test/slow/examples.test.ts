import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { cleanEnvironment, runCommand } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** A copy of the examples, with the packages that the project of a user would have. */
function project(t: TestContext): string {
  const folder = realpathSync(temporaryFolder(t))
  cpSync(join(root, 'examples'), join(folder, 'examples'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  mkdirSync(join(folder, 'node_modules/@playwright'), { recursive: true })
  const link = (name: string, target: string) => symlinkSync(target, join(folder, 'node_modules', name), 'junction')
  link('todo-item-service', root)
  symlinkSync(join(root, 'dist'), join(folder, 'dist'), 'junction')
  for (const name of ['vitest', '@playwright/test']) link(name, join(root, 'test/node_modules', name))
  return folder
}

/** Runs a program of Node in the project; returns what it prints. */
async function execute(t: TestContext, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(t, process.execPath, args, { cwd: project(t) })
  assert.equal(code, 0, stdout + stderr)
  return stdout
}

suite('examples', () => {
  test('node:test', async (t) => {
    const output = await execute(t, '--test', '--test-reporter=tap', 'examples/node-test/todo.test.js')
    assert.match(output, /^# pass 2$/m)
  })

  test('Vitest', async (t) => {
    const args = ['run', '--root', 'examples/vitest', '--reporter=tap-flat']
    const output = await execute(t, 'node_modules/vitest/vitest.mjs', ...args)
    assert.equal(output.match(/^ok /gm)?.length, 2, output)
  })

  test("Playwright's test runner", async (t) => {
    const results = join(temporaryFolder(t), 'results')
    const args = ['test', '--config', 'examples/playwright', '--reporter=line', '--output', results]
    const output = await execute(t, 'node_modules/@playwright/test/cli.js', ...args)
    assert.match(output, /\b2 passed\b/)
  })

  const { stdout: sdks } = spawnSync('dotnet', ['--list-sdks'], { encoding: 'utf8' })
  const skip = !sdks?.split('\n').some((sdk) => Number.parseInt(sdk, 10) >= 10) && 'there is no .NET SDK 10 or newer'

  test('xUnit', { skip }, async (t) => {
    const cwd = join(project(t), 'examples/xunit')
    // No process of a build stays.
    const env = { ...cleanEnvironment(), MSBUILDDISABLENODEREUSE: '1', DOTNET_CLI_USE_MSBUILD_SERVER: '0' }
    const restored = await runCommand(t, 'dotnet', ['restore'], { cwd, env })
    if (restored.code !== 0) return t.skip(`its packages cannot be restored: ${restored.stdout}`)
    const args = ['test', '--no-restore', '-p:UseSharedCompilation=false']
    const { code, stdout, stderr } = await runCommand(t, 'dotnet', args, { cwd, env })
    assert.equal(code, 0, stdout + stderr)
    assert.match(stdout, /Failed: +0, Passed: +4, Skipped: +0/)
  })
})
