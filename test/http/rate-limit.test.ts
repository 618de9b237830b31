import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { rateLimiter } from '../../src/http/rate-limit.ts'

suite('rate limit of 3 requests a second', () => {
  function limited() {
    const state = { timeMs: 0 }
    const allow = rateLimiter(3, () => state.timeMs)
    /** How many of ten requests are allowed. */
    const allowed = (client: string) => Array.from({ length: 10 }, () => allow(client)).filter(Boolean).length
    return { state, allowed }
  }

  test('a client may send 3 at once, and one more each third of a second', () => {
    const { state, allowed } = limited()
    assert.equal(allowed('x'), 3)
    state.timeMs += 333
    assert.equal(allowed('x'), 0)
    state.timeMs += 1
    assert.equal(allowed('x'), 1)
    assert.equal(allowed('y'), 3)
  })

  test('a client that was idle for an hour may send 3 at once, too', () => {
    const { state, allowed } = limited()
    assert.equal(allowed('x'), 3)
    state.timeMs += 3_600_000
    assert.equal(allowed('x'), 3)
  })
})
