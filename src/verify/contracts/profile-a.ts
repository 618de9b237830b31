import { randomInt } from 'node:crypto'
import type { Client, Response } from '../../common/client.ts'
import { numberLiterals } from '../../common/json.ts'
import {
  type Check,
  choice,
  defineContract,
  onOwnServer,
  onUntouchedStore,
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
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  parseJson,
} from '../engine/expect.ts'
import { commonChecks, openControl, sampleMethodChecks, textChecks } from './common.ts'
import { invariants, locationInvariant, normalizeUrl, readInvariant, secretInvariant } from './invariants.ts'
import { observeOperation, type Profile, populate, postItem, StoreModel } from './model.ts'
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

/** A6: absent, null or not a boolean. */
const notBooleans = [undefined, null, 'true', 'false', '', 0, 1, {}, []]

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
  spec('A2', 'GET returns 404 when no item has the id', async (client) => {
    const { model, target, twin } = await populate(client, profile)
    // A server may keep responses.
    await model.expectStored('three POSTs')
    await model.remove(target)
    for (const id of [...(await profile.unusedIds(client, twin)), target.id])
      expectStatus(await client.send('GET', itemPath(id)), 404)
  }),
  spec('A4', 'an id in a POST body is ignored', async (client) => {
    const { model, target } = await populate(client, profile)
    for (const id of [BigInt(target.id), 0n, -1n, (BigInt(target.id) % 1000n) + 1_000_003n]) {
      await expectIdIgnored(client, model, id)
      await model.expectStored(`POST with the id ${id}`)
    }
  }),
  spec('A6', 'POST and PUT without a boolean isComplete are refused, and change nothing', async (client) => {
    const { model, target } = await populate(client, profile)
    const expectRefused = (response: Response) => observeOperation(response, expectClientError)
    for (const isComplete of notBooleans) {
      const { name } = model.newItem()
      expectRefused(await client.send('POST', itemsPath, { name, isComplete }))
      expectRefused(await client.send('PUT', itemPath(target.id), withId(target.id, { name, isComplete })))
    }
    const inherited = `{"name":"${model.newItem().name}","__proto__":{"isComplete":true}}`
    expectRefused(await client.send('POST', itemsPath, inherited))
    await model.expectStored('refused requests')
  }),
]

const operationChecks: readonly Check[] = [
  spec('A10', 'a secret that is sent is neither stored, copied nor returned', async (client) => {
    const model = newModel(client)
    const target = await model.create()
    const newSecret = (index: number) =>
      [uniqueText(), randomInt(10 ** 12, 10 ** 13), { value: uniqueText() }][index % 3]
    for (const index of [0, 1, 2]) {
      // A server may refuse unknown members (choice, G4). What it returns is inspected with every response.
      for (const name of [model.newItem().name, null]) {
        const content = { ...model.newItem(), name }
        const created = await postItem(client, profile, content, { secret: newSecret(index) })
        if (isSuccess(created)) model.add(created, content)
        const changed = { ...target, name, isComplete: index === 0 }
        if (isSuccess(await profile.update(client, changed, { secret: newSecret(index) }))) model.set(changed)
      }
      await client.send('POST', itemsPath, { secret: newSecret(index), name: uniqueText() })
      await client.send('POST', itemsPath, `{"secret":"${uniqueText()}","isComplete":tru}`)
      await client.send('PUT', itemPath(target.id), withId(target.id, { secret: newSecret(index), isComplete: 'x' }))
    }
    await model.expectStored('POST and PUT with a secret')
  }),
  choice('A2', 'HEAD on an item returns the status of GET without the body', async (client) => {
    const { id } = await create(client)
    for (const path of [itemPath(id), itemPath(0n)]) {
      const { status } = await client.send('GET', path)
      expectEmpty(await client.send('HEAD', path), status)
    }
  }),
  providing(
    'Location',
    spec('A3', 'Location is the absolute URI of the created item', async (client) => {
      for (const query of ['', '?from=verify']) {
        const response = await client.send('POST', `${itemsPath}${query}`, newItem())
        // Queries are not specified.
        if (query !== '' && !isSuccess(response)) continue
        const { id } = observe('create', () => expectObject(response))
        const { location = '' } = response.headers
        expectThat(/^https?:\/\/[^/]/i.test(location) && URL.canParse(location), 'an absolute Location', response)
        const expected = `${client.publicUrl}${itemsPath}/${id}`
        const isSame = normalizeUrl(location) === normalizeUrl(expected)
        expectThat(isSame, `Location: ${expected} (--public-url sets another base)`, response)
      }
    }),
  ),
  choice('A7', 'PUT without name sets it to null', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    observeOperation(await client.send('PUT', itemPath(id), withId(id, { isComplete: true })), expectSuccess)
    model.set({ id, name: null, isComplete: true })
    await model.expectStored('PUT without name')
  }),
]

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
    ])
      await expectIdIgnored(client, newModel(client), id)
  }),
  choice('A4', 'ids ascend and are never reused', async (client) => {
    const model = newModel(client)
    const first = await model.create()
    await model.remove(first)
    const second = await model.create()
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  choice('A8', 'PUT returns 400 when the body id is absent, null or not an integer', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    const content = newItem({ isComplete: true })
    expectBadRequest(await client.send('PUT', itemPath(id), content))
    for (const other of ['null', `"${id}"`, `[${id}]`, '{}', 'true', `${id}.5`, `${id}.00000000000000000001`])
      expectBadRequest(await client.send('PUT', itemPath(id), withId(other, content)))
    await model.expectStored('PUT with an invalid body id')
  }),
  choice('A8', 'PUT checks id syntax, body, equal ids and existence in this order', async (client) => {
    const [unused = 0n, other = 0n] = await profile.unusedIds(client, await create(client))
    expectStatus(await client.send('PUT', itemPath('abc'), 'x', { 'content-type': 'text/plain' }), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${unused}}`), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${other},"isComplete":true}`), 400)
    expectStatus(await client.send('PUT', itemPath(unused), `{"id":${unused},"isComplete":true}`), 404)
  }),
  choice('G4', 'the last of duplicate ids in a PUT body is compared', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    const duplicateIds = (first: TodoItemA['id'], last: TodoItemA['id']) =>
      `{"id":${first},"name":"changed","isComplete":true,"nested":{"id":${id}},"text":"\\"id\\":0,\\\\","\\u0069d":${last}}`
    expectBadRequest(await client.send('PUT', itemPath(id), duplicateIds(id, 0n)))
    await model.expectStored('PUT with another id at the end')
    observeOperation(await client.send('PUT', itemPath(id), duplicateIds(0n, id)), expectSuccess)
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
      client.send('PUT', itemPath(path), withId(id, newItem({ isComplete: true })))
    // No item has these ids: a server that looks for the item first returns 404 whatever the ids (choice, A8).
    if ((await put('9007199254740993', '1')).status === 404) return
    expectBadRequest(await put('9007199254740993', '9007199254740992'))
    expectBadRequest(await put('9007199254740992', '9007199254740993'))
    expectBadRequest(await put('9223372036854775807', '9223372036854775806'))
    expectBadRequest(await put('-9223372036854775808', '-9223372036854775807'))
  }),
  spec('A11', 'ids that differ by 2^32, 2^53 or 2^64 are different', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    for (const distance of [2n ** 32n, 2n ** 53n, maxInt64 - BigInt(id)]) {
      const response = await client.send('GET', itemPath(BigInt(id) + distance))
      // The status, 404, is that of another check (A2).
      expectThat(!response.text.includes(model.mark), 'no item with the id', response)
    }
    expectBadRequest(await client.send('PUT', itemPath(id), withId(BigInt(id) + 2n ** 64n, newItem())))
    await model.expectStored('PUT with a body id that differs by 2^64')
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
  choice('A5', 'an absent name is null', async (client) => {
    const response = await client.send('POST', itemsPath, { isComplete: false })
    newModel(client).add(response, { id: 0, name: null, isComplete: false })
  }),
  choice('A5', 'a name of another type returns 400', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    for (const name of [1, true, {}, [], ['x']]) {
      expectStatus(await client.send('POST', itemsPath, { name, isComplete: false }), 400)
      expectBadRequest(await client.send('PUT', itemPath(id), withId(id, { name, isComplete: true })))
    }
    await model.expectStored('PUT with a name of another type')
  }),
  choice('A6', 'the status without a boolean isComplete is 400', async (client) => {
    const { id } = await create(client)
    for (const isComplete of notBooleans) {
      expectStatus(await client.send('POST', itemsPath, { name: uniqueText(), isComplete }), 400)
      expectStatus(await client.send('PUT', itemPath(id), withId(id, { name: 'changed', isComplete })), 400)
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
    expectProblem(await client.send('PUT', itemPath(id), withId(BigInt(id) + 1n, { isComplete: true })), 400)
  }),
  choice('A13', 'a validation problem lists messages by member', async (client) => {
    const { errors = {} } = expectProblem(await client.send('POST', itemsPath, { name: 1 }), 400)
    const members = Object.keys(errors as object)
    const isKnown = members.length > 0 && members.every((member) => ['isComplete', 'name'].includes(member))
    expectThat(isKnown, 'errors for name or isComplete')
    const isText = (message: unknown) => typeof message === 'string' && message !== ''
    expectThat(
      Object.values(errors as object).every((messages) => [messages].flat().every(isText)),
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

const checks: readonly Check[] = [
  ...basicChecks,
  ...stateChecks,
  ...store.further,
  ...textChecks(profile, ['name'], ['POST', 'PUT']),
  ...operationChecks,
  ...commonChecks(profile),
  ...idChecks,
  ...bodyChecks,
  ...endpointChecks,
  ...sampleMethodChecks,
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
