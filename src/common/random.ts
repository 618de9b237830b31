/** Returns a number from 0 to 1, excluding 1. */
export type Random = () => number

/** Returns the same numbers for the same seed (mulberry32): 32 bits of state are enough to repeat a test. */
export function seededRandom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let bits = Math.imul(state ^ (state >>> 15), 1 | state)
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Derives a seed from another one and a name (FNV-1a), so that each generator has its own. */
export function derivedSeed(seed: number, name: string): number {
  let hash = 2166136261 ^ seed
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16777619)
  return hash
}
