import assert from 'node:assert/strict'
import { once } from 'node:events'
import { suite, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, Response } from '../../src/verify/engine/client.ts'
import { serve, sharedService } from '../support/cli.ts'
import { EventStream, itemsPath, newSpace, numbered, putFaults } from '../support/control.ts'
import { RawConnection } from '../support/raw.ts'
import type { Runtime } from '../support/runtimes.ts'
import { Stopwatch } from '../support/stopwatch.ts'

/** A body that is sent in about this time. */
const seconds = 0.6

export function testRates({ name, env, skip, ...interpreter }: Runtime): void {
  suite(`delays and rates on ${name}`, { skip, concurrency: true }, () => {
    const service = sharedService(['--no-https', '--metrics-port', '0'], 'a', env, interpreter)

    for (const [method, fault, path, operation] of [
      ['GET', { delay: 60_000 }, '/weatherforecast', 'getForecast'],
      ['DELETE', { delay: 60_000, code: 503 }, `${itemsPath}/1`, 'deleteItem'],
    ] as const)
      test(`a delayed ${method} without effect is dropped as soon as its client has left`, async (t) => {
        const client = newSpace(service)
        await putFaults(client, fault)
        const stream = await EventStream.open(t, client)
        const { socket } = new RawConnection(t, service.port)
        socket.write(`${method} ${new URL(client.url).pathname}${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
        while ((await stream.next()).data.fault === undefined);
        socket.destroy()
        const [metrics] = await service.running.prints(/http:\/\/127\.0\.0\.1:\d+\/metrics/)
        const counted = new RegExp(`^todo_requests_total\\{.*operation="${operation}".*status="(\\w+)"`, 'm')
        let match: RegExpExecArray | null
        do {
          await sleep(20)
          match = counted.exec(await (await fetch(metrics)).text())
        } while (!match)
        // A response after the delay would be counted with its status.
        assert.equal(match[1], 'closed')
      })

    /** A space with so many items, the response with them, and the rate at which its body takes the time. */
    async function prepared(count: number) {
      const client = newSpace(service)
      const items = Array.from({ length: count }, (_, id) => ({ id, ...numbered('x') }))
      await client.send('PUT', '/__admin/items', items)
      const plain = await client.send('GET', itemsPath)
      return { client, plain, rate: Math.round(plain.text.length / seconds) }
    }

    const comparable = ({ headers }: Response) => {
      // Bun sends a stream in chunks, whatever its Content-Length.
      const framing = name === 'Bun' ? { 'content-length': '', 'transfer-encoding': '' } : {}
      return { ...headers, date: '', 'preference-applied': '', ...framing }
    }

    for (const count of [1, 100, 20_000])
      test(`a list of ${count} takes its time, with the same headers`, async () => {
        const { client, plain, rate } = await prepared(count)
        for (const isFault of [false, true]) {
          if (isFault) await putFaults(client, { bytesPerSecond: rate })
          const stopwatch = new Stopwatch()
          const startedAt = performance.now()
          const slow = await client.send('GET', itemsPath, undefined, isFault ? {} : { prefer: `rate=${rate}` })
          const elapsedMs = performance.now() - startedAt
          assert.ok(elapsedMs > 900 * seconds, `${elapsedMs}`)
          stopwatch.assertWithin(3_000, elapsedMs)
          assert.deepEqual(
            [slow.status, slow.headers['preference-applied']],
            [200, isFault ? undefined : `rate=${rate}`],
          )
          assert.deepEqual(comparable(slow), comparable(plain))
          assert.equal(slow.text, plain.text)
        }
        const { headers } = await client.send('HEAD', itemsPath)
        assert.equal(headers['content-length'], `${plain.text.length}`)
      })

    test('with a delay and a code', async () => {
      const { client } = await prepared(1)
      await putFaults(client, { method: 'POST', code: 503, delay: 200, bytesPerSecond: 1_000 })
      const startedAt = performance.now()
      const { status, text } = await client.send('POST', itemsPath, numbered('x'))
      assert.equal(status, 503)
      const elapsedMs = performance.now() - startedAt
      assert.ok(elapsedMs > 0.9 * (200 + text.length), `${elapsedMs}`)
    })

    /** The pieces of the list as they arrive. */
    async function receive(client: Client, prefer: string) {
      const { headers, body } = await fetch(`${client.url}${itemsPath}`, { headers: { prefer } })
      assert.equal(headers.get('preference-applied'), prefer)
      return body as ReadableStream<Uint8Array>
    }

    test('a truncated body is sent at the rate, too', async () => {
      const { client, plain, rate } = await prepared(100)
      const startedAt = performance.now()
      const pieces: Uint8Array[] = []
      const all = async () => {
        for await (const piece of await receive(client, `connection=truncate, rate=${rate}`)) pieces.push(piece)
      }
      await assert.rejects(all)
      const elapsedMs = performance.now() - startedAt
      assert.ok(elapsedMs > 400 * seconds, `${elapsedMs}`)
      assert.equal(Buffer.concat(pieces).toString(), plain.text.slice(0, plain.text.length >> 1))
    })

    test('a slow body arrives byte by byte', async () => {
      const { client } = await prepared(1)
      const startedAt = performance.now()
      const lengths = []
      for await (const { length } of await receive(client, 'rate=10')) if (lengths.push(length) === 5) break
      const elapsedMs = performance.now() - startedAt
      assert.ok(elapsedMs > 450, `${elapsedMs}`)
    })

    for (const leaves of [true, false])
      test(`a client that ${leaves ? 'leaves' : 'stays'} does not keep the service from ending`, async (t) => {
        const args = ['--no-https', '--drain-timeout', leaves ? '600' : '1']
        const { running, port } = await serve(t, args, env, 'a', interpreter)
        const raw = new RawConnection(t, port)
        raw.socket.write(`GET /weatherforecast HTTP/1.1\r\nHost: localhost\r\nPrefer: rate=1\r\n\r\n`)
        while (!/\r\n\r\n./.test(raw.received)) await once(raw.socket, 'data')
        if (leaves) raw.socket.destroy()
        running.process.kill('SIGTERM')
        const stopwatch = new Stopwatch()
        assert.equal((await running.ended).code, 0)
        await raw.closed
        stopwatch.assertWithin(20_000)
      })
  })
}
