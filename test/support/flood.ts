import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { cleanUp } from './cleanup.ts'
import { statusesIn } from './raw.ts'

const items = '/api/todoitems'
const chunked = 'Transfer-Encoding: chunked\r\n'
const post = (headers: string) =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n`
const postOf = (body: string) => Buffer.from(`${post(`Content-Length: ${body.length}\r\n`)}${body}`)
const repeat = (text: string) => Buffer.from(text.repeat(Math.ceil(40_000 / text.length)))
const chunksOf = (bytes: number) => repeat(`${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`)
const chunkedDelete = `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\n${chunked}\r\n`

/** What a client sends first, and then again and again, as fast as the server reads. */
export interface Flood {
  readonly first?: string
  readonly repeated?: Uint8Array
  readonly readsNothing?: boolean
  /** The client closes its connection when the response begins. */
  readonly leaves?: boolean
}

export const endlessChunks: Flood = { first: post(chunked), repeated: chunksOf(1) }

export const floods: Readonly<Record<string, Flood>> = {
  'bodies declared with 100 MB': { first: post('Content-Length: 104857600\r\n'), repeated: Buffer.alloc(65_536, 'x') },
  'endless chunks of 32 KiB': { first: post(chunked), repeated: chunksOf(32_768) },
  'endless chunks of one byte': endlessChunks,
  'endless chunks of sixty bytes': { first: post(chunked), repeated: chunksOf(60) },
  'endless chunks of one byte, rejected by the head': {
    first: post(chunked).replace('application/json', 'text/plain'),
    repeated: chunksOf(1),
  },
  'endless chunks of one byte in a DELETE': { first: chunkedDelete, repeated: chunksOf(1) },
  'endless chunks of 32 KiB in a DELETE': { first: chunkedDelete, repeated: chunksOf(32_768) },
  'endless headers': {
    first: 'GET / HTTP/1.1\r\nHost: x\r\n',
    repeated: repeat('X-Header: 0123456789012345678901234567890\r\n'),
  },
  'thousands of short headers': {
    repeated: Buffer.from(
      `GET / HTTP/1.1\r\nHost: x\r\n${Array.from({ length: 8_000 }, (_, index) => `${index.toString(36).padStart(4, 'a')}:\r\n`).join('')}\r\n`,
    ),
  },
  'endless paths': { first: 'GET /', repeated: Buffer.alloc(65_536, 'a') },
  'endless trailers': { first: `${post(chunked)}0\r\n`, repeated: repeat('X-Header: 01234567890123\r\n') },
  'thousands of trailers': { repeated: Buffer.from(`${post(chunked)}0\r\n${'X: \r\n'.repeat(5_000)}\r\n`) },
  'deeply nested JSON': { repeated: postOf('['.repeat(1_000_000)) },
  'JSON with many values': { repeated: postOf(`[${'{},'.repeat(300_000)}0]`) },
  'pipelined GETs': { repeated: repeat(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`) },
  'pipelined GETs, no response read': {
    repeated: repeat(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`),
    readsNothing: true,
  },
  'pipelined POSTs': { repeated: repeat(postOf('{"name":1}').toString()) },
  'pipelined POSTs behind a first request, no response read': {
    first: `GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`,
    repeated: repeat(postOf('{"isComplete":true}').toString()),
    readsNothing: true,
  },
  'pipelined requests with tokens, no response read': {
    repeated: repeat('GET /secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a.b.c\r\n\r\n'),
    readsNothing: true,
  },
}

/** Responses by status. */
export type Statuses = Record<string, number>

export function countStatuses(socket: Socket, statuses: Statuses): void {
  socket.on('data', (data) => {
    for (const status of statusesIn(data.toString('latin1'))) statuses[status] = (statuses[status] ?? 0) + 1
  })
}

export interface FloodOptions {
  readonly clients: number
  /** The flood ends by itself after this time or so many connections. */
  readonly durationMs?: number
  readonly maxConnections?: number
}

const reconnectDelayMs = 5

/** Clients that send at the same time; each connects again when its connection is closed. */
export function flood(
  port: number,
  { first, repeated, readsNothing, leaves }: Flood,
  { clients, durationMs = 60_000, maxConnections = 50_000 }: FloodOptions,
) {
  const statuses: Statuses = {}
  const sockets = new Set<Socket>()
  let connections = 0
  const timer = setTimeout(stop, durationMs)
  const open = () => {
    if (connections++ >= maxConnections) return
    const socket = connect(port, '127.0.0.1')
    const send = () => {
      while (repeated && !socket.destroyed && socket.write(repeated));
    }
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('drain', send)
    socket.on('close', () => {
      sockets.delete(socket)
      setTimeout(open, reconnectDelayMs)
    })
    if (!readsNothing) countStatuses(socket, statuses)
    if (leaves) socket.on('data', () => socket.destroy())
    if (first) socket.write(first)
    send()
  }
  for (let client = 0; client < clients; client++) open()

  function stop(): void {
    clearTimeout(timer)
    connections = maxConnections
    for (const socket of sockets) socket.destroy()
  }
  return { statuses, stop, connected: Promise.all([...sockets].map((socket) => once(socket, 'connect'))) }
}

/** A flood from a thread of its own: what the test measures does not wait for it. Returns once all clients are connected. */
export async function startFlood(t: TestContext, port: number, flood: Flood, options: FloodOptions) {
  const worker = new Worker(new URL('flood-worker.js', import.meta.url), { workerData: { port, flood, options } })
  cleanUp(t, () => worker.terminate())
  await once(worker, 'message')
  return {
    async stop(): Promise<Statuses> {
      worker.postMessage('stop')
      const [statuses] = await once(worker, 'message')
      return statuses
    },
  }
}
