import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { header } from './header.ts'

/** How many proxies stand between the client and this service that may be believed. */
export type ProxyTrust = (request: IncomingMessage) => number

export const trustNobody: ProxyTrust = () => 0

/** A hop count, or networks such as `10.0.0.0/8,::1`; undefined where the text is neither. */
export function readProxyTrust(text: string): ProxyTrust | undefined {
  if (/^[1-9]\d?$/.test(text)) return () => Number(text)
  const networks = new BlockList()
  for (const entry of text.split(',')) {
    const [address = '', prefix] = entry.trim().split('/')
    const version = isIP(address)
    const bits =
      prefix === undefined ? (version === 4 ? 32 : 128) : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Infinity
    if (version === 0 || bits > (version === 4 ? 32 : 128)) return undefined
    networks.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6')
  }
  return (request) => {
    const way = [...listed(request, 'x-forwarded-for'), request.socket.remoteAddress ?? '']
    const stranger = way.findLastIndex((address) => !isAmong(networks, address))
    return way.length - 1 - stranger
  }
}

function isAmong(networks: BlockList, text: string): boolean {
  const address = text.replace(/^::ffff:(?=\d+\.)/i, '')
  const version = isIP(address)
  return version !== 0 && networks.check(address, version === 4 ? 'ipv4' : 'ipv6')
}

export interface Reached {
  readonly isSecure: boolean
  /** The authority that the client named; undefined where it named none. */
  readonly host: string | undefined
}

/** How the client reached this service, as far as trusted proxies tell. */
export function reachedBy(request: IncomingMessage, trust: ProxyTrust): Reached {
  const hops = trust(request)
  const isEncrypted = (request.socket as Partial<TLSSocket>).encrypted === true
  if (hops === 0) return { isSecure: isEncrypted, host: header(request, 'host') }
  const scheme = handedOn(request, 'x-forwarded-proto', hops)
  const host = handedOn(request, 'x-forwarded-host', hops)
  return {
    isSecure: scheme ? scheme.toLowerCase() === 'https' : isEncrypted,
    host: host && isAuthority(host) ? host : header(request, 'host'),
  }
}

/** Whose request it is: the address that the outermost trusted proxy saw. */
export function clientOf(request: IncomingMessage, trust: ProxyTrust): string {
  const hops = trust(request)
  const client = hops > 0 ? handedOn(request, 'x-forwarded-for', hops) : undefined
  // It may be remembered: a part of a string would keep the whole header alive.
  return (client && Buffer.from(client.slice(0, longestAddress)).toString()) || (request.socket.remoteAddress ?? '')
}

/** Each proxy adds what it saw at the end: the outermost trusted one saw the client. */
function handedOn(request: IncomingMessage, name: string, hops: number): string | undefined {
  const values = listed(request, name)
  return values[Math.max(0, values.length - hops)]
}

/** Nobody has more proxies than that, or an address that is longer. */
const mostHops = 100
const longestAddress = 100

/** What proxies have added, the last ones of them. */
function listed(request: IncomingMessage, name: string): string[] {
  const values = request.headersDistinct[name] ?? []
  const found: string[] = []
  for (let text = values.join(','), comma = text.length; values.length > 0 && comma >= 0 && found.length < mostHops; ) {
    text = text.slice(0, comma)
    comma = text.lastIndexOf(',')
    found.unshift(text.slice(comma + 1).trim())
  }
  return found
}

export function isAuthority(host: string): boolean {
  if (host === lastAuthority) return true
  const isOne = /^(?:(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})+|\[[\da-fA-F:.]+\])(?::\d*)?$/.test(host)
  if (isOne) lastAuthority = host
  return isOne
}

/** Clients name the same one over and over. */
let lastAuthority: string | undefined
