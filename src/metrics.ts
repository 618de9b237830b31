import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { DispatchSettings } from './http/dispatch.ts'
import type { Stores } from './store/store.ts'

export interface MetricsServer {
  readonly url: string
  readonly observe: NonNullable<DispatchSettings['observe']>
  /** The same stores, each operation timed. */
  readonly stores: Stores
  close(): Promise<void>
}

interface MetricsSettings {
  readonly port: number
  readonly host: string
  readonly stores: Stores
  /** By profile; empty where counting would cost a query. */
  readonly itemCounts: () => Readonly<Record<string, number>>
  readonly monotonicNow: () => number
}

const timeoutMs = 10_000

/** Serves Prometheus metrics at /metrics on a port of their own. No label is taken from what a client sends. */
export async function startMetrics(settings: MetricsSettings): Promise<MetricsServer> {
  const { port, host, stores, itemCounts, monotonicNow } = settings
  const { registry, observeRequest, observeStore } = createMetrics(itemCounts)
  const server = createServer({ headersTimeout: timeoutMs, requestTimeout: timeoutMs }, async (request, response) => {
    if (request.url?.split('?')[0] !== '/metrics' || request.method !== 'GET') return void response.writeHead(404).end()
    const text = await registry.metrics()
    response.writeHead(200, { 'content-type': registry.contentType }).end(text)
  })
  await new Promise<void>((listening, failed) => {
    server.once('error', failed)
    server.listen(port, host, listening)
  })
  const timed = <Store extends object>(profile: string, store: Store) =>
    Object.fromEntries(
      Object.entries(store).map(([operation, run]) => [
        operation,
        async (...args: unknown[]) => {
          const startedAt = monotonicNow()
          const outcome = await run(...args)
          observeStore(profile, operation, (monotonicNow() - startedAt) / 1000)
          return outcome
        },
      ]),
    ) as Store
  const { port: boundPort } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}/metrics`,
    observe: observeRequest,
    stores: { a: timed('a', stores.a), b: timed('b', stores.b) },
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

const buckets = [0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])

function createMetrics(itemCounts: () => Readonly<Record<string, number>>) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['profile', 'operation', 'method', 'status'] as const
  const requests = new Counter({
    name: 'todo_requests_total',
    help: 'Responses sent.',
    labelNames,
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
    help: 'Of a single store operation.',
    labelNames: ['profile', 'operation'] as const,
    buckets,
    registers: [registry],
  })
  new Gauge({
    name: 'todo_items',
    help: 'Items in memory or in the data file.',
    labelNames: ['profile'] as const,
    registers: [registry],
    collect() {
      for (const [profile, count] of Object.entries(itemCounts())) this.set({ profile }, count)
    },
  })
  return {
    registry,
    observeRequest(profile: string, operation: string, method: string, status: number, milliseconds: number) {
      requests.inc({ profile, operation, method: methods.has(method) ? method : 'other', status })
      durations.observe({ profile, operation }, milliseconds / 1000)
    },
    observeStore(profile: string, operation: string, seconds: number) {
      storeDurations.observe({ profile, operation }, seconds)
    },
  }
}
