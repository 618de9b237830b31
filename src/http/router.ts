import { nearestWord } from '../common/nearest-word.ts'
import type { NamedSchema, Schema } from '../common/schema.ts'
import type { Awaitable } from '../store/store.ts'
import { bodyReader, type SentBody } from './body-reader.ts'
import type { ErrorCode, Rejection } from './errors.ts'
import type { HandlerInput } from './request.ts'
import type { Response } from './response.ts'

/** A body that a JSON schema describes. */
interface DescribedBody {
  readonly schema: object
  readonly example?: unknown
}

/** The response to a successful request, for the OpenAPI document. */
export interface Success {
  readonly status: number
  readonly description: string
  readonly body?:
    | { readonly one: NamedSchema }
    | { readonly many: NamedSchema }
    | { readonly text: string }
    | (DescribedBody & { readonly type?: string })
  readonly headers?: Readonly<Record<string, string>>
}

export interface Route<Id = unknown, Body = Readonly<Record<string, unknown>>, Outcome = unknown> {
  readonly operation: string
  /** A route without `docs` is not in the OpenAPI document. */
  readonly docs?: {
    /** Default: To-do items. */
    readonly tag?: string
    readonly summary: string
    readonly success: Success
    /** Describes the request body of a route without `body`. */
    readonly requestBody?: DescribedBody
    /** The parameters besides the id, If-Match and If-None-Match. */
    readonly parameters?: readonly object[]
    /** The errors besides those that any body, token or request can cause. */
    readonly errors?: readonly ErrorCode[]
  }
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Consists of literal segments; the last one may be `{id}`. */
  readonly path: string
  /** S3, S7: the route requires a bearer token. */
  readonly secured?: boolean
  /** S7: the route requires a bearer token if the operator configures it. */
  readonly isSecurable?: true
  /** A health check is neither redirected nor rejected when the service is overloaded. */
  readonly isHealthCheck?: true
  /** A file of a page is not in the journal, and has no faults. */
  readonly isPageFile?: true
  readonly id?: {
    readonly schema: Schema<unknown>
    /** `segment` is percent-decoded; undefined if its percent-encoding is invalid. */
    parse(segment: string | undefined): Id | Rejection
  }
  readonly body?: NamedSchema<Body>
  /** Reads a body that no schema describes. */
  readBody?(text: string, input: SentBody & Pick<HandlerInput<Id, Body>, 'space'>): Body | Rejection
  /** A lower limit for the body than that of the API. */
  readonly maxBodyBytes?: number
  /** Does the work of the request. Only this function may return a promise. */
  execute(input: HandlerInput<Id, Body>): Awaitable<Outcome | Rejection>
  toResponse(outcome: Outcome, input: HandlerInput<Id, Body>): Response | Rejection
}

/** Defines a route, and infers the types of id, body and outcome. Without `toResponse`, the outcome is the response. */
export const route = <Id, Body, Outcome>(
  definition: Omit<Route<Id, Body, Outcome>, 'toResponse'> & Partial<Pick<Route<Id, Body, Outcome>, 'toResponse'>>,
): Route =>
  ({
    toResponse: (outcome: Response) => outcome,
    ...definition,
    ...(definition.body && { readBody: bodyReader(definition.body) }),
  }) as Route

/** The routes of one path. */
interface Resource {
  readonly segments: readonly string[]
  readonly methods: ReadonlyMap<string, Route>
  readonly allow: string
  /** Whether this is a page or one of its files. */
  readonly isPage: boolean
}

export interface Match {
  readonly resource: Resource
  /** The last segment of the path, decoded: the id if the path has one. */
  readonly segment: string | undefined
}

/** Matches the characters of a path (RFC 3986), and some more that clients do not encode. */
const pathPattern = /^\/[!$-;=@-[\]-~]*$/

/** G1, G2: finds the resource of a path in any case, with or without one trailing slash, after percent-decoding. */
export function router(routes: readonly Route[]): (path: string) => Match | 'malformed' | undefined {
  const resources = [...new Set(routes.map(({ path }) => path))].map((path) => resourceAt(path, routes))
  const byPath = new Map(resources.map((resource) => [`/${resource.segments.join('/')}`, resource]))
  const prefixes = [...byPath].flatMap(([path, resource]) =>
    path.endsWith('{id}') ? [{ prefix: path.slice(0, -'{id}'.length), resource }] : [],
  )

  function matchNormalized(path: string): Match | undefined {
    const segments = path.split('/').slice(1)
    if (segments.length > 1 && segments.at(-1) === '') segments.pop()
    const decoded = segments.map(decode)
    const resource = resources.find(
      (candidate) =>
        candidate.segments.length === decoded.length &&
        candidate.segments.every((name, at) =>
          name === '{id}' ? decoded[at] !== '' : name === decoded[at]?.toLowerCase(),
        ),
    )
    return resource && { resource, segment: decoded.at(-1) }
  }

  return (path) => {
    // Nearly every path is exactly that of a route, or has an id without percent-encoding: this is the fast way.
    for (const { prefix, resource } of prefixes) {
      const { length } = prefix
      if (path.length <= length || !path.startsWith(prefix)) continue
      if (!pathPattern.test(path)) return 'malformed'
      if (!path.includes('/', length) && !path.includes('%', length)) return { resource, segment: path.slice(length) }
    }
    const exact = byPath.get(path)
    if (exact) return { resource: exact, segment: undefined }
    if (!pathPattern.test(path)) return 'malformed'
    return matchNormalized(path)
  }
}

/** Returns the known path nearest to a path that is misspelt, lacks `/api` or differs in plurals or hyphens. */
export function nearestPath(sent: string, routes: readonly Route[]): string | undefined {
  const id = sent.replace(/\/+$/, '').split('/').at(-1) ?? ''
  const paths = routes.filter(({ docs }) => docs).map(({ path }) => path.replace('{id}', () => id))
  const byWords = new Map(paths.map((path) => [wordsOf(path), path]))
  const words = wordsOf(sent)
  const known = [...byWords.keys()]
  const isBeginning = (path: string) => words.length >= minBeginning && path.startsWith(words)
  const meant = nearestWord(words, known) ?? known.find(isBeginning)
  return meant && byWords.get(meant)
}

const minBeginning = 4

const wordsOf = (path: string) =>
  path
    .toLowerCase()
    .split('/')
    .map((segment) => segment.replace(/[-_]|s$/g, ''))
    .filter((word) => word !== '' && word !== 'api')
    .join('/')

function resourceAt(path: string, routes: readonly Route[]): Resource {
  const methods = new Map<string, Route>()
  for (const candidate of routes) {
    if (candidate.path !== path) continue
    methods.set(candidate.method, candidate)
    if (candidate.method === 'GET') methods.set('HEAD', candidate)
  }
  return {
    segments: path.split('/').slice(1),
    methods,
    allow: [...methods.keys()].join(', '),
    isPage: methods.get('GET')?.isPageFile === true,
  }
}

export function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

const bodyErrors = [
  ...(['body-invalid', 'value-unstorable', 'body-malformed', 'media-type-unsupported', 'body-too-large'] as const),
]
const commonErrors = ['overloaded', 'internal', 'host-malformed', 'header-repeated', 'framing-ambiguous'] as const

/** Returns every error that a request to the route can get, except the 401 of a secured route. */
export const errorCodesOf = (
  { docs, body, secured }: Pick<Route, 'docs' | 'body' | 'secured'>,
  isRateLimited: boolean,
): readonly ErrorCode[] => [
  ...(body ? bodyErrors : []),
  ...(docs?.errors ?? []),
  ...(secured ? (['keys-unavailable'] as const) : []),
  ...(isRateLimited ? (['too-many-requests'] as const) : []),
  ...commonErrors,
]
