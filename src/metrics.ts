import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { DispatchSettings } from './http/dispatch.ts'
import type { Awaitable, Collection, Spaces } from './store/store.ts'

export type MetricsServer = Awaited<ReturnType<typeof serveMetrics>>

interface MetricsSettings {
  readonly spaces: Spaces
  /** Returns the number of items by profile; empty if counting would cost a query. */
  readonly itemCounts: () => Readonly<Record<string, number>>
  readonly monotonicNow: () => number
  readonly isWorker: boolean
}

const buckets = [0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])

/**
 * Measures requests and the store operations of the returned spaces, in this process. No label contains text that a
 * client has sent.
 */
export function createMetrics({ spaces, itemCounts, monotonicNow, isWorker }: MetricsSettings) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const requests = new Counter({
    name: 'todo_requests_total',
    help: 'Responses sent.',
    labelNames: ['profile', 'operation', 'method', 'status'] as const,
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'todo_request_duration_seconds',
    help: 'From the head of a request to its response.',
    labelNames: ['profile', 'operation'] as const,
    buckets,
    registers: [registry],
  })
  const storeDurations = new Histogram({
    name: 'todo_store_duration_seconds',
    help: 'Of a single store operation; error: it failed, as it does while the items cannot be reached.',
    labelNames: ['profile', 'operation', 'result'] as const,
    buckets,
    registers: [registry],
  })
  new Gauge({
    name: 'todo_items',
    help: 'Items in memory or in the data file.',
    labelNames: ['profile'] as const,
    registers: [registry],
    // All workers count the same items, so their numbers must not be added up.
    aggregator: 'first',
    collect() {
      for (const [profile, count] of Object.entries(itemCounts())) this.set({ profile }, count)
    },
  })
  if (isWorker) {
    // Constructed for its message listener: it sends the metrics of this worker when the primary process asks.
    AggregatorRegistry.setRegistries(registry)
    new AggregatorRegistry()
  }
  const timed = (profile: string, items: Collection): Collection => {
    const time = async <T>(operation: string, execute: () => Awaitable<T>): Promise<T> => {
      const startedAt = monotonicNow()
      let result = 'error'
      try {
        const outcome = await execute()
        result = 'success'
        return outcome
      } finally {
        storeDurations.observe({ profile, operation, result }, (monotonicNow() - startedAt) / 1000)
      }
    }
    return {
      list: (...args) => time('list', () => items.list(...args)),
      get: (...args) => time('get', () => items.get(...args)),
      create: (...args) => time('create', () => items.create(...args)),
      update: (...args) => time('update', () => items.update(...args)),
      delete: (...args) => time('delete', () => items.delete(...args)),
      replaceAll: (...args) => time('replaceAll', () => items.replaceAll(...args)),
    }
  }
  const observe: NonNullable<DispatchSettings['observe']> = (profile, operation, method, status, milliseconds) => {
    requests.inc({ profile, operation, method: methods.has(method) ? method : 'other', status })
    durations.observe({ profile, operation }, milliseconds / 1000)
  }
  const timedSpaces: Spaces = {
    ...spaces,
    collection: (name, space) => timed(name, spaces.collection(name, space)),
  }
  return { observe, spaces: timedSpaces, read: () => registry.metrics() }
}

/** Called in the primary process: serves the metrics of all workers, added up. */
export function serveWorkerMetrics(port: number, host: string): Promise<MetricsServer> {
  const registry = new AggregatorRegistry()
  return serveMetrics(() => registry.clusterMetrics(), port, host)
}

/** Serves metrics at /metrics on a separate port. */
export async function serveMetrics(read: () => Promise<string>, port: number, host: string) {
  const server = createServer(async (request, response) => {
    if (request.url?.split('?')[0] !== '/metrics' || request.method !== 'GET') return void response.writeHead(404).end()
    try {
      const text = await read()
      response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text)
    } catch {
      // clusterMetrics() fails when a worker ends before it has sent its metrics.
      response.writeHead(503).end()
    }
  })
  await once(server.listen(port, host), 'listening')
  const { port: boundPort } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}/metrics`,
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}
