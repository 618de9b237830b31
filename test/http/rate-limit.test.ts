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

  test('the addresses of an IPv6 /64 are one client, and so are the two texts of an IPv4 address', () => {
    const { allowed } = limited()
    const networks = [
      ['2001:db8:0:1::1', '2001:db8:0:1:ffff:ffff:ffff:ffff', '2001:DB8::1:0:0:0:7'],
      ['2001:db8:0:2::1', '2001:db8:0:2::'],
      ['2001:db8::1', '2001:db8:0:0:1::', '2001:0db8::203.0.113.7'],
      ['::1', '::2'],
      ['fe80::1%eth0', 'fe80::2%eth0'],
      ['203.0.113.7', '::ffff:203.0.113.7'],
      ['203.0.113.8'],
      ['unknown'],
    ]
    for (const [first = '', ...others] of networks) {
      assert.equal(allowed(first), 3, first)
      for (const other of others) assert.equal(allowed(other), 0, other)
    }
  })
})
