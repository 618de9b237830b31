import type { Collection } from '../store/store.ts'
import type { ErrorCode } from './errors.ts'
import type { Response } from './response.ts'

/** `sent`: the response was passed on to be sent. `aborted`: the client closed the connection; `closed`: we did. */
export type Ending = 'sent' | 'aborted' | 'closed'

/** A request, independent of the runtime: only `server/` knows which one received it. */
export interface Request {
  readonly method: string
  /** As sent: `/path?query`, or `http://authority/path?query` (RFC 9112, 3.2.2). */
  readonly target: string
  /** The mistake that the server found in version, Host, repeated headers or framing. */
  readonly protocolError: ErrorCode | undefined
  /** Why the server is overloaded, for the log; undefined if it is not. */
  readonly overloadReason: string | undefined
  readonly isEncrypted: boolean
  /** Undefined if the runtime does not tell the version. */
  readonly isHttp10?: boolean
  readonly remoteAddress: string
  readonly localPort: number
  readonly hasBody: boolean
  /** Alternating names and values, as sent. */
  readonly rawHeaders: readonly string[]
  /** Returns a header by its name in lower case; the values of a repeated header are joined with ", ". */
  header(name: string): string | undefined
  /** Receives the whole body; passes it to `done`, or an error code if it could not be received. */
  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void
  respond(response: Response): void
  /** Whether the client closed the connection before it got a response. */
  readonly isAborted: boolean
  /** Development: calls `ended` once, when the request has ended. */
  onEnd(ended: (how: Ending) => void): void
  /** Closes the connection without a response, or resets it. */
  abort(withReset: boolean): void
}

/** The claims of a verified token. */
export type Claims = Readonly<Record<string, unknown>>

/** A set of items; only requests to this space read or change them. */
export interface Space {
  /** The name of the space; empty for the default space. */
  readonly name: string
  readonly items: Collection
}

/** What a handler gets: a request that is authenticated and whose id and body are checked. */
export interface HandlerInput<Id, Body> {
  readonly space: Space
  readonly id: Id
  readonly body: Body
  /** Whether the body had all members of its schema, and no others. */
  readonly hasAllMembers: boolean
  /** The claims of the bearer token, on routes that require one. */
  readonly caller: Claims | undefined
  /** The URL at which the client reaches this service (and space), without trailing slash. */
  readonly baseUrl: string
  /** Whether the client runs on this machine and addressed a loopback host. */
  readonly isLocal: boolean
  /** The prefix of all paths in this space: empty, or `/~NAME`. */
  readonly pathPrefix: string
  /** The query with its question mark; empty if there is none. */
  readonly query: string
  readonly request: Pick<Request, 'header' | 'isAborted'>
}

/** How many characters the head of a request has. */
export const headLengthOf = ({ target, rawHeaders }: Pick<Request, 'target' | 'rawHeaders'>) =>
  rawHeaders.reduce((sum, { length }) => sum + length, target.length)
