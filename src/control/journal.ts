import { StringDecoder } from 'node:string_decoder'
import type { RequestContext } from '../http/context.ts'
import type { Response } from '../http/response.ts'
import type { ItemChange, JournalEntry, Message } from './types.ts'

/** References and first bytes; formatted when somebody reads them. */
interface Recorded {
  readonly id: number
  /** Of all journals together. */
  readonly number: number
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
  readonly operation: string | undefined
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
/** Of a string, besides its characters. */
const stringOverheadBytes = 24
/** Clients that receive events, of all journals together. */
export const maxSubscriptions = 100

/** The items were replaced, the journal was emptied, or the rules for failures have changed. */
type Notice = 'reset' | 'clear' | 'faults'

export interface JournalEvent {
  readonly id: number
  readonly event: 'request' | 'item' | Notice
  /** Its data. */
  readonly json: string
}

/** The rule by which a request was rejected. */
export type RuleOf = (
  response: { readonly status: number; readonly error: Response['error'] | undefined },
  operation: string | undefined,
) => string | undefined

/** Of one client. */
interface Subscription {
  /** Of the last event that was sent. */
  lastId: number
  /** Whether the client does not keep up. */
  isWaiting: boolean
  /** Sends what is new. */
  resume(): void
  cancel(): void
  onClose(): void
}

/** Memory of the entries of all journals. */
export class JournalBudget {
  readonly #journals = new Set<Journal>()
  bytes = 0
  subscriptions = 0
  /** Numbers the entries of all journals. */
  lastNumber = 0

  add(journal: Journal): void {
    this.#journals.add(journal)
  }

  remove(journal: Journal): void {
    this.#journals.delete(journal)
  }

  /** Removes the oldest entries of all. */
  makeRoom(): void {
    while (this.bytes > maxJournalBytes) {
      let oldest: Journal | undefined
      for (const journal of this.#journals)
        if (journal.oldestNumber < (oldest?.oldestNumber ?? Number.POSITIVE_INFINITY)) oldest = journal
      oldest?.removeOldest()
    }
  }
}

/** The last requests, newest last, and the subscribers to new ones. */
export class Journal {
  /** Those before `#first` are removed. */
  #entries: (Recorded | undefined)[] = []
  #first = 0
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #ruleOf: RuleOf
  readonly #subscriptions = new Set<Subscription>()
  #isClosed = false
  /** Of entries and events together. */
  #lastId = 0
  /** The id of the last one of each kind. */
  readonly #notices = new Map<Notice, number>()
  /** The newest entry, for all subscribers. */
  #formatted: { readonly id: number; readonly json: string } | undefined

  constructor(budget: JournalBudget, now: () => Date, ruleOf: RuleOf) {
    this.#budget = budget
    this.#now = now
    this.#ruleOf = ruleOf
    budget.add(this)
  }

  get oldestNumber(): number {
    return this.#entries[this.#first]?.number ?? Number.POSITIVE_INFINITY
  }

  record(context: RequestContext, response: Response, milliseconds: number): void {
    if (this.#isClosed) return
    const { request, fault, path, query, route } = context
    if (route?.isPageFile) return
    const { rawHeaders } = request
    const isSent = fault?.outcome !== 'reset' && fault?.outcome !== 'lost'
    const requestBody = firstBytes(context.bodyBytes)
    const responseBody = isSent ? firstBytes(response.body) : undefined
    let bytes = entryOverheadBytes + path.length + query.length + sizeOf(requestBody) + sizeOf(responseBody)
    for (let index = 0; index < rawHeaders.length; index++)
      bytes += (rawHeaders[index] as string).length + stringOverheadBytes
    const entry: Recorded = {
      id: ++this.#lastId,
      number: ++this.#budget.lastNumber,
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
      operation: route?.operation,
      change: response.status >= 200 && response.status < 300 ? changes[route?.operation ?? ''] : undefined,
      itemId: context.id ?? context.body.id,
      location: response.headers?.location,
    }
    // The event about the item has an id of its own.
    if (entry.change) this.#lastId++
    this.#entries.push(entry)
    this.#budget.bytes += bytes
    if (this.#entries.length - this.#first > maxEntries) this.removeOldest()
    if (this.#budget.bytes > maxJournalBytes) this.#budget.makeRoom()
    this.#notify()
  }

  removeOldest(): void {
    this.#budget.bytes -= this.#entries[this.#first]?.bytes ?? 0
    this.#entries[this.#first++] = undefined
    if (this.#first < maxEntries) return
    this.#entries = this.#entries.slice(this.#first)
    this.#first = 0
  }

  clear(): void {
    while (this.#first < this.#entries.length) this.removeOldest()
  }

  /** The last `limit` entries behind the one with the id `since`. */
  list({ since = 0, limit = maxEntries }: { since?: number; limit?: number } = {}): JournalEntry[] {
    const entries = this.#newerThan(since)
    return (limit === 0 ? [] : entries.slice(-limit)).map((entry) => this.#format(entry))
  }

  notify(notice: Notice): void {
    this.#notices.set(notice, ++this.#lastId)
    this.#notify()
  }

  get hasRoom(): boolean {
    return this.#budget.subscriptions < maxSubscriptions
  }

  /**
   * Sends what is newer than `lastId`, then what follows. A client that does not keep up gets the rest when it does, as far
   * as the journal still has it: nothing is kept for it.
   */
  subscribe(send: (event: JournalEvent) => boolean, lastId = this.#lastId, onClose: () => void): Subscription {
    const subscription = {
      // A higher one is from another process.
      lastId: lastId > this.#lastId ? 0 : lastId,
      isWaiting: false,
      resume: () => {
        subscription.isWaiting = false
        for (const event of this.#eventsAfter(subscription.lastId)) {
          subscription.lastId = event.id
          subscription.isWaiting = !send(event)
          if (subscription.isWaiting) return
        }
      },
      cancel: () => {
        if (this.#subscriptions.delete(subscription)) this.#budget.subscriptions--
      },
      onClose,
    }
    this.#subscriptions.add(subscription)
    this.#budget.subscriptions++
    subscription.resume()
    if (this.#isClosed) onClose()
    return subscription
  }

  /** Ends the subscriptions, and returns the memory of the entries. */
  close(): void {
    this.#isClosed = true
    this.clear()
    this.#budget.remove(this)
    for (const { cancel, onClose } of this.#subscriptions) {
      cancel()
      onClose()
    }
  }

  #notify(): void {
    for (const { isWaiting, resume } of this.#subscriptions) if (!isWaiting) resume()
  }

  #newerThan(id: number): Recorded[] {
    let first = this.#entries.length
    while (first > this.#first && (this.#entries[first - 1]?.id ?? 0) > id) first--
    return this.#entries.slice(first) as Recorded[]
  }

  /** In the order of their ids. Each is formatted when it is taken: a client that reads slowly takes few at a time. */
  *#eventsAfter(lastId: number): Generator<JournalEvent> {
    const notices = [...this.#notices]
      .map(([event, id]): JournalEvent => ({ id, event, json: '{}' }))
      .filter(({ id }) => id > lastId)
      .sort((one, other) => other.id - one.id)
    // The event about an item comes behind that of its request.
    for (const entry of this.#newerThan(lastId - 2)) {
      while ((notices.at(-1)?.id ?? entry.id) < entry.id) yield notices.pop() as JournalEvent
      if (entry.id > lastId) yield { id: entry.id, event: 'request', json: this.#toJson(entry) }
      const item = itemChange(entry)
      if (item && entry.id + 1 > lastId) yield { id: entry.id + 1, event: 'item', json: JSON.stringify(item) }
    }
    yield* notices.reverse()
  }

  #toJson(entry: Recorded): string {
    if (this.#formatted?.id !== entry.id) this.#formatted = { id: entry.id, json: JSON.stringify(this.#format(entry)) }
    return this.#formatted.json
  }

  #format(entry: Recorded): JournalEntry {
    const { id, time, client, method, path, query, status, error, reason, fault } = entry
    const rule = this.#ruleOf(entry, entry.operation)
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
  // A character has up to three bytes for each UTF-16 code unit.
  if (typeof body === 'string')
    return 3 * body.length <= maxBodyBytes ? body : Buffer.from(body.slice(0, maxBodyBytes + 1))
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
  // Without the first bytes of a character that is cut.
  const text = typeof body === 'string' ? body : body && new StringDecoder().write(body.subarray(0, maxBodyBytes))
  return { headers, body: text ?? null, ...(isTruncated && { isTruncated }) }
}

function headersOf(rawHeaders: readonly string[]): Message['headers'] {
  const pairs: [string, string][] = []
  for (let index = 0; index < rawHeaders.length; index += 2)
    pairs.push([(rawHeaders[index] as string).toLowerCase(), rawHeaders[index + 1] as string])
  return withoutSecrets(pairs)
}

/** Credentials: Authorization, Cookie, X-Api-Key, X-Auth-Token and the like. */
const secretHeader = /auth(?!enticate|ority)|cookie|api-?key|token|secret|passw|credential|session|signature/

function withoutSecrets(pairs: readonly (readonly [string, string])[]): Message['headers'] {
  const headers = new Map<string, string>()
  for (const [name, value] of pairs)
    if (!secretHeader.test(name)) headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
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
