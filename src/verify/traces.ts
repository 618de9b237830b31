import { isOurs, items } from './check.ts'
import { Broken, jsonOf } from './expect.ts'
import type { Received, Service } from './service.ts'

/** What a run leaves on a server, and what it must not touch there. */
export interface Traces {
  /** The service, watched: a request that would touch an item of somebody else is not sent. */
  readonly service: Service
  /** The last exchange, for a failure that no single answer shows. */
  last(): Received | undefined
  /** Deletes the run's items and gives back the paths of those that may still be there. */
  remove(): Promise<readonly string[]>
}

interface Item {
  readonly id: bigint | string
  readonly name: unknown
}

const pathOf = (id: bigint | string) => `${items}/${encodeURIComponent(`${id}`)}`

/** `present` is the list as it was before the run. */
export function watch(service: Service, present: Received): Traces {
  const others = new Set(listedIn(present).map(({ id }) => `${id}`))
  const made = new Set<string>()
  let last: Received | undefined

  function protect(method: string, path: string, body: unknown): void {
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return
    const [, segment] = /^\/api\/todoitems\/([^/?]+)\/?$/i.exec(path) ?? []
    const named = segment ? decoded(segment) : method === 'PUT' ? idIn(body) : undefined
    if (named !== undefined && others.has(named))
      throw new Broken(`an id of its own for each item: ${named} was there before this run`, last)
  }

  function note(received: Received): void {
    const { sent, status } = received
    const id = sent.method === 'POST' && status >= 200 && status <= 299 ? idOf(received) : undefined
    if (id !== undefined && !others.has(`${id}`)) made.add(pathOf(id))
    if (sent.method === 'DELETE' && (status === 204 || status === 404))
      made.delete(sent.path.slice(sent.path.indexOf(items)))
  }

  async function ours(): Promise<string[]> {
    const listed = listedIn(await service.send('GET', items))
    return listed.filter(({ id, name }) => isOurs(id) || isOurs(name)).map(({ id }) => pathOf(id))
  }

  /** Whether the item is gone for sure. */
  async function erase(path: string): Promise<boolean> {
    const { status } = await service.send('DELETE', path).catch(() => ({ status: 0 }))
    return status === 204 || status === 200 || status === 404
  }

  return {
    service: {
      ...service,
      async send(method, path, body, headers) {
        protect(method, path, body)
        last = await service.send(method, path, body, headers)
        note(last)
        return last
      },
    },
    last: () => last,
    async remove() {
      const left = new Set<string>()
      for (const path of new Set([...made, ...(await ours().catch(() => []))])) if (!(await erase(path))) left.add(path)
      for (const path of await ours().catch(() => [])) left.add(path)
      return [...left]
    },
  }
}

function listedIn(answer: Received): Item[] {
  try {
    const list = jsonOf(answer)
    return Array.isArray(list) ? list.filter((item) => typeof item === 'object' && item !== null) : []
  } catch {
    return []
  }
}

function idOf(received: Received): bigint | string | undefined {
  try {
    const { id } = jsonOf(received) as Partial<Item>
    return typeof id === 'bigint' || (typeof id === 'string' && id.isWellFormed()) ? id : undefined
  } catch {
    return undefined
  }
}

function idIn(body: unknown): string | undefined {
  const id = typeof body === 'object' && body !== null ? (body as { id?: unknown }).id : undefined
  return id === undefined ? undefined : `${id}`
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
