import { testContract, testControlled } from '../support/contract.ts'

for (const profile of ['a', 'b'] as const)
  for (const name of ['in process', 'over a socket, store SQLite', 'over a socket, store PostgreSQL'] as const)
    testContract(profile, name, { long: true })
// test/contract.test.ts has profile A.
testControlled('b', 'outside spaces')
