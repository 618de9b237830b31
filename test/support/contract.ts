import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { type ItemTracker, trackItems } from '../../src/verify/engine/cleanup.ts'
import type { Client } from '../../src/verify/engine/client.ts'
import { randomFor } from '../../src/verify/engine/random.ts'
import { type Check, profiles as contracts, verify } from '../../src/verify/index.ts'
import { serve } from './cli.ts'
import { developmentToken } from './control.ts'
import { openApiValidation } from './openapi-validation.ts'
import { transports } from './running.ts'
import { startingItemsB, stores } from './stores.ts'

type StartServer = (t: TestContext, profile: 'a' | 'b') => Promise<Client>

const initialItems = { a: [], b: startingItemsB }

const overSocket =
  (store: 'SQLite' | 'PostgreSQL'): StartServer =>
  async (t, profile) =>
    transports['over a socket'](t, profile, { stores: await stores[store](t, initialItems) })

type ServerName = 'in process' | 'over a socket, store SQLite' | 'over a socket, store PostgreSQL'

const servers: Readonly<Record<ServerName, StartServer>> = {
  'in process': transports['in process'],
  'over a socket, store SQLite': overSocket('SQLite'),
  'over a socket, store PostgreSQL': overSocket('PostgreSQL'),
}

async function run(check: Check, client: Client): Promise<void> {
  const atEnd = await check.run(client, randomFor(1, check.name))
  if (typeof atEnd === 'function') await atEnd(0)
}

const inspecting = (client: Client, checks: readonly Check[]): Client => ({
  ...client,
  async send(...request) {
    const response = await client.send(...request)
    for (const { inspect } of checks) inspect?.(response, response.request.path.replace(/\?.*$/, ''), client)
    return response
  },
})

/** Runs the checks of the profile, `long` ones too; over a socket without G and S, which are the same with every store. */
export function testContract(profile: 'a' | 'b', name: ServerName, { long }: { long: boolean }): void {
  const startServer = servers[name]
  const documentUrl = new URL(`../../../openapi/${profile}.json`, import.meta.url)
  const withValidation = openApiValidation(JSON.parse(readFileSync(documentUrl, 'utf8')))

  test(`profile ${profile} conforms to the contract and its OpenAPI document, ${name}`, async (parent) => {
    const { items } = contracts[profile]
    const checks = contracts[profile].checks.filter(
      ({ rule, isLong }) => (name === 'in process' || !/^[GS]/.test(rule)) && (long || !isLong),
    )
    let shared: Promise<ItemTracker> | undefined

    for (const check of checks)
      await parent.test(`${check.rule} ${check.name}`, async (t) => {
        // The others are judged with every response.
        if (check.inspect) return
        if (check.needs === 'untouched store' || check.needs === 'own server')
          return run(check, inspecting(withValidation(await startServer(t, profile)), checks))
        shared ??= startServer(parent, profile).then((client) =>
          trackItems(inspecting(withValidation(client), checks), items, undefined),
        )
        try {
          const { client, deleteCreated } = await shared
          await run(check, client)
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

/** In development, the control layer handles every request first. */
export function testControlled(profile: 'a' | 'b', place: 'in a space' | 'outside spaces'): void {
  test(`profile ${profile} passes every check of the contract with the control layer on, ${place}`, async (t) => {
    const service = await serve(t, [], {}, profile)
    const token = await developmentToken(service)
    const url = `${service.url}${place === 'in a space' ? '/~verify' : ''}`
    const options = { url, profile, token, otherToken: token, timeout: 60_000, strict: true }
    const { outcomes, ok, leftovers } = await verify(options)
    const needsOwnServer = contracts[profile].checks.filter(({ needs }) => needs === 'own server').length
    const others = outcomes.filter(({ status }) => status !== 'passed')
    assert.deepEqual(
      others.filter(({ status }) => status !== 'skipped'),
      [],
    )
    assert.equal(others.length, needsOwnServer)
    assert.ok(ok)
    assert.deepEqual(leftovers, [])
  })
}
