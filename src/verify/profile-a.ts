import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, onUntouched, spec, unique } from './check.ts'
import { everywhereChecks, namesListed } from './everywhere.ts'
import { expectArray, expectBody, expectEmpty, expectStatus, expectThat, jsonOf } from './expect.ts'
import { sampleChecks } from './samples.ts'
import type { Received, Service } from './service.ts'

interface Item {
  readonly id: bigint
  readonly name: string | null
  readonly isComplete: boolean
}

const most = 9223372036854775807n
/** Ids that no item is expected to have. */
const vacant = [0n, -1n, -most - 1n, most, 9007199254740993n]

const pathOf = (id: bigint | string) => `${items}/${id}`
const fields = (over: object = {}) => ({ name: unique(), isComplete: false, ...over })
/** JSON text with an exact id, which JSON.stringify could not write. */
const fullItem = ({ id, name, isComplete }: Item) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`

async function create(service: Service, over: object = {}): Promise<Item> {
  const answer = await service.send('POST', items, fields(over))
  expectStatus(answer, 201)
  return jsonOf(answer) as Item
}

async function expectStored(service: Service, item: Item): Promise<void> {
  expectBody(await service.send('GET', pathOf(item.id)), 200, item)
}

/** What a refused PUT was sent for is as it was before. */
async function expectRefusedPut(service: Service, item: Item, body: unknown, path = pathOf(item.id)): Promise<void> {
  expectStatus(await service.send('PUT', path, body), 400)
  await expectStored(service, item)
}

function expectProblem(answer: Received, status: number, further: readonly string[] = []): Record<string, unknown> {
  expectStatus(answer, status)
  expectThat(
    /^application\/problem\+json(?:;|$)/i.test(answer.headers['content-type'] ?? ''),
    'application/problem+json',
    answer,
  )
  const problem = jsonOf(answer) as Record<string, unknown>
  const { type, title, traceId } = problem
  expectThat(
    [type, title, traceId].every((member) => typeof member === 'string' && member),
    'type, title, traceId',
    answer,
  )
  expectThat(problem.status === status, `the member status ${status}`, answer)
  const members = ['status', 'title', 'traceId', 'type', ...further].sort()
  expectThat(isDeepStrictEqual(Object.keys(problem).sort(), members), `the members ${members} and no other`, answer)
  return problem
}

const own: Check[] = [
  onUntouched(
    spec('G7', 'the store starts empty', async (service) => {
      expectBody(await service.send('GET', items), 200, [])
    }),
  ),
  choice('G2', 'an item is found with a trailing slash and with percent-encoded digits', async (service) => {
    const item = await create(service)
    expectBody(await service.send('GET', `${pathOf(item.id)}/`), 200, item)
    expectBody(await service.send('GET', pathOf(`${item.id}`.replace(/\d/g, '%3$&'))), 200, item)
    expectEmpty(await service.send('PUT', `${pathOf(item.id)}/`, fullItem(item)), 204)
    expectEmpty(await service.send('DELETE', `${pathOf(item.id)}/`), 204)
  }),
  choice('G8', 'an error says no more than its rule', async (service) => {
    expectProblem(await service.send('GET', pathOf(0n)), 404)
    expectProblem(await service.send('POST', items, '{"broken'), 400)
  }),
  spec('A1', 'the list has every item with exactly its members', async (service) => {
    const created = [await create(service), await create(service, { name: null, isComplete: true })]
    const answer = await service.send('GET', items)
    const listed = expectArray(answer) as Item[]
    for (const item of created)
      expectThat(
        listed.some((other) => isDeepStrictEqual(other, item)),
        `item ${item.id} in the list`,
        answer,
      )
  }),
  choice('A1', 'the list is in order of id', async (service) => {
    const [first] = [await create(service), await create(service), await create(service)]
    expectEmpty(await service.send('PUT', pathOf(first.id), fullItem(first)), 204)
    const answer = await service.send('GET', items)
    const ids = (expectArray(answer) as Item[]).map(({ id }) => id)
    expectThat(
      ids.every((id, at) => at === 0 || id > (ids[at - 1] as bigint)),
      'ascending ids',
      answer,
    )
  }),
  spec('A2', 'an item is read by its id', async (service) => {
    await expectStored(service, await create(service, { isComplete: true }))
  }),
  spec('A2', 'no item has the id: 404', async (service) => {
    for (const id of vacant) expectStatus(await service.send('GET', pathOf(id)), 404)
  }),
  choice('A2', 'HEAD of an item is GET without the body', async (service) => {
    const { id } = await create(service)
    expectEmpty(await service.send('HEAD', pathOf(id)), 200)
    expectEmpty(await service.send('HEAD', pathOf(0n)), 404)
  }),
  spec('A3', 'a create answers 201 with the item and its Location', async (service) => {
    const sent = fields({ isComplete: true })
    const answer = await service.send('POST', items, sent)
    expectStatus(answer, 201)
    const { id } = jsonOf(answer) as Item
    expectThat(typeof id === 'bigint', 'an integer id', answer)
    expectBody(answer, 201, { id, ...sent })
    const { location = '' } = answer.headers
    expectThat(location.endsWith(pathOf(id)), `a Location ending in ${pathOf(id)}`, answer)
    const path = location.startsWith('http') ? new URL(location).pathname : location
    expectBody(await service.send('GET', path), 200, { id, ...sent })
  }),
  choice('A3', 'Location is absolute', async (service) => {
    const answer = await service.send('POST', '/API/TodoItems/', fields())
    expectThat(
      /^https?:\/\/[^/]+.*\/api\/todoitems\/\d+$/.test(answer.headers.location ?? ''),
      'an absolute Location',
      answer,
    )
  }),
  spec('A4', 'an id in a create is ignored', async (service) => {
    const taken = await create(service)
    const created = await create(service, { id: Number(taken.id), isComplete: true })
    expectThat(created.id !== taken.id, 'an id of its own for the new item')
    await expectStored(service, taken)
  }),
  choice('A4', 'an id in a create is ignored whatever it holds', async (service) => {
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
      const name = unique()
      const answer = await service.send('POST', items, `{"id":${id},"name":"${name}","isComplete":false}`)
      expectStatus(answer, 201)
      const created = jsonOf(answer) as Item
      expectThat(created.name === name && `${created.id}` !== id, 'an id that the service chose', answer)
    }
  }),
  choice('A4', 'ids ascend and are never used again', async (service) => {
    const first = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(first.id)), 204)
    const second = await create(service)
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  onUntouched(
    choice('A4', 'the first id is 1', async (service) => {
      const { id } = await create(service)
      expectThat(id === 1n, `the id 1, not ${id}`)
    }),
  ),
  spec('A4', 'creates at the same time get different ids', async (service) => {
    const created = await Promise.all(Array.from({ length: 20 }, () => create(service)))
    expectThat(new Set(created.map(({ id }) => id)).size === created.length, 'a different id for each item')
  }),
  spec('A5', 'name is a string or null', async (service) => {
    for (const name of ['', ' ', unique(), null]) {
      const item = await create(service, { name })
      expectThat(item.name === name, `the name ${JSON.stringify(name)}, not ${JSON.stringify(item.name)}`)
      await expectStored(service, item)
    }
  }),
  choice('A5', 'an absent name is null', async (service) => {
    expectThat((await create(service, { name: undefined })).name === null, 'the name null')
  }),
  choice('A5', 'a name of another type is refused', async (service) => {
    const item = await create(service)
    for (const name of [1, true, {}, [], ['x']]) {
      expectStatus(await service.send('POST', items, { name, isComplete: false }), 400)
      await expectRefusedPut(service, item, { id: Number(item.id), name, isComplete: true })
    }
  }),
  ...[undefined, null, 'true', 'false', '', 0, 1, {}, []].map((isComplete) =>
    choice(
      'A6',
      `isComplete ${isComplete === undefined ? 'absent' : JSON.stringify(isComplete)} is refused`,
      async (service) => {
        const name = unique()
        expectStatus(await service.send('POST', items, { name, isComplete }), 400)
        expectThat(!(await namesListed(service)).includes(name), 'nothing stored of a refused create')
        const item = await create(service)
        await expectRefusedPut(service, item, { id: Number(item.id), name: 'changed', isComplete })
      },
    ),
  ),
  spec('A7', 'a PUT answers 204 and changes name and isComplete', async (service) => {
    const item = await create(service)
    const changed = { ...item, name: unique(), isComplete: true }
    expectEmpty(await service.send('PUT', pathOf(item.id), fullItem(changed)), 204)
    await expectStored(service, changed)
  }),
  spec('A7', 'a PUT changes no other item', async (service) => {
    const [item, other] = [await create(service), await create(service)]
    expectEmpty(await service.send('PUT', pathOf(item.id), fullItem({ ...item, name: 'changed' })), 204)
    await expectStored(service, other)
  }),
  choice('A7', 'a PUT without name makes it null', async (service) => {
    const item = await create(service)
    expectEmpty(await service.send('PUT', pathOf(item.id), `{"id":${item.id},"isComplete":true}`), 204)
    await expectStored(service, { id: item.id, name: null, isComplete: true })
  }),
  spec('A8', 'PUT, path id differs from body id: 400', async (service) => {
    const [item, other] = [await create(service), await create(service)]
    await expectRefusedPut(service, item, fullItem({ ...other, name: 'changed' }))
    await expectStored(service, other)
    await expectRefusedPut(service, item, fullItem({ ...item, id: -item.id }))
  }),
  spec('A8', 'PUT, no item has the id: 404, and none is created', async (service) => {
    for (const id of vacant) {
      expectStatus(await service.send('PUT', pathOf(id), fullItem({ id, name: unique(), isComplete: true })), 404)
      expectStatus(await service.send('GET', pathOf(id)), 404)
    }
  }),
  choice('A8', 'PUT, an absent, null or non-integer body id: 400', async (service) => {
    const item = await create(service)
    await expectRefusedPut(service, item, { name: 'changed', isComplete: true })
    for (const id of [
      'null',
      `"${item.id}"`,
      `[${item.id}]`,
      '{}',
      'true',
      `${item.id}.5`,
      `${item.id}.00000000000000000001`,
    ])
      await expectRefusedPut(service, item, `{"id":${id},"name":"changed","isComplete":true}`)
  }),
  choice('A8', 'PUT, in this order: malformed id, invalid body, differing ids, missing item', async (service) => {
    expectStatus(await service.send('PUT', pathOf('abc'), 'x', { 'content-type': 'text/plain' }), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":0}'), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":-1,"isComplete":true}'), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":0,"isComplete":true}'), 404)
  }),
  choice('G4', 'the last of two equal ids in a PUT is the one compared', async (service) => {
    const item = await create(service)
    const twice = (first: bigint, last: bigint) =>
      `{"id":${first},"name":"changed","isComplete":true,"nested":{"id":${item.id}},"\\u0069d":${last}}`
    await expectRefusedPut(service, item, twice(item.id, 0n))
    expectEmpty(await service.send('PUT', pathOf(item.id), twice(0n, item.id)), 204)
  }),
  spec('A9', 'a DELETE answers 204 and the item is gone', async (service) => {
    const { id, name } = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(id)), 204)
    expectStatus(await service.send('GET', pathOf(id)), 404)
    expectThat(!(await namesListed(service)).includes(name), 'a list without the deleted item')
  }),
  spec('A9', 'no item has the id: 404', async (service) => {
    const { id } = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(id)), 204)
    for (const gone of [id, ...vacant]) expectStatus(await service.send('DELETE', pathOf(gone)), 404)
  }),
  spec('A9', 'of deletes at the same time exactly one answers 204', async (service) => {
    const { id } = await create(service)
    const answers = await Promise.all(Array.from({ length: 10 }, () => service.send('DELETE', pathOf(id))))
    const statuses = answers.map(({ status }) => status).sort()
    expectThat(isDeepStrictEqual(statuses, [204, ...Array(9).fill(404)]), `one 204 and nine 404, not ${statuses}`)
  }),
  spec('A10', 'secret is neither accepted nor returned', async (service) => {
    const secret = unique()
    const item = await create(service, { secret })
    const answers = [
      await service.send('PUT', pathOf(item.id), `${fullItem(item).slice(0, -1)},"secret":"${secret}"}`),
      await service.send('GET', pathOf(item.id)),
      await service.send('GET', items),
    ]
    for (const answer of answers) expectThat(!/secret/i.test(answer.text), 'no secret', answer)
    await expectStored(service, item)
  }),
  spec('A11', 'ids above 2^53 are compared exactly', async (service) => {
    const put = (path: string, id: string) => service.send('PUT', pathOf(path), `{"id":${id},"isComplete":true}`)
    expectStatus(await put('9007199254740993', '9007199254740993'), 404)
    expectStatus(await put('9007199254740993', '9007199254740992'), 400)
    expectStatus(await put('9007199254740992', '9007199254740993'), 400)
    expectStatus(await put('9223372036854775807', '9223372036854775806'), 400)
    expectStatus(await put('-9223372036854775808', '-9223372036854775808'), 404)
    expectStatus(await put('-9223372036854775808', '-9223372036854775807'), 400)
  }),
  spec('A11', 'ids that differ by 2^53, 2^32 or 2^64 are different', async (service) => {
    const item = await create(service)
    for (const distance of [2n ** 32n, 2n ** 53n, 2n ** 63n - 1n - item.id])
      expectStatus(await service.send('GET', pathOf(item.id + distance)), 404)
    await expectRefusedPut(service, item, fullItem({ ...item, id: item.id + 2n ** 64n, name: 'changed' }))
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
    choice('A12', `the path id ${id} is malformed: 400`, async (service) => {
      expectStatus(await service.send('GET', pathOf(id)), 400)
      expectStatus(await service.send('PUT', pathOf(id), '{"id":1,"isComplete":true}'), 400)
      expectStatus(await service.send('DELETE', pathOf(id)), 400)
    }),
  ),
  choice('A13', 'each kind of error is a problem', async (service) => {
    const { id } = await create(service)
    expectProblem(await service.send('GET', pathOf(0n)), 404)
    expectProblem(await service.send('GET', '/nowhere'), 404)
    expectProblem(await service.send('GET', pathOf('abc')), 400)
    expectProblem(await service.send('POST', items, '{'), 400)
    expectProblem(await service.send('POST', items, 'x', { 'content-type': 'text/plain' }), 415)
    expectProblem(await service.send('PUT', pathOf(id), `{"id":${id + 1n},"isComplete":true}`), 400)
  }),
  choice('A13', 'a validation problem lists messages by member', async (service) => {
    const problem = expectProblem(await service.send('POST', items, { name: 1 }), 400, ['errors'])
    const errors = problem.errors as Record<string, unknown>
    expectThat(isDeepStrictEqual(Object.keys(errors).sort(), ['isComplete', 'name']), 'errors for name and isComplete')
    const messages = Object.values(errors).flat()
    expectThat(messages.length >= 2 && messages.every((m) => typeof m === 'string' && m), 'a message for each')
  }),
  choice('A13', 'each problem has a traceId of its own', async (service) => {
    const first = expectProblem(await service.send('GET', pathOf(0n)), 404)
    const second = expectProblem(await service.send('GET', pathOf(0n)), 404)
    expectThat(first.traceId !== second.traceId, 'two different traceIds')
  }),
  choice('A14', 'no body and no media type: 415', async (service) => {
    expectStatus(await service.send('POST', items), 415)
    const { id } = await create(service)
    expectStatus(await service.send('PUT', pathOf(id)), 415)
  }),
  choice('A14', 'a body without media type: 415', async (service) => {
    expectStatus(await service.send('POST', items, fields(), { 'content-type': undefined }), 415)
  }),
  choice('A14', 'a media type and no body: 400', async (service) => {
    expectStatus(await service.send('POST', items, undefined, { 'content-type': 'application/json' }), 400)
  }),
  spec('A15', 'no input is a failure of the service', async (service) => {
    for (const body of ['{', '[]', '{"isComplete":{}}', '['.repeat(100_000), `{"a":${'[{"a":'.repeat(10_000)}`, '\0'])
      expectStatus(await service.send('POST', items, body), 400)
  }),
]

export const profileAChecks: readonly Check[] = [
  ...everywhereChecks({
    body: (name) => fields({ name }),
    createdStatus: 201,
    requiredMember: 'isComplete',
    collectionMethods: ['GET', 'HEAD', 'POST'],
    itemMethods: ['GET', 'HEAD', 'PUT', 'DELETE'],
    expectRefusedType: (answer) => expectStatus(answer, 415),
    expectRefusedBody: (answer) => expectStatus(answer, 400),
    expectRefusedSize: (answer) => expectStatus(answer, 413),
    expectRefusedValue: (answer) => expectStatus(answer, 400),
  }),
  ...own,
  ...sampleChecks,
]
