import { everyInterface, FetchRequest, type FetchServer, fetchListening, fetchServer } from './fetch.ts'
import type { Bind } from './server.ts'

/** The members of Bun that this file uses: https://bun.com/docs/runtime/http/server. */
declare const Bun: { serve(options: object): BunServer }

interface BunServer {
  readonly port: number
  requestIP(request: globalThis.Request): { readonly address: string; readonly port: number } | null
  /** Sets the idle timeout of the request's connection; 0 turns it off. */
  timeout(request: globalThis.Request, seconds: number): void
  stop(closeActiveConnections?: boolean): Promise<void>
}

type RoutedRequest = globalThis.Request & { readonly params?: Readonly<Record<string, string>> }

/** Higher than every body limit of the service, which are checked when the body is read. */
const maxRequestBodySize = 2 ** 40
/** No path of the service has more segments: a longer one matches no route, however Bun has normalized it. */
const maxSegments = 5

/**
 * Bun handles all requests that it has received on a connection before those of other connections. So, when many
 * requests come in a short time, a connection is closed after `maxInARow` in a row.
 */
const manyRequests = 200
const manyRequestsMs = 10
const maxInARow = 10

class BunRequest extends FetchRequest {
  readonly #listening: BunServer

  constructor(request: RoutedRequest, target: string, server: FetchServer, listening: BunServer) {
    super(request, target, request.headers.get('host') ?? undefined, server)
    this.#listening = listening
  }

  get remoteAddress(): string {
    return this.#listening.requestIP(this.request)?.address ?? ''
  }

  protected override onStream(): void {
    this.#listening.timeout(this.request, 0)
  }
}

/** Serves requests by Bun.serve(). */
export const bind: Bind = (handler, { host = everyInterface, port, credentials }, context) => {
  const state = fetchServer(handler, context, credentials !== undefined)
  let received = 0
  let inARow = 0
  let lastPort = 0
  const handle = (request: RoutedRequest, target: string) => {
    const bunRequest = new BunRequest(request, target, state, listening)
    if (++received > manyRequests) {
      const { port } = listening.requestIP(request) ?? { port: 0 }
      inARow = port === lastPort ? inARow + 1 : 0
      lastPort = port
      bunRequest.isLast = inARow > maxInARow
    } else if (received === 1)
      setTimeout(() => {
        received = 0
        inARow = 0
      }, manyRequestsMs)
    return bunRequest.handle()
  }
  const handleRouted = (request: RoutedRequest) => handle(request, targetOf(request))
  const listening = Bun.serve({
    hostname: host,
    port,
    ...(credentials && { tls: credentials }),
    development: false,
    idleTimeout: context.limits.keepAliveTimeoutMs / 1000,
    maxRequestBodySize,
    routes: Object.fromEntries(['/', ...routePatterns()].map((pattern) => [pattern, handleRouted])),
    fetch: (request: RoutedRequest) => handle(request, unroutedTarget(pathOf(request))),
  })
  state.localPort = listening.port
  return fetchListening(state, host, { stop: () => listening.stop(), destroy: () => listening.stop(true) })
}

/** Returns `/:p0`, `/:p0/`, `/:p0/:p1`, …: only route parameters have the segments as the client sent them. */
const routePatterns = () =>
  Array.from({ length: maxSegments }, (_, last) =>
    Array.from({ length: last + 1 }, (_, index) => `/:p${index}`).join(''),
  ).flatMap((pattern) => [pattern, `${pattern}/`])

/** Returns path and query of the URL. If Host is missing or malformed, Bun's URL has no scheme and authority. */
function pathOf({ url }: RoutedRequest): string {
  return url.startsWith('/') ? url : url.slice(url.indexOf('/', 'https://'.length))
}

/** Returns the target as sent: in the URL, Bun has removed the segments `.` and `..` and replaced `\` with `/`. */
function targetOf(request: RoutedRequest): string {
  const { params = {} } = request
  for (const name in params) {
    const segment = params[name] as string
    if (segment === '..' || segment === '.' || segment.includes('\\')) return targetFrom(params, pathOf(request))
  }
  return pathOf(request)
}

function targetFrom(params: Readonly<Record<string, string>>, path: string): string {
  const query = path.indexOf('?')
  return `/${Object.values(params).map(encodeSegment).join('/')}${query < 0 ? '' : path.slice(query)}`
}

/** Encodes `.` and `..`, too: otherwise a client removes them from the URL of a redirect before it follows it. */
const encodeSegment = (segment: string) =>
  segment === '.' || segment === '..' ? segment.replaceAll('.', '%2E') : encodeURIComponent(segment)

/** Returns a target that matches no route if the path could match one only because Bun removed `.` or `..` from it. */
function unroutedTarget(path: string): string {
  const [withoutQuery = ''] = path.split('?', 1)
  return withoutQuery.includes('//') || withoutQuery.split('/').length - 2 > maxSegments ? path : '/..'
}
