import { anyText, fileWith, type Given, type Options, oneOf, wholeNumber } from './options.ts'
import type { TokenConfig } from './tokens/guard.ts'
import { publicKeys } from './tokens/keys.ts'

export type Mode = 'development' | 'production'

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
    expects: 'an https URL, or an http URL on this machine, without credentials',
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

/** What is neither development nor test is production: the strict mode is the one to fall into. */
export const modeOf = (chosen: Mode | undefined, env: NodeJS.ProcessEnv): Mode =>
  chosen ?? (/^(?:development|test)?$/.test(env.NODE_ENV ?? '') ? 'development' : 'production')

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

function jwksUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, href, username, password } = new URL(text)
  if (username || password) return undefined
  const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
  return protocol === 'https:' || (protocol === 'http:' && isLocal) ? href : undefined
}
