// @ts-check
/**
 * The contract of Microsoft's tutorial "Create a minimal API with ASP.NET Core": what its text and its finished program
 * say about /todoitems. Where editions or servers may differ, the rule is a choice.
 *
 *   npx todo-service verify http://localhost:5000 --contract minimal-api.js
 */
import {
  choice,
  defineContract,
  expectEmpty,
  expectItems,
  expectMembers,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  prerequisites,
  spec,
  uniqueText,
} from 'todo-item-service/verify'

/** What checks build on. */
const { observe, providing, setUp } = prerequisites('list', 'create', 'read', 'delete', 'update', 'complete')

/** @import { Client, Response, Rule } from 'todo-item-service/verify' */
/** @typedef {{ id: number, name: string | null, isComplete: boolean }} Item */

const path = '/todoitems'
/** Ids are 32-bit integers, assigned in ascending order: no item has this one. */
const unusedId = 2 ** 31 - 1

/** @type {Rule[]} */
const rules = [
  { id: 'M1', basis: 'spec', sentence: '`GET /todoitems` → 200 array of all items: `id`, `name`, `isComplete`.' },
  { id: 'M2', basis: 'spec', sentence: '`GET /todoitems/complete` → 200 array of the items with `isComplete` true.' },
  { id: 'M3', basis: 'spec', sentence: '`GET /todoitems/{id}` → 200 item; 404 when no item has the id.' },
  { id: 'M4', basis: 'spec', sentence: '`POST /todoitems` → 201 item with an id; `Location` is its path or URI.' },
  { id: 'M5', basis: 'spec', sentence: '`PUT /todoitems/{id}` → 204, replaces name and isComplete; 404 without item.' },
  { id: 'M6', basis: 'spec', sentence: '`DELETE /todoitems/{id}` → success, the item is gone; 404 without item.' },
  { id: 'M7', basis: 'choice', sentence: '`DELETE` → 204 without a body. Editions before .NET 8: 200 with the item.' },
  { id: 'M8', basis: 'choice', sentence: 'An absent `name` is null, an absent `isComplete` is false.' },
  { id: 'M9', basis: 'choice', sentence: 'The path says which item a PUT changes; an `id` in its body is ignored.' },
  { id: 'M10', basis: 'choice', sentence: 'Items have no other members: what is stored besides, is not returned.' },
]

/** @param {number} id */
const itemPath = (id) => `${path}/${id}`
const newItem = (isComplete = false) => ({ name: uniqueText(), isComplete })

/** @param {Response} response @param {Omit<Item, 'id'>} sent @returns {Item} */
function expectCreated(response, sent) {
  expectSuccess(response)
  const { id } = expectObject(response)
  expectThat(typeof id === 'number' && Number.isInteger(id), 'an integer id', response)
  expectMembers(response, sent)
  return { id, ...sent }
}

/** A step towards what a check states: if it fails, M4 is to blame. @param {Client} client */
async function create(client, isComplete = false) {
  const sent = newItem(isComplete)
  const response = await client.send('POST', path, sent)
  return setUp('create', () => expectCreated(response, sent))
}

/** The effect of a check, as GET shows it. @param {Client} client @param {Item} item */
async function expectStored(client, item) {
  const response = await client.send('GET', itemPath(item.id))
  observe('read', () => {
    expectStatus(response, 200)
    expectMembers(response, item)
  })
}

/** @param {Client} client */
async function list(client, listPath = path) {
  const response = await client.send('GET', listPath)
  return observe(listPath === path ? 'list' : 'complete', () => expectItems(response))
}

/** @param {readonly Record<string, unknown>[]} items @param {Item} item */
const includes = (items, item) => items.some((listed) => hasMembers(listed, item))

// In the order in which they run: what others build on comes first. Other clients may be at work, so a check judges
// only items that it has created, never the length of a list.
const checks = [
  providing(
    'list',
    spec('M1', 'GET returns 200 with an array of items', async (client) => {
      const response = await client.send('GET', path)
      expectServed(response)
      expectItems(response)
    }),
  ),
  providing(
    'create',
    spec('M4', 'POST creates an item and returns it with its id', async (client) => {
      for (const sent of [newItem(), newItem(true)]) {
        const response = await client.send('POST', path, sent)
        expectServed(response)
        expectCreated(response, sent)
      }
    }),
  ),
  providing(
    'read',
    spec('M3', 'GET returns the item with the id', async (client) => {
      for (const isComplete of [false, true]) await expectStored(client, await create(client, isComplete))
    }),
  ),
  providing(
    'delete',
    spec('M6', 'DELETE removes the item, and no other', async (client) => {
      const [item, other] = [await create(client), await create(client)]
      const response = await client.send('DELETE', itemPath(item.id))
      expectSuccess(response)
      expectThat(!includes(await list(client), item), 'a list without the deleted item')
      await expectStored(client, other)
    }),
  ),
  providing(
    'update',
    spec('M5', 'PUT replaces name and isComplete of the item, and of no other', async (client) => {
      const [item, other] = [await create(client), await create(client)]
      for (const changed of [newItem(true), newItem()]) {
        expectSuccess(await client.send('PUT', itemPath(item.id), changed))
        await expectStored(client, { id: item.id, ...changed })
      }
      await expectStored(client, other)
    }),
  ),
  spec('M1', 'GET lists the items that were created', async (client) => {
    const created = [await create(client), await create(client, true)]
    const listed = await list(client)
    for (const item of created) expectThat(includes(listed, item), `a list with the item ${item.id}`)
  }),
  providing(
    'complete',
    spec('M2', 'GET lists the items that are complete, and no others', async (client) => {
      const [open, complete] = [await create(client), await create(client, true)]
      const listed = await list(client, `${path}/complete`)
      expectThat(includes(listed, complete), `a list with the complete item ${complete.id}`)
      expectThat(!listed.some(({ id }) => id === open.id), `a list without the item ${open.id}, which is not complete`)
    }),
  ),
  spec('M2', 'an item that PUT completes is listed', async (client) => {
    const item = { ...(await create(client)), isComplete: true }
    const response = await client.send('PUT', itemPath(item.id), item)
    setUp('update', () => expectSuccess(response))
    const listed = await list(client, `${path}/complete`)
    observe('update', () => expectThat(includes(listed, item), `a list with the complete item ${item.id}`))
  }),
  spec('M4', 'POST returns 201 with the Location of the item', async (client) => {
    const sent = newItem()
    const response = await client.send('POST', path, sent)
    const { id } = setUp('create', () => expectCreated(response, sent))
    expectStatus(response, 201)
    const { location = '' } = response.headers
    expectThat(location.toLowerCase().endsWith(itemPath(id)), `a Location that ends in ${itemPath(id)}`, response)
  }),
  spec('M5', 'PUT returns 204 without a body', async (client) => {
    const { id, ...members } = await create(client)
    const response = await client.send('PUT', itemPath(id), members)
    setUp('update', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  ...Object.entries({ M3: 'GET', M5: 'PUT', M6: 'DELETE' }).map(([rule, method]) =>
    spec(rule, `${method} returns 404 when no item has the id`, async (client) => {
      expectStatus(await client.send(method, itemPath(unusedId), method === 'PUT' ? newItem() : undefined), 404)
    }),
  ),
  choice('M7', 'DELETE returns 204 without a body', async (client) => {
    const { id } = await create(client)
    const response = await client.send('DELETE', itemPath(id))
    setUp('delete', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  choice('M8', 'POST without name or isComplete stores null or false', async (client) => {
    const name = uniqueText()
    for (const [sent, stored] of [
      [{ name }, { name, isComplete: false }],
      [{ isComplete: true }, { name: null, isComplete: true }],
    ]) {
      const response = await client.send('POST', path, sent)
      observe('create', () => expectSuccess(response))
      expectMembers(response, stored)
    }
  }),
  choice('M9', 'PUT ignores an id in the body', async (client) => {
    const [item, other] = [await create(client), await create(client)]
    const response = await client.send('PUT', itemPath(item.id), { ...item, id: other.id, isComplete: true })
    observe('update', () => expectSuccess(response))
    await expectStored(client, { ...item, isComplete: true })
    await expectStored(client, other)
  }),
  choice('M10', 'a secret in a POST is not returned', async (client) => {
    const response = await client.send('POST', path, { ...newItem(), secret: uniqueText() })
    observe('create', () => expectSuccess(response))
    const members = Object.keys(expectObject(response))
    expectThat(members.sort().join() === 'id,isComplete,name', 'the members id, name and isComplete', response)
  }),
]

export default defineContract({ name: 'Minimal API tutorial', rules, checks, items: { path } })
