import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, itemsPath, onOwnServer, onUntouchedStore, spec, uniqueText } from '../check.ts'
import type { Client, Response } from '../client.ts'
import { expectArray, expectEmpty, expectJson, expectStatus, expectThat, parseJson } from '../expect.ts'
import { commonChecks, expectSingleSuccess, listNames } from './common.ts'
import { sampleChecks } from './samples.ts'

interface Item {
  readonly id: bigint
  readonly name: string | null
  readonly isComplete: boolean
}

const maxInt64 = 2n ** 63n - 1n
/** Ids that items of a real store do not have. */
const unusedIds = [-1n, -maxInt64 - 1n, maxInt64, 2n ** 53n + 1n]

const itemPath = (id: bigint | string) => `${itemsPath}/${id}`
const newItem = (members: object = {}) => ({ name: uniqueText(), isComplete: false, ...members })
/** JSON.stringify cannot write a bigint. */
const itemJson = ({ id, name, isComplete }: Item) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`

async function create(client: Client, members: object = {}): Promise<Item> {
  const response = await client.send('POST', itemsPath, newItem(members))
  expectStatus(response, 201)
  return parseJson(response) as Item
}

async function expectStored(client: Client, item: Item): Promise<void> {
  expectJson(await client.send('GET', itemPath(item.id)), 200, item)
}

/** Expects 400 and an unchanged item. */
async function expectRejectedPut(client: Client, item: Item, body: unknown): Promise<void> {
  expectStatus(await client.send('PUT', itemPath(item.id), body), 400)
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

const operationChecks: readonly Check[] = [
  onUntouchedStore(
    spec('G7', 'the store starts empty', async (client) => {
      expectJson(await client.send('GET', itemsPath), 200, [])
    }),
  ),
  spec('G1', 'the path of an item matches case-insensitively', async (client) => {
    const item = await create(client)
    expectJson(await client.send('GET', `/API/TodoItems/${item.id}`), 200, item)
  }),
  choice('G2', 'the path of an item accepts a trailing slash and percent-encoded digits', async (client) => {
    const item = await create(client)
    expectJson(await client.send('GET', `${itemPath(item.id)}/`), 200, item)
    expectJson(await client.send('GET', itemPath(`${item.id}`.replace(/\d/g, '%3$&'))), 200, item)
    expectEmpty(await client.send('PUT', `${itemPath(item.id)}/`, itemJson(item)), 204)
    expectEmpty(await client.send('DELETE', `${itemPath(item.id)}/`), 204)
  }),
  spec('A1', 'GET lists every item with exactly its members', async (client) => {
    const created = [await create(client), await create(client, { name: null, isComplete: true })]
    const response = await client.send('GET', itemsPath)
    const listed = expectArray(response) as Item[]
    for (const item of created)
      expectThat(
        listed.some((other) => isDeepStrictEqual(other, item)),
        `item ${item.id} in the list`,
        response,
      )
  }),
  choice('A1', 'the list is ordered by id', async (client) => {
    const [first] = [await create(client), await create(client), await create(client)]
    expectEmpty(await client.send('PUT', itemPath(first.id), itemJson(first)), 204)
    const response = await client.send('GET', itemsPath)
    const ids = (expectArray(response) as Item[]).map(({ id }) => id)
    expectThat(
      ids.every((id, index) => index === 0 || id > (ids[index - 1] as bigint)),
      'ascending ids',
      response,
    )
  }),
  spec('A2', 'GET returns the item with the id', async (client) => {
    await expectStored(client, await create(client, { isComplete: true }))
  }),
  spec('A2', 'GET returns 404 when no item has the id', async (client) => {
    for (const id of unusedIds) expectStatus(await client.send('GET', itemPath(id)), 404)
  }),
  choice('A2', 'HEAD on an item returns the status of GET without the body', async (client) => {
    const { id } = await create(client)
    expectEmpty(await client.send('HEAD', itemPath(id)), 200)
    expectEmpty(await client.send('HEAD', itemPath(0n)), 404)
  }),
  spec('A3', 'POST returns 201 with the item and its Location', async (client) => {
    const sent = newItem({ isComplete: true })
    const response = await client.send('POST', itemsPath, sent)
    expectStatus(response, 201)
    const { id } = parseJson(response) as Item
    expectThat(typeof id === 'bigint', 'an integer id', response)
    expectJson(response, 201, { id, ...sent })
    const { location = '' } = response.headers
    expectThat(location.toLowerCase().endsWith(itemPath(id)), `a Location ending in ${itemPath(id)}`, response)
    const { pathname } = new URL(location, client.url)
    const prefix = new URL(client.url).pathname.replace(/\/$/, '')
    expectJson(await client.send('GET', pathname.slice(prefix.length)), 200, { id, ...sent })
  }),
  choice('A3', 'Location is absolute', async (client) => {
    const response = await client.send('POST', '/API/TodoItems/', newItem())
    expectThat(
      /^https?:\/\/[^/]+.*\/api\/todoitems\/\d+$/i.test(response.headers.location ?? ''),
      'an absolute Location',
      response,
    )
  }),
  spec('A7', 'PUT returns 204 and changes name and isComplete', async (client) => {
    const item = await create(client)
    for (const changed of [
      { ...item, name: uniqueText(), isComplete: true },
      { ...item, name: null, isComplete: false },
      { ...item, name: `${uniqueText()} é 漢字 😀 ${'x'.repeat(1000)}`, isComplete: false },
    ]) {
      expectEmpty(await client.send('PUT', itemPath(item.id), itemJson(changed)), 204)
      await expectStored(client, changed)
    }
  }),
  spec('A7', 'PUT changes no other item', async (client) => {
    const [item, other] = [await create(client), await create(client)]
    expectEmpty(await client.send('PUT', itemPath(item.id), itemJson({ ...item, name: 'changed' })), 204)
    await expectStored(client, other)
  }),
  choice('A7', 'PUT without name sets it to null', async (client) => {
    const item = await create(client)
    expectEmpty(await client.send('PUT', itemPath(item.id), `{"id":${item.id},"isComplete":true}`), 204)
    await expectStored(client, { id: item.id, name: null, isComplete: true })
  }),
  spec('A9', 'DELETE returns 204 and removes the item', async (client) => {
    const { id, name } = await create(client)
    expectEmpty(await client.send('DELETE', itemPath(id)), 204)
    expectStatus(await client.send('GET', itemPath(id)), 404)
    expectThat(!(await listNames(client)).includes(name), 'a list without the deleted item')
  }),
  spec('A9', 'DELETE removes a completed item and no other item', async (client) => {
    const [before, item, after] = [
      await create(client),
      await create(client, { isComplete: true }),
      await create(client),
    ]
    expectEmpty(await client.send('DELETE', itemPath(item.id)), 204)
    expectStatus(await client.send('GET', itemPath(item.id)), 404)
    for (const other of [before, after]) await expectStored(client, other)
  }),
  spec('A9', 'DELETE returns 404 when no item has the id', async (client) => {
    const { id } = await create(client)
    expectEmpty(await client.send('DELETE', itemPath(id)), 204)
    for (const missing of [id, ...unusedIds]) expectStatus(await client.send('DELETE', itemPath(missing)), 404)
  }),
  spec('A9', 'exactly one of ten concurrent DELETEs returns 204', async (client) => {
    const { id } = await create(client)
    await expectSingleSuccess(() => client.send('DELETE', itemPath(id)), 204, 404)
  }),
  spec('A10', 'secret is neither accepted nor returned', async (client) => {
    const secret = uniqueText()
    const item = await create(client, { secret })
    const put = `${itemJson(item).slice(0, -1)},"secret":"${secret}"}`
    const responses = [
      await client.send('PUT', itemPath(item.id), put),
      await client.send('GET', itemPath(item.id)),
      await client.send('GET', itemsPath),
    ]
    for (const response of responses)
      expectThat(!`${response.text} ${JSON.stringify(response.headers)}`.includes(secret), 'no secret', response)
    await expectStored(client, item)
    const listed = expectArray(responses[2] as Response) as Item[]
    expectThat(
      isDeepStrictEqual(
        listed.find(({ id }) => id === item.id),
        item,
      ),
      'exactly id, name and isComplete',
      responses[2],
    )
  }),
]

const idChecks: readonly Check[] = [
  spec('A4', 'an id in a POST body is ignored', async (client) => {
    const existing = await create(client)
    const created = await create(client, { id: Number(existing.id), isComplete: true })
    expectThat(created.id !== existing.id, 'another id for the new item')
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
      const response = await client.send('POST', itemsPath, `{"id":${id},"name":"${name}","isComplete":false}`)
      expectStatus(response, 201)
      const created = parseJson(response) as Item
      expectThat(created.name === name && `${created.id}` !== id, 'an id assigned by the server', response)
    }
  }),
  choice('A4', 'ids ascend and are never reused', async (client) => {
    const first = await create(client)
    expectEmpty(await client.send('DELETE', itemPath(first.id)), 204)
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
      expectStatus(await client.send('PUT', itemPath(id), itemJson({ id, name: uniqueText(), isComplete: true })), 404)
      expectStatus(await client.send('GET', itemPath(id)), 404)
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
    expectEmpty(await client.send('PUT', itemPath(item.id), duplicateIds(0n, item.id)), 204)
  }),
  spec('A11', 'ids above 2^53 are compared exactly', async (client) => {
    const put = (path: string, id: string) => client.send('PUT', itemPath(path), `{"id":${id},"isComplete":true}`)
    expectStatus(await put('9007199254740993', '9007199254740993'), 404)
    expectStatus(await put('9007199254740993', '9007199254740992'), 400)
    expectStatus(await put('9007199254740992', '9007199254740993'), 400)
    expectStatus(await put('9223372036854775807', '9223372036854775806'), 400)
    expectStatus(await put('-9223372036854775808', '-9223372036854775808'), 404)
    expectStatus(await put('-9223372036854775808', '-9223372036854775807'), 400)
  }),
  spec('A11', 'ids that differ by 2^32, 2^53 or 2^64 are different', async (client) => {
    const item = await create(client)
    for (const distance of [2n ** 32n, 2n ** 53n, 2n ** 63n - 1n - item.id])
      expectStatus(await client.send('GET', itemPath(item.id + distance)), 404)
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

const bodyChecks: readonly Check[] = [
  spec('A5', 'name is a string or null', async (client) => {
    for (const name of [uniqueText(), null]) {
      const item = await create(client, { name })
      expectThat(item.name === name, `the name ${JSON.stringify(name)}, not ${JSON.stringify(item.name)}`)
      await expectStored(client, item)
    }
  }),
  choice('A5', 'an empty or blank name is accepted', async (client) => {
    for (const name of ['', ' ']) await expectStored(client, { ...(await create(client, { name })), name })
  }),
  choice('A5', 'an absent name is null', async (client) => {
    expectThat((await create(client, { name: undefined })).name === null, 'the name null')
  }),
  choice('A5', 'a name of another type returns 400', async (client) => {
    const item = await create(client)
    for (const name of [1, true, {}, [], ['x']]) {
      expectStatus(await client.send('POST', itemsPath, { name, isComplete: false }), 400)
      await expectRejectedPut(client, item, { id: Number(item.id), name, isComplete: true })
    }
  }),
  ...[undefined, null, 'true', 'false', '', 0, 1, {}, []].map((isComplete) =>
    choice(
      'A6',
      `isComplete ${isComplete === undefined ? 'absent' : JSON.stringify(isComplete)} returns 400`,
      async (client) => {
        const name = uniqueText()
        expectStatus(await client.send('POST', itemsPath, { name, isComplete }), 400)
        expectThat(!(await listNames(client)).includes(name), 'nothing stored by a rejected POST')
        const item = await create(client)
        await expectRejectedPut(client, item, { id: Number(item.id), name: 'changed', isComplete })
      },
    ),
  ),
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

export const profileAChecks: readonly Check[] = [
  ...commonChecks({
    newItem: (name) => newItem({ name }),
    createdStatus: 201,
    requiredMember: 'isComplete',
    collectionMethods: ['GET', 'HEAD', 'POST'],
    itemMethods: ['GET', 'HEAD', 'PUT', 'DELETE'],
    expectUnsupportedMediaType: (response) => expectStatus(response, 415),
    expectInvalidBody: (response) => expectStatus(response, 400),
    expectBodyTooLarge: (response) => expectStatus(response, 413),
    expectUnstorableText: (response) => expectStatus(response, 400),
  }),
  ...operationChecks,
  ...idChecks,
  ...bodyChecks,
  ...sampleChecks,
]
