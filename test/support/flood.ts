import { connect, type Socket } from 'node:net'
import { statusesIn } from './raw.ts'

const items = '/api/todoitems'
const post = (headers: string) =>
  `POST ${items} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n`
const whole = (body: string) => Buffer.from(`${post(`Content-Length: ${body.length}\r\n`)}${body}`)
const many = (text: string) => Buffer.from(text.repeat(Math.ceil(40_000 / text.length)))

/** What a client says first, and then over and over, as fast as it can. */
export interface Flood {
  readonly first?: string
  readonly again: Buffer
  /** Whether it takes nothing of what is sent to it. */
  readonly isDeaf?: boolean
}

export const floods: Readonly<Record<string, Flood>> = {
  'bodies declared with 100 MB': { first: post('Content-Length: 104857600\r\n'), again: Buffer.alloc(65_536, 'x') },
  'endless chunked bodies': {
    first: post('Transfer-Encoding: chunked\r\n'),
    again: many(`8000\r\n${'x'.repeat(32_768)}\r\n`),
  },
  'endless chunks of one byte': { first: post('Transfer-Encoding: chunked\r\n'), again: many('1\r\nx\r\n') },
  'endless chunks of sixty bytes': {
    first: post('Transfer-Encoding: chunked\r\n'),
    again: many(`3c\r\n${'x'.repeat(60)}\r\n`),
  },
  'endless chunks that nobody asked for': {
    first: `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`,
    again: many('1\r\nx\r\n'),
  },
  'endless chunks of a refused body': {
    first: `POST ${items} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`,
    again: many('1\r\nx\r\n'),
  },
  'endless bodies that nobody asked for': {
    first: `DELETE ${items}/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`,
    again: many(`8000\r\n${'x'.repeat(32_768)}\r\n`),
  },
  'endless headers': {
    first: 'GET / HTTP/1.1\r\nHost: x\r\n',
    again: many('X-Header: 0123456789012345678901234567890\r\n'),
  },
  'thousands of short headers': {
    again: Buffer.from(
      `GET / HTTP/1.1\r\nHost: x\r\n${Array.from({ length: 8_000 }, (_, at) => `${at.toString(36).padStart(4, 'a')}:\r\n`).join('')}\r\n`,
    ),
  },
  'endless paths': { first: 'GET /', again: Buffer.alloc(65_536, 'a') },
  'endless trailers': {
    first: `${post('Transfer-Encoding: chunked\r\n')}0\r\n`,
    again: many('X-Header: 01234567890123\r\n'),
  },
  'thousands of trailers': {
    again: Buffer.from(`${post('Transfer-Encoding: chunked\r\n')}0\r\n${'X: \r\n'.repeat(5_000)}\r\n`),
  },
  'deep JSON': { again: whole('['.repeat(1_000_000)) },
  'JSON of many values': { again: whole(`[${'{},'.repeat(300_000)}0]`) },
  'pipelines of GET': { again: many(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`) },
  'pipelines of GET, nothing read': { again: many(`GET ${items} HTTP/1.1\r\nHost: x\r\n\r\n`), isDeaf: true },
  'pipelines of POST': { again: many(whole('{"name":1}').toString()) },
  'pipelines with tokens': {
    again: many('GET /secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a.b.c\r\n\r\n'),
    isDeaf: true,
  },
}

/** How often each status came back. */
export type Statuses = Record<string, number>

export function tally(socket: Socket, statuses: Statuses): void {
  socket.on('data', (data) => {
    for (const status of statusesIn(data.toString('latin1'))) statuses[status] = (statuses[status] ?? 0) + 1
  })
}

/** So many clients at once, each of which comes again when it is cut off. */
export function flood(port: number, { first, again, isDeaf }: Flood, clients: number) {
  const statuses: Statuses = {}
  const open = new Set<Socket>()
  let isOver = false
  const begin = () => {
    if (isOver) return
    const socket = connect(port, '127.0.0.1')
    const push = () => {
      while (!socket.destroyed && socket.write(again));
    }
    open.add(socket)
    socket.on('error', () => {})
    socket.on('drain', push)
    socket.on('close', () => {
      open.delete(socket)
      setTimeout(begin, 5)
    })
    if (!isDeaf) tally(socket, statuses)
    if (first) socket.write(first)
    push()
  }
  for (let at = 0; at < clients; at++) begin()
  return {
    statuses,
    stop(): void {
      isOver = true
      for (const socket of open) socket.destroy()
    },
  }
}
