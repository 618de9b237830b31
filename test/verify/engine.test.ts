import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { shrink } from '../../src/verify/engine/shrink.ts'
import { failedRules, type Mutation, titles, verifyFaulty } from '../support/faulty-server.ts'

const itemsPath = '/api/todoitems'

const isList: (request: Parameters<Mutation>[0]) => boolean = ({ method, path }) =>
  method === 'GET' && path === itemsPath

/** The third PUT of each item has no effect. */
function ignoreThirdPut(): Mutation {
  const puts = new Map<string, number>()
  return async (request, forward) => {
    const count = (puts.get(request.path) ?? 0) + 1
    if (request.method === 'PUT') puts.set(request.path, count)
    return request.method === 'PUT' && count === 3 ? { status: 204, headers: {}, text: '' } : forward(request)
  }
}

suite('what a run sees', { concurrency: 2 }, () => {
  test('A1 items that vanish some time after they were created', async (t) => {
    const createdAt = new Map<number, number>()
    const mutate: Mutation = async (request, forward) => {
      const response = await forward(request)
      if (!isList(request)) return response
      const items = JSON.parse(response.text) as { id: number }[]
      for (const { id } of items) if (!createdAt.has(id)) createdAt.set(id, Date.now())
      const kept = items.filter(({ id }) => Date.now() - (createdAt.get(id) ?? 0) < 3_000)
      return { ...response, text: JSON.stringify(kept) }
    }
    const { outcomes } = await verifyFaulty(t, 'a', mutate, { only: ['A1'], quick: true, watchMs: 3_500 })
    const failed = outcomes.filter(({ status }) => status === 'failed')
    // On a slow machine another check may take longer than the items last.
    const watched = failed.find(({ name }) => name === 'items that nobody changes stay as they are')
    assert.match(watched?.failure?.expected ?? '', /^after nothing for \d+ seconds/)
  })

  test('A1 a list that is kept for each User-Agent', async (t) => {
    const lists = new Map<unknown, string>()
    const mutate: Mutation = async (request, forward) => {
      const response = await forward(request)
      if (!isList(request) || !request.headers['user-agent']) return response
      const text = lists.get(request.headers['user-agent']) ?? response.text
      lists.set(request.headers['user-agent'], text)
      return { ...response, text }
    }
    assert.ok(failedRules(await verifyFaulty(t, 'a', mutate, { only: ['A1'], quick: true })).includes('A1'))
  })

  test('A3 a status that is wrong now and then, whatever the check is about', async (t) => {
    let posts = 0
    const mutate: Mutation = async (request, forward) => {
      const response = await forward(request)
      return response.status === 201 && ++posts % 20 === 0 ? { ...response, status: 200 } : response
    }
    const verification = await verifyFaulty(t, 'a', mutate, { only: ['A3', 'A7'], quick: true })
    assert.deepEqual(titles(verification, 'failed'), ['A3 every POST that succeeds returns 201'])
  })

  test('B7 beside errors that are no codes', async (t) => {
    const mutate: Mutation = async (request, forward) => {
      const body =
        request.method === 'PUT'
          ? Buffer.from(`${request.body}`.replace(/"notes":"[^"]+"/, '"notes":"x"'))
          : request.body
      const response = await forward({ ...request, body })
      const headers = { ...response.headers, 'content-type': 'application/problem+json' }
      const text = JSON.stringify({ status: response.status, traceId: 'x' })
      return response.status < 400 || request.path.startsWith('/s') ? response : { ...response, headers, text }
    }
    const verification = await verifyFaulty(t, 'b', mutate, { only: ['B7', 'B8', 'B9'], quick: true })
    assert.ok(failedRules(verification).includes('B7'), `${titles(verification, 'failed')}`)
    assert.ok(failedRules(verification).includes('B9'))
    assert.ok(
      titles(verification, 'passed').includes('B8 DELETE returns 404 when no item has the id, and changes nothing'),
    )
  })

  test('A3 a broken POST is one failure of a fresh server', async (t) => {
    const mutate: Mutation = async (request, forward) =>
      request.method === 'POST' ? { status: 500, headers: {}, text: '' } : forward(request)
    assert.deepEqual(failedRules(await verifyFaulty(t, 'a', mutate, { fresh: true, quick: true })), ['A3'])
  })
})

suite('whom a run does not blame', { concurrency: 2 }, () => {
  test('A4, G7 a fresh server, whose first id is 1', async (t) => {
    const options = { fresh: true, strict: true, only: ['A1', 'A4', 'G7'], watchMs: 0 }
    assert.deepEqual(titles(await verifyFaulty(t, 'a', (request, forward) => forward(request), options), 'failed'), [])
  })

  test('a server that is unavailable for a moment, and says so', async (t) => {
    let requests = 0
    const mutate: Mutation = async (request, forward) =>
      ++requests % 9 === 0 ? { status: 503, headers: { 'retry-after': '0' }, text: '' } : forward(request)
    const verification = await verifyFaulty(t, 'a', mutate, { only: ['A2', 'A9'], quick: true })
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.ok(verification.retries > 10)
  })

  test('B11 a server before which long paths and some characters are refused, and no item stays', async (t) => {
    const mutate: Mutation = async (request, forward) =>
      request.path.length > 2_000 || /%00|%3c/i.test(request.path)
        ? { status: request.path.length > 2_000 ? 414 : 400, headers: {}, text: '' }
        : forward(request)
    const verification = await verifyFaulty(t, 'b', mutate, { only: ['B5', 'B11'], watchMs: 0 })
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.deepEqual(verification.leftovers, [])
    assert.ok(titles(verification, 'deviates').some((title) => title.includes('<script>')))
  })

  test('G3, B9 a server that declares no charset has two notes', async (t) => {
    const mutate: Mutation = async (request, forward) => {
      const response = await forward(request)
      const type = response.headers['content-type']?.replace(/;.*/, '')
      return { ...response, headers: { ...response.headers, 'content-type': type } }
    }
    const verification = await verifyFaulty(t, 'b', mutate, { only: ['G3', 'B9'] })
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.deepEqual(titles(verification, 'deviates'), [
      'G3 lists and items declare charset=utf-8',
      'B9 error bodies declare charset=utf-8',
    ])
  })
})

suite('what a report hides of a header', () => {
  /** The failure of a server that has an item under every id, and sends back this header. */
  async function failureWith(t: TestContext, name: string, value: string) {
    const mutate: Mutation = async (request, forward) => {
      const response = await forward(request)
      const isMissing = response.status === 404 && /\d$/.test(request.path)
      return isMissing ? { ...response, status: 200, text: `"0, ${request.headers[name]}"` } : response
    }
    const options = { only: ['A2'], quick: true, credentials: { [name]: value } }
    const { outcomes } = await verifyFaulty(t, 'a', mutate, options)
    const { expected = '', got = '', request = '' } = outcomes.find(({ failure }) => failure)?.failure ?? {}
    return { expected, got, request }
  }

  test('a short value only where it was sent', async (t) => {
    const { expected, got, request } = await failureWith(t, 'x-tenant', '0')
    assert.equal(expected, 'status 404')
    assert.match(got, /^status 200; .*"0, 0"$/)
    assert.match(request, /^curl .*todoitems\/\d+' -H "x-tenant: \$TOKEN"$/)
  })

  for (const [value, shown] of [
    ['Basic dXNlcjpwYXNzd29yZA==', 'Basic $TOKEN'],
    ['Token key=canary-7f3a91', 'Token $TOKEN'],
    ['sid=canary-7f3a91; csrf=x', '$TOKEN'],
  ] as const)
    test(`${value}: everything but the scheme`, async (t) => {
      const { got, request } = await failureWith(t, 'authorization', value)
      assert.ok(got.endsWith(`"0, ${shown}"`), got)
      assert.ok(request.endsWith(`-H "authorization: ${shown}"`), request)
    })
})

suite('a sequence that fails', () => {
  test('is reported with the fewest steps', async (t) => {
    const commandsOf = async (options: object) => {
      const { outcomes } = await verifyFaulty(t, 'a', ignoreThirdPut(), { only: ['A1'], quick: true, ...options })
      const outcome = outcomes.find(({ name }) => name.startsWith('after each of a generated sequence'))
      assert.equal(outcome?.status, 'failed')
      return outcome.failure?.request?.split('\n') ?? []
    }
    const commands = await commandsOf({})
    // A slow machine has no time to find the fewest.
    const methods = commands.map((command) => /-X (\w+)/.exec(command)?.[1])
    assert.match(methods.join(' '), /^POST .*(PUT .*){3}GET$/)
    const fromResponse =
      /^id1=\$\(curl .* \| node -p '\/"id" \*: \*"\?\(\[\\w-\]\+\)\/\.exec\(fs\.readFileSync\(0\)\)\[1\]'\)$/
    assert.ok(commands.some((command) => fromResponse.test(command)))
    assert.ok((await commandsOf({ shrink: false })).length >= commands.length)
  })

  test('is shrunk to the steps that it takes', async () => {
    const steps = Array.from({ length: 40 }, (_, index) => index)
    let attempts = 0
    const fewest = await shrink(steps, steps, async (fewer) => {
      attempts++
      return [3, 17, 31].every((step) => fewer.includes(step)) ? [...fewer] : undefined
    })
    assert.deepEqual(fewest, [3, 17, 31])
    assert.ok(attempts < 100, `${attempts} attempts`)
  })

  test('is reported as it is where it does not fail again', async () => {
    assert.equal(await shrink([1, 2, 3], 'first', async () => undefined), 'first')
  })

  test('has no step that could be left out where it has none', async () => {
    assert.equal(await shrink([], 'first', async () => 'again'), 'first')
  })
})
