/* Started by flood.ts. Reports that all clients are connected, and on the first message the statuses received. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Flood, type FloodOptions, flood, floods } from './flood.ts'

const { port, name, options } = workerData as { port: number; name: string; options: FloodOptions }
const { statuses, stop, connected } = flood(port, floods[name] as Flood, options)
parentPort?.once('message', () => {
  stop()
  parentPort?.postMessage(statuses)
})
await connected
parentPort?.postMessage('connected')
