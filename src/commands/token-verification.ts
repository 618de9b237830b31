import { randomBytes } from 'node:crypto'
import { configDirectory } from '../config/config-directory.ts'
import type { TokenSettings } from '../config/token-options.ts'
import { type DevKey, devTokenIssuer, readOrCreateDevKey } from '../tokens/dev-key.ts'
import { createRemoteKeys } from '../tokens/remote-keys.ts'
import type { TrustedIssuer, VerifyOptions } from '../tokens/verify.ts'

interface TokenVerification {
  readonly verifyOptions: VerifyOptions
  /** Undefined in production. */
  readonly devKey: DevKey | undefined
  /** For the start message. */
  readonly notes: readonly string[]
}

/** Verify options from the configuration, for `serve` and `token verify`. */
export async function createTokenVerification(
  { mode, tokens, clockToleranceSeconds }: TokenSettings,
  env: NodeJS.ProcessEnv,
  onError: (message: string, error: unknown) => void,
): Promise<TokenVerification> {
  const trustedIssuers: TrustedIssuer[] = []
  const notes: string[] = []
  const directory = configDirectory(env)
  const devKey = mode === 'development' ? await readOrCreateDevKey(directory, randomBytes) : undefined
  if (devKey) {
    trustedIssuers.push(devTokenIssuer(devKey.key))
    notes.push(devKey.isStored ? tokenNote : devKeyNotStored(directory))
  }
  if (tokens) {
    const { issuers, audiences, keys } = tokens
    const remote = {
      monotonicNow: () => performance.now(),
      onError: (error: Error) => onError('Cannot fetch the public keys for tokens', error),
    }
    const getKeys = 'jwksUrl' in keys ? createRemoteKeys({ url: keys.jwksUrl, ...remote }) : async () => keys
    trustedIssuers.push({ keyName: 'configured key', issuers, audiences, keys: getKeys })
  }
  if (trustedIssuers.length === 0) notes.push(noKeyNote)
  return { verifyOptions: { trustedIssuers, now: () => new Date(), clockToleranceSeconds }, devKey, notes }
}

const tokenNote = 'Get a token for /secret and /swagger/v1/swagger.json: npx todo-service token'
const noKeyNote =
  'Protected endpoints return 401 for every request: no key for tokens is configured. Set TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.'

export const devKeyNotStored = (directory: string) =>
  `Cannot store the development key in ${directory}: this process uses a temporary key that no other process has.`
