import { UnavailableError } from '../store.ts'
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
  /** Of two items with the same key, the second goes with a later statement; absent where all can go together. */
  keyOf?(item: Item): string
  lengthOf(item: Item): number
  /** Creates the items with one statement, or none of them. */
  create(space: string, items: readonly Item[]): Promise<readonly Outcome[]>
}

/**
 * Group commit: few statements at a time create items in a space, because each one locks the row that counts them. Items
 * that come meanwhile go together with the next statement.
 */
export class CreateBatches<Item, Outcome> {
  readonly #pool: Pool
  readonly #settings: BatchSettings<Item, Outcome>
  /** By space, as long as a statement is under way. */
  readonly #queues = new Map<string, { underWay: number; waiting: PendingItem<Item, Outcome>[] }>()

  constructor(pool: Pool, settings: BatchSettings<Item, Outcome>) {
    this.#pool = pool
    this.#settings = settings
  }

  create(space: string, item: Item): Promise<Outcome> {
    return this.#pool.pending((call) => {
      const queue = this.#queues.get(space) ?? { underWay: 0, waiting: [] }
      this.#queues.set(space, queue)
      queue.waiting.push({ item, call })
      if (queue.underWay < maxUnderWay) void this.#sendNext(space)
    })
  }

  async #sendNext(space: string): Promise<void> {
    const queue = this.#queues.get(space)
    if (!queue) return
    const batch = this.#nextBatch(queue)
    if (batch.length > 0) {
      queue.underWay++
      await this.#send(space, batch)
      queue.underWay--
    }
    if (queue.waiting.length > 0) void this.#sendNext(space)
    else if (queue.underWay === 0) this.#queues.delete(space)
  }

  async #send(space: string, batch: readonly PendingItem<Item, Outcome>[]): Promise<void> {
    try {
      const outcomes = await this.#settings.create(
        space,
        batch.map(({ item }) => item),
      )
      for (const [index, { call }] of batch.entries()) this.#pool.resolve(call, outcomes[index] as Outcome)
    } catch (error) {
      // Where the statement was refused, nothing was created: none is refused because of another.
      if (batch.length > 1 && !(error instanceof UnavailableError))
        for (const one of batch) await this.#send(space, [one])
      else for (const { call } of batch) this.#pool.reject(call, error)
    }
  }

  #nextBatch(queue: { waiting: PendingItem<Item, Outcome>[] }): PendingItem<Item, Outcome>[] {
    const { keyOf, lengthOf } = this.#settings
    const batch: PendingItem<Item, Outcome>[] = []
    const left: PendingItem<Item, Outcome>[] = []
    const keys = new Set<string>()
    let length = 0
    for (const one of queue.waiting) {
      // Its client has been told that it takes too long.
      if (!this.#pool.isPending(one.call)) continue
      const key = keyOf?.(one.item)
      length += lengthOf(one.item)
      const fits = batch.length === 0 || (batch.length < maxItems && length <= maxLength)
      if (fits && (key === undefined || !keys.has(key))) {
        batch.push(one)
        if (key !== undefined) keys.add(key)
      } else left.push(one)
    }
    queue.waiting = left
    return batch
  }
}
