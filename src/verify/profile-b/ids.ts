import { type Check, choice, items, spec, unique } from '../check.ts'
import { expectEmpty } from '../expect.ts'
import type { Service } from '../service.ts'
import { create, expectNotFound, expectNotStored, expectStored, pathOf } from './item.ts'

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

export const idChecks: readonly Check[] = [
  spec('G1', 'a path parameter keeps its case', async (service) => {
    const { id } = await create(service, { id: `Case ${unique()}` })
    expectNotFound(await service.send('DELETE', pathOf(id.toUpperCase())))
    expectEmpty(await service.send('DELETE', `/API/TODOITEMS/${encodeURIComponent(id)}`), 204)
  }),
  choice('B5', 'ids are compared exactly', async (service) => {
    const id = unique()
    for (const other of [id, id.toUpperCase(), ` ${id}`, `${id} `, `${id}é`, `${id}e\u0301`])
      await create(service, { id: other })
    const stored = await create(service, { id: `Case ${unique()}` })
    expectNotFound(await service.send('PUT', items, { ...stored, id: stored.id.toUpperCase() }))
    await expectStored(service, stored)
  }),
  choice('B5', 'an id can be used again after its item is deleted', async (service) => {
    const item = await create(service)
    expectEmpty(await service.send('DELETE', pathOf(item.id)), 204)
    await create(service, item)
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
