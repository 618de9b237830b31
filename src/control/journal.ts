import type { RequestContext } from '../http/request.ts'
import type { Response } from '../http/response.ts'

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

interface Message {
  readonly headers: Readonly<Record<string, string>>
  /** The first 16 KiB as text; null where there is none. */
  readonly body: string | null
  readonly isTruncated?: true
}

/** References and first bytes; formatted when somebody reads them. */
interface Recorded {
  readonly id: number
  readonly bytes: number
  readonly time: Date
  readonly milliseconds: number
  readonly client: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly rawHeaders: readonly string[]
  readonly requestBody: Body
  /** 0: no response. */
  readonly status: number
  readonly headers: Response['headers']
  readonly responseBody: Body
  readonly error: Response['error']
  readonly reason: string | undefined
  readonly fault: string | undefined
  readonly change: ItemChange['change'] | undefined
  readonly itemId: unknown
  readonly location: string | undefined
}

/** Undefined: no body. A truncated one is longer by a byte. */
type Body = string | Buffer | undefined

const maxBodyBytes = 16 * 1024
const maxEntries = 1_000
/** Of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** Objects and numbers of an entry. */
const entryOverheadBytes = 500

export type JournalEvent =
  | { readonly event: 'request'; readonly entry: JournalEntry }
  | { readonly event: 'item'; readonly id: number; readonly item: ItemChange }
  | { readonly event: 'reset' | 'clear' | 'faults'; readonly id: number }

/** Memory of the entries of all journals. */
export class JournalBudget {
  readonly #journals = new Set<Journal>()
  bytes = 0

  add(journal: Journal): void {
    this.#journals.add(journal)
  }

  remove(journal: Journal): void {
    this.#journals.delete(journal)
  }

  /** Removes the oldest entries of this journal, then those of others. */
  makeRoom(writing: Journal): void {
    for (const journal of [writing, ...this.#journals])
      while (this.bytes > maxJournalBytes && journal.size > (journal === writing ? 1 : 0)) journal.removeOldest()
  }
}

/** The last requests, newest last, and those who want to hear of new ones. */
export class Journal {
  /** Those before `#first` are removed. */
  #entries: (Recorded | undefined)[] = []
  #first = 0
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #ruleOf: (error: NonNullable<Response['error']>) => string | undefined
  readonly #listeners = new Map<(event: JournalEvent) => void, () => void>()
  #lastId = 0

  constructor(
    budget: JournalBudget,
    now: () => Date,
    ruleOf: (error: NonNullable<Response['error']>) => string | undefined,
  ) {
    this.#budget = budget
    this.#now = now
    this.#ruleOf = ruleOf
    budget.add(this)
  }

  get size(): number {
    return this.#entries.length - this.#first
  }

  record(context: RequestContext, response: Response, milliseconds: number): void {
    const { request, fault, path, query, route } = context
    if (route?.isPageFile) return
    const { rawHeaders } = request
    const isSent = fault?.outcome !== 'reset' && fault?.outcome !== 'lost'
    const requestBody = firstBytes(context.bodyBytes)
    const responseBody = isSent ? firstBytes(response.body) : undefined
    let bytes = entryOverheadBytes + path.length + query.length + sizeOf(requestBody) + sizeOf(responseBody)
    for (let index = 0; index < rawHeaders.length; index++) bytes += (rawHeaders[index] as string).length
    const entry: Recorded = {
      id: ++this.#lastId,
      bytes,
      time: this.#now(),
      milliseconds,
      client: request.remoteAddress,
      method: request.method,
      path,
      query,
      rawHeaders,
      requestBody,
      status: isSent ? response.status : 0,
      headers: isSent ? response.headers : undefined,
      responseBody,
      error: response.error,
      reason: response.reason,
      fault: fault?.description,
      change: response.status >= 200 && response.status < 300 ? changes[route?.operation ?? ''] : undefined,
      itemId: context.id ?? context.body.id,
      location: response.headers?.location,
    }
    this.#entries.push(entry)
    this.#budget.bytes += bytes
    if (this.size > maxEntries) this.removeOldest()
    if (this.#budget.bytes > maxJournalBytes) this.#budget.makeRoom(this)
    if (this.#listeners.size > 0) this.#emit(...this.#eventsOf(entry))
  }

  removeOldest(): void {
    this.#budget.bytes -= this.#entries[this.#first]?.bytes ?? 0
    this.#entries[this.#first++] = undefined
    if (this.#first < maxEntries) return
    this.#entries = this.#entries.slice(this.#first)
    this.#first = 0
  }

  clear(): void {
    while (this.size > 0) this.removeOldest()
  }

  /** The last `limit` entries behind the one with the id `since`. */
  list({ since = 0, limit = maxEntries }: { since?: number; limit?: number } = {}): JournalEntry[] {
    const entries = this.#newerThan(since)
    return (limit === 0 ? [] : entries.slice(-limit)).map((entry) => this.#format(entry))
  }

  /** Tells that the items were replaced, the journal was emptied or the rules for failures have changed. */
  notify(event: 'reset' | 'clear' | 'faults'): void {
    this.#emit({ event, id: ++this.#lastId })
  }

  /** Calls the listener for what is newer than `lastId`, then for what follows, until the returned function is called. */
  subscribe(listener: (event: JournalEvent) => void, lastId: number | undefined, onClose: () => void): () => void {
    if (lastId !== undefined)
      for (const entry of this.#newerThan(lastId)) for (const event of this.#eventsOf(entry)) listener(event)
    this.#listeners.set(listener, onClose)
    return () => this.#listeners.delete(listener)
  }

  #newerThan(id: number): Recorded[] {
    return this.#entries.slice(this.#first).flatMap((entry) => (entry && entry.id > id ? [entry] : []))
  }

  /** Ends the subscriptions, and returns the memory of the entries. */
  close(): void {
    this.clear()
    this.#budget.remove(this)
    for (const onClose of this.#listeners.values()) onClose()
    this.#listeners.clear()
  }

  #emit(...events: JournalEvent[]): void {
    for (const event of events) for (const listener of this.#listeners.keys()) listener(event)
  }

  #eventsOf(entry: Recorded): JournalEvent[] {
    const item = itemChange(entry)
    const request = { event: 'request' as const, entry: this.#format(entry) }
    return item ? [request, { event: 'item', id: entry.id, item }] : [request]
  }

  #format(entry: Recorded): JournalEntry {
    const { id, time, client, method, path, query, status, error, reason, fault } = entry
    const rule = error && this.#ruleOf(error)
    const item = itemChange(entry)
    return {
      id,
      time: time.toISOString(),
      client,
      method,
      path,
      query,
      status: status === 0 ? null : status,
      milliseconds: Number(entry.milliseconds.toFixed(1)),
      request: message(entry.requestBody, headersOf(entry.rawHeaders)),
      response: message(entry.responseBody, withoutSecrets(Object.entries(entry.headers ?? {}))),
      ...(reason !== undefined && { reason }),
      ...(rule !== undefined && { rule }),
      ...(error?.members && { errors: error.members }),
      ...(fault !== undefined && { fault }),
      ...(item && { item }),
    }
  }
}

const sizeOf = (body: Body) => (body === undefined ? 0 : typeof body === 'string' ? 2 * body.length : body.length)

/** One byte more than is shown tells that there is more. Copies, where a part would keep a larger buffer in memory. */
function firstBytes(body: Response['body'] | Buffer): Body {
  if (body === undefined || body === '' || typeof body === 'function') return undefined
  if (typeof body === 'string') return body.length <= maxBodyBytes ? body : Buffer.from(body.slice(0, maxBodyBytes + 1))
  // A request body is a part of what the socket read.
  if (Buffer.isBuffer(body)) return body.length === 0 ? undefined : Buffer.from(body.subarray(0, maxBodyBytes + 1))
  const [first] = body
  if (body.length === 1 && first && first.length <= maxBodyBytes) return first
  return Buffer.concat(
    body,
    Math.min(
      maxBodyBytes + 1,
      body.reduce((sum, { length }) => sum + length, 0),
    ),
  )
}

function message(body: Body, headers: Message['headers']): Message {
  const isTruncated = body !== undefined && body.length > maxBodyBytes
  const text = typeof body === 'string' ? body : body?.toString('utf8', 0, maxBodyBytes)
  return { headers, body: text ?? null, ...(isTruncated && { isTruncated }) }
}

function headersOf(rawHeaders: readonly string[]): Message['headers'] {
  const pairs: [string, string][] = []
  for (let index = 0; index < rawHeaders.length; index += 2)
    pairs.push([(rawHeaders[index] as string).toLowerCase(), rawHeaders[index + 1] as string])
  return withoutSecrets(pairs)
}

const secretHeaders = ['authorization', 'proxy-authorization', 'cookie', 'set-cookie']

function withoutSecrets(pairs: readonly (readonly [string, string])[]): Message['headers'] {
  const headers = new Map<string, string>()
  for (const [name, value] of pairs)
    if (!secretHeaders.includes(name)) headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
  return Object.fromEntries(headers)
}

const changes: Readonly<Record<string, ItemChange['change']>> = {
  createItem: 'created',
  updateItem: 'updated',
  deleteItem: 'deleted',
}

/** In profile A the response of a POST names the id. */
const itemChange = ({ change, itemId, location }: Recorded): ItemChange | undefined =>
  change && { change, id: location?.slice(location.lastIndexOf('/') + 1) ?? `${itemId}` }
