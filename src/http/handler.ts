import type { IncomingMessage } from 'node:http'
import type { Exchange, Log } from '../log.ts'
import { Unavailable } from '../unavailable.ts'
import { type Answer, empty } from './answer.ts'
import { authenticate, type Caller, type Guard } from './auth.ts'
import { readText } from './body.ts'
import { header } from './header.ts'
import { isAuthority, type ProxyTrust, type Reached, reachedBy } from './proxy.ts'
import { Refusal } from './refusal.ts'
import { type Call, type Route, router } from './route.ts'
import type { Handler, Reply } from './server.ts'
import type { Shape, Shaped } from './shape.ts'

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
  readonly log: Log
  readonly newId: () => string
  /** Milliseconds on a clock that never jumps. */
  readonly ticks: () => number
}

/** The way of a request: find its route, read what the route asks for, handle it, log it. */
export function handlerOf(
  { name, routes, refuse }: Face,
  { bodyLimit, baseUrl, redirectPort, trustProxy, guard, log, newId, ticks }: Settings,
): Handler {
  const find = router(routes)

  return (request, reply) => {
    const visit = new Visit(name, request, reachedBy(request, trustProxy), baseUrl, newId)
    if (log.showsRequests) answer(visit, logged(visit, reply))
    else answer(visit, reply)
  }

  function logged(visit: Visit, reply: Reply): Reply {
    const startedAt = ticks()
    return (answered) => {
      log.request(visit, answered.status, ticks() - startedAt, answered.note)
      reply(answered)
    }
  }

  function answer(visit: Visit, reply: Reply): void {
    const { method, path, reached } = visit
    const { isSecure, host } = reached
    const query = path.indexOf('?')
    const found = find(query < 0 ? path : path.slice(0, query))
    const route = found?.place.byMethod.get(method)
    if (host !== undefined && !isAuthority(host))
      reply(refuse(new Refusal('host-malformed'), route?.operation, visit.traceId))
    else if (redirectPort !== undefined && !isSecure && path.startsWith('/'))
      reply(redirection(host, redirectPort, path))
    else if (!found) reply(refuse(new Refusal('path-unknown'), undefined, visit.traceId))
    else if (!route) reply(empty(method === 'OPTIONS' ? 204 : 405, { allow: found.place.allow }))
    else if (route.secured)
      authenticate(visit.request, guard).then(
        (access) => {
          if (!('caller' in access)) return conclude(access, route, visit, reply)
          visit.caller = access.caller
          receive(route, found.segment, visit, reply)
        },
        (cause) => fail(cause, route, visit, reply),
      )
    else receive(route, found.segment, visit, reply)
  }

  /** Reads what the route asks for. */
  function receive(route: Route, segment: string | undefined, visit: Visit, reply: Reply): void {
    const { read } = route
    visit.id = route.id?.read(segment)
    if (visit.id instanceof Refusal) conclude(visit.id, route, visit, reply)
    else if (!read) handle(route, visit, reply)
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

/** One request on its way through: what is known of it, as it becomes known. */
class Visit implements Exchange, Call<unknown, Shaped<Shape>> {
  readonly profile: string
  readonly request: IncomingMessage
  readonly method: string
  readonly path: string
  readonly reached: Reached
  id: unknown = undefined
  body: Shaped<Shape> = {}
  caller: Caller | undefined = undefined
  readonly #baseUrl: string | undefined
  readonly #newId: () => string
  #traceId: string | undefined = undefined

  constructor(
    profile: string,
    request: IncomingMessage,
    reached: Reached,
    baseUrl: string | undefined,
    newId: () => string,
  ) {
    this.profile = profile
    this.request = request
    this.method = request.method ?? ''
    this.path = request.url ?? ''
    this.reached = reached
    this.#baseUrl = baseUrl
    this.#newId = newId
  }

  /** Made when it is needed: nobody sees that of a request that is answered without a word about it. */
  get traceId(): string {
    this.#traceId ??= this.#newId()
    return this.#traceId
  }

  get baseUrl(): string {
    return this.#baseUrl ?? originOf(this.reached, this.request)
  }

  isLocal(): boolean {
    return isFromThisMachine(this.request)
  }

  header(name: string): string | undefined {
    return header(this.request, name)
  }
}

/** A3: scheme and authority as the client named them; HTTP/1.0 need not name one. */
const originOf = ({ isSecure, host }: Reached, { socket }: IncomingMessage) =>
  `${isSecure ? 'https' : 'http'}://${host ?? `localhost:${socket.localPort}`}`

/** B12: the same path and query over HTTPS. */
function redirection(host: string | undefined, port: number, target: string): Answer {
  const name = (host ?? 'localhost').replace(/:\d*$/, '')
  return empty(307, { location: `https://${name}${port === 443 ? '' : `:${port}`}${target}` })
}

/**
 * A loopback peer that asked for a loopback name. The name keeps a foreign site from rebinding its own to this machine;
 * what a proxy hands on comes from elsewhere.
 */
function isFromThisMachine({ socket, headers }: IncomingMessage): boolean {
  const peer = /^(?:::ffff:)?127\.|^::1$/.test(socket.remoteAddress ?? '')
  const name = /^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/i.test(headers.host ?? '')
  const proxied = /^(?:forwarded|via|x-forwarded-.*|x-real-ip|.*-(?:client|connecting)-ip)$/
  return peer && name && !Object.keys(headers).some((header) => proxied.test(header))
}
