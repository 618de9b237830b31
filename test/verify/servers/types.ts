import type { Server } from 'node:http'

/** A server that breaks the contract in one way, and is correct in everything else. */
export interface FaultyServer {
  /** Unique, kebab-case, starts with the profile: `a-list-stale-after-put`. */
  readonly id: string
  readonly profile: 'a' | 'b'
  /** The rule of the contract that is broken. */
  readonly rule: string
  /** The rule that verify names, if it is another. */
  readonly reportedRule?: string
  readonly kind: 'state' | 'text' | 'wire' | 'document' | 'samples'
  /**
   * `specified`: a sentence of the specification, or a part of a rule of basis spec that is not marked as a choice.
   * `choice`: only what the contract calls a choice. `unobservable`: no client can see it over HTTP.
   */
  readonly breaks: 'specified' | 'choice' | 'unobservable'
  /** What is wrong, in one sentence. */
  readonly fault: string
  /** The server, not listening yet. */
  create(options: ServerOptions): Server
}

/** A server that keeps every sentence of the specification in a way of its own. */
export interface CorrectServer {
  readonly id: string
  readonly profile: 'a' | 'b'
  /** What is unusual about it, in one sentence. */
  readonly trait: string
  /** Rules of basis choice that it answers differently. */
  readonly deviates: readonly string[]
  /** The URL that it gives its clients, if that is another than the one that it is reached at. */
  readonly publicUrl?: string
  create(options: ServerOptions): Server
}

export interface ServerOptions {
  /** Access tokens are JWTs signed with HS256 and this key. */
  readonly tokenKey: string
}
