import { StringDecoder } from 'node:string_decoder'
import type { RequestContext } from '../http/context.ts'
import { isPreflight } from '../http/cors.ts'
import { byteLengthOf, type Response } from '../http/response.ts'
import type { ControlEvent, ItemChange, JournalEntry, JournalQuery, Message, Mistake } from './schema.ts'

/** A journal keeps this of an entry. Time and messages are formatted when somebody looks at it, which is rare. */
interface Recorded {
  readonly id: number
  readonly time: Date
  /** What is shown as it is. */
  shown: Omit<JournalEntry, 'id' | 'time' | 'request' | 'response'>
  request: RecordedMessage
  response: RecordedMessage
  bytes: number
  /** Position in the order of all journals. */
  readonly number: number
  /** While the request is pending. */
  context: RequestContext | undefined
  isRemoved: boolean
  /** The id of the last event about it; 0 where there is none. */
  eventId: number
  itemEventId: number
}

export type RequestOutcome = Pick<
  JournalEntry,
  'state' | 'status' | 'reason' | 'isSimulated' | 'item' | 'blockedOrigin'
>

interface RecordedMessage {
  /** Names and values in turn, or values by name. */
  readonly headers: readonly string[] | Response['headers']
  /** The bytes that are shown, and one more where the body is longer. */
  readonly body: string | Buffer | undefined
}

const nothing: RecordedMessage = { headers: undefined, body: undefined }

/** The longest part of a body that is shown. */
const maxBodyBytes = 16 * 1024
const maxEntries = 1_000
/** The largest size of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** Both are estimates. */
const entryOverheadBytes = 500
const stringOverheadBytes = 24
/** The largest number of clients that receive events, of all journals together. */
export const maxSubscriptions = 100

type JournalEvent = { readonly id: number } & (
  | { readonly event: 'request'; readonly data: Recorded }
  | { readonly event: 'item' | ControlEvent; readonly data: object }
)

/** Finds the rules of the contract that a request broke, and those that its response has shown. */
export type RulesOf = (context: RequestContext, response: Response) => Pick<JournalEntry, 'rules' | 'met'>

/** All journals share this memory. */
export class JournalBudget {
  readonly journals = new Set<Journal>()
  bytes = 0
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

/** Counts what the journal may no longer have. */
export class Use {
  lastUsed: Date | undefined
  requests = 0
  rejected = 0
  readonly met = new Set<string>()
  readonly broken = new Set<string>()
  mistake: Mistake | undefined

  add(
    { time, shown: { method, path } }: Pick<Recorded, 'time' | 'shown'>,
    { status, reason, isSimulated }: RequestOutcome,
    { rules, met }: ReturnType<RulesOf> = { rules: [], met: [] },
  ): void {
    this.lastUsed = time
    this.requests++
    if (status !== null && status >= 400 && !isSimulated) {
      this.rejected++
      this.mistake = {
        time: time.toISOString(),
        method,
        path: path.slice(0, 200),
        status,
        rules,
        ...(reason && { reason }),
      }
    }
    for (const rule of rules) this.broken.add(rule)
    for (const rule of met) this.met.add(rule)
  }
}

/** Keeps the last requests, and sends new ones to subscribers. */
export class Journal {
  /** Entries are in the order in which the requests began. */
  readonly #entries: Recorded[] = []
  /** Those that began in this turn of the event loop. */
  #begun: Recorded[] = []
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #rulesOf: RulesOf
  /** The key ends the stream of a client; the value sends what is new. */
  readonly #subscriptions = new Map<() => void, () => void>()
  #isClosed = false
  /** Entries and events are numbered together. */
  #lastId = 0
  /** Ids of the last event of each kind. */
  readonly #controlEvents = new Map<ControlEvent, number>()
  /** What clients did since the start or the last reset. */
  use = new Use()
  /** The last event about an entry is formatted once for all subscribers. */
  #sent: { readonly id: number; readonly text: string } | undefined

  constructor(budget: JournalBudget, now: () => Date, rulesOf: RulesOf) {
    this.#budget = budget
    this.#now = now
    this.#rulesOf = rulesOf
    budget.journals.add(this)
  }

  get oldestNumber(): number {
    return this.#entries[0]?.number ?? Number.POSITIVE_INFINITY
  }

  /** Adds an entry for a request whose head was read; undefined where it gets none. */
  begin(context: RequestContext): Recorded | undefined {
    const { request, path, query, route, space } = context
    if (this.#isClosed || route?.isPageFile) return undefined
    const { method, remoteAddress: client, rawHeaders: headers } = request
    const entry: Recorded = {
      id: ++this.#lastId,
      time: this.#now(),
      shown: {
        client,
        method,
        path,
        query,
        state: 'pending',
        status: null,
        milliseconds: 0,
        rules: [],
        met: [],
        ...(isPreflight(request) && { isPreflight: true }),
        ...(space.name && { space: space.name }),
      },
      request: { headers, body: undefined },
      response: nothing,
      bytes: 0,
      number: ++this.#budget.lastNumber,
      context,
      isRemoved: false,
      eventId: 0,
      itemEventId: 0,
    }
    this.#entries.push(entry)
    let bytes = entryOverheadBytes + path.length + query.length
    for (const text of headers) bytes += text.length + stringOverheadBytes
    this.#take(entry, bytes)
    if (this.#begun.push(entry) === 1) setImmediate(() => this.#announce())
    return entry
  }

  /** Subscribers hear of requests that take longer than a turn of the event loop. */
  #announce(): void {
    const pending = this.#begun.filter(({ context, isRemoved }) => context && !isRemoved)
    this.#begun = []
    for (const entry of pending) entry.eventId = ++this.#lastId
    if (pending.length > 0) this.#notify()
  }

  /** The response is undefined where the client did not wait for it. */
  end(entry: Recorded, response: Response | undefined, outcome: RequestOutcome, milliseconds: number): void {
    const { context, shown } = entry
    entry.context = undefined
    if (!context || entry.isRemoved) return
    const { state, isSimulated } = outcome
    const sent = state === 'sent' ? response : undefined
    const members = isSimulated ? undefined : sent?.error?.members
    const rules = sent && !isSimulated ? this.#rulesOf(context, sent) : undefined
    this.use.add(entry, outcome, rules)
    entry.shown = {
      ...shown,
      ...outcome,
      milliseconds: Math.round(10 * milliseconds) / 10,
      ...rules,
      ...(members && { errors: members }),
      ...faultOf(context),
    }
    entry.request = { ...entry.request, body: firstBytes(context.bodyBytes) }
    const hasBody = sent && context.method !== 'HEAD'
    if (sent) entry.response = { headers: sent.headers, body: hasBody ? firstBytes(sent.body) : undefined }
    this.#take(entry, sizeOf(entry.request.body) + sizeOf(entry.response.body))
    this.changed(entry, outcome.item)
  }

  /** Tells subscribers of an entry, and of the item that its request has changed. */
  changed(entry: Recorded, item: ItemChange | undefined): void {
    if (entry.isRemoved) return
    entry.eventId = ++this.#lastId
    if (item) {
      entry.shown = { ...entry.shown, item }
      entry.itemEventId = ++this.#lastId
    }
    this.#notify()
  }

  #take(entry: Recorded, bytes: number): void {
    entry.bytes += bytes
    this.#budget.bytes += bytes
    if (this.#entries.length > maxEntries) this.removeOldest()
    if (this.#budget.bytes > maxJournalBytes) this.#budget.makeRoom()
  }

  removeOldest(): void {
    const removed = this.#entries.shift()
    if (!removed) return
    removed.isRemoved = true
    this.#budget.bytes -= removed.bytes
  }

  clear(): void {
    while (this.#entries.length > 0) this.removeOldest()
  }

  /** Returns the last `limit` entries behind the one with the id `since`, the newest last. */
  list({ since = 0, limit = maxEntries, preflights = true }: JournalQuery = {}): JournalEntry[] {
    const entries = this.#entries.filter(({ id, shown }) => id > since && (preflights || !shown.isPreflight))
    return (limit === 0 ? [] : entries.slice(-limit)).map(toEntry)
  }

  notify(event: ControlEvent): void {
    this.#controlEvents.set(event, ++this.#lastId)
    this.#notify()
  }

  get hasSubscribers(): boolean {
    return this.#subscriptions.size > 0
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

  #eventsAfter(lastId: number): JournalEvent[] {
    const events: JournalEvent[] = [...this.#controlEvents].map(([event, id]) => ({ id, event, data: {} }))
    for (const entry of this.#entries) {
      const { eventId, itemEventId, shown } = entry
      if (eventId > lastId) events.push({ id: eventId, event: 'request', data: entry })
      if (itemEventId > lastId && shown.item) events.push({ id: itemEventId, event: 'item', data: shown.item })
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

function faultOf({ fault }: RequestContext): Pick<JournalEntry, 'fault' | 'faultIds'> | undefined {
  if (!fault?.description) return undefined
  const { description, faultIds } = fault
  return faultIds.length > 0 ? { fault: description, faultIds } : { fault: description }
}

const toEntry = ({ id, time, shown, request, response, context }: Recorded): JournalEntry => ({
  id,
  time: time.toISOString(),
  ...shown,
  ...(context && faultOf(context)),
  request: toMessage(context ? { ...request, body: firstBytes(context.bodyBytes) } : request),
  response: toMessage(response),
})

function toMessage({ headers = {}, body }: RecordedMessage): Message {
  // A decoder leaves out the first bytes of a character that is cut.
  const text = typeof body === 'object' ? new StringDecoder().write(body.subarray(0, maxBodyBytes)) : body
  const isTruncated = body !== undefined && body.length > maxBodyBytes
  return { headers: visibleHeaders(headers), body: text ?? null, ...(isTruncated && { isTruncated }) }
}

/** Parts of the names of headers with credentials: X-Auth, Api_Key, SessionId, X-Hub-Signature-256 and the like. */
const secretPart =
  /^(?:assertion|bearer|creds?|csrf|dpop|hmac|mfa|nonce|oidc|otp|pass|passcode|pin|pwd|saml|sas|sid|sig|sign|sso|ticket|totp|xsrf)$|^[ox]?auth(?!or(?:s|ity|ized)?$|enticated?$)|auth$|keys?$|cookie|credential|jwt|passphrase|passw|secret|session|signature|token/
/** Keys of another kind, and headers of CORS, which name others. */
const otherHeader = /(?:cache|idempotency|partition|public|routing|surrogate|websocket)[^a-z\d]?key|^access-control-.*/

/** Whether the name, in lower case, is that of a header with credentials. */
const isSecret = (name: string) =>
  name
    .replace(otherHeader, '')
    .split(/[^a-z\d]/)
    .some((part) => secretPart.test(part))

function visibleHeaders(sent: NonNullable<RecordedMessage['headers']>): Message['headers'] {
  const pairs: readonly string[] = Array.isArray(sent) ? sent : Object.entries(sent).flat()
  const headers = new Map<string, string>()
  for (let index = 0; index < pairs.length; index += 2) {
    const [name = '', value = ''] = [pairs[index]?.toLowerCase(), pairs[index + 1]]
    if (!isSecret(name)) headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
  }
  return Object.fromEntries(headers)
}

const changes: Readonly<Record<string, ItemChange['change']>> = {
  createItem: 'created',
  updateItem: 'updated',
  deleteItem: 'deleted',
}

/** What a request has changed. The response to a POST names the new id where the service assigns it. */
export function itemChange({ route, id, body }: RequestContext, { status, headers }: Response): ItemChange | undefined {
  const change = status >= 200 && status < 300 ? changes[route?.operation ?? ''] : undefined
  const location = headers?.location
  return change && { change, id: location?.slice(location.lastIndexOf('/') + 1) ?? `${id ?? body.id}` }
}
