import assert from 'node:assert/strict'
import { once } from 'node:events'
import { suite, test } from 'node:test'
import { connect } from 'node:tls'
import { cleanUp } from '../support/cleanup.ts'
import { node, serve } from '../support/cli.ts'
import { keepAliveClient } from '../support/keep-alive-client.ts'
import { RawConnection } from '../support/raw.ts'
import { serveWith } from '../support/service.ts'

const items = '/api/todoitems'
const hourMs = 3_600_000
const production = ['--mode', 'production']
const body = '{"name":"x","isComplete":true}'
const postHead = (length: number) =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

suite('SIGTERM', { concurrency: true }, () => {
  test('fails /health/ready at once, finishes requests in flight, closes connections, exits with 0', async (t) => {
    const { running, url, port } = await serve(t, [...production, '--drain-delay', '10'], {}, 'a', node)
    const upload = new RawConnection(t, port)
    upload.socket.write(postHead(body.length))
    const get = keepAliveClient(t, url)
    await get('/health/ready')
    running.process.kill('SIGTERM')
    let response = await get('/health/ready')
    while (response.status === 200) response = await get('/health/ready')
    assert.deepEqual(response, { status: 503, text: 'stopping', closesConnection: true })
    assert.equal((await get(items)).status, 200)
    upload.socket.write(body)
    assert.deepEqual(await upload.responses(1), [201])
    assert.match(upload.received, /connection: close/i)
    assert.equal((await running.ended).code, 0)
  })

  test('followed by another signal exits at once with 1', async (t) => {
    const { running, port } = await serve(t, [...production, '--drain-delay', '60'], {}, 'a', node)
    const upload = new RawConnection(t, port)
    upload.socket.write(`POST ${items} HTTP/1.1\r\nHost: x\r\n`)
    running.process.kill('SIGTERM')
    running.process.kill('SIGINT')
    assert.equal((await running.ended).code, 1)
  })

  test('lets a slow client read its whole response', async (t) => {
    const { running, port } = await serve(t, [...production, '--drain-delay', '0'], {}, 'a', node)
    const text = JSON.stringify({ name: 'x'.repeat(900_000), isComplete: true })
    const slow = new RawConnection(t, port)
    slow.socket.write(`${postHead(text.length)}${text}`.repeat(10))
    await slow.responses(10)
    slow.socket.write(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await slow.responses(11)
    const receivedBefore = slow.received.length
    slow.socket.pause()
    const idle = new RawConnection(t, port)
    idle.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await idle.responses(1)
    running.process.kill('SIGTERM')
    await idle.closed
    assert.ok(slow.received.length === receivedBefore)
    slow.socket.resume()
    await slow.closed
    assert.ok(slow.received.length > 18_000_000, `${slow.received.length} bytes`)
    assert.equal((await running.ended).code, 0)
  })

  // No timeout of the service closes these connections.
  test('closes connections without a byte, a handshake, a request or a client', { timeout: 60_000 }, async (t) => {
    const { port, httpsPort, close } = await serveWith(
      t,
      ['--https-port', '0', '--drain-timeout', '3600'],
      ({ limits }) => ({
        limits: { ...limits, headersTimeoutMs: hourMs, requestTimeoutMs: hourMs, keepAliveTimeoutMs: hourMs },
      }),
    )
    const silent = [port, httpsPort].map((one) => new RawConnection(t, one))
    for (const { socket } of silent) await once(socket, 'connect')
    for (const leaves of [false, true]) {
      const unused = connect({ host: '127.0.0.1', port: httpsPort, rejectUnauthorized: false })
      unused.on('error', () => {})
      cleanUp(t, () => unused.destroy())
      await once(unused, 'secureConnect')
      if (leaves) unused.destroy()
    }
    await close()
    for (const { closed } of silent) await closed
  })
})
