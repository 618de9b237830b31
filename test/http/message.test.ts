import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { Message } from '../../src/server/node-message.ts'
import { RawConnection } from '../support/raw.ts'
import { tokenFor, transports } from '../support/running.ts'

const items = '/api/todoitems'
const body = '{"name":"walk the dog","isComplete":true}'
const length = `Content-Length: ${body.length}\r\n`
const chunked = 'Transfer-Encoding: chunked\r\n'
const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
const large = `{"isComplete":false,"name":"${'x'.repeat(900_000)}"}`
const head = (headers: string, method = 'POST', path = items) =>
  `${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n`

const connectTo = async (t: TestContext, limits = {}) => {
  const { url } = await transports['over a socket'](t, 'a', { limits })
  return new RawConnection(t, Number(new URL(url).port))
}

/** What is sent, piece by piece; a number waits until so many responses have begun, `end` ends the client's side. */
const exchanges: Readonly<Record<string, readonly (string | number | 'end')[]>> = {
  'a body with its head': [head(length) + body, 1],
  'a body in pieces': [head(length), body.slice(0, 5), body.slice(5, 9), body.slice(9), 1],
  'an empty body': [head('Content-Length: 0\r\n'), 1],
  'no body': [head(''), 1],
  'an empty body in chunks': [`${head(chunked)}0\r\n\r\n`, 1],
  'an empty body behind a request that takes time': [
    head('Authorization: Bearer TOKEN\r\n', 'GET', '/secret') + head('Content-Length: 0\r\n'),
    2,
  ],
  'a body of 900,000 bytes': [head(`Content-Length: ${large.length}\r\n`) + large, 1],
  'a body in chunks': [head(chunked) + chunks, 1],
  'a body that waits for 100 Continue': [head(`${length}Expect: 100-continue\r\n`), 1, body, 2],
  'pipelined requests with bodies': [(head(length) + body).repeat(20), 20],
  'pipelined requests with bodies in chunks': [(head(chunked) + chunks + head(length) + body).repeat(5), 10],
  'a body behind a request that takes time': [
    head(`Authorization: Bearer TOKEN\r\n${length}`, 'GET', '/secret') + body + head(length) + body,
    2,
  ],
  'a body that no route reads': [head(length, 'DELETE', `${items}/1`) + body, 1],
  'a body that is no JSON': [head(length) + body.replace('{', '['), 1],
  'a body of another media type': [head(length).replace('application/json', 'text/x') + body + head(length) + body, 2],
  'a rejected body in pieces': [head(length).replace('application/json', 'text/x'), 1, body, head(length) + body, 2],
  'a rejected body of 900,000 bytes': [head(`Content-Length: ${large.length}\r\n`, 'PATCH') + large, 1, 'end'],
  'a body over the limit': [head('Content-Length: 2000000\r\n') + large, 1, 'end'],
  'a body that is cut off': [head(length) + body.slice(0, 5), 'end'],
  'a body that stalls': [head(length) + body.slice(0, 5), 1, 'end'],
  'bytes that are no request behind a body': [`${head(length) + body}X\r\n\r\n`, 2, 'end'],
}

async function responsesTo(t: TestContext, exchange: readonly (string | number | 'end')[]): Promise<string> {
  const raw = await connectTo(t, { requestTimeoutMs: 1_000 })
  const token = await tokenFor('ada')
  for (const step of exchange) {
    if (step === 'end') raw.socket.end()
    else if (typeof step === 'number') await raw.responses(step)
    else await new Promise((written) => raw.socket.write(step.replace('TOKEN', token), written))
  }
  if (exchange.at(-1) !== 'end') raw.socket.write(head('Connection: close\r\n', 'GET'))
  await raw.closed
  return raw.received.replaceAll(/^(?:date|etag): .*\r\n/gim, '')
}

suite('bodies of requests', () => {
  test('are received without events of the stream, as soon as one body has shown that Node pushes them', async (t) => {
    Message.isBodyPushed = false
    const push = t.mock.method(Readable.prototype, 'push')
    const on = t.mock.method(Readable.prototype, 'on')
    const raw = await connectTo(t)
    const messageCalls = () =>
      [push, on].map(({ mock }) => mock.calls.filter(({ this: stream }) => stream instanceof Message).length)
    raw.socket.write(head(length) + body)
    await raw.responses(1)
    assert.equal(Message.isBodyPushed, true)
    const [pushesBefore, listenersBefore] = messageCalls()
    assert.equal(pushesBefore, 2)
    for (let count = 2; count < 5; count++) {
      raw.socket.write(head(length) + body)
      await raw.responses(count)
    }
    for (const piece of [head(length), body.slice(0, 9), body.slice(9)])
      await new Promise((written) => raw.socket.write(piece, written))
    await raw.responses(5)
    const [pushes, listeners] = messageCalls()
    assert.equal(pushes, pushesBefore)
    // Node itself listens for the end of each request.
    assert.ok((listeners ?? 0) - (listenersBefore ?? 0) <= 4, `${listeners} ${listenersBefore}`)
  })

  for (const [name, exchange] of Object.entries(exchanges))
    test(`get the same responses if Node does not push them: ${name}`, async (t) => {
      Message.isBodyPushed = true
      const expected = await responsesTo(t, exchange)
      Message.isBodyPushed = false
      t.mock.method(Message.prototype, 'push', Readable.prototype.push)
      assert.equal(await responsesTo(t, exchange), expected)
      assert.equal(Message.isBodyPushed, false)
      assert.notEqual(expected, '')
    })
})
