import { randomInt } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Client, Response } from '../../common/client.ts'
import {
  type Check,
  choice,
  defineContract,
  onOwnServer,
  onUntouchedStore,
  overPlainHttp,
  providing,
  spec,
  uniqueText,
} from '../engine/contract.ts'
import {
  expectContentType,
  expectEmpty,
  expectItems,
  expectMembers,
  expectMethodNotAllowed,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  isSuccess,
  observe,
  setUp,
} from '../engine/expect.ts'
import { commonChecks, listCheck, openControl, sampleMethodChecks, textChecks } from './common.ts'
import { type ModelOperations, populate, StoreModel } from './model.ts'
import { itemPath, itemsPath, ofProfile } from './rules.ts'
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
  notes: 'notes',
  done: false,
  ...members,
})

const errorCodes = [
  'TodoItemNameAndNotesRequired',
  'TodoItemIDInUse',
  'RecordNotFound',
  'CouldNotCreateItem',
  'CouldNotUpdateItem',
  'CouldNotDeleteItem',
]

const prerequisites: Record<string, string> = { POST: 'create', PUT: 'update', DELETE: 'delete' }
const observeOperation = ({ request }: Response, expectations: () => void) =>
  observe(prerequisites[request.method] ?? 'list', expectations)

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
    expectContentType(response, 'text/plain; charset=utf-8')
  })
}

const expectMissingMember = (response: Response) => expectError(response, 400, 'TodoItemNameAndNotesRequired')
const expectNotFound = (response: Response) => expectError(response, 404, 'RecordNotFound')
const expectCouldNotCreate = (response: Response) => expectError(response, 400, 'CouldNotCreateItem')

const operations: ModelOperations<TodoItemB> = {
  assignsIds: false,
  members: ['id', 'name', 'notes', 'done'],
  newItem: (name) => ({ ...newItem({ name }) }),
  changes: (name, done) => ({ name, notes: uniqueText(), done }),
  create: (client, item, unknown) => client.send('POST', itemsPath, { ...unknown, ...item }),
  update: (client, item, unknown) => client.send('PUT', itemsPath, { ...unknown, ...item }),
  remove: (client, id) => client.send('DELETE', itemPath(id)),
  // A text may be one that is not stored (B6); a blank one may count as missing, an id as equal to another (choice).
  mayRefuse: ({ status, text }, sent) =>
    status === 409 || (status === 400 && (/CouldNot/.test(text) || sent.trim() === '')),
}

const store = storeChecks(operations, {
  list: 'B1',
  create: 'B3',
  update: 'B7',
  remove: 'B8',
  concurrentCreate: 'B3',
  unknownMembers: 'B1',
})

const create = (client: Client, members: Partial<TodoItemB> = {}) => new StoreModel(client, operations).create(members)

/** Creates an item that is part of what a check states. */
const expectCreated = (client: Client, members: Partial<TodoItemB>) =>
  new StoreModel(client, operations).create(members, observe)

async function replace(client: Client, item: TodoItemB): Promise<void> {
  const response = await client.send('PUT', itemsPath, item)
  setUp('update', () => expectSuccess(response))
}

async function listItems(client: Client): Promise<TodoItemB[]> {
  const response = await client.send('GET', itemsPath)
  return observe('list', () => expectItems<TodoItemB>(response))
}

async function expectStored(client: Client, item: TodoItemB): Promise<void> {
  const listed = (await listItems(client)).filter(({ id }) => id === item.id)
  const expected = `${JSON.stringify(item)} in the list, once, not ${JSON.stringify(listed)}`
  observe('listed', () => expectThat(listed.length === 1 && hasMembers({ ...listed[0] }, item), expected))
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
    spec('B2', 'the initial items have different ids, and names and notes', async (client) => {
      const response = await client.send('GET', itemsPath)
      const initial = observe('list', () => expectItems(response))
      for (const item of initial) {
        const { id, name, notes } = item
        const isComplete = [id, name, notes].every((text) => typeof text === 'string' && text.trim())
        expectThat(isComplete, 'an id, a name and notes in each', response)
      }
      expectThat(new Set(initial.map(({ id }) => id)).size === 3, 'three different ids', response)
    }),
  ),
  onUntouchedStore(
    spec('B2', 'the first of the three initial items is done, the others are not', async (client) => {
      const done = (await listItems(client)).map((item) => item.done)
      const model = new StoreModel(client, operations)
      const created = [await model.create(), await model.create(), await model.create()]
      const readOrder = async () => (await listItems(client)).map(({ id }) => id)
      const orders = [await readOrder(), await readOrder(), await readOrder()]
      // Which is the first cannot be told from a list in another order, or in a new one each time (choice, B1).
      const isOrdered = orders.every((order) => {
        const positions = created.map(({ id }) => order.indexOf(id))
        return (
          isDeepStrictEqual(order, orders[0]) &&
          isDeepStrictEqual(
            positions,
            positions.toSorted((a, b) => a - b),
          )
        )
      })
      for (const item of created) await operations.remove(client, item.id)
      const expected = [true, false, false]
      const isRight = isDeepStrictEqual(isOrdered ? done : [...done].sort().reverse(), expected)
      expectThat(isRight, `done to be ${expected}, not ${done}`)
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
      }
    }),
  ),
  spec('B3', 'POST returns 200', async (client) => {
    const response = await client.send('POST', itemsPath, newItem())
    setUp('create', () => expectSuccess(response))
    expectStatus(response, 200)
  }),
  ...store.listed,
  ...store.deleted,
  spec('G1', 'a path parameter keeps its case', async (client) => {
    const item = await create(client, { id: `Case-${uniqueText()}` })
    const response = await client.send('DELETE', itemPath(item.id))
    observe('delete', () => expectSuccess(response))
    await expectNotStored(client, item.id)
  }),
  ...store.updated,
  providing(
    'error codes',
    spec('B9', 'error bodies are the code as plain text', async (client) => {
      for (const response of [
        await client.send('POST', itemsPath, {}),
        await client.send('PUT', itemsPath, {}),
        await client.send('PUT', itemsPath, newItem()),
        await client.send('DELETE', itemPath(uniqueText())),
        await client.send('POST', itemsPath, '{"broken'),
        await client.send('PUT', itemsPath, '{"broken'),
      ])
        expectOnlyCode(response)
    }),
  ),
]

/** Ids that no item has, but which look like that of an item or match it in some other way than being equal. */
const otherIds = ({ id, name, notes }: TodoItemB) => [
  id.slice(0, -1),
  `${id}x`,
  id.slice(1),
  `${id.slice(0, -1)}_`,
  `${id.slice(0, -4)}%`,
  `${id.slice(0, -4)}*`,
  name,
  notes,
]

/** After each operation: the item in the list and every other item, compared with a model of the store. */
const stateChecks: readonly Check[] = [
  spec('B3', 'two items may have the same name and notes', async (client) => {
    const { model, target } = await populate(client, operations)
    const { name, notes } = target
    for (const content of [{ name }, { notes }, { name, notes }, { name, notes, done: true }])
      await model.create(content, observe)
    await model.expectStored('POST with the name and notes of another item')
    await model.update(model.items[0] as TodoItemB, { name, notes }, observe)
    await model.expectStored('PUT with the name and notes of another item')
  }),
  spec('B7', 'PUT stores each member that it changes, alone and together', async (client) => {
    const { model, target } = await populate(client, operations)
    let item = target
    for (const [what, changes] of [
      ['only done, to true', { done: true }],
      ['nothing', {}],
      ['only done, to false', { done: false }],
      ['only the name', { name: model.newItem().name }],
      ['only the notes', { notes: uniqueText() }],
      ['name and done', { name: model.newItem().name, done: true }],
      ['notes and done', { notes: uniqueText(), done: false }],
      ['everything back', target],
      ['the name in another case', { name: target.name.toUpperCase() }],
    ] as const) {
      item = await model.update(item, changes, observe)
      await model.expectStored(`PUT that changes ${what}`)
    }
  }),
  spec('B7', 'PUT returns 404 RecordNotFound when no item has the id, and changes nothing', async (client) => {
    const { model, target } = await populate(client, operations)
    const removed = await model.create()
    await model.remove(removed)
    for (const id of [uniqueText(), removed.id, ...otherIds(target)]) {
      expectNotFound(await client.send('PUT', itemsPath, { ...model.newItem(), id, done: true }))
      await model.expectStored(`PUT of ${id}, which no item has`)
    }
  }),
  spec('B8', 'DELETE returns 404 RecordNotFound when no item has the id, and removes none', async (client) => {
    const { model, target } = await populate(client, operations)
    const removed = await model.create()
    await model.remove(removed)
    for (const id of [uniqueText(), removed.id, ...otherIds(target)]) {
      expectNotFound(await client.send('DELETE', itemPath(id)))
      await model.expectStored(`DELETE of ${id}, which no item has`)
    }
  }),
  spec('B5', 'POST returns 409 when the id is in use, and changes nothing', async (client) => {
    const { model, target } = await populate(client, operations)
    for (const item of [{ ...model.newItem(), id: target.id, done: true }, target]) {
      expectError(await client.send('POST', itemsPath, item), 409, 'TodoItemIDInUse')
      await model.expectStored(`POST with the id ${target.id} of another item`)
    }
  }),
  spec('B5', 'ids that are not equal are not in use', async (client) => {
    const { model, target } = await populate(client, operations)
    for (const id of otherIds(target).slice(0, 3)) await model.create({ id }, observe)
    await model.expectStored('POST of ids that start or end alike')
  }),
  spec('B5', 'an id can be used again after its item is deleted', async (client) => {
    const { model, target } = await populate(client, operations)
    await model.update(target, { notes: uniqueText(), done: true })
    await model.remove(target)
    await model.createFrom(target, observe)
    await model.expectStored(`DELETE and POST of ${target.id}`)
  }),
  spec('B7', 'an item is found after its id was not', async (client) => {
    const { model } = await populate(client, operations)
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
    const item = await create(client, { done: true })
    const { done: _, ...withoutDone } = { ...item, notes: uniqueText() }
    const variants = [withoutDone, { ...item, notes: '' }, { ...item, notes: null }, { ...item, name: '' }]
    for (const sent of variants) {
      await replace(client, item)
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
    for (const end of [
      '.json',
      '.a.b',
      '~x',
      '_y',
      '-z',
      'A',
      '+b',
      ';c',
      ',d',
      '=e',
      ':f',
      '@g',
      '!h',
      '$i',
      '&j',
      '(k)',
      '*',
    ]) {
      const model = new StoreModel(client, operations)
      const start = await model.create()
      const item = model.newItem({ id: `${start.id}${end}` })
      const created = await operations.create(client, item)
      if (operations.mayRefuse(created, item.id)) continue
      model.add(created, item)
      // Not encoded: these characters are part of a path segment as they are (RFC 3986, 3.3).
      const response = await client.send('DELETE', `${itemsPath}/${item.id}`)
      observe('delete', () => expectSuccess(response))
      await expectNotStored(client, item.id)
      await expectStored(client, start)
      await model.remove(start)
    }
  }),
  spec('B5', 'exactly one of ten concurrent POSTs with the same id succeeds', async (client) => {
    const item = newItem()
    await expectSingleSuccess('create', () => client.send('POST', itemsPath, item), 409)
    await expectStored(client, item)
  }),
  ...(['id', 'name', 'notes'] as const).map((member) =>
    spec('B4', `POST and PUT without ${member} are refused, and change nothing`, async (client) => {
      const { model, target } = await populate(client, operations)
      const without = (item: TodoItemB) => ({ ...item, [member]: undefined })
      expectMissingMember(await client.send('POST', itemsPath, without(model.newItem())))
      expectMissingMember(await client.send('PUT', itemsPath, without({ ...model.newItem(), id: target.id })))
      await model.expectStored(`requests without ${member}`)
    }),
  ),
]

const isRedirectToHttps = ({ headers }: Response) => /^https:/i.test(headers.location ?? '')

const operationChecks: readonly Check[] = [
  spec('G1', 'paths match case-insensitively, for PUT and DELETE', async (client) => {
    const { model, target } = await populate(client, operations)
    const put = await client.send('PUT', '/API/TODOITEMS', { ...target, done: true })
    observe('update', () => expectSuccess(put))
    model.set({ ...target, done: true })
    await model.expectStored(`PUT of ${target.id} in capital letters`)
    const { id } = await model.create()
    const deleted = await client.send('DELETE', `/Api/TodoItems/${id}`)
    observe('delete', () => expectSuccess(deleted))
    await expectNotStored(client, id)
  }),
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
  choice('G2', 'PUT and DELETE accept one trailing slash', async (client) => {
    const item = await create(client)
    const put = await client.send('PUT', `${itemsPath}/`, item)
    observe('update', () => expectSuccess(put))
    const deleted = await client.send('DELETE', `${itemPath(item.id)}/`)
    observe('delete', () => expectSuccess(deleted))
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
    const { model, target } = await populate(client, operations)
    const before = model.items.map(({ id }) => id)
    await model.update(target, { name: model.newItem().name })
    const after = (await listItems(client)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  onOwnServer(
    spec('B7', 'the initial items can be changed', async (client) => {
      for (const item of await listItems(client)) {
        const changed = { ...item, notes: uniqueText(), done: !item.done }
        const response = await client.send('PUT', itemsPath, changed)
        expectSuccess(response)
        await expectStored(client, changed)
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
    const id = uniqueText()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await expectCreated(client, { id: other })
    const digits = await create(client, { id: `${randomInt(10 ** 12, 10 ** 13)}` })
    expectNotFound(await client.send('DELETE', itemPath(`0${digits.id}`)))
    const stored = await create(client, { id: `Case-${uniqueText()}` })
    expectNotFound(await client.send('DELETE', itemPath(stored.id.toUpperCase())))
    expectNotFound(await client.send('PUT', itemsPath, { ...stored, id: stored.id.toUpperCase() }))
    await expectStored(client, stored)
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
  if (isSuccess(response)) return
  const expected = codes.map((code) => ({ status: code === 'RecordNotFound' ? 404 : 400, code }))
  const matching = expected.filter(({ status }) => status === response.status)
  const message = `success or ${expected.map(({ status, code }) => `${status} ${code}`).join(' or ')}`
  observeOperation(response, () => expectThat(matching.length > 0, message, response))
  const hasCode = matching.some(({ code }) => response.text.includes(code))
  observe('error codes', () => expectThat(hasCode, message, response))
}

/** B4: ways to invalidate an item. */
const invalidItems: readonly [name: string, invalidate: (item: TodoItemB) => object][] = [
  ...(['id', 'name', 'notes'] as const).flatMap((member) =>
    [null, '', ' ', '\t\n', 0, true, {}, ['x']].map((value): [string, (item: TodoItemB) => object] => [
      `${member} ${JSON.stringify(value)}`,
      (item) => ({ ...item, [member]: value }),
    ]),
  ),
  ...[null, 'true', 0, 1, {}, []].map((value): [string, (item: TodoItemB) => object] => [
    `done ${JSON.stringify(value)}`,
    (item) => ({ ...item, done: value }),
  ]),
]

const errorChecks: readonly Check[] = [
  spec('B4', 'POST and PUT without a body return 400', async (client) => {
    for (const method of ['POST', 'PUT']) expectMissingMember(await client.send(method, itemsPath))
  }),
  ...invalidItems.map(([name, invalidate]) =>
    choice('B4', `${name} counts as missing`, async (client) => {
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

const checks: readonly Check[] = [
  ...basicChecks,
  ...stateChecks,
  ...store.further,
  ...textChecks(operations, ['name', 'notes'], { post: 'B3', put: 'B7' }),
  ...operationChecks,
  ...commonChecks({
    newItem: (name) => ({ ...newItem({ name }) }),
    createRule: 'B3',
    requiredMember: 'notes',
    methods,
    expectUnsupportedMediaType: expectMissingMember,
    expectInvalidBody: expectMissingMember,
    expectBodyTooLarge: expectCouldNotCreate,
    expectUnstorableText: expectCouldNotCreate,
  }),
  ...errorChecks,
  ...idChecks,
  ...textChecks(operations, ['id'], { post: 'B3' }),
  ...endpointChecks,
  ...sampleMethodChecks,
  ...sampleChecks(methods),
]

export const profileB = defineContract({
  name: 'Profile B',
  ...ofProfile('B'),
  checks,
  items: { path: itemsPath, initialCount: 3 },
  openControl,
})
