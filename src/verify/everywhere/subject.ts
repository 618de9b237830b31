import { items } from '../check.ts'
import { expectArray } from '../expect.ts'
import type { Received, Service } from '../service.ts'
/** What the rules for everywhere need to know of a profile in order to try them on its items. */
export interface Subject {
  /** A body that creates an item. */
  body(name: string): Record<string, unknown>
  readonly createdStatus: number
  /** A member that a create cannot do without. */
  readonly requiredMember: string
  readonly collectionMethods: readonly string[]
  readonly itemMethods: readonly string[]
  expectRefusedType(answer: Received): void
  expectRefusedBody(answer: Received): void
  expectRefusedSize(answer: Received): void
  expectRefusedValue(answer: Received): void
}

export async function namesListed(service: Service): Promise<unknown[]> {
  const listed = expectArray(await service.send('GET', items)) as { name: unknown }[]
  return listed.map(({ name }) => name)
}
