import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, onUntouched, spec, unique } from '../check.ts'
import { namesListed } from '../everywhere/subject.ts'
import { expectArray, expectBody, expectEmpty, expectStatus, expectThat, jsonOf } from '../expect.ts'
import type { Received } from '../service.ts'
import { create, expectStored, fields, fullItem, type Item, pathOf, vacant } from './item.ts'

export const operationChecks: readonly Check[] = [
  onUntouched(
    spec('G7', 'the store starts empty', async (service) => {
      expectBody(await service.send('GET', items), 200, [])
    }),
  ),
  spec('G1', 'an item is found in any case of its path', async (service) => {
    const item = await create(service)
    expectBody(await service.send('GET', `/API/TodoItems/${item.id}`), 200, item)
  }),
  choice('G2', 'an item is found with a trailing slash and with percent-encoded digits', async (service) => {
    const item = await create(service)
    expectBody(await service.send('GET', `${pathOf(item.id)}/`), 200, item)
    expectBody(await service.send('GET', pathOf(`${item.id}`.replace(/\d/g, '%3$&'))), 200, item)
    expectEmpty(await service.send('PUT', `${pathOf(item.id)}/`, fullItem(item)), 204)
    expectEmpty(await service.send('DELETE', `${pathOf(item.id)}/`), 204)
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
    expectThat(location.toLowerCase().endsWith(pathOf(id)), `a Location ending in ${pathOf(id)}`, answer)
    const { pathname } = new URL(location, service.url)
    const prefix = new URL(service.url).pathname.replace(/\/$/, '')
    expectBody(await service.send('GET', pathname.slice(prefix.length)), 200, { id, ...sent })
  }),
  choice('A3', 'Location is absolute', async (service) => {
    const answer = await service.send('POST', '/API/TodoItems/', fields())
    expectThat(
      /^https?:\/\/[^/]+.*\/api\/todoitems\/\d+$/i.test(answer.headers.location ?? ''),
      'an absolute Location',
      answer,
    )
  }),
  spec('A7', 'a PUT answers 204 and changes name and isComplete', async (service) => {
    const item = await create(service)
    for (const changed of [
      { ...item, name: unique(), isComplete: true },
      { ...item, name: null, isComplete: false },
      { ...item, name: `${unique()} é 漢字 😀 ${'x'.repeat(1000)}`, isComplete: false },
    ]) {
      expectEmpty(await service.send('PUT', pathOf(item.id), fullItem(changed)), 204)
      await expectStored(service, changed)
    }
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
  spec('A9', 'a DELETE answers 204 and the item is gone', async (service) => {
    const { id, name } = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(id)), 204)
    expectStatus(await service.send('GET', pathOf(id)), 404)
    expectThat(!(await namesListed(service)).includes(name), 'a list without the deleted item')
  }),
  spec('A9', 'a DELETE takes no other item along, and a completed one is gone too', async (service) => {
    const [before, item, after] = [
      await create(service),
      await create(service, { isComplete: true }),
      await create(service),
    ]
    expectEmpty(await service.send('DELETE', pathOf(item.id)), 204)
    expectStatus(await service.send('GET', pathOf(item.id)), 404)
    for (const other of [before, after]) await expectStored(service, other)
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
    const put = `${fullItem(item).slice(0, -1)},"secret":"${secret}"}`
    const answers = [
      await service.send('PUT', pathOf(item.id), put),
      await service.send('GET', pathOf(item.id)),
      await service.send('GET', items),
    ]
    for (const answer of answers)
      expectThat(!`${answer.text} ${JSON.stringify(answer.headers)}`.includes(secret), 'no secret', answer)
    await expectStored(service, item)
    const listed = expectArray(answers[2] as Received) as Item[]
    expectThat(
      isDeepStrictEqual(
        listed.find(({ id }) => id === item.id),
        item,
      ),
      'just its three members',
      answers[2],
    )
  }),
]
