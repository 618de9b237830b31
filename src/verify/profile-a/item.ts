import { isDeepStrictEqual } from 'node:util'
import { items, unique } from '../check.ts'
import { expectBody, expectStatus, expectThat, jsonOf } from '../expect.ts'
import type { Received, Service } from '../service.ts'
export interface Item {
  readonly id: bigint
  readonly name: string | null
  readonly isComplete: boolean
}

const most = 9223372036854775807n
/** Ids that no item is expected to have. */
export const vacant = [-1n, -most - 1n, most, 9007199254740993n]

export const pathOf = (id: bigint | string) => `${items}/${id}`
export const fields = (over: object = {}) => ({ name: unique(), isComplete: false, ...over })
/** JSON text with an exact id, which JSON.stringify could not write. */
export const fullItem = ({ id, name, isComplete }: Item) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`

export async function create(service: Service, over: object = {}): Promise<Item> {
  const answer = await service.send('POST', items, fields(over))
  expectStatus(answer, 201)
  return jsonOf(answer) as Item
}

export async function expectStored(service: Service, item: Item): Promise<void> {
  expectBody(await service.send('GET', pathOf(item.id)), 200, item)
}

/** What a refused PUT was sent for is as it was before. */
export async function expectRefusedPut(service: Service, item: Item, body: unknown): Promise<void> {
  expectStatus(await service.send('PUT', pathOf(item.id), body), 400)
  await expectStored(service, item)
}

export function expectProblem(
  answer: Received,
  status: number,
  further: readonly string[] = [],
): Record<string, unknown> {
  expectStatus(answer, status)
  expectThat(
    /^application\/problem\+json(?:;|$)/i.test(answer.headers['content-type'] ?? ''),
    'application/problem+json',
    answer,
  )
  const problem = jsonOf(answer) as Record<string, unknown>
  const { type, title, traceId } = problem
  expectThat(
    [type, title, traceId].every((member) => typeof member === 'string' && member),
    'type, title, traceId',
    answer,
  )
  expectThat(problem.status === status, `the member status ${status}`, answer)
  const members = ['status', 'title', 'traceId', 'type', ...further].sort()
  expectThat(isDeepStrictEqual(Object.keys(problem).sort(), members), `the members ${members} and no other`, answer)
  return problem
}
