import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, onUntouched, spec, unique } from '../check.ts'
import { expectAllow, expectBody, expectEmpty, expectStatus, expectThat } from '../expect.ts'
import { create, expectNotFound, expectNotStored, expectStored, fresh, listed, pathOf } from './item.ts'

export const operationChecks: readonly Check[] = [
  spec('B12', 'plain HTTP is answered, or redirected to HTTPS', async (service) => {
    const answer = await service.send('GET', items)
    if (answer.status === 200) return
    expectThat(/^https:/.test(answer.headers.location ?? ''), 'an answer, or a redirect to HTTPS', answer)
  }),
  choice('B12', 'a redirect to HTTPS is 307 with the same path and query', async (service) => {
    const answer = await service.send('GET', `${items}?a=b`)
    if (answer.status === 200) return
    expectStatus(answer, 307)
    expectThat(answer.headers.location?.endsWith(`${items}?a=b`) === true, 'the same path and query', answer)
  }),
  choice('G2', 'PUT and DELETE accept one trailing slash', async (service) => {
    const item = await create(service)
    expectEmpty(await service.send('PUT', `${items}/`, item), 204)
    expectEmpty(await service.send('DELETE', `${pathOf(item.id)}/`), 204)
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
  spec('B7', 'a PUT answers 204 and replaces the item', async (service) => {
    const item = await create(service)
    const other = await create(service)
    for (const done of [true, false]) {
      const sent = { ...item, name: unique(), notes: unique(), done }
      expectEmpty(await service.send('PUT', items, sent), 204)
      await expectStored(service, sent)
    }
    await expectStored(service, other)
  }),
  choice('B7', 'a PUT without done makes it false', async (service) => {
    const { done: _, ...rest } = await create(service, { done: true })
    expectEmpty(await service.send('PUT', items, rest), 204)
    await expectStored(service, { ...rest, done: false })
  }),
  choice('B7', 'a replaced item keeps its place', async (service) => {
    const created = [await create(service), await create(service), await create(service)]
    const before = created.map(({ id }) => id)
    expectEmpty(await service.send('PUT', items, { ...created[1], name: 'changed' }), 204)
    const after = (await listed(service)).map(({ id }) => id).filter((id) => before.includes(id))
    expectThat(isDeepStrictEqual(after, before), `the order ${before}, not ${after}`)
  }),
  spec('B7', 'PUT, no item has the id: RecordNotFound, and none is created', async (service) => {
    const item = fresh()
    expectNotFound(await service.send('PUT', items, item))
    await expectNotStored(service, item.id)
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
  choice('B10', 'GET of a single item is not offered', async (service) => {
    const { id } = await create(service)
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'PATCH']) {
      const answer = await service.send(method, pathOf(id))
      expectEmpty(answer, 405)
      expectAllow(answer, ['DELETE'])
    }
  }),
]
