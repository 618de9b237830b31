import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log, StartMessage } from '../log.ts'

interface WorkerOptions {
  readonly count: number
  readonly log: Pick<Log, 'notice'>
  readonly stop: AbortSignal
  /** After the signal; then they are killed. */
  readonly stopTimeoutMs: number
  readonly monotonicNow: () => number
  onStarted(message: StartMessage): void
}

/** A worker that lived for less died of what will kill the next one, too: the next one starts after a pause. */
const minLifeMs = 10_000
const minPauseMs = 100
const maxPauseMs = 10_000

/** Runs this program in several processes until the signal; false when the first of them does not start. */
export async function runWorkers(options: WorkerOptions): Promise<boolean> {
  const { count, stop, stopTimeoutMs, onStarted } = options
  let timer: NodeJS.Timeout | undefined
  const stopAll = () => {
    killAll('SIGTERM')
    timer = setTimeout(killAll, stopTimeoutMs, 'SIGKILL')
  }
  if (stop.aborted) return true
  stop.addEventListener('abort', stopAll)
  // The first one finds out whether the ports are free.
  const first = cluster.fork()
  const message = await Promise.race([startOf(first), once(first, 'exit').then(() => undefined)])
  if (message && !stop.aborted) {
    const rest = Array.from({ length: count - 1 }, () => cluster.fork())
    onStarted(message)
    await Promise.all([first, ...rest].map((worker) => keepRunning(worker, options)))
  } else if (message) await once(first, 'exit')
  clearTimeout(timer)
  return message !== undefined || stop.aborted
}

function killAll(signal: NodeJS.Signals): void {
  for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal)
}

/** A worker sends it when it listens. */
async function startOf(worker: Worker): Promise<StartMessage> {
  for (;;) {
    const [message] = (await once(worker, 'message')) as [Partial<StartMessage>]
    if (message.profiles) return message as StartMessage
  }
}

/** Replaces a worker that ends, until the signal. */
async function keepRunning(worker: Worker, { log, stop, monotonicNow }: WorkerOptions): Promise<void> {
  let pauseMs = 0
  for (let current = worker; ; current = cluster.fork()) {
    const startedAt = monotonicNow()
    const [code, signal] = await once(current, 'exit')
    if (stop.aborted) return
    pauseMs = monotonicNow() - startedAt < minLifeMs ? Math.min(maxPauseMs, Math.max(minPauseMs, 2 * pauseMs)) : 0
    const when = pauseMs === 0 ? 'now' : `in ${pauseMs / 1000} s`
    log.notice(`Worker ${current.id} ended (${signal ?? `exit code ${code}`}); another one starts ${when}.`)
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {})
    if (stop.aborted) return
  }
}
