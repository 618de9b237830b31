import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { titles } from '../support/faulty-server.ts'
import { concurrency, testFaultyServers, verifyServer } from '../support/verified-servers.ts'
import { correctServers } from './servers/index.ts'

// test/slow/servers.test.ts has the others.
testFaultyServers((index) => index % 3 === 0)

/** They take minutes with all checks. */
const slowServers: Readonly<Record<string, readonly string[]>> = {
  'a-rate-limited': ['A9'],
  'a-slow': ['A2', 'S2'],
}

suite('verify blames no correct server', { concurrency }, () => {
  for (const server of correctServers) {
    const { id, trait, publicUrl } = server
    test(`${id}: ${trait}`, async (t) => {
      const verification = await verifyServer(t, server, { quick: true, publicUrl, only: slowServers[id] })
      assert.deepEqual(titles(verification, 'failed'), [])
      assert.deepEqual([verification.ok, verification.leftovers], [true, []])
    })
  }
})
