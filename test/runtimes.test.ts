import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { cleanUp } from './support/cleanup.ts'
import { serve, sharedService, start } from './support/cli.ts'
import { createClient } from './support/client.ts'
import { EventStream } from './support/control.ts'
import { temporaryFolder } from './support/folder.ts'
import { RawConnection } from './support/raw.ts'
import { assertConforms, type Runtime, runtimes } from './support/runtimes.ts'

const items = '/api/todoitems'
const body = '{"name":"x","isComplete":true}'
const length = `Content-Length: ${body.length}\r\n`
const chunked = 'Transfer-Encoding: chunked\r\n'
const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
const json = 'Host: x\r\nContent-Type: application/json\r\n'
const post = (headers: string, content = body) => `POST ${items} HTTP/1.1\r\n${json}${headers}\r\n${content}`
const get = (headers: string, path = items) => `GET ${path} HTTP/1.1\r\n${headers}\r\n`

/** Requests that two servers could understand differently; test/http/protocol.test.ts has them for Node. */
const ambiguous: Record<string, string> = {
  'two Hosts': get('Host: x\r\nHost: y\r\n'),
  'two Authorizations where a token is required': get(
    'Host: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n',
    '/secret',
  ),
  'two different Content-Lengths': post(`${length}Content-Length: 3\r\n`),
  'the same Content-Length twice': post(`${length}${length}`),
  'Content-Length before Transfer-Encoding (CL.TE)': post(`Content-Length: 6\r\n${chunked}`, '0\r\n\r\nG'),
  'Transfer-Encoding before Content-Length (TE.CL)': post(`${chunked}Content-Length: 4\r\n`, chunks),
  'an unknown transfer coding': post('Transfer-Encoding: xchunked\r\n', chunks),
  'Transfer-Encoding: gzip, chunked': post('Transfer-Encoding: gzip, chunked\r\n', chunks),
  'chunked in HTTP/1.0': post(chunked, chunks).replace('HTTP/1.1', 'HTTP/1.0'),
  'a chunk without a size': post(chunked, 'zz\r\n'),
  'a folded header': get('Host: x\r\nX: a\r\n b\r\n'),
  'a space before a colon': post(`Content-Length : ${body.length}\r\n`),
  'a Host with a space': get('Host: a b\r\n'),
  'an empty Host': get('Host:\r\n'),
  'another version': get('Host: x\r\n').replace('1.1', '1.2'),
}

/** Where the runtime's own server decides, it is what that does; undefined: it closes the connection. */
const statusOfAmbiguous = (title: string, name: Runtime['name']) =>
  name === 'Deno' && title === 'a chunk without a size'
    ? undefined
    : name === 'Bun' && title === 'another version'
      ? 505
      : 400

for (const { name, env, skip, ...interpreter } of runtimes) {
  suite(`${name}: paths are matched as sent`, { skip }, () => {
    const service = sharedService(['--no-https', '--log-level', 'error'], 'b', env, interpreter)
    const send = (method: string, path: string, content?: object) =>
      createClient(service.url).send(method, path, content)

    for (const path of [
      '/api/../api/todoitems',
      '/api/./todoitems',
      '/./api/todoitems',
      '/api/todoitems/..',
      '/x/../api/todoitems',
      '/api/%2e%2e/api/todoitems',
      '/api/todoitems/%2e%2e',
      '/api/todoitems/.',
      '//api/todoitems',
      '/api//todoitems',
      '/api/todoitems//',
      '/api/todoitems/x/..',
      '/api/todoitems/x/../',
      '/api%2Ftodoitems',
      '/a/b/c/d/e/f/g/h/i/../../../../../../../../../api/todoitems',
      '/..',
      '/../',
      '/x/..',
      '/x/../',
      '/~x/../',
    ])
      test(`GET ${path} is not the list or the greeting`, async () => {
        const { status, text } = await send('GET', path)
        assert.ok([404, 405].includes(status), `${status} ${text}`)
      })

    test('G2 percent-encoded, in any case, with one trailing slash or a query', async () => {
      for (const path of ['/api/%74odoitems', '/API/TodoItems', `${items}/`, `${items}?x=/../y`, `${items}/?x`])
        assert.equal((await send('GET', path)).status, 200, path)
    })

    for (const id of [
      '.',
      '..',
      '...',
      'a/b',
      'a/..',
      '%41',
      '%2e',
      '\\',
      'a\\b',
      '?',
      '#',
      'a b',
      '"<>',
      '{|}^`',
      '😀'.repeat(512),
    ])
      test(`B11 an item with the id ${id.slice(0, 10)} can be deleted by its percent-encoded path`, async () => {
        assert.equal((await send('POST', items, { id, name: 'x', notes: 'y' })).status, 200)
        // encodeURIComponent leaves dots as they are.
        assert.equal((await send('DELETE', `${items}/${encodeURIComponent(id)}`)).status, 204)
        assert.equal((await send('POST', items, { id, name: 'x', notes: 'y' })).status, 200)
        const encoded = Array.from(Buffer.from(id), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
        assert.equal((await send('DELETE', `${items}/${encoded}`)).status, 204)
      })
  })
}

suite('what is different', { concurrency: true }, () => {
  for (const runtime of runtimes) {
    const { name, env, skip, ...interpreter } = runtime
    // The other files have the same for it.
    if (name === 'Node') continue
    const serveHere = (
      t: TestContext,
      args: readonly string[],
      profile: 'a' | 'b' = 'a',
      more: NodeJS.ProcessEnv = {},
    ) => serve(t, args, { ...env, ...more }, profile, interpreter)

    suite(name, { skip }, () => {
      // test/slow/runtimes.test.ts has the others.
      if (name === 'Bun')
        test('profile a conforms to the contract, items in memory', (t) => assertConforms(t, runtime, 'a', 'memory'))
      else
        test('profile b conforms to the contract, items in PostgreSQL', (t) =>
          assertConforms(t, runtime, 'b', 'PostgreSQL'))

      suite('a request that two servers could understand differently is refused, and what follows not handled', {
        concurrency: 1,
      }, () => {
        const service = sharedService(['--no-https', '--log-level', 'error'], 'a', env, interpreter)

        for (const [title, bytes] of Object.entries(ambiguous))
          test(title, { timeout: 60_000 }, async (t) => {
            const raw = new RawConnection(t, service.port)
            raw.socket.write(`${bytes}${post(length)}`)
            await raw.responses(1)
            await raw.closed
            // Where Deno keeps the connection open, the request behind is refused with 400, and the connection closed.
            const [status, ...behind] = raw.statuses
            assert.equal(status, statusOfAmbiguous(title, name))
            assert.deepEqual(behind, name === 'Deno' && behind.length > 0 ? [400] : [])
            assert.deepEqual(await (await fetch(`${service.url}${items}`)).json(), [])
          })
      })

      suite('development', { concurrency: 1 }, () => {
        const service = sharedService(['--https-port', '0', '--metrics-port', '0'], 'a', env, interpreter)

        test('lines may end in LF alone on Deno (RFC 9112, 2.2), and are refused on Bun', async (t) => {
          const raw = new RawConnection(t, service.port)
          raw.socket.write(get('Host: x\nX: y\r\n'))
          assert.deepEqual(await raw.responses(1), [name === 'Deno' ? 200 : 400])
        })

        test('pipelined requests are answered in order; Bun closes the connection where a response takes time', async (t) => {
          const [list, end] = [get('Host: x\r\n'), get('Host: x\r\nConnection: close\r\n', '/unknown')]
          const raw = new RawConnection(t, service.port)
          raw.socket.write(`${list}${post(length)}${list}${end}`)
          await raw.closed
          assert.deepEqual(raw.statuses, [200, 201, 200, 404])
          const slow = new RawConnection(t, service.port)
          slow.socket.write(`${get('Host: x\r\nPrefer: wait=1\r\n')}${end}`)
          await slow.closed
          assert.deepEqual(slow.statuses, name === 'Bun' ? [] : [200, 404])
        })

        test('a request by HTTP/1.0 counts as local: the runtime does not tell the version', async (t) => {
          const raw = new RawConnection(t, service.port)
          raw.socket.write(get('Host: localhost\r\nConnection: close\r\n', '/__admin/items').replace('1.1', '1.0'))
          await raw.closed
          assert.match(raw.received, /^HTTP\/1\.[01] 200 /)
        })

        test('metrics', async () => {
          const [metrics] = await service.running.prints(/http:\/\/127\.0\.0\.1:\d+\/metrics/)
          await fetch(`${service.url}${items}`)
          assert.match(await (await fetch(metrics)).text(), /todo_requests_total\{.*status="200"/)
        })

        test('the start message names the runtime', () => {
          assert.match(service.running.stdout, new RegExp(`, on ${name} \\d+\\.\\d+\\.\\d+\\n`))
        })

        test('events: one for each request and each change, also for those that were missed', async (t) => {
          // A request may have a first event while it is pending.
          const received = async (stream: EventStream) => {
            const events: (number | string | undefined)[][] = []
            while (events.at(-1)?.[2] !== '/end') {
              const { id, event, data } = await stream.next()
              if (data.state !== 'pending') events.push([id, event, data.path ?? data.change])
            }
            return events
          }
          // In a space of its own, where no request of another test is still handled.
          const space = createClient(`${service.url}/~events`)
          const { send } = space
          const stream = await EventStream.open(t, space)
          await send('POST', items, { name: 'x', isComplete: true })
          await send('GET', '/end')
          const events = await received(stream)
          const [first = 0, second, third] = events.map(([id]) => id as number)
          assert.deepEqual(events, [
            [first, 'request', items],
            [second, 'item', 'created'],
            [third, 'request', '/end'],
          ])
          assert.deepEqual(
            await received(await EventStream.open(t, space, { 'last-event-id': `${first - 1}` })),
            events,
          )
        })

        test('the journal says how a request ended', async (t) => {
          const space = createClient(`${service.url}/~ended`)
          const stream = await EventStream.open(t, space)
          const ended = async () => {
            for (;;) {
              const { event, data } = await stream.next()
              if (event === 'request' && data.state !== 'pending') return [data.path, data.state, data.status]
            }
          }
          const pending = async () => assert.equal((await stream.next()).data.state, 'pending')
          await space.send('GET', '/')
          assert.deepEqual(await ended(), ['/', 'sent', 200])
          await space.send('GET', items, undefined, { prefer: 'wait=1' })
          await pending()
          assert.deepEqual(await ended(), [items, 'sent', 200])
          const slow = new RawConnection(t, service.port)
          slow.socket.write(get('Host: x\r\nPrefer: wait=30\r\n', `/~ended${items}`))
          await pending()
          slow.socket.destroy()
          assert.deepEqual(await ended(), [items, 'aborted', null])
          const lost = new RawConnection(t, service.port)
          lost.socket.write(get('Host: x\r\nPrefer: connection=lost\r\n', '/~ended/'))
          assert.deepEqual(await ended(), ['/', 'closed', null])
          const many = Array.from({ length: 12_000 }, (_, id) => ({ id, name: 'x'.repeat(1_000), isComplete: true }))
          assert.equal((await space.send('PUT', '/__admin/items', many)).status, 204)
          assert.equal((await stream.next()).event, 'reset')
          await space.send('GET', items)
          assert.deepEqual(await ended(), [items, 'sent', 200])
          const leaving = new RawConnection(t, service.port)
          leaving.socket.pause()
          leaving.socket.write(get('Host: x\r\n', `/~ended${items}`))
          await pending()
          leaving.socket.destroy()
          assert.deepEqual(await ended(), [items, 'aborted', null])
          await space.send('HEAD', items)
          assert.deepEqual(await ended(), [items, 'sent', 200])
        })

        test('the journal has the headers of a request', async () => {
          const { send } = createClient(service.url)
          await send('GET', items, undefined, { 'x-sent': 'as it is' })
          const [entry] = JSON.parse((await send('GET', '/__admin/requests?limit=1')).text)
          assert.match(JSON.stringify(entry), /"x-sent","as it is"|"x-sent":"as it is"/)
        })

        test('HTTPS with the development certificate', async (t) => {
          const [url = ''] = await service.running.prints(/https:\/\/127\.0\.0\.1:\d+/)
          const created = await createClient(url, { insecure: true }).send('POST', items, { isComplete: true })
          assert.equal(created.status, 201)
          assert.ok(created.headers.location?.startsWith(`${url}${items}/`), created.headers.location)
          const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', rejectUnauthorized: false })
          cleanUp(t, () => socket.destroy())
          await once(socket, 'secureConnect')
          assert.equal(socket.getPeerX509Certificate()?.subject, 'CN=localhost')
        })

        test('a damaged development certificate is replaced', async (t) => {
          const XDG_CONFIG_HOME = temporaryFolder(t)
          const file = join(XDG_CONFIG_HOME, 'todo-item-service', 'localhost.pem')
          mkdirSync(dirname(file))
          const damaged = 'nonsense'
          writeFileSync(file, damaged)
          const { running } = await serveHere(t, ['--https-port', '0'], 'a', { XDG_CONFIG_HOME })
          const [url = ''] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
          assert.equal((await createClient(url, { insecure: true }).send('GET', items)).status, 200)
          assert.notEqual(readFileSync(file, 'utf8'), damaged)
        })

        test('G6 HEAD has the headers of GET and no body', async (t) => {
          const raw = new RawConnection(t, service.port)
          raw.socket.write(get('Host: x\r\n').replace('GET', 'HEAD') + get('Host: x\r\nConnection: close\r\n'))
          await raw.closed
          const [head = '', full = ''] = raw.received.split(/(?=HTTP\/1\.1 )/)
          /** Those that the same request gets in every second, on every connection. */
          const headersOf = (text: string) =>
            text
              .split('\r\n\r\n')[0]
              ?.toLowerCase()
              .replace(/^(date: ).*/m, '$1')
              .match(/^(?!connection|keep-alive).+$/gm)
              ?.sort()
          assert.deepEqual(headersOf(head), headersOf(full))
          assert.match(head, /^date: /im)
          assert.match(head, /^content-length: [1-9]/im)
          assert.ok(head.endsWith('\r\n\r\n'), head)
        })

        if (name === 'Deno')
          test('HTTP/2: HEAD, and a refused request among others', async (t) => {
            const [url = ''] = await service.running.prints(/https:\/\/127\.0\.0\.1:\d+/)
            const session = connectHttp2(url, { rejectUnauthorized: false })
            cleanUp(t, () => session.destroy())
            const send = async (headers: object) => {
              const stream = session.request({ ...headers })
              const [response] = await once(stream, 'response')
              stream.resume()
              await once(stream, 'close')
              return [response[':status'], stream.rstCode]
            }
            assert.deepEqual(await send({ ':method': 'HEAD', ':path': items }), [200, 0])
            assert.deepEqual(await send({ ':path': '/secret', authorization: 'Bearer a, Bearer b' }), [400, 0])
            assert.deepEqual(await send({ ':path': items }), [200, 0])
          })

        test('failures on request: lost and reset close the connection, truncate cuts the body off', async () => {
          for (const fault of ['lost', 'reset', 'truncate']) {
            const response = fetch(`${service.url}${items}`, { headers: { prefer: `connection=${fault}` } })
            await assert.rejects(
              response.then((received) => received.text()),
              fault,
            )
          }
          assert.equal((await fetch(`${service.url}${items}`)).status, 200)
        })

        test('a body above the limit and one in chunks', async () => {
          const { send } = createClient(service.url)
          const large = await send('POST', items, { name: 'x'.repeat(2 ** 20), isComplete: true })
          assert.equal(large.status, 413)
          const response = await fetch(`${service.url}${items}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: new Blob([body]).stream(),
            duplex: 'half',
          } as RequestInit)
          assert.equal(response.status, 201)
          const tooLarge = await fetch(`${service.url}${items}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: new Blob([' '.repeat(2 ** 20), body]).stream(),
            duplex: 'half',
          } as RequestInit)
          assert.equal(tooLarge.status, 413)
        })
      })

      test('the production log has the address of the client', async (t) => {
        const { running, url } = await serveHere(t, ['--mode', 'production', '--log-level', 'info'])
        await fetch(`${url}/x`)
        await fetch(`${url}${items}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
        await running.prints(/"POST".*"client":"127\.0\.0\.1"|"client":"127\.0\.0\.1".*"POST"/)
        assert.match(running.stdout, /"client":"127\.0\.0\.1","method":"GET","path":"\/x","status":404/)
      })

      test('B12 production redirects HTTP to HTTPS with 307', async (t) => {
        const { url } = await serveHere(t, ['--mode', 'production', '--https-redirect-port', '8443'], 'b')
        for (const target of [`${items}?x=1`, `${items}/%2E%2E`]) {
          const { status, headers } = await createClient(url).send('DELETE', target)
          assert.deepEqual([status, headers.location], [307, `https://127.0.0.1:8443${target}`])
        }
      })

      test('items in an SQLite file are there after a restart', async (t) => {
        const args = ['--no-https', '--data', `${temporaryFolder(t)}/todo.db`]
        const first = await serveHere(t, args)
        assert.equal(
          (await createClient(first.url).send('POST', items, { name: 'kept', isComplete: true })).status,
          201,
        )
        first.running.process.kill('SIGTERM')
        assert.equal((await first.running.ended).code, 0)
        const second = await serveHere(t, args)
        assert.match((await createClient(second.url).send('GET', items)).text, /"kept"/)
      })

      test('a body that does not arrive is answered with 408, and an unfinished one is not stored', async (t) => {
        const { url, port } = await serveHere(t, ['--no-https', '--request-timeout', '1'])
        const raw = new RawConnection(t, port)
        raw.socket.write(post(length, body.slice(1)))
        assert.deepEqual(await raw.responses(1), [408])
        const gone = new RawConnection(t, port)
        gone.socket.write(post(length, body.slice(1)), () => gone.socket.destroy())
        await gone.closed
        assert.deepEqual(JSON.parse((await createClient(url).send('GET', items)).text), [])
      })

      test('uploads that stall on one port do not keep clients of another from sending', async (t) => {
        const { running, port } = await serveHere(t, ['--https-port', '0', '--no-admin'])
        const [url = ''] = await running.prints(/https:\/\/127\.0\.0\.1:\d+/)
        const stalled = Array.from({ length: 21 }, () => new RawConnection(t, port))
        for (const { socket } of stalled) socket.write(post(`Content-Length: ${2 ** 20}\r\n`, '{'.padEnd(2 ** 20 - 1)))
        assert.deepEqual(await Promise.race(stalled.map((raw) => raw.responses(1))), [503])
        const { status } = await createClient(url, { insecure: true }).send('POST', items, { isComplete: true })
        assert.equal(status, 201)
      })

      if (name === 'Bun')
        test('an idle connection is closed after --keep-alive-timeout', async (t) => {
          const { port } = await serveHere(t, ['--no-https', '--keep-alive-timeout', '1'])
          const raw = new RawConnection(t, port)
          raw.socket.write(get('Host: x\r\n'))
          assert.deepEqual(await raw.responses(1), [200])
          await raw.closed
        })

      // With a drain delay in which also a busy machine sends the requests: then the listener is closed.
      suite('SIGTERM', () => {
        test('fails /health/ready, finishes requests in flight, exits with 0', async (t) => {
          const { running, url, port } = await serveHere(t, ['--mode', 'production', '--drain-delay', '10'])
          const upload = new RawConnection(t, port)
          upload.socket.write(post(length, ''))
          const ready = () => fetch(`${url}/health/ready`)
          await ready()
          running.process.kill('SIGTERM')
          let response = await ready()
          while (response.status === 200) response = await ready()
          assert.deepEqual([response.status, await response.text()], [503, 'stopping'])
          assert.equal((await fetch(`${url}${items}`)).status, 200)
          upload.socket.write(body)
          assert.deepEqual(await upload.responses(1), [201])
          assert.match(upload.received, /connection: close/i)
          assert.equal((await running.ended).code, 0)
        })

        test('ends the streams of events, and those of clients that reconnect', { timeout: 60_000 }, async (t) => {
          const { running, url } = await serveHere(t, ['--no-https', '--drain-delay', '10'])
          const stream = await EventStream.open(t, { url })
          running.process.kill('SIGTERM')
          assert.deepEqual(await stream.rest(), [])
          assert.deepEqual(await (await EventStream.open(t, { url })).rest(), [])
          assert.equal((await running.ended).code, 0)
        })
      })

      test('flags without a counterpart are refused, all at once', async (t) => {
        const flags = ['--workers=2', '--max-connections=300', '--keep-alive-timeout=300']
        const { code, stderr } = await start(t, ['serve', ...flags], env, interpreter).ended
        assert.equal(code, 2)
        for (const flag of flags) {
          const [option] = flag.split('=')
          const reason = `The service runs on ${name} [\\d.]+, and ${option} (has no counterpart|can be at most 255)`
          assert.match(stderr, new RegExp(reason))
        }
      })
    })
  }
})
