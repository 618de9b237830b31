import { isFromThisRun, itemsPath } from './check.ts'
import type { Client, Response } from './client.ts'
import { parseJson, RuleViolation } from './expect.ts'

export interface ItemTracker {
  /**
   * Records the items it creates. Does not send a request that would change an item that existed before the run,
   * nor one that would create an item of a kind that could not be deleted.
   */
  readonly client: Client
  /** The last response, for failures that are not tied to one. */
  lastResponse(): Response | undefined
  /** Deletes the items that were created since the last call. */
  deleteCreated(): Promise<void>
  /** Deletes what is left of the run; returns the paths of the items that may still exist. */
  deleteLeftovers(): Promise<readonly string[]>
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

interface Item {
  readonly id: bigint | string
  readonly name: unknown
}

/** `initialList` is the response to GET before the run. */
export function trackItems(client: Client, initialList: Response): ItemTracker {
  const existingIds = new Set(itemsIn(initialList)?.map(({ id }) => `${id}`))
  const createdIds = new Set<string>()
  const remainingIds = new Set<string>()
  /** Traits of ids of items that could not be deleted, each with the reason not to create more. */
  const undeletable = new Map<string, string>()
  let isDeletionConfirmed = false
  let lastResponse: Response | undefined

  function protectExistingItems(method: string, path: string, body: unknown): void {
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return
    const id = idInPath(path) ?? (method === 'PUT' ? idInBody(body) : undefined)
    if (id !== undefined && existingIds.has(id))
      throw new RuleViolation(`a unique id for each item: ${id} existed before this run`, lastResponse)
  }

  function preventLeftovers(method: string, body: unknown): void {
    if (method !== 'POST') return
    const trait = [plain, ...traitsOf(idInBody(body) ?? '')].find((trait) => undeletable.has(trait))
    if (trait) throw new ItemNotCreated(undeletable.get(trait) ?? '', trait === plain)
  }

  function record(response: Response): void {
    const { request, status } = response
    if (status < 200 || status > 299) return
    const id = request.method === 'POST' ? createdId(response) : undefined
    if (id !== undefined && !existingIds.has(id)) createdIds.add(id)
    if (request.method === 'DELETE') createdIds.delete(idInPath(request.path) ?? '')
  }

  const list = () => client.send('GET', itemsPath).then(itemsIn, () => undefined)
  /** 0: no response. */
  const deleteItem = async (id: string) =>
    (await client.send('DELETE', itemPath(id)).catch(() => ({ status: 0 }))).status

  /** Also finds items whose POST returned an error, or no response. */
  async function listIdsOfRun(): Promise<string[]> {
    const ofRun = ((await list()) ?? []).filter(({ id, name }) => isFromThisRun(id) || isFromThisRun(name))
    // encodeURIComponent throws on a lone surrogate.
    return ofRun.map(({ id }) => `${id}`).filter((id) => id.isWellFormed())
  }

  return {
    client: {
      ...client,
      async send(method, path, body, headers) {
        protectExistingItems(method, path, body)
        preventLeftovers(method, body)
        lastResponse = await client.send(method, path, body, headers)
        record(lastResponse)
        return lastResponse
      },
    },
    lastResponse: () => lastResponse,
    async deleteCreated() {
      for (const id of createdIds) {
        const status = await deleteItem(id)
        if (status === 0) return
        createdIds.delete(id)
        const isSuccess = status >= 200 && status <= 299
        if (isSuccess && isDeletionConfirmed) continue
        const listed = await list()
        if (listed ? !listed.some((item) => `${item.id}` === id) : isSuccess || status === 404) {
          isDeletionConfirmed ||= isSuccess
          continue
        }
        remainingIds.add(id)
        const reason = `DELETE ${shortenPath(itemPath(id))} returned ${status} and left the item, so no more like it were created`
        for (const trait of traitsOf(id)) undeletable.set(trait, reason)
      }
    },
    async deleteLeftovers() {
      const leftovers = new Set<string>()
      for (const id of new Set([...createdIds, ...remainingIds, ...(await listIdsOfRun())])) {
        const status = await deleteItem(id)
        if (status !== 204 && status !== 200 && status !== 404) leftovers.add(itemPath(id))
      }
      for (const id of await listIdsOfRun()) leftovers.add(itemPath(id))
      return [...leftovers]
    },
  }
}

const maxPathLength = 80

/** An id may have 1,024 characters. */
export const shortenPath = (path: string) =>
  path.length > maxPathLength ? `${path.slice(0, maxPathLength)}… (${path.length} characters)` : path

const itemPath = (id: string) => `${itemsPath}/${encodeURIComponent(id)}`

const plain = 'plain'
const maxPlainLength = 255

/** What may keep an item from being deleted by its path. */
function traitsOf(id: string): string[] {
  const traits = [...new Set(id)].filter((char) => !/[\w-]/.test(char))
  if (/[A-Z]/.test(id)) traits.push('upper case')
  if (id.length > maxPlainLength) traits.push('long')
  return traits.length > 0 ? traits : [plain]
}

function itemsIn(response: Response): Item[] | undefined {
  const list = tryParseJson(response)
  return Array.isArray(list) ? list.filter((item) => typeof item === 'object' && item !== null) : undefined
}

function createdId(response: Response): string | undefined {
  const id = (tryParseJson(response) as Partial<Item> | null | undefined)?.id
  return typeof id === 'bigint' || (typeof id === 'string' && id.isWellFormed()) ? `${id}` : undefined
}

function tryParseJson(response: Response): unknown {
  try {
    return parseJson(response)
  } catch {
    return undefined
  }
}

function idInBody(body: unknown): string | undefined {
  const id = typeof body === 'object' && body !== null ? (body as { id?: unknown }).id : undefined
  return id === undefined ? undefined : `${id}`
}

function idInPath(path: string): string | undefined {
  const [, segment] = /\/api\/todoitems\/([^/?]+)\/?$/i.exec(path) ?? []
  try {
    return segment && decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
