import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { serve } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { developmentToken, itemsPath, named, numbered } from '../support/control.ts'
import { RawConnection } from '../support/raw.ts'

const request = (method: string, path: string, body?: unknown, ...headers: string[]) => {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
  const bodyHeaders = body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${text.length}`]
  return [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, ...bodyHeaders, '', text].join('\r\n')
}

const requests = [
  ...Array.from({ length: 3 }, () => request('GET', '/weatherforecast')),
  ...['', '/~ada', '/~bob', '/~ada'].flatMap((prefix) => [
    request('POST', `${prefix}${itemsPath}`, { ...named('x'), ...numbered('x') }),
    request('POST', `${prefix}${itemsPath}`, {}),
    request('GET', `${prefix}${itemsPath}`),
    request('GET', `${prefix}${itemsPath}/1`),
    request('GET', `${prefix}/nothing`),
    request('GET', `${prefix}/weatherforecast`),
    request('DELETE', `${prefix}${itemsPath}/9`),
    request('GET', `${prefix}${itemsPath}`, undefined, 'Prefer: code=503'),
    request('GET', `${prefix}${itemsPath}`, undefined, 'Prefer: code=999'),
    request('GET', `${prefix}/secret`),
    request('OPTIONS', `${prefix}${itemsPath}`, undefined, 'Origin: http://localhost:5173'),
    request('GET', `${prefix}/__admin/items`),
    request('GET', `${prefix}/__admin/nothing`),
    request('PUT', `${prefix}/__admin/items`, 'x'),
  ]),
  request('GET', '/~not.a.name/'),
  request('GET', '/', undefined, 'Connection: close'),
]

/** Every byte of the responses of a new process to the same requests. */
async function responses(t: TestContext, profile: 'a' | 'b', seed: string, now: string): Promise<string> {
  const flags = ['--seed', seed, '--now', now, '--fault', '30%', '--delay', '0-3']
  const { port } = await serve(t, flags, {}, profile)
  const connection = new RawConnection(t, port)
  connection.socket.write(requests.join(''))
  await connection.closed
  assert.equal(connection.statuses.length, requests.length)
  return connection.received
}

suite('--seed and --now', { concurrency: true }, () => {
  const now = '2026-01-01T00:00:00Z'

  for (const profile of ['a', 'b'] as const)
    test(`profile ${profile}: two processes answer the same requests byte for byte the same`, async (t) => {
      const [one, other] = await Promise.all([responses(t, profile, '42', now), responses(t, profile, '42', now)])
      assert.equal(one, other)
      const dates = [...one.matchAll(/^date: (.*)\r$/gim)].map(([, date]) => date)
      assert.deepEqual(new Set(dates), new Set(['Thu, 01 Jan 2026 00:00:00 GMT']))
      assert.equal(dates.length, requests.length)
      assert.match(one, /"date":"2026-01-02T00:00:00\.000\+00:00"/)
      assert.match(one, / 200 OK.* 503 Service Unavailable/s)
      assert.match(one, /^etag: "[\da-f]{8}-\d+"\r$/m)
      const forecasts = [...one.matchAll(/^\[{"date".*?\]/gm)].map(([forecast]) => forecast)
      assert.ok(new Set(forecasts).size > 1)
    })

  test('another seed gives other forecasts, trace ids, entity tags and failures', async (t) => {
    const [one, other] = await Promise.all([responses(t, 'a', '1', now), responses(t, 'a', '2', now)])
    const parts = (received: string, pattern: RegExp) => [...received.matchAll(pattern)].map(([part]) => part)
    for (const pattern of [/"temperatureC":.*/g, /"traceId":"\w{32}"/g, /etag: .*/g, /HTTP\/1.1 \d+/g])
      assert.notDeepEqual(parts(one, pattern), parts(other, pattern), `${pattern}`)
  })

  test('tokens keep to the time of day', async (t) => {
    const service = await serve(t, ['--now', '2001-01-01T00:00:00Z'])
    const token = await developmentToken(service)
    const { iat } = JSON.parse(Buffer.from(`${token.split('.')[1]}`, 'base64url').toString())
    assert.ok(Math.abs(iat - Date.now() / 1000) < 60)
    const { status, headers } = await createClient(service.url).send('GET', '/secret', undefined, {
      authorization: `Bearer ${token}`,
    })
    assert.deepEqual([status, headers.date], [200, 'Mon, 01 Jan 2001 00:00:00 GMT'])
  })
})
