// @ts-check
/**
 * The contract of Todo-Backend (todobackend.com): what its specification, which runs in a browser, asks of a server.
 * A todo has a title, completed, perhaps an order, and the url at which it is read, changed and deleted.
 *
 *   API_ROOT=/todos npx todo-service verify http://localhost:3000 --contract todo-backend.js
 */
import {
  choice,
  defineContract,
  expectItems,
  expectMembers,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  onOwnServer,
  prerequisites,
  spec,
  uniqueText,
} from 'todo-item-service/verify'

/** What checks build on. */
const { observe, providing, setUp } = prerequisites('list', 'create', 'read', 'delete', 'update')

/** @import { Client, ServerControl, Response, Rule } from 'todo-item-service/verify' */
/** @typedef {{ title?: string, completed?: boolean, order?: number }} Members */

const root = process.env.API_ROOT ?? '/'
const origin = 'https://todo.example'

/** @type {Rule[]} */
const rules = [
  { id: 'T1', basis: 'spec', sentence: '`GET` of the API root → 200 array of all todos.' },
  { id: 'T2', basis: 'spec', sentence: '`POST` to the root → the todo: its `title`, `completed` false and its `url`.' },
  { id: 'T3', basis: 'spec', sentence: '`GET` of the `url` of a todo → 200 todo.' },
  { id: 'T4', basis: 'spec', sentence: '`PATCH` of the `url` changes `title` and `completed` → the changed todo.' },
  { id: 'T5', basis: 'spec', sentence: '`DELETE` of the `url` → success, the todo is gone.' },
  { id: 'T6', basis: 'spec', sentence: '`POST` and `PATCH` store an `order`, a number.' },
  { id: 'T7', basis: 'spec', sentence: '`DELETE` of the root → success, all todos are gone.' },
  { id: 'T8', basis: 'spec', sentence: 'A page of any origin may use the API (CORS).' },
  { id: 'T9', basis: 'choice', sentence: '`PATCH` leaves members that it does not name as they are.' },
]

/** On the server under test: the host of a url may be that of a proxy. @param {unknown} url */
const pathIn = (url) => new URL(`${url}`, 'http://localhost').pathname

/** @param {Response} response */
function expectUrl(response) {
  expectSuccess(response)
  const { url } = expectObject(response)
  expectThat(typeof url === 'string' && URL.canParse(url, 'http://localhost'), 'a todo with a url', response)
  return url
}

/** A step towards what a check states: if it fails, T2 is to blame. @param {Client} client @param {Members} members */
async function create(client, members = {}) {
  const sent = { title: uniqueText(), ...members }
  const response = await client.send('POST', root, sent)
  return { url: setUp('create', () => expectUrl(response)), ...sent }
}

/** The effect of a check, as GET shows it. @param {Client} client @param {{ url: string } & Members} todo */
async function expectStored(client, { url, ...members }) {
  const response = await client.send('GET', pathIn(url))
  observe('read', () => {
    expectStatus(response, 200)
    expectMembers(response, members)
  })
}

/** @param {Client} client @param {{ url: string } & Members} todo */
async function isListed(client, todo) {
  const response = await client.send('GET', root)
  return observe('list', () => expectItems(response)).some((listed) => hasMembers(listed, todo))
}

/** Expects the change in the response, in GET and in the list. @param {Client} client @param {{ url: string } & Members} todo */
async function expectChange(client, { url, ...change }) {
  const response = await client.send('PATCH', pathIn(url), change)
  const read = await client.send('GET', pathIn(url))
  const isInList = await isListed(client, { url, ...change })
  setUp('read', () => expectStatus(read, 200))
  observe('update', () => {
    expectSuccess(response)
    expectMembers(response, change)
    expectMembers(read, change)
    expectThat(isInList, 'a list with the changed todo')
  })
}

/** Asks as a browser does before it sends the request. @param {Client} client @param {string} path @param {string} method */
async function expectAllowed(client, path, method) {
  const asked = { 'access-control-request-method': method, 'access-control-request-headers': 'content-type' }
  const response = await client.send('OPTIONS', path, undefined, { origin, ...asked })
  const allows = (/** @type {string} */ what, /** @type {string} */ value) =>
    ['*', value.toLowerCase()].some((one) =>
      response.headers[`access-control-allow-${what}`]
        ?.toLowerCase()
        .split(/\s*,\s*/)
        .includes(one),
    )
  expectSuccess(response)
  expectThat(allows('origin', origin), `Access-Control-Allow-Origin for ${origin}`, response)
  expectThat(method === 'POST' || allows('methods', method), `Access-Control-Allow-Methods with ${method}`, response)
  expectThat(allows('headers', 'content-type'), 'Access-Control-Allow-Headers with content-type', response)
}

// In the order in which they run: what others build on comes first. Other clients may be at work, so a check judges
// only todos that it has created, never the length of the list.
const checks = [
  providing(
    'list',
    spec('T1', 'GET of the root returns 200 with an array of todos', async (client) => {
      const response = await client.send('GET', root)
      expectServed(response)
      expectItems(response)
    }),
  ),
  providing(
    'create',
    spec('T2', 'POST returns the new todo with its url', async (client) => {
      const title = uniqueText()
      const response = await client.send('POST', root, { title })
      expectServed(response)
      expectUrl(response)
      expectMembers(response, { title })
    }),
  ),
  providing(
    'read',
    spec('T3', 'GET of its url returns the todo', async (client) => {
      await expectStored(client, await create(client))
    }),
  ),
  providing(
    'delete',
    spec('T5', 'DELETE of its url removes the todo, and no other', async (client) => {
      const [todo, other] = [await create(client), await create(client)]
      expectSuccess(await client.send('DELETE', pathIn(todo.url)))
      expectThat(!(await isListed(client, todo)), 'a list without the deleted todo')
      await expectStored(client, other)
    }),
  ),
  providing(
    'update',
    spec('T4', 'PATCH changes title and completed', async (client) => {
      const { url } = await create(client)
      for (const change of [{ title: uniqueText() }, { completed: true }, { title: uniqueText(), completed: false }])
        await expectChange(client, { url, ...change })
    }),
  ),
  spec('T2', 'a new todo is not completed', async (client) => {
    await expectStored(client, { ...(await create(client)), completed: false })
  }),
  spec('T1', 'GET of the root lists the todos that were created', async (client) => {
    for (const todo of [await create(client), await create(client)])
      expectThat(await isListed(client, todo), `a list with the todo ${todo.url}`)
  }),
  spec('T6', 'POST stores an order', async (client) => {
    await expectStored(client, await create(client, { order: 523 }))
  }),
  spec('T6', 'PATCH changes the order', async (client) => {
    const { url } = await create(client, { order: 10 })
    await expectChange(client, { url, order: 95 })
  }),
  // It would delete the todos of others, too.
  onOwnServer(
    spec('T7', 'DELETE of the root removes all todos', async (client) => {
      const todo = await create(client)
      expectSuccess(await client.send('DELETE', root))
      expectThat(!(await isListed(client, todo)), 'a list without todos')
    }),
  ),
  spec('T8', 'responses to a page of another origin allow it to read them', async (client) => {
    const response = await client.send('GET', root, undefined, { origin })
    const { 'access-control-allow-origin': allowed } = response.headers
    expectThat(allowed === '*' || allowed === origin, `Access-Control-Allow-Origin for ${origin}`, response)
  }),
  spec('T8', 'preflight requests allow each method, with a JSON body', async (client) => {
    const { url } = await create(client)
    for (const method of ['POST', 'DELETE']) await expectAllowed(client, root, method)
    for (const method of ['PATCH', 'DELETE']) await expectAllowed(client, pathIn(url), method)
  }),
  choice('T9', 'PATCH of completed leaves title and order as they are', async (client) => {
    const todo = await create(client, { order: 7 })
    const response = await client.send('PATCH', pathIn(todo.url), { completed: true })
    setUp('update', () => expectSuccess(response))
    await expectStored(client, { ...todo, completed: true })
  }),
]

/**
 * For --reset: deletes all todos; at the end creates those from before again, with other urls.
 * @param {Client} client @returns {Promise<ServerControl>}
 */
async function openControl(client) {
  const before = expectItems(await client.send('GET', root))
  const reset = () => client.send('DELETE', root)
  return {
    reset,
    async restore() {
      await reset()
      const kept = expectItems(await client.send('GET', root)).map(({ url }) => url)
      for (const { title, completed, order } of before.filter(({ url }) => !kept.includes(url))) {
        const created = await client.send('POST', root, { title, ...(typeof order === 'number' && { order }) })
        if (completed) await client.send('PATCH', pathIn(expectUrl(created)), { completed })
      }
    },
  }
}

export default defineContract({
  name: 'Todo-Backend',
  rules,
  checks,
  items: { path: root, pathOf: ({ url }) => (typeof url === 'string' ? pathIn(url) : undefined) },
  openControl,
})
