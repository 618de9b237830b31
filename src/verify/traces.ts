import { isOurs, items } from './check.ts'
import { jsonOf } from './expect.ts'
import type { Received, Service } from './service.ts'

/** What a run leaves on a server: every item that it may have made. */
export interface Traces {
  /** The service, watched. */
  readonly service: Service
  /** Deletes the run's items and gives back those that are still there. */
  remove(): Promise<readonly string[]>
}

interface Item {
  readonly id: bigint | string
  readonly name: unknown
}

const pathOf = (id: bigint | string) => `${items}/${encodeURIComponent(`${id}`)}`

export function watch(service: Service): Traces {
  const made = new Set<string>()

  function note(received: Received): void {
    const { sent, status } = received
    if (sent.method !== 'POST' || status < 200 || status > 299) return
    const id = idOf(received)
    if (id !== undefined) made.add(pathOf(id))
  }

  async function ours(): Promise<string[]> {
    const answer = await service.send('GET', items)
    const listed = jsonOf(answer)
    if (!Array.isArray(listed)) return []
    return (listed as Item[]).filter(({ id, name }) => isOurs(id) || isOurs(name)).map(({ id }) => pathOf(id))
  }

  return {
    service: {
      ...service,
      async send(...request) {
        const received = await service.send(...request)
        note(received)
        return received
      },
    },
    async remove() {
      try {
        for (const path of new Set([...made, ...(await ours())])) await service.send('DELETE', path)
        return await ours()
      } catch {
        return [...made]
      }
    },
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
