// Compiles page/ to dist/page/ and src/ to dist/src/, and copies Swagger UI to dist/page/swagger-ui/.
//   (none)         builds
//   --all          builds, and compiles the tests, scripts, examples and the benchmark, too
//   --if-possible  builds; without a compiler, as after npm ci --omit=dev, the last build will do
//   --required     only checks that there is a build
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)
const pathOf = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const [mode] = process.argv.slice(2)
const compiler = pathOf('node_modules/typescript/bin/tsc')
const hasCompiler = existsSync(compiler)
const swaggerUi = ['swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'swagger-ui.css', 'LICENSE', 'NOTICE']
const hasBuild = existsSync(pathOf('dist/src/cli.js'))

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

if (mode === '--required') {
  if (!hasBuild) fail(`There is no build yet: run ${hasCompiler ? 'npm run build' : 'npm ci'}.`)
} else if (hasCompiler) {
  rmSync(pathOf('dist'), { recursive: true, force: true })
  // The page has the types of a file of src/, which is compiled with both: the second one counts.
  for (const project of ['page', mode === '--all' ? '.' : 'tsconfig.build.json']) {
    const { status } = spawnSync(process.execPath, [compiler, '--project', pathOf(project)], { stdio: 'inherit' })
    process.exitCode ||= status ?? 1
  }
  mkdirSync(pathOf('dist/page/swagger-ui'), { recursive: true })
  const source = dirname(require.resolve('swagger-ui-dist/package.json'))
  for (const name of swaggerUi) copyFileSync(join(source, name), pathOf(`dist/page/swagger-ui/${name}`))
  // npx links to it once, and would not make a new file executable.
  if (existsSync(pathOf('dist/src/cli.js'))) chmodSync(pathOf('dist/src/cli.js'), 0o755)
} else if (mode !== '--if-possible' || !hasBuild)
  fail('There is no build, and no compiler to make one: run npm ci. After that, npm ci --omit=dev keeps the build.')
