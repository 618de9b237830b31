import type { Database } from './database-url.ts'
import { type Credentials, faultOf } from './http/https.ts'
import { type ProxyTrust, trustNobody } from './http/proxy.ts'
import type { Limits } from './http/server.ts'
import type { LogLevel } from './log.ts'
import { type Given, readOptions, refuseArguments } from './options.ts'
import type { ProfileName } from './profiles/profile.ts'
import { serveOptions } from './serve-options.ts'
import { clockToleranceOf, type Mode, modeOf, readTokenConfig } from './token-config.ts'
import type { TokenConfig } from './tokens/guard.ts'

interface HttpsConfig {
  /** Undefined: each profile's own. */
  readonly port: number | undefined
  /** Undefined: the development certificate. */
  readonly credentials: Credentials | undefined
}

export interface Config {
  readonly profiles: readonly ProfileName[]
  readonly mode: Mode
  /** Undefined: every interface. */
  readonly host: string | undefined
  /** Undefined: each profile's own. */
  readonly port: number | undefined
  readonly baseUrl: string | undefined
  readonly bodyLimit: number
  readonly limits: Limits
  readonly maxItems: number
  /** Requests of one client in a second; undefined: as many as it likes. */
  readonly rateLimit: number | undefined
  readonly corsOrigins: readonly string[]
  readonly hsts: boolean
  /** Undefined: no metrics. */
  readonly metricsPort: number | undefined
  readonly metricsHost: string
  readonly logLevel: LogLevel
  readonly requireAuth: boolean
  /** Undefined: no HTTPS. */
  readonly https: HttpsConfig | undefined
  /** Where HTTPS is reached, if this service does not offer it itself. */
  readonly httpsRedirectPort: number | undefined
  readonly trustProxy: ProxyTrust
  /** Undefined: items live in memory. */
  readonly database: Database | undefined
  readonly databaseSchema: string
  readonly waitForDatabase: boolean
  /** Undefined: none but development tokens. */
  readonly tokens: TokenConfig | undefined
  readonly clockTolerance: number
}

/** Flags win over environment variables. Every mistake is listed, not just the first. */
export function readConfig(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  now: Date,
): Config | { problems: string[] } {
  const given = readOptions(serveOptions, args, env)
  const { values, problems, rest, sourceOf } = given
  refuseArguments(rest, problems)
  const profile = sourceOf('profile') ? values.profile : 'both'
  for (const name of ['port', 'https-port'] as const)
    if (profile === 'both' && sourceOf(name))
      problems.push(`${sourceOf(name)} needs a single profile: add --profile a or --profile b.`)
  const mode = modeOf(values.mode, env)
  if (values.port && values.port === values['https-port'])
    problems.push(`${sourceOf('port')} and ${sourceOf('https-port')} must differ.`)
  const tokens = readTokenConfig(given)
  const https = readHttpsConfig(given, mode, now)
  for (const name of ['database-schema', 'wait-for-database'] as const)
    if (sourceOf(name) && !sourceOf('database-url')) problems.push(`${sourceOf(name)} needs --database-url.`)
  if (sourceOf('metrics-host') && !sourceOf('metrics-port'))
    problems.push(`${sourceOf('metrics-host')} needs --metrics-port.`)
  if (problems.length > 0) return { problems }
  const development = mode === 'development'
  return {
    profiles: (['a', 'b'] as const).filter((name) => profile === name || profile === 'both'),
    mode,
    host: values.host ?? (development ? 'localhost' : undefined),
    port: values.port,
    baseUrl: values['base-url'],
    bodyLimit: values['body-limit'] ?? 2 ** 20,
    limits: {
      headerTimeout: 1000 * (values['header-timeout'] ?? 10),
      requestTimeout: 1000 * (values['request-timeout'] ?? 30),
      keepAliveTimeout: 1000 * (values['keep-alive-timeout'] ?? 65),
      stalledTimeout: 1000 * (values['stalled-timeout'] ?? 30),
      drainDelay: 1000 * (values['drain-delay'] ?? (development ? 0 : 1)),
      drainTimeout: 1000 * (values['drain-timeout'] ?? 10),
      maxConnections: values['max-connections'] ?? 12_000,
    },
    maxItems: values['max-items'] ?? 1_000_000,
    rateLimit: values['rate-limit'],
    corsOrigins: values.cors,
    hsts: values.hsts ?? false,
    metricsPort: values['metrics-port'],
    metricsHost: values['metrics-host'] ?? '127.0.0.1',
    logLevel: values['log-level'] ?? (development ? 'info' : 'error'),
    requireAuth: values['require-auth'] ?? false,
    https,
    httpsRedirectPort: values['https-redirect-port'],
    trustProxy: values['trust-proxy'] ?? trustNobody,
    database: values['database-url'],
    databaseSchema: values['database-schema'] ?? 'todo',
    waitForDatabase: values['wait-for-database'] ?? false,
    tokens,
    clockTolerance: clockToleranceOf(given),
  }
}

function readHttpsConfig(
  { values, problems, sourceOf }: Given<typeof serveOptions>,
  mode: Mode,
  now: Date,
): HttpsConfig | undefined {
  const [port, cert, key] = [sourceOf('https-port'), sourceOf('tls-cert'), sourceOf('tls-key')]
  if (cert && !key) problems.push(`${cert} needs --tls-key: the private key of the certificate.`)
  if (key && !cert) problems.push(`${key} needs --tls-cert: the certificate of the key.`)
  if (mode === 'production' && port && !cert) problems.push(`${port} needs --tls-cert and --tls-key in production.`)
  if (values['no-https']) {
    for (const other of [port, cert])
      if (other) problems.push(`${sourceOf('no-https')} and ${other} contradict each other.`)
    return undefined
  }
  const credentials =
    values['tls-cert'] && values['tls-key'] ? { cert: values['tls-cert'], key: values['tls-key'] } : undefined
  const fault = credentials && faultOf(credentials, now)
  if (fault) problems.push(fault)
  return mode === 'development' || credentials ? { port: values['https-port'], credentials } : undefined
}
