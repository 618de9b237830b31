import { connect } from 'node:net'

export interface Load {
  readonly port: number
  readonly connections: number
  readonly requests: number
  /** The next request, in whole. */
  next(): Buffer
}

export interface Loaded {
  readonly seconds: number
  /** Answers by their status. */
  readonly statuses: Readonly<Record<number, number>>
  /** Milliseconds. */
  readonly p99: number
}

/** Keeps every connection at work: one request at a time, the next one when its answer is in. */
export async function load({ port, connections, requests, next }: Load): Promise<Loaded> {
  const latencies: number[] = []
  const statuses: Record<number, number> = {}
  let left = requests
  const startedAt = performance.now()

  const talk = () =>
    new Promise<void>((resolve, reject) => {
      let sentAt = 0
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      const send = () => {
        if (left === 0) return void socket.destroy()
        left--
        sentAt = performance.now()
        socket.write(next())
      }
      socket.on('connect', send)
      socket.on(
        'data',
        answers((status) => {
          latencies.push(performance.now() - sentAt)
          statuses[status] = (statuses[status] ?? 0) + 1
          send()
        }),
      )
      socket.on('error', reject)
      socket.on('close', () => resolve())
    })

  await Promise.all(Array.from({ length: connections }, talk))
  const seconds = (performance.now() - startedAt) / 1000
  latencies.sort((a, b) => a - b)
  return { seconds, statuses, p99: latencies[Math.floor(latencies.length * 0.99)] ?? 0 }
}

/** Just enough HTTP: heads, and bodies by their length or in chunks. */
function answers(onAnswer: (status: number) => void): (data: Buffer) => void {
  let head = ''
  let status = 0
  let left = 0
  let isChunked = false
  let tail = ''

  function begin(text: string): void {
    status = Number(text.slice(9, 12))
    isChunked = /\r\ntransfer-encoding: *chunked/i.test(text)
    const hasBody = status !== 204 && status !== 304 && !isChunked
    left = hasBody ? Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0) : 0
    head = ''
    tail = ''
    if (left === 0 && !isChunked) onAnswer(status)
  }

  return (data) => {
    for (let at = 0; at < data.length; ) {
      if (left > 0) {
        const taken = Math.min(left, data.length - at)
        at += taken
        left -= taken
        if (left === 0) onAnswer(status)
      } else if (isChunked) {
        tail = (tail + data.toString('latin1', at)).slice(-5)
        at = data.length
        if (tail !== '0\r\n\r\n') return
        isChunked = false
        onAnswer(status)
      } else {
        const before = head.length
        head += data.toString('latin1', at, Math.min(data.length, at + 4096))
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        at += end + 4 - before
        begin(head.slice(0, end + 4))
      }
    }
  }
}
