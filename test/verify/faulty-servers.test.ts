import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { suite, test } from 'node:test'
import { profileB, rules, verify } from '../../src/verify/index.ts'
import { pretty } from '../../src/verify/report/pretty.ts'
import { cleanUp } from '../support/cleanup.ts'
import { type Mutation, ruleOf, titles, verifyFaulty } from '../support/faulty-server.ts'
import { agentInto } from '../support/running.ts'
import { faults, hasPath, is, mutateText, replaceResponse, setHeader, setStatus } from './faults.ts'

const itemsPath = '/api/todoitems'

/** Rules of basis spec of which no faulty server can break the specified part over HTTP. */
const unbreakable: Record<string, string> = {
  G7: 'a check can neither restart the server nor tell another number of items at the start from earlier requests',
  A15: 'a check cannot make the store fail',
}

test('every rule of basis spec is broken by a faulty server, or cannot be', () => {
  const broken = Object.values(faults).flatMap(({ spec }) => Object.keys(spec).map(ruleOf))
  const specified = rules.filter(({ basis }) => basis === 'spec').map(({ id }) => id)
  assert.deepEqual(
    specified.filter((id) => !broken.includes(id)),
    Object.keys(unbreakable),
  )
})

suite('verify accepts what the specification leaves open', () => {
  for (const location of ['swagger/index.html', './swagger/index.html', '/swagger/index.html'])
    test(`S5 /swagger redirects to ${location}`, async (t) => {
      const mutate = setHeader(hasPath(/^\/swagger$/), 'location', location)
      const verification = await verifyFaulty(t, 'a', mutate, { only: ['S5'], strict: true })
      assert.deepEqual(titles(verification, 'failed'), [])
    })

  test('A11 PUT looks for the item before it compares the ids', async (t) => {
    const mutate = setStatus(
      (request, response) => is('PUT', 400)(request, response) && !/todoitems\/\d{1,9}$/.test(request.path),
      404,
    )
    assert.deepEqual(titles(await verifyFaulty(t, 'a', mutate, { only: ['A11'] }), 'failed'), [])
  })

  test('S3 the name of the caller is the claim sub', async (t) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `${part({ alg: 'HS256' })}.${part({ unique_name: 'ada', sub: 'user-7' })}.signature`
    const server = createServer(({ headers }, response) => {
      const isValid = headers.authorization === `Bearer ${token}`
      response
        .writeHead(isValid ? 200 : 401, { 'content-type': 'text/plain' })
        .end(isValid ? 'Hello user-7, swordfish' : '')
    })
    const agent = agentInto((stream) => server.emit('connection', stream))
    cleanUp(t, () => agent.destroy())
    const verification = await verify({ url: 'http://sub.example', profile: 'a', agent, token, only: ['S3'] })
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.ok(titles(verification, 'deviates').includes('S3 the name is the claim unique_name, else name, else sub'))
  })
})

suite('verify names the cause', () => {
  test('a check that builds on a failed one is skipped with its rule, and basic checks come first', async (t) => {
    const verification = await verifyFaulty(
      t,
      'a',
      mutateText(is('GET', 200), (text) => `{"data":${text}}`),
      { only: ['A*'] },
    )
    assert.equal(verification.outcomes[0]?.status, 'failed')
    assert.equal(verification.outcomes[0]?.rule, 'A1')
    const skipped = verification.outcomes.filter(({ reason }) =>
      /^could not be judged, because A1 failed/.test(reason ?? ''),
    )
    assert.ok(skipped.length > 10, `${skipped.length}`)
    assert.equal(
      verification.failed + verification.passed + verification.deviations + verification.skipped,
      verification.outcomes.length,
    )
  })

  test('a check that builds on one that is not part of the run fails, whatever its basis', async (t) => {
    const mutate = replaceResponse(({ method }) => method === 'POST', { status: 500, headers: {}, text: '' })
    for (const only of ['A7', 'G4', 'G6']) {
      const { outcomes, ok } = await verifyFaulty(t, 'a', mutate, { only: [only] })
      assert.equal(ok, false, only)
      const failed = outcomes.filter(({ status }) => status === 'failed')
      assert.deepEqual([...new Set(failed.map(({ rule }) => rule))], [only])
      assert.match(failed[0]?.failure?.expected ?? '', /\(A3, on which this check builds\)$/)
      assert.equal(failed[0]?.failure?.got, 'status 500; no body')
    }
  })

  test('a choice is judged by its basis if what it builds on holds, also without the check of that', async (t) => {
    const { choice } = faults.a
    const { ok, deviations } = await verifyFaulty(t, 'a', choice['A5 a number is accepted as name'] as Mutation, {
      only: ['A5'],
    })
    assert.deepEqual([ok, deviations], [true, 1])
  })

  test('bail stops at the first failure and deletes the items of the run', async (t) => {
    let items = ''
    const verification = await verifyFaulty(
      t,
      'b',
      async (request, forward) => {
        const response = await forward(request)
        if (request.method === 'GET' && request.path === itemsPath) items = response.text
        return is('DELETE', 204)(request, response) ? { ...response, status: 500 } : response
      },
      { bail: true },
    )
    assert.deepEqual(titles(verification, 'failed'), ['B8 DELETE removes the item and no other'])
    const { ok, complete, outcomes } = verification
    assert.deepEqual([ok, complete, outcomes.length], [false, false, profileB.checks.length])
    assert.equal(outcomes.at(-1)?.reason, 'the run stopped at the first failure')
    assert.equal(JSON.parse(items).length, 3)
  })

  test('an item with a long id is a short line of the report', async (t) => {
    const mutate = replaceResponse(({ method, path }) => method === 'DELETE' && path.length > 1000, {
      status: 404,
      headers: {},
      text: 'RecordNotFound',
    })
    const verification = await verifyFaulty(t, 'b', mutate, { only: ['B11'] })
    assert.equal(verification.leftovers.length, 1)
    assert.ok((verification.leftovers[0]?.length ?? 0) > 1000)
    const lines = pretty(verification).split('\n')
    assert.match(
      lines[lines.indexOf('Could not be deleted:') + 1] ?? '',
      /^ {2}\/api\/todoitems\/verify-.{40,80}… \(\d{4} characters\)$/,
    )
    assert.ok(lines.every((line) => line.length < 400))
  })
})
