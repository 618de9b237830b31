import cluster, { type Worker } from 'node:cluster'
import { type KeyObject, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { type AppSettings, profiles } from '../app.ts'
import { type Config, readConfig, serveOptions } from '../config/config.ts'
import { configDirectory } from '../config/config-directory.ts'
import { optionsHelp } from '../config/options.ts'
import { originNotices } from '../http/cors.ts'
import { rateLimiter } from '../http/rate-limit.ts'
import { jsonLog, type Log, readableLog } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { devCertificate } from '../server/dev-certificate.ts'
import { listen as listenHere } from '../server/listen.ts'
import { noOverloadMonitor, overloadMonitor } from '../server/overload.ts'
import { runtime as nativeRuntime } from '../server/runtime.ts'
import { serverContext } from '../server/server.ts'
import { devTokenDefaults, devTokenIssuer } from '../tokens/dev-key.ts'
import { signToken } from '../tokens/sign.ts'
import { createTokenVerifier } from '../tokens/verify.ts'
import { version } from '../version.ts'
import type { Command, Process } from './command.ts'
import { readItemsFile } from './items-file.ts'
import { createRuntime, type Runtime } from './runtime.ts'
import { type RunningProfile, startProfile } from './start-profile.ts'
import { controlBodyBytes, type OpenStores, openFileStores, openStores } from './stores.ts'
import { createTokenVerification } from './token-verification.ts'
import { runWorkers } from './workers.ts'

export const serve: Command = {
  help: `Runs the service: Profile A, Profile B or both, each with its own items, in memory, in a file or in PostgreSQL.

Usage
  todo-service serve [flags]

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(serveOptions)}
Log levels, each including the ones above it
  silent   nothing
  error    start, stop, and failures of the service with their cause
  warn     requests answered with a 4xx or 5xx status
  info     every request
In development the log is for reading; in production each line is a JSON object.

Examples
  todo-service serve                           both profiles: A on port 5080, B on port 5000
  todo-service serve --profile b               one profile, on its default port
  todo-service serve --profile a --port 8080   one profile, on another port
  todo-service serve --data todo.db            items stay in a file
  todo-service serve --mode production         JSON log lines, every interface
`,

  async run(args, process) {
    const config = readConfig(args, process.env, new Date(), nativeRuntime)
    if ('problems' in config) return config
    const { worker } = cluster
    const log = createLog(config, process, worker?.id)
    const stop = stopSignal(process, worker !== undefined)
    exitOnUncaught(process, log)
    logWarnings(process, log)
    const runtime = createRuntime(config)
    const problems = await findControlProblems(config, runtime)
    if (problems.length > 0) return { problems }
    const count = config.workers === 'auto' ? availableParallelism() : config.workers
    const fail = (message: string) => {
      process.stderr.write(`todo-service: ${message}\n`)
      return 1
    }
    const context = { config, env: process.env, count, log, stop, runtime, fail }
    if (!worker && count > 1) return serveInWorkers(context)
    const code = await serveHere(context, worker)
    // The channel to the primary process would keep this one alive.
    worker?.disconnect()
    // So may what a runtime keeps of requests that were given up: on Deno, a read of a body.
    setTimeout(() => process.exit(code), exitTimeoutMs).unref()
    return code
  },
}

interface Context {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  /** Of processes. */
  readonly count: number
  readonly log: Log
  readonly stop: AbortSignal
  readonly runtime: Runtime
  fail(message: string): number
}

/** Serves in this process until the signal; returns the exit code. */
async function serveHere(
  { config, env, count, log, stop, runtime, fail }: Context,
  worker: Worker | undefined,
): Promise<number> {
  const served = readStartingItems(config)
  if (typeof served === 'string') return fail(served)
  // The first worker has found the database.
  const waitForDatabase = config.waitForDatabase || (worker !== undefined && worker.id > 1)
  const access = worker ? 'shared' : 'exclusive'
  const opened = await openStores({ ...config, waitForDatabase }, served, { ...runtime, log, stop }, access)
  if (stop.aborted) return 0
  if (typeof opened === 'string') return fail(opened)
  const closers: (() => Promise<unknown>)[] = [opened.close]
  const closeAll = async () => {
    for (const close of closers.reverse()) await close()
  }
  const metrics = await startMetrics(config, opened, runtime.monotonicNow, worker !== undefined)
  if (typeof metrics === 'string') {
    await closeAll()
    return fail(metrics)
  }
  if (metrics?.server) closers.push(metrics.server.close)
  const { verifyOptions, devKey, notes: tokenNotes } = await createTokenVerification(config, env, log.notice)
  const appSettings: Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'> = {
    ...config,
    ...runtime,
    verifyToken: createTokenVerifier(verifyOptions),
    verifyDevToken: devKey && createTokenVerifier({ ...verifyOptions, trustedIssuers: [devTokenIssuer(devKey.key)] }),
    allowRequest:
      config.maxRequestsPerSecond === undefined
        ? undefined
        : rateLimiter(config.maxRequestsPerSecond, runtime.monotonicNow),
    observe: metrics?.observe,
    noticeOrigin: originNotices(log.notice),
    newPageToken: devKey && (() => newPageToken(devKey.key)),
    unreadyReason: async () => {
      if (stop.aborted) return 'stopping'
      return opened.ping().then(
        () => undefined,
        () => 'the items cannot be reached',
      )
    },
    log,
  }
  const credentials =
    config.https && (config.https.credentials ?? (await devCertificate(configDirectory(env), new Date())))
  const overload =
    config.mode === 'development' ? noOverloadMonitor() : overloadMonitor(runtime.monotonicNow, log.notice)
  closers.push(async () => overload.stop())
  const maxBodyBytes = Math.max(config.maxBodyBytes, config.control ? controlBodyBytes(config) : 0)
  const running: RunningProfile[] = []
  const listen = worker ? (await import('../server/handover.ts')).primaryListener(worker) : listenHere
  const startedAt = new Date()
  const service = () => ({ version, startedAt, store: opened.kind, profiles: running.map(({ urls }) => urls) })
  closers.push(() => Promise.all(running.map(({ close }) => close())))
  const limits = { ...config.limits, maxConnections: Math.ceil(config.limits.maxConnections / count) }
  const { heapLimitBytes } = nativeRuntime
  const context = serverContext({ limits, overload, now: runtime.now, maxBodyBytes, heapLimitBytes })
  for (const name of config.profiles) {
    const stores = metrics?.stores ?? opened
    const { openAnother } = opened
    const started = await startProfile(served[name], {
      ...{ stores, openAnother, config, appSettings, context, credentials, service, listen },
    })
    if (typeof started === 'string') {
      await closeAll()
      return fail(started)
    }
    running.push(started)
  }
  const message = {
    version,
    mode: config.mode,
    store: opened.kind,
    runtime: nativeRuntime.name === 'Node' ? undefined : nativeRuntime.nameAndVersion,
    profiles: running.map(({ urls }) => urls),
    metrics: metrics?.server?.url,
    notes: [...tokenNotes, ...httpsNotes(config)],
  }
  if (worker) worker.send(message)
  else log.started(message)
  if (!stop.aborted) await once(stop, 'abort')
  const isInPlace = opened.isInPlace()
  await closeAll()
  if (!worker) log.stopped()
  return isInPlace ? 0 : 1
}

/** Serves in several processes behind the same ports until the signal; returns the exit code. */
async function serveInWorkers({ config, count, log, stop, runtime, fail }: Context): Promise<number> {
  // Holds the lock of the data file for the workers.
  const { dataFile } = config
  const file =
    dataFile === undefined ? undefined : await openFileStores(dataFile, profiles, { ...runtime, log }, 'exclusive')
  if (typeof file === 'string') return fail(file)
  const metrics = await serveMetrics(config)
  if (typeof metrics === 'string') {
    await file?.close()
    return fail(metrics)
  }
  const { drainDelayMs, drainTimeoutMs } = config.limits
  const isStarted = await runWorkers({
    ...{ count, log, stop, monotonicNow: runtime.monotonicNow },
    maxConnections: config.limits.maxConnections,
    stopTimeoutMs: drainDelayMs + drainTimeoutMs + 5_000,
    onStarted: (message) => log.started({ ...message, metrics: metrics?.url, workers: count }),
  })
  const isInPlace = file?.isInPlace() ?? true
  await metrics?.close()
  await file?.close()
  if (isStarted) log.stopped()
  return isStarted && isInPlace ? 0 : 1
}

/** The profiles, with the starting items of --items; or an error message. */
function readStartingItems({ itemsFile }: Config): typeof profiles | string {
  if (itemsFile === undefined) return profiles
  const snapshot = readItemsFile(itemsFile)
  if ('problems' in snapshot) return snapshot.problems.join(' ')
  const { a, b } = snapshot
  return {
    a: { ...profiles.a, ...(a && { startingItems: a.items }) },
    b: { ...profiles.b, ...(b && { startingItems: b.items }) },
  }
}

/** The module is not loaded in production. */
async function findControlProblems(config: Config, runtime: Runtime): Promise<string[]> {
  if (!config.control || config.control.rules.length === 0) return []
  return (await import('./develop.ts')).findFailProblems(config, runtime)
}

/**
 * Aborts on the first signal; the second ends the process at once. A worker gets SIGTERM from the primary process, and
 * maybe from a service manager too; Ctrl+C goes to all processes, and the primary process handles it.
 */
function stopSignal(process: Process, isWorker: boolean): AbortSignal {
  const stop = new AbortController()
  let first = { signal: '', at: 0 }
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.on(signal, () => {
      if (isWorker && signal === 'SIGINT') return
      const now = performance.now()
      const isRepeated = signal === first.signal && now - first.at < repeatedSignalMs
      if (stop.signal.aborted && !isRepeated && !isWorker) process.exit(1)
      if (!stop.signal.aborted) first = { signal, at: now }
      stop.abort()
    })
  return stop.signal
}

/** After the stop, for a process that does not end by itself. */
const exitTimeoutMs = 500

/** npm, timeout and others send a signal to the process and to its group: it comes twice. */
const repeatedSignalMs = 200

/** The state of the process is unknown after an uncaught exception: log it and exit. */
function exitOnUncaught(process: Process, log: Log): void {
  for (const event of ['uncaughtException', 'unhandledRejection'])
    process.on(event, (cause: unknown) => {
      log.error('Uncaught exception, exiting', cause)
      process.exit(1)
    })
}

/** Node would write warnings to standard error, as plain text. */
function logWarnings(process: Process, log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }: Error) => log.notice(`${name}: ${message}`))
}

/** Metrics of this process, undefined where none are configured, or an error message. Those of a worker have no server. */
async function startMetrics(config: Config, stores: OpenStores, monotonicNow: () => number, isWorker: boolean) {
  if (config.metricsPort === undefined) return undefined
  // prom-client is loaded only where it is used.
  const { createMetrics } = await import('../metrics.ts')
  const metrics = createMetrics({ stores, itemCounts: stores.counts, monotonicNow, isWorker })
  if (isWorker) return { ...metrics, server: undefined }
  const server = await serveMetrics(config, metrics)
  return typeof server === 'string' ? server : { ...metrics, server }
}

async function serveMetrics({ metricsPort: port, metricsHost: host }: Config, metrics?: Pick<Metrics, 'read'>) {
  if (port === undefined) return undefined
  const { serveMetrics: serve, workerMetrics } = await import('../metrics.ts')
  return serve(metrics ?? workerMetrics(), { port, host }).catch(
    (cause: Error) => `Metrics cannot be served on ${host} port ${port}: ${cause.message}.`,
  )
}

/** B12. */
const httpsNotes = ({ mode, https, httpsRedirectPort }: Config) =>
  mode === 'production' && !https && httpsRedirectPort === undefined
    ? ['Plain HTTP is not redirected: no HTTPS port is known. Set --tls-cert and --tls-key, or --https-redirect-port.']
    : []

/** S5. */
const newPageToken = async (key: KeyObject) =>
  (
    await signToken(
      { ...devTokenDefaults, id: randomUUID().slice(0, 8), name: 'developer', validForSeconds: 3600 },
      key,
      new Date(),
    )
  ).token

/** Log lines wait in memory when the reader of standard output is slow; beyond this they are dropped and counted. */
const maxLogBacklogBytes = 2 ** 20

function createLog({ mode, logLevel }: Config, { stdout }: Process, worker?: number): Log {
  let dropped = 0
  const write = (line: string) => {
    if (stdout.writableLength > maxLogBacklogBytes) {
      dropped++
      return
    }
    stdout.write(line)
    if (dropped === 0) return
    const count = dropped
    dropped = 0
    log.notice(`${count} log lines were dropped: standard output was not read in time.`)
  }
  const log =
    mode === 'development' ? readableLog(write, logLevel, worker) : jsonLog(write, logLevel, () => new Date(), worker)
  return log
}
