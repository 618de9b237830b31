import { createHash } from 'node:crypto'
import { rateLimiter } from '../http/rate-limit.ts'

/** The alphabet lacks 0, O, 1, I and L, which look alike. */
const alphabet = '23456789ABCDEFGHJKMNPQRSTUVWXYZ'
const codeLength = 10
const defaultValidSeconds = 5 * 60
const hourSeconds = 3_600
/** How many unused codes a space may have. */
const maxCodes = 20
const maxWrongPerSecond = 10

export type Codes = ReturnType<typeof createCodes>

/** Codes that a user types or scans on another machine, where each is exchanged for one token. */
export function createCodes(
  /** Returns an unpredictable whole number from 0 to below `max`. */
  randomInt: (max: number) => number,
  now: () => Date,
  monotonicNow: () => number,
) {
  /** The keys are hashes of codes, so that the time of a lookup tells nothing about a code. */
  const codes = new Map<string, { readonly space: string; readonly expiresAt: number }>()
  const allowWrong = rateLimiter(maxWrongPerSecond, monotonicNow)
  return {
    /** Creates a code for a token that controls this space; undefined if the space has too many unused codes. */
    create(space: string, validForSeconds = defaultValidSeconds) {
      for (const [key, { expiresAt }] of codes) if (expiresAt <= monotonicNow()) codes.delete(key)
      if ([...codes.values()].filter((code) => code.space === space).length >= maxCodes) return undefined
      const validMs = 1_000 * validForSeconds
      const code = Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join('')
      codes.set(hash(code), { space, expiresAt: monotonicNow() + validMs })
      return { code: code.replace(/^.{5}/, '$&-'), expiresAt: new Date(now().getTime() + validMs) }
    },
    /**
     * Returns the space of a code, and how long its token is valid: the rest of the time of the code, but at least an
     * hour. A code can be redeemed once. Only wrong codes are limited, for all clients together: 31^10 codes are too
     * many to guess, and a client that tries must not keep out the owner of a code.
     */
    redeem(text: string): { readonly space: string; readonly validForSeconds: number } | 'wrong' | 'too-many-wrong' {
      const key = hash(text.replace(/[\s-]/g, '').toUpperCase())
      const found = codes.get(key)
      codes.delete(key)
      const leftMs = found ? found.expiresAt - monotonicNow() : 0
      if (found && leftMs > 0) return { space: found.space, validForSeconds: Math.max(hourSeconds, leftMs / 1_000) }
      return allowWrong('') ? 'wrong' : 'too-many-wrong'
    },
  }
}

const hash = (code: string) => createHash('sha256').update(code).digest('base64')
