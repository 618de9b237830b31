import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, spec, unique } from '../check.ts'
import { expectCode, expectEmpty, expectMedia, expectThat } from '../expect.ts'
import {
  create,
  expectCouldNotCreate,
  expectMissing,
  expectNotFound,
  expectNotStored,
  expectStored,
  fresh,
  type Item,
  pathOf,
} from './item.ts'

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

export const refusalChecks: readonly Check[] = [
  spec('B4', 'POST and PUT without a body are refused', async (service) => {
    for (const method of ['POST', 'PUT']) expectMissing(await service.send(method, items))
  }),
  ...lacking.map(([name, bend]) =>
    (name.endsWith('absent') ? spec : choice)('B4', `${name} is missing`, async (service) => {
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
  choice('B5', 'a missing field comes before an id in use', async (service) => {
    const item = await create(service)
    expectMissing(await service.send('POST', items, { ...item, notes: '' }))
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
  choice('G8', 'an error says no more than its code', async (service) => {
    expectNotFound(await service.send('DELETE', pathOf(unique())))
    expectMissing(await service.send('POST', items, '{"broken'))
    expectEmpty(await service.send('GET', '/nowhere'), 404)
  }),
  spec('B9', 'error bodies are plain text', async (service) => {
    const item = await create(service)
    for (const answer of [
      await service.send('POST', items, item),
      await service.send('POST', items, {}),
      await service.send('PUT', items, {}),
      await service.send('POST', items, fresh({ id: 'x'.repeat(1025) })),
      await service.send('PUT', items, fresh()),
      await service.send('DELETE', pathOf(unique())),
    ]) {
      expectMedia(answer, 'text/plain')
      expectThat(/^[A-Za-z]+$/.test(answer.text), 'the code and nothing else', answer)
    }
  }),
]
