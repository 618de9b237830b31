import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** What is counted while the service runs, for Prometheus. No label is ever taken from what a client sends. */
export interface Metrics {
  request(profile: string, operation: string, method: string, status: number, milliseconds: number): void
  /** One operation of a store. */
  stored(profile: string, operation: string, seconds: number): void
  text(): Promise<string>
  readonly contentType: string
}

const buckets = [0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])

/** `items` says how many there are, by profile, where that is known. */
export function newMetrics(items: () => Readonly<Record<string, number>>): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['profile', 'operation', 'method', 'status'] as const
  const requests = new Counter({
    name: 'todo_requests_total',
    help: 'Requests answered.',
    labelNames,
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'todo_request_duration_seconds',
    help: 'From a request’s head to its answer.',
    labelNames: ['profile', 'operation'] as const,
    buckets,
    registers: [registry],
  })
  const storeTimes = new Histogram({
    name: 'todo_store_duration_seconds',
    help: 'What of it the store took.',
    labelNames: ['profile', 'operation'] as const,
    buckets,
    registers: [registry],
  })
  new Gauge({
    name: 'todo_items',
    help: 'Items in memory.',
    labelNames: ['profile'] as const,
    registers: [registry],
    collect() {
      for (const [profile, count] of Object.entries(items())) this.set({ profile }, count)
    },
  })
  return {
    request(profile, operation, method, status, milliseconds) {
      requests.inc({ profile, operation, method: methods.has(method) ? method : 'other', status })
      durations.observe({ profile, operation }, milliseconds / 1000)
    },
    stored(profile, operation, seconds) {
      storeTimes.observe({ profile, operation }, seconds)
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
