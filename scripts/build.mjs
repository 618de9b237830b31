// Compiles page/ to dist/page/ and src/ to dist/src/.
//   (none)         builds
//   --if-possible  builds; without a compiler, as after npm ci --omit=dev, the last build will do
//   --required     only checks that there is a build
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const pathOf = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const [mode] = process.argv.slice(2)
const compiler = pathOf('node_modules/typescript/bin/tsc')
const hasCompiler = existsSync(compiler)
const hasBuild = existsSync(pathOf('dist/src/cli.js'))

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

if (mode === '--required') {
  if (!hasBuild) fail('There is no build yet: run npm run build.')
} else if (hasCompiler) {
  rmSync(pathOf('dist'), { recursive: true, force: true })
  // The page has the types of a file of src/, which is compiled with both: the second one counts.
  for (const project of ['page', 'tsconfig.build.json']) {
    const { status } = spawnSync(process.execPath, [compiler, '--project', pathOf(project)], { stdio: 'inherit' })
    process.exitCode ||= status ?? 1
  }
} else if (mode !== '--if-possible' || !hasBuild)
  fail('There is no build, and no compiler to make one: run npm ci. After that, npm ci --omit=dev keeps the build.')
