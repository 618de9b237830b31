import { connect } from 'node:net'
import { parseArgs } from 'node:util'
import { descriptorsOf, memoryOf } from '../test/support/process.ts'
import { start, thisService } from './contender.ts'

/** Hours of mixed traffic in small: what is good must be answered rightly, whatever else comes in. */
const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } })
const milliseconds = Number(values.minutes) * 60_000
const { port, pid, stop } = await start(thisService('a', '--header-timeout', '2', '--request-timeout', '3'))
const url = `http://127.0.0.1:${port}/api/todoitems`
const endsAt = performance.now() + milliseconds

let [good, hostile] = [0, 0]
const unexpected: string[] = []
const samples: { memory: number; descriptors: number }[] = []

async function expect(status: number, method: string, path: string, body?: unknown): Promise<string> {
  const response = await fetch(`${url}${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  good++
  if (response.status !== status) unexpected.push(`${method} ${path}: ${response.status} instead of ${status}`)
  return text
}

/** A life of an item, over and over; the number of items stays the same. */
async function goodClient(): Promise<void> {
  while (performance.now() < endsAt) {
    const { id } = JSON.parse(
      await expect(201, 'POST', '', { name: 'x'.repeat(Math.random() * 200), isComplete: false }),
    )
    await expect(200, 'GET', `/${id}`)
    await expect(204, 'PUT', `/${id}`, { id, name: 'y', isComplete: true })
    await expect(400, 'PUT', `/${id}`, { id: -1, name: 'y', isComplete: true })
    await expect(200, 'GET', '')
    await expect(204, 'DELETE', `/${id}`)
    await expect(404, 'GET', `/${id}`)
  }
}

const sayings: readonly (() => string)[] = [
  () => 'GET / HTTP/1.1\r\n\r\n',
  () => 'POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
  () =>
    'POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{',
  () =>
    'POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n',
  () =>
    `POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n${'['.repeat(60_000)}`,
  () => `GET /${'a'.repeat(50_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => 'GET /api/todoitems HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(50),
  () => 'GET /api/todoitems HTTP/1.1\r\nHost: x\r\nX: dripping',
  () => Array.from({ length: 500 }, () => String.fromCharCode(Math.random() * 256)).join(''),
]

async function hostileClient(): Promise<void> {
  while (performance.now() < endsAt)
    await new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.on('close', () => resolve())
      socket.resume()
      const saying = sayings[Math.floor(Math.random() * sayings.length)] as () => string
      socket.write(saying(), 'latin1')
      hostile++
      setTimeout(() => socket.destroy(), Math.random() * 500)
    })
}

function sample(): void {
  samples.push({ memory: memoryOf(pid as number), descriptors: descriptorsOf(pid as number) })
  const left = Math.max(0, Math.round((endsAt - performance.now()) / 1000))
  process.stderr.write(`${left} s left, ${good} good requests, ${hostile} hostile, ${unexpected.length} unexpected\n`)
}

const timer = setInterval(sample, milliseconds / 60)
await Promise.all([...Array.from({ length: 4 }, goodClient), ...Array.from({ length: 8 }, hostileClient)])
clearInterval(timer)
await stop()

const mean = (part: typeof samples, of: 'memory' | 'descriptors') =>
  part.reduce((sum, one) => sum + one[of], 0) / part.length
const third = Math.floor(samples.length / 3)
const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)]
const growth = mean(last, 'memory') / mean(middle, 'memory') - 1
const more = mean(last, 'descriptors') - mean(middle, 'descriptors')
const isFine = unexpected.length === 0 && growth <= 0.05 && more <= 5
process.stdout.write(
  `${good} good requests, ${hostile} hostile ones, ${unexpected.length} unexpected answers${unexpected
    .slice(0, 5)
    .map((one) => `\n  ${one}`)
    .join('')}
memory, last third against middle third: ${(growth * 100).toFixed(1)} % (${Math.round(mean(last, 'memory') / 2 ** 20)} MB)
file descriptors, likewise: ${more.toFixed(1)} more
${isFine ? 'ok' : 'NOT ok'}\n`,
)
process.exitCode = isFine ? 0 : 1
