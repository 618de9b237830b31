import { randomUUID } from 'node:crypto'
import { seededRandom } from '../common/random.ts'

export interface Clock {
  readonly random: () => number
  readonly newId: () => string
  readonly now: () => Date
  readonly monotonicNow: () => number
  /** The fixed value of the Date header; undefined: the current time. */
  readonly date: string | undefined
}

/** Returns the same random numbers and ids for the same seed, and always the same time if `now` is set. */
export function createClock(options: { readonly seed?: number | undefined; readonly now?: Date | undefined }): Clock {
  const { seed, now } = options
  const random = seed === undefined ? Math.random : seededRandom(seed)
  return {
    random,
    newId: () => (seed === undefined ? randomUUID().replaceAll('-', '') : hexadecimal(random)),
    now: () => now ?? new Date(),
    monotonicNow: () => performance.now(),
    date: now?.toUTCString(),
  }
}

const hexadecimal = (random: () => number) =>
  Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16)).join('')
