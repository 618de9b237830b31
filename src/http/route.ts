import type { Answer } from './answer.ts'
import type { Caller } from './auth.ts'
import type { Refusal } from './refusal.ts'
import type { Shape, Shaped } from './shape.ts'

/** What a handler is given: the request, already read and checked. */
interface Call<Id, Body> {
  readonly id: Id
  readonly body: Body
  /** Whose token it is, where the route asks for one. */
  readonly caller: Caller | undefined
  /** Scheme and authority under which the client reaches this service; no trailing slash. */
  readonly baseUrl: string
}

export interface Route<Id = unknown, S extends Shape = Shape> {
  readonly operation: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Literal segments and, last, at most one `{id}`. */
  readonly path: string
  /** S3, S7: asks for a bearer token. */
  readonly secured?: boolean
  /** Reads the path's id; undefined stands for a segment that is no valid percent-encoding. */
  readonly id?: (segment: string | undefined) => Id | Refusal
  readonly body?: S
  handle(call: Call<Id, Shaped<S>>): Answer | Refusal | Promise<Answer | Refusal>
}

/** States a route; its id and body types follow from what it says. */
export const route = <Id, S extends Shape>(stated: Route<Id, S>): Route => stated

/** A path that routes share, and what it offers. */
interface Place {
  readonly names: readonly string[]
  readonly byMethod: ReadonlyMap<string, Route>
  readonly allow: string
}

export interface Found extends Place {
  /** The path's last segment, percent-encoding undone: the id where the path has one. */
  readonly segment: string | undefined
}

/** Path → the place it names. G1, G2: in any case, with or without one trailing slash, percent-encoding undone. */
export function router(routes: readonly Route[]): (path: string) => Found | undefined {
  const places = [...new Set(routes.map(({ path }) => path))].map((path) => placeOf(path, routes))
  return (path) => {
    const segments = path.split('/').slice(1)
    if (segments.length > 1 && segments.at(-1) === '') segments.pop()
    const decoded = segments.map(decode)
    const place = places.find(({ names }) => matches(names, decoded))
    return place && { ...place, segment: decoded.at(-1) }
  }
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
