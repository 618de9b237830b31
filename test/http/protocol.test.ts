import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { RawConnection } from '../support/raw.ts'
import { transports } from '../support/running.ts'

const items = '/api/todoitems'
const body = '{"name":"x","isComplete":true}'
const json = 'Host: x\r\nContent-Type: application/json\r\n'
const post = (headers: string, content: string) => `POST ${items} HTTP/1.1\r\n${json}${headers}\r\n${content}`
const get = (headers = 'Host: x\r\n', path = items) => `GET ${path} HTTP/1.1\r\n${headers}\r\n`
const remove = `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\n\r\n`
const length = `Content-Length: ${body.length}\r\n`
const chunked = 'Transfer-Encoding: chunked\r\n'
const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
const expectContinue = 'Expect: 100-continue\r\n'

async function connectTo(t: TestContext, profile: 'a' | 'b' = 'a', options: object = {}) {
  const service = await transports['over a socket'](t, profile, options)
  const port = Number(new URL(service.url).port)
  return { service, open: () => new RawConnection(t, port, { allowHalfOpen: true }), raw: new RawConnection(t, port) }
}

const malformed: Record<string, [request: string, status: number]> = {
  'two different Content-Lengths': [post(`${length}Content-Length: 3\r\n`, body), 400],
  'the same Content-Length twice': [post(`${length}${length}`, body), 400],
  'a list in Content-Length': [post('Content-Length: 30, 30\r\n', body), 400],
  'Content-Length before Transfer-Encoding': [post(`${length}${chunked}`, chunks), 400],
  'Transfer-Encoding before Content-Length': [post(`${chunked}${length}`, chunks), 400],
  'a negative Content-Length': [post('Content-Length: -1\r\n', body), 400],
  'a Content-Length with a sign': [post('Content-Length: +30\r\n', body), 400],
  'a hexadecimal Content-Length': [post('Content-Length: 0x1e\r\n', body), 400],
  'a Content-Length above 2^64': [post('Content-Length: 99999999999999999999\r\n', body), 400],
  'an unknown transfer coding': [post('Transfer-Encoding: xchunked\r\n', chunks), 400],
  'Transfer-Encoding: identity': [post('Transfer-Encoding: identity\r\n', body), 400],
  'Transfer-Encoding: gzip, chunked': [post('Transfer-Encoding: gzip, chunked\r\n', chunks), 400],
  'Transfer-Encoding: chunked, gzip': [post('Transfer-Encoding: chunked, gzip\r\n', chunks), 400],
  'two Transfer-Encodings': [post(`${chunked}${chunked}`, chunks), 400],
  'chunked in HTTP/1.0': [post(chunked, chunks).replace('HTTP/1.1', 'HTTP/1.0'), 400],
  'a chunk without a size': [post(chunked, 'zz\r\n'), 400],
  'a chunk size line that ends in LF': [post(chunked, `1e\n${body}\r\n0\r\n\r\n`), 400],
  'a chunk extension of 20,000 bytes': [post(chunked, `1e;${'a'.repeat(20_000)}\r\n${body}\r\n0\r\n\r\n`), 400],
  'lines that end in LF': [`GET ${items} HTTP/1.1\nHost: x\n\n`, 400],
  'a header that ends in LF': [get('Host: x\nX: y\r\n'), 400],
  'CR inside a header': [get('Host: x\r\nX: a\rb\r\n'), 400],
  'a folded header': [get('Host: x\r\nX: a\r\n b\r\n'), 400],
  'a header line that starts with a space': [get(' Host: x\r\n'), 400],
  'a space before the colon of a header': [get('Host : x\r\n'), 400],
  'an empty header name': [get('Host: x\r\n: y\r\n'), 400],
  'a header without a colon': [get('Host: x\r\nfoo\r\n'), 400],
  'NUL inside a header': [get('Host: x\r\nX: a\0b\r\n'), 400],
  'a control character inside a header': [get('Host: x\r\nX: a\x01b\r\n'), 400],
  'a control character inside the path': [get(undefined, `${items}\x01`), 400],
  'more than 200 headers': [get(`Host: x\r\n${'X: y\r\n'.repeat(200)}`), 431],
  'a head above 32 KiB': [get(`Host: x\r\nX: ${'a'.repeat(40_000)}\r\n`), 431],
  'no Host': [get(''), 400],
  'two Hosts': [get('Host: x\r\nHost: y\r\n'), 400],
  'an empty Host': [get('Host:\r\n'), 400],
  'a Host with a broken percent-encoding': [get('Host: %zz\r\n'), 400],
  'a Host with user information': [get('Host: a@x\r\n'), 400],
  'two Content-Types': [post(`Content-Type: text/plain\r\n${length}`, body), 400],
  'S6 two Authorizations': [get('Host: x\r\nAuthorization: a\r\nAuthorization: b\r\n'), 400],
  'two If-Matches': [remove.replace('\r\n\r\n', '\r\nIf-Match: "a"\r\nIf-Match: "b"\r\n\r\n'), 400],
  'HTTP/01.01': [get().replace('1.1', '01.01'), 400],
  'HTTP/2.0': [get().replace('1.1', '2.0'), 400],
  'HTTP/1.2': [get().replace('1.1', '1.2'), 400],
  'HTTP/0.9': [`GET ${items}\r\n\r\n`, 400],
  'a version that is no number': [get().replace('HTTP/1.1', 'HTTP/x'), 400],
  'an unknown method': [get().replace('GET', 'BREW'), 400],
  'a method in lower case': [get().replace('GET', 'get'), 400],
  'TLS on the plain port': ['\x16\x03\x01\x02\x00\x01\x00', 400],
}

suite('malformed and ambiguous requests', { concurrency: 4 }, () => {
  for (const [name, [request, status]] of Object.entries(malformed))
    test(`${name}: ${status}, closes the connection, stores nothing`, async (t) => {
      const { service, raw } = await connectTo(t)
      raw.socket.write(request, 'latin1')
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
      assert.equal((await service.send('GET', items)).text, '[]')
    })

  for (const [name, target] of Object.entries({
    'an asterisk': '*',
    'a backslash in the path': '/api\\todoitems',
    'a fragment': `${items}#x`,
    'a byte above 0x7f in the path': `${items}/\xff`,
    'an absolute target of another scheme': `ftp://x${items}`,
    'an absolute target with a malformed authority': `http://a b${items}`.replace(' ', '"'),
  }))
    test(`${name} as request target: 400`, async (t) => {
      const { raw } = await connectTo(t)
      raw.socket.write(get(undefined, target), 'latin1')
      assert.deepEqual(await raw.responses(1), [400])
    })

  test('CONNECT closes the connection', async (t) => {
    const { service, raw } = await connectTo(t)
    raw.socket.write('CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n')
    await raw.closed
    assert.deepEqual(raw.statuses, [])
    assert.equal((await service.send('GET', '/')).status, 200)
  })

  test('a header value that looks like a request line is a header value', async (t) => {
    const { service, raw } = await connectTo(t)
    raw.socket.write(`GET ${items} HTTP/1.1\r\nX: `)
    await service.send('GET', '/')
    raw.socket.write('GET x\r\nHost: x\r\n\r\n')
    assert.deepEqual(await raw.responses(1), [200])
  })
})

suite('absolute-form targets (RFC 9112, 3.2.2)', () => {
  test('are served, and their authority replaces Host', async (t) => {
    const { raw } = await connectTo(t)
    const absolute = (request: string) => request.replace(/ (\/\S*)/, ' http://target.example:8080$1')
    raw.socket.write(absolute(post(length, body)))
    await raw.responses(1)
    assert.match(raw.received, /location: http:\/\/target\.example:8080\/api\/todoitems\/1\r\n/)
    raw.socket.write(absolute(get(undefined, `${items}/1?x=y`)) + absolute(get(undefined, '/')))
    assert.deepEqual(await raw.responses(3), [201, 200, 200])
    raw.socket.write('GET HTTP://target.example HTTP/1.1\r\nHost: x\r\n\r\n')
    assert.deepEqual(await raw.responses(4), [201, 200, 200, 200])
    assert.match(raw.received, /Hello World!$/)
  })
})

suite('pipelined requests', () => {
  const slow = (token = '') => get(`Host: x\r\nAuthorization: Bearer ${token}\r\n`, '/secret')

  test('take effect one after the other', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.write([post(length, body), get(undefined, `${items}/1`), remove, get(undefined, `${items}/1`)].join(''))
    assert.deepEqual(await raw.responses(4), [201, 200, 204, 404])
  })

  for (const [name, requests, statuses] of [
    ['a request', `${get()}X\r\n\r\n`, [200, 400]],
    ['several requests', `${get().repeat(3)}X`, [200, 200, 200, 400]],
    ['a body', `${post(length, body)}X`, [201, 400]],
    ['a chunked body', `${post(chunked, chunks)}X`, [201, 400]],
    ['two bodies', `${post(length, body)}${post(chunked, chunks)}X`, [201, 201, 400]],
    ['a POST without a body', `${post('', '')}X`, [400, 400]],
    ['deletions', `${get()}${remove}${remove}${get()}X`, [200, 204, 404, 200, 400]],
    ['a secured request', `${slow()}${remove}X`, [401, 204, 400]],
    ['a request, as an unknown version', `${get()}${get().replace('1.1', '9.9')}${get()}`, [200, 400]],
    ['a request, as bare LF', `${get()}${get().replaceAll('\r', '')}`, [200, 400]],
    [
      'requests, as an unknown coding',
      `${get().repeat(3)}${post('Transfer-Encoding: gzip\r\n', '')}`,
      [200, 200, 200, 400],
    ],
    ['requests, as a malformed chunk', `${get()}${post(chunked, 'zz\r\n')}`, [200, 400]],
    ['Connection: close', `${get('Host: x\r\nConnection: close\r\n')}${remove}X`, [200]],
    ['an HTTP/1.0 request', `${get().replace('1.1', '1.0')}${remove}X`, [200]],
  ] as const)
    test(`a malformed request behind ${name}: sends all responses, then the error`, async (t) => {
      const { service, raw } = await connectTo(t)
      await service.send('POST', items, body)
      raw.socket.write(requests)
      await raw.closed
      assert.deepEqual(raw.statuses, statuses)
    })

  test('A14 that are lines of a body are no requests', async (t) => {
    const { raw } = await connectTo(t)
    const log = get().repeat(120)
    const pasted = post(`Content-Length: ${log.length}\r\n`, log).replace('application/json', 'text/plain')
    raw.socket.write(`${pasted}${get()}`)
    assert.deepEqual(await raw.responses(2), [415, 200])
  })

  test('behind a request that takes time are answered in order', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.write(`${slow()}${get(undefined, `${items}/x`).repeat(98)}${get()}`)
    assert.deepEqual(await raw.responses(100), [401, ...Array.from({ length: 98 }, () => 400), 200])
  })

  test('behind a request that takes time, more than 100 close the connection, and none is executed', async (t) => {
    const { raw, service } = await connectTo(t)
    raw.socket.write(`${slow()}${get().repeat(200)}${post(length, body)}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [])
    assert.equal((await service.send('GET', items)).text, '[]')
  })

  test('more than 100 in one packet close the connection; others are answered', async (t) => {
    const { raw, service } = await connectTo(t)
    raw.socket.write(get().repeat(300))
    await raw.closed
    assert.ok(raw.statuses.length <= 101, `${raw.statuses.length}`)
    assert.equal((await service.send('GET', items)).status, 200)
  })

  test('100 at once, again and again, are answered', async (t) => {
    const { raw } = await connectTo(t)
    for (let count = 100; count <= 5_000; count += 100) {
      raw.socket.write(get().repeat(100))
      assert.equal((await raw.responses(count)).length, count)
    }
  })

  test('with bodies in later packets, behind others that take time, are answered in order', async (t) => {
    const { service, raw } = await connectTo(t)
    raw.socket.write(`${slow(service.token).repeat(90)}${post(length, body.slice(0, 10))}`)
    await raw.responses(1)
    raw.socket.write(`${body.slice(10)}${get()}`)
    assert.deepEqual(await raw.responses(92), [...Array.from({ length: 90 }, () => 200), 201, 200])
  })

  for (const [name, first] of Object.entries({
    'Transfer-Encoding: gzip, chunked': post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
    'chunked in HTTP/1.0': post(`Connection: keep-alive\r\n${chunked}`, '0\r\n\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
    'HTTP/0.9': get('Host: x\r\nConnection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/0.9'),
    'HTTP/1.0 with keep-alive': get('Host: x\r\nConnection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
    'no Host': get(''),
    'two Hosts': get('Host: x\r\nHost: y\r\n'),
    'a body over the limit': post('Content-Length: 99999999\r\n', ''),
    'a body that was not continued': post(`${expectContinue}${length}`, '').replace('application/json', 'text/plain'),
    'an expectation without a body': get(`Host: x\r\n${expectContinue}`),
  }))
    test(`behind a response that closes the connection are not executed: ${name}`, async (t) => {
      const { service, raw } = await connectTo(t)
      await service.send('POST', items, body)
      raw.socket.write(`${first}${remove}`)
      await raw.responses(1)
      raw.socket.write(remove)
      await raw.closed
      assert.equal(raw.statuses.length, 1)
      assert.match(raw.received, /connection: close/i)
      assert.equal((await service.send('GET', `${items}/1`)).status, 200)
    })
})

test('a connection that sends nothing gets 408 after the timeout of a head', async (t) => {
  const { raw } = await connectTo(t, 'a', {
    limits: { headersTimeoutMs: 1_000, keepAliveTimeoutMs: 600_000 },
  })
  assert.deepEqual(await raw.responses(1), [408])
  await raw.closed
})

suite('request bodies', { concurrency: 4 }, () => {
  test('sent byte by byte are received', async (t) => {
    const { raw } = await connectTo(t, 'a', { limits: { requestTimeoutMs: 600_000 } })
    raw.socket.setNoDelay(true)
    const text = `{"isComplete":true,"name":"${'x'.repeat(1_500)}"}`
    raw.socket.write(post(chunked, `${text.length.toString(16)}\r\n`))
    for (const byte of text) await new Promise((written) => raw.socket.write(byte, () => setImmediate(written)))
    raw.socket.write('\r\n0\r\n\r\n')
    assert.deepEqual(await raw.responses(1), [201])
  })

  /** An item of so many bytes, in chunks of a size. */
  const inChunks = (bytes: number, size: number) => {
    const all = `{"isComplete":true,"name":"${'x'.repeat(bytes)}"}`.match(new RegExp(`.{1,${size}}`, 'g')) ?? []
    return post(chunked, `${all.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`)
  }

  for (const [bytes, size] of [
    [900, 1],
    [200_000, 1],
    [900_000, 16],
    [900_000, 100_000],
  ] as const)
    test(`of ${bytes} bytes in chunks of ${size} are received`, async (t) => {
      const { raw } = await connectTo(t)
      raw.socket.write(inChunks(bytes, size))
      assert.deepEqual(await raw.responses(1), [201])
    })

  test('that a connection closes in the middle of are released', async (t) => {
    const { service, open } = await connectTo(t)
    const chunk = `ea60\r\n${'x'.repeat(60_000)}\r\n`
    const broken = Array.from({ length: 200 }, () => {
      const raw = open()
      raw.socket.write(post(chunked, chunk))
      raw.socket.write(`${chunk}zz\r\n`)
      return raw
    })
    await Promise.all(
      broken.map(async (raw) => {
        await raw.responses(1)
        raw.socket.end()
        await raw.closed
      }),
    )
    assert.deepEqual(new Set(broken.flatMap(({ statuses }) => statuses)), new Set([400]))
    const name = 'x'.repeat(300_000)
    assert.equal((await service.send('POST', items, { name, isComplete: true })).status, 201)
  })

  for (const method of ['GET', 'HEAD', 'DELETE'])
    for (const [name, malformedChunk] of Object.entries({
      'a chunk without a size': 'zz\r\n',
      'a chunk that is too long': '5\r\nhello!!\r\n0\r\n\r\n',
      'a chunk with an empty extension': '5;\r\nhello\r\n0\r\n\r\n',
    }))
      test(`${method} with ${name}: 400, closes the connection, has no effect`, async (t) => {
        const { service, raw } = await connectTo(t)
        await service.send('POST', items, body)
        raw.socket.write(`${method} ${items}/1 HTTP/1.1\r\nHost: x\r\n${chunked}\r\n${malformedChunk}`)
        await raw.closed
        assert.deepEqual(raw.statuses, [400])
        assert.equal((await service.send('GET', `${items}/1`)).status, 200)
      })

  test('of a DELETE: the request takes effect when its body is complete', async (t) => {
    const { service, raw } = await connectTo(t)
    await service.send('POST', items, body)
    raw.socket.write(`DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel`)
    assert.equal((await service.send('GET', `${items}/1`)).status, 200)
    raw.socket.write(`lo${get()}`)
    assert.deepEqual(await raw.responses(2), [204, 200])
    raw.socket.write(`${remove.replace('\r\n\r\n', '\r\nContent-Length: 99999999\r\n\r\n')}`)
    assert.deepEqual(await raw.responses(3), [204, 200, 413])
  })

  test('of a GET over the limit get 413, in profile B too', async (t) => {
    const { service } = await connectTo(t, 'b')
    for (const path of ['/', items, '/health/live'])
      assert.equal((await service.send('GET', path, 'x'.repeat(2 ** 20 + 1))).status, 413)
  })

  for (const [name, request, status] of [
    ['over the limit', post('Content-Length: 104857600\r\n', ''), 413],
    ['with two Hosts', post(`${length}Host: y\r\n`, ''), 400],
    ['of another media type', post(length, '').replace('application/json', 'text/plain'), 415],
    ['of a method that is not allowed', post(length, '').replace('POST', 'PATCH'), 405],
  ] as const)
    test(`${name} get no 100 Continue`, async (t) => {
      const { raw } = await connectTo(t)
      raw.socket.write(request.replace('Host: x\r\n', `Host: x\r\n${expectContinue}`))
      await raw.responses(1)
      raw.socket.end()
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
    })

  test('get no 100 Continue and a response where another expectation is sent', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.write(post(`${length}Expect: 200-maybe\r\n`, body))
    assert.deepEqual(await raw.responses(1), [201])
  })

  test('get 100 Continue when they are read', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.write(post(`${length}${expectContinue}`, ''))
    assert.deepEqual(await raw.responses(1), [100])
    raw.socket.write(body)
    assert.deepEqual(await raw.responses(2), [100, 201])
  })

  test('that are empty get 100 Continue, too, and leave the connection open', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.write(post(`Content-Length: 0\r\n${expectContinue}`, ''))
    assert.deepEqual(await raw.responses(2), [100, 400])
    raw.socket.write(get())
    assert.deepEqual(await raw.responses(3), [100, 400, 200])
  })

  test('that stall do not hold up others', async (t) => {
    const { open } = await connectTo(t)
    // Together more than the service buffers.
    const stalled = Array.from({ length: 60 }, open)
    for (const { socket } of stalled)
      await new Promise((written) => socket.write(post('Content-Length: 1000000\r\n', 'x'.repeat(999_999)), written))
    const large = `{"isComplete":true,"name":"${'x'.repeat(80_000)}"}`
    for (let count = 0; count < 20; count++) {
      const raw = open()
      raw.socket.write(post(`Content-Length: ${large.length}\r\n`, large.slice(0, 40_000)))
      raw.socket.write(large.slice(40_000))
      assert.deepEqual(await raw.responses(1), [201])
    }
    await (stalled[0] as RawConnection).responses(1)
    assert.deepEqual((stalled[0] as RawConnection).statuses, [503])
  })

  test('of a request answered 408 are not stored when the rest arrives', async (t) => {
    const { service, open } = await connectTo(t, 'a', { limits: { requestTimeoutMs: 1_000 } })
    const raw = open()
    raw.socket.write(post(length, body.slice(0, 5)))
    assert.deepEqual(await raw.responses(1), [408])
    raw.socket.end(body.slice(5))
    await raw.closed
    assert.equal((await service.send('GET', items)).text, '[]')
  })

  for (const [name, head, content, status] of [
    ['in two packets', post(length, ''), body, 201],
    ['in two packets of chunks', post(chunked, ''), chunks, 201],
    ['that arrive after a rejection', post(length, '').replace('application/json', 'text/x'), body, 415],
  ] as const)
    test(`${name} leave an idle connection, which the timeout of a head does not close`, async (t) => {
      const { open } = await connectTo(t, 'a', { limits: { headersTimeoutMs: 1_000 } })
      const headerTimeout = async () => {
        const stalled = open()
        stalled.socket.write('GET / HT')
        assert.deepEqual(await stalled.responses(1), [408])
      }
      const raw = open()
      raw.socket.write(`${head}${content.slice(0, 5)}`)
      await headerTimeout()
      raw.socket.write(content.slice(5))
      assert.deepEqual(await raw.responses(1), [status])
      await headerTimeout()
      await headerTimeout()
      raw.socket.write(get())
      assert.deepEqual(await raw.responses(2), [status, 200])
    })

  for (const [name, request, status] of [
    ['A14 over the limit', post('Content-Length: 999999999\r\n', ''), 413],
    ['A14 of another media type', post('Content-Length: 999999999\r\n', '').replace('application/json', 'text/x'), 415],
    ['in endless chunks', post(chunked, ''), 413],
  ] as const)
    test(`${name} are read to a bound after the response: ${status}, then the connection is closed`, async (t) => {
      const { open } = await connectTo(t)
      const raw = open()
      raw.socket.write(request)
      const chunk = Buffer.alloc(2 ** 16, 'x')
      raw.flood(request.includes(chunked) ? Buffer.from(`10000\r\n${chunk}\r\n`) : chunk)
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
      // 32 MiB are discarded; what the kernel buffers on both sides counts as written.
      assert.ok(raw.socket.bytesWritten < 64 * 2 ** 20, `${raw.socket.bytesWritten}`)
    })

  for (const megabytes of [2, 20])
    test(`A14 of ${megabytes} MiB: a client that sends all of it before it reads gets its 413`, async (t) => {
      const { service, open } = await connectTo(t)
      const large = Buffer.alloc(megabytes * 2 ** 20, 'x')
      const raw = open()
      raw.socket.pause()
      raw.socket.write(post(`Content-Length: ${large.length}\r\n`, ''))
      await new Promise<void>((sent, failed) => raw.socket.write(large, (error) => (error ? failed(error) : sent())))
      raw.socket.resume()
      assert.deepEqual(await raw.responses(1), [413])
      assert.equal(raw.error, undefined)
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${service.url}${items}`, { method: 'POST', body: large, headers })
      assert.equal(response.status, 413)
      assert.equal(((await response.json()) as { status: number }).status, 413)
    })

  test('A14 of 2.5 MB in 25,000 chunks: a client that sends all of it before it reads gets its 413', async (t) => {
    const { raw } = await connectTo(t)
    raw.socket.pause()
    raw.socket.write(post(chunked, ''))
    const large = Buffer.from(`64\r\n${'x'.repeat(100)}\r\n`.repeat(25_000))
    await new Promise<void>((sent, failed) => raw.socket.write(large, (error) => (error ? failed(error) : sent())))
    raw.socket.resume()
    assert.deepEqual(await raw.responses(1), [413])
    assert.equal(raw.error, undefined)
  })
})
