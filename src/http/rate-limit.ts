/** Beyond this, the clients that were idle longest are forgotten. */
const maxClients = 100_000

/** A token bucket for each client, which holds `perSecond` tokens and gets as many each second. */
export function rateLimiter(perSecond: number, monotonicNow: () => number): (client: string) => boolean {
  /** The client that has sent nothing for the longest time is the first. */
  const buckets = new Map<string, { tokens: number; at: number }>()
  return (client) => {
    const now = monotonicNow()
    const { tokens, at } = buckets.get(client) ?? { tokens: perSecond, at: now }
    const refilled = Math.min(perSecond, tokens + ((now - at) / 1000) * perSecond)
    const isAllowed = refilled >= 1
    buckets.delete(client)
    buckets.set(client, { tokens: isAllowed ? refilled - 1 : refilled, at: now })
    if (buckets.size > maxClients) buckets.delete(buckets.keys().next().value as string)
    return isAllowed
  }
}
