import { seededRandom } from '../../common/random.ts'

/** Returns a number from 0 to 1, excluding 1. */
export type Random = () => number

/** Returns the same numbers for the same seed and name. The seed of each name is derived with FNV-1a. */
export function randomFor(seed: number, name: string): Random {
  let hash = 2166136261 ^ seed
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16777619)
  return seededRandom(hash)
}
