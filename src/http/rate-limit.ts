import { isIPv6 } from 'node:net'
import { unmapped } from './proxy.ts'

/** Above this number of clients, the one that was idle for the longest time is forgotten. */
const maxClients = 100_000

/** Limits requests by a token bucket for each client, which holds `perSecond` tokens and is refilled each second. */
export function rateLimiter(perSecond: number, monotonicNow: () => number): (address: string) => boolean {
  /** The client that was idle for the longest time comes first. */
  const buckets = new Map<string, { tokens: number; at: number }>()
  return (address) => {
    const client = networkOf(unmapped(address))
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

/** Returns the /64 network of an IPv6 address, because a client usually has all addresses of its network. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address
  const [left = [], right = []] = address.split('::').map((groups) => groups.split(':').filter(Boolean))
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0')
  const network = [...left, ...zeros, ...right].slice(0, 4)
  return network.map((group) => Number.parseInt(group, 16)).join(':')
}
