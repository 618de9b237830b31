/*
 * Runs test files beside one PostgreSQL server, with one unpacked browser:
 *   node dist/test/run.js                 all but the slow ones
 *   node dist/test/run.js slow            the slow ones
 *   node dist/test/run.js http contract   the files whose path begins with one of these
 */
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { shareChromium } from './support/browser.ts'
import { spawnTied } from './support/child-process.ts'
import { shareCluster } from './support/postgres.ts'

const directory = fileURLToPath(new URL('.', import.meta.url))
const prefixes = process.argv.slice(2)
const isSlow = prefixes.some((prefix) => prefix.startsWith('slow'))
/** Most tests wait more than they compute; the slow ones load the machine. */
const concurrency = isSlow ? 2 : 6
const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.js') && !file.startsWith('node_modules'))
  .filter((file) => file.startsWith('slow') === isSlow)
  .filter((file) => prefixes.length === 0 || prefixes.some((prefix) => file.startsWith(prefix)))
  .map((file) => join(directory, file))
// Without files, Node would look for some by itself.
if (files.length === 0) {
  process.stderr.write(`There is no test file whose path begins with ${prefixes.join(' or ')}.\n`)
  process.exit(1)
}

const shared = [await shareCluster(), shareChromium()]
const flags = [
  '--enable-source-maps',
  '--throw-deprecation',
  '--test',
  `--test-concurrency=${concurrency}`,
  // Far above what any file takes on a busy machine: one that hangs fails, and is named.
  `--test-timeout=${isSlow ? 1_800_000 : 600_000}`,
]
// As Node chooses by default.
const format = process.stdout.isTTY ? 'spec' : 'tap'
const reporters = [format, join(directory, 'support/slowest-files.js')].flatMap((reporter) => [
  `--test-reporter=${reporter}`,
  '--test-reporter-destination=stdout',
])
const tests = spawnTied(process.execPath, [...flags, ...reporters, ...files], {
  stdio: 'inherit',
  env: Object.assign({}, process.env, ...shared.map(({ environment }) => environment)),
})
// The terminal sends its signals to the tests, too: the server is removed when they have ended.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => tests.kill(signal))
const [code] = await once(tests, 'exit')
for (const { remove } of shared) await remove()
process.exitCode = code ?? 1
