import { type Database, databaseUrlForm, readDatabaseUrl } from './database-url.ts'
import { type Credentials, faultOf, readCertificate, readPrivateKey } from './http/https.ts'
import { type ProxyTrust, readProxyTrust, trustNobody } from './http/proxy.ts'
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
  readonly bodyLimit: number
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
    read: (text: string) => /^(?:[\w.:%-]+|\[[\da-f:]+\])$/i.exec(text)?.[0].replace(/[[\]]/g, ''),
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
  if (problems.length > 0) return { problems }
  const development = mode === 'development'
  return {
    profiles: (['a', 'b'] as const).filter((name) => profile === name || profile === 'both'),
    mode,
    host: values.host ?? (development ? 'localhost' : undefined),
    port: values.port,
    baseUrl: values['base-url'],
    bodyLimit: values['body-limit'] ?? 2 ** 20,
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
