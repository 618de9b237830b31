import { randomUUID } from 'node:crypto'
import type { Basis } from './rules.ts'
import type { Service } from './service.ts'

/** One thing a rule says, as something that can be tried on any server. */
export interface Check {
  readonly rule: string
  readonly basis: Basis
  readonly name: string
  /** True where the check holds only on a store that nobody has written to. */
  readonly untouched: boolean
  /** Throws `Broken` where the rule does not hold. */
  run(service: Service): Promise<void>
}

type Run = Check['run']

export const spec = (rule: string, name: string, run: Run): Check => ({
  rule,
  basis: 'spec',
  name,
  untouched: false,
  run,
})
export const choice = (rule: string, name: string, run: Run): Check => ({ ...spec(rule, name, run), basis: 'choice' })
export const onUntouched = (check: Check): Check => ({ ...check, untouched: true })

export const items = '/api/todoitems'

/** A name nobody else has. */
export const unique = () => `verify ${randomUUID()}`
