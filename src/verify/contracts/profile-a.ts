import type { Client, Response } from '../engine/client.ts'
import { type Check, choice, defineContract, onOwnServer, onUntouchedStore, spec } from '../engine/contract.ts'
import {
  expectClientError,
  expectExactly,
  expectItems,
  expectMembers,
  expectObject,
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  parseJson,
} from '../engine/expect.ts'
import { numberLiterals } from '../engine/json.ts'
import { uniqueText } from '../engine/state.ts'
import { commonChecks, expectRefused, openControl, textChecks } from './common.ts'
import { invariants, locationInvariant, readInvariant, secretInvariant } from './invariants.ts'
import { deleteItem, observeOperation, type Profile, populate, StoreModel, withValue } from './model.ts'
import { itemsPath, observe, ofProfile, providing } from './rules.ts'
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
const withId = (id: TodoItemA['id'] | string, members: object) => JSON.stringify(members).replace('{', `{"id":${id},`)
const withoutId = ({ name, isComplete }: TodoItemA) => ({ name, isComplete })

const maxInt64 = 2n ** 63n - 1n

/** A6: absent, null or not a boolean. */
const notBooleans = [undefined, null, 'true', 'false', '', 0, 1, {}, []]

const profile: Profile<TodoItemA> = {
  rules: {
    list: 'A1',
    create: 'A3',
    update: 'A7',
    remove: 'A9',
    updateMissing: 'A8',
    uniqueIds: 'A4',
    read: 'A2',
    unknownMembers: 'A10',
  },
  methods: { collection: ['GET', 'HEAD', 'POST'], item: ['GET', 'HEAD', 'PUT', 'DELETE'] },
  members: ['id', 'name', 'isComplete'],
  requiredMember: 'isComplete',
  createdStatus: 201,
  newItem: (name) => ({ id: 0, name, isComplete: false }),
  changes: (name, isComplete) => ({ name, isComplete }),
  body: withoutId,
  update: (client, item, unknown) =>
    client.send('PUT', itemPath(item.id), withId(item.id, { ...unknown, ...withoutId(item) })),
  read: (client, id) => client.send('GET', itemPath(id)),
  /** Some are equal to the id in fewer bits or digits. */
  async unusedIds(client, { id }) {
    const response = await client.send('GET', itemsPath)
    const used = observe('list', () => expectItems(response)).map((item) => `${item.id}`)
    const like = BigInt(id)
    const candidates = [
      0n,
      -1n,
      2n ** 53n + 1n,
      maxInt64,
      -maxInt64 - 1n,
      like / 10n,
      like * 10n,
      -like,
      like + 10_000n,
    ]
    const wrapped = [2n ** 32n, 2n ** 53n, 2n ** 63n].map((distance) => BigInt.asIntN(64, like + distance))
    return [...new Set([...candidates, ...wrapped])].filter(
      (one) => !used.includes(`${one}`) && one === BigInt.asIntN(64, one),
    )
  },
  expectCreated(response, { name, isComplete }) {
    const { id } = expectMembers(response, { name, isComplete })
    expectThat(typeof id === 'bigint' || Number.isSafeInteger(id), 'an integer id', response)
    return { id: id as TodoItemA['id'], name, isComplete }
  },
  expectNotFound: (response) => observeOperation(response, () => expectStatus(response, 404)),
  invalidValues: [
    ['A5', 'name', [1, true, {}, [], ['x']]],
    ['A6', 'isComplete', notBooleans],
  ],
  expectUnsupportedMediaType: (response) => expectStatus(response, 415),
  expectInvalidBody: (response) => expectStatus(response, 400),
  expectBodyTooLarge: (response) => expectStatus(response, 413),
  expectUnstorableText: (response) => expectStatus(response, 400),
  // U+0000 is what no database may hold: a failure that is not handled is a 5xx (A15).
  mayRefuse: ({ status }, text) => status >= 400 && (status <= 499 || text.includes('\0')),
  isOfType(name, value) {
    if (name === 'id') return typeof value === 'bigint' || Number.isSafeInteger(value)
    return name === 'name' ? value === null || typeof value === 'string' : typeof value === 'boolean'
  },
  invariants: [locationInvariant, readInvariant, secretInvariant],
}

const store = storeChecks(profile)
const newModel = (client: Client) => new StoreModel(client, profile)
const create = (client: Client, content: Partial<TodoItemA> = {}) => newModel(client).create(content)

/** The server assigns another id than the one that is sent. */
async function expectIdIgnored(client: Client, model: StoreModel<TodoItemA>, id: bigint | string): Promise<void> {
  const content = model.newItem({ isComplete: true })
  const response = await client.send('POST', itemsPath, withId(id, withoutId(content)))
  const item = model.add(response, content)
  expectThat(`${item.id}` !== `${id}`, `an id that the server assigns, not ${id}`, response)
}

const expectBadRequest = (response: Response) => observeOperation(response, () => expectStatus(response, 400))

function expectProblem(response: Response, status: number): Record<string, unknown> {
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
  const { errors: _, ...members } = problem
  expectExactly(response, members, ['status', 'title', 'traceId', 'type'])
  return problem
}

/** The checks that others build on, the most basic first. */
const basicChecks: readonly Check[] = [
  store.list,
  onUntouchedStore(
    spec('G7', 'the store starts empty', async (client) => {
      const response = await client.send('GET', itemsPath)
      expectThat(expectItems(response).length === 0, 'an empty array', response)
    }),
  ),
  onOwnServer(
    choice('A4', 'the first id is 1', async (client) => {
      const { id } = await create(client)
      expectThat(id === 1, `the id 1, not ${id}`)
      // Else it stays until DELETE has been checked, and no check sees an empty list.
      await deleteItem(client, id)
    }),
  ),
  ...store.created,
  providing(
    'read',
    spec('A2', 'GET returns the item with the id', async (client) => {
      for (const isComplete of [true, false]) {
        const item = await create(client, { isComplete })
        const response = await client.send('GET', itemPath(item.id))
        expectStatus(response, 200)
        expectMembers(response, item)
      }
    }),
  ),
  ...store.listed,
  // Before items are deleted: on a fresh server, ids of one and of two digits are listed.
  choice('A1', 'the list is ordered by id', async (client) => {
    const model = newModel(client)
    for (const name of ['b', 'a']) await model.create({ name: `${name}-${model.mark}` })
    const response = await client.send('GET', itemsPath)
    const ids = observe('list', () => expectItems(response)).map(({ id }) => BigInt(id as number))
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] as bigint))
    expectThat(isAscending, 'ascending ids', response)
  }),
  ...store.changed,
]

/** After each operation: the item, the list and every other item, compared with a model of the store. */
const stateChecks: readonly Check[] = [
  spec('A3', 'two items may have names that differ in case only, or none', async (client) => {
    const model = newModel(client)
    for (const name of [model.mark, model.mark.toUpperCase(), null, null]) await model.create({ name }, observe)
    await model.expectStored('POST with the name of another item in another case, or null')
  }),
  spec('A2', 'an item is found after its id was not', async (client) => {
    const { model, target } = await populate(client, profile)
    const last = model.items.reduce((max, { id }) => (BigInt(id) > max ? BigInt(id) : max), BigInt(target.id))
    for (const next of [last + 1n, last + 2n]) await client.send('GET', itemPath(next))
    await model.create()
    await model.create()
    await model.expectStored('GET of ids that were used later')
  }),
  spec('A7', 'PUT changes the name to null, and isComplete of an item without a name', async (client) => {
    const model = newModel(client)
    const unnamed = await model.update(await model.create(), { name: null }, observe)
    await model.update(unnamed, { isComplete: true }, observe)
    await model.expectStored('two PUTs with the name null')
  }),
  spec('A8', 'PUT returns 400 when the body id differs from the path id, and changes nothing', async (client) => {
    const { model, other, target } = await populate(client, profile)
    const ids = [other.id, -BigInt(target.id), ...(await profile.unusedIds(client, target))]
    for (const id of ids.filter((id) => `${id}` !== `${target.id}`)) {
      const body = withId(id, withoutId(model.newItem({ isComplete: true })))
      expectBadRequest(await client.send('PUT', itemPath(target.id), body))
      await model.expectStored(`PUT of ${target.id} with the body id ${id}`)
    }
    // Which error comes first is a choice.
    const [unused = 0n] = await profile.unusedIds(client, target)
    const response = await client.send('PUT', itemPath(unused), withId(other.id, withoutId(model.newItem())))
    observe('update', () => expectThat([400, 404].includes(response.status), 'status 400 or 404', response))
    await model.expectStored(`PUT of ${unused} with the body id ${other.id}`)
  }),
  spec('A4', 'an id in a POST body is ignored', async (client) => {
    const { model, target } = await populate(client, profile)
    for (const id of [BigInt(target.id), 0n, -1n, (BigInt(target.id) % 1000n) + 1_000_003n]) {
      await expectIdIgnored(client, model, id)
      await model.expectStored(`POST with the id ${id}`)
    }
  }),
  spec('A6', 'POST and PUT without a boolean isComplete are refused, and change nothing', (client) => {
    const bodies = notBooleans.map((value) => withValue('isComplete', value))
    const inherited = (text: string) => text.replace(/"isComplete":(\w+)/, '"__proto__":{$&}')
    const rewrites = [...bodies, inherited].map((body) => ({ body }))
    return expectRefused(client, profile, rewrites, (response) => observeOperation(response, expectClientError))
  }),
]

const idChecks: readonly Check[] = [
  choice('A4', 'an id of any value or type in a POST body is ignored', async (client) => {
    const ids = '"text" null {} [1] true 1.5 1e999 -1 9007199254740993 99999999999999999999'.split(' ')
    for (const id of ids) await expectIdIgnored(client, newModel(client), id)
  }),
  choice('A4', 'ids ascend and are never reused', async (client) => {
    const model = newModel(client)
    const first = await model.create()
    await model.remove(first)
    const second = await model.create()
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  choice(
    'A8',
    'PUT returns 400 when the body id is absent, null or not an integer, or another at its end',
    async (client) => {
      const model = newModel(client)
      const { id } = await model.create()
      const content = newItem({ isComplete: true })
      const values = ['null', `"${id}"`, `[${id}]`, '{}', 'true', `${id}.5`, `${id}.00000000000000000001`]
      const another = `{"id":${id},"name":"changed","isComplete":true,"text":"\\"id\\":${id},\\\\","\\u0069d":0}`
      for (const body of [content, another, ...values.map((value) => withId(value, content))])
        expectBadRequest(await client.send('PUT', itemPath(id), body))
      await model.expectStored('PUT with an invalid body id')
    },
  ),
  choice('A8', 'PUT checks id syntax, body, equal ids and existence in this order', async (client) => {
    const [unused = 0n, other = 0n] = await profile.unusedIds(client, await create(client))
    expectStatus(await client.send('PUT', itemPath('abc'), 'x', { 'content-type': 'text/plain' }), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${unused}}`), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${other},"isComplete":true}`), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${unused},"isComplete":true}`), 404)
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
  spec('A11', 'ids that differ by 1 above 2^53, or by 2^32, 2^53 or 2^64, are different', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    for (const distance of [2n ** 32n, 2n ** 53n, maxInt64 - BigInt(id)]) {
      const response = await client.send('GET', itemPath(BigInt(id) + distance))
      // The status, 404, is that of another check (A2).
      expectThat(!response.text.includes(model.mark), 'no item with the id', response)
    }
    const put = (path: string, other: string) =>
      client.send('PUT', itemPath(path), withId(other, newItem({ isComplete: true })))
    expectBadRequest(await put(`${id}`, `${BigInt(id) + 2n ** 64n}`))
    await model.expectStored('PUT with a body id that differs by 2^64')
    // No item has these ids: a server that looks for the item first returns 404 whatever the ids (choice, A8).
    if ((await put('9007199254740993', '1')).status === 404) return
    for (const one of [2n ** 53n + 1n, maxInt64, 1n - maxInt64]) {
      expectBadRequest(await put(`${one}`, `${one - 1n}`))
      expectBadRequest(await put(`${one - 1n}`, `${one}`))
    }
  }),
  choice('A12', 'a malformed path id returns 400', async (client) => {
    const ids = 'abc 1.5 01 +1 -0 1e3 0x1 %20 1%20 %EF%BC%91 9223372036854775808 -9223372036854775809 % %zz %ff'
    for (const id of ids.split(' ')) {
      expectStatus(await client.send('GET', itemPath(id)), 400)
      expectStatus(await client.send('PUT', itemPath(id), '{"id":1,"isComplete":true}'), 400)
      expectStatus(await client.send('DELETE', itemPath(id)), 400)
    }
  }),
]

const bodyChecks: readonly Check[] = [
  spec('A5', 'name is a string or null', async (client) => {
    const model = new StoreModel(client, profile, 'A5')
    for (const name of [model.mark, null]) await model.create({ name }, observe)
    await model.expectStored('POST with a string and with null')
    for (const item of model.items.reverse()) await model.remove(item)
    for (const name of [undefined, 1, true, ['x'], { first: 'x' }]) {
      const response = await client.send('POST', itemsPath, { name, isComplete: false })
      // A server may convert it; refusing it is a choice.
      if (!isSuccess(response)) continue
      const { name: stored } = observe('create', () => expectObject(response))
      expectThat(stored === null || typeof stored === 'string', 'a string or null as the name', response)
      expectThat(!`${stored}`.includes(model.mark), 'no name of another item', response)
    }
  }),
  choice('A5', 'an empty or blank name is accepted', async (client) => {
    const model = newModel(client)
    for (const name of ['', ' ']) await model.create({ name }, observe)
    await model.expectStored('POST with a blank name')
  }),
  choice('A5', 'POST and PUT without name set it to null', async (client) => {
    const model = newModel(client)
    const item = { id: 0, name: null, isComplete: false }
    const { id } = model.add(await client.send('POST', itemsPath, { isComplete: false }), item)
    await model.update({ ...item, id }, { name: 'name' })
    observeOperation(await client.send('PUT', itemPath(id), withId(id, { isComplete: true })), expectSuccess)
    model.set({ id, name: null, isComplete: true })
    await model.expectStored('POST and PUT without name')
  }),
  choice('G8', 'an error response contains no more than its rule states', async (client) => {
    expectProblem(await client.send('GET', itemPath(-1n)), 404)
    expectProblem(await client.send('POST', itemsPath, '{"broken'), 400)
  }),
  choice(
    'A13',
    'every error is a problem document with its own traceId, and messages by invalid member',
    async (client) => {
      const { id } = await create(client)
      const { traceId } = expectProblem(await client.send('GET', itemPath(-1n)), 404)
      expectThat(traceId !== expectProblem(await client.send('GET', '/nowhere'), 404).traceId, 'two different traceIds')
      const { errors } = expectProblem(await client.send('POST', itemsPath, { name: 1 }), 400)
      const messages = Object.entries(Object(errors)).flatMap(([member, texts]) =>
        [texts].flat().map((text) => ({ member, text })),
      )
      const isKnown = ({ member, text }: { member: string; text: unknown }) =>
        ['isComplete', 'name'].includes(member) && typeof text === 'string' && text !== ''
      expectThat(messages.length > 0 && messages.every(isKnown), 'messages for name or isComplete')
      expectProblem(await client.send('GET', itemPath('abc')), 400)
      for (const body of ['{', '[]', 'null', '']) expectProblem(await client.send('POST', itemsPath, body), 400)
      expectProblem(await client.send('POST', itemsPath, 'x', { 'content-type': 'text/plain' }), 415)
      expectProblem(await client.send('PUT', itemPath(id), withId(BigInt(id) + 1n, { isComplete: true })), 400)
    },
  ),
  choice('A14', 'without a media type the status is 415, with one but no body 400', async (client) => {
    const none = { headers: { 'content-type': undefined } }
    const expectStatuses = (status: number) => (response: Response) => expectStatus(response, status)
    await expectRefused(client, profile, [none, { ...none, body: () => undefined }], expectStatuses(415))
    const typed = { body: () => undefined, headers: { 'content-type': 'application/json' } }
    await expectRefused(client, profile, [typed], expectStatuses(400))
  }),
  choice('A14', 'a malformed body never causes a 5xx', async (client) => {
    for (const body of ['{', '[]', '['.repeat(100_000), `{"a":${'[{"a":'.repeat(10_000)}`, '\0']) {
      const response = await client.send('POST', itemsPath, body)
      expectThat(response.status < 500, 'no 5xx status', response)
    }
  }),
]

const checks: readonly Check[] = [
  ...basicChecks,
  ...stateChecks,
  ...store.further,
  ...textChecks(profile, ['name'], ['POST', 'PUT']),
  ...commonChecks(profile),
  ...idChecks,
  ...bodyChecks,
  ...endpointChecks,
  ...sampleChecks(profile),
  ...invariants(profile),
]

export const profileA = defineContract({
  name: 'Profile A',
  ...ofProfile('A'),
  checks,
  items: { path: itemsPath, initialCount: 0 },
  openControl,
})
