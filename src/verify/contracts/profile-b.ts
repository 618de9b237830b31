import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { asSecondCaller, type Client, type Response } from '../../common/client.ts'
import { unlessUndeletable } from '../engine/cleanup.ts'
import {
  type Check,
  choice,
  defineContract,
  isFromThisRun,
  onOwnServer,
  onUntouchedStore,
  overPlainHttp,
  spec,
  uniqueText,
} from '../engine/contract.ts'
import {
  citing,
  expectContentType,
  expectEmpty,
  expectItems,
  expectMembers,
  expectMethodNotAllowed,
  expectStatus,
  expectSuccess,
  expectTextType,
  expectThat,
  isSuccess,
} from '../engine/expect.ts'
import { commonChecks, openControl, sampleMethodChecks, textChecks } from './common.ts'
import { codeInvariants, errorCodes, invariants } from './invariants.ts'
import { allOf, deleteItem, observeOperation, type Profile, populate, postItem, StoreModel } from './model.ts'
import { hasFailed, itemPath, itemsPath, observe, observeUnlessFailed, ofProfile, providing } from './rules.ts'
import { endpointChecks, sampleChecks } from './samples.ts'
import { expectSingleSuccess, storeChecks } from './store.ts'

interface TodoItemB {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

const newItem = (members: Partial<TodoItemB> = {}): TodoItemB => ({
  id: uniqueText(),
  name: uniqueText(),
  notes: uniqueText(),
  done: false,
  ...members,
})

/** Whether a body is the code and nothing else is another check (B9); where bodies have no code, the status is judged. */
function expectError(response: Response, status: number, code: string): void {
  observeOperation(response, () => expectStatus(response, status))
  const hasCode = () => expectThat(response.text.includes(code), `the body ${code}`, response)
  if (errorCodes.some((other) => response.text.includes(other))) hasCode()
  else observeUnlessFailed('error codes', hasCode)
}

/** B9. A wrong status is the business of other checks. */
function expectOnlyCode(response: Response): void {
  if (response.status < 400) return
  observeOperation(response, () => {
    expectThat(errorCodes.includes(response.text), 'an error code as the body, and nothing else', response)
    expectTextType(response)
  })
}

const expectMissingMember = (response: Response) => expectError(response, 400, 'TodoItemNameAndNotesRequired')
const expectNotFound = (response: Response) => expectError(response, 404, 'RecordNotFound')
const expectCouldNotCreate = (response: Response) => expectError(response, 400, 'CouldNotCreateItem')
const expectCouldNotUpdate = (response: Response) => expectError(response, 400, 'CouldNotUpdateItem')

const isSimple = (id: string) => /^[\w.-]{1,50}$/.test(id)

const similarIds = ({ id, name, notes }: TodoItemB) => [
  id.slice(0, -1),
  `${id}x`,
  id.slice(1),
  `${id.slice(0, -1)}_`,
  `${id.slice(0, -4)}%`,
  `${id.slice(0, -4)}*`,
  name,
  notes,
]

const profile: Profile<TodoItemB> = {
  rules: {
    list: 'B1',
    create: 'B3',
    update: 'B7',
    remove: 'B8',
    updateMissing: 'B7',
    uniqueIds: 'B3',
    read: 'B1',
    unknownMembers: 'B1',
  },
  methods: { collection: ['GET', 'HEAD', 'POST', 'PUT'], item: ['DELETE'] },
  members: ['id', 'name', 'notes', 'done'],
  requiredMember: 'notes',
  createdStatus: 200,
  newItem: (name) => newItem({ name }),
  changes: (name, done) => ({ name, notes: uniqueText(), done }),
  body: (item) => item,
  update: (client, item, unknown) => client.send('PUT', itemsPath, { ...unknown, ...item }),
  unusedIds: async (_, item) => [uniqueText(), ...similarIds(item)],
  expectCreated(response, item) {
    expectMembers(response, item)
    return item
  },
  // Which ids a server refuses is not specified.
  expectNotFound: (response, id) =>
    isSimple(id) || !/CouldNot/.test(response.text) ? expectNotFound(response) : undefined,
  expectUnsupportedMediaType: expectMissingMember,
  expectInvalidBody: expectMissingMember,
  expectBodyTooLarge: expectCouldNotCreate,
  expectUnstorableText: expectCouldNotCreate,
  // A text may be one that is not stored (B6); a blank one may count as missing, an id as equal to another (choice).
  mayRefuse: ({ status, text }, sent) =>
    status === 409 ||
    tooLong.includes(status) ||
    (status === 400 && (/CouldNot/.test(text) || sent.trim() === '' || hasFailed('error codes'))),
  isOfType: (name, value) => typeof value === (name === 'done' ? 'boolean' : 'string'),
  invariants: codeInvariants,
}

/** What a server, or a proxy before it, returns for what is longer than its limit, which is not specified. */
const tooLong = [413, 414, 431]

const store = storeChecks(profile)
const newModel = (client: Client) => new StoreModel(client, profile)
const create = (client: Client, members: Partial<TodoItemB> = {}) => newModel(client).create(members)

async function listItems(client: Client): Promise<TodoItemB[]> {
  const response = await client.send('GET', itemsPath)
  return observe('list', () => expectItems<TodoItemB>(response))
}

/** The checks that others build on, the most basic first. */
const basicChecks: readonly Check[] = [
  store.list,
  ...store.created,
  onUntouchedStore(
    spec('G7', 'the store starts with three items', async (client) => {
      expectThat((await listItems(client)).length === 3, 'three items')
    }),
  ),
  onUntouchedStore(
    spec('B2', 'the initial items have different ids, and names and notes', async (client) => {
      const response = await client.send('GET', itemsPath)
      const initial = observe('list', () => expectItems(response))
      for (const item of initial) {
        const { id, name, notes } = item
        const isComplete = [id, name, notes].every((text) => typeof text === 'string' && text !== '')
        expectThat(isComplete, 'an id, a name and notes in each', response)
      }
      expectThat(new Set(initial.map(({ id }) => id)).size === 3, 'three different ids', response)
    }),
  ),
  onUntouchedStore(
    spec('B2', 'the first of the three initial items is done, the others are not', async (client) => {
      const done = (await listItems(client)).map((item) => item.done)
      const model = newModel(client)
      const created = [await model.create(), await model.create(), await model.create()].map(({ id }) => id)
      const readOrder = async () => (await listItems(client)).map(({ id }) => id)
      const [order, ...others] = [await readOrder(), await readOrder(), await readOrder()]
      const createdInOrder = order.filter((id) => created.includes(id))
      for (const id of created) await deleteItem(client, id)
      // Which is the first cannot be told from a list in another order, or in a new one each time (choice, B1).
      const isOrdered =
        isDeepStrictEqual(createdInOrder, created) && others.every((other) => isDeepStrictEqual(other, order))
      const expected = [true, false, false]
      const isRight = isDeepStrictEqual(isOrdered ? done : [...done].sort().reverse(), expected)
      expectThat(isRight, `done to be ${expected}, not ${done}`)
    }),
  ),
  ...store.listed,
  ...store.changed,
  spec('G1', 'a path parameter keeps its case', async (client) => {
    const model = newModel(client)
    const items = [
      await model.create({ id: `Case-${uniqueText()}` }),
      await model.create({ id: `Case-${uniqueText()}` }),
    ]
    for (const [index, item] of items.entries()) {
      const path = index === 0 ? itemPath(item.id) : itemPath(item.id).replace(itemsPath, '/API/TodoItems')
      observeOperation(await client.send('DELETE', path), expectSuccess)
      model.recordRemoved(item.id)
      await model.expectStored(`DELETE of ${path}`)
    }
  }),
  providing(
    'error codes',
    spec('B9', 'error bodies are the code as plain text', async (client) => {
      for (const [index, accept] of [undefined, 'application/json', 'text/html,*/*;q=0.8', 'text/plain'].entries()) {
        const caller = index % 2 === 0 ? client : asSecondCaller(client)
        const send = (method: string, path: string, body?: unknown) => caller.send(method, path, body, { accept })
        const responses = [
          await send('POST', itemsPath, {}),
          await send('PUT', itemsPath, {}),
          await send('PUT', itemsPath, newItem()),
          await send('DELETE', itemPath(uniqueText())),
          await send('POST', itemsPath, '{"broken'),
          await send('PUT', itemsPath, '{"broken'),
        ]
        for (const response of responses) if (response.status !== 406) expectOnlyCode(response)
      }
    }),
  ),
]

/** More than what a server may have at hand of the last items. */
const itemsBeside = 30

/** After each operation: the item in the list and every other item, compared with a model of the store. */
const stateChecks: readonly Check[] = [
  spec('B5', 'POST returns 409 when the id is in use, and changes nothing', async (client) => {
    const { model, target } = await populate(client, profile)
    for (const item of [{ ...model.newItem(), id: target.id, done: true }, target]) {
      expectError(await client.send('POST', itemsPath, item), 409, 'TodoItemIDInUse')
      await model.expectStored(`POST with the id ${target.id} of another item`)
    }
    while (model.items.length < itemsBeside) await model.create()
    expectError(await client.send('POST', itemsPath, { ...model.newItem(), id: target.id }), 409, 'TodoItemIDInUse')
    const replaced = await model.update(target, { notes: uniqueText(), done: true })
    expectError(await client.send('POST', itemsPath, replaced), 409, 'TodoItemIDInUse')
    await model.expectStored(`POST with the id ${target.id}, which a PUT has replaced`)
  }),
  spec('B5', 'ids that are not equal are not in use', async (client) => {
    const { model, target } = await populate(client, profile)
    const ids = [...similarIds(target).slice(0, 3), ...['1', '2'].map((end) => `${target.id}${'-'.repeat(35)}${end}`)]
    // The last two are the same number to a parser of 64-bit floating point.
    const number = BigInt(randomInt(10 ** 8, 10 ** 9)) * 2n ** 53n
    for (const id of [...ids, `${number}`, `${number + 1n}`]) await model.create({ id }, observe)
    await model.expectStored('POST of ids that start or end alike')
  }),
  spec('B8', 'of ids that a server tells apart, DELETE and PUT mean the one that they name', async (client) => {
    const model = newModel(client)
    for (const [one, other] of [
      ['abc', 'ABC'],
      ['7', '007'],
      ['1', '1.0'],
      ['\u00e9', 'e\u0301'],
      ['x', 'x '],
      // Patterns, should a server look for an id with LIKE, a glob or a regular expression.
      ...['x_y', 'x%y', 'x*y', 'x?y', 'x.y'].map((pattern) => ['xay', pattern]),
    ]) {
      const start = uniqueText()
      const items = [one, other].map((end) => model.newItem({ id: `${start}${end}` }))
      const created = await allOf(items.map((item) => unlessUndeletable(postItem(client, profile, item))))
      for (const [index, item] of items.entries()) if (created[index]?.status === 200) model.add(created[index], item)
      // Whether they are equal is a choice (B5).
      if (created.some((response) => response?.status !== 200)) continue
      const [first, second] = items as [TodoItemB, TodoItemB]
      await model.update(second, { done: true }, observe)
      await model.expectStored(`PUT of ${second.id} beside ${first.id}`)
      await model.remove(second, observe)
      await model.expectStored(`DELETE of ${second.id} beside ${first.id}`)
    }
  }),
  spec('B5', 'an id can be used again after its item is deleted', async (client) => {
    const { model, target } = await populate(client, profile)
    await model.update(target, { notes: uniqueText(), done: true })
    await model.remove(target)
    await model.createFrom(target, observe)
    await model.expectStored(`DELETE and POST of ${target.id}`)
  }),
  spec('B7', 'an item is found after its id was not', async (client) => {
    const { model } = await populate(client, profile)
    const item = model.newItem()
    await client.send('PUT', itemsPath, item)
    await client.send('DELETE', itemPath(item.id))
    await model.createFrom(item)
    await model.update(item, { done: true }, observe)
    await model.expectStored(`PUT of ${item.id}, which was not found before`)
    await model.remove(item, observe)
    await model.expectStored(`DELETE of ${item.id}`)
  }),
  spec('B7', 'PUT keeps nothing of the item from before', async (client) => {
    const model = newModel(client)
    const item = await model.create({ done: true })
    const { done: _, ...withoutDone } = { ...item, notes: uniqueText() }
    const variants = [withoutDone, { ...item, notes: '' }, { ...item, notes: null }, { ...item, name: '' }]
    for (const sent of variants) {
      await model.update(item, item)
      const response = await client.send('PUT', itemsPath, sent)
      // Whether a blank text counts as missing is a choice (B4).
      if (!isSuccess(response)) continue
      const [stored] = (await listItems(client)).filter(({ id }) => id === item.id)
      for (const member of ['name', 'notes', 'done'] as const)
        if ((sent as Partial<TodoItemB>)[member] !== item[member])
          observe('update', () =>
            expectThat(stored?.[member] !== item[member], `another ${member} than before: ${JSON.stringify(stored)}`),
          )
    }
  }),
  spec('B8', 'an item is deleted by its id, with every character that a path may have', async (client) => {
    const separators = [...'~_-+;,=:@!$&()*'].map((char) => `${char}x`)
    for (const end of ['.json', '.a.b', 'A', ...separators]) {
      const model = newModel(client)
      const start = await model.create()
      const item = model.newItem({ id: `${start.id}${end}` })
      const created = await postItem(client, profile, item)
      if (profile.mayRefuse(created, item.id)) continue
      model.add(created, item)
      // Not encoded: these characters are part of a path segment as they are (RFC 3986, 3.3).
      const removed = await client.send('DELETE', `${itemsPath}/${item.id}`)
      // A server may refuse a path (B6), but not say that there is no item.
      if (/CouldNotDelete/.test(removed.text)) await deleteItem(client, item.id)
      else observeOperation(removed, expectSuccess)
      model.forget(item)
      await model.expectStored(`DELETE of ${item.id}`)
      await model.remove(start)
    }
  }),
  spec('B8', 'names of built-in members and of other values are ids like any other', async (client) => {
    for (const id of wellKnownIds) await expectUsualIdInTheEnd(client, id)
  }),
  spec('B5', 'a POST beside a DELETE, or beside a PUT, leaves what one of their orders would', async (client) => {
    const model = newModel(client)
    for (let round = 0; round < 6; round++) {
      const [old, fresh] = [await model.create(), model.newItem()]
      const next = model.newItem({ id: old.id, done: true })
      const [removed, posted] = await allOf([deleteItem(client, old.id), client.send('POST', itemsPath, next)])
      observeOperation(removed, expectSuccess)
      model.recordRemoved(old.id)
      if (posted.status === 409) observe('create', () => expectError(posted, 409, 'TodoItemIDInUse'))
      else model.add(posted, next)
      const replaced = model.newItem({ id: fresh.id, done: true })
      const [put, created] = await allOf([
        client.send('PUT', itemsPath, replaced),
        client.send('POST', itemsPath, fresh),
      ])
      model.add(created, fresh)
      if (isSuccess(put)) model.set(replaced)
      else expectNotFound(put)
      await model.expectStored(`requests that overlapped (round ${round + 1})`)
      for (const item of model.items) await model.remove(item)
    }
  }),
  spec('B5', 'exactly one of ten concurrent POSTs with the same id succeeds', async (client) => {
    const model = newModel(client)
    const item = model.newItem()
    model.add(await expectSingleSuccess(() => client.send('POST', itemsPath, item), 409), item)
    await model.expectStored('ten concurrent POSTs')
  }),
  ...(['id', 'name', 'notes'] as const).map((member) =>
    spec('B4', `POST and PUT without ${member} are refused, and change nothing`, async (client) => {
      const { model, target } = await populate(client, profile)
      const without = (item: TodoItemB) => ({ ...item, [member]: undefined })
      const refused = model.newItem()
      expectMissingMember(await client.send('POST', itemsPath, without(refused)))
      await model.createFrom(refused, observe)
      expectMissingMember(await client.send('PUT', itemsPath, without({ ...model.newItem(), id: target.id })))
      const long = { ...model.newItem(), [member === 'name' ? 'notes' : 'name']: 'x'.repeat(longButUsual) }
      const accepted = newItem({ notes: 'x'.repeat(longButUsual) })
      // What is too long for a server gets another code (B6).
      const isAccepted = isSuccess(await client.send('POST', itemsPath, accepted))
      if (isAccepted) expectMissingMember(await client.send('POST', itemsPath, without(long)))
      await model.expectStored(`requests without ${member}`)
    }),
  ),
]

const isRedirectToHttps = ({ headers }: Response) => /^https:/i.test(headers.location ?? '')

const operationChecks: readonly Check[] = [
  overPlainHttp(
    spec('B12', 'plain HTTP is served or redirected to HTTPS', async (client) => {
      const response = await client.send('GET', itemsPath)
      if (isRedirectToHttps(response)) return
      const asBrowser = await client.send('GET', itemsPath, undefined, { 'upgrade-insecure-requests': '1' })
      expectThat(!isRedirectToHttps(asBrowser), 'no redirect of a browser either', asBrowser)
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
  spec('B4', 'POST and PUT require no done', async (client) => {
    const { done: _, ...withoutDone } = newItem()
    for (const method of ['POST', 'PUT'])
      observeOperation(await client.send(method, itemsPath, withoutDone), expectSuccess)
  }),
  choice('B3', 'an absent done means false', async (client) => {
    const model = newModel(client)
    const { done: _, ...rest } = model.newItem()
    model.add(await client.send('POST', itemsPath, rest), { ...rest, done: false })
    await model.expectStored('POST without done')
  }),
  choice('B7', 'PUT without done sets it to false', async (client) => {
    const model = newModel(client)
    const { done: _, ...rest } = await model.create({ done: true })
    observeOperation(await client.send('PUT', itemsPath, rest), expectSuccess)
    model.set({ ...rest, done: false })
    await model.expectStored('PUT without done')
  }),
  choice('B7', 'a replaced item keeps its position in the list', async (client) => {
    const { model, target } = await populate(client, profile)
    const before = model.items.map(({ id }) => id)
    await model.update(target, { name: model.newItem().name })
    const after = (await listItems(client)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  onOwnServer(
    spec('B5', 'POST returns 409 for the ids of the initial items', async (client) => {
      for (const item of await listItems(client))
        expectError(await client.send('POST', itemsPath, { ...newItem(), id: item.id }), 409, 'TodoItemIDInUse')
    }),
  ),
  onOwnServer(
    spec('B7', 'the initial items can be changed', async (client) => {
      const model = newModel(client)
      for (const item of await listItems(client)) {
        await model.update(item, { notes: uniqueText(), done: !item.done }, observe)
        await model.expectStored(`PUT of ${item.id}`)
      }
    }),
  ),
  onOwnServer(
    spec('B8', 'the initial items can be deleted, and do not come back', async (client) => {
      for (const { id } of await listItems(client)) expectSuccess(await client.send('DELETE', itemPath(id)))
      for (let time = 0; time < 2; time++) {
        const response = await client.send('GET', itemsPath)
        expectThat(expectItems(response).length === 0, 'an empty array', response)
      }
    }),
  ),
  choice('B10', 'every method but DELETE on an item returns 405', async (client) => {
    const { id } = await create(client)
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'PATCH'])
      expectMethodNotAllowed(await client.send(method, itemPath(id)), ['DELETE'])
  }),
]

const attemptsWithId = 3
const maxPauseMs = 300

/** Another run may use the same ids at this moment. */
async function expectUsualIdInTheEnd(client: Client, id: string): Promise<void> {
  let cause: unknown
  for (let attempt = 1; attempt <= attemptsWithId; attempt++) {
    const used = (await listItems(client)).find((item) => item.id === id)
    if (used && isFromThisRun(used.name)) break
    if (used) return
    cause = await expectUsualId(client, id).catch((error: unknown) => error)
    if (cause === undefined) return
    await delay(randomInt(maxPauseMs))
  }
  throw cause
}

/** The id can be used like any other. */
async function expectUsualId(client: Client, id: string): Promise<void> {
  const model = newModel(client)
  const item = model.newItem({ id })
  expectNotFound(await deleteItem(client, id))
  expectNotFound(await profile.update(client, item))
  const created = await postItem(client, profile, item)
  citing('B5', () => observe('create', () => expectThat(created.status !== 409, 'an id that is not in use', created)))
  if (profile.mayRefuse(created, id)) return
  citing('B3', () => model.add(created, item))
  expectError(await client.send('POST', itemsPath, item), 409, 'TodoItemIDInUse')
  await model.update(item, { done: true }, observe)
  await model.expectStored(`POST and PUT of ${id}`)
  await model.remove(item, observe)
  await model.expectStored(`DELETE of ${id}`)
}

/** Characters of a long, but usual text. */
const longButUsual = 40_000

/** In a path they need no encoding. */
const wellKnownIds = [
  'constructor',
  '__proto__',
  'toString',
  'hasOwnProperty',
  'null',
  'undefined',
  'true',
  '0',
  '-1',
  '1e3',
  'NaN',
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
  choice('B5', 'ids are compared exactly', async (client) => {
    const model = newModel(client)
    const id = uniqueText()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await model.create({ id: other }, observe)
    const digits = await model.create({ id: `${randomInt(10 ** 12, 10 ** 13)}` })
    expectNotFound(await client.send('DELETE', itemPath(`0${digits.id}`)))
    const stored = await model.create({ id: `Case-${uniqueText()}` })
    expectNotFound(await client.send('DELETE', itemPath(stored.id.toUpperCase())))
    expectNotFound(await client.send('PUT', itemsPath, { ...stored, id: stored.id.toUpperCase() }))
    await model.expectStored('requests with ids that are not equal')
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
  const model = newModel(client)
  // Where it cannot be deleted, it is not created.
  expectNotFound(await deleteItem(client, id))
  const item = await model.create({ id }, observe)
  await model.update(item, { done: true }, observe)
  await model.expectStored('PUT')
  await model.remove(item, observe)
  await model.expectStored('DELETE')
}

/** B6: limits are no part of the specification, but how a request fails is. */
function expectSuccessOr(response: Response, ...codes: string[]): void {
  if (isSuccess(response) || tooLong.includes(response.status)) return
  const expected = codes.map((code) => ({ status: code === 'RecordNotFound' ? 404 : 400, code }))
  const matching = expected.filter(({ status }) => status === response.status)
  const message = `success or ${expected.map(({ status, code }) => `${status} ${code}`).join(' or ')}`
  observeOperation(response, () => expectThat(matching.length > 0, message, response))
  const hasCode = matching.some(({ code }) => response.text.includes(code))
  observeUnlessFailed('error codes', () => expectThat(hasCode, message, response))
}

const notTexts = [null, '', ' ', '\t\n', 0, true, {}, ['x']]

/** B4: values that count as missing. */
const invalidValues = { id: notTexts, name: notTexts, notes: notTexts, done: [null, 'true', 0, 1, {}, []] }

/** B6: an id over the length limit, which is a choice. */
const longId = () => `${uniqueText()}-${'x'.repeat(1024)}`

const errorChecks: readonly Check[] = [
  spec('B4', 'POST and PUT without a body, or without members, return 400', async (client) => {
    for (const method of ['POST', 'PUT'])
      for (const body of [undefined, '', {}]) expectMissingMember(await client.send(method, itemsPath, body))
  }),
  ...Object.entries(invalidValues).flatMap(([member, values]) =>
    values.map((value) =>
      choice('B4', `${member} ${JSON.stringify(value)} counts as missing`, async (client) => {
        const model = newModel(client)
        const { id } = await model.create()
        for (const [method, item] of [
          ['POST', model.newItem()],
          ['PUT', model.newItem({ id })],
        ] as const)
          expectMissingMember(await client.send(method, itemsPath, { ...item, [member]: value }))
        await model.expectStored(`requests with an invalid ${member}`)
      }),
    ),
  ),
  choice('B4', 'PUT treats a malformed body, a non-object and another media type as a missing body', async (client) => {
    const model = newModel(client)
    const { id } = await model.create()
    const text = JSON.stringify(model.newItem({ id }))
    for (const body of ['', '{', 'null', `[${text}]`, text.slice(1)])
      expectMissingMember(await client.send('PUT', itemsPath, body))
    expectMissingMember(await client.send('PUT', itemsPath, text, { 'content-type': 'text/plain' }))
    expectMissingMember(await client.send('PUT', itemsPath, text, { 'content-type': undefined }))
    await model.expectStored('rejected PUTs')
  }),
  choice('B5', 'a missing member is reported before an id in use', async (client) => {
    const item = await create(client)
    expectMissingMember(await client.send('POST', itemsPath, { ...item, notes: '' }))
  }),
  spec('B6', 'what fails for another reason returns a CouldNot… code', async (client) => {
    const item = await create(client)
    const notes = 'x'.repeat(2 ** 20)
    const post = async (body: unknown, ...codes: string[]) =>
      expectSuccessOr(await client.send('POST', itemsPath, body), 'CouldNotCreateItem', ...codes)
    const put = async (body: unknown, ...codes: string[]) =>
      expectSuccessOr(await client.send('PUT', itemsPath, body), 'CouldNotUpdateItem', ...codes)
    await post(newItem({ notes }))
    await unlessUndeletable(post(newItem({ id: longId() })))
    await put({ ...item, notes })
    await put(newItem({ id: longId() }), 'RecordNotFound')
    await post(newItem({ name: 'a\0b' }))
    await put({ ...item, name: 'a\0b' })
    // A parser may reject a lone surrogate: then it is malformed JSON, and so a missing body (choice, B4).
    await post(newItem({ name: 'x\ud800' }), 'TodoItemNameAndNotesRequired')
    await put({ ...item, name: 'x\ud800' }, 'TodoItemNameAndNotesRequired')
  }),
  choice('B6', 'DELETE of a long id returns 404 or a CouldNot… code', async (client) => {
    const response = await client.send('DELETE', itemPath(longId()))
    expectSuccessOr(response, 'CouldNotDeleteItem', 'RecordNotFound')
  }),
  choice('B6', 'a body over the size limit returns a CouldNot… code', async (client) => {
    const model = newModel(client)
    const item = await model.create()
    const notes = 'x'.repeat(2 ** 20)
    expectCouldNotCreate(await client.send('POST', itemsPath, model.newItem({ notes })))
    expectCouldNotUpdate(await client.send('PUT', itemsPath, { ...item, notes }))
    await model.expectStored('rejected requests')
  }),
  choice('B6', 'an id over the length limit returns a CouldNot… code', async (client) => {
    const model = newModel(client)
    for (const id of ['x'.repeat(1025), 'y'.repeat(1100)]) {
      // Where it cannot be deleted, it is not created.
      expectError(await deleteItem(client, id), 400, 'CouldNotDeleteItem')
      expectCouldNotCreate(await client.send('POST', itemsPath, model.newItem({ id })))
      expectCouldNotUpdate(await client.send('PUT', itemsPath, model.newItem({ id })))
    }
    await model.expectStored('rejected requests')
  }),
  choice('B6', 'a lone surrogate returns a CouldNot… code', async (client) => {
    const model = newModel(client)
    const item = await model.create()
    for (const member of ['name', 'notes'])
      expectCouldNotUpdate(await client.send('PUT', itemsPath, { ...item, [member]: 'x\ud800' }))
    expectCouldNotCreate(await client.send('POST', itemsPath, model.newItem({ id: 'x\udfff' })))
    await model.expectStored('rejected requests')
  }),
  spec('B9', 'the bodies of rarer errors are the code as plain text', async (client) => {
    const item = await create(client)
    const inUse = await client.send('POST', itemsPath, item)
    const refused = await unlessUndeletable(client.send('POST', itemsPath, newItem({ id: longId() })))
    // Whether they have a code is the business of B5 and B6.
    for (const response of [inUse, refused].filter((one) => one !== undefined))
      if (errorCodes.some((code) => response.text.includes(code))) expectOnlyCode(response)
  }),
  choice('B9', 'error bodies declare charset=utf-8', async (client) => {
    const response = await client.send('POST', itemsPath, {})
    observe('error codes', () => expectContentType(response, 'text/plain; charset=utf-8'))
  }),
  choice('G8', 'an error response contains only its code', async (client) => {
    expectNotFound(await client.send('DELETE', itemPath(uniqueText())))
    expectMissingMember(await client.send('POST', itemsPath, '{"broken'))
    expectEmpty(await client.send('GET', '/nowhere'), 404)
  }),
]

const checks: readonly Check[] = [
  ...basicChecks,
  ...stateChecks,
  ...store.further,
  ...textChecks(profile, ['name', 'notes'], ['POST', 'PUT']),
  ...operationChecks,
  ...commonChecks(profile),
  ...errorChecks,
  ...idChecks,
  ...textChecks(profile, ['id'], ['POST']),
  ...endpointChecks,
  ...sampleMethodChecks,
  ...sampleChecks(profile),
  ...invariants(profile),
]

/** An id over the limit of B6 may be sent: it is refused, or can be deleted. */
const isStated = ({ text }: Response, id: string) =>
  text === 'RecordNotFound' || (text === 'CouldNotDeleteItem' && /^[\w-]{1025,1100}$/.test(id))

export const profileB = defineContract({
  name: 'Profile B',
  ...ofProfile('B'),
  checks,
  items: { path: itemsPath, initialCount: 3, isStated },
  openControl,
})
