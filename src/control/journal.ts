import { StringDecoder } from 'node:string_decoder'
import type { RequestContext } from '../http/context.ts'
import { isPreflight } from '../http/cors.ts'
import { byteLengthOf, type Response } from '../http/response.ts'
import type { AppliedFault } from './effects.ts'
import type { ControlEvent, ItemChange, JournalEntry, JournalQuery, Message, Mistake } from './schema.ts'

/** What the journal stores of a request. Time and messages are formatted when a client reads them, which is rare. */
interface Recorded {
  readonly id: number
  readonly time: Date
  /** The members of the entry that need no formatting. */
  shown: Omit<JournalEntry, 'id' | 'time' | 'request' | 'response'>
  request: RecordedMessage
  response: RecordedMessage
  bytes: number
  /** The number of this entry in the order of the entries of all journals. */
  readonly number: number
  /** Undefined once the request has ended. */
  context: RequestContext | undefined
  /** The faults and preferences that apply to the request. */
  fault: AppliedFault | undefined
  isRemoved: boolean
  /** The id of the last `request` event about this entry; 0 before the first. */
  eventId: number
  itemEventId: number
}

export type RequestOutcome = Pick<
  JournalEntry,
  'state' | 'status' | 'reason' | 'isSimulated' | 'item' | 'blockedOrigin'
>

interface RecordedMessage {
  /** Alternating names and values, or values by name. */
  readonly headers: readonly string[] | Response['headers']
  /** The first bytes of the body: as many as are shown, and one more if the body is longer. */
  readonly body: string | Buffer | undefined
}

const nothing: RecordedMessage = { headers: undefined, body: undefined }

/** How many bytes of a body are shown. */
const maxBodyBytes = 16 * 1024
const maxEntries = 1_000
/** The memory limit of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** Estimates of the memory that an entry takes, and a string in it, besides their text. */
const entryOverheadBytes = 500
const stringOverheadBytes = 24
/** How many clients may receive events, for all journals together. */
export const maxSubscriptions = 100

type JournalEvent = { readonly id: number } & (
  | { readonly event: 'request'; readonly data: Recorded }
  | { readonly event: 'item' | ControlEvent; readonly data: object }
)

/** Returns the rules of the contract that a request broke, and those that the client has met. */
export type RulesOf = (context: RequestContext, response: Response) => Pick<JournalEntry, 'rules' | 'met'>

/** The memory and the subscriptions that all journals share. */
export class JournalBudget {
  readonly journals = new Set<Journal>()
  bytes = 0
  lastNumber = 0
  subscriptions = 0

  /** Removes the oldest entries of all journals until the others are within the limit. */
  makeRoom(): void {
    while (this.bytes > maxJournalBytes) {
      let oldest: Journal | undefined
      for (const journal of this.journals)
        if (journal.oldestNumber < (oldest?.oldestNumber ?? Number.POSITIVE_INFINITY)) oldest = journal
      oldest?.removeOldest()
    }
  }
}

/** Statistics of the requests to a space, including those whose entries the journal has removed. */
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
  /** The entries that were added in this turn of the event loop. */
  #begun: Recorded[] = []
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #rulesOf: RulesOf
  /** A function that ends the stream of a client, and the function that sends new events to this client. */
  readonly #subscriptions = new Map<() => void, () => void>()
  #isClosed = false
  /** Entries and events take their ids from the same sequence. */
  #lastId = 0
  /** The id of the last event of each kind. */
  readonly #controlEvents = new Map<ControlEvent, number>()
  /** Statistics since the start or the last reset. */
  use = new Use()
  /** The last `request` event as text, so that it is formatted once for all subscribers. */
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

  /** Adds an entry for a request whose head was read. Files of pages get none, nor does any request after `close`. */
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
      fault: undefined,
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

  /** Sends an event for requests that are pending after a turn of the event loop; others get one when they end. */
  #announce(): void {
    const pending = this.#begun.filter(({ context, isRemoved }) => context && !isRemoved)
    this.#begun = []
    for (const entry of pending) entry.eventId = ++this.#lastId
    if (pending.length > 0) this.#notify()
  }

  /** Completes an entry. The response is undefined if there was none. */
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
      ...faultOf(entry),
    }
    entry.request = { ...entry.request, body: firstBytes(context.bodyBytes) }
    const hasBody = sent && context.method !== 'HEAD'
    if (sent) entry.response = { headers: sent.headers, body: hasBody ? firstBytes(sent.body) : undefined }
    this.#take(entry, sizeOf(entry.request.body) + sizeOf(entry.response.body))
    this.changed(entry, outcome.item)
  }

  /** Sends subscribers an event for the entry, and another one for the item that its request has changed. */
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

  /** Returns the last `limit` entries with ids above `since`, the newest last. */
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
   * Sends events as text: those after `lastId` at once, later ones as they occur. Nothing is buffered for a slow
   * client: it gets the events that it missed when it reads again, if the journal still has them.
   */
  subscribe(send: (text: string) => boolean, lastId = this.#lastId, end: () => void) {
    // An id that was not assigned yet comes from an earlier process.
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

  /** Ends all subscriptions, and removes all entries. */
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
    return events.filter(({ id }) => id > lastId).sort((a, b) => a.id - b.id)
  }

  /** Formats an event for https://html.spec.whatwg.org/multipage/server-sent-events.html. */
  #format({ id, event, data }: JournalEvent): string {
    const textOf = (shown: object) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(shown)}\n\n`
    if (event !== 'request') return textOf(data)
    if (this.#sent?.id !== id) this.#sent = { id, text: textOf(toEntry(data)) }
    return this.#sent.text
  }
}

const sizeOf = (body: RecordedMessage['body']) =>
  body === undefined ? 0 : typeof body === 'string' ? 2 * body.length : body.length

/** Returns the part of a body to keep, copied if a slice would keep a larger buffer in memory. */
function firstBytes(body: Response['body'] | Buffer): RecordedMessage['body'] {
  if (body === undefined || typeof body === 'function' || body.length === 0) return undefined
  // In UTF-8, a UTF-16 code unit takes at most three bytes.
  if (typeof body === 'string')
    return 3 * body.length <= maxBodyBytes ? body : Buffer.from(body.slice(0, maxBodyBytes + 1))
  // The body of a request is a slice of a larger buffer of the socket.
  if (Buffer.isBuffer(body)) return Buffer.from(body.subarray(0, maxBodyBytes + 1))
  const [first] = body
  if (body.length === 1 && first && first.length <= maxBodyBytes) return first
  return Buffer.concat(body, Math.min(maxBodyBytes + 1, byteLengthOf(body)))
}

function faultOf({ fault }: Pick<Recorded, 'fault'>): Pick<JournalEntry, 'fault' | 'faultIds'> | undefined {
  if (!fault?.description) return undefined
  const { description, faultIds } = fault
  return faultIds.length > 0 ? { fault: description, faultIds } : { fault: description }
}

const toEntry = ({ id, time, shown, request, response, context, fault }: Recorded): JournalEntry => ({
  id,
  time: time.toISOString(),
  ...shown,
  ...(context && faultOf({ fault })),
  request: toMessage(context ? { ...request, body: firstBytes(context.bodyBytes) } : request),
  response: toMessage(response),
})

function toMessage({ headers = {}, body }: RecordedMessage): Message {
  // StringDecoder omits a character that the limit has cut in two.
  const text = typeof body === 'object' ? new StringDecoder().write(body.subarray(0, maxBodyBytes)) : body
  const isTruncated = body !== undefined && body.length > maxBodyBytes
  return { headers: visibleHeaders(headers), body: text ?? null, ...(isTruncated && { isTruncated }) }
}

/** Matches a part of the name of a header with credentials: X-Auth, Api_Key, SessionId, X-Hub-Signature-256. */
const secretPart =
  /^(?:assertion|bearer|creds?|csrf|dpop|hmac|mfa|nonce|oidc|otp|pass|passcode|pin|pwd|saml|sas|sid|sig|sign|sso|ticket|totp|xsrf)$|^[ox]?auth(?!or(?:s|ity|ized)?$|enticated?$)|auth$|keys?$|cookie|credential|jwt|passphrase|passw|secret|session|signature|token/
/** Matches names with keys that are not secret, and CORS headers, whose names contain those of other headers. */
const otherHeader = /(?:cache|idempotency|partition|public|routing|surrogate|websocket)[^a-z\d]?key|^access-control-.*/

/** Whether a header with this name, in lower case, has credentials. */
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

/** Returns the item that a request has changed. If the service has assigned its id, the id is in Location. */
export function itemChange({ route, id, body }: RequestContext, { status, headers }: Response): ItemChange | undefined {
  const change = status >= 200 && status < 300 ? changes[route?.operation ?? ''] : undefined
  const location = headers?.location
  return change && { change, id: location?.slice(location.lastIndexOf('/') + 1) ?? `${id ?? body.id}` }
}
