import type { IncomingMessage } from 'node:http'
import type { Exchange } from '../log.ts'
import type { Caller } from './auth.ts'
import { header } from './header.ts'
import type { Reached } from './proxy.ts'
import type { Call } from './route.ts'
import type { Shape, Shaped } from './shape.ts'

interface VisitSettings {
  readonly baseUrl: string | undefined
  readonly newId: () => string
}

/** One request on its way through: what is known of it, as it becomes known. */
export class Visit implements Exchange, Call<unknown, Shaped<Shape>> {
  readonly profile: string
  readonly request: IncomingMessage
  readonly method: string
  /** As it was sent. */
  readonly target: string
  /** Without its query, which nobody asks for and which may hold a secret. */
  readonly path: string
  readonly reached: Reached
  id: unknown = undefined
  body: Shaped<Shape> = {}
  caller: Caller | undefined = undefined
  readonly #settings: VisitSettings
  #traceId: string | undefined = undefined

  constructor(profile: string, request: IncomingMessage, reached: Reached, settings: VisitSettings) {
    this.profile = profile
    this.request = request
    this.method = request.method ?? ''
    this.target = request.url ?? ''
    this.path = withoutQuery(this.target)
    this.reached = reached
    this.#settings = settings
  }

  /** The caller's (W3C Trace Context), or one that is made when it is needed: nobody may ever see it. */
  get traceId(): string {
    this.#traceId ??= traceIn(this.header('traceparent')) ?? this.#settings.newId()
    return this.#traceId
  }

  get baseUrl(): string {
    return this.#settings.baseUrl ?? originOf(this.reached, this.request)
  }

  isLocal(): boolean {
    return isFromThisMachine(this.request)
  }

  header(name: string): string | undefined {
    return header(this.request, name)
  }
}

const traceIn = (traceparent = '') =>
  /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|(?<!^00.*)-)/.exec(traceparent)?.[1]

/** A3: scheme and authority as the client named them; HTTP/1.0 need not name one. */
const originOf = ({ isSecure, host }: Reached, { socket }: IncomingMessage) =>
  `${isSecure ? 'https' : 'http'}://${host ?? `localhost:${socket.localPort}`}`

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

function withoutQuery(path: string): string {
  const query = path.indexOf('?')
  return query < 0 ? path : path.slice(0, query)
}
