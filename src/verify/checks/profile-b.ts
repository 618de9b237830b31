import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, itemsPath, onUntouchedStore, spec, uniqueText } from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectArray,
  expectEmpty,
  expectJson,
  expectMediaType,
  expectMethodNotAllowed,
  expectStatus,
  expectThat,
} from '../expect.ts'
import { commonChecks, expectSingleSuccess } from './common.ts'
import { sampleChecks } from './samples.ts'

interface Item {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

const newItem = (members: Partial<Item> = {}): Item => ({
  id: uniqueText(),
  name: uniqueText(),
  notes: 'notes',
  done: false,
  ...members,
})
const itemPath = (id: string) => `${itemsPath}/${encodeURIComponent(id)}`

/** B9 */
function expectError(response: Response, status: number, code: string): void {
  expectStatus(response, status)
  expectThat(response.text === code, `the body ${code}`, response)
}

const expectMissingMember = (response: Response) => expectError(response, 400, 'TodoItemNameAndNotesRequired')
const expectNotFound = (response: Response) => expectError(response, 404, 'RecordNotFound')
const expectCouldNotCreate = (response: Response) => expectError(response, 400, 'CouldNotCreateItem')

async function create(client: Client, members: Partial<Item> = {}): Promise<Item> {
  const item = newItem(members)
  expectJson(await client.send('POST', itemsPath, item), 200, item)
  return item
}

async function listItems(client: Client): Promise<Item[]> {
  return expectArray(await client.send('GET', itemsPath)) as Item[]
}

async function expectStored(client: Client, item: Item): Promise<void> {
  const listed = (await listItems(client)).filter(({ id }) => id === item.id)
  expectThat(
    isDeepStrictEqual(listed, [item]),
    `${JSON.stringify(item)} in the list, once, not ${JSON.stringify(listed)}`,
  )
}

async function expectNotStored(client: Client, id: unknown): Promise<void> {
  expectThat(!(await listItems(client)).some((item) => item.id === id), `no item ${id} in the list`)
}

const operationChecks: readonly Check[] = [
  spec('B12', 'plain HTTP is served or redirected to HTTPS', async (client) => {
    const response = await client.send('GET', itemsPath)
    if (response.status === 200) return
    expectThat(/^https:/.test(response.headers.location ?? ''), 'status 200 or a redirect to HTTPS', response)
  }),
  choice('B12', 'a redirect to HTTPS is 307 with the same path and query', async (client) => {
    const response = await client.send('GET', `${itemsPath}?a=b`)
    if (response.status === 200) return
    expectStatus(response, 307)
    expectThat(response.headers.location?.endsWith(`${itemsPath}?a=b`) === true, 'the same path and query', response)
  }),
  choice('G2', 'PUT and DELETE accept one trailing slash', async (client) => {
    const item = await create(client)
    expectEmpty(await client.send('PUT', `${itemsPath}/`, item), 204)
    expectEmpty(await client.send('DELETE', `${itemPath(item.id)}/`), 204)
  }),
  spec('B1', 'GET lists every item with exactly its members', async (client) => {
    await expectStored(client, await create(client))
    await expectStored(client, await create(client, { done: true }))
  }),
  choice('B1', 'the list is in order of creation', async (client) => {
    const created = [
      await create(client, { id: `z ${uniqueText()}` }),
      await create(client, { id: `a ${uniqueText()}` }),
      await create(client),
    ]
    const ids = created.map(({ id }) => id)
    const order = (await listItems(client)).map(({ id }) => id).filter((id) => ids.includes(id))
    expectThat(isDeepStrictEqual(order, ids), `the order ${ids}, not ${order}`)
  }),
  onUntouchedStore(
    spec('G7', 'the store starts with three items', async (client) => {
      expectThat((await listItems(client)).length === 3, 'three items')
    }),
  ),
  onUntouchedStore(
    spec('B2', 'the first of the three initial items is done, the others are not', async (client) => {
      const done = (await listItems(client)).map((item) => item.done)
      expectThat(isDeepStrictEqual(done, [true, false, false]), `done to be true, false, false, not ${done}`)
    }),
  ),
  onUntouchedStore(
    spec('B2', 'the initial items have different ids, and names and notes', async (client) => {
      const initial = await listItems(client)
      expectThat(
        initial.every(({ id, name, notes }) =>
          [id, name, notes].every((text) => typeof text === 'string' && text.trim()),
        ),
        'an id, a name and notes in each',
      )
      expectThat(new Set(initial.map(({ id }) => id)).size === 3, 'three different ids')
    }),
  ),
  spec('B3', 'POST returns 200 with the item', async (client) => {
    const item = await create(client, { done: true })
    await expectStored(client, item)
  }),
  choice('B3', 'an absent done means false', async (client) => {
    const { done: _, ...rest } = newItem()
    expectJson(await client.send('POST', itemsPath, rest), 200, { ...rest, done: false })
    await expectStored(client, { ...rest, done: false })
  }),
  spec('B7', 'PUT returns 204 and replaces the item', async (client) => {
    const item = await create(client)
    const other = await create(client)
    for (const done of [true, false]) {
      const sent = { ...item, name: uniqueText(), notes: uniqueText(), done }
      expectEmpty(await client.send('PUT', itemsPath, sent), 204)
      await expectStored(client, sent)
    }
    await expectStored(client, other)
  }),
  choice('B7', 'PUT without done sets it to false', async (client) => {
    const { done: _, ...rest } = await create(client, { done: true })
    expectEmpty(await client.send('PUT', itemsPath, rest), 204)
    await expectStored(client, { ...rest, done: false })
  }),
  choice('B7', 'a replaced item keeps its position in the list', async (client) => {
    const created = [await create(client), await create(client), await create(client)]
    const before = created.map(({ id }) => id)
    expectEmpty(await client.send('PUT', itemsPath, { ...created[1], name: 'changed' }), 204)
    const after = (await listItems(client)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  spec('B7', 'PUT returns 404 RecordNotFound when no item has the id, and creates none', async (client) => {
    const item = newItem()
    expectNotFound(await client.send('PUT', itemsPath, item))
    await expectNotStored(client, item.id)
  }),
  spec('B8', 'DELETE returns 204 and removes the item', async (client) => {
    const [item, other] = [await create(client), await create(client)]
    expectEmpty(await client.send('DELETE', itemPath(item.id)), 204)
    await expectNotStored(client, item.id)
    await expectStored(client, other)
  }),
  spec('B8', 'DELETE returns 404 RecordNotFound when no item has the id', async (client) => {
    const { id } = await create(client)
    expectEmpty(await client.send('DELETE', itemPath(id)), 204)
    expectNotFound(await client.send('DELETE', itemPath(id)))
    expectNotFound(await client.send('DELETE', itemPath(uniqueText())))
  }),
  spec('B8', 'exactly one of ten concurrent DELETEs returns 204', async (client) => {
    const { id } = await create(client)
    await expectSingleSuccess(() => client.send('DELETE', itemPath(id)), 204, 404)
  }),
  choice('B10', 'every method but DELETE on an item returns 405', async (client) => {
    const { id } = await create(client)
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'PATCH'])
      expectMethodNotAllowed(await client.send(method, itemPath(id)), ['DELETE'])
  }),
]

/** Ids with characters that need encoding, or are special, in a path. */
const specialIds = [
  'a/b',
  '/',
  '%41',
  '%',
  '%2F',
  'a%zz',
  '😀',
  'é',
  'a b',
  ' a ',
  'a?b=c#d',
  'a+b',
  'a;b,c:d@e&f=g$h!i*j(k)',
  '"quoted"',
  '\\back\\slash',
  '<script>',
  '...',
  'constructor',
  '__proto__',
  'line\nbreak',
  '\u0001',
]

const idChecks: readonly Check[] = [
  spec('G1', 'a path parameter is case-sensitive', async (client) => {
    const { id } = await create(client, { id: `Case ${uniqueText()}` })
    expectNotFound(await client.send('DELETE', itemPath(id.toUpperCase())))
    expectEmpty(await client.send('DELETE', `/API/TODOITEMS/${encodeURIComponent(id)}`), 204)
  }),
  choice('B5', 'ids are compared exactly', async (client) => {
    const id = uniqueText()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await create(client, { id: other })
    const stored = await create(client, { id: `Case ${uniqueText()}` })
    expectNotFound(await client.send('PUT', itemsPath, { ...stored, id: stored.id.toUpperCase() }))
    await expectStored(client, stored)
  }),
  choice('B5', 'an id can be reused after its item is deleted', async (client) => {
    const item = await create(client)
    expectEmpty(await client.send('DELETE', itemPath(item.id)), 204)
    await create(client, item)
  }),
  ...specialIds.map((id) =>
    choice('B11', `the id ${JSON.stringify(id)} can be created and deleted`, async (client) => {
      await expectRoundTrip(client, `${id}${uniqueText()}${id}`)
    }),
  ),
  choice('B11', 'ids of 1,024 characters can be created and deleted', async (client) => {
    for (const char of ['x', '/', '%', 'é', '漢', '😀']) {
      const start = uniqueText()
      await expectRoundTrip(client, start + char.repeat(1024 - start.length))
    }
  }),
  choice('B11', 'an invalid percent-encoding in the path returns 404 RecordNotFound', async (client) => {
    for (const path of ['%', '%4', '%zz', '%ff', '%c3%28', 'a%ed%a0%80'])
      expectNotFound(await client.send('DELETE', `${itemsPath}/${path}`))
  }),
]

async function expectRoundTrip(client: Client, id: string): Promise<void> {
  const item = await create(client, { id })
  expectEmpty(await client.send('PUT', itemsPath, { ...item, done: true }), 204)
  await expectStored(client, { ...item, done: true })
  expectEmpty(await client.send('DELETE', itemPath(id)), 204)
  await expectNotStored(client, id)
}

/** B4: ways to invalidate an item. */
const invalidItems: readonly [name: string, invalidate: (item: Item) => object][] = [
  ...(['id', 'name', 'notes'] as const).flatMap((member) =>
    [undefined, null, '', ' ', '\t\n', 0, true, {}, ['x']].map((value): [string, (item: Item) => object] => [
      `${member} ${value === undefined ? 'absent' : JSON.stringify(value)}`,
      (item) => ({ ...item, [member]: value }),
    ]),
  ),
  ...[null, 'true', 0, 1, {}, []].map((value): [string, (item: Item) => object] => [
    `done ${JSON.stringify(value)}`,
    (item) => ({ ...item, done: value }),
  ]),
]

const errorChecks: readonly Check[] = [
  spec('B4', 'POST and PUT without a body return 400', async (client) => {
    for (const method of ['POST', 'PUT']) expectMissingMember(await client.send(method, itemsPath))
  }),
  ...invalidItems.map(([name, invalidate]) =>
    (name.endsWith('absent') ? spec : choice)('B4', `${name} counts as missing`, async (client) => {
      const item = newItem()
      expectMissingMember(await client.send('POST', itemsPath, invalidate(item)))
      await expectNotStored(client, item.id)
      const stored = await create(client)
      expectMissingMember(await client.send('PUT', itemsPath, invalidate({ ...stored, name: 'changed' })))
      await expectStored(client, stored)
    }),
  ),
  choice('B4', 'PUT treats a malformed body, a non-object and another media type as a missing body', async (client) => {
    const stored = await create(client)
    const text = JSON.stringify({ ...stored, name: 'changed' })
    for (const body of ['', '{', 'null', `[${text}]`, text.slice(1)])
      expectMissingMember(await client.send('PUT', itemsPath, body))
    expectMissingMember(await client.send('PUT', itemsPath, text, { 'content-type': 'text/plain' }))
    expectMissingMember(await client.send('PUT', itemsPath, text, { 'content-type': undefined }))
    await expectStored(client, stored)
  }),
  spec('B5', 'POST returns 409 when the id is in use', async (client) => {
    const item = await create(client)
    expectError(await client.send('POST', itemsPath, { ...item, name: 'changed' }), 409, 'TodoItemIDInUse')
    await expectStored(client, item)
  }),
  spec('B5', 'exactly one of ten concurrent POSTs with the same id returns 200', async (client) => {
    const item = newItem()
    await expectSingleSuccess(() => client.send('POST', itemsPath, item), 200, 409)
    await expectStored(client, item)
  }),
  choice('B5', 'a missing member is reported before an id in use', async (client) => {
    const item = await create(client)
    expectMissingMember(await client.send('POST', itemsPath, { ...item, notes: '' }))
  }),
  choice('B6', 'a body over the size limit returns a CouldNot… code', async (client) => {
    const item = await create(client)
    const notes = 'x'.repeat(2 ** 20)
    expectCouldNotCreate(await client.send('POST', itemsPath, newItem({ notes })))
    expectError(await client.send('PUT', itemsPath, { ...item, notes }), 400, 'CouldNotUpdateItem')
    await expectStored(client, item)
  }),
  choice('B6', 'an id over the length limit returns a CouldNot… code', async (client) => {
    for (const id of ['x'.repeat(1025), '😀'.repeat(1025)]) {
      expectCouldNotCreate(await client.send('POST', itemsPath, newItem({ id })))
      expectError(await client.send('PUT', itemsPath, newItem({ id })), 400, 'CouldNotUpdateItem')
      expectError(await client.send('DELETE', itemPath(id)), 400, 'CouldNotDeleteItem')
      await expectNotStored(client, id)
    }
  }),
  choice('B6', 'a lone surrogate returns a CouldNot… code', async (client) => {
    const item = await create(client)
    for (const member of ['name', 'notes'])
      expectError(
        await client.send('PUT', itemsPath, JSON.stringify({ ...item, [member]: 'x\ud800' })),
        400,
        'CouldNotUpdateItem',
      )
    expectCouldNotCreate(await client.send('POST', itemsPath, JSON.stringify(newItem({ id: 'x\udfff' }))))
    await expectStored(client, item)
  }),
  choice('G8', 'an error response contains only its code', async (client) => {
    expectNotFound(await client.send('DELETE', itemPath(uniqueText())))
    expectMissingMember(await client.send('POST', itemsPath, '{"broken'))
    expectEmpty(await client.send('GET', '/nowhere'), 404)
  }),
  spec('B9', 'error bodies are the code as plain text', async (client) => {
    const item = await create(client)
    for (const response of [
      await client.send('POST', itemsPath, item),
      await client.send('POST', itemsPath, {}),
      await client.send('PUT', itemsPath, {}),
      await client.send('POST', itemsPath, newItem({ id: 'x'.repeat(1025) })),
      await client.send('PUT', itemsPath, newItem()),
      await client.send('DELETE', itemPath(uniqueText())),
    ]) {
      expectMediaType(response, 'text/plain')
      expectThat(/^[A-Za-z]+$/.test(response.text), 'only the code', response)
    }
  }),
]

export const profileBChecks: readonly Check[] = [
  ...commonChecks({
    newItem: (name) => ({ ...newItem({ name }) }),
    createdStatus: 200,
    requiredMember: 'notes',
    collectionMethods: ['GET', 'HEAD', 'POST', 'PUT'],
    itemMethods: ['DELETE'],
    expectUnsupportedMediaType: expectMissingMember,
    expectInvalidBody: expectMissingMember,
    expectBodyTooLarge: expectCouldNotCreate,
    expectUnstorableText: expectCouldNotCreate,
  }),
  ...operationChecks,
  ...idChecks,
  ...errorChecks,
  ...sampleChecks,
]
