import type { Rejection } from './errors.ts'
import { clientAddress, isLoopbackHost, type ProxyTrust, trustedOrigin } from './proxy.ts'
import type { Claims, HandlerInput, Request, Space } from './request.ts'
import type { Response } from './response.ts'
import type { Route } from './router.ts'
import type { FromSchema, ObjectSchema } from './schema.ts'

/** A delay, a rate or a failure that somebody asked for, in development. */
export interface AppliedFault {
  readonly delayMs: number
  /** The rate at which the body of the response is sent. */
  readonly bytesPerSecond: number | undefined
  /** `lost`: the handler runs and its response is not sent. */
  readonly outcome: Rejection | Response | 'reset' | 'truncate' | 'lost' | 'none'
  /** The value of the header Preference-Applied; empty where no preference was applied. */
  readonly applied: string
  /** All that was applied, for the journal. */
  readonly description: string
  /** Those of the control API. */
  readonly faultIds: readonly number[]
  /** The fault or preference that the outcome comes from; undefined where that is `none`. */
  readonly simulatedBy: string | undefined
}

export interface ContextSettings {
  /** Requests that name no space work on this. */
  readonly space: Space
  /** Undefined: no proxy is trusted. */
  readonly trustProxy: ProxyTrust | undefined
  /** The public URL; undefined: the origin that each request names. */
  readonly baseUrl: string | undefined
  readonly newId: () => string
}

const noMembers = {}
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/is

/** One request on its way through dispatch. */
export class RequestContext implements HandlerInput<unknown, FromSchema<ObjectSchema>> {
  readonly request: Request
  /** The path has no query, which may contain a secret. */
  readonly path: string
  /** The query has its question mark; empty where there is none. */
  readonly query: string
  readonly startedAt: number
  space: Space
  route: Route | undefined
  id: unknown
  body: FromSchema<ObjectSchema> = noMembers
  bodyBytes: Buffer | undefined
  hasAllMembers = false
  /** Whether a page or one of its files was asked for. */
  isPage = false
  /** What takes the place of the handler, or of its response. */
  fault: AppliedFault | undefined
  caller: Claims | undefined
  /** The origin of a page that may not read the response. */
  blockedOrigin: string | undefined
  /** Development: takes the response, or that the connection is reset in its place. */
  record: ((outcome: Response | 'reset') => void) | undefined
  /** The authority of an absolute-form target replaces Host (RFC 9112, 3.2.2). */
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

  /** The authority that the client named, without regard to proxies. */
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
    // HTTP/1.0 has no Host.
    return `${isSecure ? 'https' : 'http'}://${authority ?? `localhost:${this.request.localPort}`}${this.pathPrefix}`
  }

  /** The address of the client, as far as trusted proxies report it. */
  get client(): string {
    return clientAddress(this.request, this.#settings.trustProxy)
  }

  get method(): string {
    return this.request.method
  }

  /** The trace id of `traceparent` (W3C Trace Context), else a new one; made only for requests that fail or are logged. */
  get traceId(): string {
    this.#traceId ??= traceIdIn(this.request.header('traceparent')) ?? this.#settings.newId()
    return this.#traceId
  }

  /**
   * A loopback peer that named a loopback host, not through a proxy. The name matters: a foreign site can rebind its own
   * host name to this machine (DNS rebinding). A proxy that adds no header may send HTTP/1.0, as nginx does.
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
 * The trace id of a `traceparent` (W3C Trace Context, 3.2): version, trace id, parent id and flags in hexadecimal. Ids of
 * zeros are invalid, as is version ff; version 00 ends there, and a later one may go on after another hyphen.
 */
function traceIdIn(traceparent: string | undefined): string | undefined {
  const [, version, traceId, parentId, rest] = traceparentParts.exec(traceparent ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== '')) return undefined
  return isZero(traceId) || isZero(parentId) ? undefined : traceId
}
const traceparentParts = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}(|-.*)$/
const isZero = (digits: string | undefined) => /^0*$/.test(digits ?? '')

/** The names of headers that proxies add. */
const proxyHeader =
  /^(?:via|forwarded|x-(?:original-)?forwarded(?:-.*)?|x-original-(?:host|url)|(?:.*-)?(?:client|connecting|real)-?ip|x-envoy-.*|cdn-loop|max-forwards|proxy-connection)$/i
