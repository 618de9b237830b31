import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { countStatuses, type Flood, flood, floods, type Statuses } from '../test/support/flood.ts'
import { memoryOf } from '../test/support/process.ts'
import { startServer, thisService } from './server-process.ts'

/*
 * Loads the service with hostile clients and measures the latency of regular clients and the memory. Without arguments
 * it is the benchmark; with KIND PORT it is the process of the hostile clients, so that these do not delay the regular ones.
 */
const slowClientsPerKind = 200
const manyConnections = 10_000
const floodClients = 200

const printRow = (...cells: (string | number)[]) => process.stdout.write(`| ${cells.join(' | ')} |\n`)
const formatRatio = (value: number, baseline: number) => `${(value / baseline).toFixed(2)}×`

/** Four clients with about one request per millisecond each. */
async function regularClients(port: number, durationMs: number): Promise<{ p99Ms: number; failures: number }> {
  const latencies: number[] = []
  let failures = 0
  const endsAt = performance.now() + durationMs
  const runClient = () =>
    new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      let sentAt = 0
      const send = () => {
        if (performance.now() > endsAt) return void socket.destroy()
        sentAt = performance.now()
        socket.write('GET /weatherforecast HTTP/1.1\r\nHost: x\r\n\r\n')
      }
      socket.on('connect', send)
      socket.on('data', (data) => {
        latencies.push(performance.now() - sentAt)
        if (!data.toString().startsWith('HTTP/1.1 200')) failures++
        setTimeout(send, 1)
      })
      socket.on('error', () => failures++)
      socket.on('close', () => resolve())
    })
  await Promise.all([runClient(), runClient(), runClient(), runClient()])
  latencies.sort((a, b) => a - b)
  return { p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN, failures }
}

async function withPeakMemory<T>(pid: number, run: () => Promise<T>): Promise<{ peakBytes: number; result: T }> {
  let peakBytes = memoryOf(pid)
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, memoryOf(pid))
  }, 10)
  const result = await run()
  clearInterval(timer)
  return { peakBytes, result }
}

function startHostileClients(kind: string, port: number) {
  const child = fork(fileURLToPath(import.meta.url), [kind, `${port}`])
  return {
    ready: once(child, 'message'),
    async stop(): Promise<Statuses> {
      child.send('stop')
      const [statuses] = await once(child, 'message')
      child.kill('SIGKILL')
      return statuses
    },
  }
}

async function measure(kind: string, title: string): Promise<void> {
  const { port, pid = 0, stop } = await startServer(thisService('a'))
  await regularClients(port, 4_000)
  const idleBytes = memoryOf(pid)
  const before = await regularClients(port, 3_000)
  const hostile = startHostileClients(kind, port)
  await hostile.ready
  const { peakBytes, result: during } = await withPeakMemory(pid, () => regularClients(port, 5_000))
  const statuses = await hostile.stop()
  const after = await regularClients(port, 1_000)
  printRow(
    title,
    `${Math.round((peakBytes - idleBytes) / 2 ** 20)} MB`,
    `${before.p99Ms.toFixed(1)} → ${during.p99Ms.toFixed(1)} ms (${formatRatio(during.p99Ms, before.p99Ms)})`,
    during.failures + after.failures,
    formatRatio(after.p99Ms, before.p99Ms),
    JSON.stringify(statuses),
  )
  await stop()
}

/** Clients that stop in the head, in the body, before the first request, after a response, and that never read. */
function slowClients(port: number) {
  const statuses: Statuses = {}
  const open = (start: string, drip: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    countStatuses(socket, statuses)
    if (start) socket.write(start)
    if (drip) setInterval(() => socket.write(drip), 1_000)
  }
  const post =
    'POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{'
  for (let count = 0; count < slowClientsPerKind; count++) {
    open('GET / HTTP/1.1\r\nHost: x\r\nX: ', 'a')
    open(post, ' ')
    open('', '')
    open('GET / HTTP/1.1\r\nHost: x\r\n\r\n', '')
    connect(port, '127.0.0.1').pause().write('GET /swagger/index.html HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(100))
  }
  return { statuses, stop: () => {} }
}

/** One request per connection; the connections stay open. */
function openManyConnections(port: number) {
  const statuses: Statuses = {}
  for (let count = 0; count < manyConnections; count++)
    setTimeout(() => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      countStatuses(socket, statuses)
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    }, count / 5)
  return { statuses, stop: () => {} }
}

function startClients(kind: string, port: number) {
  if (kind === 'slow') return slowClients(port)
  if (kind === 'connections') return openManyConnections(port)
  return flood(port, floods[kind] as Flood, { clients: floodClients })
}

async function runHostileClients(kind: string, port: number): Promise<void> {
  process.on('disconnect', () => process.exit())
  const { statuses, stop } = startClients(kind, port)
  await sleep(kind === 'connections' ? 3_000 : 1_000)
  process.send?.('ready')
  await once(process, 'message')
  stop()
  process.send?.(statuses)
}

async function main(): Promise<void> {
  printRow(
    'load',
    'peak memory over idle',
    'p99 of regular clients',
    'their failures',
    'p99 afterwards',
    'responses to hostile clients',
  )
  printRow('---', '---', '---', '---', '---', '---')
  await measure('slow', `${5 * slowClientsPerKind} slow clients`)
  await measure('connections', `${manyConnections} connections`)
  for (const kind of Object.keys(floods)) await measure(kind, `${floodClients} clients: ${kind}`)
}

const [kind, port] = process.argv.slice(2)
if (kind === undefined) await main()
else await runHostileClients(kind, Number(port))
