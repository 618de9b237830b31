import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ file: file.replaceAll('\\', '/'), text: read(join('src', file)) }))

/** What a directory of src, or a file directly in src, may import besides itself. */
const allowedImports: Record<string, readonly string[]> = {
  'cli.ts': ['commands', 'version.ts'],
  'index.ts': [
    ...['app.ts', 'commands', 'config', 'control', 'http', 'log.ts', 'profiles', 'server', 'store/store.ts', 'tokens'],
    'version.ts',
  ],
  commands: [
    ...[
      'app.ts',
      'config',
      'control',
      'pages',
      'http',
      'log.ts',
      'metrics.ts',
      'profiles',
      'server',
      'store',
      'tokens',
    ],
    ...['verify', 'version.ts'],
  ],
  'app.ts': ['pages', 'http', 'profiles', 'store/store.ts'],
  config: ['control', 'http', 'log.ts', 'profiles', 'server', 'tokens'],
  control: ['pages', 'http', 'log.ts', 'store/store.ts'],
  pages: ['http'],
  profiles: ['http', 'store/store.ts'],
  server: ['config/config-directory.ts', 'http'],
  http: ['log.ts', 'store/store.ts'],
  'metrics.ts': ['http', 'store/store.ts'],
  tokens: ['config/config-directory.ts'],
  store: ['config/database-url.ts'],
  'log.ts': [],
  'version.ts': [],
  verify: [],
}

/** Modules that are loaded when a command or a setting needs them. */
const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)'/g)].map(([, path]) => path as string)
const moduleOf = (file: string) => file.split('/')[0] as string

suite('architecture', () => {
  test('imports go one way', () => {
    for (const { file, text } of sources)
      for (const path of importsOf(text)) {
        const target = normalize(join(dirname(file), path)).replaceAll('\\', '/')
        const allowed = allowedImports[moduleOf(file)] ?? []
        const isAllowed = [moduleOf(target), target].some((name) => name === moduleOf(file) || allowed.includes(name))
        assert.ok(isAllowed, `${file} imports ${target}`)
      }
  })

  test('no code branches on the name of a profile', () => {
    for (const { file, text } of sources)
      assert.doesNotMatch(text, /\bname === '[ab]'|profile(\.name)? === '[ab]'/, file)
  })

  test('only commands and index.ts read the clock, random numbers and the environment', () => {
    for (const { file, text } of sources)
      if (!['cli.ts', 'index.ts', 'commands', 'verify'].includes(moduleOf(file)))
        assert.doesNotMatch(
          text,
          /\bnew Date\(\)|Date\.now|Math\.random|performance\.now|random(UUID|Bytes)|\bprocess\.[a-z]/,
          file,
        )
  })

  test('docs/architecture.md names every file of src', () => {
    const page = read('docs/architecture.md')
    for (const { file } of sources) assert.ok(page.includes(file.split('/').at(-1) as string), file)
  })

  test('docs/architecture.md gives a reason for each dependency', () => {
    const page = read('docs/architecture.md')
    for (const file of ['package.json', 'test/package.json']) {
      const { dependencies, devDependencies } = JSON.parse(read(file))
      for (const name of Object.keys({ ...dependencies, ...devDependencies }))
        assert.ok(page.includes(`\`${name}\``), name)
    }
  })
})

/*
 * What is not documented is, with few exceptions, not in the types: it takes a cast, reflection or a name with an
 * underscore to reach it. The exceptions are listed by name. Each pattern comes with a line that it must find.
 */
const undocumented: Record<string, [pattern: RegExp, example: string]> = {
  'a property whose name starts with an underscore': [/[\w)\]]\??\._\w|\['_/, 'this.#socket._read = () => {}'],
  'a cast of an object of Node or a driver': [
    /\bas (?:unknown as|any\b)|\(\S*\b(?:socket|server|incoming|outgoing|request|response|sql) as (?!Partial<TLSSocket>)/,
    'return (this.#socket as { handle?: Handle }).handle',
  ],
  'a property that is set by reflection': [
    /\bReflect\.\w+\(|Object\.(?:assign|defineProperty|setPrototypeOf)\(/,
    'Object.assign(request, { upgrade: false })',
  ],
  'a method of a prototype': [/\.prototype\b/, 'NetServer.prototype.close.call(server, closed)'],
  'a replaced method': [
    /\b(?:socket|server|incoming|outgoing|request|response|sql)\.(?!(?:max\w+|is[A-Z]\w+|allowHalfOpen) = )\w+ = /,
    'socket.destroy = () => socket',
  ],
  'an undocumented member of node:http or node:net': [
    /\b(?:onIncoming|parserOnBody|getCurrentBuffer|destroySoon|httpAllowHalfOpen|shouldKeepAlive)\b|\.parser\b/,
    'if (!response.shouldKeepAlive) this.#end()',
  ],
  'what Node does with its own listeners, buffers and errors': [
    /\bremoveAllListeners\('(?:warning|uncaughtException)|\bsocket\.push\(|\berror\.reason\b|\bstackTraceLimit\b/,
    "process.removeAllListeners('warning')",
  ],
  'a tagged template made by hand': [/TemplateStringsArray/, 'const strings = parts as TemplateStringsArray'],
  'an internal binding': [/process\.binding|internalBinding/, "process.binding('http_parser')"],
}

suite('documented APIs', () => {
  for (const [name, [pattern, example]] of Object.entries(undocumented))
    test(`src does not use ${name}`, () => {
      assert.match(example, pattern)
      for (const { file, text } of sources)
        for (const [index, line] of text.split('\n').entries())
          assert.doesNotMatch(line, pattern, `src/${file}:${index + 1}`)
    })
})
