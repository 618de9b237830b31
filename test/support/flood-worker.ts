/* Started by flood.ts. Reports that all clients are connected, and on the first message the statuses received. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Flood, type FloodOptions, flood } from './flood.ts'

const data = workerData as { port: number; flood: Flood; options: FloodOptions }
const { statuses, stop, connected } = flood(data.port, data.flood, data.options)
parentPort?.once('message', () => {
  stop()
  parentPort?.postMessage(statuses)
})
await connected
parentPort?.postMessage('connected')
