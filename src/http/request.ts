import type { Stores } from '../store/store.ts'
import type { ErrorCode } from './errors.ts'
import type { Response } from './response.ts'

/** How a request ended: with its response, which was handed over to be sent, or without, as the client or the service left. */
export type Ending = 'sent' | 'aborted' | 'closed'

/** A request waits, in development. */
export interface Delay {
  readonly delayMs: number
  /** The memory of its body. */
  readonly bodyBytes: number
  /** Whether it waits on when its client has left. */
  readonly isKept: boolean
  /** Called once: `over` after `delayMs`, or before that `ended` with its client, or `no-memory` as too many requests wait. */
  done(how: 'over' | 'ended' | 'no-memory'): void
}

/** A request as a server hands it over. Nothing but `server/` knows which runtime received it. */
export interface Request {
  readonly method: string
  /** As sent: `/path?query`, or `http://authority/path?query` (RFC 9112, 3.2.2). */
  readonly target: string
  /** What the server found wrong with version, Host, repeated headers or framing. */
  readonly protocolError: ErrorCode | undefined
  /** Why the server is overloaded, for the log; undefined where it is not. */
  readonly overloadReason: string | undefined
  readonly isEncrypted: boolean
  /** Undefined where the runtime does not tell the version. */
  readonly isHttp10?: boolean
  readonly remoteAddress: string
  readonly localPort: number
  readonly hasBody: boolean
  /** Names and values in turn, as sent. */
  readonly rawHeaders: readonly string[]
  /** The name is in lower case; several lines of one header are joined with ", ". */
  header(name: string): string | undefined
  /** Receives the whole body; the error code says why it was not received. */
  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void
  respond(response: Response): void
  /** Whether the client has closed the connection before it got a response. */
  readonly isAborted: boolean
  /** Development: calls `ended` once. */
  onEnd(ended: (how: Ending) => void): void
  delay(delay: Delay): void
  /** Closes the connection without a response, or resets it. */
  abort(withReset: boolean): void
}

/** Claims of a verified token. */
export type Claims = Readonly<Record<string, unknown>>

/** A set of items that no other request sees than those to this space. */
export interface Space {
  /** Empty for the default space. */
  readonly name: string
  readonly stores: Stores
}

/** What a handler gets: the request, authenticated, its id and body checked. */
export interface HandlerInput<Id, Body> {
  readonly space: Space
  readonly id: Id
  readonly body: Body
  /** Whether the body had all members of its schema, and no others. */
  readonly hasAllMembers: boolean
  /** Claims of the bearer token, on routes that require one. */
  readonly caller: Claims | undefined
  /** Scheme and authority under which the client reaches this service; no trailing slash. */
  readonly baseUrl: string
  /** Whether the client runs on this machine and addressed it as such. */
  readonly isLocal: boolean
  /** In front of every path of this service as the client sees it: empty, or `/~NAME` of a space. */
  readonly pathPrefix: string
  /** The query has its question mark; empty where there is none. */
  readonly query: string
  readonly request: Pick<Request, 'header' | 'isAborted'>
}
