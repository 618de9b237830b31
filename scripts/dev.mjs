// For development: installs the packages of test/ on first use, then
//   build          compiles everything to dist/
//   biome, knip …  runs the tool
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = join(root, 'test/node_modules')
const shell = process.platform === 'win32'
const [command = 'build', ...args] = process.argv.slice(2)

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

/** Installs what the lockfile of test/ names, unless that was done. */
function install() {
  const directory = join(root, 'test')
  const stamp = join(packages, '.installed')
  const checksum = createHash('sha256')
    .update(readFileSync(join(directory, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === checksum) return
  process.stderr.write('Installing the packages of test/, once …\n')
  const flags = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  const { status, stderr } = spawnSync('npm', flags, { cwd: directory, encoding: 'utf8', shell })
  if (status !== 0)
    fail(`${stderr}The packages of test/ cannot be installed: check the connection to the npm registry and try again.`)
  writeFileSync(stamp, checksum)
}

/** Exits where the program fails. */
function run(program, ...programArgs) {
  const { status } = spawnSync(program, programArgs, { cwd: root, stdio: 'inherit', shell })
  if (status !== 0) process.exit(status ?? 1)
}

install()
if (command === 'build') {
  run(process.execPath, join(root, 'scripts/build.mjs'), '--all')
  // Only these import the packages of test/.
  for (const part of ['test', 'bench']) symlinkSync(packages, join(root, 'dist', part, 'node_modules'), 'junction')
} else run(join(packages, '.bin', command), ...args)
