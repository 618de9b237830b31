import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, itemsPath, onOwnServer, onUntouchedStore, providing, spec, uniqueText } from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectClientError,
  expectEmpty,
  expectItems,
  expectJson,
  expectMembers,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  observe,
  parseJson,
  setUp,
} from '../expect.ts'
import { commonChecks, expectSingleSuccess, listCheck, listNames } from './common.ts'
import { endpointChecks, sampleChecks } from './samples.ts'

interface Item {
  readonly id: bigint
  readonly name: string | null
  readonly isComplete: boolean
}

const maxInt64 = 2n ** 63n - 1n
/** Ids that items of a real store do not have. */
const unusedIds = [-1n, -maxInt64 - 1n, maxInt64, 2n ** 53n + 1n]

const itemPath = (id: bigint | string) => `${itemsPath}/${id}`
const newItem = (members: Partial<Omit<Item, 'id'>> = {}) => ({ name: uniqueText(), isComplete: false, ...members })
/** JSON.stringify cannot write a bigint. */
const itemJson = ({ id, name, isComplete }: Item) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`

function expectCreatedItem(response: Response) {
  expectSuccess(response)
  const { id, ...rest } = expectObject(response)
  expectThat(typeof id === 'bigint', 'an integer id', response)
  return { id, ...rest } as { id: bigint; name?: unknown }
}

async function create(client: Client, members: Partial<Omit<Item, 'id'>> = {}): Promise<Item> {
  const sent = newItem(members)
  const response = await client.send('POST', itemsPath, sent)
  const { id } = setUp('create', () => expectCreatedItem(response))
  return { id, name: sent.name, isComplete: sent.isComplete }
}

/** For a body that is part of what a check states. */
async function post(client: Client, body: unknown) {
  const response = await client.send('POST', itemsPath, body)
  const item = observe('create', () => expectCreatedItem(response))
  return { response, item }
}

async function replace(client: Client, item: Item): Promise<void> {
  const response = await client.send('PUT', itemPath(item.id), itemJson(item))
  setUp('update', () => expectSuccess(response))
}

async function remove(client: Client, id: bigint): Promise<void> {
  const response = await client.send('DELETE', itemPath(id))
  setUp('delete', () => expectSuccess(response))
}

async function expectStored(client: Client, item: Item, path = itemPath(item.id)): Promise<void> {
  const response = await client.send('GET', path)
  observe('read', () => {
    expectStatus(response, 200)
    expectMembers(response, item)
  })
}

/** The status, 404, is that of another check (A2). */
async function expectNotReturned(client: Client, id: bigint, name: string | null): Promise<void> {
  const response = await client.send('GET', itemPath(id))
  expectThat(!response.text.includes(JSON.stringify(name)), `no item with the id ${id}`, response)
}

/** Expects an error status, 400 by default, and an unchanged item. */
async function expectRejectedPut(
  client: Client,
  item: Item,
  body: unknown,
  expectError = (response: Response) => expectStatus(response, 400),
): Promise<void> {
  const response = await client.send('PUT', itemPath(item.id), body)
  observe('update', () => expectError(response))
  await expectStored(client, item)
}

function expectProblem(response: Response, status: number, further: readonly string[] = []): Record<string, unknown> {
  expectStatus(response, status)
  expectThat(
    /^application\/problem\+json(?:;|$)/i.test(response.headers['content-type'] ?? ''),
    'application/problem+json',
    response,
  )
  const problem = parseJson(response) as Record<string, unknown>
  const { type, title, traceId } = problem
  expectThat(
    [type, title, traceId].every((member) => typeof member === 'string' && member),
    'type, title, traceId',
    response,
  )
  expectThat(problem.status === status, `the member status ${status}`, response)
  const members = ['status', 'title', 'traceId', 'type', ...further].sort()
  expectThat(isDeepStrictEqual(Object.keys(problem).sort(), members), `the members ${members} and no other`, response)
  return problem
}

/** The checks that others build on, the most basic first. */
const basicChecks: readonly Check[] = [
  listCheck('A1'),
  onUntouchedStore(
    spec('G7', 'the store starts empty', async (client) => {
      expectJson(await client.send('GET', itemsPath), 200, [])
    }),
  ),
  providing(
    'create',
    spec('A3', 'POST creates an item and returns it with its id', async (client) => {
      for (const sent of [newItem(), newItem({ isComplete: true })]) {
        const response = await client.send('POST', itemsPath, sent)
        expectServed(response)
        expectCreatedItem(response)
        expectMembers(response, sent)
      }
    }),
  ),
  spec('A3', 'POST returns 201', async (client) => {
    const response = await client.send('POST', itemsPath, newItem())
    setUp('create', () => expectSuccess(response))
    expectStatus(response, 201)
  }),
  providing(
    'read',
    spec('A2', 'GET returns the item with the id', async (client) => {
      for (const isComplete of [true, false]) await expectStored(client, await create(client, { isComplete }))
    }),
  ),
  providing(
    'delete',
    spec('A9', 'DELETE removes the item', async (client) => {
      for (const isComplete of [false, true]) {
        const item = await create(client, { isComplete })
        await expectStored(client, item)
        await remove(client, item.id)
        await expectNotReturned(client, item.id, item.name)
        expectThat(!(await listNames(client)).includes(item.name), 'a list without the deleted item')
      }
    }),
  ),
  spec('A9', 'DELETE returns 204 without a body', async (client) => {
    const { id } = await create(client)
    const response = await client.send('DELETE', itemPath(id))
    setUp('delete', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  providing(
    'update',
    spec('A7', 'PUT changes name and isComplete', async (client) => {
      const item = await create(client)
      await expectStored(client, item)
      for (const changed of [
        { ...item, name: uniqueText(), isComplete: true },
        { ...item, name: null, isComplete: false },
        { ...item, name: `${uniqueText()} é 漢字 😀 ${'x'.repeat(1000)}`, isComplete: false },
      ]) {
        await replace(client, changed)
        await expectStored(client, changed)
      }
    }),
  ),
  spec('A7', 'PUT returns 204 without a body', async (client) => {
    const item = await create(client)
    const response = await client.send('PUT', itemPath(item.id), itemJson({ ...item, isComplete: true }))
    setUp('update', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
]

const operationChecks: readonly Check[] = [
  spec('G1', 'the path of an item matches case-insensitively', async (client) => {
    const item = await create(client)
    await expectStored(client, item, `/API/TodoItems/${item.id}`)
  }),
  choice('G2', 'the path of an item accepts a trailing slash and percent-encoded digits', async (client) => {
    const item = await create(client)
    const path = `${itemPath(item.id)}/`
    for (const variant of [path, itemPath(`${item.id}`.replace(/\d/g, '%3$&'))])
      await expectStored(client, item, variant)
    const [put, deleted] = [await client.send('PUT', path, itemJson(item)), await client.send('DELETE', path)]
    observe('update', () => expectSuccess(put))
    observe('delete', () => expectSuccess(deleted))
  }),
  spec('A1', 'GET lists every item with exactly its members', async (client) => {
    const created = [await create(client), await create(client, { name: null, isComplete: true })]
    const response = await client.send('GET', itemsPath)
    const listed = observe('list', () => expectItems(response))
    for (const item of created)
      expectThat(
        listed.some((other) => isDeepStrictEqual(other, item)),
        `exactly ${itemJson(item)} in the list`,
        response,
      )
  }),
  choice('A1', 'the list is ordered by id', async (client) => {
    const [first] = [await create(client), await create(client), await create(client)]
    await replace(client, first)
    const response = await client.send('GET', itemsPath)
    const ids = observe('list', () => expectItems(response)).map(({ id }) => id as bigint)
    expectThat(
      ids.every((id, index) => index === 0 || id > (ids[index - 1] as bigint)),
      'ascending ids',
      response,
    )
  }),
  spec('A2', 'GET returns exactly the members of an item', async (client) => {
    const item = await create(client)
    const response = await client.send('GET', itemPath(item.id))
    const members = Object.keys(observe('read', () => expectObject(response))).sort()
    expectThat(members.join() === 'id,isComplete,name', 'exactly the members id, name and isComplete', response)
  }),
  spec('A2', 'GET returns 404 when no item has the id', async (client) => {
    for (const id of unusedIds) expectStatus(await client.send('GET', itemPath(id)), 404)
  }),
  choice('A2', 'HEAD on an item returns the status of GET without the body', async (client) => {
    const { id } = await create(client)
    for (const path of [itemPath(id), itemPath(0n)]) {
      const { status } = await client.send('GET', path)
      expectEmpty(await client.send('HEAD', path), status)
    }
  }),
  spec('A3', 'Location is the absolute URI of the created item', async (client) => {
    const sent = newItem({ isComplete: true })
    const { response, item } = await post(client, sent)
    const { location = '' } = response.headers
    expectThat(/^https?:\/\/[^/]/i.test(location), 'an absolute Location', response)
    const { pathname } = new URL(location)
    const path = itemPath(`${item.id}`)
    expectThat(pathname.toLowerCase().endsWith(path), `a Location ending in ${path}`, response)
    // The host may be that of a proxy; the path is read from the server under test.
    const basePath = new URL(client.url).pathname.replace(/\/$/, '')
    const read = await client.send('GET', pathname.startsWith(basePath) ? pathname.slice(basePath.length) : path)
    observe('read', () => {
      expectStatus(read, 200)
      expectMembers(read, { id: item.id, ...sent })
    })
  }),
  spec('A7', 'PUT changes no other item', async (client) => {
    const [item, other] = [await create(client), await create(client)]
    await replace(client, { ...item, name: 'changed' })
    await expectStored(client, other)
  }),
  choice('A7', 'PUT without name sets it to null', async (client) => {
    const item = await create(client)
    const response = await client.send('PUT', itemPath(item.id), `{"id":${item.id},"isComplete":true}`)
    observe('update', () => expectSuccess(response))
    await expectStored(client, { id: item.id, name: null, isComplete: true })
  }),
  spec('A9', 'DELETE removes no other item', async (client) => {
    const [before, item, after] = [await create(client), await create(client), await create(client)]
    await remove(client, item.id)
    for (const other of [before, after]) await expectStored(client, other)
  }),
  spec('A9', 'DELETE returns 404 when no item has the id', async (client) => {
    const { id } = await create(client)
    await remove(client, id)
    for (const missing of [id, ...unusedIds]) expectStatus(await client.send('DELETE', itemPath(missing)), 404)
  }),
  spec('A9', 'exactly one of ten concurrent DELETEs succeeds', async (client) => {
    const { id } = await create(client)
    await expectSingleSuccess('delete', () => client.send('DELETE', itemPath(id)), 404)
  }),
  spec('A10', 'secret is neither accepted nor returned', async (client) => {
    const secret = uniqueText()
    const { response: created, item } = await post(client, { ...newItem(), secret })
    const path = itemPath(`${item.id}`)
    const put = `{"id":${item.id},"name":${JSON.stringify(item.name)},"isComplete":true,"secret":"${secret}"}`
    for (const response of [
      created,
      await client.send('PUT', path, put),
      await client.send('GET', path),
      await client.send('GET', itemsPath),
    ]) {
      expectThat(!`${response.text} ${JSON.stringify(response.headers)}`.includes(secret), 'no secret', response)
      expectThat(!/"secret"\s*:/i.test(response.text), 'no member secret', response)
    }
  }),
]

const idChecks: readonly Check[] = [
  spec('A4', 'an id in a POST body is ignored', async (client) => {
    const existing = await create(client)
    const { response, item } = await post(client, { id: Number(existing.id), ...newItem() })
    expectThat(item.id !== existing.id, 'another id for the new item', response)
    await expectStored(client, existing)
  }),
  choice('A4', 'an id of any value or type in a POST body is ignored', async (client) => {
    for (const id of [
      '"text"',
      'null',
      '{}',
      '[1]',
      'true',
      '1.5',
      '1e999',
      '-1',
      '9007199254740993',
      '99999999999999999999',
    ]) {
      const name = uniqueText()
      const { response, item } = await post(client, `{"id":${id},"name":"${name}","isComplete":false}`)
      expectThat(item.name === name && `${item.id}` !== id, 'an id assigned by the server', response)
    }
  }),
  choice('A4', 'ids ascend and are never reused', async (client) => {
    const first = await create(client)
    await remove(client, first.id)
    const second = await create(client)
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  onOwnServer(
    choice('A4', 'the first id is 1', async (client) => {
      const { id } = await create(client)
      expectThat(id === 1n, `the id 1, not ${id}`)
    }),
  ),
  spec('A4', 'concurrent POSTs get different ids', async (client) => {
    const created = await Promise.all(Array.from({ length: 20 }, () => create(client)))
    expectThat(new Set(created.map(({ id }) => id)).size === created.length, 'a different id for each item')
    for (const item of created) await expectStored(client, item)
  }),
  spec('A8', 'PUT returns 400 when the body id differs from the path id', async (client) => {
    const [item, other] = [await create(client), await create(client)]
    await expectRejectedPut(client, item, itemJson({ ...other, name: 'changed' }))
    await expectStored(client, other)
    await expectRejectedPut(client, item, itemJson({ ...item, id: -item.id }))
  }),
  spec('A8', 'PUT returns 404 when no item has the id, and creates none', async (client) => {
    for (const id of unusedIds) {
      const name = uniqueText()
      const response = await client.send('PUT', itemPath(id), itemJson({ id, name, isComplete: true }))
      observe('update', () => expectStatus(response, 404))
      await expectNotReturned(client, id, name)
    }
  }),
  choice('A8', 'PUT returns 400 when the body id is absent, null or not an integer', async (client) => {
    const item = await create(client)
    await expectRejectedPut(client, item, { name: 'changed', isComplete: true })
    for (const id of [
      'null',
      `"${item.id}"`,
      `[${item.id}]`,
      '{}',
      'true',
      `${item.id}.5`,
      `${item.id}.00000000000000000001`,
    ])
      await expectRejectedPut(client, item, `{"id":${id},"name":"changed","isComplete":true}`)
  }),
  choice('A8', 'PUT checks id syntax, body, equal ids and existence in this order', async (client) => {
    expectStatus(await client.send('PUT', itemPath('abc'), 'x', { 'content-type': 'text/plain' }), 400)
    expectStatus(await client.send('PUT', itemPath(0n), '{"id":0}'), 400)
    expectStatus(await client.send('PUT', itemPath(0n), '{"id":-1,"isComplete":true}'), 400)
    expectStatus(await client.send('PUT', itemPath(0n), '{"id":0,"isComplete":true}'), 404)
  }),
  choice('G4', 'the last of duplicate ids in a PUT body is compared', async (client) => {
    const item = await create(client)
    const duplicateIds = (first: bigint, last: bigint) =>
      `{"id":${first},"name":"changed","isComplete":true,"nested":{"id":${item.id}},"text":"\\"id\\":0,\\\\","\\u0069d":${last}}`
    await expectRejectedPut(client, item, duplicateIds(item.id, 0n))
    const response = await client.send('PUT', itemPath(item.id), duplicateIds(0n, item.id))
    observe('update', () => expectSuccess(response))
  }),
  spec('A11', 'ids above 2^53 are compared exactly', async (client) => {
    const put = (path: string, id: string) => client.send('PUT', itemPath(path), `{"id":${id},"isComplete":true}`)
    const expectPut = async (path: string, id: string, status: number) => {
      const response = await put(path, id)
      observe('update', () => expectStatus(response, status))
    }
    await expectPut('9007199254740993', '9007199254740993', 404)
    await expectPut('-9223372036854775808', '-9223372036854775808', 404)
    // No item has these ids: a server that looks for the item first returns 404 whatever the ids (choice, A8).
    if ((await put('-1', '-2')).status === 404) return
    await expectPut('9007199254740993', '9007199254740992', 400)
    await expectPut('9007199254740992', '9007199254740993', 400)
    await expectPut('9223372036854775807', '9223372036854775806', 400)
    await expectPut('-9223372036854775808', '-9223372036854775807', 400)
  }),
  spec('A11', 'ids that differ by 2^32, 2^53 or 2^64 are different', async (client) => {
    const item = await create(client)
    for (const distance of [2n ** 32n, 2n ** 53n, 2n ** 63n - 1n - item.id])
      await expectNotReturned(client, item.id + distance, item.name)
    await expectRejectedPut(client, item, itemJson({ ...item, id: item.id + 2n ** 64n, name: 'changed' }))
  }),
  ...[
    'abc',
    '1.5',
    '01',
    '+1',
    '-0',
    '1e3',
    '0x1',
    '%20',
    '1%20',
    '%EF%BC%91',
    '9223372036854775808',
    '-9223372036854775809',
    '%',
    '%zz',
    '%ff',
  ].map((id) =>
    choice('A12', `the malformed path id ${id} returns 400`, async (client) => {
      expectStatus(await client.send('GET', itemPath(id)), 400)
      expectStatus(await client.send('PUT', itemPath(id), '{"id":1,"isComplete":true}'), 400)
      expectStatus(await client.send('DELETE', itemPath(id)), 400)
    }),
  ),
]

/** A6: absent, null or not a boolean. */
const notBooleans = [undefined, null, 'true', 'false', '', 0, 1, {}, []]

const bodyChecks: readonly Check[] = [
  spec('A5', 'name is a string or null', async (client) => {
    for (const name of [uniqueText(), null]) {
      await expectStored(client, await create(client, { name }))
    }
  }),
  choice('A5', 'an empty or blank name is accepted', async (client) => {
    for (const name of ['', ' ']) {
      const { item } = await post(client, newItem({ name }))
      await expectStored(client, { id: item.id, name, isComplete: false })
    }
  }),
  choice('A5', 'an absent name is null', async (client) => {
    const { response } = await post(client, { isComplete: false })
    expectMembers(response, { name: null })
  }),
  choice('A5', 'a name of another type returns 400', async (client) => {
    const item = await create(client)
    for (const name of [1, true, {}, [], ['x']]) {
      expectStatus(await client.send('POST', itemsPath, { name, isComplete: false }), 400)
      await expectRejectedPut(client, item, { id: Number(item.id), name, isComplete: true })
    }
  }),
  spec('A6', 'POST without a boolean isComplete is refused, and stores nothing', async (client) => {
    for (const isComplete of notBooleans) {
      const name = uniqueText()
      expectClientError(await client.send('POST', itemsPath, { name, isComplete }))
      expectThat(!(await listNames(client)).includes(name), 'nothing stored by a refused POST')
    }
  }),
  spec('A6', 'PUT without a boolean isComplete is refused, and changes nothing', async (client) => {
    const item = await create(client)
    for (const isComplete of notBooleans)
      await expectRejectedPut(client, item, { id: Number(item.id), name: 'changed', isComplete }, expectClientError)
  }),
  choice('A6', 'the status without a boolean isComplete is 400', async (client) => {
    const { id } = await create(client)
    for (const isComplete of notBooleans) {
      expectStatus(await client.send('POST', itemsPath, { name: uniqueText(), isComplete }), 400)
      expectStatus(await client.send('PUT', itemPath(id), { id: Number(id), name: 'changed', isComplete }), 400)
    }
  }),
  choice('G8', 'an error response contains no more than its rule states', async (client) => {
    expectProblem(await client.send('GET', itemPath(-1n)), 404)
    expectProblem(await client.send('POST', itemsPath, '{"broken'), 400)
  }),
  choice('A13', 'every error is a problem document', async (client) => {
    const { id } = await create(client)
    expectProblem(await client.send('GET', itemPath(-1n)), 404)
    expectProblem(await client.send('GET', '/nowhere'), 404)
    expectProblem(await client.send('GET', itemPath('abc')), 400)
    for (const body of ['{', '[]', 'null', '']) expectProblem(await client.send('POST', itemsPath, body), 400)
    expectProblem(await client.send('POST', itemsPath, 'x', { 'content-type': 'text/plain' }), 415)
    expectProblem(await client.send('PUT', itemPath(id), `{"id":${id + 1n},"isComplete":true}`), 400)
  }),
  choice('A13', 'a validation problem lists messages by member', async (client) => {
    const problem = expectProblem(await client.send('POST', itemsPath, { name: 1 }), 400, ['errors'])
    const errors = problem.errors as Record<string, unknown>
    expectThat(isDeepStrictEqual(Object.keys(errors).sort(), ['isComplete', 'name']), 'errors for name and isComplete')
    const messages = Object.values(errors).flat()
    expectThat(
      messages.length >= 2 && messages.every((message) => typeof message === 'string' && message),
      'a message for each member',
    )
  }),
  choice('A13', 'each problem has its own traceId', async (client) => {
    const first = expectProblem(await client.send('GET', itemPath(-1n)), 404)
    const second = expectProblem(await client.send('GET', itemPath(-1n)), 404)
    expectThat(first.traceId !== second.traceId, 'two different traceIds')
  }),
  choice('A14', 'a request without body and media type returns 415', async (client) => {
    expectStatus(await client.send('POST', itemsPath), 415)
    const { id } = await create(client)
    expectStatus(await client.send('PUT', itemPath(id)), 415)
  }),
  choice('A14', 'a body without a media type returns 415', async (client) => {
    expectStatus(await client.send('POST', itemsPath, newItem(), { 'content-type': undefined }), 415)
  }),
  choice('A14', 'a media type without a body returns 400', async (client) => {
    expectStatus(await client.send('POST', itemsPath, undefined, { 'content-type': 'application/json' }), 400)
  }),
  spec('A15', 'invalid input never causes a 5xx', async (client) => {
    for (const body of ['{', '[]', '{"isComplete":{}}', '['.repeat(100_000), `{"a":${'[{"a":'.repeat(10_000)}`, '\0']) {
      const response = await client.send('POST', itemsPath, body)
      expectThat(response.status < 500, 'no 5xx status', response)
    }
  }),
]

const methods = { collection: ['GET', 'HEAD', 'POST'], item: ['GET', 'HEAD', 'PUT', 'DELETE'] }

export const profileAChecks: readonly Check[] = [
  ...basicChecks,
  ...endpointChecks,
  ...commonChecks({
    newItem: (name) => newItem({ name }),
    requiredMember: 'isComplete',
    methods,
    expectUnsupportedMediaType: (response) => expectStatus(response, 415),
    expectInvalidBody: (response) => expectStatus(response, 400),
    expectBodyTooLarge: (response) => expectStatus(response, 413),
    expectUnstorableText: (response) => expectStatus(response, 400),
  }),
  ...operationChecks,
  ...idChecks,
  ...bodyChecks,
  ...sampleChecks(methods),
]
