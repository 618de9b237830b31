import cluster from 'node:cluster'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { collectionsOf, profiles } from '../app.ts'
import type { StartMessage } from '../log.ts'
import type { MetricsServer } from '../metrics.ts'
import { Handover } from '../server/handover.ts'
import type { ServiceOptions } from './service.ts'
import { openPlace } from './stores.ts'
import { whenServed } from './unusable-ports.ts'

interface WorkerOptions extends Pick<ServiceOptions, 'config' | 'log' | 'clock' | 'stop' | 'commandWith'> {
  /** How many processes serve. */
  readonly count: number
}

/** A worker that ends within this time after its start is restarted after a growing pause. */
const minLifeMs = 10_000
const minPauseMs = 100
const maxPauseMs = 1_000
/** A worker that has not stopped this long after its drain timeout is killed. */
const stopGraceMs = 2_000

/**
 * Serves in several processes behind the same ports until a signal. Returns false if the service did not start or the
 * data file was deleted or replaced: a message was printed. Throws a `StartError` if data file or metrics cannot be
 * opened.
 */
export async function serveInWorkers(options: WorkerOptions): Promise<boolean> {
  const { config, log, clock, stop, commandWith } = options
  const { dataFile, metricsPort: port, metricsHost: host } = config
  const context = { monotonicNow: clock.monotonicNow, log, stop }
  // The primary process holds the lock of the data file for its workers.
  const file =
    dataFile === undefined
      ? undefined
      : await openPlace({ dataFile }, collectionsOf(profiles), context, { access: 'exclusive', migrates: true })
  let metrics: MetricsServer | undefined
  let isStarted = false
  let isInPlace = true
  try {
    if (port !== undefined) {
      const { serveWorkerMetrics } = await import('../metrics.ts')
      metrics = await whenServed(serveWorkerMetrics(port, host), config, commandWith)
    }
    isStarted = await runWorkers(options, metrics?.url)
    isInPlace = file?.isInPlace() ?? true
  } finally {
    await metrics?.close()
    await file?.close()
  }
  if (isStarted) log.stopped()
  return isStarted && isInPlace
}

/** Runs the workers until a signal. Returns false if the first of them does not start. */
async function runWorkers(options: WorkerOptions, metrics: string | undefined): Promise<boolean> {
  const { config, count, log, stop, clock } = options
  const { maxConnections, drainDelayMs, drainTimeoutMs } = config.limits
  if (stop.aborted) return true
  const handover = new Handover(maxConnections, clock.monotonicNow)
  let timer: NodeJS.Timeout | undefined
  const stopAll = () => {
    killAll('SIGTERM')
    handover.stop()
    timer = setTimeout(killAll, drainDelayMs + drainTimeoutMs + stopGraceMs, 'SIGKILL')
  }
  stop.addEventListener('abort', stopAll)
  // The first worker starts alone: it finds out whether the ports are free.
  const first = startWorker(handover)
  const message = await Promise.race([first.started, first.ended.then(() => undefined)])
  if (message && !stop.aborted) {
    const rest = Array.from({ length: count - 1 }, () => startWorker(handover))
    log.started({ ...message, metrics, workers: count })
    await Promise.all([first, ...rest].map((worker) => keepRunning(worker, handover, options)))
  } else if (message) await first.ended
  await handover.close()
  clearTimeout(timer)
  return message !== undefined || stop.aborted
}

function killAll(signal: NodeJS.Signals): void {
  for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal)
}

function startWorker(handover: Handover) {
  const worker = cluster.fork()
  return {
    id: worker.id,
    /** Resolves with the message that the worker sends when it can serve. */
    started: new Promise<StartMessage>((resolve) => {
      worker.on('message', (message: Partial<StartMessage>) => {
        if (!message.profiles) return
        handover.ready(worker)
        resolve(message as StartMessage)
      })
    }),
    /** Resolves when the worker was asked to stop, while it still handles requests. */
    stopping: new Promise<'stopping'>((resolve) => {
      handover.add(worker, () => resolve('stopping'))
    }),
    ended: once(worker, 'exit').then(([code, signal]): string => signal ?? `exit code ${code}`),
  }
}

/** Replaces a worker that ends or is asked to stop, until a signal stops all of them. */
async function keepRunning(
  worker: ReturnType<typeof startWorker>,
  handover: Handover,
  { log, stop, clock: { monotonicNow } }: WorkerOptions,
): Promise<void> {
  const replaced: Promise<unknown>[] = []
  let pauseMs = 0
  let current = worker
  for (;;) {
    const startedAt = monotonicNow()
    const how = await Promise.race([current.ended, current.stopping])
    if (stop.aborted) break
    const hasFailed = how !== 'stopping' && monotonicNow() - startedAt < minLifeMs
    pauseMs = hasFailed ? Math.min(maxPauseMs, Math.max(minPauseMs, 2 * pauseMs)) : 0
    const when = pauseMs === 0 ? 'now' : `in ${pauseMs / 1000} s`
    const change = how === 'stopping' ? 'is stopping' : `ended (${how})`
    log.notice(`Worker ${current.id} ${change}; another one starts ${when}.`)
    if (how === 'stopping') replaced.push(current.ended)
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {})
    if (stop.aborted) break
    current = startWorker(handover)
  }
  await Promise.all([current.ended, ...replaced])
}
