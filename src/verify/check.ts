import { randomUUID } from 'node:crypto'
import type { Client } from './client.ts'
import type { Basis } from './rules.ts'

/** One statement of a rule as a test that runs against any server. */
export interface Check {
  readonly rule: string
  readonly basis: Basis
  readonly name: string
  /**
   * Precondition: a store in its initial state, a server that may lose all its items (started for the checks),
   * a token that the server accepts, or an http URL.
   */
  readonly needs?: 'untouched store' | 'own server' | 'token' | 'plain HTTP'
  /** Other checks build on this one: when it fails, they cannot be judged. It comes before them. */
  readonly provides?: Prerequisite
  /** Rejects with `RuleViolation` when the server breaks the rule. */
  run(client: Client): Promise<void>
}

/** What checks of other rules build on: the operations, the error codes of profile B, and an endpoint by its path. */
export type Prerequisite =
  | 'list'
  | 'create'
  | 'read'
  | 'update'
  | 'delete'
  | 'error codes'
  | '/'
  | '/weatherforecast'
  | '/secret'
  | '/swagger/v1/swagger.json'

type Run = Check['run']

export const spec = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'spec', name, run })
export const choice = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'choice', name, run })
export const onUntouchedStore = (check: Check): Check => ({ ...check, needs: 'untouched store' })
export const onOwnServer = (check: Check): Check => ({ ...check, needs: 'own server' })
export const withToken = (check: Check): Check => ({ ...check, needs: 'token' })
export const overPlainHttp = (check: Check): Check => ({ ...check, needs: 'plain HTTP' })
export const providing = (provides: Prerequisite, check: Check): Check => ({ ...check, provides })

export const itemsPath = '/api/todoitems'

const runId = randomUUID()
let texts = 0
/** Needs no encoding in a path. */
export const uniqueText = () => `verify-${runId}-${++texts}`
/** Whether `uniqueText` made the text; a server may have changed its case. */
export const isFromThisRun = (text: unknown) =>
  typeof text === 'string' && text.toLowerCase().includes(`verify-${runId}`)
