import { jwksKeys } from './keys.ts'
import type { TrustedKey } from './trust.ts'

const maxAge = 10 * 60_000
const pauseAfterSuccess = 30_000
const pauseAfterFailure = 5_000
const timeout = 5_000
const sizeLimit = 2 ** 20

export interface RemoteKeys {
  readonly url: string
  readonly now: () => Date
  /** Told when the keys could not be fetched; the last good ones stay in use. */
  readonly failed: (cause: unknown) => void
}

/**
 * Keys from a JWKS address: fetched when they are first needed, again when they are old, and when a token names a key
 * that is not among them, which is how rotated keys are found; with a pause in between, whatever tokens ask for.
 */
export function remoteKeys({
  url,
  now,
  failed,
}: RemoteKeys): (kid: string | undefined) => Promise<readonly TrustedKey[]> {
  let keys: readonly TrustedKey[] = []
  let fetchedAt = Number.NEGATIVE_INFINITY
  let triedAt = Number.NEGATIVE_INFINITY
  let fetching: Promise<void> | undefined

  async function refresh(): Promise<void> {
    triedAt = now().getTime()
    try {
      const fetched = jwksKeys(await fetchText(url))
      if (fetched.length === 0) throw new Error(`${url} holds no public key that can be used`)
      keys = fetched
      fetchedAt = triedAt
    } catch (cause) {
      failed(cause)
    } finally {
      fetching = undefined
    }
  }

  return async (kid) => {
    const time = now().getTime()
    const old = time - fetchedAt > maxAge
    const unknown = kid !== undefined && !keys.some((key) => key.kid === kid)
    const pause = fetchedAt === triedAt ? pauseAfterSuccess : pauseAfterFailure
    if ((old || unknown) && time - triedAt > pause) fetching ??= refresh()
    if (fetching && (unknown || keys.length === 0)) await fetching
    return keys
  }
}

async function fetchText(url: string): Promise<string> {
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(timeout) })
  if (!response.ok || !response.body) throw new Error(`${url} answered ${response.status}`)
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body) {
    length += chunk.length
    if (length > sizeLimit) throw new Error(`${url} sent more than ${sizeLimit} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
