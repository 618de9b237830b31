import { randomBytes, randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { unlessUndeletable } from '../engine/cleanup.ts'
import { asSecondCaller, type Client, type Response } from '../engine/client.ts'
import {
  type Check,
  choice,
  defineContract,
  onOwnServer,
  onUntouchedStore,
  overPlainHttp,
  spec,
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
import { isFromThisRun, uniqueText } from '../engine/state.ts'
import { commonChecks, expectRefused, openControl, textChecks } from './common.ts'
import { codeInvariants, type ErrorCode, errorCodes, invariants, statusOf } from './invariants.ts'
import {
  allOf,
  deleteItem,
  observeOperation,
  type Profile,
  populate,
  postItem,
  rewriting,
  StoreModel,
  withValue,
} from './model.ts'
import { hasFailed, itemPath, itemsPath, observe, ofProfile, providing } from './rules.ts'
import { endpointChecks, sampleChecks } from './samples.ts'
import { expectSomeOrder, storeChecks } from './store.ts'

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
function expectError(response: Response, ...allowed: readonly ErrorCode[]): void {
  const statuses = allowed.map(statusOf)
  const isStatus = statuses.includes(response.status)
  observeOperation(response, () => expectThat(isStatus, `status ${[...new Set(statuses)].join(' or ')}`, response))
  const matching = allowed.filter((code) => statusOf(code) === response.status)
  const isCode = matching.some((code) => response.text.includes(code))
  const expectCode = () => expectThat(isCode, `the body ${matching.join(' or ')}`, response)
  if (errorCodes.some((code) => response.text.includes(code))) expectCode()
  else if (!hasFailed('error codes')) observe('error codes', expectCode)
}

/** B9. A wrong status is the business of other checks. */
function expectOnlyCode(response: Response): void {
  if (response.status < 400) return
  observeOperation(response, () => {
    expectThat(
      errorCodes.some((code) => code === response.text),
      'an error code as the body, and nothing else',
      response,
    )
    expectTextType(response)
  })
}

const expectMissingMember = (response: Response) => expectError(response, 'TodoItemNameAndNotesRequired')
const expectNotFound = (response: Response) => expectError(response, 'RecordNotFound')
const expectCouldNot = (response: Response) =>
  expectError(response, response.request.method === 'POST' ? 'CouldNotCreateItem' : 'CouldNotUpdateItem')

/** B4: values that count as missing. */
const notTexts = [null, '', ' ', '\t\n', 0, true, {}, ['x']]
const invalidValues = Object.entries({
  id: notTexts,
  name: notTexts,
  notes: notTexts,
  done: [null, 'true', 0, 1, {}, []],
})

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
  invalidValues: invalidValues.map(([member, values]) => ['B4', member, values]),
  expectUnsupportedMediaType: expectMissingMember,
  expectInvalidBody: expectMissingMember,
  expectBodyTooLarge: expectCouldNot,
  expectUnstorableText: expectCouldNot,
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
      const created: string[] = []
      // Twice, because an order by hashes is that of their creation now and then.
      for (const [idKey, nameKey, isDone] of [...orderedByNothing, ...orderedByNothing]) {
        const [id, name] = [`${idKey}-${uniqueText()}`, `${nameKey}-${uniqueText()}`]
        await model.create({ id, name, notes: name, done: isDone })
        created.push(id)
      }
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
  providing(
    'error codes',
    spec('B9', 'error bodies are the code as plain text', async (client) => {
      for (const [index, accept] of [undefined, 'application/json', 'text/html,*/*;q=0.8', 'text/plain'].entries()) {
        const caller = rewriting(index % 2 === 0 ? client : asSecondCaller(client), { headers: { accept } })
        const responses = [
          ...['POST', 'PUT'].flatMap((method) => [{}, '{"broken'].map((body) => caller.send(method, itemsPath, body))),
          profile.update(caller, newItem()),
          deleteItem(caller, uniqueText()),
        ]
        for (const response of await allOf(responses)) if (response.status !== 406) expectOnlyCode(response)
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
      expectError(await client.send('POST', itemsPath, item), 'TodoItemIDInUse')
      await model.expectStored(`POST with the id ${target.id} of another item`)
    }
    while (model.items.length < itemsBeside) await model.create()
    expectError(await client.send('POST', itemsPath, { ...model.newItem(), id: target.id }), 'TodoItemIDInUse')
    const replaced = await model.update(target, { notes: uniqueText(), done: true })
    expectError(await client.send('POST', itemsPath, replaced), 'TodoItemIDInUse')
    await model.expectStored(`POST with the id ${target.id}, which a PUT has replaced`)
  }),
  spec('G1', 'a path parameter keeps its case', (client) =>
    expectUsualIds(client, [`Case-${uniqueText()}`, `Case-${uniqueText()}`], {
      pathOf: (id) => `/API/TodoItems/${id}`,
    }),
  ),
  spec(
    'B8',
    'ids that a server tells apart name one item each, and are free before its POST and after its DELETE',
    async (client) => {
      const start = uniqueText()
      // The last two are the same number to a parser of 64-bit floating point.
      const number = BigInt(randomInt(10 ** 8, 10 ** 9)) * 2n ** 53n
      const long = ['1', '2'].map((end) => `${start}${'-'.repeat(35)}${end}`)
      const others = [...long, start.slice(0, -1), `${start}x`, start.slice(1), `${number}`, `${number + 1n}`]
      // Of 12 and of 24 characters, as the ids of some databases.
      const hex = [6, 12].map((length) => randomBytes(length).toString('hex'))
      await expectUsualIds(client, [start, ...others, ...hex])
      const ends = confusable.map((end) => `${start}${end}`)
      await expectUsualIds(client, ends, { mayBeEqual: true })
    },
  ),
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
    const start = uniqueText()
    const ids = ['', '.json', '.a.b', 'A', ...[...'~_-+;,=:@!$&()*'].map((char) => `${char}x`)].map(
      (end) => start + end,
    )
    // Not encoded: these characters are part of a path segment as they are (RFC 3986, 3.3).
    await expectUsualIds(client, ids, { pathOf: (id) => `${itemsPath}/${id}`, mayBeEqual: true })
  }),
  spec('B8', 'DELETE of an id that no item has deletes none with a similar id', async (client) => {
    const model = newModel(client)
    const start = uniqueText()
    for (const end of ['', 'A']) await model.create({ id: start + end }, observe)
    // Whether a path can name such an id is a choice (B11).
    for (const end of similarEnds) await deleteItem(client, start + end)
    await model.expectStored(`DELETE of ${similarEnds.map((end) => start + end)}`)
  }),
  spec('B8', 'names of built-in members and of other values are ids like any other', async (client) => {
    for (const id of wellKnownIds) await expectUsualIdInTheEnd(client, id)
  }),
  spec('B5', 'of POSTs of one id at once, beside a PUT, exactly one succeeds', (client) =>
    expectSomeOrder(client, profile, ({ post, put }) => [post, post, put, post], true),
  ),
  spec('B5', 'a POST beside a DELETE and a PUT of the same id has the effect of one order of them', (client) =>
    expectSomeOrder(client, profile, ({ post, put, remove }) => [remove, post, put]),
  ),
  ...(['id', 'name', 'notes'] as const).map((member) =>
    spec('B4', `POST and PUT without ${member} are refused, and change nothing`, async (client) => {
      const absent = withValue(member, undefined)
      const other = member === 'name' ? 'notes' : 'name'
      const text = 'x'.repeat(longButUsual)
      const bodies = [absent, (json: string) => absent(withValue(other, text)(json))]
      // What is too long for a server gets another code (B6).
      const isAccepted = isSuccess(await client.send('POST', itemsPath, newItem({ [other]: text })))
      const rewrites = bodies.slice(0, isAccepted ? 2 : 1).map((body) => ({ body }))
      await expectRefused(client, profile, rewrites, expectMissingMember)
    }),
  ),
]

/** Beginnings of ids and names, and `done`: sorted by none of them, in either direction, these keep their order. */
const orderedByNothing = [
  ['m', 'm', false],
  ['z', 'a', true],
  ['a', 'z', false],
] as const

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
  choice('B3', 'an absent done means false, in POST and PUT', async (client) => {
    const model = newModel(client)
    const { done: _, ...rest } = model.newItem()
    const item = model.add(await client.send('POST', itemsPath, rest), { ...rest, done: false })
    await model.update(item, { done: true })
    observeOperation(await client.send('PUT', itemsPath, rest), expectSuccess)
    model.set(item)
    await model.expectStored('POST and PUT without done')
  }),
  choice('B7', 'a replaced item keeps its position in the list', async (client) => {
    const { model, target } = await populate(client, profile)
    const before = model.items.map(({ id }) => id)
    await model.update(target, { name: model.newItem().name })
    const after = (await listItems(client)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  onOwnServer(
    spec('B2', 'the initial items are in use, can be changed and deleted, and do not come back', async (client) => {
      const model = newModel(client)
      for (const item of await listItems(client)) {
        const posted = await client.send('POST', itemsPath, { ...newItem(), id: item.id })
        citing('B5', () => expectError(posted, 'TodoItemIDInUse'))
        await model.update(item, { notes: uniqueText(), done: !item.done }, observe)
      }
      await model.expectStored('PUT of each')
      for (const item of model.items) await model.remove(item, observe)
      for (let time = 0; time < 2; time++) {
        const response = await client.send('GET', itemsPath)
        citing('B8', () => expectThat(expectItems(response).length === 0, 'an empty array', response))
      }
    }),
  ),
  choice('B10', 'every method but DELETE on an item returns 405', async (client) => {
    const { id } = await create(client)
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'PATCH'])
      expectMethodNotAllowed(await client.send(method, itemPath(id)), ['DELETE'])
  }),
]

const attemptsWithId = 5
const maxPauseMs = 300

/** Another run may use the same ids at this moment. */
async function expectUsualIdInTheEnd(client: Client, id: string): Promise<void> {
  let cause: unknown
  for (let attempt = 1; attempt <= attemptsWithId; attempt++) {
    const used = (await listItems(client)).find((item) => item.id === id)
    if (used && !isFromThisRun(used.name)) return
    if (used) await deleteItem(client, id)
    cause = await expectUsualIds(client, [id]).catch((error: unknown) => error)
    if (cause === undefined) return
    await delay(randomInt(maxPauseMs))
  }
  throw cause
}

/** The ids can be used like any others: each is free, names one item from its POST to its DELETE, and is free again. */
async function expectUsualIds(
  client: Client,
  ids: readonly string[],
  { pathOf = itemPath, mayBeEqual = false }: { pathOf?: (id: string) => string; mayBeEqual?: boolean } = {},
): Promise<void> {
  const model = newModel(client)
  const items: TodoItemB[] = []
  const expectFree = async (id: string) => {
    profile.expectNotFound(await client.send('DELETE', pathOf(id)), id)
    profile.expectNotFound(await profile.update(client, model.newItem({ id })), id)
  }
  await allOf(ids.map(expectFree))
  for (const id of ids) {
    const item = model.newItem({ id })
    const created = await unlessUndeletable(postItem(client, profile, item))
    // Which ids are equal, or refused, is a choice.
    if (!created || (mayBeEqual && created.status === 409)) continue
    citing('B5', () => observe('create', () => expectThat(created.status !== 409, 'an id that is not in use', created)))
    if (profile.mayRefuse(created, id)) continue
    citing('B3', () => model.add(created, item))
    items.push(item)
  }
  const expectInUse = async (item: TodoItemB) => {
    const again = await client.send('POST', itemsPath, item)
    citing('B5', () => expectThat(!isSuccess(again), 'no second item with the id', again))
    await model.update(item, { notes: uniqueText(), done: true }, observe)
  }
  await allOf(items.map(expectInUse))
  await model.expectStored('POST and PUT of each')
  // Of two that are alike the newer goes first, and comes back; then the older one: a server may find either of them.
  for (const isAgain of [false, true])
    for (const remainder of [1, 0]) {
      const some = items.filter((_, index) => index % 2 === remainder)
      for (const { id } of some) {
        const removed = await client.send('DELETE', isAgain ? itemPath(id) : pathOf(id))
        // A server may refuse a path (B6), but not say that there is no item.
        if (/CouldNotDelete/.test(removed.text)) await deleteItem(client, id)
        else observeOperation(removed, expectSuccess)
        model.recordRemoved(id)
      }
      if (some.length > 0) await model.expectStored(`DELETE of ${some.map(({ id }) => id)}`)
      if (!isAgain) for (const item of some) await model.createFrom(item, observe)
    }
}

/** Ends of ids that a server may take for each other, or for patterns. */
const confusable = [...'abc ABC 7 007 1 1.0 \u00e9 e\u0301 x xay x_y x%y x*y x?y x.y'.split(' '), 'x ']

/** Where a server that decodes or splits a path wrongly sees the end of an id, or another character. */
const similarEnds = ['%41', '?x', '#x', '/x', ';x', '\0x', '%', '_']

/** Characters of a long, but usual text. */
const longButUsual = 40_000

/** In a path they need no encoding. */
const wellKnownIds = 'constructor __proto__ toString hasOwnProperty null undefined true 0 -1 1e3 NaN'.split(' ')

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
  'line\nbreak',
  '\u0001',
]

const idChecks: readonly Check[] = [
  choice('B5', 'ids are compared exactly', async (client) => {
    const model = newModel(client)
    const [id, digits] = [uniqueText(), `${randomInt(10 ** 12, 10 ** 13)}`]
    for (const other of [digits, id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}\u00e9`, `${id}e\u0301`])
      await model.create({ id: other }, observe)
    for (const other of [`0${digits}`, `${id}E\u0301`]) expectNotFound(await deleteItem(client, other))
    await model.expectStored('POST of ids that are not equal')
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

/** The id is free, and that of an item from POST to DELETE, again and again; where it cannot be deleted, none is created. */
async function expectRoundTrip(client: Client, id: string): Promise<void> {
  expectNotFound(await deleteItem(client, id))
  const model = newModel(client)
  await model.remove(await model.create({ id }, observe), observe)
  await expectUsualIds(client, [id])
}

/** B6: limits are no part of the specification, but how a request fails is. */
const expectSuccessOr = (response: Response, ...allowed: readonly ErrorCode[]) =>
  isSuccess(response) || tooLong.includes(response.status) || expectError(response, ...allowed)

/** B6: an id over the length limit, which is a choice. */
const longId = () => `${uniqueText()}-${'x'.repeat(1024)}`

const errorChecks: readonly Check[] = [
  spec('B4', 'POST and PUT without a body, or without members, return 400', async (client) => {
    for (const method of ['POST', 'PUT'])
      for (const body of [undefined, '', {}]) expectMissingMember(await client.send(method, itemsPath, body))
  }),
  choice('B5', 'a missing member is reported before an id in use', async (client) => {
    const item = await create(client)
    expectMissingMember(await client.send('POST', itemsPath, { ...item, notes: '' }))
  }),
  spec('B6', 'what fails for another reason returns a CouldNot… code', async (client) => {
    const item = await create(client)
    const notes = 'x'.repeat(2 ** 20)
    const post = async (body: unknown, ...codes: ErrorCode[]) =>
      expectSuccessOr(await client.send('POST', itemsPath, body), 'CouldNotCreateItem', ...codes)
    const put = async (body: unknown, ...codes: ErrorCode[]) =>
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
  choice('B6', 'an id over the length limit returns a CouldNot… code', async (client) => {
    const model = newModel(client)
    for (const id of [uniqueText().padEnd(1025, 'x'), uniqueText().padEnd(1100, 'y')]) {
      // Where it cannot be deleted, it is not created.
      expectError(await deleteItem(client, id), 'CouldNotDeleteItem')
      expectCouldNot(await client.send('POST', itemsPath, model.newItem({ id })))
      expectCouldNot(await client.send('PUT', itemsPath, model.newItem({ id })))
    }
    await model.expectStored('rejected requests')
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
