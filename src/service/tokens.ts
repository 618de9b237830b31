import { type KeyObject, randomBytes } from 'node:crypto'
import type { TokenSettings } from '../config/token-options.ts'
import { isLoopbackHost } from '../http/proxy.ts'
import { devTokenIssuer, readOrCreateDevKey } from '../tokens/dev-key.ts'
import { createRemoteKeys } from '../tokens/remote-keys.ts'
import { type SignRequest, signToken } from '../tokens/sign.ts'
import type { TrustedIssuer } from '../tokens/verify.ts'

export interface DevTokenSettings {
  /** The clock tolerance for development tokens, which the flag does not set. Default: 0. */
  readonly devClockToleranceSeconds?: number | undefined
  /** The command that creates a development token, for messages. */
  readonly tokenCommand?: string | undefined
}

/**
 * Determines which tokens are accepted. Without a directory, the development key is a new one; in production there is
 * none. The notes are lines for the start message.
 */
export async function createTokenVerification(
  { mode, tokens, clockToleranceSeconds }: TokenSettings,
  directory: string | undefined,
  report: (message: string) => void,
  { devClockToleranceSeconds = 0, tokenCommand = 'npx todo-service token' }: DevTokenSettings = {},
) {
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

/** Signs a development token with a random id and the times of the real clock. */
export const signDevToken = (key: KeyObject, request: Omit<SignRequest, 'id'> = {}) =>
  signToken({ ...request, id: randomBytes(4).toString('hex') }, key, new Date())

/** Creates a token that every service of this user accepts in development mode; returns a message if it cannot. */
export async function createDevToken(directory: string | undefined, request: Omit<SignRequest, 'id'>) {
  const { key, storeError } = await readOrCreateDevKey(directory, randomBytes)
  if (storeError === undefined) return signDevToken(key, request)
  return `${storeError}, so no service would accept the token: free disk space or make the directory writable, or set XDG_CONFIG_HOME to another one for this command and the service.`
}

const responseTimeoutMs = 2_000

/** Creates tokens of two callers for a service in development mode on this machine; undefined for any other server. */
export async function developmentTokens(
  url: string,
  directory: string | undefined,
): Promise<{ readonly token: string; readonly otherToken: string } | undefined> {
  if (!isLoopbackHost(new URL(url).hostname)) return undefined
  const { sendRequest } = await import('./client.ts')
  const succeeds = async (path: string, headers = {}) =>
    sendRequest(`${url}${path}`, { headers, timeoutMs: responseTimeoutMs }).then(
      ({ status }) => status === 200,
      () => false,
    )
  if (!(await succeeds('/__admin/info'))) return undefined
  const create = async (name: string) => {
    const created = await createDevToken(directory, { name })
    return typeof created === 'string' ? '' : created.token
  }
  const [token, otherToken] = [await create('verify'), await create('verify-other')]
  return (await succeeds('/secret', { authorization: `Bearer ${token}` })) ? { token, otherToken } : undefined
}
