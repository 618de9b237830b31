// Runs npm test with another Node, which npm carries as a package: npm run test:node -- 24, or some of it:
// npm run test:node -- 24 http contract
// Child processes, npm among them, run with it too.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const [version, ...files] = process.argv.slice(2)
const shell = process.platform === 'win32'
const platform = shell ? 'win' : process.platform
const name = `node-${platform}-${process.arch}`

function fail(message) {
  process.stderr.write(`${message}\n`)
  return 1
}

function testWith(folder) {
  const flags = ['install', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', folder, `${name}@${version}`]
  const { status, stderr } = spawnSync('npm', flags, { encoding: 'utf8', shell })
  if (status !== 0)
    return fail(
      `${stderr}Node ${version} cannot be installed: check the version and the connection to the npm registry.`,
    )
  const node = join(folder, 'node_modules', name, 'bin', shell ? 'node.exe' : 'node')
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` }
  process.stderr.write(`Node ${spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim()}\n`)
  return spawnSync('npm', ['test', '--', ...files], { cwd: root, env, stdio: 'inherit', shell }).status ?? 1
}

if (!/^(?:\d+(?:\.\d+){0,2}|latest)$/.test(version ?? ''))
  process.exitCode = fail('Say which Node: npm run test:node -- 24, or a full version, or latest.')
else {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-node-'))
  try {
    process.exitCode = testWith(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
