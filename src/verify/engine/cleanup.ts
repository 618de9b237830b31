import { type Client, Interrupted, type Response, type StopSignal } from '../../common/client.ts'
import { escapeText } from '../../common/escape.ts'
import { isObject, tryParse } from '../../common/json.ts'
import { type ItemCollection, isFromThisRun } from './contract.ts'
import { isSuccess, RuleViolation } from './expect.ts'

export interface ItemTracker {
  /**
   * Records the items it creates. Does not send a request that would change an item that existed before the run,
   * nor one that would create an item of a kind that could not be deleted.
   */
  readonly client: Client
  /** Deletes the items that were created since the last call. */
  deleteCreated(): Promise<void>
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

type ListedItem = Readonly<Record<string, unknown>>

const maxCleanupWhenStoppedMs = 5_000

/** `initialList` is the response to GET before the run; undefined: the server may lose the items that it has. */
export function trackItems(client: Client, items: ItemCollection, initialList: Response | undefined): ItemTracker {
  const { itemPath, idInPath, idOf } = itemAddresses(items)
  // Paths differ in the last segment.
  const nameOf = (id: string) => (items.pathOf ? id.replace(/.*\//, '') : id)
  const existingIds = new Set(initialList && itemsIn(initialList)?.map(idOf))
  existingIds.delete(undefined)
  const createdIds = new Set<string>()
  const remainingIds = new Set<string>()
  /** Traits of ids of items that could not be deleted, each with the reason not to create more. */
  const undeletable = new Map<string, string>()
  let isDeletionConfirmed = false
  let lastResponse: Response | undefined

  function protectExistingItems(method: string, path: string, body: unknown): void {
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return
    const id = idInPath(path) ?? (method === 'PUT' && isObject(body) ? idOf(body) : undefined)
    if (id !== undefined && existingIds.has(id))
      throw new RuleViolation(`a unique id for each item: ${id} existed before this run`, lastResponse)
  }

  function preventLeftovers(method: string, body: unknown): void {
    if (method !== 'POST') return
    const traits = traitsOf(nameOf((isObject(body) && idOf(body)) || ''))
    const trait = [plain, ...traits].find((trait) => undeletable.has(trait))
    if (trait) throw new ItemNotCreated(undeletable.get(trait) ?? '', trait === plain)
  }

  function record(method: string, path: string, response: Response): void {
    if (!isSuccess(response)) return
    const created = method === 'POST' ? tryParse(response.text) : undefined
    const id = isObject(created) ? idOf(created) : undefined
    if (id !== undefined && !existingIds.has(id)) createdIds.add(id)
    if (method === 'DELETE') createdIds.delete(idInPath(path) ?? '')
  }

  /** Sends the request even if it would have to wait for too long. */
  const sendNow = (method: string, path: string) =>
    client.send(method, path).catch((cause: unknown) => {
      if (cause instanceof Interrupted) return client.send(method, path)
      throw cause
    })
  /** Undefined: no response. */
  const list = () => sendNow('GET', items.path).catch(() => undefined)
  /** 0: no response. */
  const deleteItem = async (id: string) => (await sendNow('DELETE', itemPath(id)).catch(() => ({ status: 0 }))).status

  /** Also finds items whose POST returned an error, or no response. Undefined where there is no response. */
  async function listIdsOfRun(): Promise<string[] | undefined> {
    const response = await list()
    const ofRun = response && (itemsIn(response) ?? []).filter((item) => Object.values(item).some(isFromThisRun))
    return ofRun?.map(idOf).filter((id) => id !== undefined)
  }

  return {
    client: {
      ...client,
      async send(method, path, body, headers) {
        protectExistingItems(method, path, body)
        preventLeftovers(method, body)
        lastResponse = await client.send(method, path, body, headers)
        record(method, path, lastResponse)
        return lastResponse
      },
    },
    async deleteCreated() {
      for (const id of createdIds) {
        const status = await deleteItem(id)
        if (status === 0) return
        createdIds.delete(id)
        const succeeded = isSuccess({ status })
        if (succeeded && isDeletionConfirmed) continue
        const response = await list()
        const listed = response && itemsIn(response)
        if (listed ? !listed.some((item) => idOf(item) === id) : succeeded || status === 404) {
          isDeletionConfirmed ||= succeeded
          continue
        }
        remainingIds.add(id)
        const reason = `DELETE ${shortenPath(itemPath(id))} returned ${status} and left the item, so no more like it were created`
        for (const trait of traitsOf(nameOf(id))) undeletable.set(trait, reason)
      }
    },
    async deleteLeftovers(signal) {
      const startedAt = performance.now()
      const listed = await listIdsOfRun()
      let isResponding = listed !== undefined
      const mayGoOn = () =>
        isResponding && !(signal?.aborted && performance.now() - startedAt > maxCleanupWhenStoppedMs)
      const leftovers = new Set<string>()
      for (const id of new Set([...createdIds, ...remainingIds, ...(listed ?? [])])) {
        const status = mayGoOn() ? await deleteItem(id) : 0
        if (status === 0) isResponding = false
        if (status !== 204 && status !== 200 && status !== 404) leftovers.add(itemPath(id))
      }
      if (mayGoOn()) for (const id of (await listIdsOfRun()) ?? []) leftovers.add(itemPath(id))
      return [...leftovers]
    },
  }
}

/** An id is what follows the path of the collection, decoded; with `pathOf`, the path of the item. */
export function itemAddresses({ path: collection, pathOf }: ItemCollection) {
  if (pathOf) {
    const normalize = (path: string | undefined) => path?.replace(/\?.*$|\/$/, '') || undefined
    return {
      itemPath: (id: string) => id,
      idInPath: (path: string) => (normalize(path) === normalize(collection) ? undefined : normalize(path)),
      idOf: (item: ListedItem) => normalize(pathOf(item)),
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

  function idOf(item: ListedItem): string | undefined {
    const { id } = item
    // A path cannot hold a lone surrogate: encodeURIComponent throws.
    if (typeof id === 'string') return id.isWellFormed() && id !== '' ? id : undefined
    return typeof id === 'number' || typeof id === 'bigint' ? `${id}` : undefined
  }

  return { itemPath, idInPath, idOf }
}

const maxPathLength = 80

/** Shortens a path that people read: an id may have 1,024 characters. */
export const shortenPath = (path: string) =>
  escapeText(path.length > maxPathLength ? `${path.slice(0, maxPathLength)}… (${path.length} characters)` : path)

const plain = 'plain'
const maxPlainLength = 255

/** What may keep an item from being deleted by its path. */
function traitsOf(id: string): string[] {
  const traits = [...new Set(id)].filter((char) => !/[\w-]/.test(char))
  if (/[A-Z]/.test(id)) traits.push('upper case')
  if (id.length > maxPlainLength) traits.push('long')
  return traits.length > 0 ? traits : [plain]
}

function itemsIn({ text }: Response): ListedItem[] | undefined {
  const list = tryParse(text)
  return Array.isArray(list) ? list.filter(isObject) : undefined
}
