import type { Eventually } from '../eventually.ts'
import type { Answer } from './answer.ts'
import type { Caller } from './auth.ts'
import type { Refusal, RefusalCode } from './refusal.ts'
import { type Member, type Reader, readerOf, type Shape, type Shaped } from './shape.ts'

/** What a handler is given: the request, already read and checked. */
export interface Call<T, Body> {
  readonly id: T
  readonly body: Body
  /** Whose token it is, where the route asks for one. */
  readonly caller: Caller | undefined
  /** Scheme and authority under which the client reaches this service; no trailing slash. */
  readonly baseUrl: string
  /** Whether the client is on this machine, and named it so. */
  isLocal(): boolean
  /** The first value of another header, by its lower-case name. */
  header(name: string): string | undefined
}

/** The answer to a request that is not refused. */
export interface Success {
  readonly status: number
  readonly description: string
  readonly body?: { readonly one: Shape } | { readonly many: Shape } | { readonly text: string }
  readonly headers?: Readonly<Record<string, string>>
}

interface Id<T> {
  readonly schema: Member
  /** Undefined stands for a segment that is no valid percent-encoding. */
  read(segment: string | undefined): T | Refusal
}

export interface Route<T = unknown, S extends Shape = Shape> {
  readonly operation: string
  /** What the OpenAPI document says of it; a route without it is not in the document. */
  readonly docs?: {
    readonly tag: string
    readonly summary: string
    readonly success: Success
    /** Besides those that come with a body or a token. */
    readonly refusals?: readonly RefusalCode[]
  }
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Literal segments and, last, at most one `{id}`. */
  readonly path: string
  /** S3, S7: asks for a bearer token. */
  readonly secured?: boolean
  /** For whoever runs the service: neither redirected nor refused when there is much to do. */
  readonly isForOperators?: true
  readonly id?: Id<T>
  readonly body?: S
  /** Reads the body, where there is one. */
  readonly read?: Reader<S>
  handle(call: Call<T, Shaped<S>>): Eventually<Answer | Refusal>
}

/** States a route; its id and body types follow from what it says. */
export const route = <T, S extends Shape>(stated: Route<T, S>): Route =>
  stated.body ? { ...stated, read: readerOf(stated.body) } : stated

/** A path that routes share, and what it offers. */
interface Place {
  readonly names: readonly string[]
  readonly byMethod: ReadonlyMap<string, Route>
  readonly allow: string
}

export interface Found {
  readonly place: Place
  /** The path's last segment, percent-encoding undone: the id where the path has one. */
  readonly segment: string | undefined
}

/** Path → the place it names. G1, G2: in any case, with or without one trailing slash, percent-encoding undone. */
export function router(routes: readonly Route[]): (path: string) => Found | undefined {
  const places = [...new Set(routes.map(({ path }) => path))].map((path) => placeOf(path, routes))
  // As nearly everyone writes it: a known path to the letter, or one with a plain id behind it.
  const byPath = new Map(places.map((place) => [`/${place.names.join('/')}`, place]))
  const withId = [...byPath].flatMap(([path, place]) =>
    path.endsWith('{id}') ? [{ prefix: path.slice(0, -4), place }] : [],
  )
  const plain = (path: string): Found | undefined => {
    for (const { prefix, place } of withId)
      if (path.length > prefix.length && path.startsWith(prefix)) {
        const segment = path.slice(prefix.length)
        return segment.includes('/') || segment.includes('%') ? undefined : { place, segment }
      }
    const place = byPath.get(path)
    return place && { place, segment: undefined }
  }
  const anyhow = (path: string): Found | undefined => {
    const segments = path.split('/').slice(1)
    if (segments.length > 1 && segments.at(-1) === '') segments.pop()
    const decoded = segments.map(decode)
    const place = places.find(({ names }) => matches(names, decoded))
    return place && { place, segment: decoded.at(-1) }
  }
  return (path) => plain(path) ?? anyhow(path)
}

function placeOf(path: string, routes: readonly Route[]): Place {
  const byMethod = new Map<string, Route>()
  for (const route of routes) {
    if (route.path !== path) continue
    byMethod.set(route.method, route)
    if (route.method === 'GET') byMethod.set('HEAD', route)
  }
  return { names: path.split('/').slice(1), byMethod, allow: [...byMethod.keys()].join(', ') }
}

function matches(names: readonly string[], segments: readonly (string | undefined)[]): boolean {
  return (
    names.length === segments.length &&
    names.every((name, at) => (name === '{id}' ? segments[at] !== '' : name === segments[at]?.toLowerCase()))
  )
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
