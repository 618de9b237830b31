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
  'no Host': [get(''), 400],
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
  'two Hosts': [get('Host: x\r\nHost: y\r\n'), 400],
  'an empty Host': [get('Host:\r\n'), 400],
  'a Host with a user': [get('Host: a@x\r\n'), 400],
  'two Content-Types': [post(`Content-Type: text/plain\r\n${length}`, body), 400],
  'two Authorizations': [get('Host: x\r\nAuthorization: a\r\nAuthorization: b\r\n'), 400],
  'an absolute target': [`GET http://x${items} HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'an asterisk': ['OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  'a fragment': [`GET ${items}#x HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'bytes beyond ASCII in the path': [`GET ${items}/\xff HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  'an expectation that nobody knows': [post(`Expect: 200-maybe\r\n${length}`, body), 417],
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

  test('garbage behind a request: its answer, then 400', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(`${get('Host: x\r\n')}GARBAGE\r\n\r\n`)
    await raw.closed
    assert.deepEqual(raw.statuses, [200, 400])
  })

  test('a body that is too large is not asked for', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(post('Content-Length: 104857600\r\nExpect: 100-continue\r\n', ''))
    await raw.closed
    assert.deepEqual(raw.statuses, [413])
  })

  test('a body that is asked for comes', async (t) => {
    const service = await transports['over a socket'](t, 'a')
    const raw = new Raw(t, Number(new URL(service.url).port))
    raw.socket.write(post(`${length}Expect: 100-continue\r\n`, ''))
    assert.deepEqual(await raw.answers(1), [100])
    raw.socket.write(body)
    assert.deepEqual(await raw.answers(2), [100, 201])
  })
})
