import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { contractPage, contractPagePath } from '../scripts/contract-page.ts'
import { cleanUp } from './support/cleanup.ts'
import { run, runCommand, serve } from './support/cli.ts'
import { createClient } from './support/client.ts'
import { faultyServer } from './support/faulty-server.ts'
import { temporaryFolder } from './support/folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const flags = readFileSync(join(root, 'docs/flags.md'), 'utf8')
const guide = readFileSync(join(root, 'docs/verify.md'), 'utf8')

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

/** Loses isComplete in a PUT, and returns 400 instead of 415. */
async function serveFaulty(t: TestContext, target: string): Promise<string> {
  const server = faultyServer(createClient(target), async (request, forward) => {
    const isPut = request.method === 'PUT'
    const body = isPut
      ? Buffer.from(`${request.body}`.replace('"isComplete":true', '"isComplete":false'))
      : request.body
    const headers = isPut ? { ...request.headers, 'content-length': `${body.length}` } : request.headers
    const response = await forward({ ...request, headers, body })
    return response.status === 415 ? { ...response, status: 400 } : response
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  cleanUp(t, () => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** What is the same in every run; the numbers of checks change with the contract. */
const normalize = (text: string) =>
  text
    .replaceAll(/https?:\/\/[\w.]+:\d+/g, 'URL')
    .replaceAll(/verify-[0-9a-f]{10}-[\d.]+/g, 'TEXT')
    .replaceAll(/\d+ (?=passed|failed|notes?|waived|skipped|checks)/g, 'N ')
    .replaceAll(/\(seed 1, [\d.]+ s\)/g, '(seed 1)')
    .replaceAll(/"id":\d+/g, '"id":ID')
    .replaceAll(/(?<=PUT of )\d+/g, 'ID')
    .replaceAll(/checks of [A-Z\d, ]+:/g, 'checks:')
    .replaceAll(/(?<=parts|choices) of [A-Z\d, ]+/g, '')
    .replaceAll(/(?<=, got ).*?…/g, '…')
    .replaceAll(/ \| (?:tr|sed) .*$/gm, ' | …')
    .replaceAll(`'"$id1"''`, `'"$id1"`)

suite('docs/verify.md', () => {
  const blocks = (language: string) =>
    [...guide.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
      .filter(([, info]) => info === language)
      .map(([, , text = '']) => text)

  /** A project with this package. */
  function project(t: TestContext): string {
    const folder = temporaryFolder(t)
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(root, join(folder, 'node_modules/todo-item-service'), 'junction')
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    return folder
  }

  test('names every flag of the command, and no other', async (t) => {
    const { stdout } = await run(t, ['verify', '--help'])
    const known = new Set(stdout.match(/^ {2}--\w+/gm)?.map((flag) => flag.trim()))
    assert.ok(known.size >= 15)
    const prose = guide.replaceAll(/^ .*$|^FAILED.*$/gm, '')
    const named = new Set([...prose.matchAll(/(?<![-\w])--[a-z]+/g)].map(([flag]) => flag))
    assert.deepEqual(
      [...named].filter((flag) => !known.has(flag)),
      [],
    )
    assert.deepEqual(
      [...known].filter((flag) => !named.has(flag)),
      [],
    )
  })

  test('shows what the commands print', async (t) => {
    const { url, running } = await serve(t, ['--https-port', '0', '--log-level', 'error'])
    const [https] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
    const faulty = await serveFaulty(t, url)
    const folder = project(t)
    const [ours = ''] = blocks('js').filter((text) => text.startsWith('// ours.js'))
    writeFileSync(join(folder, 'ours.js'), ours)
    const [waivers = ''] = blocks('json')
    // The waiver that is in use must not expire.
    writeFileSync(join(folder, 'waivers.json'), waivers.replace('2027-', '9999-'))
    writeFileSync(join(folder, 'none.json'), '[]')
    const examples = blocks('').filter((text) => text.startsWith('$ npx todo-service verify '))
    assert.equal(examples.length, 5)
    for (const example of examples) {
      const [command = '', ...shown] = example.trimEnd().split('\n')
      const args = command
        .replace('$ npx todo-service ', '')
        .replace('http://localhost:5080', url)
        .replace('http://localhost:5090', faulty)
        .replace('https://localhost:5081', https)
        .replace('ours.js', join(folder, 'ours.js'))
        .replaceAll("'", '')
        .split(' ')
      const file = example.includes('\nwaived ') ? 'waivers.json' : 'none.json'
      const { stdout, stderr } = await run(t, [...args, '--waivers', join(folder, file)])
      let rest = normalize(stdout + stderr).split('\n')
      for (const line of shown.filter((line) => line !== '…').map(normalize)) {
        assert.ok(rest.includes(line), `${command}\n${line}\nis not in\n${rest.join('\n')}`)
        rest = rest.slice(rest.indexOf(line) + 1)
      }
    }
  })

  test('has a test that passes', async (t) => {
    const { url } = await serve(t, ['--no-https'])
    const folder = project(t)
    const [code = ''] = blocks('js').filter((text) => text.includes("from 'node:test'"))
    writeFileSync(join(folder, 'contract.test.js'), code.replace('http://localhost:5080', url))
    const { code: exitCode, stdout } = await runCommand(t, process.execPath, ['--test', '--test-reporter=tap'], {
      cwd: folder,
    })
    assert.equal(exitCode, 0, stdout)
    assert.match(stdout, /^# pass 1$/m)
  })
})
