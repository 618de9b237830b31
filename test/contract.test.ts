import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { profileA, profileB, rules } from '../src/verify/index.ts'
import { testContract, testControlled } from './support/contract.ts'

// test/slow/contract.test.ts has the other stores, and the checks that take long.
for (const profile of ['a', 'b'] as const) testContract(profile, 'in process', { long: false })
testControlled('a', 'in a space')

suite('the checks', () => {
  const all = [...profileA.checks, ...profileB.checks]

  const unobservable = [profileA, profileB].flatMap((contract) => contract.unobservable ?? [])
  for (const { id } of rules)
    test(`${id} has a check, or cannot be observed`, () =>
      assert.ok([...all, ...unobservable].some(({ rule }) => rule === id)))

  test('every check belongs to a rule, and has basis spec only if its rule has', () => {
    for (const { rule, basis, name } of all) {
      const stated = rules.find(({ id }) => id === rule)
      assert.ok(stated, `${rule} ${name}`)
      if (basis === 'spec') assert.equal(stated.basis, 'spec', `${rule} ${name}`)
    }
  })

  test('no two checks of a profile have the same rule and name', () => {
    for (const { checks } of [profileA, profileB]) {
      const names = checks.map(({ rule, name }) => `${rule} ${name}`)
      assert.equal(new Set(names).size, names.length)
    }
  })
})
