import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { profiles, verify } from '../../src/verify/index.ts'
import { serve } from '../support/cli.ts'
import { developmentToken } from '../support/control.ts'

suite('with the control layer on', { concurrency: true }, () => {
  for (const [profile, place, path] of [
    ['a', 'in a sandbox', '/~verify'],
    ['b', 'outside sandboxes', ''],
  ] as const)
    test(`profile ${profile} passes every check of the contract, ${place}`, async (t) => {
      const service = await serve(t, [], {}, profile)
      const token = await developmentToken(service)
      const options = { url: `${service.url}${path}`, profile, token, otherToken: token, timeout: 60_000 }
      const { outcomes, ok, leftovers } = await verify({ ...options, strict: true })
      const needsOwnServer = profiles[profile].checks.filter(({ needs }) => needs === 'own server').length
      const others = outcomes.filter(({ status }) => status !== 'passed')
      assert.deepEqual(
        others.filter(({ status }) => status !== 'skipped'),
        [],
      )
      assert.equal(others.length, needsOwnServer)
      assert.ok(ok)
      assert.deepEqual(leftovers, [])
    })
})
