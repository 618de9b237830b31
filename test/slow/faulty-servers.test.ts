import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { verify } from '../../src/verify/index.ts'
import { assertFails, failedRules, faultyAgent, ruleOf, titles, verifyFaulty } from '../support/faulty-server.ts'
import { tokenFor } from '../support/running.ts'
import { faults, hasPath, replaceResponse, setStatus } from '../verify/faults.ts'

/** A run waits more than it computes. */
const concurrency = 4

for (const profile of ['a', 'b'] as const) {
  suite(`verify fails servers of profile ${profile} that break the specified part of a rule`, { concurrency }, () => {
    for (const [title, mutate] of Object.entries(faults[profile].spec))
      test(title, async (t) => {
        assertFails(await verifyFaulty(t, profile, mutate, { only: [ruleOf(title)] }), title)
      })
  })

  suite(`verify fails servers of profile ${profile} that deviate from a choice only if it is strict`, {
    concurrency,
  }, () => {
    for (const [title, mutate] of Object.entries(faults[profile].choice))
      test(title, async (t) => {
        const rule = ruleOf(title)
        assert.deepEqual(failedRules(await verifyFaulty(t, profile, mutate, { only: [rule], strict: true })), [rule])
        const { ok, deviations } = await verifyFaulty(t, profile, mutate, { only: [rule] })
        assert.deepEqual([ok, deviations > 0], [true, true])
      })
  })
}

for (const profile of ['a', 'b'] as const)
  suite(`verify fails servers of profile ${profile} that break a rule, with all checks`, { concurrency }, () => {
    const firstOfRule = new Map(
      Object.keys(faults[profile].spec)
        .reverse()
        .map((title) => [ruleOf(title), title]),
    )
    for (const [title, mutate] of Object.entries(faults[profile].spec))
      if (firstOfRule.get(ruleOf(title)) === title)
        test(title, async (t) => {
          assertFails(await verifyFaulty(t, profile, mutate), title)
        })
  })

suite('verify names the cause', { concurrency }, () => {
  test('G1 sample paths that match in one case only are one failure', async (t) => {
    const mutate = setStatus(hasPath(/FORECAST|SECRET|SWAGGER/), 404)
    assert.deepEqual(failedRules(await verifyFaulty(t, 'a', mutate)), ['G1'])
  })

  for (const [path, rule] of Object.entries({
    '/': 'S2',
    '/weatherforecast': 'S1',
    '/secret': 'S3',
    '/swagger/v1/swagger.json': 'S4',
  }))
    test(`${rule} a server without ${path} has one failure`, async (t) => {
      const mutate = replaceResponse((request) => request.path === path, { status: 404, headers: {}, text: '' })
      const { outcomes, deviations } = await verifyFaulty(t, 'a', mutate)
      const failed = outcomes.filter(({ status }) => status === 'failed')
      assert.deepEqual(
        failed.map((outcome) => `${outcome.rule} ${outcome.failure?.expected}: ${outcome.failure?.got}`),
        [`${rule} GET ${path} to be served: not served (404)`],
      )
      assert.equal(deviations, 0)
    })

  test('S5 a server without the page, as outside development, has no failure', async (t) => {
    const mutate = replaceResponse(({ path }) => /^\/swagger(\/index\.html)?$/.test(path), {
      status: 404,
      headers: {},
      text: '',
    })
    assert.deepEqual(titles(await verifyFaulty(t, 'a', mutate, { strict: true }), 'failed'), [])
  })
})

suite('verify leaves few items on a server that cannot delete them', { concurrency }, () => {
  for (const status of [404, 400])
    test(`B11 a server that returns ${status} for ids with a slash keeps no item`, async (t) => {
      const mutate = replaceResponse(({ method, path }) => method === 'DELETE' && /%2f/i.test(path), {
        status,
        headers: {},
        text: '',
      })
      const verification = await verifyFaulty(t, 'b', mutate)
      assert.ok(titles(verification, 'deviates').includes('B11 the id "a/b" can be created and deleted'))
      assert.deepEqual([verification.leftovers, verification.ok], [[], true], `${titles(verification, 'failed')}`)
    })

  for (const [profile, rule] of [
    ['a', 'A9'],
    ['b', 'B8'],
  ] as const)
    test(`${rule} a server without DELETE keeps the items of the first checks`, async (t) => {
      const mutate = replaceResponse(({ method }) => method === 'DELETE', { status: 405, headers: {}, text: '' })
      const verification = await verifyFaulty(t, profile, mutate)
      assert.deepEqual(failedRules(verification), [rule])
      assert.equal(verification.complete, false)
      assert.ok(verification.leftovers.length < 20, `${verification.leftovers.length} items`)
    })
})

test('outcomes carry no large bodies', async (t) => {
  const mutate = setStatus(({ body }) => body.length > 1000, 500)
  for (const profile of ['a', 'b'] as const) {
    const { outcomes, failed } = await verifyFaulty(t, profile, mutate, { strict: true })
    assert.ok(failed > 3)
    for (const { rule, name, failure } of outcomes)
      assert.ok(JSON.stringify(failure ?? '').length < 20_000, `${rule} ${name}`)
  }
})

for (const profile of ['a', 'b'] as const) {
  test(`verify passes a correct server of profile ${profile}, and leaves no items in its store`, async (t) => {
    const agent = await faultyAgent(t, profile, (request, forward) => forward(request))
    const [token, otherToken] = [await tokenFor('ada'), await tokenFor('bob')]
    const verification = await verify({
      url: 'http://correct.example',
      profile,
      agent,
      token,
      otherToken,
      strict: true,
    })
    assert.deepEqual(titles(verification, 'failed'), [])
    const { failed, skipped, leftovers } = verification
    assert.deepEqual([failed, skipped, leftovers.length], [0, 2, 0])
  })
}
