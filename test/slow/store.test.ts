import { testStore } from '../support/store.ts'

// test/store/store.test.ts has the default space.
for (const kind of ['SQLite', 'PostgreSQL'] as const) testStore(kind, 'ada')
