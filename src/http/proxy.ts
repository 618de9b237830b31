import { BlockList, isIP } from 'node:net'
import type { Request } from './request.ts'

/** How many proxies between the client and this service are trusted. */
export type ProxyTrust = (request: Request) => number

/** A hop count, or networks such as `10.0.0.0/8,::1`; undefined where the text is neither. */
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

/** Whether the host of a URL or authority, without its port, is this machine. */
export const isLoopbackHost = (host: string) => /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/i.test(host)

/** An IPv4 address as the kernel shows it on a socket for both versions: ::ffff:10.0.0.1. */
export const unmapped = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, '')

function contains(networks: BlockList, text: string): boolean {
  const address = unmapped(text)
  const version = isIP(address)
  return version !== 0 && networks.check(address, version === 4 ? 'ipv4' : 'ipv6')
}

/** Scheme and authority that the client used, as far as trusted proxies report them. */
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

/** The client's address: the one that the outermost trusted proxy saw. */
export function clientAddress(request: Request, trust: ProxyTrust | undefined): string {
  const hops = trust?.(request) ?? 0
  const client = hops > 0 ? forwarded(request, 'x-forwarded-for', hops) : undefined
  // A copy: a slice of the header would keep the whole header in memory for as long as the rate limiter remembers it.
  return (client && Buffer.from(client.slice(0, maxAddressLength)).toString()) || unmapped(request.remoteAddress)
}

/** Each proxy appends what it saw, so the outermost trusted one stands `hops` from the end. */
function forwarded(request: Request, name: string, hops: number): string | undefined {
  const values = lastValues(request, name)
  return values[Math.max(0, values.length - hops)]
}

const maxHops = 100
const maxAddressLength = 100

/** The last values of a comma-separated header; a client can send thousands in front of them. */
function lastValues(request: Request, name: string): string[] {
  const values = request.header(name)?.split(',') ?? []
  return values.slice(-maxHops).map((value) => value.trim())
}

/** RFC 3986, 3.2, without user information. */
export const isAuthority = (text: string) =>
  /^(?:(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})+|\[[\da-fA-F:.]+\])(?::\d*)?$/.test(text)
