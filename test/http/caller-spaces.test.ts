import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { env, issuers, tokenWith } from '../support/callers.ts'
import { run, serve } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { newDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { assertConformsForCaller, nodeRuntime } from '../support/runtimes.ts'
import { startingItemsB } from '../support/stores.ts'

const items = '/api/todoitems'
const bearer = (claims: object) => ({ authorization: `Bearer ${tokenWith(claims)}` })

/** Who may tell apart what two callers see. */
async function namesSeenBy(url: string, headers: Record<string, string>): Promise<unknown> {
  const { status, text } = await createClient(url).send('GET', items, undefined, headers)
  return status === 200 ? JSON.parse(text).map(({ name }: { name: string }) => name) : status
}

const production = ['--mode', 'production', '--drain-delay', '0']
const modes = { 'in production': production, 'in development': [] }

for (const [mode, flags] of Object.entries(modes))
  suite(`--spaces caller, ${mode}`, { concurrency: true }, () => {
    const start = (t: TestContext, more: readonly string[] = [], profile?: 'a' | 'b') =>
      serve(t, ['--spaces', 'caller', ...flags, ...more], env, profile)

    test('each issuer and subject has its own items, whatever else a token says', async (t) => {
      const { url } = await start(t)
      const client = createClient(url)
      const callers = [
        { sub: 'ada' },
        { sub: 'ada', iss: issuers[1] },
        { sub: 'Ada' },
        { sub: 'ada"]' },
        { sub: 'ada","x' },
        { sub: '["https://one.example","ada"]' },
        { sub: '__proto__' },
        { sub: 'a'.repeat(800) },
      ]
      for (const [index, claims] of callers.entries()) {
        const { status, text } = await client.send(
          'POST',
          items,
          { name: `${index}`, isComplete: false },
          bearer(claims),
        )
        assert.deepEqual([status, JSON.parse(text).id], [201, 1])
      }
      for (const [index, claims] of callers.entries()) {
        assert.deepEqual(await namesSeenBy(url, bearer({ ...claims, name: 'ada', scope: 'x' })), [`${index}`])
        const others = { todo_space: '["https://one.example","ada"]', space: 'ada', unique_name: 'ada' }
        assert.deepEqual(await namesSeenBy(url, bearer({ ...claims, ...others })), [`${index}`])
      }
    })

    test('S6 a request without a token gets 401, a token without a subject 403 with the reason', async (t) => {
      const { url } = await start(t)
      const client = createClient(url)
      assert.equal((await client.send('GET', items)).status, 401)
      for (const sub of [undefined, '', 5, ['ada'], null, { sub: 'ada' }, 'x'.repeat(2_000)]) {
        const { status, headers } = await client.send('GET', items, undefined, bearer({ sub }))
        assert.equal(status, 403, JSON.stringify(sub))
        assert.match(`${headers['www-authenticate']}`, /error_description="The (?:token has no|subject of the token)/)
      }
      const withClaim = bearer({ todo_space: '["https://one.example","ada"]' })
      assert.equal((await client.send('GET', items, undefined, withClaim)).status, 403)
      for (const path of ['/', '/weatherforecast']) assert.equal((await client.send('GET', path)).status, 200)
      assert.equal((await client.send('GET', '/secret', undefined, bearer({ sub: 'ada' }))).status, 200)
    })

    test('path and header name no space', async (t) => {
      const { url } = await start(t)
      await createClient(url).send('POST', items, { name: 'ada', isComplete: false }, bearer({ sub: 'ada' }))
      for (const name of ['ada', encodeURIComponent('["https://one.example","ada"]')]) {
        const byPath = await createClient(`${url}/~${name}`).send('GET', items, undefined, bearer({ sub: 'bob' }))
        assert.equal(byPath.status, mode === 'in production' ? 404 : 400)
        const headers = { ...bearer({ sub: 'bob' }), 'x-todo-space': decodeURIComponent(name) }
        const byHeader = await createClient(url).send('GET', items, undefined, headers)
        assert.equal(byHeader.status, mode === 'in production' ? 200 : 400)
        if (byHeader.status === 200) assert.equal(byHeader.text, '[]')
      }
    })

    test('B1, B2, B8 every caller starts with the starting items, also in a file, after a restart', async (t) => {
      const data = ['--data', join(temporaryFolder(t), 'todo.db')]
      const first = await start(t, data, 'b')
      const [deleted] = startingItemsB
      const { status } = await createClient(first.url).send(
        'DELETE',
        `${items}/${deleted?.id}`,
        undefined,
        bearer({ sub: 'ada' }),
      )
      assert.equal(status, 204)
      first.running.process.kill('SIGTERM')
      await first.running.ended
      const { url } = await start(t, data, 'b')
      assert.equal(((await namesSeenBy(url, bearer({ sub: 'ada' }))) as string[]).length, 2)
      assert.equal(((await namesSeenBy(url, bearer({ sub: 'bob' }))) as string[]).length, 3)
    })
  })

const storeFlags = {
  memory: () => [],
  'a file': (t: TestContext) => ['--data', join(temporaryFolder(t), 'todo.db')],
  PostgreSQL: async () => ['--database-url', (await newDatabase()).url],
}

for (const [kind, flagsOf] of Object.entries(storeFlags))
  test(`items in ${kind}: a subject has its own up to 1,970 bytes of UTF-8, a longer one gets 403`, async (t) => {
    const { url } = await serve(t, ['--spaces', 'caller', ...production, ...(await flagsOf(t))], env)
    const client = createClient(url)
    const send = (sub: string) => client.send('POST', items, { name: 'x', isComplete: false }, bearer({ sub }))
    // Each character is another one: an index compresses repeated text.
    const han = (length: number) => Array.from({ length }, (_, at) => String.fromCodePoint(0x4e00 + at * 7)).join('')
    for (const sub of ['a'.repeat(1_970), `${han(656)}aa`]) {
      assert.equal(Buffer.byteLength(sub), 1_970)
      assert.equal((await send(sub)).status, 201)
      assert.deepEqual(await namesSeenBy(url, bearer({ sub })), ['x'])
    }
    for (const sub of ['a'.repeat(1_990), han(664), han(900), '😀'.repeat(500)]) {
      const { status, headers } = await send(sub)
      assert.equal(status, 403)
      assert.match(`${headers['www-authenticate']}`, /error_description="The subject of the token \(sub\) is too long"/)
    }
  })

// test/slow/runtimes.test.ts has the other stores and runtimes.
test('a caller with a token sees the contract kept, items in memory', (t) =>
  assertConformsForCaller(t, nodeRuntime, 'a', 'memory'))

suite('--spaces', () => {
  test('path is for development mode with the control API', async (t) => {
    for (const flags of [['--mode', 'production'], ['--no-admin']]) {
      const { code, stderr } = await run(t, ['serve', '--spaces', 'path', ...flags])
      assert.equal(code, 2)
      assert.match(stderr, /--spaces path is for development mode with the control API/)
    }
  })

  test('none: a name is refused in development, so that nobody writes into the list of all by mistake', async (t) => {
    const { url } = await serve(t, ['--spaces', 'none'])
    const { status, text } = await createClient(`${url}/~ada`).send('POST', items, { name: 'x', isComplete: false })
    assert.deepEqual(
      [status, JSON.parse(text).title],
      [400, 'This service has no spaces: start it with --spaces path.'],
    )
    assert.equal((await createClient(url).send('GET', items)).text, '[]')
  })
})
