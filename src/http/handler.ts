import type { IncomingMessage } from 'node:http'
import { andThen, type Eventually } from '../eventually.ts'
import type { Exchange, Log } from '../log.ts'
import { Unavailable } from '../unavailable.ts'
import { type Answer, empty } from './answer.ts'
import { authenticate, type Caller, type Guard } from './auth.ts'
import { readText } from './body.ts'
import { header } from './header.ts'
import { isAuthority, type ProxyTrust, type Reached, reachedBy } from './proxy.ts'
import { Refusal } from './refusal.ts'
import { type Call, type Route, router } from './route.ts'
import type { Handler } from './server.ts'

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

  return (request) => {
    const exchange = exchangeOf(name, request, newId)
    if (!log.showsRequests) return answerTo(request, exchange)
    const startedAt = ticks()
    return andThen(answerTo(request, exchange), (answer) => {
      log.request(exchange, answer.status, ticks() - startedAt, answer.note)
      return answer
    })
  }

  function answerTo(request: IncomingMessage, exchange: Exchange): Eventually<Answer> {
    const { method, path } = exchange
    const reached = reachedBy(request, trustProxy)
    const { isSecure, host } = reached
    const query = path.indexOf('?')
    const found = find(query < 0 ? path : path.slice(0, query))
    const route = found?.place.byMethod.get(method)
    if (host !== undefined && !isAuthority(host))
      return refuse(new Refusal('host-malformed'), route?.operation, exchange.id)
    if (redirectPort !== undefined && !isSecure && path.startsWith('/')) return redirection(host, redirectPort, path)
    if (!found) return refuse(new Refusal('path-unknown'), undefined, exchange.id)
    if (!route) return empty(method === 'OPTIONS' ? 204 : 405, { allow: found.place.allow })
    const finish = (outcome: Answer | Refusal) =>
      outcome instanceof Refusal ? refused(outcome, route, exchange) : outcome
    const failed = (cause: unknown) => refused(refusalFor(cause, exchange), route, exchange)
    try {
      const outcome = outcomeOf(route, found.segment, request, reached)
      return outcome instanceof Promise ? outcome.then(finish).catch(failed) : finish(outcome)
    } catch (cause) {
      return failed(cause)
    }
  }

  function refusalFor(cause: unknown, exchange: Exchange): Refusal {
    if (cause instanceof Unavailable) return new Refusal('store-unavailable', undefined, cause.message)
    log.failed(exchange, cause)
    return new Refusal('unforeseen')
  }

  function refused(refusal: Refusal, { operation }: Route, { id }: Exchange): Answer {
    const answer = refuse(refusal, operation, id)
    return refusal.note ? { ...answer, note: refusal.note } : answer
  }

  function outcomeOf(route: Route, segment: string | undefined, request: IncomingMessage, reached: Reached) {
    if (!route.secured) return handled(route, segment, request, reached)
    return authenticate(request, guard).then((access) =>
      'caller' in access ? handled(route, segment, request, reached, access.caller) : access,
    )
  }

  function handled(
    route: Route,
    segment: string | undefined,
    request: IncomingMessage,
    reached: Reached,
    caller?: Caller,
  ): Eventually<Answer | Refusal> {
    const id = route.id?.read(segment)
    if (id instanceof Refusal) return id
    const { read } = route
    if (!read) return route.handle(new Received(request, reached, baseUrl, id, {}, caller))
    return andThen(readText(request, bodyLimit), (text) => {
      const body = text instanceof Refusal ? text : read(text)
      return body instanceof Refusal ? body : route.handle(new Received(request, reached, baseUrl, id, body, caller))
    })
  }
}

/** Its id is made when it is needed: nobody sees that of a request that is answered without a word about it. */
function exchangeOf(profile: string, { method = '', url: path = '' }: IncomingMessage, newId: () => string): Exchange {
  let id: string | undefined
  return {
    profile,
    method,
    path,
    get id() {
      id ??= newId()
      return id
    },
  }
}

class Received<T, Body> implements Call<T, Body> {
  readonly id: T
  readonly body: Body
  readonly caller: Caller | undefined
  readonly #request: IncomingMessage
  readonly #reached: Reached
  readonly #baseUrl: string | undefined

  constructor(
    request: IncomingMessage,
    reached: Reached,
    baseUrl: string | undefined,
    id: T,
    body: Body,
    caller: Caller | undefined,
  ) {
    this.id = id
    this.body = body
    this.caller = caller
    this.#request = request
    this.#reached = reached
    this.#baseUrl = baseUrl
  }

  get baseUrl(): string {
    return this.#baseUrl ?? originOf(this.#reached, this.#request)
  }

  isLocal(): boolean {
    return isFromThisMachine(this.#request)
  }

  header(name: string): string | undefined {
    return header(this.#request, name)
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
