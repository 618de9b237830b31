import { type KeyObject, randomBytes } from 'node:crypto'
import type { TokenSettings } from '../config/token-options.ts'
import { type DevKey, devTokenIssuer, readOrCreateDevKey } from '../tokens/dev-key.ts'
import { createRemoteKeys } from '../tokens/remote-keys.ts'
import { signToken, type TokenRequest } from '../tokens/sign.ts'
import type { TokenVerifierOptions, TrustedIssuer } from '../tokens/verify.ts'

export interface TokenVerification {
  readonly verifyOptions: TokenVerifierOptions
  /** Undefined in production. */
  readonly devKey: DevKey | undefined
  readonly devIssuer: TrustedIssuer | undefined
  /** The start message shows these. */
  readonly notes: readonly string[]
}

export interface DevTokenSettings {
  /** 0, where absent; that of other tokens is in the configuration. */
  readonly devClockToleranceSeconds?: number | undefined
  /** The command that makes one, to be shown. */
  readonly tokenCommand?: string | undefined
}

/** Which tokens are accepted. Without a directory, the development key is a new one. */
export async function createTokenVerification(
  { mode, tokens, clockToleranceSeconds }: TokenSettings,
  directory: string | undefined,
  report: (message: string) => void,
  { devClockToleranceSeconds = 0, tokenCommand = 'npx todo-service token' }: DevTokenSettings = {},
): Promise<TokenVerification> {
  const trustedIssuers: TrustedIssuer[] = []
  const notes: string[] = []
  const devKey = mode === 'development' ? await readOrCreateDevKey(directory, randomBytes) : undefined
  const devIssuer = devKey && devTokenIssuer(devKey.key, devClockToleranceSeconds)
  if (devIssuer) {
    trustedIssuers.push(devIssuer)
    notes.push(
      devKey.storeError
        ? `${devKey.storeError}: this process uses a temporary key that no other process has.`
        : `Get a token for /secret and /swagger/v1/swagger.json: ${tokenCommand}`,
    )
  }
  if (tokens) {
    const { issuers, audiences, keys } = tokens
    const getKeys =
      'jwksUrl' in keys
        ? createRemoteKeys({ url: keys.jwksUrl, monotonicNow: () => performance.now(), report })
        : async () => keys
    trustedIssuers.push({ keyName: 'configured key', issuers, audiences, clockToleranceSeconds, keys: getKeys })
  }
  if (trustedIssuers.length === 0) notes.push(noKeyNote)
  return { verifyOptions: { trustedIssuers, now: () => new Date() }, devKey, devIssuer, notes }
}

const noKeyNote =
  'Protected endpoints return 401 for every request: no key for tokens is configured. Set TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.'

export { maxValidForSeconds } from '../tokens/sign.ts'

export type DevTokenRequest = Omit<TokenRequest, 'id'>

/** A development token with an id of its own; its times are those of the real clock. */
export const signDevToken = (key: KeyObject, request: DevTokenRequest = {}) =>
  signToken({ ...request, id: randomBytes(4).toString('hex') }, key, new Date())

/** A token that each service of this user accepts in development mode; or an error message. */
export async function createDevToken(directory: string | undefined, request: DevTokenRequest) {
  const { key, storeError } = await readOrCreateDevKey(directory, randomBytes)
  if (storeError === undefined) return signDevToken(key, request)
  return `${storeError}, so no service would accept the token: free disk space or make the directory writable, or set XDG_CONFIG_HOME to another one for this command and the service.`
}
