import type { Worker } from 'node:cluster'
import type { AppSettings } from '../app.ts'
import { StartError } from '../common/start-error.ts'
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
import { type RunningProfile, type StartedProfile, startProfile, type UnusablePort } from './profile-server.ts'
import { spaceUsers } from './space-users.ts'
import { controlBodyBytes, type OpenSpaces, openStores } from './stores.ts'
import {
  createTokenVerification,
  type DevTokenRequest,
  type DevTokenSettings,
  signDevToken,
  type TokenVerification,
} from './tokens.ts'
import type { CommandWith } from './unusable-ports.ts'

export interface ServiceOptions extends DevTokenSettings {
  readonly config: Config
  readonly log: Log
  readonly clock: Clock
  /** The user's configuration directory; undefined: the development key is a new one. */
  readonly directory: string | undefined
  /** Once it is aborted, the service is not ready, and no longer waits for a database. */
  readonly stop: AbortSignal
  /** This process, where it is one of `processes` that share the ports, the items and the limits. */
  readonly worker?: Worker | undefined
  readonly processes?: number
  readonly commandWith?: CommandWith
}

export type NewToken = (request?: DevTokenRequest) => Promise<string>

export interface Service extends Pick<RunningProfile, 'close' | 'destroy'> {
  readonly startMessage: StartMessage
  readonly profiles: readonly RunningProfile[]
  /** Makes a development token; undefined in production. */
  readonly newToken: NewToken | undefined
  /** False: what was written is gone when the process ends. */
  isInPlace(): boolean
}

/** What has to be ended when the service stops, or does not start. */
class StartedParts {
  readonly profiles: RunningProfile[] = []
  readonly #closers: (() => Promise<void>)[] = []

  onEnd(close: () => Promise<void>): void {
    this.#closers.unshift(close)
  }

  /** Ends everything, whatever fails to end, and throws the first failure. */
  async end(how: 'close' | 'destroy'): Promise<void> {
    const outcomes = await Promise.allSettled(this.profiles.map((profile) => profile[how]()))
    for (const close of this.#closers) outcomes.push(...(await Promise.allSettled([close()])))
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }
}

/** Starts what the configuration says; throws a `StartError` where that is not possible. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const parts = new StartedParts()
  try {
    return await startParts(options, parts)
  } catch (error) {
    // Why it could not start matters more than what could not be ended.
    await parts.end('destroy').catch(() => {})
    throw error
  }
}

async function startParts(options: ServiceOptions, parts: StartedParts): Promise<Service> {
  const { config, log, clock, directory, stop, worker } = options
  const served = readStartingItems(config.itemsFile)
  // The first worker has found the database.
  const waitForDatabase = config.waitForDatabase || (worker !== undefined && worker.id > 1)
  const access = worker ? 'shared' : 'exclusive'
  const stores = await openStores({ ...config, waitForDatabase }, served, { ...clock, log, stop }, access)
  parts.onEnd(stores.close)
  if (stop.aborted) throw new StartError('Stopped before the start.')
  const metrics = await startMetrics(options, stores)
  if (metrics?.server) parts.onEnd(metrics.server.close)
  const tokens = await createTokenVerification(config, directory, log.notice, options)
  const { devKey } = tokens
  const newToken: NewToken | undefined = devKey && (async (request) => (await signDevToken(devKey.key, request)).token)
  const startedAt = new Date().toISOString()
  const settings = {
    config,
    spaces: metrics?.spaces ?? stores,
    spaceUsers: spaceUsers(stores, stores.kind === 'memory' && config.spaces === 'path'),
    appSettings: appSettings(options, stores, tokens, { newPageToken: newToken, observe: metrics?.observe }),
    serverContext: createServerContext(options, parts),
    credentials: config.https && (config.https.credentials ?? (await devCertificate(directory, new Date()))),
    listen: worker ? (await import('../server/handover.ts')).primaryListener(worker) : listenHere,
    serviceInfo: () => ({
      version,
      startedAt,
      store: stores.kind,
      isPersistent: stores.kind !== 'memory',
      profiles: parts.profiles.map(({ urls }) => urls),
    }),
  }
  const started: StartedProfile[] = []
  for (const name of config.profiles) {
    const profile = await startProfile(served[name], settings)
    if (profile.running) parts.profiles.push(profile.running)
    started.push(profile)
  }
  return {
    startMessage: {
      version,
      mode: config.mode,
      store: stores.kind,
      runtime: runtime.name === 'Node' ? undefined : runtime.nameAndVersion,
      profiles: await describeProfiles(started, options),
      metrics: metrics?.server?.url,
      notes: [...tokens.notes, ...httpsNotes(config), ...findOpenFiles(config, directory)],
    },
    profiles: parts.profiles,
    newToken,
    isInPlace: stores.isInPlace,
    close: () => parts.end('close'),
    destroy: () => parts.end('destroy'),
  }
}

function appSettings(
  { config, clock, log, stop }: ServiceOptions,
  stores: OpenSpaces,
  { verifyOptions, devIssuer }: TokenVerification,
  more: Pick<AppSettings, 'newPageToken' | 'observe'>,
): Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'> {
  const { maxRequestsPerSecond } = config
  return {
    ...config,
    ...clock,
    verifyToken: createTokenVerifier(verifyOptions),
    verifyDevToken: devIssuer && createTokenVerifier({ ...verifyOptions, trustedIssuers: [devIssuer] }),
    allowRequest:
      maxRequestsPerSecond === undefined ? undefined : rateLimiter(maxRequestsPerSecond, clock.monotonicNow),
    ...more,
    reportOrigin: originReporter(log.notice),
    unreadyReason: async () => {
      if (stop.aborted) return 'stopping'
      return stores.ping().then(
        () => undefined,
        () => 'the items cannot be reached',
      )
    },
    log,
  }
}

/** What all listeners share: limits, the monitor of overload, the memory of requests. */
function createServerContext({ config, log, clock, processes = 1 }: ServiceOptions, parts: StartedParts) {
  const overload = config.mode === 'development' ? noOverloadMonitor() : overloadMonitor(clock.monotonicNow, log.notice)
  parts.onEnd(async () => overload.stop())
  return serverContext({
    limits: { ...config.limits, maxConnections: Math.ceil(config.limits.maxConnections / processes) },
    overload,
    now: clock.now,
    maxBodyBytes: config.control ? controlBodyBytes(config) : config.maxBodyBytes,
    heapLimitBytes: runtime.heapLimitBytes,
  })
}

/** Where each profile is served, or why not. Throws where none is, and in production where any port is unusable. */
async function describeProfiles(
  started: readonly StartedProfile[],
  options: ServiceOptions,
): Promise<StartMessage['profiles']> {
  const urlsOf = ({ title, running }: StartedProfile) => running?.urls ?? { title, urls: [] }
  const unusable = started.flatMap((one) => one.unusable)
  if (unusable.length === 0) return started.map(urlsOf)
  const running = started.flatMap((one) => one.running ?? [])
  const { reasons, advice } = await explainPorts(unusable, running, options)
  if (running.length === 0 || options.config.mode === 'production')
    throw new StartError([...new Set(reasons.map((reason) => `Port ${reason}.`)), advice].join(' '))
  return started.map((one) => {
    // In development, a profile has one unusable port at most.
    const [port] = one.unusable
    if (!port) return urlsOf(one)
    const lastAdvice = port === unusable.at(-1) ? [advice] : []
    return { ...urlsOf(one), unusablePort: [`port ${reasons[unusable.indexOf(port)]}.`, ...lastAdvice] }
  })
}

/** Metrics of this process; undefined where none are configured. Those of a worker have no server. */
async function startMetrics(
  { config, clock: { monotonicNow }, worker, commandWith }: ServiceOptions,
  stores: OpenSpaces,
) {
  const { metricsPort: port, metricsHost: host } = config
  if (port === undefined) return undefined
  // prom-client is loaded only where it is used.
  const { createMetrics, serveMetrics } = await import('../metrics.ts')
  const isWorker = worker !== undefined
  const metrics = createMetrics({ spaces: stores, itemCounts: stores.counts, monotonicNow, isWorker })
  if (isWorker) return { ...metrics, server: undefined }
  const server = await serveMetrics(metrics.read, port, host).catch(async (error) => {
    throw await (await import('./unusable-ports.ts')).explainMetricsPort(error, config, commandWith)
  })
  return { ...metrics, server }
}

async function explainPorts(
  unusable: readonly UnusablePort[],
  running: readonly RunningProfile[],
  { config: { host, metricsPort }, worker, commandWith }: ServiceOptions,
) {
  const used = running.flatMap(({ urls }) => urls.urls.map((url) => Number(new URL(url).port)))
  if (metricsPort !== undefined) used.push(metricsPort)
  return (await import('./unusable-ports.ts')).explainUnusablePorts(unusable, {
    host,
    used,
    // The first worker has said it.
    commandWith: worker && worker.id > 1 ? undefined : commandWith,
  })
}

/** B12. */
const httpsNotes = ({ mode, https, httpsRedirectPort }: Config) =>
  mode === 'production' && !https && httpsRedirectPort === undefined
    ? ['Plain HTTP is not redirected: no HTTPS port is known. Set --tls-cert and --tls-key, or --https-redirect-port.']
    : []
