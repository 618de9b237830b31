import { UnavailableError, WithdrawnError } from '../store.ts'
import type { PendingCall, Pool } from './pool.ts'

/** The most items that one statement creates; `maxLength` is the most characters in them. */
const maxItems = 100
const maxLength = 2 ** 20
/** The second statement waits in the server for the lock of the first, which saves a round trip. */
const maxUnderWay = 2

interface PendingItem<Item, Outcome> {
  readonly item: Item
  readonly call: PendingCall<Outcome>
}

interface BatchSettings<Item, Outcome> {
  lengthOf(item: Item): number
  /** Creates the items with one statement, or none of them. Returns the outcome of each. */
  create(space: string, items: readonly Item[], isWanted: () => boolean): Promise<(item: Item) => Outcome>
}

interface Queue<Item, Outcome> {
  underWay: number
  waiting: PendingItem<Item, Outcome>[]
}

/**
 * Group commit: few statements at a time create items in a space, because each one locks the row that counts them. Items
 * that come meanwhile go together with the next statement. Returns the function that creates an item.
 */
export function createBatches<Item, Outcome>(pool: Pool, { lengthOf, create }: BatchSettings<Item, Outcome>) {
  /** The queues by space. A queue exists while one of its statements is under way. */
  const queues = new Map<string, Queue<Item, Outcome>>()

  /** Whether the client still waits: it has not been told that the call takes too long. */
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
    const items = batch.map(({ item }) => item)
    try {
      const outcomeOf = await create(space, items, () => batch.every(isPending))
      for (const { item, call } of batch) pool.resolve(call, outcomeOf(item))
    } catch (error) {
      // A client was told that its call takes too long: its item is never created. The next statement has the others.
      if (error instanceof WithdrawnError) queue.waiting.unshift(...batch.filter(isPending))
      // Nothing was created. Each item is sent alone, so that one which the database refuses does not make others fail.
      else if (batch.length > 1 && !(error instanceof UnavailableError))
        for (const pending of batch) await send(space, queue, [pending])
      else for (const { call } of batch) pool.reject(call, error)
    }
  }

  function nextBatch(queue: Queue<Item, Outcome>): PendingItem<Item, Outcome>[] {
    queue.waiting = queue.waiting.filter(isPending)
    let length = 0
    const end = queue.waiting.findIndex(({ item }, index) => {
      length += lengthOf(item)
      return index === maxItems || (index > 0 && length > maxLength)
    })
    return queue.waiting.splice(0, end === -1 ? maxItems : end)
  }

  return (space: string, item: Item): Promise<Outcome> =>
    pool.pending((call) => {
      const queue = queues.get(space) ?? { underWay: 0, waiting: [] }
      queues.set(space, queue)
      queue.waiting.push({ item, call })
      if (queue.underWay < maxUnderWay) void sendNext(space, queue)
    })
}
