import type { Random } from './contract.ts'

/** The same numbers for the same seed and text: a hash (FNV-1a) starts a generator (mulberry32). */
export function seededRandom(seed: number, text: string): Random {
  let state = 2166136261 ^ seed
  for (const char of text) state = Math.imul(state ^ (char.codePointAt(0) ?? 0), 16777619)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
