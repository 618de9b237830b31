import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { profiles } from '../src/app.ts'
import { type ItemTracker, trackItems } from '../src/verify/cleanup.ts'
import type { Client } from '../src/verify/client.ts'
import { profiles as contracts, profileA, profileB, rules } from '../src/verify/index.ts'
import { seededRandom } from '../src/verify/random.ts'
import { openApiValidation } from './support/openapi-validation.ts'
import { transports } from './support/running.ts'
import { stores } from './support/stores.ts'

type StartServer = (t: TestContext, profile: 'a' | 'b') => Promise<Client>

const initialItems = { a: profiles.a.startingItems, b: profiles.b.startingItems }

const servers: Record<string, StartServer> = {
  'in process': transports['in process'],
  ...Object.fromEntries(
    Object.entries(stores)
      .filter(([name]) => name !== 'memory')
      .map(([name, open]): [string, StartServer] => [
        `over a socket, store ${name}`,
        async (t, profile) => transports['over a socket'](t, profile, { stores: await open(t, initialItems) }),
      ]),
  ),
}

for (const profile of ['a', 'b'] as const) {
  const documentUrl = new URL(`../../openapi/${profile}.json`, import.meta.url)
  const withValidation = openApiValidation(JSON.parse(readFileSync(documentUrl, 'utf8')))

  for (const [name, startServer] of Object.entries(servers))
    test(`profile ${profile} conforms to the contract and its OpenAPI document, ${name}`, async (parent) => {
      const { items } = contracts[profile]
      // What the rules G and S say is the same with every store.
      const checks = contracts[profile].checks.filter(({ rule }) => name === 'in process' || !/^[GS]/.test(rule))
      let shared: Promise<ItemTracker> | undefined

      for (const check of checks)
        await parent.test(`${check.rule} ${check.name}`, async (t) => {
          if (check.needs === 'untouched store' || check.needs === 'own server')
            return check.run(withValidation(await startServer(t, profile)), seededRandom(1, check.name))
          shared ??= startServer(parent, profile).then((client) => trackItems(withValidation(client), items, undefined))
          try {
            const { client, deleteCreated } = await shared
            await check.run(client, seededRandom(1, check.name))
            // The lists of the next checks stay short.
            await deleteCreated()
          } catch (error) {
            // The next check gets a new server, so that it cannot fail because of this one.
            shared = undefined
            throw error
          }
        })
    })
}

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
