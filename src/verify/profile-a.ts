import type { Check } from './check.ts'
import { everywhereChecks } from './everywhere.ts'
import { expectStatus } from './expect.ts'
import { bodyChecks } from './profile-a/bodies.ts'
import { idChecks } from './profile-a/ids.ts'
import { fields } from './profile-a/item.ts'
import { operationChecks } from './profile-a/operations.ts'
import { sampleChecks } from './samples.ts'
import { securedChecks } from './secured.ts'

export const profileAChecks: readonly Check[] = [
  ...everywhereChecks({
    body: (name) => fields({ name }),
    createdStatus: 201,
    requiredMember: 'isComplete',
    collectionMethods: ['GET', 'HEAD', 'POST'],
    itemMethods: ['GET', 'HEAD', 'PUT', 'DELETE'],
    expectRefusedType: (answer) => expectStatus(answer, 415),
    expectRefusedBody: (answer) => expectStatus(answer, 400),
    expectRefusedSize: (answer) => expectStatus(answer, 413),
    expectRefusedValue: (answer) => expectStatus(answer, 400),
  }),
  ...operationChecks,
  ...idChecks,
  ...bodyChecks,
  ...sampleChecks,
  ...securedChecks,
]
