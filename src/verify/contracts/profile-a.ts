import type { Client, Response } from '../../common/client.ts'
import { numberLiterals } from '../../common/json.ts'
import {
  type Check,
  choice,
  defineContract,
  onOwnServer,
  onUntouchedStore,
  providing,
  spec,
  uniqueText,
} from '../engine/contract.ts'
import {
  expectClientError,
  expectEmpty,
  expectExactly,
  expectItems,
  expectMembers,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  observe,
  parseJson,
  setUp,
} from '../engine/expect.ts'
import { commonChecks, listCheck, openControl, sampleMethodChecks, textChecks } from './common.ts'
import { type ModelOperations, populate, StoreModel } from './model.ts'
import { itemsPath, ofProfile } from './rules.ts'
import { endpointChecks, sampleChecks } from './samples.ts'
import { storeChecks } from './store.ts'

interface TodoItemA {
  /** An integer beyond 2^53 is a bigint. */
  readonly id: number | bigint
  readonly name: string | null
  readonly isComplete: boolean
}

const itemPath = (id: TodoItemA['id'] | string) => `${itemsPath}/${id}`
const newItem = (content: Partial<Omit<TodoItemA, 'id'>> = {}) => ({
  name: uniqueText(),
  isComplete: false,
  ...content,
})
/** JSON.stringify cannot write a bigint. */
const itemJson = ({ id, name, isComplete }: TodoItemA, unknown: object = {}) =>
  JSON.stringify({ ...unknown, name, isComplete }).replace('{', `{"id":${id},`)

const operations: ModelOperations<TodoItemA> = {
  assignsIds: true,
  members: ['id', 'name', 'isComplete'],
  newItem: (name) => ({ id: 0, name, isComplete: false }),
  changes: (name, isComplete) => ({ name, isComplete }),
  create: (client, { name, isComplete }, unknown) => client.send('POST', itemsPath, { ...unknown, name, isComplete }),
  update: (client, item, unknown) => client.send('PUT', itemPath(item.id), itemJson(item, unknown)),
  remove: (client, id) => client.send('DELETE', itemPath(id)),
  read: (client, id) => client.send('GET', itemPath(id)),
  mayRefuse: ({ status }) => status >= 400 && status <= 499,
}

const store = storeChecks(operations, {
  list: 'A1',
  create: 'A3',
  update: 'A7',
  remove: 'A9',
  concurrentCreate: 'A4',
  unknownMembers: 'A10',
})

const create = (client: Client, content: Partial<TodoItemA> = {}) => new StoreModel(client, operations).create(content)

const maxInt64 = 2n ** 63n - 1n

/** Ids that no item has, but which begin like the id of an item, or are equal to it in fewer bits or digits. */
async function findUnusedIds(client: Client, { id }: TodoItemA): Promise<bigint[]> {
  const response = await client.send('GET', itemsPath)
  const used = observe('list', () => expectItems(response)).map((item) => `${item.id}`)
  const like = BigInt(id)
  const candidates = [0n, -1n, 2n ** 53n + 1n, maxInt64, -maxInt64 - 1n, like / 10n, like * 10n]
  const wrapped = [2n ** 32n, 2n ** 53n, 2n ** 63n].map((distance) => BigInt.asIntN(64, like + distance))
  return [...new Set([...candidates, ...wrapped])].filter(
    (one) => !used.includes(`${one}`) && one === BigInt.asIntN(64, one),
  )
}

function expectCreatedItem(response: Response) {
  expectSuccess(response)
  const { id, ...rest } = expectObject(response)
  expectThat(typeof id === 'bigint' || Number.isSafeInteger(id), 'an integer id', response)
  return { id, ...rest } as { id: TodoItemA['id']; name?: unknown }
}

/** Sends a body that is part of what a check states. */
async function post(client: Client, body: unknown) {
  const response = await client.send('POST', itemsPath, body)
  const item = observe('create', () => expectCreatedItem(response))
  return { response, item }
}

async function expectStored(client: Client, item: TodoItemA, path = itemPath(item.id)): Promise<void> {
  const response = await client.send('GET', path)
  observe('read', () => {
    expectStatus(response, 200)
    expectMembers(response, item)
  })
}

/** The status, 404, is that of another check (A2). */
async function expectNotReturned(client: Client, id: TodoItemA['id'], name: string | null): Promise<void> {
  const response = await client.send('GET', itemPath(id))
  expectThat(!response.text.includes(JSON.stringify(name)), `no item with the id ${id}`, response)
}

/** Expects an error status, 400 by default, and an unchanged item. */
async function expectRejectedPut(
  client: Client,
  item: TodoItemA,
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
  const allowed = ['status', 'title', 'traceId', 'type', ...further]
  expectExactly(response, problem, 'errors' in problem ? [...new Set([...allowed, 'errors'])] : allowed)
  return problem
}

/** The checks that others build on, the most basic first. */
const basicChecks: readonly Check[] = [
  listCheck('A1'),
  onUntouchedStore(
    spec('G7', 'the store starts empty', async (client) => {
      const response = await client.send('GET', itemsPath)
      expectThat(expectItems(response).length === 0, 'an empty array', response)
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
  ...store.listed,
  // Before items are deleted: on a fresh server, ids of one and of two digits are listed.
  choice('A1', 'the list is ordered by id', async (client) => {
    const model = new StoreModel(client, operations)
    for (const name of ['b', 'a']) await model.create({ name: `${name}-${model.mark}` })
    const response = await client.send('GET', itemsPath)
    const ids = observe('list', () => expectItems(response)).map(({ id }) => BigInt(id as number))
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] as bigint))
    expectThat(isAscending, 'ascending ids', response)
  }),
  ...store.deleted,
  ...store.updated,
]

/** After each operation: the item, the list and every other item, compared with a model of the store. */
const stateChecks: readonly Check[] = [
  spec('A3', 'two items may have the same name, and an item none', async (client) => {
    const { model, target } = await populate(client, operations)
    const name = `${target.name}`.toUpperCase()
    for (const content of [{ name: target.name }, { name }, { name: null }, { name: null }])
      await model.create(content, observe)
    await model.expectStored('POST with the name of another item, in another case, or null')
    await model.update(model.items[0] as TodoItemA, { name: target.name }, observe)
    await model.expectStored('PUT with the name of another item')
  }),
  spec('A2', 'an item is found after its id was not', async (client) => {
    const { model, target } = await populate(client, operations)
    const last = model.items.reduce((max, { id }) => (BigInt(id) > max ? BigInt(id) : max), BigInt(target.id))
    for (const next of [last + 1n, last + 2n]) await client.send('GET', itemPath(next))
    await model.create()
    await model.create()
    await model.expectStored('GET of ids that were used later')
  }),
  spec('A7', 'PUT stores each member that it changes, alone and together', async (client) => {
    const { model, target } = await populate(client, operations)
    let item = target
    for (const [what, changes] of [
      ['only isComplete, to true', { isComplete: true }],
      ['nothing', {}],
      ['only isComplete, to false', { isComplete: false }],
      ['only the name', { name: model.newItem().name }],
      ['both', { name: model.newItem().name, isComplete: true }],
      ['the name to null', { name: null }],
      ['only isComplete, without a name', { isComplete: false }],
      ['the name back', { name: target.name }],
      ['the name in another case', { name: `${target.name}`.toUpperCase() }],
    ] as const) {
      item = await model.update(item, changes, observe)
      await model.expectStored(`PUT that changes ${what}`)
    }
  }),
  spec('A8', 'PUT returns 400 when the body id differs from the path id, and changes nothing', async (client) => {
    const { model, target } = await populate(client, operations)
    const ids = [model.items[0]?.id ?? 0, -BigInt(target.id), ...(await findUnusedIds(client, target))]
    for (const id of ids.filter((id) => `${id}` !== `${target.id}`)) {
      const body = itemJson({ ...model.newItem(), id, isComplete: true })
      const response = await client.send('PUT', itemPath(target.id), body)
      observe('update', () => expectStatus(response, 400))
      await model.expectStored(`PUT of ${target.id} with the body id ${id}`)
    }
  }),
  spec('A8', 'PUT returns 404 when no item has the id, and creates none', async (client) => {
    const { model, target, twin } = await populate(client, operations)
    await model.remove(target)
    for (const id of [target.id, ...(await findUnusedIds(client, twin))]) {
      const response = await client.send('PUT', itemPath(id), itemJson({ ...model.newItem(), id, isComplete: true }))
      observe('update', () => expectStatus(response, 404))
    }
    await model.expectStored('PUT of ids that no item has')
    // Which error comes first is a choice.
    const [unused = 0n] = await findUnusedIds(client, twin)
    const other = model.items[0] as TodoItemA
    const response = await client.send('PUT', itemPath(unused), itemJson({ ...model.newItem(), id: other.id }))
    observe('update', () => expectThat([400, 404].includes(response.status), 'status 400 or 404', response))
    await model.expectStored(`PUT of ${unused} with the body id ${other.id}`)
  }),
  spec('A2', 'GET returns 404 when no item has the id', async (client) => {
    const { model, target, twin } = await populate(client, operations)
    await model.remove(target)
    for (const id of [...(await findUnusedIds(client, twin)), target.id])
      expectStatus(await client.send('GET', itemPath(id)), 404)
  }),
  spec('A9', 'DELETE returns 404 when no item has the id, and removes none', async (client) => {
    const { model, target, twin } = await populate(client, operations)
    await model.remove(target)
    for (const id of [target.id, ...(await findUnusedIds(client, twin))]) {
      const response = await client.send('DELETE', itemPath(id))
      await model.expectStored(`DELETE of ${id}, which no item has`)
      expectStatus(response, 404)
    }
  }),
  spec('A4', 'an id in a POST body is ignored', async (client) => {
    const { model, target } = await populate(client, operations)
    for (const id of [BigInt(target.id), 0n, -1n, (BigInt(target.id) % 1000n) + 1_000_003n]) {
      const content = model.newItem({ isComplete: true })
      const response = await client.send('POST', itemsPath, itemJson({ ...content, id }))
      const item = model.add(response, content)
      expectThat(`${item.id}` !== `${id}`, `an id that the server assigns, not ${id}`, response)
      await model.expectStored(`POST with the id ${id}`)
    }
  }),
  spec('A6', 'POST without a boolean isComplete is refused, and stores nothing', async (client) => {
    const { model } = await populate(client, operations)
    for (const isComplete of notBooleans)
      expectClientError(await client.send('POST', itemsPath, { name: model.newItem().name, isComplete }))
    const inherited = `{"name":"${model.newItem().name}","__proto__":{"isComplete":true}}`
    expectClientError(await client.send('POST', itemsPath, inherited))
    await model.expectStored('refused POSTs')
  }),
  spec('A6', 'PUT without a boolean isComplete is refused, and changes nothing', async (client) => {
    const { model, target } = await populate(client, operations)
    for (const isComplete of notBooleans) {
      const { name } = model.newItem()
      const text = JSON.stringify({ name, isComplete }).replace('{', `{"id":${target.id},`)
      const response = await client.send('PUT', itemPath(target.id), text)
      observe('update', () => expectClientError(response))
    }
    await model.expectStored('refused PUTs')
  }),
]

/** A6: absent, null or not a boolean. */
const notBooleans = [undefined, null, 'true', 'false', '', 0, 1, {}, []]

const operationChecks: readonly Check[] = [
  spec('G1', 'the path of an item matches case-insensitively, for GET, PUT and DELETE', async (client) => {
    const { model, target } = await populate(client, operations)
    for (const path of [`/API/TODOITEMS/${target.id}`, `/Api/TodoItems/${target.id}`]) {
      await expectStored(client, target, path)
      const put = await client.send('PUT', path, itemJson(target))
      observe('update', () => expectSuccess(put))
    }
    const { id } = await model.create()
    const deleted = await client.send('DELETE', `/API/TodoItems/${id}`)
    observe('delete', () => expectSuccess(deleted))
    await expectNotReturned(client, id, model.mark)
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
  spec('A10', 'no response has a member secret', async (client) => {
    const created = await client.send('POST', itemsPath, newItem())
    const { id } = observe('create', () => expectCreatedItem(created))
    const responses = [created, await client.send('GET', itemPath(id)), await client.send('GET', itemsPath)]
    for (const response of responses.filter(isSuccess))
      for (const item of [parseJson(response)].flat())
        expectThat(!('secret' in Object(item)), 'no member secret', response)
  }),
  choice('A2', 'HEAD on an item returns the status of GET without the body', async (client) => {
    const { id } = await create(client)
    for (const path of [itemPath(id), itemPath(0n)]) {
      const { status } = await client.send('GET', path)
      expectEmpty(await client.send('HEAD', path), status)
    }
  }),
  spec('A3', 'Location is the absolute URI of the created item', async (client) => {
    for (const query of ['', '?from=verify']) {
      const response = await client.send('POST', `${itemsPath}${query}`, newItem())
      const item = observe('create', () => expectCreatedItem(response))
      const { location = '' } = response.headers
      expectThat(/^https?:\/\/[^/]/i.test(location) && URL.canParse(location), 'an absolute Location', response)
      const expected = `${client.publicUrl}${itemsPath}/${item.id}`
      const isSame = normalizeUrl(location) === normalizeUrl(expected)
      expectThat(isSame, `Location: ${expected} (--public-url sets another base)`, response)
    }
  }),
  choice('A7', 'PUT without name sets it to null', async (client) => {
    const item = await create(client)
    const response = await client.send('PUT', itemPath(item.id), `{"id":${item.id},"isComplete":true}`)
    observe('update', () => expectSuccess(response))
    await expectStored(client, { id: item.id, name: null, isComplete: true })
  }),
]

/** The path matches in any case (G1). */
const normalizeUrl = (url: string) => {
  const { origin, pathname, search, hash } = new URL(url)
  return `${origin}${pathname.toLowerCase()}${search}${hash}`
}

const idChecks: readonly Check[] = [
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
    const model = new StoreModel(client, operations)
    const first = await model.create()
    await model.remove(first)
    const second = await model.create()
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  onOwnServer(
    choice('A4', 'the first id is 1', async (client) => {
      const { id } = await create(client)
      expectThat(id === 1, `the id 1, not ${id}`)
    }),
  ),
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
    const duplicateIds = (first: TodoItemA['id'], last: TodoItemA['id']) =>
      `{"id":${first},"name":"changed","isComplete":true,"nested":{"id":${item.id}},"text":"\\"id\\":0,\\\\","\\u0069d":${last}}`
    await expectRejectedPut(client, item, duplicateIds(item.id, 0n))
    const response = await client.send('PUT', itemPath(item.id), duplicateIds(0n, item.id))
    observe('update', () => expectSuccess(response))
  }),
  spec('A11', 'an id is written as an integer', async (client) => {
    const { id } = await create(client)
    for (const response of [
      await client.send('POST', itemsPath, newItem()),
      await client.send('GET', itemPath(id)),
      await client.send('GET', itemsPath),
    ]) {
      const isInteger = numberLiterals(response.text).every((literal) => /^-?\d+$/.test(literal))
      expectThat(isInteger, 'numbers without fraction and exponent', response)
    }
  }),
  spec('A11', 'ids above 2^53 are compared exactly', async (client) => {
    const put = (path: string, id: string) =>
      client.send('PUT', itemPath(path), `{"id":${id},"name":"${uniqueText()}","isComplete":true}`)
    const expectPut = async (path: string, id: string, status: number) => {
      const response = await put(path, id)
      observe('update', () => expectStatus(response, status))
    }
    // No item has these ids: a server that looks for the item first returns 404 whatever the ids (choice, A8).
    if ((await put('9007199254740993', '1')).status === 404) return
    await expectPut('9007199254740993', '9007199254740992', 400)
    await expectPut('9007199254740992', '9007199254740993', 400)
    await expectPut('9223372036854775807', '9223372036854775806', 400)
    await expectPut('-9223372036854775808', '-9223372036854775807', 400)
  }),
  spec('A11', 'ids that differ by 2^32, 2^53 or 2^64 are different', async (client) => {
    const item = await create(client)
    for (const distance of [2n ** 32n, 2n ** 53n, 2n ** 63n - 1n - BigInt(item.id)])
      await expectNotReturned(client, BigInt(item.id) + distance, item.name)
    await expectRejectedPut(client, item, itemJson({ ...item, id: BigInt(item.id) + 2n ** 64n, name: 'changed' }))
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
    for (const name of [uniqueText(), null]) await expectStored(client, await create(client, { name }))
    for (const name of [1, true, ['x'], { first: 'x' }]) {
      const response = await client.send('POST', itemsPath, { name, isComplete: false })
      // A server may convert it; refusing it is a choice.
      if (!isSuccess(response)) continue
      const { name: stored } = observe('create', () => expectObject(response))
      expectThat(stored === null || typeof stored === 'string', 'a string or null as the name', response)
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
    expectProblem(await client.send('PUT', itemPath(id), `{"id":${BigInt(id) + 1n},"isComplete":true}`), 400)
  }),
  choice('A13', 'a validation problem lists messages by member', async (client) => {
    const problem = expectProblem(await client.send('POST', itemsPath, { name: 1 }), 400, ['errors'])
    const errors = problem.errors as Record<string, unknown>
    const members = Object.keys(errors)
    const isKnown = members.length > 0 && members.every((member) => ['isComplete', 'name'].includes(member))
    expectThat(isKnown, 'errors for name or isComplete')
    const isText = (message: unknown) => typeof message === 'string' && message !== ''
    expectThat(
      Object.values(errors).every((messages) => [messages].flat().every(isText)),
      'messages for each member',
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
  choice('A14', 'a malformed body never causes a 5xx', async (client) => {
    for (const body of ['{', '[]', '['.repeat(100_000), `{"a":${'[{"a":'.repeat(10_000)}`, '\0']) {
      const response = await client.send('POST', itemsPath, body)
      expectThat(response.status < 500, 'no 5xx status', response)
    }
  }),
]

const methods = { collection: ['GET', 'HEAD', 'POST'], item: ['GET', 'HEAD', 'PUT', 'DELETE'] }

const checks: readonly Check[] = [
  ...basicChecks,
  ...stateChecks,
  ...store.further,
  ...textChecks(operations, ['name'], { post: 'A3', put: 'A7' }),
  ...operationChecks,
  ...commonChecks({
    newItem: (name) => newItem({ name }),
    createRule: 'A3',
    requiredMember: 'isComplete',
    methods,
    expectUnsupportedMediaType: (response) => expectStatus(response, 415),
    expectInvalidBody: (response) => expectStatus(response, 400),
    expectBodyTooLarge: (response) => expectStatus(response, 413),
    expectUnstorableText: (response) => expectStatus(response, 400),
  }),
  ...idChecks,
  ...bodyChecks,
  ...endpointChecks,
  ...sampleMethodChecks,
  ...sampleChecks(methods),
]

export const profileA = defineContract({
  name: 'Profile A',
  ...ofProfile('A'),
  checks,
  items: { path: itemsPath, initialCount: 0 },
  openControl,
})
