import { FetchExchange, type FetchServer, fetchListening, fetchServer } from './fetch-exchange.ts'
import type { Bind } from './runtime.ts'

/** What is used of Bun: https://bun.com/docs/runtime/http/server. */
declare const Bun: { serve(options: object): BunServer }

interface BunServer {
  readonly port: number
  requestIP(request: globalThis.Request): { readonly address: string } | null
  /** In seconds; 0: none. */
  timeout(request: globalThis.Request, seconds: number): void
  stop(closeActiveConnections?: boolean): Promise<void>
}

type BunRequest = globalThis.Request & { readonly params?: Readonly<Record<string, string>> }

/** Far above every limit of a body: those are checked when the body is read. */
const maxRequestBodySize = 2 ** 40
/** No path of the service has more: what Bun makes of longer ones is never found. */
const maxSegments = 5

class BunExchange extends FetchExchange {
  readonly #listening: BunServer

  constructor(request: BunRequest, target: string, server: FetchServer, listening: BunServer) {
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

/** Bun.serve. */
export const bind: Bind = (handler, { host, port, credentials }, limits, overload, now) => {
  const state = fetchServer(handler, limits, overload, now, credentials !== undefined)
  const handle = (request: BunRequest, target: string) => new BunExchange(request, target, state, listening).handle()
  const byParameters = (request: BunRequest) => handle(request, targetOf(request))
  const listening = Bun.serve({
    // `::` is every interface, as in Node.
    hostname: host ?? '::',
    port,
    ...(credentials && { tls: credentials }),
    development: false,
    idleTimeout: limits.keepAliveTimeoutMs / 1000,
    maxRequestBodySize,
    routes: Object.fromEntries(['/', ...routePatterns()].map((pattern) => [pattern, byParameters])),
    fetch: (request: BunRequest) => handle(request, unroutedTarget(pathOf(request))),
  })
  state.localPort = listening.port
  return fetchListening(state, { stop: () => listening.stop(), destroy: () => listening.stop(true) })
}

/** `/:p0`, `/:p0/`, `/:p0/:p1`, …: only in the parameters of a route the path is as sent. */
const routePatterns = () =>
  Array.from({ length: maxSegments }, (_, last) =>
    Array.from({ length: last + 1 }, (_, at) => `/:p${at}`).join(''),
  ).flatMap((pattern) => [pattern, `${pattern}/`])

/** Of a URL without the scheme and authority, which are missing where Host is missing or malformed. */
function pathOf({ url }: BunRequest): string {
  return url.startsWith('/') ? url : url.slice(url.indexOf('/', 'https://'.length))
}

/** In the URL, Bun has removed the segments `.` and `..`, and made `\` a `/`. */
function targetOf(request: BunRequest): string {
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
