import type { KeyObject } from 'node:crypto'

/** A key, and the algorithms that it and nothing else decides on. */
export interface TrustedKey {
  readonly kid: string | undefined
  readonly algorithms: readonly string[]
  readonly key: KeyObject
}

/** Whose tokens are accepted: signed with one of these keys, by one of these issuers, for one of these audiences. */
export interface Trust {
  readonly name: string
  /** `kid` is what a token asks for; where keys come from afar it may be worth another look. */
  keys(kid: string | undefined): Promise<readonly TrustedKey[]>
  readonly issuers: readonly string[]
  readonly audiences: readonly string[]
}
