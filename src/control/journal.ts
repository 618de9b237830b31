import { clientAddress, trustNoProxy } from '../http/proxy.ts'
import type { RequestContext } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { ItemChange, JournalEntry, Message } from './types.ts'

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
  readonly fault: string | undefined
  readonly item: ItemChange | undefined
}

interface Body {
  readonly text: string | null
  readonly isTruncated: boolean
}

const maxBodyBytes = 16 * 1024
const maxEntries = 1_000
/** Of all journals together. */
const maxJournalBytes = 16 * 2 ** 20
/** Objects and numbers of an entry. */
const entryOverheadBytes = 500

export type JournalEvent =
  | { readonly event: 'request'; readonly entry: JournalEntry }
  | { readonly event: 'item'; readonly id: number; readonly item: ItemChange }
  | { readonly event: 'reset'; readonly id: number }

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
  }

  /** Keeps references and the first bytes; the rest is formatted when somebody reads it. */
  record(context: RequestContext, response: Response, milliseconds: number): void {
    const { request, fault } = context
    const requestBody = firstBytes(context.bodyBytes)
    const responseBody = firstBytes(response.body)
    const isSent = fault?.outcome !== 'reset' && fault?.outcome !== 'lost'
    const entry: Recorded = {
      id: ++this.#lastId,
      journal: this,
      bytes:
        entryOverheadBytes +
        context.path.length +
        context.query.length +
        request.rawHeaders.reduce((sum, text) => sum + text.length, 0) +
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
      fault: fault?.description,
      item: itemChange(context, response),
    }
    this.#entries.add(entry)
    this.#budget.add(entry)
    if (this.#entries.size > maxEntries) this.remove(this.#entries.values().next().value as Recorded)
    if (this.#listeners.size > 0) this.#emit(...this.#eventsOf(entry))
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
    this.#emit({ event: 'reset', id: ++this.#lastId })
  }

  /** Calls the listener for what is newer than `lastId`, then for what follows, until the returned function is called. */
  subscribe(listener: (event: JournalEvent) => void, lastId: number | undefined, onClose: () => void): () => void {
    if (lastId !== undefined)
      for (const entry of this.#entries)
        if (entry.id > lastId) for (const event of this.#eventsOf(entry)) listener(event)
    this.#listeners.set(listener, onClose)
    return () => this.#listeners.delete(listener)
  }

  /** Ends the subscriptions. */
  close(): void {
    for (const onClose of this.#listeners.values()) onClose()
    this.#listeners.clear()
  }

  #emit(...events: JournalEvent[]): void {
    for (const event of events) for (const listener of this.#listeners.keys()) listener(event)
  }

  #eventsOf(entry: Recorded): JournalEvent[] {
    const { id, item } = entry
    return [{ event: 'request', entry: this.#format(entry) }, ...(item ? [{ event: 'item' as const, id, item }] : [])]
  }

  #format(entry: Recorded): JournalEntry {
    const { id, time, client, context, status, error, reason, fault, item } = entry
    const rule = error && this.#ruleOf(error)
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
  if (body === undefined || body === '' || typeof body === 'function') return noBody
  if (typeof body === 'string')
    return body.length <= maxBodyBytes
      ? { text: body, isTruncated: false }
      : { text: Buffer.from(body.slice(0, maxBodyBytes)).toString(), isTruncated: true }
  const [first = Buffer.alloc(0), ...rest] = Buffer.isBuffer(body) ? [body] : body
  const isTruncated = rest.length > 0 || first.length > maxBodyBytes
  return first.length === 0 ? noBody : { text: first.toString('utf8', 0, maxBodyBytes), isTruncated }
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
  if (!change || status >= 300) return undefined
  return { change, id: `${id ?? headers?.location?.split('/').at(-1) ?? body.id}` }
}
