import type { Log } from '../log.ts'
import { UnavailableError, WithdrawnError } from '../store/store.ts'
import { authenticate, type VerifyToken } from './auth.ts'
import { type ContextSettings, RequestContext, type RequestRecorder } from './context.ts'
import { allowsOtherOrigins, type CorsPolicy, isOriginAllowed, withCors } from './cors.ts'
import { closesConnection, describeError, Rejection } from './errors.ts'
import { isJson, parseJson } from './json-body.ts'
import { isAuthority } from './proxy.ts'
import type { Request, Space } from './request.ts'
import { empty, type Response, withHeaders } from './response.ts'
import { type Match, nearestPath, type Route, router } from './router.ts'

/** The routes that are served, and the responses to errors. */
export interface Api {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly routes: readonly Route[]
  /** Returns the response to an error. `operation` is undefined if no route matches. */
  errorResponse(error: Rejection, operation: string | undefined, request: { readonly traceId: string }): Response
}

export interface DispatchSettings extends ContextSettings {
  readonly maxBodyBytes: number
  /** The limit of members and elements in a JSON body; undefined for the limit of the contract. */
  readonly maxJsonValues?: number
  /** B12: the HTTPS port that plain HTTP is redirected to; undefined if plain HTTP is served. */
  readonly redirectPort: number | undefined
  readonly verifyToken: VerifyToken
  /** Whether a client may send one more request; undefined without a limit. */
  readonly allowRequest: ((client: string) => boolean) | undefined
  readonly cors: CorsPolicy
  /** Called with the Origin of each cross-origin request that is not allowed. */
  readonly reportOrigin: (origin: string) => void
  readonly hsts: boolean
  readonly observe:
    | ((profile: string, operation: string, method: string, status: number | 'closed', milliseconds: number) => void)
    | undefined
  /**
   * Called before the body is read, when the head is accepted and the caller authenticated. Sets the space if it was
   * not known before. Returns a response to reject the request.
   */
  readonly enterSpace?: ((context: RequestContext) => Response | undefined) | undefined
  /** Undefined in production. */
  readonly hooks?: DispatchHooks | undefined
  /** The fixed value of the Date header; undefined for the current time. */
  readonly date?: string | undefined
  readonly log: Log
  /** Milliseconds of a monotonic clock. */
  readonly monotonicNow: () => number
}

/** What development mode adds to the life of a request. */
export interface DispatchHooks {
  /** The headers that every response gets. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Called before the handler. Calls `next` once, now or later: without a result if the handler is to run, otherwise
   * with the result that replaces it.
   */
  intercept?(context: RequestContext, route: Route, next: (result?: Response | Rejection | 'reset') => void): void
  /** Sends a response. Returns the response for the journal and the log. */
  send?(context: RequestContext, response: Response): Response
  /** Called when the head was read. The request is logged by the recorder, when it has ended. */
  begin?(context: RequestContext): RequestRecorder | undefined
  /** Called for a request without a recorder from `begin`, when its response is known. */
  beginLate?(context: RequestContext): RequestRecorder
  /** Returns why the client may not use this API; undefined if it may. */
  findAccessError?(context: RequestContext): Rejection | undefined
  /** Whether a client needs no token for a route that requires one. */
  isExempt?(context: RequestContext): boolean
}

/** A server passes its requests to this handler. */
export interface HttpHandler {
  /** Calls `request.respond` once, at once or later; never throws. */
  dispatch(request: Request): void
  /** Called for bytes that are no HTTP request. The server responds to them itself. */
  malformed(status: number, reason: string, client: string): void
  /** Development: calls `closeIdle` when idle connections of browsers must be closed. */
  onCloseIdle?(closeIdle: () => void): void
}

export interface ApiHandler extends HttpHandler {
  /** Matches routes without the `pathPrefix` of the path. The default of `space` is the space of the settings. */
  dispatch(request: Request, pathPrefix?: string, space?: Space): void
  /** Sends this response without handling the request. */
  reject(request: Request, response: Response): void
}

export function httpHandler(api: Api, settings: DispatchSettings): ApiHandler {
  const { maxBodyBytes, maxJsonValues, redirectPort, verifyToken, allowRequest, cors, reportOrigin, hsts, log } =
    settings
  const { observe, enterSpace, hooks, date, monotonicNow } = settings
  const isObserved = log.showsRequests || observe !== undefined || hooks !== undefined
  const findMatch = router(api.routes)
  const hasCors = allowsOtherOrigins(cors)
  const send = hooks?.send ?? sendResponse
  const handle = hooks?.intercept ? intercepted(hooks.intercept) : execute

  /*
   * The life of a request, top to bottom. Results are passed on by callback, because a request to items in memory needs
   * no promise. With `async` functions here, requests took 6 to 9 % more CPU time.
   */
  function dispatch(request: Request, pathPrefix?: string, space?: Space): void {
    const context = new RequestContext(request, settings, isObserved ? monotonicNow() : 0, pathPrefix, space)
    const match = findMatch(context.path)
    const route = typeof match === 'object' ? match.resource.methods.get(request.method) : undefined
    context.route = route
    context.recorder = hooks?.begin?.(context)
    const early = responseToHead(context, match)
    if (early || !route || typeof match !== 'object') finish(context, early ?? unknownPath(context))
    else if (!route.secured || hooks?.isExempt?.(context)) readInput(context, route, match.segment)
    else
      authenticate(request, verifyToken).then((result) => {
        if ('claims' in result) {
          context.caller = result.claims
          readInput(context, route, match.segment)
        } else finish(context, result)
      })
  }

  /** Returns the result that the head alone determines; undefined if the route has to handle the request. */
  function responseToHead(context: RequestContext, match: Match | 'malformed' | undefined) {
    const { request, route, query, targetAuthority } = context
    if (request.protocolError) return new Rejection(request.protocolError)
    context.isPage = typeof match === 'object' && match.resource.isPage
    if (match === 'malformed' || (query !== '' && !queryPattern.test(query))) return new Rejection('target-malformed')
    if (targetAuthority !== undefined && !isAuthority(targetAuthority)) return new Rejection('target-malformed')
    if (!route?.isHealthCheck) {
      if (request.overloadReason) return new Rejection('overloaded', undefined, request.overloadReason)
      const client = allowRequest && context.client
      if (client !== undefined && !allowRequest?.(client))
        return new Rejection('too-many-requests', undefined, `the limit for ${client} is reached (--rate-limit)`)
      if (redirectPort !== undefined && !context.origin.isSecure)
        return redirectToHttps(context, settings.baseUrl, redirectPort)
    }
    const accessError = hooks?.findAccessError?.(context)
    if (accessError) return accessError
    if (route || typeof match !== 'object') return undefined
    const { allow } = match.resource
    if (request.method === 'OPTIONS') return empty(204, { allow })
    return { ...empty(405, { allow }), reason: `This path offers ${allow}.` }
  }

  function unknownPath({ path }: RequestContext): Rejection {
    const meant = hooks && nearestPath(path, api.routes)
    return new Rejection('path-unknown', undefined, meant && `did you mean ${meant}?`)
  }

  function readInput(context: RequestContext, route: Route, segment: string | undefined): void {
    const { request } = context
    const refused = enterSpace?.(context)
    if (refused) {
      finish(context, refused)
      return
    }
    if (route.id) {
      context.id = route.id.parse(segment)
      if (context.id instanceof Rejection) {
        finish(context, context.id)
        return
      }
    }
    if (route.readBody && !isJson(request.header('content-type')))
      finish(context, new Rejection('media-type-unsupported', undefined, describeType(request)))
    else if (!route.readBody && !request.hasBody) handle(context, route)
    // A request takes effect only when it is complete, so an unexpected body is read, too.
    else
      request.readBody(route.maxBodyBytes ?? maxBodyBytes, (bytes) => {
        if (typeof bytes === 'object') context.bodyBytes = bytes
        const body =
          typeof bytes === 'string'
            ? new Rejection(bytes)
            : route.readBody && parseJson(bytes, route.readBody, context, maxJsonValues)
        if (body instanceof Rejection) finish(context, body)
        else {
          if (body) context.body = body
          handle(context, route)
        }
      })
  }

  function execute(context: RequestContext, route: Route): void {
    let outcome: unknown
    try {
      outcome = route.execute(context)
    } catch (cause) {
      finish(context, toError(cause, context))
      return
    }
    if (outcome instanceof Promise)
      outcome.then(
        (value) => finishWithOutcome(context, route, value),
        (cause: unknown) => {
          if (cause instanceof WithdrawnError) close(context, route, false)
          else finish(context, toError(cause, context))
        },
      )
    else finishWithOutcome(context, route, outcome)
  }

  function intercepted(intercept: NonNullable<DispatchHooks['intercept']>): typeof execute {
    return (context, route) =>
      intercept(context, route, (result) => {
        if (result === undefined) execute(context, route)
        else if (result === 'reset') close(context, route, true)
        else finish(context, result)
      })
  }

  /** Closes or resets the connection in place of a response. */
  function close(context: RequestContext, { operation, method }: Route, withReset: boolean): void {
    observe?.(api.name, operation, method, 'closed', monotonicNow() - context.startedAt)
    context.request.abort(withReset)
  }

  function finishWithOutcome(context: RequestContext, route: Route, outcome: unknown): void {
    let result: Response | Rejection
    try {
      result = outcome instanceof Rejection ? outcome : route.toResponse(outcome, context)
    } catch (cause) {
      result = toError(cause, context)
    }
    finish(context, result)
  }

  function finish(context: RequestContext, result: Response | Rejection): void {
    const { route } = context
    context.recorder ??= hooks?.beginLate?.(context)
    let response = result instanceof Rejection ? errorResponse(result, context) : result
    if (route?.secured) response = withHeaders(response, { 'cache-control': 'no-store' })
    if (hsts && context.origin.isSecure)
      response = withHeaders(response, { 'strict-transport-security': 'max-age=31536000' })
    // Other origins must not read pages, which may contain a token.
    if (hasCors && !context.isPage) response = withCors(response, context, cors, hooks !== undefined)
    const origin = context.request.header('origin')
    if (origin !== undefined && !isOriginAllowed(origin, cors) && !isOwnOrigin(origin, context)) {
      context.blockedOrigin = origin
      // For a recorded request, its own line in the log has the reason.
      if (!context.recorder) reportOrigin(origin)
    }
    if (hooks?.headers) response = withHeaders(response, hooks.headers)
    if (date !== undefined) response = withHeaders(response, { date })
    response = send(context, response)
    if (!isObserved) return
    const milliseconds = monotonicNow() - context.startedAt
    observe?.(api.name, route?.operation ?? 'none', context.request.method, response.status, milliseconds)
    if (context.recorder) context.recorder.takeResponse(response)
    else log.request(api.name, context, response, milliseconds)
  }

  function errorResponse(error: Rejection, context: RequestContext): Response {
    const { status, headers, body } = api.errorResponse(error, context.route?.operation, context)
    const reason = isObserved ? describeError(error) : undefined
    return { status, headers, body, error, reason, closesConnection: closesConnection(error.code) }
  }

  /** Writes the cause to the log; the client never gets it (G8). */
  function toError(cause: unknown, context: RequestContext): Rejection {
    if (cause instanceof UnavailableError) return new Rejection('store-unavailable', undefined, cause.message)
    log.requestFailed(api.name, context, cause)
    return new Rejection('internal')
  }

  return {
    dispatch,
    reject(request, response) {
      const context = new RequestContext(request, settings, monotonicNow())
      context.recorder = hooks?.begin?.(context)
      finish(context, response)
    },
    malformed(status, reason, client) {
      log.malformedRequest(api.name, status, reason, client)
      observe?.(api.name, 'none', '', status, 0)
    },
  }
}

function sendResponse({ request }: RequestContext, response: Response): Response {
  request.respond(response)
  return response
}

function describeType(request: Request): string {
  const type = request.header('content-type')
  return type === undefined ? 'there was no Content-Type.' : `the Content-Type was ${type.slice(0, 100)}.`
}

/** Matches the characters of a query (RFC 3986), and those that clients leave unencoded. */
const queryPattern = /^\?[!$-;=?-~]*$/

/** Browsers send Origin with requests to the page's own origin, too. */
const isOwnOrigin = (origin: string, { origin: { authority } }: RequestContext) => origin.endsWith(`://${authority}`)

/** B12: returns the URL of the same path and query over HTTPS, at the public URL if there is one. */
function redirectToHttps({ origin, path, query }: RequestContext, baseUrl: string | undefined, port: number): Response {
  if (baseUrl?.startsWith('https:')) return empty(307, { location: `${baseUrl}${path}${query}` })
  const authority = baseUrl === undefined ? origin.authority : new URL(baseUrl).host
  const host = (authority ?? 'localhost').replace(/:\d*$/, '')
  return empty(307, { location: `https://${host}${port === 443 ? '' : `:${port}`}${path}${query}` })
}
