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
const validMs = 5 * 60_000
const maxCodes = 20
const maxWrongPerSecond = 10

/** Codes that somebody types or scans on another machine, each good for one token. */
export class Codes {
  readonly #settings: CodeSettings
  /** When each expires, by its hash: the time that a lookup takes says nothing about a code. The oldest is the first. */
  readonly #expiries = new Map<string, number>()
  readonly #allowWrong: (client: string) => boolean

  constructor(settings: CodeSettings) {
    this.#settings = settings
    this.#allowWrong = rateLimiter(maxWrongPerSecond, settings.monotonicNow)
  }

  create(): { readonly code: string; readonly expiresAt: Date } {
    const { randomInt, now, monotonicNow } = this.#settings
    const code = Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join('')
    this.#expiries.set(hash(code), monotonicNow() + validMs)
    for (const oldest of this.#expiries.keys()) if (this.#expiries.size > maxCodes) this.#expiries.delete(oldest)
    return { code: code.replace(/^.{5}/, '$&-'), expiresAt: new Date(now().getTime() + validMs) }
  }

  /**
   * A code is valid once. The limit is for wrong ones alone and for all clients together: nobody guesses one of 31^10, and
   * whoever tries must not keep its owner out.
   */
  redeem(text: string): 'valid' | 'wrong' | 'too-many-wrong' {
    const key = hash(text.replace(/[\s-]/g, '').toUpperCase())
    const expiry = this.#expiries.get(key)
    this.#expiries.delete(key)
    if (expiry !== undefined && this.#settings.monotonicNow() < expiry) return 'valid'
    return this.#allowWrong('') ? 'wrong' : 'too-many-wrong'
  }
}

const hash = (code: string) => createHash('sha256').update(code).digest('base64')
