import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { checks, rules, type Verification, type VerifyOptions, verify } from '../../src/verify/index.ts'
import { pretty } from '../../src/verify/report/pretty.ts'
import { faultyAgent, type Mutation } from '../support/faulty-server.ts'
import { agentInto, tokenFor } from '../support/running.ts'
import { faults, hasPath, is, mutateText, replaceResponse, setHeader, setStatus } from './faults.ts'

const itemsPath = '/api/todoitems'

async function verifyFaulty(
  t: TestContext,
  profile: 'a' | 'b',
  mutate: Mutation,
  options: Partial<VerifyOptions> = {},
): Promise<Verification> {
  const agent = await faultyAgent(t, profile, mutate)
  return verify({ url: 'http://faulty.example', profile, agent, token: await tokenFor('ada'), ...options })
}

/** Short: a failed assertion prints what it compares. */
const titles = ({ outcomes }: Verification, status: string) =>
  outcomes.filter((outcome) => outcome.status === status).map(({ rule, name }) => `${rule} ${name}`)
const failedRules = ({ outcomes }: Verification) => [
  ...new Set(outcomes.filter(({ status }) => status === 'failed').map(({ rule }) => rule)),
]
const ruleOf = (title: string) => title.slice(0, title.indexOf(' '))

const terminalColumns = 120
const terminalRows = 42
const countRows = (text: string) =>
  text.split('\n').reduce((rows, line) => rows + Math.max(1, Math.ceil(line.length / terminalColumns)), 0)

/** A run waits more than it computes. */
const concurrency = 4

/** Rules of basis spec of which no faulty server can break the specified part over HTTP. */
const unbreakable: Record<string, string> = {
  G7: 'a check can neither restart the server nor tell another number of items at the start from earlier requests',
}

for (const profile of ['a', 'b'] as const) {
  suite(`verify fails servers of profile ${profile} that break the specified part of a rule`, { concurrency }, () => {
    const seen = new Set<string>()
    for (const [title, mutate] of Object.entries(faults[profile].spec)) {
      // A full run for one fault of each rule; the checks of the rule alone find the others.
      const only = seen.has(ruleOf(title)) ? [ruleOf(title)] : undefined
      seen.add(ruleOf(title))
      test(title, async (t) => {
        const verification = await verifyFaulty(t, profile, mutate, { only })
        assert.equal(verification.ok, false)
        const failed = titles(verification, 'failed')
        assert.ok(failed.map(ruleOf).includes(ruleOf(title)), `failed: ${failed.join('; ')}`)
        // One fault must not bury its cause.
        assert.ok(failed.length <= 4, `${failed.length} failed: ${failed.join('; ')}`)
        const rows = countRows(pretty(verification))
        assert.ok(rows <= terminalRows, `${rows} rows`)
      })
    }
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

  test(`verify passes a correct server of profile ${profile}, and leaves no items in its store`, async (t) => {
    const agent = await faultyAgent(t, profile, (request, forward) => forward(request))
    for (let run = 0; run < 5; run++) {
      const verification = await verify({
        url: 'http://correct.example',
        profile,
        agent,
        token: await tokenFor('ada'),
        strict: true,
      })
      assert.deepEqual(titles(verification, 'failed'), [])
      const { failed, skipped, leftovers } = verification
      assert.deepEqual([failed, skipped, leftovers.length], [0, profile === 'a' ? 2 : 1, 0])
    }
  })
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

  test('G1 is about the to-do paths: other paths that match in one case only are notes of their own rules', async (t) => {
    const mutate = setStatus(hasPath(/FORECAST|SECRET|SWAGGER/), 404)
    assert.equal((await verifyFaulty(t, 'a', mutate)).ok, true)
    assert.deepEqual(failedRules(await verifyFaulty(t, 'a', mutate, { strict: true })), ['S1', 'S3', 'S4'])
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
    t.after(() => agent.destroy())
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
    const { ok, deviations } = await verifyFaulty(t, 'a', choice['A5 names are trimmed'] as Mutation, { only: ['A5'] })
    assert.deepEqual([ok, deviations], [true, 1])
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

  test('bail stops at the first failure and deletes the items of the run', async (t) => {
    let items = ''
    const verification = await verifyFaulty(
      t,
      'b',
      async (request, forward) => {
        const response = await forward(request)
        if (request.method === 'GET' && request.path === itemsPath) items = response.text
        return is('DELETE', 204)(request, response) ? { ...response, status: 200 } : response
      },
      { bail: true },
    )
    assert.deepEqual(titles(verification, 'failed'), ['B8 DELETE returns 204 without a body'])
    const { ok, complete, outcomes } = verification
    assert.deepEqual([ok, complete, outcomes.length], [false, false, checks.b.length])
    assert.equal(outcomes.at(-1)?.reason, 'the run stopped at the first failure')
    assert.equal(JSON.parse(items).length, 3)
  })
})

suite('verify leaves few items on a server that cannot delete them', () => {
  for (const status of [404, 500])
    test(`B11 a server that returns ${status} for ids with a slash keeps one item`, async (t) => {
      const mutate = replaceResponse(({ method, path }) => method === 'DELETE' && /%2f/i.test(path), {
        status,
        headers: {},
        text: '',
      })
      const verification = await verifyFaulty(t, 'b', mutate)
      assert.deepEqual(titles(verification, 'deviates'), ['B11 the id "a/b" can be created and deleted'])
      assert.equal(verification.leftovers.length, 1)
      const skipped = verification.outcomes.filter(({ reason }) => reason?.includes('no more like it were created'))
      assert.ok(skipped.length >= 2 && skipped.every(({ rule }) => rule === 'B11'))
      assert.equal(verification.ok, true)
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

  for (const [profile, rule] of [
    ['a', 'A9'],
    ['b', 'B8'],
  ] as const)
    test(`${rule} a server without DELETE keeps the items of the first checks`, async (t) => {
      const mutate = replaceResponse(({ method }) => method === 'DELETE', { status: 405, headers: {}, text: '' })
      const verification = await verifyFaulty(t, profile, mutate)
      assert.deepEqual(failedRules(verification), [rule])
      assert.equal(verification.complete, false)
      assert.ok(verification.leftovers.length < 10, `${verification.leftovers.length} items`)
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
