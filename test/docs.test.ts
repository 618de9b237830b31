import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { contractPage, contractPagePath } from '../scripts/contract-page.ts'
import { run } from './support/cli.ts'

const flags = readFileSync(new URL('../../docs/flags.md', import.meta.url), 'utf8')

suite('documentation', () => {
  test('docs/contract.md is up to date (npm run docs writes it)', () => {
    assert.equal(readFileSync(contractPagePath, 'utf8'), contractPage())
  })

  test('docs/flags.md lists each flag with its variable, and who sets it; and no other', async (t) => {
    const { stdout } = await run(t, ['serve', '--help'])
    const rows = [...stdout.matchAll(/^ {2}--([\w-]+)((?: \S+)*?) {2,}(TODO_\w+) /gm)]
    assert.ok(rows.length >= 7)
    for (const [, flag, takes, variable] of rows) {
      const row = `| \`--${flag}${takes?.replaceAll('|', '\\|')}\` | \`${variable}\` |`
      assert.ok(flags.includes(row), row)
      assert.match(flags.slice(flags.indexOf(row)).split('\n', 1)[0] ?? '', /\| [A-Z][^|]*\. \|$/, row)
    }
    assert.equal(flags.match(/^\| `--/gm)?.length, rows.length)
  })
})
