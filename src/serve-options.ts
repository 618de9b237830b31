import { databaseUrlForm, readDatabaseUrl } from './database-url.ts'
import { readCertificate, readPrivateKey } from './http/https.ts'
import { readOrigin } from './http/origin.ts'
import { readProxyTrust } from './http/proxy.ts'
import { logLevels } from './log.ts'
import { fileWith, type Options, oneOf, toggle, wholeNumber } from './options.ts'
import { tokenOptions } from './token-config.ts'

const hostName = (text: string) => /^(?:[\w.:%-]+|\[[\da-f:]+\])$/i.exec(text)?.[0].replace(/[[\]]/g, '')

const seconds = (what: string, least = 1) => ({
  takes: 'SECONDS',
  expects: `a whole number from ${least} to 3600`,
  help: `how long to wait ${what}`,
  read: wholeNumber(least, 3600),
})

/** What `serve` can be told. */
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
    help: 'connections at once; others get 503 (12000)',
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

export function publicUrl(text: string): string | undefined {
  if (!/^https?:\/\/[^?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).href.replace(/\/+$/, '')
}
