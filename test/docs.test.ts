import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { contractPage, contractPagePath } from '../scripts/contract-page.ts'
import { jsonLog } from '../src/log.ts'
import { env as callers, tokenWith } from './support/callers.ts'
import { jsonLines, run, runCommand, serve } from './support/cli.ts'
import { newDatabase } from './support/database.ts'
import { brokenLinks, namingFiles, pages, read, root } from './support/documentation.ts'
import { testExamples } from './support/examples.ts'
import { RawConnection } from './support/raw.ts'
import { openSql } from './support/sql.ts'

const isWindows = process.platform === 'win32'

suite('documentation', () => {
  test('docs/contract.md is up to date (npm run docs writes it)', () => {
    assert.equal(readFileSync(contractPagePath, 'utf8'), contractPage())
  })

  test('docs/flags.md lists each flag with its variable, and who sets it; and no other', async (t) => {
    const flags = read('docs/flags.md')
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

  test('docs/operations.md lists each field of the production log, and the lines that have it', async (t) => {
    const { url: database } = await newDatabase()
    const flags = ['--mode', 'production', '--log-level', 'info', '--metrics-port', '0', '--drain-delay', '0']
    const { running, url, port } = await serve(t, [...flags, '--spaces', 'caller'], {
      ...callers,
      TODO_DATABASE_URL: database,
    })
    const raw = new RawConnection(t, port)
    raw.socket.write('nonsense\r\n\r\n')
    await raw.closed
    for (const path of ['/', '/nowhere']) await fetch(`${url}${path}`)
    const sql = openSql(database)
    await sql`drop table todo.documents`
    await sql`
      create view todo.documents as select '' as space, 'a' as collection, 1 / 0 as place, '{}' as content`
    await sql.end()
    const headers = { authorization: `Bearer ${tokenWith({ sub: 'ada' })}` }
    assert.equal((await fetch(`${url}/api/todoitems`, { headers })).status, 500)
    running.process.kill('SIGTERM')
    const lines = jsonLines((await running.ended).stdout)
    // Of other runtimes and of workers.
    const more: string[] = []
    jsonLog(
      (line) => more.push(line),
      'info',
      () => new Date(),
      1,
    ).started({
      ...lines[0],
      runtime: 'Bun 1.0.0',
      workers: 2,
    })
    const logged = new Map<string, Set<string>>()
    for (const { message, ...fields } of [...lines, ...jsonLines(more.join(''))])
      for (const field of Object.keys({ ...fields, message }))
        logged.set(field, (logged.get(field) ?? new Set()).add(message))
    const messages = [...new Set(lines.map(({ message }) => message))]
    assert.deepEqual(messages.sort(), ['malformed request', 'request', 'request failed', 'started', 'stopped'])
    const [table = ''] = /\| field \| lines \|[\s\S]*?\n\n/.exec(read('docs/operations.md')) ?? []
    const documented = [...table.matchAll(/^\| (`.*?) \| (.*?) \|/gm)].flatMap(([, fields = '', where = '']) => {
      const named = where === 'every' ? messages : where.startsWith('every') ? ['started'] : namesIn(where)
      return namesIn(fields).map((field) => [field, named.sort()])
    })
    const shown = [...logged].map(([field, found]) => [field, [...found].sort()])
    assert.deepEqual(Object.fromEntries(documented), Object.fromEntries(shown))
  })

  test('docs/verify.md names every flag of the command, and no other', async (t) => {
    const { stdout } = await run(t, ['verify', '--help'])
    const known = new Set(stdout.match(/^ {2}--\w+/gm)?.map((flag) => flag.trim()))
    assert.ok(known.size >= 15)
    const prose = read('docs/verify.md').replaceAll(/^ .*$|^FAILED.*$|npx --no/gm, '')
    const named = new Set([...prose.matchAll(/(?<![-\w])--[a-z]+/g)].map(([flag]) => flag))
    assert.deepEqual([...named].sort(), [...known].sort())
  })

  test('every link leads to a file, and to a heading on its page, in a checkout', () => {
    assert.deepEqual(
      brokenLinks((path) => existsSync(join(root, path))),
      [],
    )
    assert.ok(brokenLinks((path) => path !== 'docs/guide.md').includes('README.md: docs/guide.md#tokens'))
  })

  test('every link leads to a file in the package, too', async (t) => {
    const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
    const { stdout } = await runCommand(t, 'npm', args, { cwd: root, shell: isWindows })
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
    const has = (path: string) => files.some((file) => file.path === path || file.path.startsWith(`${path}/`))
    const isShipped = (broken: string) => has(broken.split(':', 1)[0] ?? '')
    assert.deepEqual(brokenLinks(has).filter(isShipped), [])
  })

  test('every npm script that is named exists', () => {
    const { scripts } = JSON.parse(read('package.json'))
    for (const page of pages)
      for (const [text, name = ''] of read(page).matchAll(/\bnpm run ([\w:]+)/g))
        assert.ok(scripts[name], `${page}: ${text}`)
  })

  test('commands in a sentence have flags that exist', async (t) => {
    const helpOf = new Map<string, string>()
    const commands = /`(?:npx )?(?:todo-service ([a-z]+)|(?:\w+=\S+ )?npm start --)([^`]*)`/g
    for (const page of pages)
      for (const [text, name = 'serve', rest = ''] of read(page).matchAll(commands)) {
        const help = helpOf.get(name) ?? (await run(t, [name, '--help'])).stdout
        helpOf.set(name, help)
        for (const [flag] of rest.matchAll(/(?<=\s)--?[a-z][\w-]*/g))
          assert.match(`${help} --help`, new RegExp(`[ ,]${flag}\\b`), `${page}: ${text}`)
      }
    assert.ok(helpOf.size >= 5)
  })

  /*
   * The package is not on the registry: whoever registers its name, or that of its program, could run anything on the machine of
   * somebody who types such a command. `npx todo-service`, in a folder where it is installed, runs that, and asks elsewhere. Where nobody
   * can answer, it would not ask: `npx --no` then runs nothing else.
   */
  const fromRegistry = [
    /\b(?:npx|npm exec|npm x|pnpx|yarn dlx) (?!(?:--no )?todo-service\b)[^\n`|;&]*?\btodo-(?:item-)?service\b/,
    /\b(?:bunx|bun x|pnpm dlx)\b[^\n`]*\btodo-/,
    /\bnpm:todo-/,
    /\b(?:npm (?:i|install|add)|yarn add|pnpm add|bun add|deno add)(?: -\S+)* "?todo-(?:item-)?service\b/,
  ]

  test('nobody is told to run a package of the registry that has this name', () => {
    for (const [index, example] of [
      'npx -y todo-service token',
      'bunx --bun todo-item-service serve',
      'deno run -A npm:todo-item-service serve',
      'npm i -D todo-item-service',
    ].entries())
      assert.match(example, fromRegistry[index] as RegExp)
    for (const file of [...pages, ...namingFiles])
      for (const [index, line] of read(file).split('\n').entries())
        for (const pattern of fromRegistry) assert.doesNotMatch(line, pattern, `${file}:${index + 1}`)
  })
})

suite('figures of the bench', () => {
  const commitOf = (name: string): string => JSON.parse(read(`bench/results/${name}.json`)).commit

  test('pages and the chart name the commit that was measured', () => {
    for (const name of ['latest', 'runtimes']) assert.match(commitOf(name), /^[\da-f]{12}$/)
    for (const page of ['bench/results/latest.md', 'bench/README.md'])
      assert.ok(read(page).includes(commitOf('latest')), page)
    for (const page of ['bench/results/runtimes.md', 'bench/README.md', 'docs/cpu-time.svg', 'docs/runtimes.md'])
      assert.ok(read(page).includes(commitOf('runtimes')), page)
  })

  // At most so many later commits may have changed how a request is handled.
  const maxCommits = 20

  for (const name of ['latest', 'runtimes'])
    test(`bench/results/${name} is not older than ${maxCommits} changes of how a request is handled`, (t) => {
      const folders = ['server', 'http', 'profiles', 'store'].map((folder) => `src/${folder}`)
      const args = ['rev-list', '--count', `${commitOf(name)}..HEAD`, '--', ...folders]
      const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
      if (status !== 0) return t.skip('there is no history of commits')
      assert.ok(Number(stdout) <= maxCommits, `${stdout.trim()} commits since: npm run bench`)
    })
})

suite('AGENTS.md and docs/agents.md', () => {
  const forAgents = read('AGENTS.md')
  const page = read('docs/agents.md')

  test('AGENTS.md has at most 40 lines', () => {
    assert.ok(forAgents.trimEnd().split('\n').length <= 40)
  })

  test('each command, file and flag that they name exists', async (t) => {
    const both = forAgents + page
    for (const [, command = ''] of both.matchAll(/(?:todo-service|cli\.js) ([a-z]+)/g))
      assert.equal((await run(t, [command, '--help'])).code, 0, command)
    for (const [, file = ''] of forAgents.matchAll(/(?<!dist\/)((?:src|docs|test|openapi)\/[\w./-]*\w)/g))
      assert.ok(existsSync(join(root, file)), file)
    const { stdout } = await run(t, ['mcp', '--help'])
    const flagsOf = (text: string) => [...new Set(text.match(/(?<= |`)--[a-z]+/g))].filter((flag) => flag !== '--no')
    assert.deepEqual(flagsOf(page).sort(), flagsOf(stdout).sort())
    for (const [, json = ''] of page.matchAll(/`(\{"(?:servers|mcpServers)".*?)` \|/g)) {
      assert.ok(stdout.includes(json), json)
      JSON.parse(json)
    }
  })
})

const namesIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)

// test/slow/docs.test.ts has docs/verify.md.
testExamples((page) => page !== 'docs/verify.md')
