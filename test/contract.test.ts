import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { profiles } from '../src/app.ts'
import type { ProfileName } from '../src/profiles/profile.ts'
import { checks } from '../src/verify/index.ts'
import { rules } from '../src/verify/rules.ts'
import { documentedBy } from './support/documented.ts'
import { transports } from './support/running.ts'
import { stores } from './support/stores.ts'

const ways = {
  ...transports,
  async 'on PostgreSQL'(t: TestContext, profile: ProfileName) {
    return transports['over a socket'](t, profile, {
      stores: await stores.PostgreSQL(t, { a: profiles.a.startingItems, b: profiles.b.startingItems }),
    })
  },
}

for (const profile of ['a', 'b'] as const) {
  const document = readFileSync(new URL(`../../openapi/${profile}.json`, import.meta.url), 'utf8')
  const documented = documentedBy(JSON.parse(document))
  for (const [how, reach] of Object.entries(ways))
    suite(`profile ${profile} keeps the contract, and its document, ${how}`, () => {
      for (const check of checks[profile])
        test(`${check.rule} ${check.name}`, async (t) => check.run(documented(await reach(t, profile))))
    })
}

suite('the checks and the rules', () => {
  const all = [...checks.a, ...checks.b]

  for (const { id } of rules) test(`${id} has a check`, () => assert.ok(all.some(({ rule }) => rule === id)))

  test('every check names a rule, and claims the specification only where its rule may', () => {
    for (const { rule, basis, name } of all) {
      const stated = rules.find(({ id }) => id === rule)
      assert.ok(stated, `${rule} ${name}`)
      if (basis === 'spec') assert.equal(stated.basis, 'spec', `${rule} ${name}`)
    }
  })

  test('no two checks of a profile have the same rule and name', () => {
    for (const list of Object.values(checks)) {
      const names = list.map(({ rule, name }) => `${rule} ${name}`)
      assert.equal(new Set(names).size, names.length)
    }
  })
})
