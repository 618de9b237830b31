import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, spec, unique } from '../check.ts'
import { namesListed } from '../everywhere/subject.ts'
import { expectStatus, expectThat } from '../expect.ts'
import { create, expectProblem, expectRefusedPut, expectStored, fields, pathOf } from './item.ts'

export const bodyChecks: readonly Check[] = [
  spec('A5', 'name is a string or null', async (service) => {
    for (const name of [unique(), null]) {
      const item = await create(service, { name })
      expectThat(item.name === name, `the name ${JSON.stringify(name)}, not ${JSON.stringify(item.name)}`)
      await expectStored(service, item)
    }
  }),
  choice('A5', 'an empty or blank name is a name', async (service) => {
    for (const name of ['', ' ']) await expectStored(service, { ...(await create(service, { name })), name })
  }),
  choice('A5', 'an absent name is null', async (service) => {
    expectThat((await create(service, { name: undefined })).name === null, 'the name null')
  }),
  choice('A5', 'a name of another type is refused', async (service) => {
    const item = await create(service)
    for (const name of [1, true, {}, [], ['x']]) {
      expectStatus(await service.send('POST', items, { name, isComplete: false }), 400)
      await expectRefusedPut(service, item, { id: Number(item.id), name, isComplete: true })
    }
  }),
  ...[undefined, null, 'true', 'false', '', 0, 1, {}, []].map((isComplete) =>
    choice(
      'A6',
      `isComplete ${isComplete === undefined ? 'absent' : JSON.stringify(isComplete)} is refused`,
      async (service) => {
        const name = unique()
        expectStatus(await service.send('POST', items, { name, isComplete }), 400)
        expectThat(!(await namesListed(service)).includes(name), 'nothing stored of a refused create')
        const item = await create(service)
        await expectRefusedPut(service, item, { id: Number(item.id), name: 'changed', isComplete })
      },
    ),
  ),
  choice('G8', 'an error says no more than its rule', async (service) => {
    expectProblem(await service.send('GET', pathOf(-1n)), 404)
    expectProblem(await service.send('POST', items, '{"broken'), 400)
  }),
  choice('A13', 'each kind of error is a problem', async (service) => {
    const { id } = await create(service)
    expectProblem(await service.send('GET', pathOf(-1n)), 404)
    expectProblem(await service.send('GET', '/nowhere'), 404)
    expectProblem(await service.send('GET', pathOf('abc')), 400)
    for (const body of ['{', '[]', 'null', '']) expectProblem(await service.send('POST', items, body), 400)
    expectProblem(await service.send('POST', items, 'x', { 'content-type': 'text/plain' }), 415)
    expectProblem(await service.send('PUT', pathOf(id), `{"id":${id + 1n},"isComplete":true}`), 400)
  }),
  choice('A13', 'a validation problem lists messages by member', async (service) => {
    const problem = expectProblem(await service.send('POST', items, { name: 1 }), 400, ['errors'])
    const errors = problem.errors as Record<string, unknown>
    expectThat(isDeepStrictEqual(Object.keys(errors).sort(), ['isComplete', 'name']), 'errors for name and isComplete')
    const messages = Object.values(errors).flat()
    expectThat(messages.length >= 2 && messages.every((m) => typeof m === 'string' && m), 'a message for each')
  }),
  choice('A13', 'each problem has a traceId of its own', async (service) => {
    const first = expectProblem(await service.send('GET', pathOf(-1n)), 404)
    const second = expectProblem(await service.send('GET', pathOf(-1n)), 404)
    expectThat(first.traceId !== second.traceId, 'two different traceIds')
  }),
  choice('A14', 'no body and no media type: 415', async (service) => {
    expectStatus(await service.send('POST', items), 415)
    const { id } = await create(service)
    expectStatus(await service.send('PUT', pathOf(id)), 415)
  }),
  choice('A14', 'a body without media type: 415', async (service) => {
    expectStatus(await service.send('POST', items, fields(), { 'content-type': undefined }), 415)
  }),
  choice('A14', 'a media type and no body: 400', async (service) => {
    expectStatus(await service.send('POST', items, undefined, { 'content-type': 'application/json' }), 400)
  }),
  spec('A15', 'no input is a failure of the service', async (service) => {
    for (const body of ['{', '[]', '{"isComplete":{}}', '['.repeat(100_000), `{"a":${'[{"a":'.repeat(10_000)}`, '\0']) {
      const answer = await service.send('POST', items, body)
      expectThat(answer.status < 500, 'no 5xx status', answer)
    }
  }),
]
