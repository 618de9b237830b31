import { createHash } from 'node:crypto'

export interface CodeSettings {
  /** Returns a whole number below `max` that nobody can predict. */
  randomInt(max: number): number
  /** Returns the time of day. */
  now(): Date
  /** Returns milliseconds of a monotonic clock. */
  monotonicNow(): number
}

/** Without 0, O, 1, I and L, which look alike. */
const alphabet = '23456789ABCDEFGHJKMNPQRSTUVWXYZ'
const codeLength = 10
const validMs = 5 * 60_000
const maxCodes = 20
/** Then all codes are void: of 31^10, nobody guesses one. */
const maxWrong = 10

/** Codes that somebody types or scans on another machine, each good for one token. */
export class Codes {
  readonly #settings: CodeSettings
  /** When each expires, by its hash: the time that a lookup takes says nothing about a code. The oldest is the first. */
  readonly #expiries = new Map<string, number>()
  #wrong = 0

  constructor(settings: CodeSettings) {
    this.#settings = settings
  }

  create(): { readonly code: string; readonly expiresAt: Date } {
    const { randomInt, now, monotonicNow } = this.#settings
    const code = Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join('')
    this.#expiries.set(hash(code), monotonicNow() + validMs)
    for (const oldest of this.#expiries.keys()) if (this.#expiries.size > maxCodes) this.#expiries.delete(oldest)
    return { code: code.replace(/^.{5}/, '$&-'), expiresAt: new Date(now().getTime() + validMs) }
  }

  /** Tells whether the code is valid, which it is once. */
  redeem(text: string): boolean {
    const key = hash(text.replace(/[\s-]/g, '').toUpperCase())
    const expiry = this.#expiries.get(key)
    this.#expiries.delete(key)
    if (expiry !== undefined && this.#settings.monotonicNow() < expiry) return true
    if (++this.#wrong < maxWrong) return false
    this.#wrong = 0
    this.#expiries.clear()
    return false
  }
}

const hash = (code: string) => createHash('sha256').update(code).digest('base64')
