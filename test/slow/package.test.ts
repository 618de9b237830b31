import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { cleanEnvironment, Program, runCommand } from '../support/cli.ts'
import { blocksOf, brokenLinks, root } from '../support/documentation.ts'
import { temporaryFolder } from '../support/folder.ts'

/** On Windows npm and npx are batch files. */
const npm = (t: TestContext, cwd: string, program: 'npm' | 'npx', ...args: string[]) =>
  runCommand(t, program, args, { cwd, shell: process.platform === 'win32' })

/** Runs npm or npx; returns what it prints. */
async function execute(t: TestContext, cwd: string, program: 'npm' | 'npx', ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await npm(t, cwd, program, ...args)
  assert.equal(code, 0, stderr)
  return stdout
}

const client = `import { start } from 'todo-item-service'
const server = await start({ profile: 'a' })
await server.putItems([{ id: 1, isComplete: true }])
process.stdout.write(await (await fetch(server.url + '/api/todoitems')).text())
await server.close()
`

/** Compiles a client without the types of Node, and with what is wrong in it marked as an error that is expected. */
async function assertTypes(t: TestContext, app: string): Promise<void> {
  const typed = `import { type Fault, type JournalEntry, type StartOptions, start, type TodoSpace, type TodoServer } from 'todo-item-service'
import { type Verification, verify } from 'todo-item-service/verify'
const options: StartOptions<'a'> = { profile: 'a', port: 0, seed: 1, now: '2026-01-01T00:00:00Z' }
export async function test(): Promise<void> {
  await using server = await start(options)
  const b: TodoServer<'b'> = await start({ profile: 'b', now: new Date() })
  await server.putItems([{ id: 1, isComplete: true }, { id: 2n ** 62n, name: null, isComplete: false }])
  await b.putItems([{ id: 'milk', name: 'Buy milk', notes: '2 litres' }])
  const ids: (number | bigint)[] = (await server.items()).map(({ id }) => id)
  const done: boolean[] = (await b.items()).map((item) => item.done)
  const fault: Fault = { method: 'POST', times: 1, code: 503 }
  await server.addFault(fault, { connection: 'lost', delay: ids.length + done.length })
  const space: TodoSpace<'a'> = server.space('ada')
  await space.putItems(await server.items())
  const entries: JournalEntry[] = [server, space].flatMap((one) => one.requests({ since: 1, limit: 2, preflights: true }))
  const token: string = await server.token({ name: entries[0]?.method ?? server.url })
  // @ts-expect-error: Profile A has no string ids.
  await server.putItems([{ id: '1', isComplete: true }])
  // @ts-expect-error: nor has a space of it.
  await space.putItems([{ id: '1', isComplete: true }])
  // @ts-expect-error: notes is missing.
  await b.putItems([{ id: '1', name: token }])
  // @ts-expect-error: there is no such fault.
  await server.addFault({ connection: 'explode' })
  // @ts-expect-error: there is no such profile.
  await start({ profile: 'c' })
  const { passed }: Verification = await verify({ url: server.url, profile: 'a' })
  if (passed > 0) await b.close()
}
`
  writeFileSync(join(app, 'client.mts'), typed)
  const compilerOptions = {
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    target: 'es2022',
    lib: ['es2022'],
    module: 'nodenext',
    types: [],
  }
  writeFileSync(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['client.mts'] }))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { code, stdout } = await runCommand(t, process.execPath, [tsc, '--project', app], { cwd: app })
  assert.deepEqual([code, stdout], [0, ''])
}

interface Packed {
  readonly filename: string
  readonly files: readonly { readonly path: string }[]
  readonly size: number
}

/** The command by which README.md installs the package. */
const installCommand = () =>
  blocksOf('README.md').find(({ text }) => text.startsWith('npm pack '))?.text ??
  assert.fail('README.md has no command')

/** What is installed besides the package runs no script and reports to nobody. */
function assertPlainInstallation(project: string): void {
  const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { hasInstallScript?: true }>
  }
  const suspicious = Object.entries(packages).filter(
    ([path, one]) => one.hasInstallScript || /scarf|swagger/.test(path),
  )
  assert.deepEqual(suspicious, [])
}

suite('the package', () => {
  test('contains only what it needs, and runs after it is installed into an empty directory', async (t) => {
    const directory = temporaryFolder(t)
    const packed = await execute(t, root, 'npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', directory)
    const [{ filename, files, size }] = JSON.parse(packed) as [Packed]
    const paths = files.map(({ path }) => path)
    for (const path of paths)
      assert.match(
        path,
        /^(?:dist\/src\/.*\.(?:js|js\.map|d\.ts)|dist\/page\/(?:[\w-]+\.js|swagger-ui\/[\w.-]+)|page\/[\w-]+\.(?:html|css|svg)|openapi\/[ab]\.json|docs\/[^/]+|examples\/[\w-]+\/[\w.-]+\.(?:[jt]s|cs|csproj)|bench\/(?:README|results\/\w+)\.md|bench\/servers\/(?:constant\.ts|kestrel\/\w+\.(?:cs|csproj))|[A-Z]+\.md|LICENSE|action\.yml|requests\.http|package\.json)$/,
      )
    assert.ok(size <= 1.5e6, `${size} bytes`)
    for (const needed of [
      'README.md',
      'CHANGELOG.md',
      'LICENSE',
      'SECURITY.md',
      'dist/src/cli.js',
      'dist/page/page.js',
      'page/index.html',
      'dist/page/swagger-ui/LICENSE',
      'docs/operations.md',
      'examples/contracts/minimal-api.js',
    ])
      assert.ok(paths.includes(needed), needed)

    const app = join(directory, 'app')
    mkdirSync(app)
    writeFileSync(join(app, 'package.json'), '{}')
    const flags = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(directory, filename)]
    const { code: exitCode, stderr: warnings } = await npm(t, app, 'npm', ...flags)
    assert.equal(exitCode, 0, warnings)
    // npm warns of packages with install scripts.
    assert.doesNotMatch(warnings, /todo-item-service|deprecated/)

    const args = ['openapi', '--profile', 'a', '-o', '-']
    for (const bin of ['todo-item-service', 'todo-service'])
      assert.equal(JSON.parse(await execute(t, app, 'npx', '--no-install', bin, ...args)).openapi, '3.0.1')

    const cli = join(app, 'node_modules/todo-item-service/dist/src/cli.js')
    const env = { ...process.env, XDG_CONFIG_HOME: directory }
    const service = new Program(
      t,
      process.execPath,
      [cli, 'serve', '--profile', 'a', '--port', '0'],
      { cwd: app, env },
      true,
    )
    const [url] = await service.prints(/http:\/\/localhost:\d+/)
    for (const path of ['/swagger/index.html', '/swagger/page.js', '/app', '/app/app.js', '/app/icon.svg'])
      assert.equal((await fetch(`${url}${path}`)).status, 200, path)
    for (const path of ['/swagger/swagger-ui-bundle.js', '/swagger/swagger-ui.css'])
      assert.equal((await fetch(`${url}${path}`)).status, 200, path)
    assertPlainInstallation(app)
    const installed = join(app, 'node_modules/todo-item-service')
    const isShipped = (broken: string) => existsSync(join(installed, broken.split(':', 1)[0] ?? ''))
    assert.deepEqual(brokenLinks((path) => existsSync(join(installed, path))).filter(isShipped), [])

    await assertTypes(t, app)
    writeFileSync(join(app, 'client.mjs'), client)
    const { code, stdout, stderr } = await runCommand(t, process.execPath, ['client.mjs'], { cwd: app })
    assert.deepEqual([code, stdout, stderr], [0, '[{"id":1,"name":null,"isComplete":true}]', ''])
  })

  test('is installed into an empty project by the command of README.md, typed beside a checkout', {
    skip: process.platform === 'win32' && 'the command is for bash and PowerShell',
  }, async (t) => {
    const directory = temporaryFolder(t)
    const client = join(directory, 'client')
    mkdirSync(client)
    writeFileSync(join(client, 'package.json'), '{}')
    const env = { ...cleanEnvironment(), npm_config_prefer_offline: 'true' }
    const install = () => runCommand(t, 'bash', ['-ec', installCommand()], { cwd: client, env })
    assert.notEqual((await install()).code, 0, 'there is no checkout at that path')
    symlinkSync(root, join(directory, 'todo-item-service'))
    const { code, stderr } = await install()
    assert.equal(code, 0, stderr)
    const { devDependencies } = JSON.parse(readFileSync(join(client, 'package.json'), 'utf8'))
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    assert.deepEqual(devDependencies, { 'todo-item-service': `file:todo-item-service-${version}.tgz` })
    assertPlainInstallation(client)
    assert.match(await execute(t, client, 'npx', '--no', 'todo-service', 'verify', '--help'), /^Usage$/m)
  })

  test('is installed from a Git repository, where npm builds it', async (t) => {
    const directory = temporaryFolder(t)
    const [repository, client] = [join(directory, 'repository'), join(directory, 'client')]
    for (const folder of [repository, client]) mkdirSync(folder)
    for (const name of ['package.json', 'package-lock.json', '.npmrc', 'tsconfig.json', 'tsconfig.build.json'])
      cpSync(join(root, name), join(repository, name))
    for (const name of ['page', 'scripts', 'src']) cpSync(join(root, name), join(repository, name), { recursive: true })
    const author = ['-c', 'user.name=ada', '-c', 'user.email=ada@example.com']
    for (const args of [
      ['init', '-q'],
      ['add', '.'],
      [...author, 'commit', '-qm', 'all'],
    ])
      assert.equal((await runCommand(t, 'git', args, { cwd: repository })).code, 0)
    writeFileSync(join(client, 'package.json'), '{}')
    const url = `git+${pathToFileURL(repository)}`
    await execute(t, client, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', '-D', url)
    assertPlainInstallation(client)
    assert.match(await execute(t, client, 'npx', '--no', 'todo-service', 'verify', '--help'), /^Usage$/m)
  })

  test('has few dependencies, none of them deprecated', () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const names = ['@modelcontextprotocol/server', 'jose', 'libsql', 'pg', 'prom-client', 'selfsigned']
    assert.deepEqual(Object.keys(dependencies), names)
    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { dev?: boolean; optional?: boolean; deprecated?: string }>
    }
    // Optional: those of other platforms.
    const installed = Object.entries(packages).filter(([path, { dev, optional }]) => path && !dev && !optional)
    assert.ok(installed.length <= 50, `${installed.length} packages are installed with it`)
    for (const [path, { deprecated }] of installed) assert.equal(deprecated, undefined, path)
  })
})

suite('a checkout', () => {
  test('has at most 60 packages and 92 MB after npm ci', () => {
    const files = readdirSync(join(root, 'node_modules'), { recursive: true, encoding: 'utf8' })
    const bytes = files.reduce((sum, file) => sum + lstatSync(join(root, 'node_modules', file)).size, 0)
    const { packages: locked } = JSON.parse(readFileSync(join(root, 'node_modules/.package-lock.json'), 'utf8'))
    assert.ok(Object.keys(locked).length <= 60, `${Object.keys(locked).length} packages`)
    assert.ok(bytes <= 92e6, `${bytes / 1e6} MB`)
  })

  /** A checkout without node_modules, as far as the scripts see it. */
  function checkout(t: TestContext, hasBuild: boolean): string {
    const folder = temporaryFolder(t)
    for (const name of ['scripts', 'package.json']) cpSync(join(root, name), join(folder, name), { recursive: true })
    if (hasBuild) cpSync(join(root, 'dist/src'), join(folder, 'dist/src'), { recursive: true })
    return folder
  }

  test('without a compiler keeps its build, as after npm ci --omit=dev; without a build npm ci says what to do', async (t) => {
    const script = ['scripts/build.mjs', '--if-possible']
    const { code, stderr } = await runCommand(t, process.execPath, script, { cwd: checkout(t, true) })
    assert.deepEqual([code, stderr], [0, ''])
    assert.deepEqual(await runCommand(t, process.execPath, script, { cwd: checkout(t, false) }), {
      code: 1,
      stdout: '',
      stderr:
        'There is no build, and no compiler to make one: run npm ci. After that, npm ci --omit=dev keeps the build.\n',
    })
  })

  test('without a build says what to do on npm start', async (t) => {
    const { code, stderr } = await npm(t, checkout(t, false), 'npm', 'start')
    assert.equal(code, 1)
    assert.match(stderr, /^There is no build yet: run npm ci\.$/m)
    assert.doesNotMatch(stderr, / at /)
  })
})

test('the first stage of the Dockerfile builds what the second one copies', {
  skip: process.platform === 'win32' && 'containers run Linux',
}, async (t) => {
  const folder = temporaryFolder(t)
  const [, build = ''] = readFileSync(join(root, 'Dockerfile'), 'utf8').split(/^FROM .*$/m)
  for (const [, keyword, content = ''] of build.matchAll(/^(COPY|RUN) (.*)$/gm))
    if (keyword === 'RUN') {
      const { code, stdout, stderr } = await runCommand(t, 'sh', ['-c', content], { cwd: folder })
      assert.equal(code, 0, `${content}\n${stdout}${stderr}`)
    } else {
      const sources = content.split(' ')
      const target = join(folder, sources.pop() ?? '')
      for (const source of sources.map((path) => join(root, path)))
        cpSync(source, statSync(source).isDirectory() ? target : join(target, basename(source)), { recursive: true })
    }
  assert.deepEqual(readdirSync(join(folder, 'dist')).sort(), ['page', 'src'])
  assert.ok(existsSync(join(folder, 'node_modules/pg')) && !existsSync(join(folder, 'node_modules/typescript')))
  // In the image there is nothing else.
  for (const name of readdirSync(folder))
    if (!['dist', 'node_modules', 'package.json'].includes(name)) rmSync(join(folder, name), { recursive: true })
  cpSync(join(root, 'page'), join(folder, 'page'), { recursive: true })
  const args = ['dist/src/cli.js', 'serve', '--profile', 'a', '--port', '0']
  const env = { ...cleanEnvironment(), XDG_CONFIG_HOME: folder }
  const service = new Program(t, process.execPath, args, { cwd: folder, env }, true)
  const [url] = await service.prints(/http:\/\/localhost:\d+/)
  for (const path of ['/app', '/app/app.js', '/swagger/index.html', '/swagger/swagger-ui-bundle.js'])
    assert.equal((await fetch(`${url}${path}`)).status, 200, path)
})
