import { type Database, databaseUrlForm, readDatabaseUrl } from './database-url.ts'
import { type Credentials, faultOf, readCertificate, readPrivateKey } from './http/https.ts'
import { readOrigin } from './http/origin.ts'
import { type ProxyTrust, readProxyTrust, trustNobody } from './http/proxy.ts'
import type { Limits } from './http/server.ts'
import { type LogLevel, logLevels } from './log.ts'
import {
  fileWith,
  type Given,
  type Options,
  oneOf,
  readOptions,
  refuseArguments,
  toggle,
  wholeNumber,
} from './options.ts'
import type { ProfileName } from './profiles/profile.ts'
import { clockToleranceOf, type Mode, modeOf, readTokenConfig, tokenOptions } from './token-config.ts'
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

const hostName = (text: string) => /^(?:[\w.:%-]+|\[[\da-f:]+\])$/i.exec(text)?.[0].replace(/[[\]]/g, '')

const seconds = (what: string, least = 1) => ({
  takes: 'SECONDS',
  expects: `a whole number from ${least} to 3600`,
  help: `how long to wait ${what}`,
  read: wholeNumber(least, 3600),
})

export const serveOptions = {
  profile: {
    takes: 'a|b|both',
    expects: 'a, b or both',
    help: 'the contract to serve (both)',
    read: oneOf('a', 'b', 'both'),
  },
  host: {
    takes: 'HOST',
    expects: 'a host name or an address',
    help: 'where to listen (development: localhost; production: every interface)',
    read: hostName,
  },
  port: {
    takes: 'N',
    expects: 'a whole number from 0 to 65535',
    help: 'port of a single profile, 0 for any free one (A: 5080, B: 5000)',
    read: wholeNumber(0, 65535),
  },
  'base-url': {
    takes: 'URL',
    expects: 'an http or https URL without credentials, query or fragment',
    help: 'public URL, for Location headers (the host that a request names)',
    read: publicUrl,
  },
  'body-limit': {
    takes: 'BYTES',
    expects: 'a whole number from 1 to 268435456',
    help: 'largest request body (1048576)',
    read: wholeNumber(1, 2 ** 28),
  },
  'log-level': {
    takes: 'LEVEL',
    expects: 'silent, error, warn or info',
    help: 'what to log, see below (development: info; production: error)',
    read: oneOf(...logLevels),
  },
  'https-port': {
    takes: 'N',
    expects: 'a whole number from 0 to 65535',
    help: 'HTTPS port of a single profile, 0 for any free one (A: 5081, B: 5001)',
    read: wholeNumber(0, 65535),
  },
  'no-https': toggle('no HTTPS in development'),
  'tls-cert': {
    takes: 'FILE',
    expects: 'a readable file with a certificate in PEM form',
    help: 'certificate for HTTPS (development: a self-signed one)',
    read: fileWith(readCertificate),
  },
  'tls-key': {
    takes: 'FILE',
    expects: 'a readable file with a private key in PEM form, without passphrase',
    help: 'private key of that certificate',
    read: fileWith(readPrivateKey),
  },
  'https-redirect-port': {
    takes: 'N',
    expects: 'a whole number from 1 to 65535',
    help: 'where production redirects plain HTTP to, behind a balancer (its own HTTPS port)',
    read: wholeNumber(1, 65535),
  },
  'trust-proxy': {
    takes: 'HOPS|NETWORKS',
    expects: 'a number of hops from 1 to 99, or networks such as 10.0.0.0/8,::1',
    help: 'believe X-Forwarded-Proto and -Host from so many proxies, or from these (none)',
    read: readProxyTrust,
  },
  'database-url': {
    takes: 'URL',
    secret: true,
    expects: databaseUrlForm,
    help: 'PostgreSQL database that keeps the items (none: they live in memory)',
    read: readDatabaseUrl,
  },
  'database-schema': {
    takes: 'NAME',
    expects: 'a lower-case name of at most 63 letters, digits and underscores that does not begin with pg_',
    help: 'schema for the tables; made when it is not there (todo)',
    read: (text: string) => /^(?!pg_)[a-z_][a-z\d_]{0,62}$/.exec(text)?.[0],
  },
  'wait-for-database': toggle('keep trying when the database cannot be used at the start'),
  'header-timeout': seconds('for the head of a request (10)'),
  'request-timeout': seconds('for a whole request (30)'),
  'keep-alive-timeout': seconds('for a connection between requests (65)'),
  'stalled-timeout': seconds('for a client that takes nothing of its answer (30)'),
  'drain-delay': seconds('after a signal, until no more connections are taken (production: 1, development: 0)', 0),
  'drain-timeout': seconds('after that, for the requests in flight (10)'),
  'max-connections': {
    takes: 'N',
    expects: 'a whole number from 1 to 1000000',
    help: 'connections at once; others get 503 (5000)',
    read: wholeNumber(1, 1_000_000),
  },
  'max-items': {
    takes: 'N',
    expects: 'a whole number from 1 to 100000000',
    help: 'items of a profile in memory (1000000)',
    read: wholeNumber(1, 100_000_000),
  },
  'rate-limit': {
    takes: 'N/s',
    expects: 'a number of requests a second, such as 100/s',
    help: 'requests of one client address; others get 429 (no limit)',
    read: (text: string) => wholeNumber(1, 1_000_000)(/^(\d+)\/s$/.exec(text)?.[1] ?? ''),
  },
  cors: {
    takes: 'ORIGIN',
    many: true,
    expects: 'an origin such as https://app.example.com',
    help: 'origins whose pages may use the service (none)',
    read: readOrigin,
  },
  hsts: toggle('ask browsers for HTTPS from now on, in answers over HTTPS'),
  'metrics-port': {
    takes: 'N',
    expects: 'a whole number from 0 to 65535',
    help: 'port for Prometheus metrics, at /metrics (none)',
    read: wholeNumber(0, 65535),
  },
  'metrics-host': {
    takes: 'HOST',
    expects: 'a host name or an address',
    help: 'where metrics are offered (127.0.0.1)',
    read: hostName,
  },
  'require-auth': toggle('ask for a token on the to-do endpoints too'),
  ...tokenOptions,
} as const satisfies Options

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
    limits: {
      bodyLimit: values['body-limit'] ?? 2 ** 20,
      headerTimeout: 1000 * (values['header-timeout'] ?? 10),
      requestTimeout: 1000 * (values['request-timeout'] ?? 30),
      keepAliveTimeout: 1000 * (values['keep-alive-timeout'] ?? 65),
      stalledTimeout: 1000 * (values['stalled-timeout'] ?? 30),
      drainDelay: 1000 * (values['drain-delay'] ?? (development ? 0 : 1)),
      drainTimeout: 1000 * (values['drain-timeout'] ?? 10),
      maxConnections: values['max-connections'] ?? 5_000,
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

export function publicUrl(text: string): string | undefined {
  if (!/^https?:\/\/[^?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).href.replace(/\/+$/, '')
}
