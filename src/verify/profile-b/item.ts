import { isDeepStrictEqual } from 'node:util'
import { items, unique } from '../check.ts'
import { expectArray, expectBody, expectCode, expectThat } from '../expect.ts'
import type { Received, Service } from '../service.ts'
export interface Item {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

export const fresh = (over: Partial<Item> = {}): Item => ({
  id: unique(),
  name: unique(),
  notes: 'notes',
  done: false,
  ...over,
})
export const pathOf = (id: string) => `${items}/${encodeURIComponent(id)}`

export const expectMissing = (answer: Received) => expectCode(answer, 400, 'TodoItemNameAndNotesRequired')
export const expectNotFound = (answer: Received) => expectCode(answer, 404, 'RecordNotFound')
export const expectCouldNotCreate = (answer: Received) => expectCode(answer, 400, 'CouldNotCreateItem')

export async function create(service: Service, over: Partial<Item> = {}): Promise<Item> {
  const item = fresh(over)
  expectBody(await service.send('POST', items, item), 200, item)
  return item
}

export async function listed(service: Service): Promise<Item[]> {
  return expectArray(await service.send('GET', items)) as Item[]
}

export async function expectStored(service: Service, item: Item): Promise<void> {
  const found = (await listed(service)).filter(({ id }) => id === item.id)
  expectThat(
    isDeepStrictEqual(found, [item]),
    `${JSON.stringify(item)} in the list, once, not ${JSON.stringify(found)}`,
  )
}

export async function expectNotStored(service: Service, id: unknown): Promise<void> {
  expectThat(!(await listed(service)).some((item) => item.id === id), `no item ${id} in the list`)
}
