import { randomUUID } from 'node:crypto'
import { seededRandom } from '../common/random.ts'

export interface Clock {
  readonly random: () => number
  readonly newId: () => string
  readonly now: () => Date
  readonly monotonicNow: () => number
  /** The header Date of every response; undefined: the time of day. */
  readonly date: string | undefined
}

/** With a seed, random numbers and ids repeat; with a time, the clock stands still. */
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
