import { everyInterface, FetchRequest, type FetchServer, fetchListening, fetchServer } from './fetch.ts'
import type { Bind } from './server.ts'

/** What is used of Bun: https://bun.com/docs/runtime/http/server. */
declare const Bun: { serve(options: object): BunServer }

interface BunServer {
  readonly port: number
  requestIP(request: globalThis.Request): { readonly address: string; readonly port: number } | null
  /** In seconds; 0: none. */
  timeout(request: globalThis.Request, seconds: number): void
  stop(closeActiveConnections?: boolean): Promise<void>
}

type RoutedRequest = globalThis.Request & { readonly params?: Readonly<Record<string, string>> }

/** Far above every limit of a body: those are checked when the body is read. */
const maxRequestBodySize = 2 ** 40
/** No path of the service has more: what Bun makes of longer ones is never found. */
const maxSegments = 5

/**
 * Bun handles all requests that it has received on a connection before it turns to another one. With many requests in a
 * short time, a connection is closed after a few in a row.
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

  get remotePort(): number {
    return this.#listening.requestIP(this.request)?.port ?? 0
  }

  closeConnection(): void {
    this.isLast = true
  }

  protected override onStream(): void {
    this.#listening.timeout(this.request, 0)
  }
}

/** Bun.serve. */
export const bind: Bind = (handler, { host = everyInterface, port, credentials }, context) => {
  const state = fetchServer(handler, context, credentials !== undefined)
  let received = 0
  let inARow = 0
  let lastPort = 0
  const handle = (request: RoutedRequest, target: string) => {
    const handled = new BunRequest(request, target, state, listening)
    if (++received > manyRequests) {
      const { remotePort } = handled
      inARow = remotePort === lastPort ? inARow + 1 : 0
      lastPort = remotePort
      if (inARow > maxInARow) handled.closeConnection()
    } else if (received === 1)
      setTimeout(() => {
        received = 0
        inARow = 0
      }, manyRequestsMs)
    return handled.handle()
  }
  const byParameters = (request: RoutedRequest) => handle(request, targetOf(request))
  const listening = Bun.serve({
    hostname: host,
    port,
    ...(credentials && { tls: credentials }),
    development: false,
    idleTimeout: context.limits.keepAliveTimeoutMs / 1000,
    maxRequestBodySize,
    routes: Object.fromEntries(['/', ...routePatterns()].map((pattern) => [pattern, byParameters])),
    fetch: (request: RoutedRequest) => handle(request, unroutedTarget(pathOf(request))),
  })
  state.localPort = listening.port
  return fetchListening(state, host, { stop: () => listening.stop(), destroy: () => listening.stop(true) })
}

/** `/:p0`, `/:p0/`, `/:p0/:p1`, …: only in the parameters of a route the path is as sent. */
const routePatterns = () =>
  Array.from({ length: maxSegments }, (_, last) =>
    Array.from({ length: last + 1 }, (_, at) => `/:p${at}`).join(''),
  ).flatMap((pattern) => [pattern, `${pattern}/`])

/** Returns the URL without scheme and authority, which are missing where Host is missing or malformed. */
function pathOf({ url }: RoutedRequest): string {
  return url.startsWith('/') ? url : url.slice(url.indexOf('/', 'https://'.length))
}

/** In the URL, Bun has removed the segments `.` and `..`, and made `\` a `/`. */
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

/** Dots, too: the client resolves a redirect to `/x/..` before it follows it. */
const encodeSegment = (segment: string) =>
  segment === '.' || segment === '..' ? segment.replaceAll('.', '%2E') : encodeURIComponent(segment)

/** A path that no route matched as it was sent, but one would match now, had `.` or `..` in it: it names nothing. */
function unroutedTarget(path: string): string {
  const [sent = ''] = path.split('?', 1)
  return sent.includes('//') || sent.split('/').length - 2 > maxSegments ? path : '/..'
}
