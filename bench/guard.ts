import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { serverOf } from '../test/support/running.ts'
import { profileA as bareProfileA } from './servers/bare-handlers.ts'

/*
 * Notices when a change makes requests dearer. Requests are handed to the server in this process, without a socket, in
 * batches that alternate with those of a bare node:http server. The fastest of many batches is the same from run to run,
 * also on a busy machine.
 */

const batches = 300
const batchSize = 40
/** A ratio that is lower by more than this, in each of these runs, is a failure. */
const tolerance = 0.06
const maxRuns = 3
const file = fileURLToPath(new URL('../../bench/guard.json', import.meta.url))

/** The time that the bare server takes ÷ the time that this service takes, by operation: more is better. */
type Ratios = Readonly<Record<string, number>>

/** A connection without a socket. */
class Connection extends Duplex {
  bytesRead = 0
  #responded = () => {}

  /** Resolves with the microseconds that each request takes, one after the other. */
  async send(requests: readonly Buffer[]): Promise<number> {
    const startedAt = performance.now()
    for (const request of requests)
      await new Promise<void>((responded) => {
        this.#responded = responded
        this.bytesRead += request.length
        this.push(request)
      })
    return ((performance.now() - startedAt) * 1000) / requests.length
  }

  override _read(): void {}

  /** A response is written at once. */
  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done()
    setImmediate(this.#responded)
  }

  override _writev(_chunks: object[], done: () => void): void {
    done()
    setImmediate(this.#responded)
  }
}

const collection = '/api/todoitems'
const item = '{"id":1,"name":"walk the dog","isComplete":false}'

function toRequest(method: string, path: string, body = ''): Buffer {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost:5080',
    'Connection: keep-alive',
    'User-Agent: node',
    'Accept: */*',
    'Accept-Encoding: gzip, deflate',
    ...(body ? ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`] : []),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`)
}

const repeat = (method: string, path: string, body?: string) =>
  Array<Buffer>(batchSize).fill(toRequest(method, path, body))

/** The requests of a batch; `lastId` is that of the item that was created last. */
const operations: Readonly<Record<string, (lastId: number) => readonly Buffer[]>> = {
  GET: () => repeat('GET', `${collection}/1`),
  'GET, list of 10': () => repeat('GET', collection),
  'GET, 404': () => repeat('GET', `${collection}/0`),
  PUT: () => repeat('PUT', `${collection}/1`, item),
  'PUT, body with spaces': () => repeat('PUT', `${collection}/1`, item.replace(/[:,]/g, '$& ')),
  POST: () => repeat('POST', collection, item),
  // What the batch before has created.
  DELETE: (lastId) => Array.from({ length: batchSize }, (_, at) => toRequest('DELETE', `${collection}/${lastId - at}`)),
}

/** Sends batches of requests to a server. */
class Measurement {
  readonly #connection = new Connection()
  readonly #minima = new Map<string, number>()
  #lastId = 0

  constructor(accept: (socket: Socket) => void) {
    accept(this.#connection as Duplex as Socket)
  }

  async create(count: number): Promise<this> {
    await this.#connection.send(Array<Buffer>(count).fill(toRequest('POST', collection, item)))
    this.#lastId += count
    return this
  }

  async sendBatch(operation: string): Promise<void> {
    const requests = operations[operation]?.(this.#lastId) ?? []
    const microseconds = await this.#connection.send(requests)
    if (operation === 'POST') this.#lastId += batchSize
    this.#minima.set(operation, Math.min(microseconds, this.#minima.get(operation) ?? Number.POSITIVE_INFINITY))
  }

  microseconds(operation: string): number {
    return this.#minima.get(operation) ?? Number.NaN
  }
}

async function measure(): Promise<Ratios> {
  const bareServer = createServer({ keepAliveTimeout: 0 }, bareProfileA)
  const accepting = [
    (socket: Socket) => bareServer.emit('connection', socket),
    serverOf('a', { mode: 'production' }).accept,
    serverOf('a', { mode: 'production', cors: ['https://app.example.com'] }).accept,
  ]
  const servers = await Promise.all(accepting.map((accept) => new Measurement(accept).create(10)))
  const names = Object.keys(operations)
  for (let batch = 0; batch < batches; batch++)
    // The first one after another operation is at a disadvantage.
    for (const name of names)
      for (let at = 0; at < servers.length; at++) await servers[(batch + at) % servers.length]?.sendBatch(name)
  const [bare, service, withCors] = servers as [Measurement, Measurement, Measurement]
  return {
    ...Object.fromEntries(names.map((name) => [name, bare.microseconds(name) / service.microseconds(name)])),
    'GET, with --cors': bare.microseconds('GET') / withCors.microseconds('GET'),
  }
}

/** In a thread of its own: code that has run already is compiled differently. */
async function run(): Promise<Ratios> {
  const [ratios] = await once(new Worker(new URL(import.meta.url)), 'message')
  return ratios
}

function printTable(ratios: Ratios, expected: Ratios): void {
  const row = (cells: readonly string[]) => `${cells.map((cell, at) => cell.padEnd(at === 0 ? 24 : 8)).join('')}\n`
  process.stdout.write(row(['bare node:http ÷ this', 'now', 'guard.json']))
  for (const [name, ratio] of Object.entries(ratios))
    process.stdout.write(row([name, ratio.toFixed(2), expected[name]?.toFixed(2) ?? '']))
}

/** What bench/guard.json has: the ratios of a version of Node. */
interface Expectation {
  readonly node: string
  readonly ratios: Ratios
}

const node = process.version.replace(/\..*/, '')

async function write(): Promise<void> {
  const runs = [await run(), await run(), await run()]
  const median = (name: string) => runs.map((ratios) => ratios[name] ?? 0).sort((one, other) => one - other)[1] ?? 0
  const ratios = Object.fromEntries(Object.keys(runs[0] ?? {}).map((name) => [name, Number(median(name).toFixed(2))]))
  printTable(ratios, {})
  writeFileSync(file, `${JSON.stringify({ node, ratios }, null, 2)}\n`)
}

async function compare({ node: expectedNode, ratios: expected }: Expectation): Promise<void> {
  if (node !== expectedNode) {
    printTable(await run(), {})
    process.stdout.write(`Not compared: bench/guard.json is of Node ${expectedNode}, this is ${node}.\n`)
    return
  }
  let worse = Object.keys(expected)
  for (let runs = 0; runs < maxRuns && worse.length > 0; runs++) {
    const ratios = await run()
    printTable(ratios, expected)
    worse = worse.filter((name) => (ratios[name] ?? 0) < (expected[name] ?? 0) * (1 - tolerance))
  }
  if (worse.length === 0) return
  process.stderr.write(
    `\nMore than ${100 * tolerance} % dearer, in ${maxRuns} runs: ${worse.join('; ')}.\n` +
      'Where the change is worth it: npm run bench:guard -- --write, and the reason in the commit.\n',
  )
  process.exitCode = 1
}

if (isMainThread) {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } })
  await (values.write ? write() : compare(JSON.parse(readFileSync(file, 'utf8'))))
} else {
  parentPort?.postMessage(await measure())
  process.exit()
}
