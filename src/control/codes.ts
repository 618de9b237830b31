import { createHash } from 'node:crypto'
import { rateLimiter } from '../http/rate-limit.ts'

export interface CodeSettings {
  /** Returns a whole number below `max` that nobody can predict. */
  randomInt(max: number): number
  now(): Date
  monotonicNow(): number
}

/** The alphabet lacks 0, O, 1, I and L, which look alike. */
const alphabet = '23456789ABCDEFGHJKMNPQRSTUVWXYZ'
const codeLength = 10
const defaultValidSeconds = 5 * 60
const hourSeconds = 3_600
/** Of a space. */
const maxCodes = 20
const maxWrongPerSecond = 10

export type Codes = ReturnType<typeof createCodes>

/** Codes that somebody types or scans on another machine, each good for one token. */
export function createCodes({ randomInt, now, monotonicNow }: CodeSettings) {
  /** By the hash of a code: the time that a lookup takes says nothing about it. */
  const codes = new Map<string, { readonly space: string; readonly expiresAt: number }>()
  const allowWrong = rateLimiter(maxWrongPerSecond, monotonicNow)
  return {
    /** A code for a token that controls this space; undefined where too many wait for their use. */
    create(space: string, validForSeconds = defaultValidSeconds) {
      for (const [key, { expiresAt }] of codes) if (expiresAt <= monotonicNow()) codes.delete(key)
      if ([...codes.values()].filter((one) => one.space === space).length >= maxCodes) return undefined
      const validMs = 1_000 * validForSeconds
      const code = Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join('')
      codes.set(hash(code), { space, expiresAt: monotonicNow() + validMs })
      return { code: code.replace(/^.{5}/, '$&-'), expiresAt: new Date(now().getTime() + validMs) }
    },
    /**
     * Returns the space that the code is for, once, and how long the code would have been valid: its token is so, too, if
     * that is longer than an hour. The limit is for wrong ones alone and for all clients together: nobody
     * guesses one of 31^10, and whoever tries must not keep its owner out.
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
