import type { Worker } from 'node:cluster'
import type { AppSettings } from '../app.ts'
import type { Config } from '../config/config.ts'
import { originReporter } from '../http/cors.ts'
import { rateLimiter } from '../http/rate-limit.ts'
import type { Log, StartMessage } from '../log.ts'
import { devCertificate } from '../server/dev-certificate.ts'
import { listen as listenHere } from '../server/listen.ts'
import { noOverloadMonitor, overloadMonitor } from '../server/overload.ts'
import { runtime } from '../server/runtime.ts'
import { serverContext } from '../server/server.ts'
import { createTokenVerifier } from '../tokens/verify.ts'
import { version } from '../version.ts'
import type { Clock } from './clock.ts'
import { readStartingItems } from './items-file.ts'
import { findOpenFiles } from './private-files.ts'
import {
  describeUnusablePort,
  type RunningProfile,
  type StartedProfile,
  startProfile,
  type UnusablePort,
} from './profile-server.ts'
import { controlBodyBytes, type OpenStores, openStores } from './stores.ts'
import { createTokenVerification, type DevTokenRequest, type DevTokenSettings, signDevToken } from './tokens.ts'

export interface ServiceOptions extends DevTokenSettings {
  readonly config: Config
  readonly log: Log
  readonly clock: Clock
  /** The user's configuration directory; undefined: the development key is a new one. */
  readonly directory: string | undefined
  /** Not ready from then on, and no longer waiting for a database. */
  readonly stop: AbortSignal
  /** This process, where it is one of `processes` that share the ports, the items and the limits. */
  readonly worker?: Worker | undefined
  readonly processes?: number
  /** The command line with other values of these flags, to be shown; undefined where there is none. */
  readonly commandWith?: ((flags: Readonly<Record<string, string>>) => string) | undefined
}

export type NewToken = (request?: DevTokenRequest) => Promise<string>

/** A service that runs. */
export interface Service {
  readonly startMessage: StartMessage
  readonly profiles: readonly RunningProfile[]
  /** Makes a development token; undefined in production. */
  readonly newToken: NewToken | undefined
  /** False: what was written is gone when the process ends. */
  isInPlace(): boolean
  /** Without failing a request. */
  close(): Promise<void>
  /** At once: requests in flight get no response. */
  destroy(): Promise<void>
}

/** Starts what the configuration says, or returns an error message. */
export async function startService(options: ServiceOptions): Promise<Service | string> {
  const { config, log, clock, directory, stop, worker, processes = 1 } = options
  const served = readStartingItems(config.itemsFile)
  if (typeof served === 'string') return served
  // The first worker has found the database.
  const waitForDatabase = config.waitForDatabase || (worker !== undefined && worker.id > 1)
  const access = worker ? 'shared' : 'exclusive'
  const opened = await openStores({ ...config, waitForDatabase }, served, { ...clock, log, stop }, access)
  if (typeof opened === 'string') return opened
  const running: RunningProfile[] = []
  const closers = [opened.close]
  const end = async (how: 'close' | 'destroy') => {
    await Promise.all(running.map((profile) => profile[how]()))
    for (const close of closers.reverse()) await close()
  }
  const fail = async (message: string) => {
    await end('destroy')
    return message
  }
  if (stop.aborted) return fail('Stopped before the start.')
  const metrics = await startMetrics(config, opened, clock, worker !== undefined)
  if (typeof metrics === 'string') return fail(metrics)
  if (metrics?.server) closers.push(metrics.server.close)
  const { verifyOptions, devKey, devIssuer, notes } = await createTokenVerification(
    config,
    directory,
    log.notice,
    options,
  )
  const newToken: NewToken | undefined = devKey && (async (request) => (await signDevToken(devKey.key, request)).token)
  const { maxRequestsPerSecond } = config
  const appSettings: Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'> = {
    ...config,
    ...clock,
    verifyToken: createTokenVerifier(verifyOptions),
    verifyDevToken: devIssuer && createTokenVerifier({ ...verifyOptions, trustedIssuers: [devIssuer] }),
    allowRequest:
      maxRequestsPerSecond === undefined ? undefined : rateLimiter(maxRequestsPerSecond, clock.monotonicNow),
    observe: metrics?.observe,
    reportOrigin: originReporter(log.notice),
    newPageToken: newToken,
    unreadyReason: async () => {
      if (stop.aborted) return 'stopping'
      return opened.ping().then(
        () => undefined,
        () => 'the items cannot be reached',
      )
    },
    log,
  }
  const credentials = config.https && (config.https.credentials ?? (await devCertificate(directory, new Date())))
  const overload = config.mode === 'development' ? noOverloadMonitor() : overloadMonitor(clock.monotonicNow, log.notice)
  closers.push(async () => overload.stop())
  const maxBodyBytes = config.control ? controlBodyBytes(config) : config.maxBodyBytes
  const limits = { ...config.limits, maxConnections: Math.ceil(config.limits.maxConnections / processes) }
  const { heapLimitBytes } = runtime
  const startedAt = new Date().toISOString()
  const serviceInfo = () => ({
    version,
    startedAt,
    store: opened.kind,
    isPersistent: opened.kind !== 'memory',
    profiles: running.map(({ urls }) => urls),
  })
  const settings = {
    config,
    stores: metrics?.stores ?? opened,
    openAnother: opened.openAnother,
    serverContext: serverContext({ limits, overload, now: clock.now, maxBodyBytes, heapLimitBytes }),
    listen: worker ? (await import('../server/handover.ts')).primaryListener(worker) : listenHere,
    appSettings,
    credentials,
    serviceInfo,
  }
  const started: (StartedProfile & { readonly title: string })[] = []
  for (const name of config.profiles) {
    const outcome = await startProfile(served[name], settings)
    if (typeof outcome === 'string') return fail(outcome)
    if (outcome.running) running.push(outcome.running)
    started.push({ title: served[name].title, ...outcome })
  }
  const unusable = started.flatMap((one) => one.unusable)
  const ports = unusable.length === 0 ? undefined : await explainPorts(unusable, running, options)
  if (ports && (running.length === 0 || config.mode === 'production'))
    return fail([...new Set(ports.reasons.map((reason) => `Port ${reason}.`)), ports.advice].join(' '))
  return {
    startMessage: {
      version,
      mode: config.mode,
      store: opened.kind,
      runtime: runtime.name === 'Node' ? undefined : runtime.nameAndVersion,
      // In development, a profile has one unusable port at most.
      profiles: started.map(({ title, running: profile, unusable: [port] }) => {
        const urls = profile?.urls ?? { title, urls: [] }
        if (!ports || !port) return urls
        const advice = port === unusable.at(-1) ? [ports.advice] : []
        return { ...urls, unusablePort: [`port ${ports.reasons[unusable.indexOf(port)]}.`, ...advice] }
      }),
      metrics: metrics?.server?.url,
      notes: [...notes, ...httpsNotes(config), ...findOpenFiles(config, directory)],
    },
    profiles: running,
    newToken,
    isInPlace: opened.isInPlace,
    close: () => end('close'),
    destroy: () => end('destroy'),
  }
}

/** Metrics of this process, undefined where none are configured, or an error message. Those of a worker have no server. */
async function startMetrics(
  { metricsPort: port, metricsHost: host }: Config,
  stores: OpenStores,
  { monotonicNow }: Clock,
  isWorker: boolean,
) {
  if (port === undefined) return undefined
  // prom-client is loaded only where it is used.
  const { createMetrics, serveMetrics } = await import('../metrics.ts')
  const metrics = createMetrics({ stores, itemCounts: stores.counts, monotonicNow, isWorker })
  const server = isWorker ? undefined : await serveMetrics(metrics.read, port, host)
  return typeof server === 'string' ? server : { ...metrics, server }
}

/** Which program uses them, and what to do. */
async function explainPorts(
  unusable: readonly UnusablePort[],
  running: readonly RunningProfile[],
  { config: { host }, worker, commandWith }: ServiceOptions,
) {
  // The first worker has said it.
  if (!commandWith || (worker && worker.id > 1))
    return {
      reasons: unusable.map(describeUnusablePort),
      advice: 'Choose another, or leave it out for a free one.',
    }
  const used = running.flatMap(({ urls }) => urls.urls.map((url) => Number(new URL(url).port)))
  return (await import('./unusable-ports.ts')).explainUnusablePorts(unusable, { host, used, commandWith })
}

/** B12. */
const httpsNotes = ({ mode, https, httpsRedirectPort }: Config) =>
  mode === 'production' && !https && httpsRedirectPort === undefined
    ? ['Plain HTTP is not redirected: no HTTPS port is known. Set --tls-cert and --tls-key, or --https-redirect-port.']
    : []
