/*
 * A child process that loads one server: node load-generator.js PORT PATH PROFILE FIRST_ID. Commands and results are IPC
 * messages. Each connection has one request in flight.
 */
import { connect } from 'node:net'

export type Operation = keyof typeof operations

export type Command =
  /** Creates or deletes items until there are `items`. Not part of a measurement. */
  | { readonly kind: 'prepare'; readonly operation: Operation; readonly items: number }
  /** Sends requests until `stop` or `maxRequests`, on `clients` connections. */
  | {
      readonly kind: 'run'
      readonly operation: Operation
      readonly maxRequests: number | undefined
      readonly clients: number | undefined
    }
  | { readonly kind: 'stop' }

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  /** Responses by status. */
  readonly statuses: Readonly<Record<number, number>>
}

const defaultClients = 8
const readsPerWrite = 10

const [, , port, path, profile, firstId] = process.argv
/** The ids of the items that exist are first … last. */
let first = Number(firstId)
let last = first - 1
let cursor = last
let listRequests = 0
let etag = ''
let remaining = 0

const operations = {
  get: () => request('GET', itemPath(nextId())),
  'get-missing': () => request('GET', itemPath(0)),
  post: () => request('POST', path, itemJson(++last)),
  put: () => {
    const id = nextId()
    return request('PUT', profile === 'a' ? itemPath(id) : path, itemJson(id))
  },
  delete: () => request('DELETE', itemPath(first++)),
  list: () => request('GET', path),
  'list-with-writes': (): string => (listRequests++ % (readsPerWrite + 1) ? operations.list() : operations.put()),
  'list-if-none-match': () => request('GET', path, '', `If-None-Match: ${etag}\r\n`),
}

function request(method: string, target: string | undefined, body = '', headers = ''): string {
  const bodyHeaders = body && `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  return `${method} ${target} HTTP/1.1\r\nHost: localhost:5080\r\n${headers}${bodyHeaders}\r\n${body}`
}

const idOf = (number: number) => (profile === 'a' ? `${number}` : `item-${`${number}`.padStart(8, '0')}`)
const itemPath = (number: number) => `${path}/${idOf(number)}`
const itemJson = (number: number) =>
  profile === 'a'
    ? `{"id":${number},"name":"walk the dog ${number}","isComplete":false}`
    : `{"id":"${idOf(number)}","name":"walk the dog","notes":"twice a day","done":false}`

function nextId(): number {
  cursor = cursor < first || cursor >= last ? first : cursor + 1
  return cursor
}

async function run(
  operation: Operation,
  maxRequests = Number.POSITIVE_INFINITY,
  clients = defaultClients,
): Promise<LoadResult> {
  const statuses: Record<number, number> = {}
  const next = operations[operation]
  let requests = 0
  remaining = maxRequests
  const startedAt = performance.now()
  const keepBusy = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ port: Number(port), host: '127.0.0.1', noDelay: true })
      const send = () => {
        if (remaining <= 0) return void socket.destroy()
        remaining--
        requests++
        socket.write(next(), 'latin1')
      }
      socket.on('connect', send)
      socket.on(
        'data',
        responseParser((status) => {
          statuses[status] = (statuses[status] ?? 0) + 1
          send()
        }),
      )
      socket.on('error', reject)
      socket.on('end', () => reject(new Error('The server closed a connection.')))
      socket.on('close', () => resolve())
    })
  await Promise.all(Array.from({ length: clients }, keepBusy))
  return { requests, seconds: (performance.now() - startedAt) / 1000, statuses }
}

async function prepare(operation: Operation, items: number): Promise<LoadResult> {
  const missing = items - (last - first + 1)
  const result = await run(missing > 0 ? 'post' : 'delete', Math.abs(missing))
  if (operation === 'list-if-none-match') {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    await response.text()
    etag = response.headers.get('etag') ?? '"none"'
  }
  return result
}

/** Parses status lines, and bodies by Content-Length or chunked; skips all else. */
function responseParser(onResponse: (status: number) => void): (data: Buffer) => void {
  let head = ''
  let status = 0
  let bodyBytesLeft = 0
  let isChunked = false
  let tail = ''

  function onHead(text: string): void {
    status = Number(text.slice(9, 12))
    isChunked = /\r\ntransfer-encoding: *chunked/i.test(text)
    const hasLength = status !== 204 && status !== 304 && !isChunked
    bodyBytesLeft = hasLength ? Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0) : 0
    head = ''
    tail = ''
    if (bodyBytesLeft === 0 && !isChunked) onResponse(status)
  }

  return (data) => {
    for (let offset = 0; offset < data.length; ) {
      if (bodyBytesLeft > 0) {
        const taken = Math.min(bodyBytesLeft, data.length - offset)
        offset += taken
        bodyBytesLeft -= taken
        if (bodyBytesLeft === 0) onResponse(status)
      } else if (isChunked) {
        tail = (tail + data.toString('latin1', offset)).slice(-5)
        offset = data.length
        if (tail !== '0\r\n\r\n') return
        isChunked = false
        onResponse(status)
      } else {
        const parsed = head.length
        head += data.toString('latin1', offset, Math.min(data.length, offset + 4096))
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) {
          offset = Math.min(data.length, offset + 4096)
          continue
        }
        offset += end + 4 - parsed
        onHead(head.slice(0, end + 4))
      }
    }
  }
}

process.on('disconnect', () => process.exit())
process.on('message', async (command: Command) => {
  if (command.kind === 'stop') remaining = 0
  else if (command.kind === 'prepare') process.send?.(await prepare(command.operation, command.items))
  else process.send?.(await run(command.operation, command.maxRequests, command.clients))
})
