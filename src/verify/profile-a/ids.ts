import { type Check, choice, items, onOwnServer, spec, unique } from '../check.ts'
import { expectEmpty, expectStatus, expectThat, jsonOf } from '../expect.ts'
import { create, expectRefusedPut, expectStored, fullItem, type Item, pathOf, vacant } from './item.ts'

export const idChecks: readonly Check[] = [
  spec('A4', 'an id in a create is ignored', async (service) => {
    const taken = await create(service)
    const created = await create(service, { id: Number(taken.id), isComplete: true })
    expectThat(created.id !== taken.id, 'an id of its own for the new item')
    await expectStored(service, taken)
  }),
  choice('A4', 'an id in a create is ignored whatever it holds', async (service) => {
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
      const name = unique()
      const answer = await service.send('POST', items, `{"id":${id},"name":"${name}","isComplete":false}`)
      expectStatus(answer, 201)
      const created = jsonOf(answer) as Item
      expectThat(created.name === name && `${created.id}` !== id, 'an id that the service chose', answer)
    }
  }),
  choice('A4', 'ids ascend and are never used again', async (service) => {
    const first = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(first.id)), 204)
    const second = await create(service)
    expectThat(second.id > first.id, `an id above ${first.id}, not ${second.id}`)
  }),
  onOwnServer(
    choice('A4', 'the first id is 1', async (service) => {
      const { id } = await create(service)
      expectThat(id === 1n, `the id 1, not ${id}`)
    }),
  ),
  spec('A4', 'creates at the same time get different ids', async (service) => {
    const created = await Promise.all(Array.from({ length: 20 }, () => create(service)))
    expectThat(new Set(created.map(({ id }) => id)).size === created.length, 'a different id for each item')
    for (const item of created) await expectStored(service, item)
  }),
  spec('A8', 'PUT, path id differs from body id: 400', async (service) => {
    const [item, other] = [await create(service), await create(service)]
    await expectRefusedPut(service, item, fullItem({ ...other, name: 'changed' }))
    await expectStored(service, other)
    await expectRefusedPut(service, item, fullItem({ ...item, id: -item.id }))
  }),
  spec('A8', 'PUT, no item has the id: 404, and none is created', async (service) => {
    for (const id of vacant) {
      expectStatus(await service.send('PUT', pathOf(id), fullItem({ id, name: unique(), isComplete: true })), 404)
      expectStatus(await service.send('GET', pathOf(id)), 404)
    }
  }),
  choice('A8', 'PUT, an absent, null or non-integer body id: 400', async (service) => {
    const item = await create(service)
    await expectRefusedPut(service, item, { name: 'changed', isComplete: true })
    for (const id of [
      'null',
      `"${item.id}"`,
      `[${item.id}]`,
      '{}',
      'true',
      `${item.id}.5`,
      `${item.id}.00000000000000000001`,
    ])
      await expectRefusedPut(service, item, `{"id":${id},"name":"changed","isComplete":true}`)
  }),
  choice('A8', 'PUT, in this order: malformed id, invalid body, differing ids, missing item', async (service) => {
    expectStatus(await service.send('PUT', pathOf('abc'), 'x', { 'content-type': 'text/plain' }), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":0}'), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":-1,"isComplete":true}'), 400)
    expectStatus(await service.send('PUT', pathOf(0n), '{"id":0,"isComplete":true}'), 404)
  }),
  choice('G4', 'the last of two equal ids in a PUT is the one compared', async (service) => {
    const item = await create(service)
    const twice = (first: bigint, last: bigint) =>
      `{"id":${first},"name":"changed","isComplete":true,"nested":{"id":${item.id}},"text":"\\"id\\":0,\\\\","\\u0069d":${last}}`
    await expectRefusedPut(service, item, twice(item.id, 0n))
    expectEmpty(await service.send('PUT', pathOf(item.id), twice(0n, item.id)), 204)
  }),
  spec('A11', 'ids above 2^53 are compared exactly', async (service) => {
    const put = (path: string, id: string) => service.send('PUT', pathOf(path), `{"id":${id},"isComplete":true}`)
    expectStatus(await put('9007199254740993', '9007199254740993'), 404)
    expectStatus(await put('9007199254740993', '9007199254740992'), 400)
    expectStatus(await put('9007199254740992', '9007199254740993'), 400)
    expectStatus(await put('9223372036854775807', '9223372036854775806'), 400)
    expectStatus(await put('-9223372036854775808', '-9223372036854775808'), 404)
    expectStatus(await put('-9223372036854775808', '-9223372036854775807'), 400)
  }),
  spec('A11', 'ids that differ by 2^53, 2^32 or 2^64 are different', async (service) => {
    const item = await create(service)
    for (const distance of [2n ** 32n, 2n ** 53n, 2n ** 63n - 1n - item.id])
      expectStatus(await service.send('GET', pathOf(item.id + distance)), 404)
    await expectRefusedPut(service, item, fullItem({ ...item, id: item.id + 2n ** 64n, name: 'changed' }))
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
    choice('A12', `the path id ${id} is malformed: 400`, async (service) => {
      expectStatus(await service.send('GET', pathOf(id)), 400)
      expectStatus(await service.send('PUT', pathOf(id), '{"id":1,"isComplete":true}'), 400)
      expectStatus(await service.send('DELETE', pathOf(id)), 400)
    }),
  ),
]
