import type { RequestContext } from './context.ts'
import { isLoopbackHost } from './proxy.ts'
import type { Request } from './request.ts'
import { type Response, withHeaders } from './response.ts'

/** Returns an origin as browsers send it; undefined if the text is not an http or https origin. */
export function parseOrigin(text: string): string | undefined {
  if (!/^https?:\/\/[^/?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).origin
}

/** Origins whose pages may use the service. Credentials (cookies) are never allowed. */
export type CorsPolicy = 'any' | 'loopback' | readonly string[]

/** Matches any scheme, because mobile web views use their own, such as capacitor://localhost. */
const originParts = /^[a-z][a-z\d+.-]*:\/\/(.+?)(?::\d+)?$/i

/** Also accepts names such as app.localhost, which are loopback names (RFC 6761, 6.3). */
function isLoopbackOrigin(origin: string): boolean {
  const [, host = ''] = originParts.exec(origin) ?? []
  return isLoopbackHost(host) || /^(?:[\w-]+\.)+localhost$/i.test(host)
}

/** Whether the policy allows pages of at least one other origin. */
export const allowsOtherOrigins = (policy: CorsPolicy) => policy === 'any' || policy === 'loopback' || policy.length > 0

export const isOriginAllowed = (origin: string, policy: CorsPolicy) =>
  policy === 'any' || (policy === 'loopback' ? isLoopbackOrigin(origin) : policy.includes(origin))

const allowedHeaders = 'Authorization, Content-Type, If-Match, If-None-Match, traceparent'
const exposedHeaders = 'Location, ETag, Retry-After, WWW-Authenticate'

/** Whether this is a CORS preflight (https://fetch.spec.whatwg.org): browsers send it before the request of a page. */
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

/** Says that CORS blocks this origin, and which flag would allow it. */
export function describeBlocked(text: string): string {
  const origin = parseOrigin(text)
  return `Pages from ${origin ?? text.slice(0, 100)} may not use this service; --cors ${origin ?? "'*'"} would allow them.`
}

const maxReportedOrigins = 100

/** Returns a function that reports each blocked origin once. */
export function originReporter(report: (message: string) => void): (origin: string) => void {
  const reported = new Set<string>()
  return (text) => {
    const origin = parseOrigin(text)
    if (origin === undefined || reported.has(origin) || reported.size >= maxReportedOrigins) return
    reported.add(origin)
    report(describeBlocked(origin))
  }
}
