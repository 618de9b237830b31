import { isLoopbackHost } from '../http/proxy.ts'
import { parsePublicKeys, parseSharedKey } from '../tokens/keys.ts'
import { anyText, choice, file, integerFrom, many, type Options, option, type ParsedOptions } from './options.ts'

export type Mode = 'development' | 'production'

/** The options of `serve` and `token verify` that decide which tokens are accepted. */
export const tokenOptions = {
  mode: choice(
    'MODE',
    ['development', 'production'],
    'development or production (from NODE_ENV, development if it is not set)',
  ),
  'jwt-key': {
    variable: 'only',
    expects: 'a key of at least 32 bytes in base64',
    help: 'shared key (HS256), at least 32 bytes in base64',
    read: parseSharedKey,
  },
  'jwt-public-key': file(
    'a file with public keys: PEM or JWKS; RSA, P-256 or Ed25519',
    'public keys, PEM or JWKS (RS256, PS256, ES256, EdDSA)',
    parsePublicKeys,
  ),
  'jwt-jwks': option(
    'URL',
    'an https URL, or an http URL on this machine, without credentials',
    'URL of public keys, JWKS',
    parseJwksUrl,
  ),
  'jwt-issuer': many(anyText('ISSUER', 'an issuer', 'accepted issuers')),
  'jwt-audience': many(anyText('AUDIENCE', 'an audience', 'accepted audiences')),
  'jwt-clock-tolerance': integerFrom('SECONDS', 0, 3600, 'accepted clock difference, for tokens of these keys (60)'),
} as const satisfies Options

export const bearerToken = (help: string) => ({
  ...option(
    'TOKEN',
    'a JSON Web Token: three parts with dots between them',
    help,
    (token) => /^[\w-]+\.[\w-]+\.[\w-]+$/.exec(token.trim())?.[0],
  ),
  secret: true as const,
})

/** The clock tolerance applies to tokens that configured keys have signed, not to development tokens. */
export type TokenSettings = Readonly<ReturnType<typeof readTokenSettings>>

type ParsedTokenOptions = Pick<ParsedOptions<typeof tokenOptions>, 'values' | 'problems'> & {
  sourceOf(name: keyof typeof tokenOptions): string | undefined
}

export function readTokenSettings(parsed: ParsedTokenOptions, env: NodeJS.ProcessEnv) {
  const { mode, 'jwt-clock-tolerance': clockToleranceSeconds = 60 } = parsed.values
  // Any other NODE_ENV means production, which is the safe choice.
  const defaultMode: Mode = ['', 'development', 'test'].includes(env.NODE_ENV ?? '') ? 'development' : 'production'
  return { mode: mode ?? defaultMode, tokens: readTokenConfig(parsed), clockToleranceSeconds }
}

/** Returns the keys, issuers and audiences to accept; undefined if only development tokens are accepted. */
function readTokenConfig({ values, problems, sourceOf }: ParsedTokenOptions) {
  const [issuerSource, audienceSource] = [sourceOf('jwt-issuer'), sourceOf('jwt-audience')]
  const [keySource, ...otherKeySources] = [
    sourceOf('jwt-key'),
    sourceOf('jwt-public-key'),
    sourceOf('jwt-jwks'),
  ].filter((source) => source !== undefined)
  if (!keySource) {
    for (const source of [issuerSource, audienceSource])
      if (source) problems.push(`${source} needs a key: TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.`)
    return undefined
  }
  for (const other of otherKeySources) problems.push(`${keySource} and ${other} exclude each other: use one of them.`)
  if (!issuerSource) problems.push(`${keySource} needs --jwt-issuer: the issuers to accept.`)
  if (!audienceSource) problems.push(`${keySource} needs --jwt-audience: the audiences to accept.`)
  const { 'jwt-public-key': file, 'jwt-jwks': jwksUrl, 'jwt-issuer': issuers, 'jwt-audience': audiences } = values
  for (const weakKey of file?.weakKeys ?? [])
    problems.push(`${sourceOf('jwt-public-key')} must not contain a weak key: ${weakKey}.`)
  const keys = values['jwt-key'] ?? file?.keys ?? (jwksUrl ? { jwksUrl } : undefined)
  return keys && { keys, issuers, audiences }
}

function parseJwksUrl(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { protocol, hostname, href, username, password } = new URL(url)
  if (username || password) return undefined
  return protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(hostname)) ? href : undefined
}
