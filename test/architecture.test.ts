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
  'index.ts': ['common', 'control', 'http', 'profiles', 'service', 'store/store.ts'],
  commands: [
    'app.ts',
    'config',
    'config-directory.ts',
    'control/schema.ts',
    'log.ts',
    'mcp',
    'server/runtime.ts',
    'service',
    'common',
    'store/store.ts',
    'tokens',
    'verify',
    'version.ts',
  ],
  mcp: ['app.ts', 'config', 'control', 'http', 'profiles', 'service', 'common', 'verify', 'version.ts'],
  service: [
    'app.ts',
    'config',
    'control',
    'http',
    'log.ts',
    'metrics.ts',
    'pages',
    'profiles',
    'server',
    'common',
    'store',
    'tokens',
    'version.ts',
  ],
  config: ['common', 'control', 'http', 'log.ts', 'profiles', 'server', 'store/postgres/url.ts', 'tokens'],
  'app.ts': ['common', 'pages', 'http', 'profiles', 'store/store.ts'],
  control: ['pages', 'http', 'log.ts', 'common', 'store/store.ts'],
  pages: ['http', 'common'],
  profiles: ['http', 'common', 'store/store.ts'],
  server: ['common', 'config-directory.ts', 'http'],
  http: ['log.ts', 'common', 'store/store.ts'],
  'metrics.ts': ['http', 'common', 'store/store.ts'],
  tokens: ['config-directory.ts', 'common'],
  store: ['common'],
  'config-directory.ts': ['common'],
  'log.ts': ['common'],
  'version.ts': [],
  // A package of its own tomorrow: nothing but commands and mcp imports it.
  verify: ['common'],
  common: [],
}

/** Modules that are loaded when a command or a setting needs them. */
const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)'/g)].map(([, path]) => path as string)
const targetOf = (file: string, path: string) => normalize(join(dirname(file), path)).replaceAll('\\', '/')
const moduleOf = (file: string) => file.split('/')[0] as string

/** The groups of two or more names that import each other, directly or not. */
function findCircles(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const reached = (from: string): Set<string> => {
    const names = new Set<string>()
    const visit = (name: string) => {
      for (const next of imports.get(name) ?? [])
        if (!names.has(next)) {
          names.add(next)
          visit(next)
        }
    }
    visit(from)
    return names
  }
  const reach = new Map([...imports.keys()].map((name) => [name, reached(name)]))
  const circles = [...reach]
    .filter(([name, names]) => names.has(name))
    .map(([name, names]) => [...names].filter((other) => reach.get(other)?.has(name)).sort())
  return [...new Set(circles.map((names) => names.join(' ⇄ ')))].sort()
}

/** What imports what: files, or by `nameOf` what they belong to. */
function importGraph(nameOf: (file: string) => string): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>()
  for (const { file, text } of sources)
    for (const path of importsOf(text)) {
      const [from, to] = [nameOf(file), nameOf(targetOf(file, path))]
      const targets = graph.get(from) ?? new Set()
      graph.set(from, targets)
      // A folder may import itself; a file may not.
      if (from !== to || from === file) targets.add(to)
    }
  return graph
}

suite('architecture', () => {
  test('imports go one way', () => {
    for (const { file, text } of sources)
      for (const path of importsOf(text)) {
        const target = targetOf(file, path)
        const allowed = allowedImports[moduleOf(file)] ?? []
        const isAllowed = [moduleOf(target), target].some((name) => name === moduleOf(file) || allowed.includes(name))
        assert.ok(isAllowed, `${file} imports ${target}`)
      }
  })

  test('no circle of imports, those of types included', () => {
    // The files of verify/ itself are its public interface, above its folders.
    const folderOf = (file: string) => (file.startsWith('verify/') ? dirname(file) : moduleOf(file))
    const graphs = [importGraph((file) => file), importGraph(moduleOf), importGraph(folderOf)]
    const circles = graphs.flatMap(findCircles)
    assert.deepEqual(circles, [])
  })

  test('a circle is found', () => {
    const graph = new Map([
      ['a', new Set(['b'])],
      ['b', new Set(['c', 'd'])],
      ['c', new Set(['a'])],
      ['d', new Set(['d'])],
      ['e', new Set(['a'])],
    ])
    assert.deepEqual(findCircles(graph), ['a ⇄ b ⇄ c', 'd'])
  })

  test('no code branches on the name of a profile', () => {
    for (const { file, text } of sources)
      assert.doesNotMatch(text, /\bname === '[ab]'|profile(\.name)? === '[ab]'/, file)
  })

  test('only commands and service read the clock, random numbers and the environment', () => {
    for (const { file, text } of sources)
      if (!['cli.ts', 'commands', 'service', 'common', 'verify'].includes(moduleOf(file)))
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
    /\b(?:socket|server|incoming|outgoing|request|response|sql)\.(?!(?:max\w+|is[A-Z]\w+|allowHalfOpen|receiver) = )\w+ = /,
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
