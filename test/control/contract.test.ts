import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { profiles, verify } from '../../src/verify/index.ts'
import { serve } from '../support/cli.ts'
import { developmentToken } from '../support/control.ts'

suite('with the control layer on', { concurrency: true }, () => {
  for (const profile of ['a', 'b'] as const)
    test(`profile ${profile} passes every check of the contract, also in a sandbox`, async (t) => {
      const service = await serve(t, [], {}, profile)
      const token = await developmentToken(service)
      for (const url of [service.url, `${service.url}/~verify`]) {
        const isSandbox = url !== service.url
        const options = { url, profile, token, otherToken: token, timeout: 60_000 }
        const { outcomes, ok, leftovers } = await verify({ ...options, strict: true, quick: isSandbox })
        const needsOwnServer = profiles[profile].checks.filter(
          ({ needs, basis }) => needs === 'own server' && !(isSandbox && basis === 'choice'),
        ).length
        const others = outcomes.filter(({ status }) => status !== 'passed')
        assert.deepEqual(
          others.filter(({ status }) => status !== 'skipped'),
          [],
          url,
        )
        assert.equal(others.length, needsOwnServer, url)
        assert.ok(ok)
        assert.deepEqual(leftovers, [])
      }
    })
})
