import { testContract, testControlled } from '../support/contract.ts'

// test/contract.test.ts has the other profile of each.
testContract('b', 'over a socket, store SQLite')
testContract('a', 'over a socket, store PostgreSQL')
testControlled('b', 'outside spaces')
