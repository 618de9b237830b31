import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryFolder } from './support/folder.ts'
import { freePort } from './support/port.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const execute = promisify(execFile)
const [npm, npx] = process.platform === 'win32' ? ['npm.cmd', 'npx.cmd'] : ['npm', 'npx']

suite('the package', () => {
  test('holds what it needs and nothing else, is installed into an empty folder and runs there', async (t) => {
    const folder = temporaryFolder(t)
    const packed = await execute(npm, ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      cwd: root,
    })
    const [{ filename, files }] = JSON.parse(packed.stdout) as [{ filename: string; files: { path: string }[] }]
    const paths = files.map(({ path }) => path)
    for (const path of paths)
      assert.match(
        path,
        /^(?:dist\/src\/.*\.(?:js|js\.map|d\.ts)|page\/[^/]+|openapi\/[ab]\.json|docs\/[^/]+|[A-Z]+\.md|package\.json)$/,
      )
    for (const needed of ['README.md', 'SECURITY.md', 'dist/src/cli.js', 'page/index.html', 'docs/operations.md'])
      assert.ok(paths.includes(needed), needed)

    const app = join(folder, 'app')
    mkdirSync(app)
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, filename)]
    await execute(npm, install, { cwd: app })
    const { stdout } = await execute(npx, ['--no-install', 'todo-service', 'openapi', '--profile', 'a', '-o', '-'], {
      cwd: app,
    })
    assert.equal(JSON.parse(stdout).openapi, '3.0.1')
    const port = await freePort()
    const service = spawn(process.execPath, [
      join(app, 'node_modules/todo-item-service/dist/src/cli.js'),
      ...['serve', '--profile', 'a', '--port', `${port}`],
    ])
    t.after(() => service.kill('SIGKILL'))
    const ask = () => fetch(`http://127.0.0.1:${port}/swagger/index.html`).catch(() => undefined)
    while (!(await ask()) && service.exitCode === null);
    assert.equal((await ask())?.status, 200)
  })

  test('has few dependencies, and says which', () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    assert.deepEqual(Object.keys(dependencies), ['jose', 'postgres', 'prom-client', 'selfsigned', 'swagger-ui-dist'])
    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { dev?: boolean; deprecated?: string }>
    }
    const shipped = Object.entries(packages).filter(([path, { dev }]) => path && !dev)
    assert.ok(shipped.length <= 40, `${shipped.length} packages are installed with it`)
    for (const [path, { deprecated }] of shipped) assert.equal(deprecated, undefined, path)
    assert.ok(existsSync(join(root, 'SECURITY.md')))
  })
})
