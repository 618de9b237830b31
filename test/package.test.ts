import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryFolder } from './support/folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const execute = promisify(execFile)
const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'

suite('the package', () => {
  test('holds what it needs and nothing else, and runs in an empty folder', async (t) => {
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

    await execute('tar', ['-xzf', join(folder, filename), '-C', folder])
    const modules = join(folder, 'package', 'node_modules')
    mkdirSync(modules)
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    for (const name of Object.keys(dependencies))
      symlinkSync(join(root, 'node_modules', name), join(modules, name), 'dir')
    const { stdout } = await execute(process.execPath, [
      join(folder, 'package', 'dist/src/cli.js'),
      'openapi',
      '--profile',
      'a',
      '-o',
      '-',
    ])
    assert.equal(JSON.parse(stdout).openapi, '3.0.1')
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
