import type { RequestContext } from './context.ts'
import { isLoopbackHost } from './proxy.ts'
import type { Request } from './request.ts'
import { type Response, withHeaders } from './response.ts'

/** An origin as browsers send it, or undefined. */
export function parseOrigin(text: string): string | undefined {
  if (!/^https?:\/\/[^/?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).origin
}

/** Origins whose pages may use the service. Credentials (cookies) are never allowed. */
export type CorsPolicy = 'any' | 'loopback' | readonly string[]

/** Any scheme: mobile web views use their own, such as capacitor://localhost. */
const originParts = /^[a-z][a-z\d+.-]*:\/\/(.+?)(?::\d+)?$/i

/** The names below localhost are loopback names, too (RFC 6761, 6.3). */
function isLoopbackOrigin(origin: string): boolean {
  const [, host = ''] = originParts.exec(origin) ?? []
  return isLoopbackHost(host) || /^(?:[\w-]+\.)+localhost$/i.test(host)
}

/** Whether pages of any other origin may use the service. */
export const allowsOtherOrigins = (policy: CorsPolicy) => policy === 'any' || policy === 'loopback' || policy.length > 0

export const isOriginAllowed = (origin: string, policy: CorsPolicy) =>
  policy === 'any' || (policy === 'loopback' ? isLoopbackOrigin(origin) : policy.includes(origin))

const allowedHeaders = 'Authorization, Content-Type, If-Match, If-None-Match, traceparent'
const exposedHeaders = 'Location, ETag, Retry-After, WWW-Authenticate'

/** A CORS-preflight request of https://fetch.spec.whatwg.org, by which a browser asks whether a page may send another one. */
export const isPreflight = (request: Request) =>
  request.method === 'OPTIONS' &&
  request.header('origin') !== undefined &&
  request.header('access-control-request-method') !== undefined

/** Adds the headers that let pages of the allowed origins read the response. */
export function withCors(
  response: Response,
  context: RequestContext,
  policy: CorsPolicy,
  isControlled: boolean,
): Response {
  const { request } = context
  const origin = request.header('origin')
  const headers: Record<string, string> = policy === 'any' ? {} : { vary: 'Origin' }
  if (origin === undefined) return policy === 'any' ? response : withHeaders(response, headers)
  if (isPreflight(request)) {
    headers['access-control-allow-methods'] = response.headers?.allow ?? ''
    headers['access-control-allow-headers'] = `${allowedHeaders}${isControlled ? ', Prefer, X-Todo-Space' : ''}`
    headers['access-control-max-age'] = '600'
  }
  if (isOriginAllowed(origin, policy)) {
    headers['access-control-allow-origin'] = policy === 'any' ? '*' : origin
    headers['access-control-expose-headers'] = `${exposedHeaders}${isControlled ? ', Preference-Applied' : ''}`
  }
  return withHeaders(response, headers)
}

/** What to type, so that pages of this origin may use the service. */
export function describeBlocked(text: string): string {
  const origin = parseOrigin(text)
  return `Pages from ${origin ?? text.slice(0, 100)} may not use this service; --cors ${origin ?? "'*'"} would allow them.`
}

const maxReportedOrigins = 100

/** Reports each origin that is not allowed once. */
export function originReporter(report: (message: string) => void): (origin: string) => void {
  const reported = new Set<string>()
  return (text) => {
    const origin = parseOrigin(text)
    if (origin === undefined || reported.has(origin) || reported.size >= maxReportedOrigins) return
    reported.add(origin)
    report(describeBlocked(origin))
  }
}
