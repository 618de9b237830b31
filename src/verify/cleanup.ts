import { isFromThisRun, itemsPath } from './check.ts'
import type { Client, Response } from './client.ts'
import { parseJson, RuleViolation } from './expect.ts'

export interface ItemTracker {
  /** Records the items it creates. Does not send a request that would change an item that existed before the run. */
  readonly client: Client
  /** The last response, for failures that are not tied to one. */
  lastResponse(): Response | undefined
  /** Deletes the items of the run; returns the paths of those that may still exist. */
  deleteItems(): Promise<readonly string[]>
}

interface Item {
  readonly id: bigint | string
  readonly name: unknown
}

/** `initialList` is the response to GET before the run. */
export function trackItems(client: Client, initialList: Response): ItemTracker {
  const existingIds = new Set(itemsIn(initialList).map(({ id }) => `${id}`))
  const createdPaths = new Set<string>()
  let lastResponse: Response | undefined

  function protectExistingItems(method: string, path: string, body: unknown): void {
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return
    const [, segment] = /^\/api\/todoitems\/([^/?]+)\/?$/i.exec(path) ?? []
    const id = segment ? decode(segment) : method === 'PUT' ? idInBody(body) : undefined
    if (id !== undefined && existingIds.has(id))
      throw new RuleViolation(`a unique id for each item: ${id} existed before this run`, lastResponse)
  }

  function record(response: Response): void {
    const { request, status } = response
    const id = request.method === 'POST' && status >= 200 && status <= 299 ? createdId(response) : undefined
    if (id !== undefined && !existingIds.has(`${id}`)) createdPaths.add(itemPath(id))
    if (request.method === 'DELETE' && (status === 204 || status === 404))
      createdPaths.delete(request.path.slice(request.path.indexOf(itemsPath)))
  }

  /** Also finds items whose POST returned an error, or no response. */
  async function listItemsOfRun(): Promise<string[]> {
    const response = await client.send('GET', itemsPath).catch(() => undefined)
    return (
      itemsIn(response)
        .filter(({ id, name }) => isFromThisRun(id) || isFromThisRun(name))
        // encodeURIComponent throws on a lone surrogate.
        .filter(({ id }) => `${id}`.isWellFormed())
        .map(({ id }) => itemPath(id))
    )
  }

  return {
    client: {
      ...client,
      async send(method, path, body, headers) {
        protectExistingItems(method, path, body)
        lastResponse = await client.send(method, path, body, headers)
        record(lastResponse)
        return lastResponse
      },
    },
    lastResponse: () => lastResponse,
    async deleteItems() {
      const leftovers = new Set<string>()
      for (const path of new Set([...createdPaths, ...(await listItemsOfRun())])) {
        const { status } = await client.send('DELETE', path).catch(() => ({ status: 0 }))
        if (status !== 204 && status !== 200 && status !== 404) leftovers.add(path)
      }
      for (const path of await listItemsOfRun()) leftovers.add(path)
      return [...leftovers]
    },
  }
}

const itemPath = (id: bigint | string) => `${itemsPath}/${encodeURIComponent(`${id}`)}`

function itemsIn(response: Response | undefined): Item[] {
  const list = response && tryParseJson(response)
  return Array.isArray(list) ? list.filter((item) => typeof item === 'object' && item !== null) : []
}

function createdId(response: Response): bigint | string | undefined {
  const id = (tryParseJson(response) as Partial<Item> | null | undefined)?.id
  return typeof id === 'bigint' || (typeof id === 'string' && id.isWellFormed()) ? id : undefined
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

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
