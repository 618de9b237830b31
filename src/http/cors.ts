import { type Answer, withHeaders } from './answer.ts'

const exposed = 'Location, ETag, Retry-After, WWW-Authenticate'
const allowed = 'Authorization, Content-Type, If-Match, If-None-Match, traceparent'

/** What an answer says to a page of another origin; nothing to an origin that is not on the list. */
export function crossOrigin(answer: Answer, origin: string | undefined, origins: readonly string[]): Answer {
  const varying = withHeaders(answer, { vary: 'Origin' })
  if (origin === undefined || !origins.includes(origin)) return varying
  return withHeaders(varying, {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': exposed,
  })
}

/** The answer to a browser that asks before it sends: OPTIONS, which says what a path offers, and more. */
export const preflight = (answer: Answer): Answer =>
  withHeaders(answer, {
    'access-control-allow-methods': answer.headers?.allow ?? '',
    'access-control-allow-headers': allowed,
    'access-control-max-age': '600',
  })
