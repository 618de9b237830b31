import { randomUUID } from 'node:crypto'
import type { Basis } from './rules.ts'
import type { Service } from './service.ts'

/** One thing a rule says, as something that can be tried on any server. */
export interface Check {
  readonly rule: string
  readonly basis: Basis
  readonly name: string
  /**
   * What must be so for the check to mean anything: a store that looks as at the start,
   * a server that holds nothing of anybody, or a token at hand.
   */
  readonly needs?: 'untouched store' | 'own server' | 'token'
  /** Throws `Broken` where the rule does not hold. */
  run(service: Service): Promise<void>
}

type Run = Check['run']

export const spec = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'spec', name, run })
export const choice = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'choice', name, run })
export const onUntouched = (check: Check): Check => ({ ...check, needs: 'untouched store' })
export const onOwnServer = (check: Check): Check => ({ ...check, needs: 'own server' })
export const withToken = (check: Check): Check => ({ ...check, needs: 'token' })

export const items = '/api/todoitems'

const run = randomUUID()
let names = 0
/** A name nobody else has. */
export const unique = () => `verify ${run} ${++names}`
export const isOurs = (text: unknown) => typeof text === 'string' && text.toLowerCase().includes(`verify ${run}`)
