import assert from 'node:assert/strict'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runCommand } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

suite('bench:guard', () => {
  test('no request is dearer than bench/guard.json says', async (t) => {
    const { code, stdout, stderr } = await runCommand(t, process.execPath, ['dist/bench/guard.js'], { cwd: root })
    assert.equal(code, 0, stdout + stderr)
  })

  test('it fails, and names the operation, when errors are copied by a spread', async (t) => {
    const folder = temporaryFolder(t)
    for (const part of ['dist', 'bench/guard.json', 'package.json'])
      cpSync(join(root, part), join(folder, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
    const file = join(folder, 'dist/src/http/dispatch.js')
    const text = readFileSync(file, 'utf8')
    const slower = text.replace(
      'return { status, headers, body, error,',
      'return { ...{ status, headers, body }, error,',
    )
    assert.notEqual(slower, text)
    writeFileSync(file, slower)
    const { code, stderr } = await runCommand(t, process.execPath, ['dist/bench/guard.js'], { cwd: folder })
    assert.equal(code, 1)
    assert.match(stderr, /^More than 6 % dearer, in 3 runs: GET, 404\.$/m)
  })
})
