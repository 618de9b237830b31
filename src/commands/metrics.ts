import { createServer } from 'node:http'
import type { Config } from '../config.ts'
import { andThen } from '../eventually.ts'
import type { Settings } from '../http/handler.ts'
import type { Stores } from '../store/store.ts'
import type { OpenStores } from './stores.ts'

interface RunningMetrics {
  readonly observe: NonNullable<Settings['observe']>
  /** The same stores, each of their operations timed. */
  readonly stores: Stores
  close(): Promise<unknown>
}

/** Metrics on a port of their own, nothing where none are asked for, or the sentence that says why not. */
export async function startMetrics(
  { metricsPort: port, metricsHost: host }: Config,
  stores: OpenStores,
  ticks: () => number,
): Promise<RunningMetrics | undefined | string> {
  if (port === undefined) return undefined
  const { newMetrics } = await import('../metrics.ts')
  const metrics = newMetrics(stores.counts)
  const patience = { headersTimeout: 10_000, requestTimeout: 10_000, connectionsCheckingInterval: 1_000 }
  const server = createServer(patience, async (request, response) => {
    if (request.url?.split('?')[0] !== '/metrics' || request.method !== 'GET') return void response.writeHead(404).end()
    const text = await metrics.text()
    response.writeHead(200, { 'content-type': metrics.contentType }).end(text)
  })
  const failure = await new Promise<Error | undefined>((resolve) => {
    server.once('error', resolve)
    server.listen(port, host, () => resolve(undefined))
  })
  if (failure) return `Metrics cannot be offered on ${host} port ${port}: ${failure.message}.`
  const timed = <Store extends object>(profile: string, store: Store): Store => {
    const operations = Object.entries(store).map(([operation, run]) => [
      operation,
      (...values: unknown[]) => {
        const startedAt = ticks()
        return andThen(run(...values), (outcome) => {
          metrics.stored(profile, operation, (ticks() - startedAt) / 1000)
          return outcome
        })
      },
    ])
    return Object.fromEntries(operations)
  }
  return {
    stores: { a: timed('a', stores.a), b: timed('b', stores.b) },
    observe: metrics.request,
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}
