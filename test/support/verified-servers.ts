import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type Verification, type VerifyOptions, verify } from '../../src/verify/index.ts'
import {
  type CorrectServer,
  correctServers,
  type FaultyServer,
  faultyServers,
  startServer,
} from '../verify/servers/index.ts'
import { cleanUp } from './cleanup.ts'
import { titles } from './faulty-server.ts'

/** A run waits more than it computes. */
const concurrency = 4

async function verifyServer(
  t: TestContext,
  server: CorrectServer | FaultyServer,
  options: Partial<VerifyOptions>,
): Promise<Verification> {
  const { url, token, otherToken, close } = await startServer(server)
  cleanUp(t, close)
  return verify({ url, token, otherToken, profile: server.profile, ...options })
}

/** One run in hundreds does not see it. */
const randomFaults = ['a-forecast-55-degrees', 'a-forecast-rarely-55']

/** The servers of one kind with a fault against one rule are a class. */
const isFirstOfClass = (server: FaultyServer) =>
  observable.find(({ kind, rule }) => kind === server.kind && rule === server.rule) === server
const observable = faultyServers.filter(({ breaks }) => breaks !== 'unobservable')

/** With the checks of the rule that verify names; `npm run mutation` runs all checks against each server. */
export function testFaultyServers(which: 'first of each class' | 'others'): void {
  const selected = observable.filter((server) => isFirstOfClass(server) === (which === 'first of each class'))
  for (const kind of ['state', 'text', 'wire', 'document', 'samples'] as const)
    suite(`verify finds servers written from the specification: ${kind}`, { concurrency }, () => {
      for (const server of selected.filter((one) => one.kind === kind)) {
        const { id, rule, reportedRule = rule, breaks, fault } = server
        test(`${rule} ${id}: ${fault}`, async (t) => {
          const found: string[] = []
          // The fault may show in the checks of another rule, and some show only now and then.
          for (const only of [
            [reportedRule],
            undefined,
            ...(randomFaults.includes(id) ? Array(4).fill(undefined) : []),
          ]) {
            if (found.length > 0) break
            const verification = await verifyServer(t, server, { fresh: true, only, bail: true })
            found.push(...titles(verification, 'failed'))
            if (breaks === 'choice') found.push(...titles(verification, 'deviates'))
          }
          assert.ok(found.length > 0)
        })
      }
    })
}

/** They take minutes with all checks. */
const slowServers: Readonly<Record<string, readonly string[]>> = {
  'a-rate-limited': ['A9'],
  'a-slow': ['A2', 'S2'],
}

/** With the checks of what is specified; `npm run mutation` runs all checks. */
export function testCorrectServers(which: 'first' | 'others'): void {
  suite('verify blames no correct server', { concurrency }, () => {
    for (const server of correctServers.filter((_, index) => (index === 0) === (which === 'first'))) {
      const { id, trait, publicUrl } = server
      test(`${id}: ${trait}`, async (t) => {
        const verification = await verifyServer(t, server, { quick: true, publicUrl, only: slowServers[id] })
        assert.deepEqual(titles(verification, 'failed'), [])
        assert.deepEqual([verification.ok, verification.leftovers], [true, []])
      })
    }
  })
}
