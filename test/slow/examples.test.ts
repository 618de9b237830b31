import assert from 'node:assert/strict'
import { cpSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runCommand } from '../support/cli.ts'
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
})
