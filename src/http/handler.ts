import type { Log } from '../log.ts'
import { Unavailable } from '../unavailable.ts'
import { type Answer, empty, withHeaders } from './answer.ts'
import { authenticate, type Guard } from './auth.ts'
import { readBody, readText } from './body.ts'
import type { Handler, Reply } from './connection.ts'
import { crossOrigin, preflight } from './cors.ts'
import { hasDoubled, header } from './header.ts'
import { clientOf, isAuthority, type ProxyTrust, reachedBy } from './proxy.ts'
import { Refusal, type RefusalCode } from './refusal.ts'
import { type Found, type Route, router } from './route.ts'
import { hasBody } from './unread.ts'
import { Visit } from './visit.ts'

/** What is served: the routes, and what a refusal looks like to the client. */
export interface Face {
  readonly name: string
  readonly title: string
  readonly about: string
  readonly routes: readonly Route[]
  /** The failure table. `operation` is undefined where the path names nothing. */
  refuse(refusal: Refusal, operation: string | undefined, traceId: string): Answer
}

export interface Settings {
  readonly bodyLimit: number
  /** The public URL, where it is not the one that requests name. */
  readonly baseUrl: string | undefined
  /** B12: where plain HTTP is sent to; undefined where it is answered. */
  readonly redirectPort: number | undefined
  readonly trustProxy: ProxyTrust
  readonly guard: Guard
  /** Whether a client may ask once more; undefined where nobody counts. */
  readonly allows: ((client: string) => boolean) | undefined
  /** Origins whose pages may use the service. */
  readonly corsOrigins: readonly string[]
  /** Whether answers over HTTPS ask for HTTPS from now on. */
  readonly hsts: boolean
  /** Told of each answer, with the operation it was for. */
  readonly observe:
    | ((profile: string, operation: string, method: string, status: number, milliseconds: number) => void)
    | undefined
  readonly log: Log
  readonly newId: () => string
  /** Milliseconds on a clock that never jumps. */
  readonly ticks: () => number
}

/** The way of a request: find its route, read what the route asks for, handle it, log it. */
export function handlerOf({ name, routes, refuse }: Face, settings: Settings): Handler {
  const { bodyLimit, redirectPort, trustProxy, guard, allows, corsOrigins, hsts, observe, log } = settings
  const find = router(routes)
  const isWatched = log.showsRequests || observe !== undefined
  const isDressed = corsOrigins.length > 0 || hsts

  return {
    handle(request, reply, isOverloaded) {
      const visit = new Visit(name, request, reachedBy(request, trustProxy), settings)
      const found = find(visit.path)
      const route = found?.place.byMethod.get(visit.method)
      const dressed = isDressed ? (answered: Answer) => reply(dress(answered, visit)) : reply
      answer(visit, found, route, isWatched ? watched(visit, route, dressed) : dressed, isOverloaded)
    },
    refused(status, reason) {
      log.refused(name, status, reason)
      observe?.(name, 'none', '', status, 0)
    },
  }

  function watched(visit: Visit, route: Route | undefined, reply: Reply): Reply {
    const startedAt = settings.ticks()
    return (answered) => {
      const milliseconds = settings.ticks() - startedAt
      const status = reply(answered)
      log.request(visit, status, milliseconds, answered.note)
      observe?.(name, route?.operation ?? 'none', visit.method, status, milliseconds)
      return status
    }
  }

  function dress(answered: Answer, visit: Visit): Answer {
    const { reached, method } = visit
    const isPreflight = method === 'OPTIONS' && visit.header('access-control-request-method') !== undefined
    const plain = hsts && reached.isSecure ? withHeaders(answered, transportSecurity) : answered
    if (corsOrigins.length === 0) return plain
    return crossOrigin(isPreflight ? preflight(plain) : plain, visit.header('origin'), corsOrigins)
  }

  function answer(
    visit: Visit,
    found: Found | undefined,
    route: Route | undefined,
    reply: Reply,
    isOverloaded: boolean,
  ) {
    const { method, target, reached } = visit
    const wrong = wrongWith(visit) ?? (route?.isForOperators ? undefined : tooMuchOf(visit, isOverloaded))
    if (wrong) reply(ended(wrong, refuse(new Refusal(wrong), route?.operation, visit.traceId)))
    else if (redirectPort !== undefined && !reached.isSecure && !route?.isForOperators)
      reply(redirection(reached.host, redirectPort, target))
    else if (!found) reply(refuse(new Refusal('path-unknown'), undefined, visit.traceId))
    else if (!route) reply(empty(method === 'OPTIONS' ? 204 : 405, { allow: found.place.allow }))
    else if (route.secured)
      authenticate(visit.request, guard).then(
        (access) => {
          const unseen = (answered: Answer) => reply(unkept(answered))
          if (!('caller' in access)) return conclude(access, route, visit, unseen)
          visit.caller = access.caller
          receive(route, found.segment, visit, unseen)
        },
        (cause) => fail(cause, route, visit, reply),
      )
    else receive(route, found.segment, visit, reply)
  }

  function tooMuchOf({ request }: Visit, isOverloaded: boolean): RefusalCode | undefined {
    if (isOverloaded) return 'overloaded'
    return allows && !allows(clientOf(request, trustProxy)) ? 'too-many-requests' : undefined
  }

  /** Reads what the route asks for. */
  function receive(route: Route, segment: string | undefined, visit: Visit, reply: Reply): void {
    const { read } = route
    visit.id = route.id?.read(segment)
    if (visit.id instanceof Refusal) conclude(visit.id, route, visit, reply)
    else if (!read && !hasBody(visit.request)) handle(route, visit, reply)
    else if (!read)
      // Nobody asked for it, and yet a request is whole only with its body.
      readBody(visit.request, bodyLimit, (body) => {
        if (body instanceof Refusal) conclude(body, route, visit, reply)
        else handle(route, visit, reply)
      })
    else
      readText(visit.request, bodyLimit, (text) => {
        const body = text instanceof Refusal ? text : read(text)
        if (body instanceof Refusal) return conclude(body, route, visit, reply)
        visit.body = body
        handle(route, visit, reply)
      })
  }

  function handle(route: Route, visit: Visit, reply: Reply): void {
    try {
      const outcome = route.handle(visit)
      if (outcome instanceof Promise)
        outcome.then(
          (later) => conclude(later, route, visit, reply),
          (cause) => fail(cause, route, visit, reply),
        )
      else conclude(outcome, route, visit, reply)
    } catch (cause) {
      fail(cause, route, visit, reply)
    }
  }

  function fail(cause: unknown, route: Route, visit: Visit, reply: Reply): void {
    const isAway = cause instanceof Unavailable
    if (!isAway) log.failed(visit, cause)
    const refusal = isAway ? new Refusal('store-unavailable', undefined, cause.message) : new Refusal('unforeseen')
    conclude(refusal, route, visit, reply)
  }

  function conclude(outcome: Answer | Refusal, { operation }: Route, visit: Visit, reply: Reply): void {
    if (outcome instanceof Refusal) {
      const refused = refuse(outcome, operation, visit.traceId)
      reply(outcome.note ? { ...refused, note: outcome.note } : refused)
    } else reply(outcome)
  }
}

const transportSecurity = { 'strict-transport-security': 'max-age=31536000' }

/** What a token protects is for its bearer alone. */
const unkept = (answer: Answer): Answer => withHeaders(answer, { 'cache-control': 'no-store' })

const lastWords = new Set<RefusalCode>(['framing-refused', 'version-refused', 'host-malformed', 'header-doubled'])
const ended = (wrong: RefusalCode, answer: Answer): Answer =>
  lastWords.has(wrong) ? { ...answer, isLast: true } : answer

/** A path and perhaps a query, in characters that a URL can have; clients leave more of them as they are in queries. */
const isTarget = /^\/[!$-;=@-[\]-~]*(?:\?[!$-;=?-~]*)?$/

/** What is wrong with a request, whatever it asks for. */
function wrongWith({ request, target, reached: { host } }: Visit): RefusalCode | undefined {
  const { httpVersionMajor: major, httpVersionMinor: minor } = request
  if (major !== 1 || minor > 1) return 'version-refused'
  const coding = header(request, 'transfer-encoding')
  if (coding !== undefined && (minor === 0 || coding.toLowerCase() !== 'chunked')) return 'framing-refused'
  if (!isTarget.test(target)) return 'target-malformed'
  if (host === undefined ? minor === 1 : !isAuthority(host)) return 'host-malformed'
  return hasDoubled(request) ? 'header-doubled' : undefined
}

/** B12: the same path and query over HTTPS. */
function redirection(host: string | undefined, port: number, target: string): Answer {
  const name = (host ?? 'localhost').replace(/:\d*$/, '')
  return empty(307, { location: `https://${name}${port === 443 ? '' : `:${port}`}${target}` })
}
