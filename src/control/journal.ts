import { StringDecoder } from 'node:string_decoder'
import { clientAddress, trustNoProxy } from '../http/proxy.ts'
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

interface Recorded {
  readonly id: number
  readonly journal: Journal
  readonly bytes: number
  readonly time: Date
  readonly milliseconds: number
  readonly context: Pick<RequestContext, 'method' | 'path' | 'query'>
  readonly client: string
  readonly rawHeaders: readonly string[]
  readonly requestBody: Body
  readonly status: number
  readonly headers: Response['headers']
  readonly responseBody: Body
  readonly error: Response['error']
  readonly reason: string | undefined
  readonly operation: string | undefined
  readonly fault: string | undefined
  readonly item: ItemChange | undefined
}

interface Body {
  readonly text: string | null
  readonly isTruncated: boolean
}

/** The rule by which a request was rejected. */
export type RuleOf = (
  response: { readonly status: number; readonly error: Response['error'] | undefined },
  operation: string | undefined,
) => string | undefined

const maxBodyBytes = 16 * 1024
const maxEntries = 1_000
/** Of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** Objects and numbers of an entry. */
const entryOverheadBytes = 500
/** Of a string, besides its characters. */
const stringOverheadBytes = 24

export interface JournalEvent {
  readonly id: number
  readonly event: 'request' | 'item' | 'reset'
  readonly data: object
}

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

/** Memory of the entries of all journals, oldest first. */
export class JournalBudget {
  readonly #entries = new Set<Recorded>()
  #bytes = 0

  add(entry: Recorded): void {
    this.#entries.add(entry)
    this.#bytes += entry.bytes
    for (const oldest of this.#entries) {
      if (this.#bytes <= maxJournalBytes) break
      oldest.journal.remove(oldest)
    }
  }

  remove(entry: Recorded): void {
    if (this.#entries.delete(entry)) this.#bytes -= entry.bytes
  }
}

/** The last requests, newest last, and those who want to hear of new ones. */
export class Journal {
  readonly #entries = new Set<Recorded>()
  readonly #budget: JournalBudget
  readonly #now: () => Date
  readonly #ruleOf: RuleOf
  readonly #subscriptions = new Set<Subscription>()
  #isClosed = false
  /** Of entries and events together. */
  #lastId = 0
  #lastResetId = 0

  constructor(budget: JournalBudget, now: () => Date, ruleOf: RuleOf) {
    this.#budget = budget
    this.#now = now
    this.#ruleOf = ruleOf
  }

  /** Keeps references and the first bytes; the rest is formatted when somebody reads it. */
  record(context: RequestContext, response: Response, milliseconds: number): void {
    const { request, fault } = context
    const requestBody = firstBytes(context.bodyBytes)
    const responseBody = firstBytes(response.body)
    const isSent = fault?.outcome !== 'reset' && fault?.outcome !== 'lost'
    const item = itemChange(context, response)
    const entry: Recorded = {
      id: ++this.#lastId,
      journal: this,
      bytes:
        entryOverheadBytes +
        context.path.length +
        context.query.length +
        request.rawHeaders.reduce((sum, { length }) => sum + length + stringOverheadBytes, 0) +
        2 * ((requestBody.text?.length ?? 0) + (responseBody.text?.length ?? 0)),
      time: this.#now(),
      milliseconds,
      context: { method: context.method, path: context.path, query: context.query },
      client: clientAddress(request, trustNoProxy),
      rawHeaders: request.rawHeaders,
      requestBody,
      status: isSent ? response.status : 0,
      headers: isSent ? response.headers : undefined,
      responseBody: isSent ? responseBody : noBody,
      error: response.error,
      reason: response.reason,
      operation: context.route?.operation,
      fault: fault?.description,
      item,
    }
    // The event about the item has an id of its own.
    if (item) this.#lastId++
    this.#entries.add(entry)
    this.#budget.add(entry)
    if (this.#entries.size > maxEntries) this.remove(this.#entries.values().next().value as Recorded)
    this.#notify()
  }

  remove(entry: Recorded): void {
    this.#entries.delete(entry)
    this.#budget.remove(entry)
  }

  clear(): void {
    for (const entry of this.#entries) this.remove(entry)
  }

  /** The last `limit` entries behind the one with the id `since`. */
  list({ since = 0, limit = maxEntries }: { since?: number; limit?: number } = {}): JournalEntry[] {
    const entries = [...this.#entries].filter(({ id }) => id > since)
    return (limit === 0 ? [] : entries.slice(-limit)).map((entry) => this.#format(entry))
  }

  /** Tells that the items were replaced. */
  notifyReset(): void {
    this.#lastResetId = ++this.#lastId
    this.#notify()
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
      cancel: () => this.#subscriptions.delete(subscription),
      onClose,
    }
    this.#subscriptions.add(subscription)
    subscription.resume()
    if (this.#isClosed) onClose()
    return subscription
  }

  /** Ends the subscriptions. */
  close(): void {
    this.#isClosed = true
    for (const { onClose } of this.#subscriptions) onClose()
    this.#subscriptions.clear()
  }

  #notify(): void {
    for (const { isWaiting, resume } of this.#subscriptions) if (!isWaiting) resume()
  }

  *#eventsAfter(lastId: number): Generator<JournalEvent> {
    const reset = { id: this.#lastResetId, event: 'reset', data: {} } as const
    for (const entry of this.#entries) {
      const { id, item } = entry
      if (reset.id > lastId && reset.id < id) {
        yield reset
        lastId = reset.id
      }
      if (id > lastId) yield { id, event: 'request', data: this.#format(entry) }
      if (item && id + 1 > lastId) yield { id: id + 1, event: 'item', data: item }
    }
    if (reset.id > lastId) yield reset
  }

  #format(entry: Recorded): JournalEntry {
    const { id, time, client, context, status, error, reason, fault, item } = entry
    const rule = this.#ruleOf(entry, entry.operation)
    return {
      id,
      time: time.toISOString(),
      client,
      ...context,
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

const noBody: Body = { text: null, isTruncated: false }

/** A copy: a part of a large buffer would keep all of it in memory. */
function firstBytes(body: Response['body'] | Buffer): Body {
  if (body === undefined || typeof body === 'function' || body.length === 0) return noBody
  // A character has up to three bytes for each UTF-16 code unit.
  if (typeof body === 'string' && 3 * body.length <= maxBodyBytes) return { text: body, isTruncated: false }
  const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.isBuffer(body) ? body : joinFirst(body)
  if (bytes.length <= maxBodyBytes) return { text: bytes.toString(), isTruncated: false }
  // Without the first bytes of a character that is cut.
  return { text: new StringDecoder().write(bytes.subarray(0, maxBodyBytes)), isTruncated: true }
}

/** One byte more than is kept tells that there is more. */
function joinFirst(buffers: readonly Buffer[]): Buffer {
  const length = buffers.reduce((sum, buffer) => sum + buffer.length, 0)
  return Buffer.concat(buffers, Math.min(length, maxBodyBytes + 1))
}

const message = ({ text, isTruncated }: Body, headers: Message['headers']): Message => ({
  headers,
  body: text,
  ...(isTruncated && { isTruncated }),
})

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

function itemChange({ route, id, body }: RequestContext, { status, headers }: Response): ItemChange | undefined {
  const change = changes[route?.operation ?? '']
  if (!change || status < 200 || status >= 300) return undefined
  return { change, id: `${id ?? headers?.location?.split('/').at(-1) ?? body.id}` }
}
