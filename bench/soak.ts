import { connect } from 'node:net'
import { parseArgs } from 'node:util'
import { descriptorsOf, memoryOf } from '../test/support/process.ts'
import { startServer, thisService } from './server-process.ts'

/** Mixed valid and hostile traffic: every valid request gets the right status, memory and descriptors do not grow. */
const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } })
const durationMs = Number(values.minutes) * 60_000
const maxMemoryGrowth = 0.05
const maxDescriptorGrowth = 5
const samplesPerRun = 60

const server = await startServer(thisService('a', '--request-timeout', '3'))
const { port, path, pid = 0 } = server
const url = `http://127.0.0.1:${port}${path}`
const endsAt = performance.now() + durationMs

let validRequests = 0
let hostileRequests = 0
const unexpected: string[] = []
const samples: { memoryBytes: number; descriptors: number }[] = []

async function expectStatus(status: number, method: string, subpath: string, body?: unknown): Promise<string> {
  const response = await fetch(`${url}${subpath}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  validRequests++
  if (response.status !== status) unexpected.push(`${method} ${subpath}: ${response.status} instead of ${status}`)
  return text
}

/** Creates, changes and deletes one item at a time, so that the item count is constant. */
async function validClient(): Promise<void> {
  while (performance.now() < endsAt) {
    const created = await expectStatus(201, 'POST', '', { name: 'x'.repeat(Math.random() * 200), isComplete: false })
    const { id } = JSON.parse(created)
    await expectStatus(200, 'GET', `/${id}`)
    await expectStatus(204, 'PUT', `/${id}`, { id, name: 'y', isComplete: true })
    await expectStatus(400, 'PUT', `/${id}`, { id: -1, name: 'y', isComplete: true })
    await expectStatus(200, 'GET', '')
    await expectStatus(204, 'DELETE', `/${id}`)
    await expectStatus(404, 'GET', `/${id}`)
  }
}

const post = (headers: string, body: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`
const json = 'Content-Type: application/json\r\n'
const randomBytes = () => Array.from({ length: 500 }, () => String.fromCharCode(Math.random() * 256)).join('')

const hostileMessages: readonly (() => string)[] = [
  () => 'GET / HTTP/1.1\r\n\r\n',
  () => post('Content-Length: 5\r\nContent-Length: 6\r\n', 'hello'),
  () => post(`${json}Content-Length: 104857600\r\n`, '{'),
  () => post(`${json}Transfer-Encoding: chunked\r\n`, 'ffff\r\n'),
  () => post(`${json}Content-Length: 60000\r\n`, '['.repeat(60_000)),
  () => `GET /${'a'.repeat(50_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(50),
  () => `GET ${path} HTTP/1.1\r\nHost: x\r\nX: incomplete`,
  randomBytes,
]

async function hostileClient(): Promise<void> {
  while (performance.now() < endsAt)
    await new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.on('close', () => resolve())
      socket.resume()
      const message = hostileMessages[Math.floor(Math.random() * hostileMessages.length)] ?? randomBytes
      socket.write(message(), 'latin1')
      hostileRequests++
      setTimeout(() => socket.destroy(), Math.random() * 500)
    })
}

function takeSample(): void {
  samples.push({ memoryBytes: memoryOf(pid), descriptors: descriptorsOf(pid) })
  const secondsLeft = Math.max(0, Math.round((endsAt - performance.now()) / 1000))
  process.stderr.write(
    `${secondsLeft} s left, ${validRequests} valid requests, ${hostileRequests} hostile, ${unexpected.length} unexpected\n`,
  )
}

const timer = setInterval(takeSample, durationMs / samplesPerRun)
await Promise.all([...Array.from({ length: 4 }, validClient), ...Array.from({ length: 8 }, hostileClient)])
clearInterval(timer)
await server.stop()

// The first third is warm-up.
const third = Math.floor(samples.length / 3)
const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)]
const mean = (part: typeof samples, key: 'memoryBytes' | 'descriptors') =>
  part.reduce((sum, sample) => sum + sample[key], 0) / part.length
const memoryGrowth = mean(last, 'memoryBytes') / mean(middle, 'memoryBytes') - 1
const descriptorGrowth = mean(last, 'descriptors') - mean(middle, 'descriptors')
const isOk = unexpected.length === 0 && memoryGrowth <= maxMemoryGrowth && descriptorGrowth <= maxDescriptorGrowth
process.stdout.write(
  `${validRequests} valid requests, ${hostileRequests} hostile, ${unexpected.length} unexpected responses
${unexpected
  .slice(0, 5)
  .map((line) => `  ${line}\n`)
  .join(
    '',
  )}memory, last third compared with middle third: ${(memoryGrowth * 100).toFixed(1)} % (${Math.round(mean(last, 'memoryBytes') / 2 ** 20)} MB)
file descriptors, likewise: ${descriptorGrowth.toFixed(1)} more
${isOk ? 'ok' : 'FAILED'}\n`,
)
process.exitCode = isOk ? 0 : 1
