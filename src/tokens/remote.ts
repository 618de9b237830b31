import { jwksKeys } from './keys.ts'
import type { TrustedKey } from './trust.ts'

const maxAge = 10 * 60_000
/** Beyond this, old keys are used only while there are no newer ones to be had. */
const longestAge = 2 * maxAge
const pauseAfterSuccess = 30_000
const pauseAfterFailure = 10_000
const timeout = 5_000
const sizeLimit = 2 ** 20

export interface RemoteKeys {
  readonly url: string
  /** Milliseconds on a clock that never jumps. */
  readonly ticks: () => number
  /** Told when the keys could not be fetched; the last good ones stay in use. */
  readonly failed: (cause: Error) => void
}

/**
 * Keys from a JWKS address: fetched when they are first needed, again when they are old, and when a token names a key
 * that is not among them, which is how rotated keys are found; with a pause in between, whatever tokens ask for.
 */
export function remoteKeys({
  url,
  ticks,
  failed,
}: RemoteKeys): (kid: string | undefined) => Promise<readonly TrustedKey[]> {
  let keys: readonly TrustedKey[] = []
  let fetchedAt = Number.NEGATIVE_INFINITY
  let pausedUntil = Number.NEGATIVE_INFINITY
  let fetching: Promise<void> | undefined

  async function refresh(): Promise<void> {
    try {
      const fetched = jwksKeys(await fetchText(url))
      if (fetched.length === 0) throw new Error('there is no public key that can be used')
      keys = fetched
      fetchedAt = ticks()
      pausedUntil = fetchedAt + pauseAfterSuccess
    } catch (cause) {
      pausedUntil = ticks() + pauseAfterFailure
      const { message, cause: deeper } = cause as Error
      failed(new Error(`${url}: ${deeper instanceof Error ? deeper.message : message}`))
    } finally {
      fetching = undefined
    }
  }

  return async (kid) => {
    const age = ticks() - fetchedAt
    const isUnknown = kid !== undefined && !keys.some((key) => key.kid === undefined || key.kid === kid)
    if ((age > maxAge || isUnknown) && ticks() > pausedUntil) fetching ??= refresh()
    if (fetching && (isUnknown || age > longestAge)) await fetching
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
