import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { HeldMemory, type MemoryHolder } from '../../src/common/held-memory.ts'
import { delay } from '../../src/control/effects.ts'
import type { HttpHandler } from '../../src/http/dispatch.ts'
import type { Request } from '../../src/http/request.ts'
import { noContent } from '../../src/http/response.ts'
import { nodeServer } from '../../src/server/node.ts'
import { Turns } from '../../src/server/server.ts'
import { Upload, Uploads } from '../../src/server/uploads.ts'
import { cleanUp } from '../support/cleanup.ts'
import { listen } from '../support/listen.ts'
import { RawConnection } from '../support/raw.ts'
import { contextWith } from '../support/running.ts'

const mebibyte = 2 ** 20

suite('memory of waiting requests and unread responses', () => {
  function memoryOf(limitBytes: number) {
    const destroyed: string[] = []
    const memory = new HeldMemory(limitBytes)
    return { memory, destroyed, holder: (name: string): MemoryHolder => ({ destroy: () => void destroyed.push(name) }) }
  }

  test('beyond the limit the holder with most is destroyed', () => {
    const { memory, destroyed, holder } = memoryOf(100)
    const small = holder('small')
    memory.add(small, 20)
    memory.add(holder('large'), 75)
    assert.deepEqual(destroyed, [])
    memory.add(small, 10)
    assert.deepEqual(destroyed, ['large'])
  })

  test('readers of one list that is larger than the limit are left alone', () => {
    const { memory, destroyed, holder } = memoryOf(100)
    const list = [Buffer.alloc(150), Buffer.alloc(50)]
    for (const name of ['one', 'two', 'three']) memory.addBuffers(holder(name), list)
    assert.deepEqual(destroyed, [])
  })

  test('readers of an older list make room for a reader of the new one, the oldest first', () => {
    const { memory, destroyed, holder } = memoryOf(100)
    const lists = [Buffer.alloc(40), Buffer.alloc(41), Buffer.alloc(42)]
    for (const [version, list] of lists.entries())
      for (const name of ['one', 'two']) memory.addBuffers(holder(`${name} of version ${version}`), [list])
    assert.deepEqual(destroyed, ['one of version 0', 'two of version 0'])
  })

  test('what a reader shares with the newest one is not counted', () => {
    const { memory, destroyed, holder } = memoryOf(100)
    const shared = Buffer.alloc(60)
    memory.addBuffers(holder('changed a little'), [shared, Buffer.alloc(5)])
    memory.addBuffers(holder('changed more'), [Buffer.alloc(25)])
    memory.addBuffers(holder('newest'), [shared, Buffer.alloc(15)])
    assert.deepEqual(destroyed, ['changed more'])
  })

  test('what was released or removed no longer counts', () => {
    const { memory, destroyed, holder } = memoryOf(100)
    const [one, two] = [holder('one'), holder('two')]
    const buffer = Buffer.alloc(80)
    memory.addBuffers(one, [buffer])
    memory.addBuffers(two, [buffer])
    memory.removeBuffers(one, [buffer])
    memory.release(two)
    memory.add(one, 90)
    memory.remove(one, 90)
    memory.add(two, 90)
    assert.deepEqual(destroyed, [])
  })
})

test('what waits on a connection no longer counts when its client has left', async (t) => {
  const events = new EventEmitter()
  const handler: HttpHandler = {
    dispatch(request) {
      const respond = () => request.respond(noContent)
      if (request.target === '/first') events.emit('first', respond)
      else respond()
    },
    malformed: assert.fail,
  }
  // A request that waits takes a little more than 2,000 bytes: there is room for three.
  const server = nodeServer(handler, { ...contextWith(), held: new HeldMemory(7_000) })
  const listener = createServer({ allowHalfOpen: true }, server.accept)
  const { port } = new URL(await listen(t, listener))
  cleanUp(t, server.destroy)
  /** Requests behind one that has no response yet, and what sends that. */
  const send = async (...targets: string[]) => {
    const [accepted, first] = [once(listener, 'connection'), once(events, 'first')]
    const raw = new RawConnection(t, Number(port))
    raw.socket.write(['/first', ...targets].map((target) => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
    const [[socket], [respond]] = await Promise.all([accepted, first])
    return { raw, socket, respond }
  }
  const left = await send('/')
  left.raw.socket.destroy()
  await once(left.socket, 'close')
  const { raw, respond } = await send('/', '/', '/')
  respond()
  assert.deepEqual(await raw.responses(4), [204, 204, 204, 204])
})

suite('bodies that are being received', () => {
  test('beyond the limit the oldest fails', () => {
    const uploads = new Uploads(mebibyte, 1_000)
    const failed: unknown[] = []
    const all = Array.from(
      { length: 21 },
      (_, index) => new Upload(uploads, 2 * mebibyte, (body) => failed.push([index, body])),
    )
    for (const upload of all) upload.append(Buffer.alloc(mebibyte))
    assert.deepEqual(failed, [[0, 'uploads-exceeded']])
  })

  test('of which nothing was received do not fail for others', () => {
    const uploads = new Uploads(mebibyte, 1_000)
    const failed: unknown[] = []
    for (let index = 0; index < 22; index++) {
      const upload = new Upload(uploads, 2 * mebibyte, (body) => failed.push([index, body]))
      upload.begin()
      if (index > 0) upload.append(Buffer.alloc(mebibyte))
    }
    assert.deepEqual(failed, [[1, 'uploads-exceeded']])
  })

  test('over their limit fail, and the rest is ignored', () => {
    const uploads = new Uploads(mebibyte, 1_000)
    const results: unknown[] = []
    const upload = new Upload(uploads, 3, (body) => results.push(body))
    for (const byte of ['a', 'b', 'c', 'd', 'e']) upload.append(Buffer.from(byte))
    upload.end()
    assert.deepEqual(results, ['body-too-large'])
    assert.equal(uploads.active.size, 0)
  })

  test('that take longer than the timeout fail, not earlier', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const uploads = new Uploads(mebibyte, 2_000)
    const results: unknown[] = []
    new Upload(uploads, mebibyte, (body) => results.push(body)).begin()
    t.mock.timers.tick(2_000)
    assert.deepEqual(results, [])
    t.mock.timers.tick(1_000)
    assert.deepEqual(results, ['request-timeout'])
  })

  test('in one piece, with their head, need no timeout, and take none of the memory', () => {
    const uploads = new Uploads(mebibyte, 1_000)
    const results: unknown[] = []
    const upload = new Upload(uploads, mebibyte, (body) => results.push(`${body}`), 4)
    upload.append(Buffer.from('body'))
    assert.equal(uploads.usedBytes, 0)
    upload.end()
    assert.deepEqual([uploads.active.size, uploads.timer], [0, undefined])
    assert.deepEqual(results, ['body'])
  })

  test('in pieces are joined', () => {
    const uploads = new Uploads(mebibyte, 1_000)
    let received: unknown
    const upload = new Upload(uploads, mebibyte, (body) => {
      received = body.toString()
    })
    const text = 'x'.repeat(5_000)
    for (const character of text) upload.append(Buffer.from(character))
    upload.end()
    assert.equal(received, text)
  })
})

suite('a delayed request', () => {
  const noFault = {
    bytesPerSecond: undefined,
    outcome: 'none',
    applied: '',
    description: '',
    faultIds: [],
    simulatedBy: undefined,
  } as const

  /** Delays requests, each by a second; `endings` has how each delay has ended. */
  function delayed(t: TestContext) {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const held = new HeldMemory(100_000)
    const endings: string[] = []
    const start = (headBytes: number, bodyBytes = 0, isKept = false) => {
      let leave = () => {}
      const index = endings.push('') - 1
      const request = {
        target: '/',
        rawHeaders: ['X', 'x'.repeat(headBytes)],
        onEnd(ended: () => void) {
          leave = ended
        },
      } as unknown as Request
      const fault = { ...noFault, delayMs: 1_000 }
      delay(request, fault, { bodyBytes, isRead: !isKept }, held, ({ outcome }) => {
        endings[index] += outcome === 'none' ? 'over' : outcome === 'reset' ? 'ended' : 'no-memory'
      })
      return () => leave()
    }
    return { endings, start }
  }

  test('counts with its head, its body and 16 kB: beyond the limit the oldest ends', (t) => {
    const { endings, start } = delayed(t)
    for (const [headBytes, bodyBytes] of [[30_000], [0, 30_000], [0]] as const) start(headBytes, bodyBytes)
    assert.deepEqual(endings, ['no-memory', '', ''])
  })

  test('that ended as its client has left no longer counts, and none ends twice', (t) => {
    const { endings, start } = delayed(t)
    start(0)()
    const leave = start(80_000)
    assert.deepEqual(endings, ['ended', ''])
    t.mock.timers.tick(1_000)
    leave()
    assert.deepEqual(endings, ['ended', 'over'])
  })

  test('that is kept does not end when its client leaves', (t) => {
    const { endings, start } = delayed(t)
    start(0, 0, true)()
    assert.deepEqual(endings, [''])
    t.mock.timers.tick(1_000)
    assert.deepEqual(endings, ['over'])
  })
})

test('callbacks that take turns have a turn of the event loop each, also those that wait again', async () => {
  const turns = new Turns()
  const order: string[] = []
  const again = (name: string, count: number) => () => {
    order.push(name)
    if (count > 1) turns.wait(again(name, count - 1))
  }
  turns.wait(again('a', 4))
  turns.wait(again('b', 1))
  for (let turn = 1; turn <= 5; turn++) {
    await nextTurn()
    assert.equal(order.length, turn)
  }
  assert.deepEqual(order, ['a', 'b', 'a', 'a', 'a'])
})
