import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { connect as connectSecurely } from 'node:tls'
import { cleanUp } from '../support/cleanup.ts'
import { serve } from '../support/cli.ts'
import { statusesIn } from '../support/raw.ts'
import { serveWith } from '../support/service.ts'

const items = '/api/todoitems'
/** A response of 1.5 MB. */
const large = 'GET /swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n'
const get = 'GET /weatherforecast HTTP/1.1\r\nHost: x\r\n\r\n'
const last = get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
const body = '{"name":"x","isComplete":true}'
const post = (headers = '') =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}Content-Length: ${body.length}\r\n\r\n`

async function startService(t: TestContext) {
  const { running, url } = await serve(t, ['--https-port', '0'])
  const [, port] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
  return { url, port: Number(port) }
}

/** A TLS client that can send several records in one TCP segment. */
async function connectTls(t: TestContext, port: number) {
  const tcp = connect({ port, host: '127.0.0.1' })
  tcp.on('error', () => {})
  cleanUp(t, () => tcp.destroy())
  let held: Buffer[] | undefined
  const transport = new Duplex({
    read: () => void tcp.resume(),
    write(bytes, _encoding, done) {
      if (held) {
        held.push(bytes)
        done()
      } else tcp.write(bytes, () => done())
    },
    final: (done) => void tcp.end(done),
  })
  tcp.on('data', (bytes) => transport.push(bytes) || tcp.pause())
  tcp.on('end', () => transport.push(null))
  tcp.on('close', () => transport.destroy())
  const socket = connectSecurely({ socket: transport, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return {
    socket,
    async sendTogether(...records: string[]): Promise<void> {
      held = []
      for (const record of records) await new Promise((written) => socket.write(record, written))
      tcp.write(Buffer.concat(held))
      held = undefined
    },
    /** All statuses until the server closes the connection. */
    async statuses(): Promise<number[]> {
      const received: Buffer[] = []
      for await (const bytes of socket) received.push(bytes)
      return statusesIn(Buffer.concat(received).toString('latin1'))
    },
  }
}

suite('requests over TLS', () => {
  test('pipelined over several records are answered in order', async (t) => {
    const { port } = await startService(t)
    const { socket, statuses } = await connectTls(t, port)
    const pairs = Array.from(
      { length: 40 },
      (_, index) =>
        `${post(`X: ${'x'.repeat(1_000)}\r\n`)}${body}GET ${items}/${index + 1} HTTP/1.1\r\nHost: x\r\n\r\n`,
    )
    socket.write(`${pairs.join('')}${last}`)
    assert.deepEqual(await statuses(), [...pairs.flatMap(() => [201, 200]), 200])
  })

  test('with a body in a later record, behind a large response, are answered', async (t) => {
    const { port } = await startService(t)
    const client = await connectTls(t, port)
    await client.sendTogether(`${large}${post('Connection: close\r\n')}`, body)
    assert.deepEqual(await client.statuses(), [200, 201])
  })

  test('with Expect: 100-continue, behind a large response, are answered', async (t) => {
    const { port } = await startService(t)
    const client = await connectTls(t, port)
    await client.sendTogether(`${large}${post()}`, body, post('Expect: 100-continue\r\n'), body, last)
    assert.deepEqual(await client.statuses(), [200, 201, 100, 201, 200])
  })

  test('cut off in the middle of the body get 400 and are not stored', async (t) => {
    const { port, url } = await startService(t)
    const { socket, statuses } = await connectTls(t, port)
    socket.end(`${post()}${body.slice(1)}`)
    assert.deepEqual(await statuses(), [400])
    assert.equal(await (await fetch(`${url}${items}`)).text(), '[]')
  })

  test('behind a response that closes the connection are not executed', async (t) => {
    const { port, url } = await startService(t)
    const { socket, statuses } = await connectTls(t, port)
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n${post()}${body}`)
    assert.deepEqual(await statuses(), [400])
    assert.equal(await (await fetch(`${url}${items}`)).text(), '[]')
  })

  test('with a body over the limit get 413 before the connection is closed', async (t) => {
    const { port } = await startService(t)
    const { socket, statuses } = await connectTls(t, port)
    const size = 20 * 2 ** 20
    socket.write(post().replace(/Content-Length: \d+/, `Content-Length: ${size}`))
    socket.write(Buffer.alloc(size, 'x'))
    assert.deepEqual(await statuses(), [413])
  })

  test('of a client that renegotiates get no response', async (t) => {
    const { port } = await startService(t)
    const socket = connectSecurely({ port, host: '127.0.0.1', rejectUnauthorized: false, maxVersion: 'TLSv1.2' })
    cleanUp(t, () => socket.destroy())
    await once(socket, 'secureConnect')
    const closed = new Promise<void>((resolve) => socket.on('error', () => {}).on('close', () => resolve()))
    let received = ''
    socket.on('data', (data) => {
      received += data
    })
    socket.renegotiate({}, (error) => {
      if (!error) socket.write(last)
    })
    await closed
    assert.equal(received, '')
  })

  test('of a client that reads no response are not received without end', async (t) => {
    const { httpsPort } = await serveWith(t, ['--https-port', '0'], ({ limits }) => ({
      limits: { ...limits, stalledTimeoutMs: 2_000 },
    }))
    const { socket, sendTogether } = await connectTls(t, httpsPort)
    socket.pause()
    await sendTogether(large.repeat(15), get, get)
    const more = get.repeat(400)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    while (!socket.destroyed && socket.bytesWritten < 300_000_000)
      if (!socket.write(more)) await Promise.race([new Promise((drained) => socket.once('drain', drained)), closed])
    assert.ok(socket.bytesWritten < 200_000_000, `${socket.bytesWritten}`)
  })
})
