import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ file: file.replaceAll('\\', '/'), text: readFileSync(join(root, 'src', file), 'utf8') }))

/** Which rooms a room may import from, besides itself. A file of `src/` is a room of its own. */
const arrows: Record<string, readonly string[]> = {
  'cli.ts': ['commands', 'version.ts'],
  commands: [
    'app.ts',
    'config.ts',
    'database-url.ts',
    'eventually.ts',
    'folder.ts',
    'http',
    'log.ts',
    'metrics.ts',
    'options.ts',
    'profiles',
    'serve-options.ts',
    'store',
    'token-config.ts',
    'tokens',
    'verify',
    'version.ts',
  ],
  'serve-options.ts': ['database-url.ts', 'http', 'log.ts', 'options.ts', 'token-config.ts'],
  'config.ts': [
    'database-url.ts',
    'serve-options.ts',
    'http',
    'log.ts',
    'options.ts',
    'profiles',
    'token-config.ts',
    'tokens',
  ],
  'token-config.ts': ['options.ts', 'tokens'],
  'app.ts': ['eventually.ts', 'http', 'profiles', 'store'],
  profiles: ['eventually.ts', 'forecast.ts', 'http', 'store'],
  http: ['eventually.ts', 'folder.ts', 'log.ts', 'unavailable.ts'],
  store: ['database-url.ts', 'eventually.ts', 'unavailable.ts'],
  tokens: ['folder.ts'],
  'database-url.ts': [],
  'eventually.ts': [],
  'folder.ts': [],
  'options.ts': [],
  'forecast.ts': [],
  'log.ts': [],
  'metrics.ts': [],
  'unavailable.ts': [],
  'version.ts': [],
  verify: [],
}

const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)'/g)].map(([, path]) => path as string)
const roomOf = (file: string) => file.split('/')[0] as string

suite('the house', () => {
  for (const { file, text } of sources)
    test(`${file} imports only what its room may`, () => {
      for (const path of importsOf(text)) {
        const target = normalize(join(dirname(file), path)).replaceAll('\\', '/')
        const [from, to] = [roomOf(file), roomOf(target)]
        assert.ok(from === to || arrows[from]?.includes(to), `${file} → ${target}`)
      }
    })

  test('only commands know a concrete store', () => {
    for (const { file, text } of sources)
      for (const path of importsOf(text))
        if (/store\/(?!store\.ts)/.test(path)) assert.equal(roomOf(file), 'commands', `${file} → ${path}`)
  })

  test('nobody branches on the name of a profile', () => {
    for (const { file, text } of sources)
      assert.doesNotMatch(text, /\bname === '[ab]'|profile(\.name)? === '[ab]'/, file)
  })

  test('time, chance and the environment come in through the commands', () => {
    for (const { file, text } of sources)
      if (!['cli.ts', 'commands', 'verify'].includes(roomOf(file)))
        assert.doesNotMatch(
          text,
          /\bnew Date\(\)|Date\.now|Math\.random|performance\.now|random(UUID|Bytes)|\bprocess\.(?!pid\b)/,
          file,
        )
  })

  test('the picture in docs/architecture.md names every file', () => {
    const picture = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
    for (const { file } of sources) assert.ok(picture.includes(file.split('/').at(-1) as string), file)
  })

  test('docs/architecture.md gives a reason for each dependency', () => {
    const picture = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
    const { dependencies = {}, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    for (const name of Object.keys({ ...dependencies, ...devDependencies }))
      assert.ok(picture.includes(`\`${name}\``), name)
  })
})
