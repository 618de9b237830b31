/*
 * The types of the control of a service that `start` shows to other packages. They use no other module, so that a client
 * compiles them without the types of Node.
 */

/** A failure or delay that requests get until it is used up. */
export interface FaultRule {
  /** Any method, where absent. */
  readonly method?: string
  /** A path, or one of the document's such as `/api/todoitems/{id}`; any, where absent. */
  readonly path?: string
  /** How many requests; all, where absent. */
  readonly times?: number
  /** The share of these requests, from 0 to 1; all, where absent. */
  readonly share?: number
  /** The status of the response; the profile's own failure, where neither `code` nor `fault` nor `delay` is there. */
  readonly code?: number
  /** The connection is reset, or closed after half of the body, or after the request took effect. */
  readonly fault?: 'reset' | 'truncate' | 'lost'
  /** Milliseconds. */
  readonly delay?: number
}

/** A request and its response, as GET /__admin/requests shows them. */
export interface JournalEntry {
  readonly id: number
  readonly time: string
  readonly client: string
  readonly method: string
  readonly path: string
  /** With its question mark. */
  readonly query: string
  /** Null where the connection was closed without a response. */
  readonly status: number | null
  readonly milliseconds: number
  readonly request: Message
  readonly response: Message
  /** Why the request was rejected, and the rule of the contract that says so. */
  readonly reason?: string
  readonly rule?: string
  readonly errors?: Readonly<Record<string, readonly string[]>>
  /** The delay or failure that was applied. */
  readonly fault?: string
  /** The item that was created, updated or deleted. */
  readonly item?: ItemChange
}

export interface ItemChange {
  readonly change: 'created' | 'updated' | 'deleted'
  readonly id: string
}

export interface Message {
  readonly headers: Readonly<Record<string, string>>
  /** The first 16 KiB as text; null where there is none. */
  readonly body: string | null
  readonly isTruncated?: true
}
