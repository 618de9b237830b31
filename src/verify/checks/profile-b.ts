import { isDeepStrictEqual } from 'node:util'
import {
  type Check,
  choice,
  itemsPath,
  onUntouchedStore,
  overPlainHttp,
  type Prerequisite,
  providing,
  spec,
  uniqueText,
} from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectEmpty,
  expectItems,
  expectMediaType,
  expectMembers,
  expectMethodNotAllowed,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  observe,
  setUp,
} from '../expect.ts'
import { commonChecks, expectSingleSuccess, listCheck } from './common.ts'
import { endpointChecks, sampleChecks } from './samples.ts'

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

const errorCodes = [
  'TodoItemNameAndNotesRequired',
  'TodoItemIDInUse',
  'RecordNotFound',
  'CouldNotCreateItem',
  'CouldNotUpdateItem',
  'CouldNotDeleteItem',
]

const operations: Record<string, Prerequisite> = { POST: 'create', PUT: 'update', DELETE: 'delete' }
const observeOperation = ({ request }: Response, expectations: () => void) =>
  observe(operations[request.method] ?? 'list', expectations)

/** Whether a body is the code and nothing else is another check (B9). */
function expectError(response: Response, status: number, code: string): void {
  observeOperation(response, () => expectStatus(response, status))
  const hasCode = () => expectThat(response.text.includes(code), `the body ${code}`, response)
  if (errorCodes.some((other) => response.text.includes(other))) hasCode()
  else observe('error codes', hasCode)
}

/** B9. A wrong status is the business of other checks. */
function expectOnlyCode(response: Response): void {
  if (response.status < 400) return
  observeOperation(response, () => {
    expectThat(errorCodes.includes(response.text), 'an error code as the body, and nothing else', response)
    expectMediaType(response, 'text/plain')
  })
}

const expectMissingMember = (response: Response) => expectError(response, 400, 'TodoItemNameAndNotesRequired')
const expectNotFound = (response: Response) => expectError(response, 404, 'RecordNotFound')
const expectCouldNotCreate = (response: Response) => expectError(response, 400, 'CouldNotCreateItem')

async function create(client: Client, members: Partial<Item> = {}): Promise<Item> {
  const item = newItem(members)
  const response = await client.send('POST', itemsPath, item)
  setUp('create', () => expectSuccess(response))
  return item
}

/** For an item that is part of what a check states. */
async function expectCreated(client: Client, members: Partial<Item>): Promise<Item> {
  const item = newItem(members)
  const response = await client.send('POST', itemsPath, item)
  observe('create', () => {
    expectSuccess(response)
    expectMembers(response, item)
  })
  return item
}

async function replace(client: Client, item: object): Promise<void> {
  const response = await client.send('PUT', itemsPath, item)
  setUp('update', () => expectSuccess(response))
}

async function remove(client: Client, id: string): Promise<void> {
  const response = await client.send('DELETE', itemPath(id))
  setUp('delete', () => expectSuccess(response))
}

async function listItems(client: Client): Promise<Item[]> {
  const response = await client.send('GET', itemsPath)
  return observe('list', () => expectItems<Item>(response))
}

async function expectStored(client: Client, item: Item): Promise<void> {
  const listed = (await listItems(client)).filter(({ id }) => id === item.id)
  const expected = `${JSON.stringify(item)} in the list, once, not ${JSON.stringify(listed)}`
  observe('create', () => expectThat(listed.length > 0, expected))
  expectThat(listed.length === 1 && hasMembers({ ...listed[0] }, item), expected)
}

async function expectNotStored(client: Client, id: unknown): Promise<void> {
  expectThat(!(await listItems(client)).some((item) => item.id === id), `no item ${id} in the list`)
}

/** The checks that others build on, the most basic first. */
const basicChecks: readonly Check[] = [
  listCheck('B1'),
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
  providing(
    'create',
    spec('B3', 'POST creates an item and returns it', async (client) => {
      for (const done of [false, true]) {
        const item = newItem({ done })
        const response = await client.send('POST', itemsPath, item)
        expectServed(response)
        expectSuccess(response)
        expectMembers(response, item)
        await expectStored(client, item)
      }
    }),
  ),
  spec('B3', 'POST returns 200', async (client) => {
    const response = await client.send('POST', itemsPath, newItem())
    setUp('create', () => expectSuccess(response))
    expectStatus(response, 200)
  }),
  providing(
    'delete',
    spec('B8', 'DELETE removes the item and no other', async (client) => {
      const other = await create(client)
      for (const done of [false, true]) {
        const item = await create(client, { done })
        await expectStored(client, item)
        await remove(client, item.id)
        await expectNotStored(client, item.id)
      }
      await expectStored(client, other)
    }),
  ),
  spec('B8', 'DELETE returns 204 without a body', async (client) => {
    const { id } = await create(client)
    const response = await client.send('DELETE', itemPath(id))
    setUp('delete', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  providing(
    'update',
    spec('B7', 'PUT replaces the item', async (client) => {
      const [item, other] = [await create(client), await create(client)]
      await expectStored(client, item)
      for (const done of [true, false]) {
        const sent = { ...item, name: uniqueText(), notes: uniqueText(), done }
        await replace(client, sent)
        await expectStored(client, sent)
      }
      await expectStored(client, other)
    }),
  ),
  spec('B7', 'PUT returns 204 without a body', async (client) => {
    const item = await create(client)
    const response = await client.send('PUT', itemsPath, { ...item, done: true })
    setUp('update', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  providing(
    'error codes',
    spec('B9', 'error bodies are the code as plain text', async (client) => {
      for (const response of [
        await client.send('POST', itemsPath, {}),
        await client.send('PUT', itemsPath, {}),
        await client.send('PUT', itemsPath, newItem()),
        await client.send('DELETE', itemPath(uniqueText())),
      ])
        expectOnlyCode(response)
    }),
  ),
]

const isRedirectToHttps = ({ headers }: Response) => /^https:/i.test(headers.location ?? '')

const operationChecks: readonly Check[] = [
  overPlainHttp(
    spec('B12', 'plain HTTP is served or redirected to HTTPS', async (client) => {
      const response = await client.send('GET', itemsPath)
      if (isRedirectToHttps(response)) return
      expectThat(![403, 426].includes(response.status), 'status 200 or a redirect to HTTPS', response)
      observe('list', () => expectStatus(response, 200))
    }),
  ),
  choice('B12', 'a redirect to HTTPS is 307 with the same path and query', async (client) => {
    const response = await client.send('GET', `${itemsPath}?a=b`)
    if (!isRedirectToHttps(response)) return
    expectStatus(response, 307)
    expectThat(response.headers.location?.endsWith(`${itemsPath}?a=b`) === true, 'the same path and query', response)
  }),
  choice('G2', 'PUT and DELETE accept one trailing slash', async (client) => {
    const item = await create(client)
    const put = await client.send('PUT', `${itemsPath}/`, item)
    observe('update', () => expectSuccess(put))
    const deleted = await client.send('DELETE', `${itemPath(item.id)}/`)
    observe('delete', () => expectSuccess(deleted))
  }),
  spec('B1', 'GET lists every item with exactly its members', async (client) => {
    for (const done of [false, true]) {
      const item = await create(client, { done })
      await expectStored(client, item)
      const listed = (await listItems(client)).find(({ id }) => id === item.id)
      expectThat(isDeepStrictEqual(listed, item), `exactly ${JSON.stringify(item)} in the list`)
    }
  }),
  choice('B1', 'the list is in order of creation', async (client) => {
    const created = [
      await create(client, { id: `z-${uniqueText()}` }),
      await create(client, { id: `a-${uniqueText()}` }),
      await create(client),
    ]
    const ids = created.map(({ id }) => id)
    const order = (await listItems(client)).map(({ id }) => id).filter((id) => ids.includes(id))
    expectThat(isDeepStrictEqual(order, ids), `the order ${ids}, not ${order}`)
  }),
  choice('B3', 'an absent done means false', async (client) => {
    const { done: _, ...rest } = newItem()
    const response = await client.send('POST', itemsPath, rest)
    observe('create', () => expectSuccess(response))
    await expectStored(client, { ...rest, done: false })
  }),
  choice('B7', 'PUT without done sets it to false', async (client) => {
    const { done: _, ...rest } = await create(client, { done: true })
    const response = await client.send('PUT', itemsPath, rest)
    observe('update', () => expectSuccess(response))
    await expectStored(client, { ...rest, done: false })
  }),
  choice('B7', 'a replaced item keeps its position in the list', async (client) => {
    const created = [await create(client), await create(client), await create(client)]
    const before = created.map(({ id }) => id)
    await replace(client, { ...created[1], name: 'changed' })
    const after = (await listItems(client)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  spec('B7', 'PUT returns 404 RecordNotFound when no item has the id, and creates none', async (client) => {
    const item = newItem()
    expectNotFound(await client.send('PUT', itemsPath, item))
    await expectNotStored(client, item.id)
  }),
  spec('B8', 'DELETE returns 404 RecordNotFound when no item has the id', async (client) => {
    const { id } = await create(client)
    await remove(client, id)
    expectNotFound(await client.send('DELETE', itemPath(id)))
    expectNotFound(await client.send('DELETE', itemPath(uniqueText())))
  }),
  spec('B8', 'exactly one of ten concurrent DELETEs succeeds', async (client) => {
    const { id } = await create(client)
    await expectSingleSuccess('delete', () => client.send('DELETE', itemPath(id)), 404)
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
    const item = await create(client, { id: `Case-${uniqueText()}` })
    // A server may store ids without their case (choice, B5).
    if (!(await listItems(client)).some(({ id }) => id === item.id)) return
    await client.send('DELETE', itemPath(item.id.toUpperCase()))
    await expectStored(client, item)
    const response = await client.send('DELETE', `/API/TODOITEMS/${item.id}`)
    observe('delete', () => expectSuccess(response))
    await expectNotStored(client, item.id)
  }),
  choice('B5', 'ids are compared exactly', async (client) => {
    const id = uniqueText()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await expectCreated(client, { id: other })
    const stored = await create(client, { id: `Case-${uniqueText()}` })
    expectNotFound(await client.send('PUT', itemsPath, { ...stored, id: stored.id.toUpperCase() }))
    await expectStored(client, stored)
  }),
  choice('B5', 'an id can be reused after its item is deleted', async (client) => {
    const item = await create(client)
    await remove(client, item.id)
    await expectCreated(client, item)
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
  const item = await expectCreated(client, { id })
  const put = await client.send('PUT', itemsPath, { ...item, done: true })
  observe('update', () => expectSuccess(put))
  await expectStored(client, { ...item, done: true })
  const deleted = await client.send('DELETE', itemPath(id))
  observe('delete', () => expectSuccess(deleted))
  await expectNotStored(client, id)
}

/** B6: limits are no part of the specification, but how a request fails is. */
function expectSuccessOr(response: Response, ...codes: string[]): void {
  if (response.status >= 200 && response.status <= 299) return
  const expected = codes.map((code) => ({ status: code === 'RecordNotFound' ? 404 : 400, code }))
  const matching = expected.filter(({ status }) => status === response.status)
  const message = `success or ${expected.map(({ status, code }) => `${status} ${code}`).join(' or ')}`
  observeOperation(response, () => expectThat(matching.length > 0, message, response))
  const hasCode = matching.some(({ code }) => response.text.includes(code))
  observe('error codes', () => expectThat(hasCode, message, response))
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
  spec('B5', 'exactly one of ten concurrent POSTs with the same id succeeds', async (client) => {
    const item = newItem()
    await expectSingleSuccess('create', () => client.send('POST', itemsPath, item), 409)
    await expectStored(client, item)
  }),
  choice('B5', 'a missing member is reported before an id in use', async (client) => {
    const item = await create(client)
    expectMissingMember(await client.send('POST', itemsPath, { ...item, notes: '' }))
  }),
  spec('B6', 'what fails for another reason returns a CouldNot… code', async (client) => {
    const item = await create(client)
    const longId = () => `${uniqueText()}-${'x'.repeat(1024)}`
    const notes = 'x'.repeat(2 ** 20)
    const post = async (body: unknown) =>
      expectSuccessOr(await client.send('POST', itemsPath, body), 'CouldNotCreateItem')
    const put = async (body: unknown, ...codes: string[]) =>
      expectSuccessOr(await client.send('PUT', itemsPath, body), 'CouldNotUpdateItem', ...codes)
    await post(newItem({ notes }))
    await post(newItem({ id: longId() }))
    await put({ ...item, notes })
    await put(newItem({ id: longId() }), 'RecordNotFound')
  }),
  spec('B6', 'DELETE of a long id returns 404 or a CouldNot… code', async (client) => {
    const response = await client.send('DELETE', itemPath(`${uniqueText()}-${'x'.repeat(1024)}`))
    expectSuccessOr(response, 'CouldNotDeleteItem', 'RecordNotFound')
  }),
  spec('B6', 'a text that cannot be stored returns a CouldNot… code', async (client) => {
    const item = await create(client)
    for (const [method, body, code] of [
      ['POST', newItem({ name: 'x\ud800' }), 'CouldNotCreateItem'],
      ['PUT', { ...item, name: 'x\ud800' }, 'CouldNotUpdateItem'],
    ] as const) {
      const response = await client.send(method, itemsPath, body)
      // A parser may reject it: then it is malformed JSON, and so a missing body (choice, B4).
      expectSuccessOr(response, code, 'TodoItemNameAndNotesRequired')
    }
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
  spec('B9', 'the bodies of rarer errors are the code as plain text', async (client) => {
    const item = await create(client)
    const inUse = await client.send('POST', itemsPath, item)
    const tooLong = await client.send('POST', itemsPath, newItem({ id: `${uniqueText()}-${'x'.repeat(1024)}` }))
    // Whether they have a code is the business of B5 and B6.
    for (const response of [inUse, tooLong])
      if (errorCodes.some((code) => response.text.includes(code))) expectOnlyCode(response)
  }),
  choice('G8', 'an error response contains only its code', async (client) => {
    expectNotFound(await client.send('DELETE', itemPath(uniqueText())))
    expectMissingMember(await client.send('POST', itemsPath, '{"broken'))
    expectEmpty(await client.send('GET', '/nowhere'), 404)
  }),
]

const methods = { collection: ['GET', 'HEAD', 'POST', 'PUT'], item: ['DELETE'] }

export const profileBChecks: readonly Check[] = [
  ...basicChecks,
  ...endpointChecks,
  ...commonChecks({
    newItem: (name) => ({ ...newItem({ name }) }),
    requiredMember: 'notes',
    methods,
    expectUnsupportedMediaType: expectMissingMember,
    expectInvalidBody: expectMissingMember,
    expectBodyTooLarge: expectCouldNotCreate,
    expectUnstorableText: expectCouldNotCreate,
  }),
  ...operationChecks,
  ...errorChecks,
  ...idChecks,
  ...sampleChecks(methods),
]
