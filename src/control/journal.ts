import { StringDecoder } from 'node:string_decoder'
import type { RequestContext } from '../http/context.ts'
import { byteLengthOf, type Response } from '../http/response.ts'
import type { ControlEvent, ItemChange, JournalEntry, Message } from './schema.ts'

/** A journal keeps this of an entry. Time and messages are formatted when somebody looks at it, which is rare. */
interface Recorded extends Omit<JournalEntry, 'time' | 'request' | 'response'> {
  readonly time: Date
  readonly request: RecordedMessage
  readonly response: RecordedMessage
  readonly bytes: number
  /** Position in the order of all journals. */
  readonly number: number
}

interface RecordedMessage {
  /** Names and values in turn, or values by name. */
  readonly headers: readonly string[] | Response['headers']
  /** The bytes that are shown, and one more where the body is longer. */
  readonly body: string | Buffer | undefined
}

/** The longest part of a body that is shown. */
const maxBodyBytes = 16 * 1024
/** The largest number of entries in one journal. */
const maxEntries = 1_000
/** The largest size of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** An estimate of the objects and numbers of an entry. */
const entryOverheadBytes = 500
/** An estimate of a string without its characters. */
const stringOverheadBytes = 24
/** The largest number of clients that receive events, of all journals together. */
export const maxSubscriptions = 100

type JournalEvent = { readonly id: number } & (
  | { readonly event: 'request'; readonly data: Recorded }
  | { readonly event: 'item' | ControlEvent; readonly data: object }
)

/** Finds the rule of the contract by which a request was rejected. */
export type RuleOf = (response: Response, operation: string | undefined) => string | undefined

/** All journals share this memory. */
export class JournalBudget {
  readonly journals = new Set<Journal>()
  bytes = 0
  /** The number of the newest entry. */
  lastNumber = 0
  subscriptions = 0

  /** Removes the oldest entries of all journals. */
  makeRoom(): void {
    while (this.bytes > maxJournalBytes) {
      let oldest: Journal | undefined
      for (const journal of this.journals)
        if (journal.oldestNumber < (oldest?.oldestNumber ?? Number.POSITIVE_INFINITY)) oldest = journal
      oldest?.removeOldest()
    }
  }
}

/** Keeps the last requests, and sends new ones to subscribers. */
export class Journal {
  readonly #entries: Recorded[] = []
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #ruleOf: RuleOf
  /** The key ends the stream of a client; the value sends what is new. */
  readonly #subscriptions = new Map<() => void, () => void>()
  #isClosed = false
  /** Entries and events are numbered together. */
  #lastId = 0
  /** Ids of the last event of each kind. */
  readonly #controlEvents = new Map<ControlEvent, number>()
  /** The last entry that was sent is formatted once for all subscribers. */
  #sent: { readonly id: number; readonly text: string } | undefined

  constructor(budget: JournalBudget, now: () => Date, ruleOf: RuleOf) {
    this.#budget = budget
    this.#now = now
    this.#ruleOf = ruleOf
    budget.journals.add(this)
  }

  get oldestNumber(): number {
    return this.#entries[0]?.number ?? Number.POSITIVE_INFINITY
  }

  record(context: RequestContext, response: Response, milliseconds: number): void {
    const { request, fault, path, query, route } = context
    if (this.#isClosed || route?.isPageFile) return
    const { error, reason } = response
    const isSent = fault?.outcome !== 'reset' && fault?.outcome !== 'lost'
    const sentBody = firstBytes(context.bodyBytes)
    const body = isSent ? firstBytes(response.body) : undefined
    let bytes = entryOverheadBytes + path.length + query.length + sizeOf(sentBody) + sizeOf(body)
    for (const text of request.rawHeaders) bytes += text.length + stringOverheadBytes
    const rule = this.#ruleOf(response, route?.operation)
    const item = itemChange(context, response)
    this.#entries.push({
      id: ++this.#lastId,
      time: this.#now(),
      client: request.remoteAddress,
      method: request.method,
      path,
      query,
      status: isSent ? response.status : null,
      milliseconds: Math.round(10 * milliseconds) / 10,
      request: { headers: request.rawHeaders, body: sentBody },
      response: { headers: isSent ? response.headers : undefined, body },
      bytes,
      number: ++this.#budget.lastNumber,
      ...(reason !== undefined && { reason }),
      ...(rule !== undefined && { rule }),
      ...(error?.members && { errors: error.members }),
      ...(fault && { fault: fault.description }),
      ...(item && { item }),
    })
    // The event about the item has an id of its own.
    if (item) this.#lastId++
    this.#budget.bytes += bytes
    if (this.#entries.length > maxEntries) this.removeOldest()
    if (this.#budget.bytes > maxJournalBytes) this.#budget.makeRoom()
    this.#notify()
  }

  removeOldest(): void {
    this.#budget.bytes -= this.#entries.shift()?.bytes ?? 0
  }

  clear(): void {
    while (this.#entries.length > 0) this.removeOldest()
  }

  /** Returns the last `limit` entries behind the one with the id `since`, the newest last. */
  list({ since = 0, limit = maxEntries }: { since?: number; limit?: number } = {}): JournalEntry[] {
    const entries = this.#newerThan(since)
    return (limit === 0 ? [] : entries.slice(-limit)).map(toEntry)
  }

  notify(event: ControlEvent): void {
    this.#controlEvents.set(event, ++this.#lastId)
    this.#notify()
  }

  get hasRoom(): boolean {
    return this.#budget.subscriptions < maxSubscriptions
  }

  /**
   * Sends events as text: what is newer than `lastId`, then what follows. A client that does not keep up gets the rest when it
   * does, as far as the journal still has it: nothing is kept for it.
   */
  subscribe(send: (text: string) => boolean, lastId = this.#lastId, end: () => void) {
    // A higher id is from another process.
    let sentId = lastId > this.#lastId ? 0 : lastId
    let isWaiting = false
    const resume = () => {
      isWaiting = false
      for (const event of this.#eventsAfter(sentId)) {
        sentId = event.id
        isWaiting = !send(this.#format(event))
        if (isWaiting) return
      }
    }
    this.#subscriptions.set(end, () => {
      if (!isWaiting) resume()
    })
    this.#budget.subscriptions++
    resume()
    if (this.#isClosed) end()
    return { resume, cancel: () => this.#cancel(end) }
  }

  #cancel(end: () => void): void {
    if (this.#subscriptions.delete(end)) this.#budget.subscriptions--
  }

  /** Ends the subscriptions, and returns the memory of the entries. */
  close(): void {
    this.#isClosed = true
    this.clear()
    this.#budget.journals.delete(this)
    for (const end of this.#subscriptions.keys()) {
      this.#cancel(end)
      end()
    }
  }

  #notify(): void {
    for (const sendNew of this.#subscriptions.values()) sendNew()
  }

  #newerThan(id: number): Recorded[] {
    return this.#entries.slice(1 + this.#entries.findLastIndex((entry) => entry.id <= id))
  }

  /** Returns the events in the order of their ids. */
  #eventsAfter(lastId: number): JournalEvent[] {
    const events: JournalEvent[] = [...this.#controlEvents].map(([event, id]) => ({ id, event, data: {} }))
    // The event about an item comes behind that of its request.
    for (const entry of this.#newerThan(lastId - 2)) {
      events.push({ id: entry.id, event: 'request', data: entry })
      if (entry.item) events.push({ id: entry.id + 1, event: 'item', data: entry.item })
    }
    return events.filter(({ id }) => id > lastId).sort((one, other) => one.id - other.id)
  }

  /** The format is that of https://html.spec.whatwg.org/multipage/server-sent-events.html. */
  #format({ id, event, data }: JournalEvent): string {
    const textOf = (shown: object) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(shown)}\n\n`
    if (event !== 'request') return textOf(data)
    if (this.#sent?.id !== id) this.#sent = { id, text: textOf(toEntry(data)) }
    return this.#sent.text
  }
}

const sizeOf = (body: RecordedMessage['body']) =>
  body === undefined ? 0 : typeof body === 'string' ? 2 * body.length : body.length

/** Bytes are copied where a part would keep a larger buffer in memory. */
function firstBytes(body: Response['body'] | Buffer): RecordedMessage['body'] {
  if (body === undefined || typeof body === 'function' || body.length === 0) return undefined
  // A character has up to three bytes for each UTF-16 code unit.
  if (typeof body === 'string')
    return 3 * body.length <= maxBodyBytes ? body : Buffer.from(body.slice(0, maxBodyBytes + 1))
  // A request body is a part of what the socket read.
  if (Buffer.isBuffer(body)) return Buffer.from(body.subarray(0, maxBodyBytes + 1))
  const [first] = body
  if (body.length === 1 && first && first.length <= maxBodyBytes) return first
  return Buffer.concat(body, Math.min(maxBodyBytes + 1, byteLengthOf(body)))
}

const toEntry = ({ bytes, number, ...entry }: Recorded): JournalEntry => ({
  ...entry,
  time: entry.time.toISOString(),
  request: toMessage(entry.request),
  response: toMessage(entry.response),
})

function toMessage({ headers = {}, body }: RecordedMessage): Message {
  // A decoder leaves out the first bytes of a character that is cut.
  const text = typeof body === 'object' ? new StringDecoder().write(body.subarray(0, maxBodyBytes)) : body
  const isTruncated = body !== undefined && body.length > maxBodyBytes
  return { headers: visibleHeaders(headers), body: text ?? null, ...(isTruncated && { isTruncated }) }
}

/** Headers with credentials: Authorization, Cookie, X-Api-Key, X-Auth-Token and the like. */
const secretHeader = /auth(?!enticate|ority)|cookie|api-?key|token|secret|passw|credential|session|signature/

function visibleHeaders(sent: NonNullable<RecordedMessage['headers']>): Message['headers'] {
  const pairs: readonly string[] = Array.isArray(sent) ? sent : Object.entries(sent).flat()
  const headers = new Map<string, string>()
  for (let index = 0; index < pairs.length; index += 2) {
    const [name = '', value = ''] = [pairs[index]?.toLowerCase(), pairs[index + 1]]
    if (!secretHeader.test(name)) headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
  }
  return Object.fromEntries(headers)
}

const changes: Readonly<Record<string, ItemChange['change']>> = {
  createItem: 'created',
  updateItem: 'updated',
  deleteItem: 'deleted',
}

/** The response to a POST names the new id where the service assigns it. */
function itemChange({ route, id, body }: RequestContext, { status, headers }: Response): ItemChange | undefined {
  const change = status >= 200 && status < 300 ? changes[route?.operation ?? ''] : undefined
  const location = headers?.location
  return change && { change, id: location?.slice(location.lastIndexOf('/') + 1) ?? `${id ?? body.id}` }
}
