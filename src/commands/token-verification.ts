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
  report: (message: string) => void,
): Promise<TokenVerification> {
  const trustedIssuers: TrustedIssuer[] = []
  const notes: string[] = []
  const directory = configDirectory(env)
  const devKey = mode === 'development' ? await readOrCreateDevKey(directory, randomBytes) : undefined
  if (devKey) {
    trustedIssuers.push(devTokenIssuer(devKey.key))
    notes.push(devKey.storeError ? temporaryKeyNote(directory, devKey.storeError) : tokenNote)
  }
  if (tokens) {
    const { issuers, audiences, keys } = tokens
    const getKeys =
      'jwksUrl' in keys
        ? createRemoteKeys({ url: keys.jwksUrl, monotonicNow: () => performance.now(), report })
        : async () => keys
    trustedIssuers.push({ keyName: 'configured key', issuers, audiences, keys: getKeys })
  }
  if (trustedIssuers.length === 0) notes.push(noKeyNote)
  return { verifyOptions: { trustedIssuers, now: () => new Date(), clockToleranceSeconds }, devKey, notes }
}

const tokenNote = 'Get a token for /secret and /swagger/v1/swagger.json: npx todo-service token'
const noKeyNote =
  'Protected endpoints return 401 for every request: no key for tokens is configured. Set TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.'

/** The message of a file system error continues with the system call and the path. */
export const devKeyNotStored = (directory: string, { message }: Error) =>
  `Cannot store the development key in ${directory} (${message.split(',', 1)})`

const temporaryKeyNote = (directory: string, error: Error) =>
  `${devKeyNotStored(directory, error)}: this process uses a temporary key that no other process has.`
