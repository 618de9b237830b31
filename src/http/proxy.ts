import { BlockList, isIP } from 'node:net'
import type { Request } from './request.ts'

/** Returns how many of the proxies that passed on the request are trusted. */
export type ProxyTrust = (request: Request) => number

/** Parses a number of hops, or networks such as `10.0.0.0/8,::1`; returns undefined for any other text. */
export function parseProxyTrust(text: string): ProxyTrust | undefined {
  if (/^[1-9]\d?$/.test(text)) return () => Number(text)
  const networks = new BlockList()
  for (const entry of text.split(',')) {
    const [address = '', prefix] = entry.trim().split('/')
    const version = isIP(address)
    const maxBits = version === 4 ? 32 : 128
    const bits = prefix === undefined ? maxBits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.POSITIVE_INFINITY
    if (version === 0 || bits > maxBits) return undefined
    networks.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6')
  }
  return (request) => {
    const hops = [...lastValues(request, 'x-forwarded-for'), request.remoteAddress]
    return hops.length - 1 - hops.findLastIndex((address) => !contains(networks, address))
  }
}

/** Whether a host (of a URL or authority, without the port) is a loopback name or address. */
export const isLoopbackHost = (host: string) => /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/i.test(host)

/** Returns 10.0.0.1 for ::ffff:10.0.0.1, as the kernel writes an IPv4 address on an IPv6 socket. */
export const unmapped = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, '')

function contains(networks: BlockList, text: string): boolean {
  const address = unmapped(text)
  const version = isIP(address)
  return version !== 0 && networks.check(address, version === 4 ? 'ipv4' : 'ipv6')
}

/** Returns the scheme and authority that the client used, as far as trusted proxies report them. */
export function trustedOrigin(request: Request, authority: string | undefined, trust: ProxyTrust) {
  const hops = trust(request)
  if (hops === 0) return { isSecure: request.isEncrypted, authority }
  const scheme = forwarded(request, 'x-forwarded-proto', hops)
  const host = forwarded(request, 'x-forwarded-host', hops)
  return {
    isSecure: scheme ? scheme.toLowerCase() === 'https' : request.isEncrypted,
    authority: host && isAuthority(host) ? host : authority,
  }
}

/** Returns the address of the client, as the outermost trusted proxy saw it. */
export function clientAddress(request: Request, trust: ProxyTrust | undefined): string {
  const hops = trust?.(request) ?? 0
  const client = hops > 0 ? forwarded(request, 'x-forwarded-for', hops) : undefined
  // Copies the address: a slice would keep the whole header in memory as long as the rate limiter knows the client.
  return (client && Buffer.from(client.slice(0, maxAddressLength)).toString()) || unmapped(request.remoteAddress)
}

/** Each proxy appends a value, so the outermost trusted proxy has added the one that is `hops` from the end. */
function forwarded(request: Request, name: string, hops: number): string | undefined {
  const values = lastValues(request, name)
  return values[Math.max(0, values.length - hops)]
}

const maxHops = 100
const maxAddressLength = 100

/** Returns only the last values of a comma-separated header: a client can send thousands. */
function lastValues(request: Request, name: string): string[] {
  const values = request.header(name)?.split(',') ?? []
  return values.slice(-maxHops).map((value) => value.trim())
}

/** Whether this is an authority (RFC 3986, 3.2) without user information. */
export const isAuthority = (text: string) =>
  /^(?:(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})+|\[[\da-fA-F:.]+\])(?::\d*)?$/.test(text)
