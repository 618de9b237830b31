import cluster from 'node:cluster'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { profiles } from '../app.ts'
import type { Config } from '../config/config.ts'
import type { Log, StartMessage } from '../log.ts'
import type { MetricsServer } from '../metrics.ts'
import { Handover } from '../server/handover.ts'
import type { Clock } from './clock.ts'
import { openFileStores } from './stores.ts'
import type { CommandWith } from './unusable-ports.ts'

interface WorkerOptions {
  readonly config: Config
  readonly count: number
  readonly log: Log
  readonly clock: Clock
  readonly stop: AbortSignal
  readonly commandWith: CommandWith
}

/** Workers that fail within this time are restarted with a growing delay. */
const minLifeMs = 10_000
const minPauseMs = 100
const maxPauseMs = 1_000
/** Added to the time that a worker may take to stop; then it is killed. */
const stopGraceMs = 5_000

/**
 * Serves in several processes behind the same ports until the signal. Returns whether the service started and what was
 * written is in place; a worker has said why not. Throws a `StartError` for what the workers share.
 */
export async function serveInWorkers(options: WorkerOptions): Promise<boolean> {
  const { config, log, clock, commandWith } = options
  const { dataFile, metricsPort: port, metricsHost: host } = config
  // Holds the lock of the data file for the workers.
  const access = { access: 'exclusive', migrates: true } as const
  const file = dataFile === undefined ? undefined : await openFileStores(dataFile, profiles, { ...clock, log }, access)
  let metrics: MetricsServer | undefined
  let isStarted = false
  let isInPlace = true
  try {
    if (port !== undefined)
      metrics = await (await import('../metrics.ts')).serveWorkerMetrics(port, host).catch(async (error) => {
        throw await (await import('./unusable-ports.ts')).explainMetricsPort(error, config, commandWith)
      })
    isStarted = await runWorkers(options, metrics?.url)
    isInPlace = file?.isInPlace() ?? true
  } finally {
    await metrics?.close()
    await file?.close()
  }
  if (isStarted) log.stopped()
  return isStarted && isInPlace
}

/** Runs this program in several processes until the signal; false when the first of them does not start. */
async function runWorkers(options: WorkerOptions, metrics: string | undefined): Promise<boolean> {
  const { config, count, log, stop } = options
  const { maxConnections, drainDelayMs, drainTimeoutMs } = config.limits
  if (stop.aborted) return true
  const handover = new Handover(maxConnections)
  let timer: NodeJS.Timeout | undefined
  const stopAll = () => {
    killAll('SIGTERM')
    timer = setTimeout(killAll, drainDelayMs + drainTimeoutMs + stopGraceMs, 'SIGKILL')
  }
  stop.addEventListener('abort', stopAll)
  // It finds out whether the ports are free.
  const first = startWorker(handover, stop)
  const message = await Promise.race([first.started, first.ended.then(() => undefined)])
  if (message && !stop.aborted) {
    const rest = Array.from({ length: count - 1 }, () => startWorker(handover, stop))
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

interface RunningWorker {
  readonly id: number
  /** What it sends when it can serve. */
  readonly started: Promise<StartMessage>
  /** It was asked to stop, and still serves. */
  readonly stopping: Promise<'stopping'>
  readonly ended: Promise<string>
}

function startWorker(handover: Handover, stop: AbortSignal): RunningWorker {
  const worker = cluster.fork()
  return {
    id: worker.id,
    started: new Promise((resolve) => {
      worker.on('message', (message: Partial<StartMessage>) => {
        if (!message.profiles) return
        handover.ready(worker)
        resolve(message as StartMessage)
      })
    }),
    stopping: new Promise((resolve) => {
      handover.add(worker, () => {
        // All of them do.
        if (stop.aborted) void handover.close()
        resolve('stopping')
      })
    }),
    ended: once(worker, 'exit').then(([code, signal]) => signal ?? `exit code ${code}`),
  }
}

/** Replaces a worker that ends or is asked to stop, until the signal. */
async function keepRunning(
  worker: RunningWorker,
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
    const what = how === 'stopping' ? 'is stopping' : `ended (${how})`
    log.notice(`Worker ${current.id} ${what}; another one starts ${when}.`)
    if (how === 'stopping') replaced.push(current.ended)
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {})
    if (stop.aborted) break
    current = startWorker(handover, stop)
  }
  await Promise.all([current.ended, ...replaced])
}
