import { parseJwks, type VerificationKey } from './keys.ts'

/** Keys that are older than this are fetched again in the background. */
const maxAgeMs = 10 * 60_000
/** Keys that are older than this are used only if new ones cannot be fetched. */
const maxStaleAgeMs = 20 * 60_000
const minIntervalMs = 30_000
const retryIntervalMs = 10_000
const timeoutMs = 5_000
const maxJwksBytes = 2 ** 20

interface RemoteKeysOptions {
  readonly url: string
  /** Returns the milliseconds of a monotonic clock. */
  readonly monotonicNow: () => number
  /** Called with a sentence for the log if a fetch fails (the last keys stay in use) or a key is too weak. */
  readonly report: (message: string) => void
}

/**
 * Provides keys from a JWKS URL. Fetches them on first use, when they are old, and when a token has an unknown `kid`
 * (key rotation), but never more often than the intervals above, whatever `kid` values clients send.
 */
export function createRemoteKeys({ url, monotonicNow, report }: RemoteKeysOptions) {
  let keys: readonly VerificationKey[] = []
  let reportedWeakKeys = ''
  let fetchedAt = Number.NEGATIVE_INFINITY
  let nextFetchAt = Number.NEGATIVE_INFINITY
  let pendingFetch: Promise<void> | undefined

  async function refresh(): Promise<void> {
    try {
      const fetched = parseJwks(await fetchText(url))
      const weakKeys = fetched.weakKeys.join('; ')
      if (weakKeys !== '' && weakKeys !== reportedWeakKeys) report(`A public key from ${url} is ignored: ${weakKeys}.`)
      reportedWeakKeys = weakKeys
      if (fetched.keys.length === 0) throw new Error('the response contains no usable public key')
      keys = fetched.keys
      fetchedAt = monotonicNow()
      nextFetchAt = fetchedAt + minIntervalMs
    } catch (error) {
      nextFetchAt = monotonicNow() + retryIntervalMs
      report(`Cannot fetch the public keys for tokens from ${url}: ${describeError(error as Error)}.`)
    } finally {
      pendingFetch = undefined
    }
  }

  return async (kid: string | undefined): Promise<readonly VerificationKey[]> => {
    const ageMs = monotonicNow() - fetchedAt
    const isUnknown = kid !== undefined && !keys.some((key) => key.kid === undefined || key.kid === kid)
    if ((ageMs > maxAgeMs || isUnknown) && monotonicNow() > nextFetchAt) pendingFetch ??= refresh()
    if (pendingFetch && (ageMs > maxStaleAgeMs || isUnknown)) await pendingFetch
    return keys
  }
}

/** fetch() reports a network error as "fetch failed"; the details are in the cause, whose message can be empty. */
function describeError({ message, cause }: Error): string {
  if (!(cause instanceof Error)) return message
  return cause.message || `${(cause as NodeJS.ErrnoException).code}`
}

async function fetchText(url: string): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs)
  const response = await fetch(url, { redirect: 'error', signal })
  if (!response.ok || !response.body) throw new Error(`status ${response.status}`)
  const reader = response.body.getReader()
  // Node 20 no longer ends the body on an abort once the Request object is garbage-collected, so the loop awaits both.
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), aborted])
      if (done) return Buffer.concat(chunks).toString()
      bytes += value.length
      if (bytes > maxJwksBytes) throw new Error(`the response is larger than ${maxJwksBytes} bytes`)
      chunks.push(value)
    }
  } finally {
    // An abort after the end would be an unhandled rejection.
    aborted.catch(() => {})
    reader.cancel().catch(() => {})
  }
}
