import { escapeText } from '../../common/escape.ts'
import { isObject } from '../../common/json.ts'
import { type Client, Interrupted, type Response, type StopSignal } from './client.ts'
import type { Item, ItemCollection } from './contract.ts'
import { isSuccess, RuleViolation } from './expect.ts'
import { tryParseExact } from './json.ts'
import { isFromThisRun, uniqueText } from './state.ts'

export interface ItemTracker {
  /**
   * Records the items it creates. Does not send a request that would change an item that existed before the run,
   * nor one that would create an item of a kind that could not be deleted.
   */
  readonly client: Client
  /** Deletes the items that were created since the last call. Returns the first that stays, though its id is a usual one. */
  deleteCreated(): Promise<RuleViolation | undefined>
  /** Keeps the items that were created since the last call until the end. */
  keepCreated(): void
  /**
   * Deletes what is left of the run; returns the paths of the items that may still exist. Ends at the first request without
   * a response, and soon once the signal is aborted.
   */
  deleteLeftovers(signal: StopSignal | undefined): Promise<readonly string[]>
}

/** The request was not sent, because the item that it would create could not be deleted. */
export class ItemNotCreated extends Error {
  /** Applies to every item, not just to those with unusual ids. */
  readonly appliesToAll: boolean

  constructor(message: string, appliesToAll: boolean) {
    super(message)
    this.appliesToAll = appliesToAll
  }
}

/** Undefined where an item is not created, because it could not be deleted. */
export const unlessUndeletable = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((cause: unknown) => {
    if (cause instanceof ItemNotCreated && !cause.appliesToAll) return undefined
    throw cause
  })

const maxCleanupWhenStoppedMs = 5_000
/** As many requests at once delete items, once it is known that they are deleted. */
const deletionsAtOnce = 8

/** `initialList` is the response to GET before the run; undefined: the server may lose the items that it has. */
export function trackItems(client: Client, items: ItemCollection, initialList: Response | undefined): ItemTracker {
  const { itemPath, idInPath, idOf, itemsIn } = itemAddresses(items)
  // Paths differ in the last segment.
  const nameOf = (id: string) => (items.pathOf ? id.replace(/.*\//, '') : id)
  const existingIds = new Set(initialList && itemsIn(initialList)?.map(idOf))
  existingIds.delete(undefined)
  const created = new Map<string, Item>()
  const kept = new Map<string, Item>()
  const remaining = new Map<string, Item>()
  /** Why no more items with usual ids (true), or with others (false), are created. */
  const undeletable = new Map<boolean, string>()
  let missingResponse: Response | undefined
  let isDeletionConfirmed = false
  let undeleted: RuleViolation | undefined
  let lastResponse: Response | undefined

  function protectExistingItems(method: string, path: string, body: unknown): void {
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return
    const id = idInPath(path) ?? (method === 'PUT' && isObject(body) ? idOf(body) : undefined)
    if (id !== undefined && existingIds.has(id))
      throw new RuleViolation(`a unique id for each item: ${id} existed before this run`, lastResponse)
  }

  async function preventLeftovers(method: string, body: unknown): Promise<void> {
    if (method !== 'POST') return
    const id = (isObject(body) && idOf(body)) || ''
    const ofUsual = undeletable.get(true)
    const reason = ofUsual ?? (isUsual(nameOf(id)) ? undefined : (undeletable.get(false) ?? (await probe(id))))
    if (reason !== undefined) throw new ItemNotCreated(reason, ofUsual !== undefined)
  }

  /** Sends DELETE for an id like an unusual one: the response must be that to any id that no item has. */
  async function probe(id: string): Promise<string | undefined> {
    const { isStated } = items
    if (!isStated) return undefined
    // No item has it, also where a server takes ids for equal.
    const free = isFromThisRun(id) ? id.replace(/verify-\w+-\d{6}/gi, uniqueText) : `${uniqueText()}${id}`
    const deleteMissing = (missing: string) => client.send('DELETE', itemPath(missing), undefined, headers())
    missingResponse ??= await deleteMissing(uniqueText())
    const response = await deleteMissing(free).catch(() => undefined)
    if (response && (isSuccess(response) || isStated(response, free) || isLike(response, missingResponse)))
      return undefined
    const got = response ? `returned ${response.status}` : 'got no response'
    return `DELETE ${shortenPath(itemPath(free))} ${got}, and may not delete such an item, so none was created`
  }

  function record(method: string, path: string, response: Response): void {
    if (!isSuccess(response)) return
    for (const item of method === 'POST' ? (itemsIn(response) ?? []) : []) {
      const id = idOf(item)
      if (id !== undefined && !existingIds.has(id)) created.set(id, item)
    }
    if (method === 'DELETE') for (const ofRun of [created, kept]) ofRun.delete(idInPath(path) ?? '')
  }

  const headers = () => items.headers?.(client)
  /** Sends the request even if it would have to wait for too long. */
  const now = (request: () => Promise<Response>) =>
    request().catch((cause: unknown) => {
      if (cause instanceof Interrupted) return request()
      throw cause
    })
  /** Undefined: no response. */
  const list = () => now(() => client.send('GET', items.path, undefined, headers())).catch(() => undefined)
  const deleteItem = (id: string, item: Item): Promise<Response | undefined> => {
    const request = () => items.remove?.(client, item) ?? client.send('DELETE', itemPath(id), undefined, headers())
    return now(request).catch(() => undefined)
  }

  /** Also finds items whose POST returned an error, or no response. Undefined where there is no response. */
  async function listItemsOfRun(): Promise<Map<string, Item> | undefined> {
    const response = await list()
    if (!response) return undefined
    const ofRun = (itemsIn(response) ?? []).filter((item) => Object.values(item).some(isFromThisRun))
    return new Map(ofRun.flatMap((item) => (idOf(item) === undefined ? [] : [[idOf(item) as string, item]])))
  }

  /** False: no response. */
  async function deleteOne(id: string, item: Item): Promise<boolean> {
    const deleted = await deleteItem(id, item)
    if (!deleted) return false
    const { status } = deleted
    created.delete(id)
    const succeeded = isSuccess(deleted)
    if (succeeded && isDeletionConfirmed) return true
    const response = await list()
    const listed = response && itemsIn(response)
    if (listed ? !listed.some((one) => idOf(one) === id) : succeeded || status === 404) {
      isDeletionConfirmed ||= succeeded
      return true
    }
    remaining.set(id, item)
    const reason = `DELETE ${shortenPath(itemPath(id))} returned ${status} and left the item, so no more like it were created`
    undeletable.set(isUsual(nameOf(id)), reason)
    if (isUsual(nameOf(id))) undeleted ??= new RuleViolation(`the item ${id} of the check to be deleted`, deleted)
    return true
  }

  return {
    client: {
      ...client,
      async send(method, path, body, requestHeaders, caller) {
        protectExistingItems(method, path, body)
        await preventLeftovers(method, body)
        const response = await client.send(method, path, body, requestHeaders, caller)
        lastResponse = response
        record(method, path, response)
        return response
      },
    },
    async deleteCreated() {
      undeleted = undefined
      while (created.size > 0) {
        const batch = [...created].slice(0, isDeletionConfirmed ? deletionsAtOnce : 1)
        const responded = await Promise.all(batch.map(([id, item]) => deleteOne(id, item)))
        if (responded.includes(false)) break
      }
      return undeleted
    },
    keepCreated() {
      for (const [id, item] of created) kept.set(id, item)
      created.clear()
    },
    async deleteLeftovers(signal) {
      const startedAt = performance.now()
      const listed = await listItemsOfRun()
      let isResponding = listed !== undefined
      const mayGoOn = () =>
        isResponding && !(signal?.aborted && performance.now() - startedAt > maxCleanupWhenStoppedMs)
      const leftovers = new Set<string>()
      for (const [id, item] of new Map([...created, ...kept, ...remaining, ...(listed ?? [])])) {
        const deleted = mayGoOn() ? await deleteItem(id, item) : undefined
        if (!deleted) isResponding = false
        if (![204, 200, 404].includes(deleted?.status ?? 0)) leftovers.add(itemPath(id))
      }
      if (mayGoOn()) for (const id of (await listItemsOfRun())?.keys() ?? []) leftovers.add(itemPath(id))
      return [...leftovers]
    },
  }
}

/** Whether a response is the same but for ids of requests. */
function isLike(response: Response, other: Response): boolean {
  const withoutIds = ({ text }: Response) => text.replace(/[\w-]{16,}/g, '')
  return response.status === other.status && withoutIds(response) === withoutIds(other)
}

/** An id is what follows the path of the collection, decoded; with `pathOf`, the path of the item. */
export function itemAddresses({ path: collection, pathOf, list }: ItemCollection) {
  const itemsIn = (response: Response) => (list ? tryList(list, response) : listIn(response))
  if (pathOf) {
    const normalize = (path: string | undefined) => path?.replace(/\?.*$|\/$/, '') || undefined
    return {
      itemsIn,
      itemPath: (id: string) => id,
      idInPath: (path: string) => (normalize(path) === normalize(collection) ? undefined : normalize(path)),
      idOf: (item: Item) => normalize(pathOf(item)),
    }
  }
  const prefix = collection.endsWith('/') ? collection : `${collection}/`
  const itemPath = (id: string) => `${prefix}${encodeURIComponent(id)}`

  function idInPath(path: string): string | undefined {
    if (!path.toLowerCase().startsWith(prefix.toLowerCase())) return undefined
    const [segments = ''] = path.slice(prefix.length).split('?')
    const id = segments.replace(/\/$/, '')
    try {
      return id && !id.includes('/') ? decodeURIComponent(id) : undefined
    } catch {
      return undefined
    }
  }

  function idOf(item: Item): string | undefined {
    const { id } = item
    // A path cannot hold a lone surrogate: encodeURIComponent throws.
    if (typeof id === 'string') return id.isWellFormed() && id !== '' ? id : undefined
    return typeof id === 'number' || typeof id === 'bigint' ? `${id}` : undefined
  }

  return { itemPath, idInPath, idOf, itemsIn }
}

/** Letters, digits and a few others mean the same where they are percent-encoded (RFC 3986, 2.3). */
export const unescapeUnreserved = (path: string) =>
  path.replace(/%([2-7][\da-f])/gi, (escaped, code) => {
    const char = String.fromCharCode(Number.parseInt(code, 16))
    return /[\w.~-]/.test(char) ? char : escaped
  })

const maxPathLength = 80

/** Shortens a path that people read: an id may have 1,024 characters. */
export const shortenPath = (path: string) =>
  escapeText(path.length > maxPathLength ? `${path.slice(0, maxPathLength)}… (${path.length} characters)` : path)

/** Nothing in it may keep an item from being deleted by its path. */
const isUsual = (id: string) => /^[\da-z_-]{0,255}$/.test(id)

function tryList(list: NonNullable<ItemCollection['list']>, response: Response): readonly Item[] | undefined {
  try {
    return list(response)
  } catch {
    return undefined
  }
}

function listIn({ text }: Response): readonly Item[] | undefined {
  const body = tryParseExact(text)
  if (isObject(body)) return [body]
  return Array.isArray(body) ? body.filter(isObject) : undefined
}
