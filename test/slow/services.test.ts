import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { assertCannotVerify, assertPassed, itemsPath, listItems } from '../commands/verified-services.ts'
import { run, serve } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { transports } from '../support/running.ts'

/** Services that are not as a client would like them. */
function testServices(profile: 'a' | 'b'): void {
  suite('verify of a service of profile', { concurrency: 2 }, () => {
    test(`${profile} that requires a token for the items`, async (t) => {
      const { url, token = '' } = await transports['over a socket'](t, profile, { requireAuth: true })
      const args = ['verify', url, '--profile', profile]
      assertPassed(await run(t, [...args, '--token', token, '--quick']))
      const headers = { authorization: `Bearer ${token}` }
      assert.equal((await listItems(url, headers)).length, profile === 'a' ? 0 : 3)
      assertCannotVerify(
        await run(t, args),
        /requires a token for \/api\/todoitems: pass --token, or other credentials as --header\.\n$/,
      )
      const other = `${token.slice(0, -4)}AAAA`
      assertCannotVerify(
        await run(t, [...args, '--token', other]),
        /rejects the token for \/api\/todoitems \(401\)\.\n$/,
      )
    })

    test(`${profile} that limits the rate of requests`, async (t) => {
      const { url } = await serve(t, ['--no-https', '--rate-limit', '20/s'], {}, profile)
      const only = profile === 'a' ? 'A9' : 'B5'
      const ended = await run(t, ['verify', url, '--profile', profile, '--only', only])
      assertPassed(ended)
      assert.match(ended.stdout, /\d+ passed, 0 failed, 0 skipped/)
      const client = createClient(url)
      let listed = await client.send('GET', itemsPath)
      while (listed.status === 429) listed = await client.send('GET', itemsPath)
      assert.equal(JSON.parse(listed.text).length, profile === 'a' ? 0 : 3)
    })

    test(`${profile} that has room for a few items`, async (t) => {
      const { url } = await serve(t, ['--no-https', '--max-items', '15'], {}, profile)
      const only = profile === 'a' ? 'A1,A2,A4,A9' : 'B1,B2,B5,B8'
      const ended = await run(t, ['verify', url, '--profile', profile, '--only', only])
      assertPassed(ended)
      assert.doesNotMatch(ended.stdout, /^note/m)
      assert.match(
        ended.stdout,
        /^remark {2}[AB]1 {2}the list has every one of up to 1200 items: with 1\d of 1200 items/m,
      )
      assert.equal((await listItems(url)).length, profile === 'a' ? 0 : 3)
    })

    test(`${profile} that another run and another client use at the same time`, async (t) => {
      const { url } = await transports['over a socket'](t, profile)
      let isRunning = true
      const others = useItems(url, profile, () => isRunning)
      // Those that other clients could mislead: about the list, ids that are assigned or free, and items that are gone.
      const only = profile === 'a' ? 'A1,A2,A4,A8,A9' : 'B1,B2,B5,B8'
      const args = ['verify', url, '--profile', profile, '--only', only]
      const ended = await Promise.all([1, 2].map(() => run(t, args)))
      isRunning = false
      assert.ok((await others) > 0)
      for (const one of ended) assertPassed(one)
      assert.equal((await listItems(url)).length, profile === 'a' ? 0 : 3)
    })
  })
}

/** Creates, changes and deletes items of its own; returns how many. */
async function useItems(url: string, profile: 'a' | 'b', isRunning: () => boolean): Promise<number> {
  const client = createClient(url)
  let count = 0
  for (; isRunning(); count++) {
    const sent = { id: `other-${count}`, name: 'other', notes: 'other', isComplete: true }
    const { id } = JSON.parse((await client.send('POST', itemsPath, sent)).text)
    const changed = { ...sent, id, name: 'changed' }
    await client.send('PUT', profile === 'a' ? `${itemsPath}/${id}` : itemsPath, changed)
    const deleted = await client.send('DELETE', `${itemsPath}/${id}`)
    assert.equal(deleted.status, 204)
  }
  return count
}

for (const profile of ['a', 'b'] as const) testServices(profile)
