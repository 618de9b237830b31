/** How many clients are remembered; beyond that, those that asked longest ago are forgotten. */
const mostClients = 100_000

/** Lets each client ask so many times a second, and as often at once. */
export function rateLimiter(perSecond: number, ticks: () => number): (client: string) => boolean {
  /** What each client has left, and when that was so; whoever asked last stands last. */
  const clients = new Map<string, { left: number; at: number }>()
  return (client) => {
    const now = ticks()
    const before = clients.get(client) ?? { left: perSecond, at: now }
    const left = Math.min(perSecond, before.left + ((now - before.at) / 1000) * perSecond)
    const isAllowed = left >= 1
    clients.delete(client)
    clients.set(client, { left: isAllowed ? left - 1 : left, at: now })
    if (clients.size > mostClients) clients.delete(clients.keys().next().value as string)
    return isAllowed
  }
}
