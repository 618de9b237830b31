import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { parse } from 'yaml'
import { cleanEnvironment, cli, Program, runAtTerminal, runCommand, start } from './cli.ts'
import { createClient } from './client.ts'
import { sharedPostgres, uniqueName } from './database.ts'
import { type Block, blocksOf, pages, read, root } from './documentation.ts'
import { faultyServer } from './faulty-server.ts'
import { temporaryFolder } from './folder.ts'
import { listen } from './listen.ts'

const isWindows = process.platform === 'win32'

/** Blocks that are not run here, by page and first line, with the reason. */
const notRunHere: Readonly<Record<string, string>> = {
  'README.md: npm pack ../todo-item-service && npm i -D ./todo-item-service-0.1.0.tgz':
    'slow/package.test.ts types it in an empty project',
  'README.md: npx todo-service verify http://localhost:5080 --profile a': 'docs/verify.md has it with its output',
  'README.md: npm ci && npm test': 'it runs this',
  'CONTRIBUTING.md: npm test -- http/conditional    # the test files whose path begins with this; several are possible':
    'it runs tests',
  'bench/README.md: npm run bench                        # all parts, about an hour; writes results/latest.*':
    'measures for minutes, on an idle machine',
  'docs/agents.md: service {"profile":"a","space":"agent"}': 'commands/mcp.test.ts makes these calls',
  'docs/agents.md: verify {"url":"http://localhost:8080","profile":"a","quick":true}':
    'commands/mcp.test.ts makes this call',
  'docs/architecture.md: socket': 'a diagram',
  'docs/architecture.md: src/': 'a list of files; architecture.test.ts compares it with src/',
  'CONTRIBUTING.md: for core in $(seq $(nproc)); do (while :; do :; done) & done': 'runs all tests ten times',
  'docs/guide.md: dotnet user-jwts create                        # prints an ID and a token':
    'needs .NET; commands/token.test.ts takes such a key and token',
  'docs/guide.md:   Profile B  is not served: port 5000 is in use by AirPlay Receiver of macOS (ControlCenter, pid 512).':
    'needs macOS; commands/serve.test.ts has a program in its place',
  'docs/operations.md: upstream todo {': 'needs nginx',
  'docs/operations.md: docker build -t todo-item-service .':
    'needs Docker; deploy.test.ts runs the entry point and the health check of the image, slow/package.test.ts its build',
  'docs/operations.md: [Unit]': 'deploy.test.ts starts what it says, and asks systemd-analyze',
  'docs/operations.md: apiVersion: v1': 'deploy.test.ts starts what it says',
  'docs/operations.md: postgres://user:password@host:port/database?sslmode=…&sslrootcert=…': 'a format',
  'docs/operations.md: bootstrap:': 'needs Patroni',
  'docs/operations.md: listen primary': 'needs HAProxy',
  'docs/operations.md: [databases]': 'needs PgBouncer',
  "docs/operations.md: select place as id, json_extract(content, '$.name') as name from documents where space = '' and collection = 'a' order by place;":
    'commands/items.test.ts runs it on a file',
  "docs/operations.md: select place as id, content::json->>'name' as name from todo.documents where space = '' and collection = 'a' order by place;":
    'commands/items.test.ts runs it on a database',
  'docs/operations.md: grant usage on schema todo to todo_writer;': 'commands/database.test.ts grants and uses them',
  'docs/runtimes.md: npm ci && bun dist/src/cli.js serve': 'runtimes.test.ts runs the program on both',
  'docs/control.md: - uses: OWNER/REPOSITORY@REF': 'below, with action.yml; slow/action.test.ts runs the action',
  'docs/verify.md: - uses: OWNER/REPOSITORY@REF': 'likewise',
  'docs/verify.md: - run: npx --no todo-service verify "$URL" --profile a --wait 30 --report junit --out contract.xml':
    'below',
}
const nameOf = ({ page, text }: Block) => `${page}: ${text.split('\n', 1)}`
const blocks = pages.flatMap(blocksOf)
const isRun = (block: Block) => notRunHere[nameOf(block)] === undefined

/** What differs from run to run. In one line with a text of verify, ids do. */
const normalize = (text: string) =>
  text
    .replaceAll(/\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)/g, 'TIME')
    .replaceAll(/(?<="traceId":)"[^"]*"/g, 'TRACE')
    .replaceAll(/verify-[0-9a-f]{10}-[\d.]+/g, 'TEXT')
    .replaceAll(/(?<=seed 1, )[\d.]+ s/g, 'DURATION')
    // On a slow machine a run creates fewer items, and says so.
    .replaceAll(/^remark .* more would have taken too long.*\n\n/gm, '')
    .replaceAll(/\b\d+ (?:days|seconds?)/g, 'DURATION')
    .replaceAll(/(?<="temperature[CF]":)-?\d+/g, 'N')
    .replaceAll(/(?<="summary":)"\w+"/g, 'SUMMARY')
    .replaceAll(/^.*TEXT.*$/gm, (line) => line.replaceAll(/(?<="id":|PUT of )\d+/g, 'ID'))

/** Compares what a command printed with what a page shows: `…` is any text, and in a line of its own any lines. */
function assertShown(printed: string, shown: string, at: string): void {
  const [actual, expected] = [printed, shown].map((text) => normalize(text).trimEnd()) as [string, string]
  const pattern = expected
    .split('\n')
    .map((line) => (line === '…' ? '(?:.*\n)*?' : `${line.split('…').map(escaped).join('.*')}\n`))
    .join('')
  if (!new RegExp(`^${pattern}$`).test(`${actual}\n`)) assert.equal(actual, expected, at)
}
const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** `[written, used]`: what a page writes, and what this test uses in its place. */
type Replacement = readonly [written: string, used: string]

/** A terminal in the folder of a project in which the package is installed. */
class Terminal {
  readonly #t: TestContext
  readonly #env: NodeJS.ProcessEnv
  readonly #replacements: Replacement[]
  readonly folder: string

  constructor(t: TestContext) {
    this.#t = t
    this.folder = temporaryFolder(t)
    this.#replacements = [['/home/ada', this.folder]]
    mkdirSync(join(this.folder, 'node_modules'))
    symlinkSync(root, join(this.folder, 'node_modules/todo-item-service'), 'junction')
    writeFileSync(join(this.folder, 'package.json'), '{"type":"module"}')
    const programs = temporaryFolder(t)
    const todoService = `exec '${process.execPath}' '${cli}'`
    for (const [name, script] of Object.entries({
      'todo-service': `${todoService} "$@"`,
      npx: `[ "$1" = --no ] && shift; [ "$1" = todo-service ] && shift && ${todoService} "$@"`,
      npm: `case "$1" in ci) ;; start) TODO_HTTPS_PORT=0 ${todoService} serve ;; *) exit 1 ;; esac`,
      // At a terminal it shows no progress.
      curl: `PATH='${process.env.PATH}' exec curl -sS "$@"`,
    })) {
      writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`)
      chmodSync(join(programs, name), 0o755)
    }
    this.#env = {
      ...cleanEnvironment(),
      PATH: `${programs}:${process.env.PATH}`,
      XDG_CONFIG_HOME: temporaryFolder(t),
      // A service that the page starts; both profiles would take their default ports.
      TODO_PROFILE: 'a',
      TODO_PORT: '0',
      TODO_DRAIN_DELAY: '0',
    }
  }

  /** Starts a service that the page addresses by its default ports. */
  async serve(profile: 'a' | 'b', ports: readonly [http: number, https: number], ...flags: string[]): Promise<string> {
    const args = ['serve', '--profile', profile, '--port', '0', '--https-port', '0', '--log-level', 'error', ...flags]
    const service = start(this.#t, args, { XDG_CONFIG_HOME: this.#env.XDG_CONFIG_HOME })
    const [, http, https] = await service.prints(/http:\/\/(localhost:\d+) +https:\/\/(localhost:\d+)/)
    this.replace([`localhost:${ports[0]}`, `${http}`], [`localhost:${ports[1]}`, `${https}`])
    return `http://${http}`
  }

  replace(...replacements: Replacement[]): void {
    this.#replacements.push(...replacements)
  }

  use(written: string): string {
    return this.#replacements.reduce((text, [from, to]) => text.replaceAll(from, to), written)
  }

  #show(printed: string): string {
    return this.#replacements.reduce((text, [from, to]) => text.replaceAll(to, from), printed.replaceAll('\r', ''))
  }

  /** Runs commands one after the other, and compares what they print with what is shown. */
  async run(block: Block): Promise<void> {
    const at = `${block.page}:${block.line}`
    const commands = block.language === 'sh' ? [{ command: block.text, shown: undefined }] : commandsOf(block.text)
    const [service] = commands.filter(({ command }) => serveCommand.test(command))
    if (service) return this.#start(service.command, service.shown, at)
    const questions = commands.filter(({ shown }) => shown?.includes('[y/N] '))
    const others = commands.filter((command) => !questions.includes(command))
    const script = others.map(({ command }) => `${this.use(command)}\nprintf '\\n%s\\n' '${endOfOutput}'`).join('\n')
    const options = { cwd: this.folder, env: this.#env }
    const settings = `exec 2>&1\n${block.language === 'sh' ? 'set -e\n' : ''}`
    const { code, stdout } = await runCommand(this.#t, 'bash', ['-c', settings + script], options)
    if (block.language === 'sh') assert.equal(code, 0, `${at}\n${stdout}`)
    else
      for (const [index, printed] of stdout.split(`\n${endOfOutput}\n`).slice(0, -1).entries())
        assertShown(this.#show(printed), others[index]?.shown ?? '', at)
    for (const { command, shown = '' } of questions) {
      const [, answer = ''] = /\[y\/N\] (.*)$/m.exec(shown) ?? []
      const args = this.use(command).replace('npx todo-service ', '').split(' ')
      const { stdout: asked, stderr } = await runAtTerminal(this.#t, args, `${answer}\n`)
      assertShown(this.#show(asked + stderr).replaceAll(cursorMovement, ''), shown, at)
    }
  }

  /** Starts a service, which runs until the test ends. */
  async #start(command: string, shown: string | undefined, at: string): Promise<void> {
    const script = `exec 2>&1\n${this.use(command).replace(serveCommand, 'exec $&')}`
    const service = new Program(this.#t, 'bash', ['-c', script], { cwd: this.folder, env: this.#env }, true)
    const [, http, , https] = await service.prints(/http:\/\/([^\s"]+?:\d+)( +https:\/\/(localhost:\d+))?/)
    if (shown === undefined) return
    if (shown.startsWith('{')) {
      const [line] = await service.prints(/^\{.*\n/)
      return assertShown(line.replaceAll(`${http}`, 'localhost:49152'), shown, at)
    }
    await service.prints(/Ctrl\+C/)
    const printed = service.stdout.replaceAll(`${http}`, 'localhost:5080').replaceAll(`${https}`, 'localhost:5081')
    const [ofProfileA = ''] = shown.split(/(?<=\n\n) {2}Profile B/)
    assertShown(
      printed.replaceAll(/(?<=10\.0\.2\.2:)\d+/g, 'PORT'),
      `${ofProfileA.replaceAll(/(?<=10\.0\.2\.2:)\d+/g, 'PORT')}…`,
      at,
    )
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are controlled by them.
const cursorMovement = /\x1b\[\d+[GJ]/g
const endOfOutput = '--- end of output ---'
const serveCommand = /(?:todo-service serve|npm start)\b/

/** The commands of a block, each with the lines below it. */
const commandsOf = (text: string) =>
  text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [command = '', ...lines] = part.split('\n')
      return { command, shown: lines.join('\n') }
    })

/** Compiles the code of a page in its folder, with the types that a user would have, and runs it. */
async function runCode(t: TestContext, terminal: Terminal, code: readonly Block[]): Promise<void> {
  if (code.length === 0) return
  const files = code.map(({ language, line, text }) => {
    const name = /^\/\/ ([\w.]+)\n/.exec(text)?.[1] ?? `line-${line}.${language}`
    writeFileSync(join(terminal.folder, name), terminal.use(text))
    return name
  })
  const compilerOptions = {
    strict: true,
    checkJs: true,
    allowJs: true,
    outDir: 'out',
    rootDir: '.',
    types: ['node'],
    target: 'es2022',
    lib: ['es2022', 'esnext.disposable'],
    module: 'nodenext',
    typeRoots: [join(root, 'node_modules/@types')],
  }
  writeFileSync(join(terminal.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  const options = { cwd: terminal.folder }
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { code: compiled, stdout: errors } = await runCommand(t, process.execPath, [tsc, '--project', '.'], options)
  assert.deepEqual([compiled, errors], [0, ''], code[0]?.page)
  for (const file of files) {
    const {
      code: exitCode,
      stdout,
      stderr,
    } = await runCommand(t, process.execPath, [`out/${file.replace(/ts$/, 'js')}`], options)
    assert.equal(exitCode, 0, `${code[0]?.page}: ${file}\n${stdout}${stderr}`)
  }
}

/** Loses isComplete in a PUT, and returns 400 instead of 415. */
const faultyServerOf = (target: string) =>
  faultyServer(createClient(target), async (request, forward) => {
    const isPut = request.method === 'PUT'
    const body = isPut
      ? Buffer.from(`${request.body}`.replace('"isComplete":true', '"isComplete":false'))
      : request.body
    const headers = isPut ? { ...request.headers, 'content-length': `${body.length}` } : request.headers
    const response = await forward({ ...request, headers, body })
    return response.status === 415 ? { ...response, status: 400 } : response
  })

/** What the commands of a page find besides the services on the default ports. */
const surroundings: Readonly<Record<string, (t: TestContext, terminal: Terminal, url: string) => Promise<void>>> = {
  async 'docs/verify.md'(t, terminal, url) {
    terminal.replace(
      ['localhost:5090', new URL(await listen(t, faultyServerOf(url))).host],
      // The first command of the page runs all checks.
      ["profile: 'a' })", "profile: 'a', only: ['A1'] })"],
    )
  },

  async 'docs/control.md'(_t, terminal) {
    const url = await terminal.serve('a', [5090, 5091], '--data', join(terminal.folder, 'todo.db'))
    const items = Array.from({ length: 258 }, (_, index) => ({ id: index + 1, isComplete: false }))
    await createClient(url).send('PUT', '/__admin/items', items)
  },

  async 'docs/operations.md'(_t, terminal) {
    const [statements] = blocks.filter(
      (block) => block.page === 'docs/operations.md' && block.language === 'sql' && isRun(block),
    )
    const name = uniqueName('todo')
    const { sql, url } = await sharedPostgres()
    for (const statement of statements?.text
      .replaceAll(/\btodo\b/g, name)
      .replaceAll('…', 'sesame')
      .split('\n') ?? [])
      if (statement) await sql.unsafe(statement)
    const database = url(name, name).replace(/(?<=\/\/\w+)(?::[^@]*)?@/, ':sesame@')
    terminal.replace(
      ['postgres://todo:…@db.internal:5432/todo?sslmode=verify-full&sslrootcert=/etc/ssl/db-ca.pem', database],
      ['postgres://todo:…@db.internal:5432/todo', database],
      ['TODO_PORT=8080', 'TODO_PORT=0'],
    )
  },
}

/** Runs the examples of these pages. */
export function testExamples(isSelected: (page: string) => boolean): void {
  suite('the examples of the documentation', { skip: isWindows && 'they are for bash', concurrency: 2 }, () => {
    test('each has a test', () => {
      for (const block of blocks.filter(isRun))
        assert.ok(['console', 'sh', 'ts', 'js', 'json', 'sql'].includes(block.language), `${block.page}:${block.line}`)
      const names = blocks.map(nameOf)
      for (const name of Object.keys(notRunHere)) assert.equal(names.filter((one) => one === name).length, 1, name)
    })

    for (const page of new Set(
      blocks
        .filter(isRun)
        .map((block) => block.page)
        .filter(isSelected),
    ))
      test(`${page}: commands print what it shows, and code compiles and runs`, async (t) => {
        const terminal = new Terminal(t)
        const ofPage = blocks.filter((block) => block.page === page && isRun(block))
        const mentions = (text: string) => ofPage.some((block) => block.text.includes(text))
        const url = mentions('localhost:5080') ? await terminal.serve('a', [5080, 5081]) : ''
        if (mentions('localhost:5000')) await terminal.serve('b', [5000, 5001])
        await surroundings[page]?.(t, terminal, url)
        await runCode(
          t,
          terminal,
          ofPage.filter(({ language }) => ['ts', 'js'].includes(language)),
        )
        for (const block of ofPage)
          if (['console', 'sh'].includes(block.language)) await terminal.run(block)
          else if (block.language === 'json') {
            const name = [...block.before.matchAll(/`([\w.]+\.json)`/g)].at(-1)?.[1] ?? assert.fail(nameOf(block))
            // What counts until a day in the future counts whenever this test runs.
            writeFileSync(join(terminal.folder, name), block.text.replaceAll('2027-', '9999-'))
          }
      })

    if (isSelected('docs/verify.md'))
      test('docs/verify.md: the steps of GitHub Actions have inputs of the action, and a command that writes a report', async (t) => {
        const [action, install] = blocks
          .filter(({ page, language }) => page === 'docs/verify.md' && language === 'yaml')
          .map(({ text }) => parse(text))
        const { inputs, outputs } = parse(read('action.yml'))
        const [start] = blocks.filter(({ page, language }) => page === 'docs/control.md' && language === 'yaml')
        const [started, client] = parse(start?.text ?? '')
        for (const name of Object.keys({ ...action[0].with, ...started.with })) assert.ok(inputs[name], name)
        const [, output = ''] = /outputs\.([\w-]+)/.exec(client.env.SERVICE_URL) ?? []
        assert.ok(outputs[output], output)
        const terminal = new Terminal(t)
        const URL = await terminal.serve('a', [5080, 5081])
        const text = `URL=${URL}\n${install[0].run.replace('--wait 30', '--wait 30 --only A1')} >/dev/null\n`
        await terminal.run({ page: 'docs/verify.md', line: 0, language: 'sh', text, before: '' })
        assert.match(readFileSync(join(terminal.folder, install[1].with.path), 'utf8'), /<testsuites /)
      })
  })
}
