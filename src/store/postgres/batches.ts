import { UnavailableError, WithdrawnError } from '../store.ts'
import type { PendingCall, Pool } from './pool.ts'

/** The most that one statement creates. */
const maxItems = 100
const maxLength = 2 ** 20
/** The second one waits in the server for the lock, and so for no round trip. */
const maxUnderWay = 2

interface PendingItem<Item, Outcome> {
  readonly item: Item
  readonly call: PendingCall<Outcome>
}

interface BatchSettings<Item, Outcome> {
  /** Of two items with the same key, the second goes with a later statement; undefined where all can go together. */
  keyOf(item: Item): string | undefined
  lengthOf(item: Item): number
  /** Creates the items with one statement, or none of them. */
  create(space: string, items: readonly Item[], isWanted: () => boolean): Promise<readonly Outcome[]>
}

interface Queue<Item, Outcome> {
  underWay: number
  waiting: PendingItem<Item, Outcome>[]
}

/**
 * Group commit: few statements at a time create items in a space, because each one locks the row that counts them. Items
 * that come meanwhile go together with the next statement. Returns the function that creates an item.
 */
export function createBatches<Item, Outcome>(pool: Pool, settings: BatchSettings<Item, Outcome>) {
  /** By space, as long as a statement is under way. */
  const queues = new Map<string, Queue<Item, Outcome>>()

  /** Whether the client has not been told that it takes too long. */
  const isPending = ({ call }: PendingItem<Item, Outcome>): boolean => pool.isPending(call)

  async function sendNext(space: string, queue: Queue<Item, Outcome>): Promise<void> {
    const batch = nextBatch(queue)
    if (batch.length > 0) {
      queue.underWay++
      await send(space, queue, batch)
      queue.underWay--
    }
    if (queue.waiting.length > 0) void sendNext(space, queue)
    else if (queue.underWay === 0) queues.delete(space)
  }

  async function send(space: string, queue: Queue<Item, Outcome>, batch: readonly PendingItem<Item, Outcome>[]) {
    try {
      const items = batch.map(({ item }) => item)
      const outcomes = await settings.create(space, items, () => batch.every(isPending))
      for (const [index, { call }] of batch.entries()) pool.resolve(call, outcomes[index] as Outcome)
    } catch (error) {
      // What was rejected is never created: the others go together with the next statement.
      if (error instanceof WithdrawnError) queue.waiting.unshift(...batch.filter(isPending))
      // Where the statement was refused, nothing was created: none is refused because of another.
      else if (batch.length > 1 && !(error instanceof UnavailableError))
        for (const one of batch) await send(space, queue, [one])
      else for (const { call } of batch) pool.reject(call, error)
    }
  }

  function nextBatch(queue: Queue<Item, Outcome>): PendingItem<Item, Outcome>[] {
    const batch: PendingItem<Item, Outcome>[] = []
    const left: PendingItem<Item, Outcome>[] = []
    const keys = new Set<string>()
    let length = 0
    for (const one of queue.waiting) {
      if (!isPending(one)) continue
      const key = settings.keyOf(one.item)
      length += settings.lengthOf(one.item)
      const fits = batch.length === 0 || (batch.length < maxItems && length <= maxLength)
      if (fits && (key === undefined || !keys.has(key))) {
        batch.push(one)
        if (key !== undefined) keys.add(key)
      } else left.push(one)
    }
    queue.waiting = left
    return batch
  }

  return (space: string, item: Item): Promise<Outcome> =>
    pool.pending((call) => {
      const queue = queues.get(space) ?? { underWay: 0, waiting: [] }
      queues.set(space, queue)
      queue.waiting.push({ item, call })
      if (queue.underWay < maxUnderWay) void sendNext(space, queue)
    })
}
