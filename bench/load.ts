import { connect, type Socket } from 'node:net'

/** One request, ready to be sent. `done` sees the answer's body, for work whose next request depends on it. */
export type NextRequest = () => Buffer

export interface LoadOptions {
  readonly port: number
  readonly connections: number
  /** Ends after so many milliseconds, or after so many requests. */
  readonly milliseconds: number
  readonly requests?: number
  /** What connection number `n` sends next, and whether the answer's status is the right one. */
  next(connection: number): Buffer
  readonly expected: number
}

export interface LoadResult {
  readonly requests: number
  readonly milliseconds: number
  readonly wrong: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
}

/** Keeps every connection at work: one request at a time, the next one when its answer is in. */
export async function load({
  port,
  connections,
  milliseconds,
  requests = Infinity,
  next,
  expected,
}: LoadOptions): Promise<LoadResult> {
  const latencies: number[] = []
  let [sent, answered, wrong] = [0, 0, 0]
  const startedAt = performance.now()
  const endsAt = startedAt + milliseconds
  const all = Array.from({ length: connections }, (_, connection) =>
    talk(port, (send) => {
      let sentAt = 0
      const go = () => {
        if (sent >= requests || performance.now() >= endsAt) return false
        sent++
        sentAt = performance.now()
        send(next(connection))
        return true
      }
      return {
        start: go,
        answer(status) {
          answered++
          if (status !== expected) wrong++
          latencies.push(performance.now() - sentAt)
          return go()
        },
      }
    }),
  )
  await Promise.all(all)
  const took = performance.now() - startedAt
  latencies.sort((a, b) => a - b)
  const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0
  return { requests: answered, milliseconds: took, wrong, p50: at(0.5), p99: at(0.99) }
}

interface Talk {
  start(): boolean
  /** Whether to go on. */
  answer(status: number): boolean
}

function talk(port: number, begin: (send: (request: Buffer) => void) => Talk): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const { start, answer } = begin((request) => socket.write(request))
    const reader = answersOf((status) => {
      if (!answer(status)) socket.destroy()
    })
    socket.on('connect', () => start() || socket.destroy())
    socket.on('data', reader)
    socket.on('error', reject)
    socket.on('close', () => resolve())
  })
}

/** Just enough HTTP: heads, and bodies by their length or in chunks. */
function answersOf(onAnswer: (status: number) => void): (data: Buffer) => void {
  let head = ''
  let status = 0
  let left = 0
  let chunked = false
  let tail = ''
  return (data) => {
    let at = 0
    while (at < data.length) {
      if (left > 0) {
        const taken = Math.min(left, data.length - at)
        left -= taken
        at += taken
        if (left === 0) onAnswer(status)
        continue
      }
      if (chunked) {
        tail = (tail + data.toString('latin1', at)).slice(-5)
        at = data.length
        if (tail === '0\r\n\r\n') {
          chunked = false
          onAnswer(status)
        }
        continue
      }
      const end = head === '' ? data.indexOf('\r\n\r\n', at) : -1
      if (end >= 0) {
        head = data.toString('latin1', at, end + 4)
        at = end + 4
      } else {
        const before = head.length
        head += data.toString('latin1', at)
        const found = head.indexOf('\r\n\r\n', Math.max(0, before - 3))
        if (found < 0) return
        at += found + 4 - before
        head = head.slice(0, found + 4)
      }
      status = Number(head.slice(9, 12))
      chunked = /\r\ntransfer-encoding: *chunked/i.test(head)
      left =
        chunked || status === 204 || status === 304 ? 0 : Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
      head = ''
      tail = ''
      if (left === 0 && !chunked) onAnswer(status)
    }
  }
}

export type { Socket }
