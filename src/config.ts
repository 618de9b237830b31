import { readFileSync } from 'node:fs'
import { type Credentials, faultOf, readCertificate, readPrivateKey } from './http/https.ts'
import { type ProxyTrust, readProxyTrust, trustNobody } from './http/proxy.ts'
import { type LogLevel, logLevels } from './log.ts'
import { anyText, type Given, type Options, oneOf, readOptions, toggle, wholeNumber } from './options.ts'
import type { ProfileName } from './profiles/profile.ts'
import type { TokenConfig } from './tokens/guard.ts'
import { publicKeys } from './tokens/keys.ts'

export type Mode = 'development' | 'production'

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
  /** Undefined: none but development tokens. */
  readonly tokens: TokenConfig | undefined
  readonly clockTolerance: number
}

const modeOption = {
  takes: 'MODE',
  expects: 'development or production',
  help: 'development or production (as NODE_ENV says, else development)',
  read: oneOf('development', 'production'),
} as const

/** What decides on tokens: for the service and for whoever asks why it refuses one. */
export const tokenOptions = {
  mode: modeOption,
  'jwt-key': {
    variable: 'only',
    expects: 'a key of at least 32 bytes in base64',
    help: 'shared key (HS256), in base64, at least 32 bytes',
    read: sharedKey,
  },
  'jwt-public-key': {
    takes: 'FILE',
    expects: 'a file with public keys: PEM or JWKS; RSA, P-256 or Ed25519',
    help: 'public keys, PEM or JWKS (RS256, PS256, ES256, EdDSA)',
    read: fileWith(publicKeys),
  },
  'jwt-jwks': {
    takes: 'URL',
    expects: 'an https URL, or an http URL on this machine',
    help: 'address of public keys, JWKS',
    read: jwksUrl,
  },
  'jwt-issuer': {
    takes: 'ISSUER',
    many: true,
    expects: 'an issuer',
    help: 'issuers whose tokens are accepted',
    read: anyText,
  },
  'jwt-audience': {
    takes: 'AUDIENCE',
    many: true,
    expects: 'an audience',
    help: 'audiences for which tokens are accepted',
    read: anyText,
  },
  'jwt-clock-tolerance': {
    takes: 'SECONDS',
    expects: 'a whole number from 0 to 3600',
    help: 'by how much clocks may differ (60)',
    read: wholeNumber(0, 3600),
  },
} as const satisfies Options

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
  for (const argument of rest) problems.push(`Unexpected argument ${JSON.stringify(argument)}.`)
  const profile = sourceOf('profile') ? values.profile : 'both'
  for (const name of ['port', 'https-port'] as const)
    if (profile === 'both' && sourceOf(name))
      problems.push(`${sourceOf(name)} needs a single profile: add --profile a or --profile b.`)
  const mode = modeOf(values.mode, env)
  const tokens = readTokenConfig(given)
  const https = readHttpsConfig(given, mode, now)
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
    tokens,
    clockTolerance: clockToleranceOf(given),
  }
}

/** What is neither development nor test is production: the strict mode is the one to fall into. */
export const modeOf = (chosen: Mode | undefined, env: NodeJS.ProcessEnv): Mode =>
  chosen ?? (/^(?:development|test)?$/.test(env.NODE_ENV ?? '') ? 'development' : 'production')

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

type TokensGiven = Pick<Given<typeof tokenOptions>, 'values' | 'problems'> & {
  sourceOf(name: keyof typeof tokenOptions): string | undefined
}

export const clockToleranceOf = ({ values }: TokensGiven) => values['jwt-clock-tolerance'] ?? 60

export function readTokenConfig({ values, problems, sourceOf }: TokensGiven): TokenConfig | undefined {
  const [source, ...others] = (['jwt-key', 'jwt-public-key', 'jwt-jwks'] as const).map(sourceOf).filter((s) => s)
  const [issuers, audiences] = [values['jwt-issuer'], values['jwt-audience']]
  if (!source) {
    for (const name of ['jwt-issuer', 'jwt-audience'] as const)
      if (sourceOf(name)) problems.push(`${sourceOf(name)} needs a key: TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.`)
    return undefined
  }
  for (const other of others) problems.push(`${source} and ${other} are both given: keep one.`)
  if (!sourceOf('jwt-issuer')) problems.push(`${source} needs --jwt-issuer: whose tokens are accepted.`)
  if (!sourceOf('jwt-audience')) problems.push(`${source} needs --jwt-audience: for whom tokens are accepted.`)
  const { 'jwt-key': shared, 'jwt-public-key': publicKeys, 'jwt-jwks': url } = values
  const keys = shared ? { shared } : publicKeys ? { publicKeys } : url ? { url } : undefined
  return keys && { keys, issuers, audiences }
}

function sharedKey(text: string): string | undefined {
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(text)
  return isBase64 && Buffer.from(text, 'base64').length >= 32 ? text : undefined
}

/** Reads what a file holds; undefined where it cannot be read or holds something else. */
function fileWith<T>(read: (text: string) => T | undefined): (file: string) => T | undefined {
  return (file) => {
    try {
      return read(readFileSync(file, 'utf8'))
    } catch {
      return undefined
    }
  }
}

function jwksUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, href } = new URL(text)
  const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
  return protocol === 'https:' || (protocol === 'http:' && isLocal) ? href : undefined
}

export function publicUrl(text: string): string | undefined {
  if (!/^https?:\/\/[^?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).href.replace(/\/+$/, '')
}
