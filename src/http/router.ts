import { nearestWord } from '../common/nearest-word.ts'
import type { Awaitable } from '../store/store.ts'
import type { ErrorCode, Rejection } from './errors.ts'
import type { HandlerInput } from './request.ts'
import type { Response } from './response.ts'
import {
  type BodyReader,
  bodyReader,
  type FromSchema,
  type MemberSchema,
  type ObjectSchema,
  type SentBody,
} from './schema.ts'

/** A body by its JSON schema. */
interface DescribedBody {
  readonly schema: object
  readonly example?: unknown
}

/** The response to a request that succeeds, for the OpenAPI document. */
export interface Success {
  readonly status: number
  readonly description: string
  readonly body?:
    | { readonly one: ObjectSchema }
    | { readonly many: ObjectSchema }
    | { readonly text: string }
    | (DescribedBody & { readonly type?: string })
  readonly headers?: Readonly<Record<string, string>>
}

export interface Route<Id = unknown, S extends ObjectSchema = ObjectSchema, Outcome = unknown> {
  readonly operation: string
  /** The OpenAPI document leaves out a route without it. */
  readonly docs?: {
    readonly tag: string
    readonly summary: string
    readonly success: Success
    /** Where no schema of ours describes it. */
    readonly requestBody?: DescribedBody
    /** Besides those that come with an id or an entity tag. */
    readonly parameters?: readonly object[]
    /** Besides those that come with a body or a token. */
    readonly errors?: readonly ErrorCode[]
  }
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Literal segments and, last, at most one `{id}`. */
  readonly path: string
  /** S3, S7: requires a bearer token. */
  readonly secured?: boolean
  /** S7: requires one where the operator asks for it. */
  readonly isSecurable?: true
  /** Health checks: neither redirected nor rejected when the service is overloaded. */
  readonly isHealthCheck?: true
  /** A file of a page: not in the journal, and without faults. */
  readonly isPageFile?: true
  readonly id?: {
    readonly schema: MemberSchema
    /** `segment` is decoded; undefined where it is no valid percent-encoding. */
    parse(segment: string | undefined): Id | Rejection
  }
  readonly body?: S
  readonly readBody?: BodyReader<FromSchema<S>>
  /** Where it is less than what the API accepts. */
  readonly maxBodyBytes?: number
  /** The one thing that may take time. */
  execute(input: HandlerInput<Id, FromSchema<S>>): Awaitable<Outcome | Rejection>
  respond(outcome: Outcome, input: HandlerInput<Id, FromSchema<S>>): Response | Rejection
}

/** States a route; the types of its id, body and outcome follow. Without `respond`, the outcome is the response. */
export const route = <Id, S extends ObjectSchema, Outcome>(
  stated: Omit<Route<Id, S, Outcome>, 'respond'> & Partial<Pick<Route<Id, S, Outcome>, 'respond'>>,
): Route =>
  ({
    respond: (outcome: Response) => outcome,
    ...stated,
    ...(stated.body && { readBody: bodyReader(stated.body) }),
  }) as Route

/** A route whose body, if it has one, no schema describes. */
export const readerRoute = <Body, Outcome>(
  stated: Omit<Route<unknown, ObjectSchema, Outcome>, 'body' | 'readBody' | 'execute' | 'respond'> & {
    readBody?(text: string, input: SentBody & Pick<HandlerInput<unknown, Body>, 'space'>): Body | Rejection
    execute(input: HandlerInput<unknown, Body>): Awaitable<Outcome | Rejection>
    respond(outcome: Outcome, input: HandlerInput<unknown, Body>): Response | Rejection
  },
): Route => stated as object as Route

/** The routes of one path. */
interface Resource {
  readonly segments: readonly string[]
  readonly methods: ReadonlyMap<string, Route>
  readonly allow: string
  /** Whether this is a page, or one of its files. */
  readonly isPage: boolean
}

export interface Match {
  readonly resource: Resource
  /** The last segment of the path, decoded: the id where the path has one. */
  readonly segment: string | undefined
}

/** Characters of a path (RFC 3986), and some that clients leave unencoded. */
const pathPattern = /^\/[!$-;=@-[\]-~]*$/

/** G1, G2: paths match in any case, with or without one trailing slash, percent-encoding decoded. */
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
    // Nearly every request: a path as it is stated, or one with a plain id behind it.
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

/** The path that was probably meant: misspelt, with another plural, with hyphens or underscores, or without `/api`. */
export function nearestPath(sent: string, routes: readonly Route[]): string | undefined {
  const id = sent.replace(/\/+$/, '').split('/').at(-1) ?? ''
  const paths = routes.filter(({ docs }) => docs).map(({ path }) => path.replace('{id}', () => id))
  const byWords = new Map(paths.map((path) => [wordsOf(path), path]))
  const words = wordsOf(sent)
  const known = [...byWords.keys()]
  const isBeginning = (one: string) => words.length >= minBeginning && one.startsWith(words)
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

/** Every error that a request to the route can get, besides 401 where it is secured. */
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
