import type { RequestContext } from './request.ts'
import { type Response, withHeaders } from './response.ts'

/** An origin as browsers send it, or undefined. */
export function parseOrigin(text: string): string | undefined {
  if (!/^https?:\/\/[^/?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).origin
}

/** Adds the headers that let pages of these origins read the response. */
export function withCors(response: Response, context: RequestContext, origins: readonly string[]): Response {
  const origin = context.request.header('origin')
  const isPreflight =
    context.method === 'OPTIONS' && context.request.header('access-control-request-method') !== undefined
  return withHeaders(response, {
    ...(isPreflight && {
      'access-control-allow-methods': response.headers?.allow ?? '',
      'access-control-allow-headers': 'Authorization, Content-Type, If-Match, If-None-Match, traceparent',
      'access-control-max-age': '600',
    }),
    vary: 'Origin',
    ...(origin !== undefined &&
      origins.includes(origin) && {
        'access-control-allow-origin': origin,
        'access-control-expose-headers': 'Location, ETag, Retry-After, WWW-Authenticate',
      }),
  })
}
