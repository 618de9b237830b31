import { clientAddress, isLoopbackHost, type ProxyTrust, trustedOrigin } from './proxy.ts'
import type { Claims, HandlerInput, Request, Space } from './request.ts'
import type { Response } from './response.ts'
import type { Route } from './router.ts'

/** Takes the response of a request, in development. */
export interface RequestRecorder {
  takeResponse(response: Response): void
}

export interface ContextSettings {
  /** The space of requests that name none. */
  readonly space: Space
  /** Which proxies are trusted; undefined: none. */
  readonly trustProxy: ProxyTrust | undefined
  /** The public URL; undefined: the scheme and host of each request. */
  readonly baseUrl: string | undefined
  readonly newId: () => string
}

const noMembers = {}
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/is

/** One request on its way through dispatch. */
export class RequestContext implements HandlerInput<unknown, Readonly<Record<string, unknown>>> {
  readonly request: Request
  /** The path without the query, which may contain a secret. */
  readonly path: string
  /** The query with its question mark; empty if there is none. */
  readonly query: string
  readonly startedAt: number
  space: Space
  route: Route | undefined
  id: unknown
  body: Readonly<Record<string, unknown>> = noMembers
  bodyBytes: Buffer | undefined
  hasAllMembers = false
  /** Whether the request is for a page or one of its files. */
  isPage = false
  caller: Claims | undefined
  /** The origin of the page that sent the request, if CORS does not let it read the response. */
  blockedOrigin: string | undefined
  recorder: RequestRecorder | undefined
  /** The authority of a target in absolute form, which replaces Host (RFC 9112, 3.2.2). */
  readonly targetAuthority: string | undefined
  readonly pathPrefix: string
  readonly #settings: ContextSettings
  #traceId: string | undefined

  constructor(
    request: Request,
    settings: ContextSettings,
    startedAt: number,
    pathPrefix = '',
    space: Space = settings.space,
  ) {
    this.request = request
    this.startedAt = startedAt
    this.space = space
    this.pathPrefix = pathPrefix
    this.#settings = settings
    let { target } = request
    if (target.charCodeAt(0) !== slash) {
      const [, authority, path] = absoluteForm.exec(target) ?? []
      this.targetAuthority = authority
      if (path !== undefined) target = path.startsWith('/') ? path : `/${path}`
    } else this.targetAuthority = undefined
    if (pathPrefix !== '') target = target.slice(pathPrefix.length)
    if (target.charCodeAt(0) !== slash && pathPrefix !== '') target = `/${target}`
    const queryStart = target.indexOf('?')
    this.path = queryStart < 0 ? target : target.slice(0, queryStart)
    this.query = queryStart < 0 ? '' : target.slice(queryStart)
  }

  /** The authority in the target or Host; X-Forwarded-Host does not matter. */
  get authority(): string | undefined {
    return this.targetAuthority ?? this.request.header('host')
  }

  get origin(): { isSecure: boolean; authority: string | undefined } {
    const { trustProxy } = this.#settings
    if (trustProxy) return trustedOrigin(this.request, this.authority, trustProxy)
    return { isSecure: this.request.isEncrypted, authority: this.authority }
  }

  get baseUrl(): string {
    const { baseUrl } = this.#settings
    if (baseUrl !== undefined) return `${baseUrl}${this.pathPrefix}`
    const { isSecure, authority } = this.origin
    // A request of HTTP/1.0 may lack Host.
    return `${isSecure ? 'https' : 'http'}://${authority ?? `localhost:${this.request.localPort}`}${this.pathPrefix}`
  }

  /** The address of the client, as far as trusted proxies report it. */
  get client(): string {
    return clientAddress(this.request, this.#settings.trustProxy)
  }

  get method(): string {
    return this.request.method
  }

  /** The trace id of `traceparent` (W3C Trace Context), or a new one, which is created when it is first read. */
  get traceId(): string {
    this.#traceId ??= traceIdIn(this.request.header('traceparent')) ?? this.#settings.newId()
    return this.#traceId
  }

  /**
   * Whether the client runs on this machine, addressed a loopback host and used no proxy. The host is checked because
   * another site can point its name at this machine (DNS rebinding). A proxy shows by a header, or by HTTP/1.0 (nginx).
   */
  get isLocal(): boolean {
    const { remoteAddress, isHttp10, rawHeaders } = this.request
    return (
      /^(?:::ffff:)?127\.|^::1$/.test(remoteAddress) &&
      isLoopbackHost((this.authority ?? '').replace(/:\d+$/, '')) &&
      !isHttp10 &&
      !rawHeaders.some((text, index) => index % 2 === 0 && proxyHeader.test(text))
    )
  }
}

const slash = 0x2f

/**
 * Returns the trace id of `traceparent` (W3C Trace Context, 3.2): version, trace id, parent id and flags in
 * hexadecimal. Ids of zeros are invalid, as is version ff. Version 00 ends after the flags; a later version may add
 * more parts.
 */
function traceIdIn(traceparent: string | undefined): string | undefined {
  const [, version, traceId, parentId, rest] = traceparentParts.exec(traceparent ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== '')) return undefined
  return isZero(traceId) || isZero(parentId) ? undefined : traceId
}
const traceparentParts = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}(|-.*)$/
const isZero = (digits: string | undefined) => /^0*$/.test(digits ?? '')

/** Matches the names of headers that proxies add. */
const proxyHeader =
  /^(?:via|forwarded|x-(?:original-)?forwarded(?:-.*)?|x-original-(?:host|url)|(?:.*-)?(?:client|connecting|real)-?ip|x-envoy-.*|cdn-loop|max-forwards|proxy-connection)$/i
