import type { Worker } from 'node:cluster'
import { type AppSettings, collectionsOf } from '../app.ts'
import { StartError } from '../common/start-error.ts'
import type { NewToken } from '../common/token-request.ts'
import type { Config } from '../config/config.ts'
import { originReporter } from '../http/cors.ts'
import { rateLimiter } from '../http/rate-limit.ts'
import type { Log, StartMessage } from '../log.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
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
import { type RunningProfile, type StartedProfile, startProfile } from './profile-server.ts'
import { controlBodyBytes, type OpenSpaces, openStores } from './stores.ts'
import { createTokenVerification, type DevTokenSettings, signDevToken } from './tokens.ts'
import type { CommandWith } from './unusable-ports.ts'

export interface ServiceOptions extends DevTokenSettings {
  readonly config: Config
  readonly log: Log
  readonly clock: Clock
  /** The configuration directory of the user. If undefined, each start creates a new development key. */
  readonly directory: string | undefined
  /** When this is aborted, the service reports that it is not ready, and stops waiting for a database. */
  readonly stop: AbortSignal
  /** This process, if it is one of several workers that share ports and items. */
  readonly worker?: Worker | undefined
  /** How many processes share the limits; default: 1. */
  readonly processes?: number
  readonly commandWith?: CommandWith
  /** The profiles to serve; default: Profile A and Profile B. */
  readonly profiles?: Readonly<Record<ProfileName, Profile>>
}

export interface Service extends Pick<RunningProfile, 'close' | 'destroy'>, Pick<OpenSpaces, 'isInPlace'> {
  readonly startMessage: StartMessage
  readonly profiles: readonly RunningProfile[]
  /** Creates a development token; undefined in production. */
  readonly newToken: NewToken | undefined
}

/** The parts of a service that must be closed when it stops or cannot start. */
class StartedParts {
  readonly profiles: RunningProfile[] = []
  readonly #closers: (() => Promise<void>)[] = []

  onEnd(close: () => Promise<void>): void {
    this.#closers.unshift(close)
  }

  /** Closes all parts, even if some fail to close, and then throws the first failure. */
  async end(how: 'close' | 'destroy'): Promise<void> {
    const outcomes = await Promise.allSettled(this.profiles.map((profile) => profile[how]()))
    for (const close of this.#closers) outcomes.push(...(await Promise.allSettled([close()])))
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }
}

/** Starts a service; throws a `StartError` if it cannot start with this configuration. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const parts = new StartedParts()
  try {
    return await startParts(options, parts)
  } catch (error) {
    // A failure to close is ignored: why the service could not start matters more.
    await parts.end('destroy').catch(() => {})
    throw error
  }
}

async function startParts(options: ServiceOptions, parts: StartedParts): Promise<Service> {
  const { config, log, clock, directory, stop, worker } = options
  const served = readStartingItems(config.itemsFile, options.profiles)
  // The other workers wait for the database, because worker 1 has reached it.
  const waitForDatabase = config.waitForDatabase || (worker !== undefined && worker.id > 1)
  const { monotonicNow, newId } = clock
  const stores = await openStores(
    config,
    collectionsOf(served),
    { monotonicNow, newId, log, stop },
    { access: worker ? 'shared' : 'exclusive', migrates: true, waitForDatabase },
  )
  parts.onEnd(stores.close)
  if (stop.aborted) throw new StartError('Stopped before the start.')
  const metrics = await startMetrics(options, stores)
  if (metrics?.server) parts.onEnd(metrics.server.close)
  const tokens = await createTokenVerification(config, directory, log.notice, options)
  const { devKey } = tokens
  const newToken: NewToken | undefined = devKey && (async (request) => (await signDevToken(devKey.key, request)).token)
  const startedAt = new Date().toISOString()
  const spaces = metrics?.spaces ?? stores
  const context = createServerContext(options, parts)
  // Imported here, because production does not load this code.
  const createControl =
    config.control &&
    (await import('./profile-control.ts')).controlFactory({
      config,
      control: config.control,
      spaces,
      hasTemporarySpaces: stores.kind === 'memory' && config.spaces === 'path',
      held: context.held,
      serviceInfo: () => ({
        version,
        startedAt,
        store: stores.kind,
        isPersistent: stores.kind !== 'memory',
        profiles: parts.profiles.map(({ urls }) => urls),
      }),
    })
  const settings = {
    config,
    spaces,
    createControl,
    appSettings: appSettings(options, stores, tokens, { newPageToken: newToken, observe: metrics?.observe }),
    serverContext: context,
    credentials: config.https && (config.https.credentials ?? (await devCertificate(directory, new Date()))),
    listen: worker ? (await import('../server/handover.ts')).primaryListener(worker) : listenHere,
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
  { verifyOptions, devIssuer }: Awaited<ReturnType<typeof createTokenVerification>>,
  more: Pick<AppSettings, 'newPageToken' | 'observe'>,
): Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'> {
  const { maxRequestsPerSecond } = config
  return {
    requireAuth: config.requireAuth,
    spaces: config.spaces,
    trustProxy: config.trustProxy,
    baseUrl: config.baseUrl,
    maxBodyBytes: config.maxBodyBytes,
    cors: config.cors,
    hsts: config.hsts,
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

function createServerContext({ config, log, clock, processes = 1 }: ServiceOptions, parts: StartedParts) {
  const overload = config.mode === 'development' ? noOverloadMonitor() : overloadMonitor(clock.monotonicNow, log.notice)
  parts.onEnd(async () => overload.stop())
  return serverContext({
    limits: { ...config.limits, maxConnections: Math.ceil(config.limits.maxConnections / processes) },
    overload,
    now: clock.now,
    monotonicNow: clock.monotonicNow,
    maxBodyBytes: config.control ? controlBodyBytes(config) : config.maxBodyBytes,
    heapLimitBytes: runtime.heapLimitBytes,
  })
}

/** Returns the URLs of each profile, or why it has none. Throws if no profile is served, or, in production, not all. */
async function describeProfiles(
  started: readonly StartedProfile[],
  { config: { host, mode, metricsPort }, worker, commandWith }: ServiceOptions,
): Promise<StartMessage['profiles']> {
  const urlsOf = ({ title, running }: StartedProfile) => running?.urls ?? { title, urls: [] }
  const unusable = started.flatMap((profile) => profile.unusable)
  if (unusable.length === 0) return started.map(urlsOf)
  const running = started.flatMap((profile) => profile.running ?? [])
  const used = running.flatMap(({ urls }) => urls.urls.map((url) => Number(new URL(url).port)))
  const { explainUnusablePorts } = await import('./unusable-ports.ts')
  const { reasons, advice } = await explainUnusablePorts(unusable, {
    host,
    used: metricsPort === undefined ? used : [...used, metricsPort],
    // Worker 1 has already printed the command.
    commandWith: worker && worker.id > 1 ? undefined : commandWith,
  })
  if (running.length === 0 || mode === 'production')
    throw new StartError([...new Set(reasons.map((reason) => `Port ${reason}.`)), advice].join(' '))
  return started.map((profile) => {
    // In development, a profile has one unusable port at most.
    const [port] = profile.unusable
    if (!port) return urlsOf(profile)
    const lastAdvice = port === unusable.at(-1) ? [advice] : []
    return { ...urlsOf(profile), unusablePort: [`port ${reasons[unusable.indexOf(port)]}.`, ...lastAdvice] }
  })
}

/** Starts the metrics of this process, if they are configured. Those of workers are served by the primary process. */
async function startMetrics(
  { config, clock: { monotonicNow }, worker, commandWith }: ServiceOptions,
  stores: OpenSpaces,
) {
  const { metricsPort: port, metricsHost: host } = config
  if (port === undefined) return undefined
  // Imported here, so that prom-client is loaded only if it is used.
  const { createMetrics, serveMetrics } = await import('../metrics.ts')
  const { whenServed } = await import('./unusable-ports.ts')
  const isWorker = worker !== undefined
  const metrics = createMetrics({ spaces: stores, itemCounts: stores.counts, monotonicNow, isWorker })
  if (isWorker) return { ...metrics, server: undefined }
  return { ...metrics, server: await whenServed(serveMetrics(metrics.read, port, host), config, commandWith) }
}

/** B12: warns if production does not redirect plain HTTP. */
const httpsNotes = ({ mode, https, httpsRedirectPort }: Config) =>
  mode === 'production' && !https && httpsRedirectPort === undefined
    ? ['Plain HTTP is not redirected: no HTTPS port is known. Set --tls-cert and --tls-key, or --https-redirect-port.']
    : []
