import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { createClient, Interrupted, obeyRetryAfter } from '../../src/verify/engine/client.ts'
import { parseExact } from '../../src/verify/engine/json.ts'
import { defineContract, expectItems, spec, uniqueText, type VerifyOptions, verify } from '../../src/verify/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { run, serve, start } from '../support/cli.ts'
import { createClient as connect } from '../support/client.ts'
import { faultyServer, type Mutation, titles, verifyFaulty } from '../support/faulty-server.ts'
import { listen } from '../support/listen.ts'
import { agentInto, transports } from '../support/running.ts'

const itemsPath = '/api/todoitems'

/** Verifies a server in this process. */
function verifyServer(t: TestContext, listener: RequestListener, options: Partial<VerifyOptions>) {
  const server = createServer(listener)
  const agent = agentInto((stream) => server.emit('connection', stream))
  cleanUp(t, () => agent.destroy())
  return verify({ url: 'http://hostile.example', profile: 'a', agent, ...options })
}

suite('verify of a server whose JSON is', () => {
  const verifyList = (t: TestContext, text: string) =>
    verifyServer(t, (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(text), {
      only: ['A1'],
      quick: true,
    })

  test('nested 100,000 levels deep', async (t) => {
    const { outcomes } = await verifyList(t, '['.repeat(1e5) + ']'.repeat(1e5))
    assert.equal(outcomes[0]?.status, 'failed')
    assert.equal(outcomes[0]?.failure?.expected, 'JSON with at most 500 levels of nesting')
  })

  test('nested as deep as is accepted', async (t) => {
    const { outcomes } = await verifyList(t, `[${'{"a":'.repeat(499)}1${'}'.repeat(499)}]`)
    assert.equal(outcomes[0]?.status, 'passed')
  })

  test('a text of many megabytes with escaped characters', () => {
    const text = '\\"'.repeat(2 ** 22)
    assert.deepEqual(parseExact(`["${text}", 1]`), ['"'.repeat(2 ** 22), 1])
  })

  test('an object with the member __proto__, which stays a member', () => {
    const parsed = parseExact('[{"__proto__":{"id":7},"constructor":null}]') as Record<string, unknown>[]
    assert.deepEqual(Object.keys(parsed[0] ?? {}), ['__proto__', 'constructor'])
    assert.equal(parsed[0]?.id, undefined)
    assert.equal(({} as Record<string, unknown>).id, undefined)
  })

  test('unusual, but valid', () => {
    const text = ' { "a" : [ ] , "b\\\\" : [ 1e2 , -0.5,true ,null ] , "" : "\\"}],:" , "c":{} } '
    assert.deepEqual(parseExact(text), JSON.parse(text))
    assert.deepEqual(parseExact('[9007199254740993,-9223372036854775808]'), [2n ** 53n + 1n, -(2n ** 63n)])
    for (const invalid of ['', '[1,]', '{"a"}', '[1 2]', '{"a":1,"a":2}', '"\u0001"'])
      assert.throws(() => parseExact(invalid), invalid)
  })
})

suite('verify of a server that', () => {
  test('sends a byte at a time for ever', async (t) => {
    const server = createServer((_, response) => {
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    })
    const { code, stderr } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--timeout', '300'])
    assert.deepEqual([code, /no complete response within 300 ms/.test(stderr)], [2, true], stderr)
  })

  test('sends informational responses or headers for ever', async (t) => {
    for (const [line, message] of [
      ['HTTP/1.1 103 Early Hints\r\n\r\n', /no complete response within 300 ms/],
      ['x-header: x\r\n', /the response is not HTTP|no complete response/],
    ] as const) {
      const server = createTcpServer((socket) => {
        socket.on('error', () => {})
        socket.write('HTTP/1.1 103 Early Hints\r\n')
        const timer = setInterval(() => socket.write(line === 'x-header: x\r\n' ? line.repeat(500) : `\r\n${line}`), 5)
        socket.on('close', () => clearInterval(timer))
        cleanUp(t, () => socket.destroy())
      })
      const { code, stderr } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--timeout', '300'])
      assert.deepEqual([code, message.test(stderr)], [2, true], stderr)
    }
  })

  test('asks to wait for a year', async (t) => {
    for (const value of ['31536000', '9'.repeat(15), new Date(Date.now() + 31_536_000_000).toUTCString()]) {
      const server = createServer((_, response) => response.writeHead(429, { 'retry-after': value }).end())
      const { code, stderr } = await run(t, ['verify', await listen(t, server), '--profile', 'a', '--wait', '60'])
      assert.equal(code, 2)
      assert.match(stderr, /cannot be checked: the server responds 429 after 0 s, and asks for another \d{8,} s\.\n$/)
    }
  })

  test('asks to wait for a year in the middle of a run: the rest is not judged, and the items are deleted', async (t) => {
    let [posts, names] = [0, '']
    const verification = await verifyFaulty(
      t,
      'a',
      async (request, forward) => {
        if (request.method === 'POST' && ++posts > 5)
          return { status: 429, headers: { 'retry-after': '31536000' }, text: '' }
        const response = await forward(request)
        if (request.method === 'GET' && request.path === itemsPath) names = response.text
        return response
      },
      { only: ['A*'] },
    )
    assert.deepEqual(titles(verification, 'failed'), [])
    assert.deepEqual([verification.complete, verification.leftovers, names], [false, [], '[]'])
    assert.equal(posts, 6)
    assert.match(
      verification.outcomes.at(-1)?.reason ?? '',
      /^the server responds 429 after 0 s, and asks for another 31536000 s$/,
    )
  })

  test('responds 429 for ever', async (t) => {
    for (const headers of [{ 'retry-after': '0' }, { 'retry-after': 'soon' }, {}]) {
      let requests = 0
      const url = await listen(
        t,
        createServer((_, response) => {
          requests++
          response.writeHead(429, headers).end()
        }),
      )
      let retries = 0
      const onRetry = () => retries++
      const client = obeyRetryAfter(createClient(url), { onRetry, maxPauseMs: 1500 })
      await assert.rejects(client.send('GET', '/'), Interrupted)
      assert.ok(requests > 1 && requests < 20, `${requests} requests`)
      assert.equal(retries, requests - 1)
    }
  })

  test('stops responding to the control API: --reset ends with one message', async (t) => {
    const { url } = await serve(t, ['--no-https'])
    for (const isBroken of [
      (method: string, count: number) => method === 'POST' && count > 2,
      (method: string) => method === 'PUT',
    ]) {
      let count = 0
      const server = faultyServer(connect(url), (request, forward) =>
        request.path.startsWith('/__admin/') && isBroken(request.method, ++count)
          ? Promise.resolve({ status: 500, headers: {}, text: '' })
          : forward(request),
      )
      const args = ['verify', await listen(t, server), '--profile', 'a', '--only', 'G7', '--reset']
      const { code, stdout, stderr } = await run(t, args)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^todo-service: http:\S+ cannot be reset: (POST|PUT) \/__admin\/\w+ got status 500\..*\n$/)
    }
  })

  test('lists so many items that a check cannot keep all its responses', async (t) => {
    const list = JSON.stringify(Array.from({ length: 60_000 }, (_, id) => ({ id, name: 'x'.repeat(100) })))
    const contract = defineContract({
      name: 'Lists',
      rules: [{ id: 'L1', basis: 'spec', sentence: 'GET lists.' }],
      items: { path: '/lists' },
      checks: [
        spec('L1', 'a hundred times', async (client) => {
          const reads = async () => expectItems(await client.send('GET', '/lists')).length
          for (let i = 0; i < 100; i++) await reads()
          globalThis.gc?.()
          heapUsed = process.memoryUsage().heapUsed
        }),
      ],
    })
    let heapUsed = 0
    const before = process.memoryUsage().heapUsed
    const { passed } = await verifyServer(t, (_, response) => response.end(list), { contract, profile: undefined })
    assert.equal(passed, 1)
    assert.ok(heapUsed - before < 40 * list.length, `${heapUsed - before} bytes`)
  })
})

suite('verify of a server that sends 16 MiB', () => {
  const size = 2 ** 24 - 1_000
  for (const [title, text] of Object.entries({
    'of nested arrays': '['.repeat(size),
    'of numbers': `[${'0,'.repeat(size / 2)}0]`,
    'of objects': `[${'{},'.repeat(size / 3)}{}]`,
    'of digits': `[${'1'.repeat(size)}]`,
    'of escapes': `["${'\\"'.repeat(size / 2)}"]`,
  }))
    test(`${title}: ends within a minute, in less than a gigabyte`, async (t) => {
      const server = createServer((_, response) => response.end(text))
      const args = ['verify', await listen(t, server), '--profile', 'a', '--quick', '--only', 'A1']
      const { ended } = start(t, args, { NODE_OPTIONS: '--max-old-space-size=800' })
      const startedAt = Date.now()
      const { code, stdout } = await ended
      assert.equal(code, 1, stdout.slice(-500))
      assert.ok(Date.now() - startedAt < 60_000)
    })

  test('in chunks of a byte, or after informational responses: ends with the timeout, in less than a gigabyte', async (t) => {
    for (const [head, part] of [
      ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\n[\r\n'],
      ['', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
    ] as const) {
      const bytes = Buffer.from(part.repeat(10_000))
      const server = createTcpServer((socket) => {
        socket.on('error', () => {})
        socket.write(head)
        const send = () => {
          while (!socket.destroyed && socket.write(bytes));
        }
        socket.on('drain', send)
        socket.once('data', send)
        cleanUp(t, () => socket.destroy())
      })
      const args = ['verify', await listen(t, server), '--profile', 'a', '--timeout', '5000']
      const { code, stderr } = await start(t, args, { NODE_OPTIONS: '--max-old-space-size=800' }).ended
      assert.deepEqual([code, /no complete response|larger than 16777216 bytes/.test(stderr)], [2, true], stderr)
    }
  })
})

suite('verify stops on SIGINT', () => {
  test('during the pause that a server asks for, and deletes the items', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let isLimited = false
    let posts = 0
    const server = faultyServer(client, async (request, forward) => {
      if (request.method !== 'POST' || ++posts < 4) return forward(request)
      if (!isLimited) setTimeout(() => running.process.kill('SIGINT'))
      isLimited = true
      return { status: 429, headers: { 'retry-after': '60' }, text: '' }
    })
    const running = start(t, ['verify', await listen(t, server), '--profile', 'a'])
    const startedAt = Date.now()
    const { code, stdout, stderr } = await running.ended
    assert.equal(code, 2, stdout)
    assert.match(stdout, /: the run was stopped$/m)
    assert.match(stderr, /Stopped before the end\.\n$/)
    assert.ok(Date.now() - startedAt < 10_000)
    assert.equal((await client.send('GET', itemsPath)).text, '[]')
  })

  test('while a response is due', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let posts = 0
    const server = faultyServer(client, async (request, forward) => {
      if (request.method !== 'POST' || ++posts < 4) return forward(request)
      setTimeout(() => running.process.kill('SIGINT'))
      return new Promise(() => {})
    })
    const running = start(t, ['verify', await listen(t, server), '--profile', 'a', '--timeout', '600000'])
    const { code, stdout } = await running.ended
    assert.equal(code, 2, stdout)
    assert.match(stdout, /: the run was stopped$/m)
    assert.equal((await client.send('GET', itemsPath)).text, '[]')
  })

  test('of a server that has stopped responding, after one more request', async (t) => {
    const client = await transports['over a socket'](t, 'a')
    let isSilent = false
    let created = 0
    let unanswered = 0
    const server = faultyServer(client, async (request, forward) => {
      if (request.method === 'POST' && ++created === 20) isSilent = true
      if (!isSilent) return forward(request)
      if (++unanswered === 1) setTimeout(() => running.process.kill('SIGINT'))
      return new Promise(() => {})
    })
    const running = start(t, ['verify', await listen(t, server), '--profile', 'a', '--only', 'A4', '--timeout', '2000'])
    const { code, stdout } = await running.ended
    assert.equal(code, 2, stdout)
    // The one that was in flight, and one for the items of the run.
    assert.equal(unanswered, 2)
    assert.match(stdout, /^Could not be deleted:\n {2}\/api\/todoitems\/\d+\n {2}\/api/m)
  })
})

test('concurrent runs of one process do not delete the items of each other', async (t) => {
  const client = await transports['over a socket'](t, 'a')
  const ends: (() => void)[] = []
  const contract = (work: () => Promise<void>) =>
    defineContract({
      name: 'Items',
      rules: [{ id: 'I1', basis: 'spec', sentence: 'Items are kept.' }],
      items: { path: itemsPath },
      checks: [
        spec('I1', 'an item is kept while another run ends', async (checkClient) => {
          const name = uniqueText()
          await checkClient.send('POST', itemsPath, { name, isComplete: true })
          await work()
          const listed = expectItems(await checkClient.send('GET', itemsPath))
          if (!listed.some((item) => item.name === name)) throw new Error('deleted by another run')
        }),
      ],
    })
  const waiting = verify({ url: client.url, contract: contract(() => new Promise((end) => ends.push(end))) })
  while (ends.length === 0) await new Promise(setImmediate)
  const { ok } = await verify({ url: client.url, contract: contract(async () => {}) })
  ends[0]?.()
  assert.deepEqual([ok, titles(await waiting, 'failed')], [true, []])
})

test('an assigned id of a megabyte does not stop the run', async (t) => {
  const id = 'x'.repeat(2 ** 20)
  const mutate: Mutation = async (request, forward) => {
    const response = await forward(request)
    if (request.method === 'PUT') return { ...response, status: 500 }
    return request.method === 'POST' && response.status === 200
      ? { ...response, text: response.text.replace(/"id":"[^"]*"/, `"id":"${id}"`) }
      : response
  }
  const url = await listen(t, faultyServer(await transports['over a socket'](t, 'b'), mutate))
  const { failed } = await verify({ url, profile: 'b', only: ['B3', 'B7'] })
  assert.ok(failed > 0)
})
