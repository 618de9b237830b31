import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, onUntouched, spec, unique } from './check.ts'
import { everywhereChecks } from './everywhere.ts'
import { expectAllow, expectArray, expectBody, expectCode, expectEmpty, expectThat, expectType } from './expect.ts'
import { sampleChecks } from './samples.ts'
import type { Received, Service } from './service.ts'

interface Item {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

const fresh = (over: Partial<Item> = {}): Item => ({
  id: unique(),
  name: unique(),
  notes: 'notes',
  done: false,
  ...over,
})
const pathOf = (id: string) => `${items}/${encodeURIComponent(id)}`

const expectMissing = (answer: Received) => expectCode(answer, 400, 'TodoItemNameAndNotesRequired')
const expectNotFound = (answer: Received) => expectCode(answer, 404, 'RecordNotFound')
const expectCouldNotCreate = (answer: Received) => expectCode(answer, 400, 'CouldNotCreateItem')

async function create(service: Service, over: Partial<Item> = {}): Promise<Item> {
  const item = fresh(over)
  expectBody(await service.send('POST', items, item), 200, item)
  return item
}

async function listed(service: Service): Promise<Item[]> {
  return expectArray(await service.send('GET', items)) as Item[]
}

async function expectStored(service: Service, item: Item): Promise<void> {
  const found = (await listed(service)).filter(({ id }) => id === item.id)
  expectThat(
    isDeepStrictEqual(found, [item]),
    `${JSON.stringify(item)} in the list, once, not ${JSON.stringify(found)}`,
  )
}

async function expectNotStored(service: Service, id: unknown): Promise<void> {
  expectThat(!(await listed(service)).some((item) => item.id === id), `no item ${id} in the list`)
}

/** Bodies that lack something B4 asks for, made from a valid one. */
const lacking: readonly [name: string, bend: (item: Item) => object][] = [
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

/** Ids that are awkward in a path. */
const awkwardIds = [
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

const own: Check[] = [
  spec('G1', 'a path parameter keeps its case', async (service) => {
    const { id } = await create(service, { id: `Case ${unique()}` })
    expectNotFound(await service.send('DELETE', pathOf(id.toUpperCase()).replace('API', 'api')))
    expectEmpty(await service.send('DELETE', `/API/TODOITEMS/${encodeURIComponent(id)}`), 204)
  }),
  choice('G2', 'PUT and DELETE accept one trailing slash', async (service) => {
    const item = await create(service)
    expectEmpty(await service.send('PUT', `${items}/`, item), 204)
    expectEmpty(await service.send('DELETE', `${pathOf(item.id)}/`), 204)
  }),
  choice('G8', 'an error says no more than its code', async (service) => {
    expectNotFound(await service.send('DELETE', pathOf(unique())))
    expectMissing(await service.send('POST', items, '{"broken'))
    expectEmpty(await service.send('GET', '/nowhere'), 404)
  }),
  spec('B1', 'the list has every item with exactly its members', async (service) => {
    await expectStored(service, await create(service))
    await expectStored(service, await create(service, { done: true }))
  }),
  choice('B1', 'the list is in order of creation', async (service) => {
    const created = [
      await create(service, { id: `z ${unique()}` }),
      await create(service, { id: `a ${unique()}` }),
      await create(service),
    ]
    const ids = created.map(({ id }) => id)
    const order = (await listed(service)).map(({ id }) => id).filter((id) => ids.includes(id))
    expectThat(isDeepStrictEqual(order, ids), `the order ${ids}, not ${order}`)
  }),
  onUntouched(
    spec('G7', 'the store starts with its three items', async (service) => {
      expectThat((await listed(service)).length === 3, 'three items')
    }),
  ),
  onUntouched(
    spec('B2', 'of the three starting items the first is done, the others are not', async (service) => {
      const done = (await listed(service)).map((item) => item.done)
      expectThat(isDeepStrictEqual(done, [true, false, false]), `done to be true, false, false, not ${done}`)
    }),
  ),
  onUntouched(
    spec('B2', 'the starting items have ids, names and notes of their own', async (service) => {
      const start = await listed(service)
      expectThat(
        start.every(({ id, name, notes }) => [id, name, notes].every((s) => typeof s === 'string' && s.trim())),
        'text in each',
      )
      expectThat(new Set(start.map(({ id }) => id)).size === 3, 'three different ids')
    }),
  ),
  spec('B3', 'a create answers 200 with the item', async (service) => {
    const item = await create(service, { done: true })
    await expectStored(service, item)
  }),
  choice('B3', 'done absent means false', async (service) => {
    const { done: _, ...rest } = fresh()
    expectBody(await service.send('POST', items, rest), 200, { ...rest, done: false })
    await expectStored(service, { ...rest, done: false })
  }),
  spec('B4', 'POST and PUT without a body are refused', async (service) => {
    for (const method of ['POST', 'PUT']) expectMissing(await service.send(method, items))
  }),
  ...lacking.map(([name, bend]) =>
    (/absent$/.test(name) ? spec : choice)('B4', `${name} is missing`, async (service) => {
      const item = fresh()
      expectMissing(await service.send('POST', items, bend(item)))
      await expectNotStored(service, item.id)
      const stored = await create(service)
      expectMissing(await service.send('PUT', items, bend({ ...stored, name: 'changed' })))
      await expectStored(service, stored)
    }),
  ),
  choice('B4', 'a PUT whose body is malformed, no object or of another media type lacks a body', async (service) => {
    const stored = await create(service)
    const text = JSON.stringify({ ...stored, name: 'changed' })
    for (const body of ['', '{', 'null', `[${text}]`, text.slice(1)])
      expectMissing(await service.send('PUT', items, body))
    expectMissing(await service.send('PUT', items, text, { 'content-type': 'text/plain' }))
    expectMissing(await service.send('PUT', items, text, { 'content-type': undefined }))
    await expectStored(service, stored)
  }),
  spec('B5', 'an id that exists is in use', async (service) => {
    const item = await create(service)
    expectCode(await service.send('POST', items, { ...item, name: 'changed' }), 409, 'TodoItemIDInUse')
    await expectStored(service, item)
  }),
  spec('B5', 'of creates of one id at the same time exactly one answers 200', async (service) => {
    const item = fresh()
    const answers = await Promise.all(Array.from({ length: 10 }, () => service.send('POST', items, item)))
    const statuses = answers.map(({ status }) => status).sort()
    expectThat(isDeepStrictEqual(statuses, [200, ...Array(9).fill(409)]), `one 200 and nine 409, not ${statuses}`)
    await expectStored(service, item)
  }),
  choice('B5', 'ids are compared exactly', async (service) => {
    const id = unique()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await create(service, { id: other })
  }),
  choice('B5', 'a missing field comes before an id in use', async (service) => {
    const item = await create(service)
    expectMissing(await service.send('POST', items, { ...item, notes: '' }))
  }),
  choice('B5', 'an id can be used again after its item is deleted', async (service) => {
    const item = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(item.id)), 204)
    await create(service, item)
  }),
  choice('B6', 'a body over the limit could not be created or updated', async (service) => {
    const item = await create(service)
    const notes = 'x'.repeat(2 ** 20)
    expectCouldNotCreate(await service.send('POST', items, fresh({ notes })))
    expectCode(await service.send('PUT', items, { ...item, notes }), 400, 'CouldNotUpdateItem')
    await expectStored(service, item)
  }),
  choice('B6', 'an id over its limit could not be created, updated or deleted', async (service) => {
    for (const id of ['x'.repeat(1025), '😀'.repeat(1025)]) {
      expectCouldNotCreate(await service.send('POST', items, fresh({ id })))
      expectCode(await service.send('PUT', items, fresh({ id })), 400, 'CouldNotUpdateItem')
      expectCode(await service.send('DELETE', pathOf(id)), 400, 'CouldNotDeleteItem')
      await expectNotStored(service, id)
    }
  }),
  choice('B6', 'a lone surrogate could not be updated', async (service) => {
    const item = await create(service)
    for (const member of ['name', 'notes'])
      expectCode(
        await service.send('PUT', items, JSON.stringify({ ...item, [member]: 'x\ud800' })),
        400,
        'CouldNotUpdateItem',
      )
    expectCouldNotCreate(await service.send('POST', items, JSON.stringify(fresh({ id: 'x\udfff' }))))
    await expectStored(service, item)
  }),
  spec('B7', 'a PUT answers 204 and replaces the item', async (service) => {
    const item = await create(service)
    const sent = { ...item, name: unique(), notes: unique(), done: true }
    expectEmpty(await service.send('PUT', items, sent), 204)
    await expectStored(service, sent)
  }),
  choice('B7', 'a PUT without done makes it false', async (service) => {
    const { done: _, ...rest } = await create(service, { done: true })
    expectEmpty(await service.send('PUT', items, rest), 204)
    await expectStored(service, { ...rest, done: false })
  }),
  choice('B7', 'a replaced item keeps its place', async (service) => {
    const created = [await create(service), await create(service), await create(service)]
    const before = (await listed(service)).map(({ id }) => id)
    expectEmpty(await service.send('PUT', items, { ...created[1], name: 'changed' }), 204)
    const after = (await listed(service)).map(({ id }) => id)
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  spec('B7', 'PUT, no item has the id: RecordNotFound, and none is created', async (service) => {
    const item = fresh()
    expectNotFound(await service.send('PUT', items, item))
    await expectNotStored(service, item.id)
    const stored = await create(service, { id: `Case ${unique()}` })
    expectNotFound(await service.send('PUT', items, { ...stored, id: stored.id.toUpperCase() }))
    await expectStored(service, stored)
  }),
  spec('B8', 'a DELETE answers 204 and the item is gone', async (service) => {
    const [item, other] = [await create(service), await create(service)]
    expectEmpty(await service.send('DELETE', pathOf(item.id)), 204)
    await expectNotStored(service, item.id)
    await expectStored(service, other)
  }),
  spec('B8', 'DELETE, no item has the id: RecordNotFound', async (service) => {
    const { id } = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(id)), 204)
    expectNotFound(await service.send('DELETE', pathOf(id)))
    expectNotFound(await service.send('DELETE', pathOf(unique())))
  }),
  spec('B8', 'of deletes at the same time exactly one answers 204', async (service) => {
    const { id } = await create(service)
    const answers = await Promise.all(Array.from({ length: 10 }, () => service.send('DELETE', pathOf(id))))
    const statuses = answers.map(({ status }) => status).sort()
    expectThat(isDeepStrictEqual(statuses, [204, ...Array(9).fill(404)]), `one 204 and nine 404, not ${statuses}`)
  }),
  spec('B9', 'error bodies are plain text', async (service) => {
    const item = await create(service)
    for (const answer of [
      await service.send('POST', items, item),
      await service.send('POST', items, '{'),
      await service.send('PUT', items, {}),
      await service.send('PUT', items, fresh()),
      await service.send('DELETE', pathOf(unique())),
    ]) {
      expectType(answer, 'text/plain; charset=utf-8')
      expectThat(/^[A-Za-z]+$/.test(answer.text), 'the code and nothing else', answer)
    }
  }),
  choice('B10', 'GET of a single item is not offered', async (service) => {
    const { id } = await create(service)
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'PATCH']) {
      const answer = await service.send(method, pathOf(id))
      expectEmpty(answer, 405)
      expectAllow(answer, ['DELETE'])
    }
  }),
  ...awkwardIds.map((id) =>
    choice('B11', `the id ${JSON.stringify(id)} can be created and deleted`, async (service) => {
      await expectRoundTrip(service, `${id}${unique()}${id}`)
    }),
  ),
  choice('B11', 'ids of 1,024 characters can be created and deleted', async (service) => {
    for (const char of ['x', '/', '%', 'é', '漢', '😀']) {
      const start = unique()
      await expectRoundTrip(service, start + char.repeat(1024 - start.length))
    }
  }),
  choice('B11', 'a path that is no valid percent-encoding names no item', async (service) => {
    for (const path of ['%', '%4', '%zz', '%ff', '%c3%28', 'a%ed%a0%80'])
      expectNotFound(await service.send('DELETE', `${items}/${path}`))
  }),
]

async function expectRoundTrip(service: Service, id: string): Promise<void> {
  const item = await create(service, { id })
  expectEmpty(await service.send('PUT', items, { ...item, done: true }), 204)
  await expectStored(service, { ...item, done: true })
  expectEmpty(await service.send('DELETE', pathOf(id)), 204)
  await expectNotStored(service, id)
}

export const profileBChecks: readonly Check[] = [
  ...everywhereChecks({
    body: (name) => ({ ...fresh({ name }) }),
    createdStatus: 200,
    requiredMember: 'notes',
    collectionMethods: ['GET', 'HEAD', 'POST', 'PUT'],
    itemMethods: ['DELETE'],
    expectRefusedType: expectMissing,
    expectRefusedBody: expectMissing,
    expectRefusedSize: expectCouldNotCreate,
    expectRefusedValue: expectCouldNotCreate,
  }),
  ...own,
  ...sampleChecks,
]
