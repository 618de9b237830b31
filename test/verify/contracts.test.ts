import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Contract, type VerifyOptions, verify } from '../../src/verify/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { run, runCommand } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { assertFails, failedRules, ruleOf, titles } from '../support/faulty-server.ts'
import {
  type Article,
  type ArticleMembers,
  Conduit,
  conduitTokens,
  type ExampleServer,
  type Item,
  MinimalApi,
  type Todo,
  TodoBackend,
  toHttp,
  type User,
} from './example-servers.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const fileOf = (name: string) => join(root, 'examples/contracts', `${name}.js`)
const load = async (name: string): Promise<Contract> => (await import(pathToFileURL(fileOf(name)).href)).default

async function listen(t: TestContext, server: ExampleServer): Promise<string> {
  const http = toHttp(server)
  await new Promise<void>((listening) => http.listen(0, '127.0.0.1', listening))
  cleanUp(t, () => {
    http.close()
    http.closeAllConnections()
  })
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`
}

const succeedingWithoutItem = (method: string) =>
  class extends MinimalApi {
    override missing(used: string) {
      return used === method ? { status: 200, body: null } : super.missing(used)
    }
  }

type MinimalApiClass = new () => MinimalApi
type TodoBackendClass = new () => TodoBackend
type ConduitClass = new () => Conduit

const faultyMinimalApis: Record<string, MinimalApiClass> = {
  'M1 GET returns an object': class extends MinimalApi {
    override list() {
      return { status: 200, body: { items: [...this.items.values()] } }
    }
  },
  'M1 the list lacks complete items': class extends MinimalApi {
    override list() {
      return { status: 200, body: [...this.items.values()].filter(({ isComplete }) => !isComplete) }
    }
  },
  'M2 every item counts as complete': class extends MinimalApi {
    override complete() {
      return this.list()
    }
  },
  'M2 an item that is completed later is not listed': class extends MinimalApi {
    readonly #complete = new Set<unknown>()
    override create(item: Partial<Item>) {
      const reply = super.create(item)
      if (item.isComplete) this.#complete.add(reply.body)
      return reply
    }
    override complete() {
      return { status: 200, body: [...this.items.values()].filter((item) => this.#complete.has(item)) }
    }
  },
  'M3 GET returns another item': class extends MinimalApi {
    override read() {
      return super.read(this.items.values().next().value as Item)
    }
  },
  'M3 an item that does not exist is null': succeedingWithoutItem('GET'),
  'M4 POST ignores isComplete': class extends MinimalApi {
    override create({ name = null }: Partial<Item>) {
      return super.create({ name })
    }
  },
  'M4 POST returns 200': class extends MinimalApi {
    override create(item: Partial<Item>) {
      return { ...super.create(item), status: 200 }
    }
  },
  'M4 Location is the collection': class extends MinimalApi {
    override create(item: Partial<Item>) {
      return { ...super.create(item), headers: { location: '/todoitems' } }
    }
  },
  'M5 PUT stores nothing': class extends MinimalApi {
    override replace() {
      return { status: 204 }
    }
  },
  'M5 PUT returns the item': class extends MinimalApi {
    override replace(item: Item, members: Partial<Item>) {
      super.replace(item, members)
      return { status: 200, body: item }
    }
  },
  'M5 PUT succeeds without an item': succeedingWithoutItem('PUT'),
  'M6 DELETE succeeds without an item': succeedingWithoutItem('DELETE'),
  'M6 DELETE leaves the item': class extends MinimalApi {
    #kept = 2
    override remove(item: Item) {
      return this.#kept-- > 0 ? { status: 204 } : super.remove(item)
    }
  },
}

const differentMinimalApis: Record<string, MinimalApiClass> = {
  'M7 DELETE returns the item, as in older editions': class extends MinimalApi {
    override remove(item: Item) {
      super.remove(item)
      return { status: 200, body: item }
    }
  },
  'M8 POST requires a name': class extends MinimalApi {
    override create(item: Partial<Item>) {
      return item.name === undefined ? { status: 400 } : super.create(item)
    }
  },
  'M9 the ids of a PUT must be equal': class extends MinimalApi {
    override replace(item: Item, members: Partial<Item>) {
      return (members.id ?? item.id) === item.id ? super.replace(item, members) : { status: 400 }
    }
  },
  'M10 POST returns what it received': class extends MinimalApi {
    override create(item: Partial<Item>) {
      const { body, ...reply } = super.create(item)
      return { ...reply, body: { ...item, ...(body as Item) } }
    }
  },
}

const faultyTodoBackends: Record<string, TodoBackendClass> = {
  'T1 GET returns an object': class extends TodoBackend {
    override list() {
      return { status: 200, body: { todos: super.list().body } }
    }
  },
  'T1 the list has one todo': class extends TodoBackend {
    override list() {
      return { status: 200, body: (super.list().body as object[]).slice(-1) }
    }
  },
  'T2 a new todo is completed': class extends TodoBackend {
    override create(todo: Partial<Todo>) {
      const reply = super.create(todo)
      for (const created of this.todos.values()) created.completed = true
      return reply
    }
  },
  'T2 a todo has no url': class extends TodoBackend {
    override create(todo: Partial<Todo>) {
      return { ...super.create(todo), body: { title: todo.title, completed: false } }
    }
  },
  'T3 the url is not served': class extends TodoBackend {
    override respond(method: string, id: string, body: Partial<Todo>) {
      return method === 'GET' && id !== '' ? { status: 404 } : super.respond(method, id, body)
    }
  },
  'T4 PATCH is not stored': class extends TodoBackend {
    override change(todo: Todo, change: Partial<Todo>) {
      return { status: 200, body: { ...this.view(todo), ...change } }
    }
  },
  'T5 DELETE removes every todo': class extends TodoBackend {
    override remove() {
      return this.clear()
    }
  },
  'T6 an order is not stored': class extends TodoBackend {
    override create({ title = '' }: Partial<Todo>) {
      return super.create({ title })
    }
  },
  'T6 PATCH does not change the order': class extends TodoBackend {
    override change(todo: Todo, { order: _, ...change }: Partial<Todo>) {
      return super.change(todo, change)
    }
  },
  'T8 only preflight requests have CORS headers': class extends TodoBackend {
    override handle(method: string, path: string, body: Partial<Todo>) {
      const reply = super.handle(method, path, body)
      return method === 'OPTIONS' ? reply : { ...reply, headers: {} }
    }
  },
  'T8 no CORS headers': class extends TodoBackend {
    override handle(method: string, path: string, body: Partial<Todo>) {
      const { status, body: content } = super.handle(method, path, body)
      return { status, body: content }
    }
  },
  'T8 a page may not send JSON': class extends TodoBackend {
    override preflight() {
      return { status: 204, headers: { 'access-control-allow-methods': '*' } }
    }
  },
}

const differentTodoBackends: Record<string, TodoBackendClass> = {
  'T9 PATCH replaces the todo': class extends TodoBackend {
    override change(todo: Todo, { title = '', completed = todo.completed, order = 0 }: Partial<Todo>) {
      return super.change(todo, { title, completed, order })
    }
  },
}

const faultyConduits: Record<string, ConduitClass> = {
  'C1 GET returns an array': class extends Conduit {
    override list(query: URLSearchParams, user: User | undefined) {
      return { status: 200, body: (super.list(query, user).body as { articles: object[] }).articles }
    }
  },
  'C1 the oldest article is first': class extends Conduit {
    override ordered() {
      return super.ordered().reverse()
    }
  },
  'C2 POST loses the tags': class extends Conduit {
    override create({ tagList: _, ...members }: Partial<ArticleMembers>, author: User) {
      return super.create(members, author)
    }
  },
  'C2 POST returns 200': class extends Conduit {
    override create(members: Partial<ArticleMembers>, author: User) {
      const reply = super.create(members, author)
      return reply.status === 201 ? { ...reply, status: 200 } : reply
    }
  },
  'C2 an article needs no title': class extends Conduit {
    override create(members: Partial<ArticleMembers>, author: User) {
      return super.create({ title: 'untitled', ...members }, author)
    }
  },
  'C3 only users read': class extends Conduit {
    override read(article: Article, user: User | undefined) {
      return user ? super.read(article, user) : this.deny('GET')
    }
  },
  'C3 an unknown slug is null': class extends Conduit {
    override missing(method: string) {
      return method === 'GET' ? { status: 200, body: { article: null } } : super.missing(method)
    }
  },
  'C4 PUT replaces the article': class extends Conduit {
    override change(article: Article, members: Partial<ArticleMembers>, user: User) {
      return super.change(article, { description: '', body: '', ...members }, user)
    }
  },
  'C5 DELETE removes nothing': class extends Conduit {
    #kept = 1
    override remove(article: Article) {
      return this.#kept-- > 0 ? { status: 204 } : super.remove(article)
    }
  },
  'C6 DELETE keeps the favorite': class extends Conduit {
    override favorite(article: Article, user: User) {
      return super.favorite(article, user, true)
    }
  },
  'C6 a favorite is one of every user': class extends Conduit {
    override view(article: Article, user: User | undefined) {
      return { ...super.view(article, user), favorited: article.favoriteOf.size > 0 }
    }
  },
  'C7 limit and filters are ignored': class extends Conduit {
    override list(_: URLSearchParams, user: User | undefined) {
      return super.list(new URLSearchParams(), user)
    }
  },
  'C7 articlesCount is that of the page': class extends Conduit {
    override list(query: URLSearchParams, user: User | undefined) {
      const { articles } = super.list(query, user).body as { articles: object[] }
      return { status: 200, body: { articles, articlesCount: articles.length } }
    }
  },
  'C8 without credentials the status is 403': class extends Conduit {
    override deny() {
      return { status: 403, body: { errors: {} } }
    }
  },
  'C9 any user may change an article': class extends Conduit {
    override mayChange() {
      return true
    }
  },
}

const differentConduits: Record<string, ConduitClass> = {
  'C10 DELETE returns 200, as in earlier editions': class extends Conduit {
    override remove(article: Article) {
      return { ...super.remove(article), status: 200, body: {} }
    }
  },
  'C11 an article keeps its slug': class extends Conduit {
    override change(article: Article, members: Partial<ArticleMembers>, user: User) {
      const { slug } = article
      super.change(article, members, user)
      this.articles.delete(article.slug)
      this.articles.set(slug, Object.assign(article, { slug }))
      return this.read(article, user)
    }
  },
}

/** Creates, changes, reads and deletes items of its own until it is stopped. */
function workBeside(url: string, path: string, method: 'PUT' | 'PATCH', member: string) {
  let isStopped = false
  const client = createClient(url)
  const work = async () => {
    let rounds = 0
    for (; !isStopped || rounds === 0; rounds++) {
      const created = JSON.parse((await client.send('POST', path, { [member]: 'of another client' })).text)
      const itemPath = created.url ? new URL(created.url).pathname : `${path}/${created.id}`
      await client.send(method, itemPath, { [member]: `round ${rounds}` })
      assert.equal(JSON.parse((await client.send('GET', itemPath)).text)[member], `round ${rounds}`)
      assert.equal((await client.send('DELETE', itemPath)).status, 204)
    }
    return rounds
  }
  const rounds = work()
  return {
    stop() {
      isStopped = true
      return rounds
    },
  }
}

suite('the contract of the minimal API tutorial', () => {
  const check = async (t: TestContext, server: MinimalApi, options: Partial<VerifyOptions> = {}) =>
    verify({ url: await listen(t, server), contract: await load('minimal-api'), ...options })

  test('is kept by a correct server, beside other items and other clients, which it leaves alone', async (t) => {
    const server = new MinimalApi()
    server.create({ name: 'mine' })
    server.create({ name: 'mine, too', isComplete: true })
    const before = structuredClone(server.items)
    const url = await listen(t, server)
    const other = workBeside(url, '/todoitems', 'PUT', 'name')
    const verification = await verify({ url, contract: await load('minimal-api'), strict: true })
    assert.ok((await other.stop()) > 1)
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.deepEqual([verification.ok, verification.skipped, verification.leftovers], [true, 0, []])
    assert.deepEqual(server.items, before)
  })

  for (const [title, Faulty] of Object.entries(faultyMinimalApis))
    test(title, async (t) => {
      const server = new Faulty()
      server.create({ name: 'mine' })
      const verification = await check(t, server)
      assertFails(verification, title)
      assert.deepEqual(
        [...server.items.values()].map(({ name }) => name),
        ['mine'],
      )
      assert.deepEqual(failedRules(verification), [ruleOf(title)])
    })

  for (const [title, Different] of Object.entries(differentMinimalApis))
    test(`${title}: a note, and a failure with strict`, async (t) => {
      const { ok, deviations } = await check(t, new Different())
      assert.deepEqual([ok, deviations], [true, 1])
      assert.deepEqual(failedRules(await check(t, new Different(), { strict: true })), [ruleOf(title)])
    })
})

suite('the contract of Todo-Backend', () => {
  const check = async (t: TestContext, server: TodoBackend, options: Partial<VerifyOptions> = {}) =>
    verify({ url: await listen(t, server), contract: await load('todo-backend'), ...options })

  test('is kept by a correct server, beside other todos and other clients, which it leaves alone', async (t) => {
    const server = new TodoBackend()
    server.create({ title: 'mine', order: 3 })
    const before = structuredClone(server.todos)
    const url = await listen(t, server)
    const other = workBeside(url, '/', 'PATCH', 'title')
    const verification = await verify({ url, contract: await load('todo-backend'), strict: true })
    assert.ok((await other.stop()) > 1)
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.deepEqual(titles(verification, 'skipped'), ['T7 DELETE of the root removes all todos'])
    assert.deepEqual([verification.ok, verification.leftovers], [true, []])
    assert.deepEqual(server.todos, before)
  })

  test('T7 is checked with --reset, which creates the todos from before again', async (t) => {
    const server = new TodoBackend()
    server.create({ title: 'first', order: 3 })
    server.create({ title: 'second' })
    server.change(server.todos.get(2) as Todo, { completed: true })
    const { ok, skipped } = await check(t, server, { reset: true, strict: true })
    assert.deepEqual([ok, skipped], [true, 0])
    assert.deepEqual(
      [...server.todos.values()].map(({ id: _, ...members }) => members),
      [
        { title: 'first', completed: false, order: 3 },
        { title: 'second', completed: true },
      ],
    )
  })

  test('T7 DELETE of the root removes nothing: fails with --reset, and doubles no todo', async (t) => {
    class Faulty extends TodoBackend {
      override clear() {
        return { status: 204 }
      }
    }
    const server = new Faulty()
    server.create({ title: 'mine' })
    const verification = await check(t, server, { reset: true })
    assert.deepEqual(failedRules(verification), ['T7'])
    assert.deepEqual(
      [...server.todos.values()].map(({ title }) => title),
      ['mine'],
    )
  })

  for (const [title, Faulty] of Object.entries(faultyTodoBackends))
    test(title, async (t) => {
      const server = new Faulty()
      const verification = await check(t, server)
      assertFails(verification, title)
      assert.deepEqual(failedRules(verification), [ruleOf(title)])
      assert.equal(server.todos.size, 0)
    })

  for (const [title, Different] of Object.entries(differentTodoBackends))
    test(`${title}: a note, and a failure with strict`, async (t) => {
      const { ok, deviations } = await check(t, new Different())
      assert.deepEqual([ok, deviations], [true, 1])
      assert.deepEqual(failedRules(await check(t, new Different(), { strict: true })), [ruleOf(title)])
    })
})

suite('the contract of Conduit', () => {
  const [token, otherToken] = [`Token ${conduitTokens.ada}`, `Token ${conduitTokens.bob}`]
  const twoUsers = { credentials: { authorization: token }, otherCredentials: { authorization: otherToken } }
  const verifyAt = async (url: string, options: Partial<VerifyOptions> = {}) => {
    const verification = await verify({ url, contract: await load('conduit'), ...twoUsers, ...options })
    for (const secret of Object.values(conduitTokens)) assert.ok(!JSON.stringify(verification).includes(secret))
    return verification
  }
  const check = async (t: TestContext, server: Conduit, options: Partial<VerifyOptions> = {}) =>
    verifyAt(await listen(t, server), options)
  const mine = { title: 'Mine', description: 'stays', body: 'as it is', tagList: ['verify'] }
  const fill = (server: Conduit) => {
    for (let index = 1; index <= 15; index++)
      for (const user of ['ada', 'bob'] as const) server.create({ ...mine, title: `Mine ${user} ${index}` }, user)
  }

  for (const [where, prepare] of Object.entries({ 'on an empty server': () => {}, 'beside other articles': fill }))
    test(`is kept by a correct server, ${where}`, async (t) => {
      const server = new Conduit()
      prepare(server)
      const before = structuredClone(server.articles)
      const verification = await check(t, server, { strict: true })
      assert.deepEqual(titles(verification, 'failed'), [])
      assert.deepEqual([verification.ok, verification.skipped, verification.leftovers], [true, 0, []])
      assert.deepEqual(server.articles, before)
    })

  test('without credentials of a second user, the checks that need them are skipped', async (t) => {
    const server = new Conduit()
    const { ok, outcomes } = await check(t, server, { strict: true, otherCredentials: undefined })
    const skipped = outcomes.filter(({ status }) => status === 'skipped')
    assert.equal(ok, true)
    assert.deepEqual(
      skipped.map(({ rule, reason }) => [rule, reason]),
      ['C6', 'C9'].map((rule) => [rule, 'none of another user were passed (--other-header)']),
    )
    assert.equal(server.articles.size, 0)
  })

  test('C2 without credentials of any user, one failure says what is missing', async (t) => {
    const verification = await check(t, new Conduit(), { credentials: undefined, otherCredentials: undefined })
    const failures = verification.outcomes.filter(({ status }) => status === 'failed')
    assert.deepEqual(failedRules(verification), ['C2'])
    assert.equal(failures.length, 1)
    assert.match(failures[0]?.failure?.expected ?? '', /--header 'Authorization: Token …'/)
  })

  test('C4 the tokens in a response are hidden in the report, and so are those of requests', async (t) => {
    class Faulty extends Conduit {
      override handle(method: string, path: string, body: object, authorization = '') {
        const reply = super.handle(method, path, body, authorization)
        return method === 'PUT' ? { status: 500, body: { authorization, otherToken } } : reply
      }
    }
    const { outcomes } = await check(t, new Faulty())
    const { got = '', request = '' } = outcomes.find(({ status }) => status === 'failed')?.failure ?? {}
    assert.match(got, /"authorization":"Token \$TOKEN","otherToken":"Token \$OTHER_TOKEN"/)
    assert.match(request, /-H "authorization: Token \$TOKEN"/)
  })

  for (const [title, Faulty] of Object.entries(faultyConduits))
    test(title, async (t) => {
      const server = new Faulty()
      server.create(mine, 'ada')
      const verification = await check(t, server)
      assertFails(verification, title)
      assert.deepEqual(failedRules(verification), [ruleOf(title)])
      assert.deepEqual([...server.articles.keys()], ['mine'])
    })

  for (const [title, Different] of Object.entries(differentConduits))
    test(`${title}: a note, and a failure with strict`, async (t) => {
      const { ok, deviations } = await check(t, new Different())
      assert.deepEqual([ok, deviations], [true, 1])
      assert.deepEqual(failedRules(await check(t, new Different(), { strict: true })), [ruleOf(title)])
    })
})

test('the examples of contracts have no type errors, and the command takes them', async (t) => {
  const names = ['minimal-api', 'todo-backend', 'conduit']
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const flags =
    '--ignoreConfig --noEmit --allowJs --checkJs --strict --target es2023 --lib es2024 --module nodenext --types node'
  const { code, stdout } = await runCommand(t, process.execPath, [tsc, ...flags.split(' '), ...names.map(fileOf)], {
    cwd: root,
  })
  assert.deepEqual([code, stdout], [0, ''])
  const url = await listen(t, new MinimalApi())
  const verified = await run(t, ['verify', url, '--contract', fileOf('minimal-api'), '--strict'])
  assert.deepEqual([verified.code, verified.stderr], [0, ''], verified.stdout)
  assert.match(verified.stdout, /^M {2}\d+ passed$/m)
  const ofUsers = [
    ['--header', `Authorization: Token ${conduitTokens.ada}`],
    ['--other-header', `Authorization: Token ${conduitTokens.bob}`],
  ]
  const conduit = await listen(t, new Conduit())
  const ofConduit = ['verify', conduit, '--contract', fileOf('conduit'), '--strict', ...ofUsers.flat()]
  const { code: exitCode, stdout: report, stderr } = await run(t, ofConduit)
  assert.deepEqual([exitCode, stderr], [0, ''], report)
  assert.match(report, /^C {2}\d+ passed$/m)
})
