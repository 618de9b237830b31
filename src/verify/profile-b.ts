import type { Check } from './check.ts'
import { everywhereChecks } from './everywhere.ts'
import { idChecks } from './profile-b/ids.ts'
import { expectCouldNotCreate, expectMissing, fresh } from './profile-b/item.ts'
import { operationChecks } from './profile-b/operations.ts'
import { refusalChecks } from './profile-b/refusals.ts'
import { sampleChecks } from './samples.ts'
import { securedChecks } from './secured.ts'

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
  ...operationChecks,
  ...idChecks,
  ...refusalChecks,
  ...sampleChecks,
  ...securedChecks,
]
