import { HeldMemory } from './held-memory.ts'
import type { OverloadMonitor } from './overload.ts'
import { ReadTurns } from './read-turns.ts'
import { UploadBudget } from './uploads.ts'

/** What all listeners of a service share. */
export interface Resources {
  readonly overload: OverloadMonitor
  readonly uploads: UploadBudget
  readonly held: HeldMemory
  readonly turns: ReadTurns
}

/** Of the heap limit: for requests that wait and responses that are not read. */
const heldShare = 1 / 16
const minHeldBytes = 32 * 2 ** 20

/** `maxBodyBytes` is that of the largest body that the service accepts. */
export const createResources = (
  overload: OverloadMonitor,
  maxBodyBytes: number,
  heapLimitBytes: number,
): Resources => ({
  overload,
  uploads: new UploadBudget(maxBodyBytes),
  held: new HeldMemory(Math.max(minHeldBytes, heldShare * heapLimitBytes)),
  turns: new ReadTurns(),
})
