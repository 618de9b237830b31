import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { parseProxyTrust } from '../../src/http/proxy.ts'
import { transports } from '../support/running.ts'

suite('A3 Location from X-Forwarded-Proto and X-Forwarded-Host', () => {
  const outer = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'public.example' }
  for (const [trust, headers, location] of [
    [undefined, outer, 'http://inner'],
    ['1', outer, 'https://public.example'],
    [
      '1',
      { 'x-forwarded-proto': 'gopher, https', 'x-forwarded-host': 'evil.example, public.example' },
      'https://public.example',
    ],
    [
      '2',
      { 'x-forwarded-proto': 'https, http', 'x-forwarded-host': 'public.example, middle' },
      'https://public.example',
    ],
    [
      '2',
      { 'x-forwarded-proto': 'http, https, http', 'x-forwarded-host': 'evil, public.example, middle' },
      'https://public.example',
    ],
    ['3', outer, 'https://public.example'],
    ['1', { 'x-forwarded-proto': 'https' }, 'https://inner'],
    ['1', { 'x-forwarded-host': 'public.example:8080' }, 'http://public.example:8080'],
    ['1', { 'x-forwarded-host': 'not/a host' }, 'http://inner'],
    ['1', { 'x-forwarded-proto': 'javascript' }, 'http://inner'],
    ['127.0.0.1', outer, 'https://public.example'],
    ['127.0.0.1/32', { ...outer, 'x-forwarded-for': '192.0.2.7' }, 'https://public.example'],
    [
      '127.0.0.0/8,10.0.0.0/8',
      {
        'x-forwarded-for': '192.0.2.7, 10.1.2.3',
        'x-forwarded-proto': 'https, http',
        'x-forwarded-host': 'public.example, middle',
      },
      'https://public.example',
    ],
    [
      '127.0.0.1',
      {
        'x-forwarded-for': '192.0.2.7, 10.1.2.3',
        'x-forwarded-proto': 'https, http',
        'x-forwarded-host': 'public.example, middle',
      },
      'http://middle',
    ],
    ['10.0.0.0/8', outer, 'http://inner'],
    ['::1', outer, 'http://inner'],
  ] as const)
    test(`--trust-proxy ${trust ?? 'not set'}: ${JSON.stringify(headers)} → ${location}`, async (t) => {
      const trustProxy = trust && parseProxyTrust(trust)
      const service = await transports['over a socket'](t, 'a', trustProxy ? { trustProxy } : {})
      const response = await service.send('POST', '/api/todoitems', { isComplete: true }, { host: 'inner', ...headers })
      assert.equal(response.headers.location, `${location}/api/todoitems/1`)
    })

  test('rejects what is neither a number of hops nor a list of networks', () => {
    for (const text of [
      '',
      '0',
      '-1',
      '100',
      'all',
      '10.0.0.0/33',
      '::1/129',
      '10.0.0',
      '10.0.0.0/',
      '10.0.0.0/8,',
      '1,2',
    ])
      assert.equal(parseProxyTrust(text), undefined, text)
  })
})
