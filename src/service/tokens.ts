import { type KeyObject, randomBytes } from 'node:crypto'
import type { TokenSettings } from '../config/token-options.ts'
import { type DevKey, devTokenIssuer, readOrCreateDevKey } from '../tokens/dev-key.ts'
import { createRemoteKeys } from '../tokens/remote-keys.ts'
import { signToken, type TokenRequest } from '../tokens/sign.ts'
import type { TokenVerifierOptions, TrustedIssuer } from '../tokens/verify.ts'

export interface TokenVerification {
  readonly verifyOptions: TokenVerifierOptions
  /** The key of development tokens; undefined in production. */
  readonly devKey: DevKey | undefined
  readonly devIssuer: TrustedIssuer | undefined
  /** Lines for the start message. */
  readonly notes: readonly string[]
}

export interface DevTokenSettings {
  /** The clock tolerance for development tokens, which the flag does not set. Default: 0. */
  readonly devClockToleranceSeconds?: number | undefined
  /** The command that creates a development token, for messages. */
  readonly tokenCommand?: string | undefined
}

/** Determines which tokens are accepted. Without a directory, the development key is a new one. */
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

/** Signs a development token with a random id and the times of the real clock. */
export const signDevToken = (key: KeyObject, request: DevTokenRequest = {}) =>
  signToken({ ...request, id: randomBytes(4).toString('hex') }, key, new Date())

/** Creates a token that every service of this user accepts in development mode; returns a message if it cannot. */
export async function createDevToken(directory: string | undefined, request: DevTokenRequest) {
  const { key, storeError } = await readOrCreateDevKey(directory, randomBytes)
  if (storeError === undefined) return signDevToken(key, request)
  return `${storeError}, so no service would accept the token: free disk space or make the directory writable, or set XDG_CONFIG_HOME to another one for this command and the service.`
}
