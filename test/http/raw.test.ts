import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { Raw } from '../support/raw.ts'
import { transports } from '../support/running.ts'

const items = '/api/todoitems'
const body = '{"name":"x","isComplete":true}'
const json = 'Host: x\r\nContent-Type: application/json\r\n'
const post = (headers: string, content: string) => `POST ${items} HTTP/1.1\r\n${json}${headers}\r\n${content}`
const get = (headers: string) => `GET ${items} HTTP/1.1\r\n${headers}\r\n`
const length = `Content-Length: ${body.length}\r\n`
const chunked = 'Transfer-Encoding: chunked\r\n'
const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

/** What is said, and the status that ends the connection. */
const refused: Record<string, [string, number]> = {
  'two lengths that differ': [post(`${length}Content-Length: 3\r\n`, body), 400],
  'the same length twice': [post(`${length}${length}`, body), 400],
  'a list of lengths': [post('Content-Length: 30, 30\r\n', body), 400],
  'a length, then chunked': [post(`${length}${chunked}`, chunks), 400],
  'chunked, then a length': [post(`${chunked}${length}`, chunks), 400],
  'a negative length': [post('Content-Length: -1\r\n', body), 400],
  'a length with a sign': [post('Content-Length: +30\r\n', body), 400],
  'a length in hex': [post('Content-Length: 0x1e\r\n', body), 400],
  'a length beyond all bounds': [post('Content-Length: 99999999999999999999\r\n', body), 400],
  'an unknown transfer coding': [post('Transfer-Encoding: xchunked\r\n', chunks), 400],
  'no transfer coding': [post('Transfer-Encoding: identity\r\n', body), 400],
  'a coding under chunked': [post('Transfer-Encoding: gzip, chunked\r\n', chunks), 400],
  'a coding over chunked': [post('Transfer-Encoding: chunked, gzip\r\n', chunks), 400],
  'chunked twice': [post(`${chunked}${chunked}`, chunks), 400],
  'chunked in HTTP/1.0': [post(chunked, chunks).replace('HTTP/1.1', 'HTTP/1.0'), 400],
  'a chunk without a size': [post(chunked, 'zz\r\n'), 400],
  'a chunk that ends in LF': [post(chunked, `1e\n${body}\r\n0\r\n\r\n`), 400],
  'a chunk with an endless extension': [post(chunked, `1e;${'a'.repeat(20_000)}\r\n${body}\r\n0\r\n\r\n`), 413],
  'lines that end in LF': [`GET ${items} HTTP/1.1\nHost: x\n\n`, 400],
  'a header that ends in LF': [get('Host: x\nX: y\r\n'), 400],
  'a CR within a header': [get('Host: x\r\nX: a\rb\r\n'), 400],
  'a folded header': [get('Host: x\r\nX: a\r\n b\r\n'), 400],
  'a header that begins with a space': [get(' Host: x\r\n'), 400],
  'a space before the colon': [get('Host : x\r\n'), 400],
  'a header without a name': [get('Host: x\r\n: y\r\n'), 400],
  'a header without a colon': [get('Host: x\r\nfoo\r\n'), 400],
  'NUL within a header': [get('Host: x\r\nX: a\0b\r\n'), 400],
  'a control byte within a header': [get('Host: x\r\nX: a\x01b\r\n'), 400],
  'a control byte within the path': [`GET ${items}\x01 HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'more than two hundred headers': [get(`Host: x\r\n${'X: y\r\n'.repeat(200)}`), 431],
  'no Host': [get(''), 400],
  'two Hosts': [get('Host: x\r\nHost: y\r\n'), 400],
  'an empty Host': [get('Host:\r\n'), 400],
  'a Host with a broken escape': [get('Host: %zz\r\n'), 400],
  'a Host with a user': [get('Host: a@x\r\n'), 400],
  'two Content-Types': [post(`Content-Type: text/plain\r\n${length}`, body), 400],
  'two Authorizations': [get('Host: x\r\nAuthorization: a\r\nAuthorization: b\r\n'), 400],
  'an expectation that nobody knows': [post(`Expect: 200-maybe\r\n${length}`, body), 417],
  'an expectation among others': [post(`Expect: 100-continue, x\r\n${length}`, body), 417],
  'RTSP/1.0': [get('Host: x\r\n').replace('HTTP/1.1', 'RTSP/1.0'), 400],
  'RTSP/1.1': [post(length, body).replace('HTTP/1.1', 'RTSP/1.1'), 400],
  'two spaces before the path': [get('Host: x\r\n').replace(' ', '  '), 400],
  'two spaces behind the path': [post(length, body).replace(' HTTP', '  HTTP'), 400],
  'HTTP/01.01': [get('Host: x\r\n').replace('1.1', '01.01'), 400],
  'HTTP/2.0': [get('Host: x\r\n').replace('1.1', '2.0'), 505],
  'HTTP/1.2': [get('Host: x\r\n').replace('1.1', '1.2'), 505],
  'HTTP/0.9': [`GET ${items}\r\n\r\n`, 505],
  'a version that is none': [get('Host: x\r\n').replace('HTTP/1.1', 'HTTP/x'), 400],
  'a method that nobody knows': [get('Host: x\r\n').replace('GET', 'BREW'), 501],
  'a method in lower case': [get('Host: x\r\n').replace('GET', 'get'), 400],
  CONNECT: ['CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n', 501],
  'a head that is too large': [get(`Host: x\r\nX: ${'a'.repeat(40_000)}\r\n`), 431],
  'TLS on the plain port': ['\x16\x03\x01\x02\x00\x01\x00', 400],
}

/** What is said, and the status; the connection goes on. */
const declined: Record<string, [string, number]> = {
  'an absolute target': [`GET http://x${items} HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'an asterisk': ['OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  'a backslash in the path': [`GET /api\\todoitems HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'a second Host behind the body': [post(chunked, chunks.replace(/\r\n$/, 'Host: evil\r\n\r\n')), 400],
  'a fragment': [`GET ${items}#x HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'bytes beyond ASCII in the path': [`GET ${items}/\xff HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
}

suite('what is no request, or could be two', () => {
  for (const [what, [said, status]] of Object.entries(refused))
    test(`${what}: ${status}, the end of the connection, and nothing stored`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(said, 'latin1')
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
      assert.equal((await service.send('GET', items)).text, '[]')
    })

  for (const [what, [said, status]] of Object.entries(declined))
    test(`${what}: ${status}, and nothing stored`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(said, 'latin1')
      assert.deepEqual(await raw.answers(1), [status])
      assert.equal((await service.send('GET', items)).text, '[]')
    })

  const one = get('Host: x\r\n')
  const remove = `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\n\r\n`
  for (const [what, said, statuses] of [
    ['a request', `${one}X\r\n\r\n`, [200, 400]],
    ['many requests', `${one.repeat(3)}X`, [200, 200, 200, 400]],
    ['a body', `${post(length, body)}X`, [201, 400]],
    ['a chunked body', `${post(chunked, chunks)}X`, [201, 400]],
    ['a body and a chunked one', `${post(length, body)}${post(chunked, chunks)}X`, [201, 201, 400]],
    ['no body', `${post('', '')}X`, [400, 400]],
    ['deletions', `${one}${remove}${remove}${one}X`, [200, 204, 404, 200, 400]],
    ['a token', `${one.replace(items, '/secret')}${remove}X`, [401, 204, 400]],
    ['a request, in the place of one', `${one}${one.replace('1.1', '9.9')}${one}`, [200, 505]],
    ['a request, with LF alone', `${one}${one.replaceAll('\r', '')}`, [200, 400]],
    [
      'requests, with another coding',
      `${one.repeat(3)}${post('Transfer-Encoding: gzip\r\n', '')}`,
      [200, 200, 200, 400],
    ],
    ['requests, in a chunk', `${one}${post(chunked, 'zz\r\n')}`, [200, 400]],
    ['a last request', `${get('Host: x\r\nConnection: close\r\n')}${remove}X`, [200]],
    ['a last request of HTTP/1.0', `${one.replace('1.1', '1.0')}${remove}X`, [200]],
  ] as const)
    test(`garbage behind ${what}: every answer that is due, then the refusal`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      await service.send('POST', items, body)
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(said)
      await raw.closed
      assert.deepEqual(raw.statuses, statuses)
    })

  test('a thousand requests behind one that takes its time are answered in their order', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`${one.replace(items, '/secret')}${one.replace(items, `${items}/x`).repeat(998)}${one}`)
    assert.deepEqual(await raw.answers(1_000), [401, ...Array.from({ length: 998 }, () => 400), 200])
  })

  test('more requests in one go than are taken: the answers to those that were, and an orderly end', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    let error: Error | undefined
    raw.socket.on('error', (cause) => {
      error = cause
    })
    raw.socket.write(one.repeat(3_000))
    await raw.closed
    assert.deepEqual([raw.statuses.length, error], [1_000, undefined])
  })

  const later = (token = '') => get(`Host: x\r\nAuthorization: Bearer ${token}\r\n`).replace(items, '/secret')

  test('CONNECT behind a request that takes its time: its answer, then 501', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`${later(service.token)}${post(length, body)}CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n${remove}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [200, 201, 501])
    assert.notEqual((await service.send('GET', items)).text, '[]')
  })

  test('CONNECT behind a long answer: the whole of it, then 501', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (let at = 0; at < 8; at++) await service.send('POST', items, { name: 'x'.repeat(900_000), isComplete: true })
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`${one}CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n`)
    await raw.closed
    assert.deepEqual(raw.statuses, [200, 501])
    assert.ok(raw.received.length > 7_200_000, `${raw.received.length}`)
  })

  test('a client that says nothing more still gets its answers', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (let at = 0; at < 8; at++) await service.send('POST', items, { name: 'x'.repeat(900_000), isComplete: true })
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.end(`${later(service.token)}${post(length, body)}${later(service.token)}${one}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [200, 201, 200, 200])
    assert.ok(raw.received.length > 7_200_000, `${raw.received.length}`)
  })

  test('HTTP/1.0: what comes behind an answer without a length has no effect', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const _ of '12') await service.send('POST', items, body)
    const raw = new Raw(t, Number(new URL(service.url).port))
    const old = remove.replace('1.1\r\n', '1.0\r\nConnection: keep-alive\r\n')
    raw.socket.write(`${old}${old.replace('/1 ', '/2 ')}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [204])
    assert.equal((await service.send('GET', `${items}/2`)).status, 200)
  })

  test('a body that comes byte by byte is slow, and fine', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.setNoDelay(true)
    const text = `{"isComplete":true,"name":"${'x'.repeat(1_500)}"}`
    raw.socket.write(post(chunked, `${text.length.toString(16)}\r\n`))
    for (const byte of text) await new Promise((written) => raw.socket.write(byte, () => setImmediate(written)))
    raw.socket.write('\r\n0\r\n\r\n')
    assert.deepEqual(await raw.answers(1), [201])
  })

  test('a header that looks like a request line is none', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`GET ${items} HTTP/1.1\r\nX: `)
    await service.send('GET', '/')
    raw.socket.write('GET x\r\nHost: x\r\n\r\n')
    assert.deepEqual(await raw.answers(1), [200])
  })

  test('what hides behind a body that was announced and not asked for has no effect', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    const announced = post(`Expect: 100-continue\r\n${length}`, body).replace('application/json', 'text/plain')
    raw.socket.write(`${announced}${post(length, body)}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [415])
    assert.equal((await service.send('GET', items)).text, '[]')
  })

  test('bodies that broke off leave nothing behind', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const piece = `ea60\r\n${'x'.repeat(60_000)}\r\n`
    const broken = Array.from({ length: 200 }, () => {
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(post(chunked, piece))
      raw.socket.write(`${piece}zz\r\n`)
      return raw
    })
    await Promise.all(broken.map(({ closed }) => closed))
    assert.deepEqual(new Set(broken.flatMap(({ statuses }) => statuses)), new Set([400]))
    const name = 'x'.repeat(300_000)
    assert.equal((await service.send('POST', items, { name, isComplete: true })).status, 201)
  })

  for (const method of ['GET', 'HEAD', 'DELETE'])
    for (const [what, broken] of Object.entries({
      'a chunk without a size': 'zz\r\n',
      'a chunk that is too long': '5\r\nhello!!\r\n0\r\n\r\n',
      'a chunk with half an extension': '5;\r\nhello\r\n0\r\n\r\n',
    }))
      test(`${method} with ${what}: 400, the end of the connection, and no effect`, async (t) => {
        const service = await transports['over a socket'](t, 'a')
        await service.send('POST', items, body)
        const raw = new Raw(t, Number(new URL(service.url).port))
        raw.socket.write(`${method} ${items}/1 HTTP/1.1\r\nHost: x\r\n${chunked}\r\n${broken}`)
        await raw.closed
        assert.deepEqual(raw.statuses, [400])
        assert.equal((await service.send('GET', `${items}/1`)).status, 200)
      })

  test('a body that nobody asked for: the request counts when it is whole', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    await service.send('POST', items, body)
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel`)
    assert.equal((await service.send('GET', `${items}/1`)).status, 200)
    raw.socket.write(`lo${one}`)
    assert.deepEqual(await raw.answers(2), [204, 200])
    raw.socket.write(`${remove.replace('\r\n\r\n', '\r\nContent-Length: 99999999\r\n\r\n')}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [204, 200, 413])
  })

  test('a body that nobody asked for is too large: 413, in profile B too', async (t) => {
    const service = await transports['over a socket'](t, 'b')
    for (const path of ['/', items, '/health/live'])
      assert.equal((await service.send('GET', path, 'x'.repeat(2 ** 20 + 1))).status, 413)
  })

  for (const [what, said] of Object.entries({
    'in the same breath': [`${get('Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n')}${remove}`],
    later: [get('Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n'), remove],
  }))
    test(`an upgrade, which nobody offers: answered as if it were none; what comes ${what} has no effect`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      await service.send('POST', items, body)
      const raw = new Raw(t, Number(new URL(service.url).port))
      for (const part of said) await new Promise((written) => raw.socket.write(part, written))
      await raw.closed
      assert.deepEqual(raw.statuses, [200])
      assert.match(raw.received, /connection: close/i)
      assert.equal((await service.send('GET', `${items}/1`)).status, 200)
    })

  for (const [what, said, status] of [
    ['is too large', post('Content-Length: 104857600\r\n', ''), 413],
    ['comes with two Hosts', post(`${length}Host: y\r\n`, ''), 400],
    ['is not JSON', post(length, '').replace('application/json', 'text/plain'), 415],
    ['comes with a method that is not offered', post(length, '').replace('POST', 'PATCH'), 405],
  ] as const)
    test(`a body that ${what} is not asked for`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(said.replace('Host: x', 'Host: x\r\nExpect: 100-continue'))
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
    })

  test('a body that is asked for comes', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(post(`${length}Expect: 100-continue\r\n`, ''))
    assert.deepEqual(await raw.answers(1), [100])
    raw.socket.write(body)
    assert.deepEqual(await raw.answers(2), [100, 201])
  })

  const hidden = `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\n\r\n`
  for (const [what, first] of Object.entries({
    'a coding under chunked': post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
    'chunked in HTTP/1.0': post(`Connection: keep-alive\r\n${chunked}`, '0\r\n\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
    'HTTP/0.9': get('Host: x\r\nConnection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/0.9'),
    'no Host': get(''),
    'two Hosts': get('Host: x\r\nHost: y\r\n'),
    'a body that is too large': post('Content-Length: 99999999\r\n', ''),
  }))
    test(`what hides behind ${what} has no effect`, async (t) => {
      const service = await transports['over a socket'](t, 'a')
      await service.send('POST', items, body)
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(`${first}${hidden}`)
      await raw.closed
      assert.equal(raw.statuses.length, 1)
      assert.equal((await service.send('GET', `${items}/1`)).status, 200)
    })

  test('a client that breaks off in the middle of CONNECT harms nobody', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (let at = 0; at < 200; at++) {
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write('CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n', () => raw.socket.resetAndDestroy())
      await raw.closed
    }
    assert.equal((await service.send('GET', '/')).status, 200)
  })

  /** An item of so many bytes, in chunks of a size. */
  const inChunks = (bytes: number, size: number) => {
    const all = `{"isComplete":true,"name":"${'x'.repeat(bytes)}"}`.match(new RegExp(`.{1,${size}}`, 'g')) ?? []
    return post(chunked, `${all.map((one) => `${one.length.toString(16)}\r\n${one}\r\n`).join('')}0\r\n\r\n`)
  }

  test('a body of small chunks is read, one of crumbs without end is not', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const sent = async (said: string) => {
      const raw = new Raw(t, Number(new URL(service.url).port))
      raw.socket.write(said)
      await raw.answers(1)
      return raw
    }
    assert.deepEqual((await sent(inChunks(900, 1))).statuses, [201])
    assert.deepEqual((await sent(inChunks(80_000, 16))).statuses, [201])
    const crumbs = await sent(post(chunked, '1\r\nx\r\n'.repeat(3_000_000)))
    assert.deepEqual(crumbs.statuses, [413])
    await crumbs.closed
    // Node uses its parsers again.
    assert.deepEqual((await sent(inChunks(50, 1))).statuses, [201])
  })

  test('two hundred trailers are read, and no more', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    const withTrailers = (count: number) => post(chunked, chunks.replace(/\r\n$/, `${'X: y\r\n'.repeat(count)}\r\n`))
    raw.socket.write(`${withTrailers(200)}${withTrailers(201)}${get('Host: x\r\n')}`)
    await raw.closed
    assert.deepEqual(raw.statuses, [201, 413])
    assert.equal(JSON.parse((await service.send('GET', items)).text).length, 1)
  })

  test('what is refused for its crumbs has no effect', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(post(chunked, `${chunks.replace('0\r\n\r\n', '')}${'1\r\n \r\n'.repeat(10_500)}0\r\n\r\n`))
    assert.deepEqual(await raw.answers(1), [413])
    await raw.closed
    assert.equal((await service.send('GET', items)).text, '[]')
  })

  test('a body of crumbs that is refused costs little more than a whole one', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const timeFor = async (said: string) => {
      const began = performance.now()
      for (let at = 0; at < 50; at++) {
        const raw = new Raw(t, Number(new URL(service.url).port))
        raw.socket.write(said)
        await raw.answers(1)
        raw.socket.destroy()
      }
      return performance.now() - began
    }
    // Uses up what there is for all clients.
    await timeFor(inChunks(50_000, 1))
    const [whole, crumbs] = [await timeFor(inChunks(200_000, 200_000)), await timeFor(inChunks(40_000, 1))]
    assert.ok(crumbs < 2.5 * whole, `${Math.round(crumbs)} ms, ${Math.round(whole)} ms`)
  })

  test('large bodies that stop half-way do not hold up others', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const port = Number(new URL(service.url).port)
    const stopped = Array.from({ length: 9 }, () => new Raw(t, port).socket)
    for (const socket of stopped)
      await new Promise((taken) => socket.write(post('Content-Length: 1000000\r\n', 'x'.repeat(999_999)), taken))
    const large = `{"isComplete":true,"name":"${'x'.repeat(80_000)}"}`
    for (let at = 0; at < 20; at++) {
      const raw = new Raw(t, port)
      const timer = setTimeout(() => raw.socket.destroy(), 10_000)
      raw.socket.write(post(`Content-Length: ${large.length}\r\n`, large.slice(0, 40_000)))
      raw.socket.write(large.slice(40_000))
      assert.deepEqual(await raw.answers(1), [201])
      clearTimeout(timer)
    }
    for (const socket of stopped) socket.destroy()
  })

  test('what took too long has no effect, even if the rest comes then', async (t) => {
    const service = await transports['over a socket'](t, 'a', { limits: { requestTimeout: 1_000 } })
    const raw = new Raw(t, Number(new URL(service.url).port), { allowHalfOpen: true })
    raw.socket.write(post(length, body.slice(0, 5)))
    assert.deepEqual(await raw.answers(1), [408])
    raw.socket.end(body.slice(5))
    await raw.closed
    assert.equal((await service.send('GET', items)).text, '[]')
  })

  test('a body that is refused is not read, even if the client never stops', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    for (const [said, status] of [
      [post('Content-Length: 999999999\r\n', ''), 413],
      [post('Content-Length: 999999999\r\n', '').replace('application/json', 'text/plain'), 415],
      [post('Expect: 200-maybe\r\nContent-Length: 999999999\r\n', ''), 417],
    ] as const) {
      const raw = new Raw(t, Number(new URL(service.url).port), { allowHalfOpen: true })
      raw.socket.write(said)
      const piece = Buffer.alloc(2 ** 16, 'x')
      const push = () => {
        while (!raw.socket.destroyed && raw.socket.write(piece));
      }
      raw.socket.on('drain', push)
      push()
      await raw.closed
      assert.deepEqual(raw.statuses, [status])
      // What the kernel holds on both sides counts as sent.
      assert.ok(raw.socket.bytesWritten < 30 * 2 ** 20, `${raw.socket.bytesWritten}`)
    }
  })
})
