import type { IncomingMessage } from 'node:http'
import type { Exchange, Log } from '../log.ts'
import { Unavailable } from '../unavailable.ts'
import { type Answer, empty } from './answer.ts'
import { authenticate, type Guard } from './auth.ts'
import { readText } from './body.ts'
import { isAuthority, type ProxyTrust, type Reached, reachedBy } from './proxy.ts'
import { Refusal } from './refusal.ts'
import { type Route, router } from './route.ts'
import type { Handler } from './server.ts'
import { read, type Shape } from './shape.ts'

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

  return async (request) => {
    const startedAt = ticks()
    const exchange = { id: newId(), profile: name, method: request.method ?? '', path: request.url ?? '' }
    const answer = await answerTo(request, exchange)
    log.request(exchange, answer.status, ticks() - startedAt, answer.note)
    return answer
  }

  async function answerTo(request: IncomingMessage, exchange: Exchange): Promise<Answer> {
    const reached = reachedBy(request, trustProxy)
    const { isSecure, host } = reached
    const found = find(exchange.path.split('?', 1)[0] as string)
    const route = found?.byMethod.get(exchange.method)
    if (host !== undefined && !isAuthority(host))
      return refuse(new Refusal('host-malformed'), route?.operation, exchange.id)
    if (redirectPort !== undefined && !isSecure && exchange.path.startsWith('/'))
      return redirection(host, redirectPort, exchange.path)
    if (!found) return refuse(new Refusal('path-unknown'), undefined, exchange.id)
    if (!route) return empty(exchange.method === 'OPTIONS' ? 204 : 405, { allow: found.allow })
    const outcome = await outcomeOf(route, found.segment, request, reached).catch((cause: unknown) => {
      if (cause instanceof Unavailable) return new Refusal('store-unavailable', undefined, cause.message)
      log.failed(exchange, cause)
      return new Refusal('unforeseen')
    })
    if (!(outcome instanceof Refusal)) return outcome
    const refused = refuse(outcome, route.operation, exchange.id)
    return outcome.note ? { ...refused, note: outcome.note } : refused
  }

  async function outcomeOf(route: Route, segment: string | undefined, request: IncomingMessage, reached: Reached) {
    const access = route.secured ? await authenticate(request, guard) : { caller: undefined }
    if (!('caller' in access)) return access
    const id = route.id?.read(segment)
    if (id instanceof Refusal) return id
    const body = route.body ? await readBody(route.body, request) : {}
    if (body instanceof Refusal) return body
    const isLocal = () => isFromThisMachine(request)
    return route.handle({ id, body, caller: access.caller, baseUrl: baseUrl ?? originOf(reached, request), isLocal })
  }

  async function readBody(shape: Shape, request: IncomingMessage) {
    const text = await readText(request, bodyLimit)
    return text instanceof Refusal ? text : read(shape, text)
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
