import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { connect as connectSecurely } from 'node:tls'
import { serve } from '../support/cli.ts'
import { statusesIn } from '../support/raw.ts'

const items = '/api/todoitems'
const large = 'GET /swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n'
const get = 'GET /weatherforecast HTTP/1.1\r\nHost: x\r\n\r\n'
const body = '{"name":"x","isComplete":true}'
const post = (headers = '') =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}Content-Length: ${body.length}\r\n\r\n`

async function secureService(t: TestContext, args: readonly string[] = []) {
  const { running, url } = await serve(t, ['--https-port', '0', ...args])
  const [, port] = await running.prints(/https:\/\/127\.0\.0\.1:(\d+)/)
  return { url, port: Number(port) }
}

/** A client over TLS that decides what comes in one go. */
async function secureClient(t: TestContext, port: number) {
  const wire = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  wire.on('error', () => {})
  t.after(() => wire.destroy())
  let held: Buffer[] | undefined
  const flush = () => {
    if (held) wire.write(Buffer.concat(held))
    held = undefined
  }
  const between = new Duplex({
    allowHalfOpen: true,
    read: () => void wire.resume(),
    write(bytes, _encoding, done) {
      if (!held) return void wire.write(bytes, () => done())
      held.push(bytes)
      done()
    },
    final(done) {
      flush()
      wire.end(done)
    },
  })
  wire.on('data', (bytes) => between.push(bytes) || wire.pause())
  wire.on('end', () => between.push(null))
  wire.on('close', () => between.destroy())
  const socket = connectSecurely({ socket: between, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return {
    socket,
    async sayInOneGo(...records: string[]): Promise<void> {
      held = []
      for (const record of records) await new Promise((written) => socket.write(record, written))
      flush()
    },
    /** The end comes with it. */
    async sayAtLast(record: string): Promise<void> {
      held = []
      await new Promise((written) => socket.write(record, written))
      socket.end()
    },
    /** All statuses until the server ends the connection. */
    async statuses(): Promise<number[]> {
      const received: Buffer[] = []
      for await (const bytes of socket) received.push(bytes)
      return statusesIn(Buffer.concat(received).toString('latin1'))
    },
  }
}

suite('HTTPS: what comes while an answer waits to be taken', () => {
  test('is answered in order, wherever a record ends', async (t) => {
    const { port } = await secureService(t)
    const client = await secureClient(t, port)
    const pairs = Array.from(
      { length: 400 },
      (_, at) => `${post()}${body}GET ${items}/${at + 1} HTTP/1.1\r\nHost: x\r\n\r\n`,
    )
    client.socket.end(pairs.join(''))
    assert.deepEqual(
      await client.statuses(),
      pairs.flatMap(() => [201, 200]),
    )
  })

  test('is the body of the last request, too', async (t) => {
    const { port } = await secureService(t)
    const client = await secureClient(t, port)
    await client.sayInOneGo(`${large}${post('Connection: close\r\n')}`, body)
    assert.deepEqual(await client.statuses(), [200, 201])
  })

  test('may wait for 100 Continue', async (t) => {
    const { port } = await secureService(t)
    const client = await secureClient(t, port)
    await client.sayInOneGo(
      `${large}${post()}`,
      body,
      post('Expect: 100-continue\r\n'),
      body,
      get,
      post('Connection: close\r\n'),
      body,
    )
    assert.deepEqual(await client.statuses(), [200, 201, 100, 201, 200, 201])
  })

  test('may be half a request, and then no more', async (t) => {
    const { port, url } = await secureService(t)
    const client = await secureClient(t, port)
    await client.sayAtLast(`${large}${post()}${body.slice(1)}`)
    assert.deepEqual(await client.statuses(), [200, 400])
    assert.equal(await (await fetch(`${url}${items}`)).text(), '[]')
  })

  test('is not read without end', async (t) => {
    const { port } = await secureService(t, ['--stalled-timeout', '2'])
    const { socket, sayInOneGo } = await secureClient(t, port)
    socket.pause()
    await sayInOneGo(large.repeat(15), get, get)
    const more = get.repeat(400)
    while (!socket.destroyed && socket.bytesWritten < 60_000_000)
      if (!socket.write(more)) await new Promise((next) => socket.once('drain', next).once('close', next))
    assert.ok(socket.bytesWritten < 30_000_000, `${socket.bytesWritten}`)
  })
})
