import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { suite, test } from 'node:test'
import { transports } from '../support/running.ts'

suite('requests in one go', () => {
  test('take effect one after the other', async (t) => {
    const { url } = await transports['over a socket'](t, 'a')
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const body = '{"isComplete":true}'
    const post = `POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const bare = (method: string, more = '') => `${method} /api/todoitems/1 HTTP/1.1\r\nHost: x\r\n${more}\r\n`
    let received = ''
    socket.on('data', (data) => (received += data))
    socket.write([post, bare('GET'), bare('DELETE'), bare('GET', 'Connection: close\r\n')].join(''))
    await once(socket, 'close')
    const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
    assert.deepEqual(statuses, ['201', '200', '204', '404'])
  })
})

suite('a body that will not be read', () => {
  for (const [name, status, headers] of [
    ['A14 declared too large', 413, 'Content-Type: application/json\r\nContent-Length: 104857600'],
    ['A14 of another media type', 415, 'Content-Type: text/plain\r\nContent-Length: 104857600'],
  ])
    test(`${name}: answered before it is sent, then the connection ends though the client goes on sending`, async (t) => {
      const { url } = await transports['over a socket'](t, 'a')
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      t.after(() => socket.destroy())
      socket.on('error', () => {})
      let received = ''
      socket.on('data', (data) => (received += data))
      socket.write(`POST /api/todoitems HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n{`)
      const sending = setInterval(() => socket.write('x'.repeat(1000)), 20)
      t.after(() => clearInterval(sending))
      await once(socket, 'close')
      assert.ok(received.startsWith(`HTTP/1.1 ${status} `), received)
    })
})
