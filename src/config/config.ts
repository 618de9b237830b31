import type { Fault } from '../control/schema.ts'
import { type CorsPolicy, parseOrigin } from '../http/cors.ts'
import { parseProxyTrust } from '../http/proxy.ts'
import { logLevels } from '../log.ts'
import type { ProfileName } from '../profiles/profile.ts'
import { findCredentialsError, readCertificate, readPrivateKey } from '../server/dev-certificate.ts'
import type { Runtime } from '../server/runtime.ts'
import { databaseUrlFormat, readDatabaseUrl } from '../store/postgres/url.ts'
import {
  choice,
  file,
  fileName,
  integerFrom,
  many,
  notThis,
  type Options,
  option,
  type ParsedOptions,
  readInteger,
  readOptions,
  rejectArguments,
  toggle,
  unknownVariables,
} from './options.ts'
import { bearerToken, type Mode, readTokenSettings, type TokenSettings, tokenOptions } from './token-options.ts'

function readBaseUrl(url: string): string | undefined {
  if (!/^https?:\/\/[^?#@]+$/i.test(url) || !URL.canParse(url)) return undefined
  return new URL(url).href.replace(/\/+$/, '')
}

const baseUrlFormat = 'an http or https URL without credentials, query or fragment'
export const baseUrl = (help: string) => option('URL', baseUrlFormat, help, readBaseUrl)

/** Reads the URL of a server; adds a problem and returns an empty text if it is invalid. */
export function readServerUrl(sent: string, problems: string[]): string {
  const url = readBaseUrl(sent)
  if (url === undefined) problems.push(`The URL must be ${baseUrlFormat}${notThis(sent)}.`)
  else if (!/\/api\/todoitems$/i.test(url)) return url
  else problems.push('The URL must be that of the server, without /api/todoitems.')
  return ''
}

const host = (help: string) =>
  option('HOST', 'a host name or an address', help, (name) =>
    /^(?:[\w.:%-]+|\[[\da-f:]+\])$/i.exec(name)?.[0].replace(/[[\]]/g, ''),
  )
const port = (help: string, min = 0) => integerFrom('N', min, 65535, help)
const units: Record<string, number> = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 }
const size = (min: number, max: number, help: string) =>
  option('SIZE', `a number of bytes from ${min} to ${max}, such as 100000, 512k, 64m or 2g`, help, (text) => {
    const [, number = '', unit = ''] = /^(\d+)([kmg]?)$/i.exec(text) ?? []
    const bytes = Number(number) * (units[unit.toLowerCase()] ?? 1)
    return number !== '' && bytes >= min && bytes <= max ? bytes : undefined
  })
const seconds = (help: string, min = 1) => integerFrom('SECONDS', min, 3600, help)

const headersTimeoutMs = 10_000
/** A connection is closed if its client reads nothing of a response for this long. */
const stalledTimeoutMs = 30_000
const maxSpaces = 1_000

export const serveOptions = {
  profile: choice('a|b|both', ['a', 'b', 'both'], 'contract to serve (both)'),
  host: host('address to listen on (development: localhost; production: all interfaces)'),
  port: port('HTTP port of a single profile, 0 for any free port (A: 5080, B: 5000)'),
  'port-a': port('HTTP port of Profile A, beside Profile B (5080)'),
  'port-b': port('HTTP port of Profile B, beside Profile A (5000)'),
  workers: option(
    'N|auto',
    'a whole number from 1 to 64, or auto',
    'number of processes behind the ports, auto for one per core; not with items in memory (1)',
    (count): number | 'auto' | undefined => (count === 'auto' ? count : readInteger(1, 64)(count)),
  ),
  'base-url': baseUrl('public URL for Location headers (scheme and host of the request)'),
  'body-limit': size(1, 2 ** 28, 'maximum size of a request body (1m)'),
  'log-level': choice('LEVEL', logLevels, 'what to log, see below (development: info; production: error)'),
  'log-format': choice('text|json', ['text', 'json'], 'format of the log (development: text; production: json)'),
  'https-port': port('HTTPS port of a single profile, 0 for any free port (A: 5081, B: 5001)'),
  'https-port-a': port('HTTPS port of Profile A, beside Profile B (5081)'),
  'https-port-b': port('HTTPS port of Profile B, beside Profile A (5001)'),
  'no-https': toggle('disable HTTPS in development'),
  'tls-cert': file(
    'a readable file with a certificate in PEM form',
    'certificate for HTTPS, PEM (development: self-signed)',
    readCertificate,
  ),
  'tls-key': file(
    'a readable file with a private key in PEM form, without passphrase',
    'private key of the certificate, PEM',
    readPrivateKey,
  ),
  'https-redirect-port': port(
    'port to which production redirects HTTP, if a load balancer terminates TLS (the HTTPS port)',
    1,
  ),
  'trust-proxy': option(
    'HOPS|NETWORKS',
    'a number of hops from 1 to 99, or networks such as 10.0.0.0/8,::1',
    'trust X-Forwarded-* from this many proxies, or from these networks (none)',
    parseProxyTrust,
  ),
  data: fileName('SQLite file for the items, created if missing (none: items are in memory)'),
  items: fileName('JSON file with the items to start with in memory, as items export writes it (A: none, B: three)'),
  'database-url': {
    ...option(
      'URL',
      databaseUrlFormat,
      'PostgreSQL database for the items (none: items are in memory)',
      readDatabaseUrl,
    ),
    secret: true,
  },
  'database-schema': option(
    'NAME',
    'a lower-case name of at most 63 letters, digits and underscores that does not begin with pg_',
    'schema of the tables, created if missing (todo)',
    (name) => /^(?!pg_)[a-z_][a-z\d_]{0,62}$/.exec(name)?.[0],
  ),
  'wait-for-database': toggle('keep retrying if the database is unavailable at startup'),
  'request-timeout': seconds('how long to wait for a whole request (30)'),
  'keep-alive-timeout': seconds('how long to keep an idle connection open (65)'),
  'drain-delay': seconds('how long to accept connections after a signal (production: 1, development: 0)', 0),
  'drain-timeout': seconds('how long to wait after that for requests in flight (10)'),
  'max-connections': integerFrom('N', 1, 1_000_000, 'maximum number of open connections; further ones get 503 (12000)'),
  'max-items': integerFrom('N', 1, 100_000_000, 'maximum number of items in memory, per profile (1000000)'),
  'max-memory': size(
    2 ** 10,
    2 ** 40,
    'maximum memory for the items of all profiles (a quarter of the heap limit of Node)',
  ),
  'rate-limit': option(
    'N/s',
    'a number of requests a second, such as 100/s',
    'maximum request rate per IPv4 address or IPv6 /64; further requests get 429 (no limit)',
    (rate) => readInteger(1, 1_000_000)(/^(\d+)\/s$/.exec(rate)?.[1] ?? ''),
  ),
  cors: many(
    option(
      'ORIGIN',
      'an origin such as https://app.example.com, * or none',
      'origins whose pages may use the service, * for any (development: loopback; production: none)',
      (origin) => (origin === '*' || origin === 'none' ? origin : parseOrigin(origin)),
    ),
  ),
  hsts: toggle('send Strict-Transport-Security in responses over HTTPS'),
  'metrics-port': port('port for Prometheus metrics at /metrics (none)'),
  'metrics-host': host('address of the metrics port (127.0.0.1)'),
  'require-auth': toggle('require a token for the to-do endpoints too'),
  'no-admin': toggle('development: disable the control API, spaces and faults'),
  spaces: choice(
    'path|caller|none',
    ['path', 'caller', 'none'],
    'items of their own for each /~NAME, or for each token, or for nobody (development: path; production: none)',
  ),
  'space-ttl': seconds('development: how long to keep a space in memory without requests (600)'),
  delay: option('MS', 'milliseconds, such as 300 or 100-800', 'development: delay every response (none)', parseDelay),
  fault: many(
    option(
      'FAULT',
      'a fault such as 10% or POST:20% or POST:503:20%',
      'development: let a share of the requests fail, [METHOD:][STATUS:]SHARE% (none)',
      parseFault,
    ),
  ),
  seed: integerFrom('N', 0, 2 ** 32 - 1, 'development: repeat random numbers and ids exactly (random)'),
  now: option(
    'TIME',
    'a time such as 2026-01-01T00:00:00Z',
    'development: stop the clock of forecast and journal at this time (the time of day)',
    parseTime,
  ),
  ...tokenOptions,
} as const satisfies Options

type ParsedServeOptions = ParsedOptions<typeof serveOptions>
type OptionName = keyof typeof serveOptions

export function readConfig(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  now: Date,
  runtime?: Pick<Runtime, 'nameAndVersion' | 'findProblem'>,
): Config | { problems: string[] } {
  const parsed = readCommandLine(serveOptions, args, env)
  const { values, problems, sourceOf } = parsed
  const ports = readPorts(parsed)
  const tokenSettings = readTokenSettings(parsed, env)
  const https = readHttpsConfig(parsed, tokenSettings.mode, now)
  rejectContradictions(parsed, tokenSettings.mode)
  for (const [name, value] of Object.entries(runtime ? values : {})) {
    const source = sourceOf(name as OptionName)
    const problem = source && runtime?.findProblem(name, value)
    if (problem) problems.push(`The service runs on ${runtime?.nameAndVersion}, and ${source} ${problem}.`)
  }
  return problems.length > 0 ? { problems } : configOf(values, tokenSettings, ports, https)
}

/** Reads flags, variables and arguments. Arguments beyond `maxArguments` and unknown TODO_ variables are mistakes. */
export function readCommandLine<O extends Options>(
  options: O,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  maxArguments = 0,
): ParsedOptions<O> {
  const parsed = readOptions(options, args, env)
  rejectArguments(parsed.rest.slice(maxArguments), parsed.problems)
  parsed.problems.push(...findUnknownVariables(env))
  return parsed
}

const neededOptions = [
  ['database-schema', 'database-url'],
  ['wait-for-database', 'database-url'],
  ['metrics-host', 'metrics-port'],
] as const

function rejectContradictions(parsed: ParsedServeOptions, mode: Mode): void {
  const { values, problems, sourceOf } = parsed
  rejectBoth(parsed, 'data', 'database-url')
  for (const name of ['data', 'database-url'] as const)
    if (sourceOf('items') && sourceOf(name))
      problems.push(
        `${sourceOf('items')} is for items in memory: with ${sourceOf(name)}, use the command "items import".`,
      )
  for (const [name, needed] of neededOptions)
    if (sourceOf(name) && !sourceOf(needed)) problems.push(`${sourceOf(name)} needs --${needed}.`)
  if (values.cors.length > 1 && values.cors.some((origin) => origin === '*' || origin === 'none'))
    problems.push(`${sourceOf('cors')} must be origins, or * or none alone.`)
  const isDevelopment = mode === 'development'
  if (values.spaces === 'path' && (!isDevelopment || values['no-admin']))
    problems.push(
      `${sourceOf('spaces')} path is for development mode with the control API: anybody can name any space. Use caller.`,
    )
  if (isDevelopment && values['no-admin'])
    for (const name of ['space-ttl', 'delay', 'fault'] as const) rejectBoth(parsed, 'no-admin', name)
  if (values.workers === undefined || values.workers === 1) return
  if (!sourceOf('data') && !sourceOf('database-url'))
    problems.push(`${sourceOf('workers')} needs --data or --database-url: processes cannot share items in memory.`)
  if (isDevelopment && !values['no-admin'])
    problems.push(
      `${sourceOf('workers')} needs --mode production or --no-admin: the control API works on a single process.`,
    )
}

function rejectBoth({ problems, sourceOf }: ParsedServeOptions, a: OptionName, b: OptionName): void {
  if (sourceOf(a) && sourceOf(b)) problems.push(`${sourceOf(a)} and ${sourceOf(b)} contradict each other.`)
}

export type Config = Readonly<ReturnType<typeof configOf>>

function configOf(
  values: ParsedServeOptions['values'],
  tokenSettings: TokenSettings,
  ports: ReturnType<typeof readPorts>,
  https: ReturnType<typeof readHttpsConfig>,
) {
  const isDevelopment = tokenSettings.mode === 'development'
  return {
    profiles: profileNames.filter((name) => values.profile === name || (values.profile ?? 'both') === 'both'),
    ...tokenSettings,
    // Undefined means all interfaces.
    host: values.host ?? (isDevelopment ? 'localhost' : undefined),
    ports,
    baseUrl: values['base-url'],
    maxBodyBytes: values['body-limit'] ?? 2 ** 20,
    limits: {
      headersTimeoutMs,
      requestTimeoutMs: 1000 * (values['request-timeout'] ?? 30),
      keepAliveTimeoutMs: 1000 * (values['keep-alive-timeout'] ?? 65),
      stalledTimeoutMs,
      drainDelayMs: 1000 * (values['drain-delay'] ?? (isDevelopment ? 0 : 1)),
      drainTimeoutMs: 1000 * (values['drain-timeout'] ?? 10),
      maxConnections: values['max-connections'] ?? 12_000,
    },
    workers: values.workers ?? 1,
    maxItems: values['max-items'] ?? 1_000_000,
    maxMemoryBytes: values['max-memory'],
    maxRequestsPerSecond: values['rate-limit'],
    cors: readCorsPolicy(values.cors, isDevelopment),
    hsts: values.hsts ?? false,
    metricsPort: values['metrics-port'],
    metricsHost: values['metrics-host'] ?? '127.0.0.1',
    logLevel: values['log-level'] ?? (isDevelopment ? 'info' : 'error'),
    logFormat: values['log-format'] ?? (isDevelopment ? 'text' : 'json'),
    spaces: values.spaces ?? (isDevelopment && !values['no-admin'] ? 'path' : 'none'),
    // With `--spaces caller` the token selects the space, so every request needs one.
    requireAuth: values.spaces === 'caller' || (values['require-auth'] ?? false),
    // Undefined means no control API, no spaces by path and no faults.
    control: isDevelopment && !values['no-admin'] ? readControlSettings(values) : undefined,
    seed: isDevelopment ? values.seed : undefined,
    now: isDevelopment ? values.now : undefined,
    https,
    httpsRedirectPort: values['https-redirect-port'],
    trustProxy: values['trust-proxy'],
    dataFile: values.data,
    itemsFile: values.items,
    database: values['database-url'],
    databaseSchema: values['database-schema'] ?? 'todo',
    waitForDatabase: values['wait-for-database'] ?? false,
  }
}

const profileNames = ['a', 'b'] as const

/** Reports TODO_ variables that no command reads. */
export const findUnknownVariables = (env: NodeJS.ProcessEnv) =>
  unknownVariables({ ...serveOptions, token: bearerToken(''), 'other-token': bearerToken('') }, env)

/** Returns both ports of each profile (undefined: its default), each with the name of the flag that sets it. */
function readPorts(parsed: ParsedServeOptions) {
  const { values, problems, sourceOf } = parsed
  // An invalid --profile is reported once, not also as a conflict with a port.
  const profile = sourceOf('profile') ? values.profile : 'both'
  const seen = new Map<number, string>()
  const check = (name: OptionName, port: number | undefined) => {
    const source = sourceOf(name)
    if (!source || !port) return
    if (seen.has(port)) problems.push(`${seen.get(port)} and ${source} must differ.`)
    seen.set(port, source)
  }
  const read = (kind: 'port' | 'https-port', name: ProfileName) => {
    const own = `${kind}-${name}` as const
    const source = sourceOf(own)
    if (profile && profile !== 'both') rejectBoth(parsed, profile === name ? kind : 'profile', own)
    check(own, values[own])
    return { port: values[own] ?? values[kind], flag: source || profile === 'both' ? own : kind }
  }
  for (const kind of ['port', 'https-port'] as const) {
    if (profile === 'both' && sourceOf(kind))
      problems.push(
        `${sourceOf(kind)} needs a single profile: add --profile a or --profile b, or use --${kind}-a and --${kind}-b.`,
      )
    check(kind, values[kind])
  }
  const portsOf = (name: ProfileName) => ({ http: read('port', name), https: read('https-port', name) })
  return { a: portsOf('a'), b: portsOf('b') }
}

function parseDelay(text: string): Fault | undefined {
  const [, min = '', max = min] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? []
  if (min === '' || Number(min) > Number(max)) return undefined
  return { delay: Number(min), ...(min !== max && { maxDelay: Number(max) }) }
}

function parseFault(text: string): Fault | undefined {
  const [, method, code, share] = /^(?:([A-Z]+):)?(?:(\d{3}):)?(\d{1,3}(?:\.\d+)?)%$/.exec(text) ?? []
  if (share === undefined || Number(share) > 100) return undefined
  return { share: Number(share) / 100, ...(method && { method }), ...(code && { code: Number(code) }) }
}

function parseTime(text: string): Date | undefined {
  const time = new Date(text)
  return /^\d{4}-\d\d-\d\dT/.test(text) && !Number.isNaN(time.getTime()) ? time : undefined
}

const readControlSettings = (values: ParsedServeOptions['values']) => ({
  faults: [
    ...values.fault.map((fault) => ({ ...fault, flag: '--fault' as const })),
    ...(values.delay ? [{ ...values.delay, flag: '--delay' as const }] : []),
  ],
  maxSpaces,
  spaceTtlMs: 1000 * (values['space-ttl'] ?? 600),
})

function readCorsPolicy(cors: readonly string[], isDevelopment: boolean): CorsPolicy {
  if (cors.length === 0) return isDevelopment ? 'loopback' : []
  return cors.includes('*') ? 'any' : cors.filter((origin) => origin !== 'none')
}

function readHttpsConfig({ values, problems, sourceOf }: ParsedServeOptions, mode: Mode, now: Date) {
  const [cert, key] = [sourceOf('tls-cert'), sourceOf('tls-key')]
  const port = sourceOf('https-port') ?? sourceOf('https-port-a') ?? sourceOf('https-port-b')
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
  const error = credentials && findCredentialsError(credentials, now)
  if (error) problems.push(error)
  return mode === 'development' || credentials ? { credentials } : undefined
}
