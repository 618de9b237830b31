import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import type { Client, Response } from '../../common/client.ts'
import type { Random } from '../../common/random.ts'
import type { Basis, Rule } from '../../common/rules.ts'

/** What a server promises: rules, and the checks that prove or disprove them over HTTP. */
export interface Contract {
  /** Reports show it: `Profile A`. */
  readonly name: string
  readonly rules: readonly Rule[]
  /** They run in this order: those that others build on come first. */
  readonly checks: readonly Check[]
  readonly items: ItemCollection
  /** Parts of the rules that cannot be checked over HTTP. */
  readonly unobservable?: readonly Unobservable[]
  /** Gets the server into its initial state, with `--reset`. Rejects when the server has no such means. */
  readonly openControl?: (client: Client) => Promise<ServerControl>
}

export interface Unobservable {
  readonly rule: string
  readonly what: string
  readonly reason: string
}

/** The collection that a run works on: it changes and deletes only items that it created. */
export interface ItemCollection {
  /** GET returns a JSON array of all items, POST creates one and returns it. */
  readonly path: string
  /** The number of items of a fresh server. Default: 0. */
  readonly initialCount?: number
  /** The path of an item, for DELETE. Default: the path of the collection and the member `id`. */
  readonly pathOf?: (item: Readonly<Record<string, unknown>>) => string | undefined
}

export interface ServerControl {
  reset(): Promise<unknown>
  /** Brings the items from before the run back. */
  restore(): Promise<unknown>
}

/** One statement of a rule as a test that runs against any server. */
export interface Check {
  readonly rule: string
  readonly basis: Basis
  readonly name: string
  /**
   * Precondition: a store in its initial state, a server that may lose all its items (started for the checks),
   * one or two tokens that the server accepts, or an http URL.
   */
  readonly needs?: 'untouched store' | 'own server' | 'token' | 'two tokens' | 'plain HTTP'
  /**
   * Other checks build on this one: when it fails, they cannot be judged. It comes before them. The check of DELETE
   * provides `delete`: from then on the items of each check are deleted after it.
   */
  readonly provides?: string
  /** Left out of a quick run, as are all checks of basis choice. */
  readonly isLong?: boolean
  /** Rejects with `RuleViolation` when the server breaks the rule. `random` yields the same numbers for the same seed. */
  run(client: Client, random: Random): Promise<void>
}

type Run = Check['run']

export const spec = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'spec', name, run })
export const choice = (rule: string, name: string, run: Run): Check => ({ rule, basis: 'choice', name, run })
export const onUntouchedStore = (check: Check): Check => ({ ...check, needs: 'untouched store' })
export const onOwnServer = (check: Check): Check => ({ ...check, needs: 'own server' })
export const withToken = (check: Check): Check => ({ ...check, needs: 'token' })
export const withTwoTokens = (check: Check): Check => ({ ...check, needs: 'two tokens' })
export const overPlainHttp = (check: Check): Check => ({ ...check, needs: 'plain HTTP' })
export const providing = (provides: string, check: Check): Check => ({ ...check, provides })
export const long = (check: Check): Check => ({ ...check, isLong: true })

/** Reports mistakes of the author of a contract. */
export function defineContract(contract: Contract): Contract {
  const { name, rules, checks, items, unobservable = [] } = contract
  if (!name) throw new TypeError('A contract needs a name.')
  if (!Array.isArray(rules) || !Array.isArray(checks)) throw new TypeError(`${name} needs arrays of rules and checks.`)
  if (typeof items?.path !== 'string') throw new TypeError(`${name} needs items with a path.`)
  const ids = new Set(rules.map(({ id }) => id))
  if (ids.size < rules.length) throw new TypeError(`Two rules of ${name} have the same id.`)
  if (!items.path.startsWith('/')) throw new TypeError(`The path of the items of ${name} must start with a slash.`)
  const titles = new Set<string>()
  for (const { rule, name: title, run } of checks) {
    if (!ids.has(rule))
      throw new TypeError(`The check "${title}" belongs to the rule ${rule}, which ${name} does not have.`)
    if (titles.has(`${rule} ${title}`)) throw new TypeError(`${name} has two checks "${rule} ${title}".`)
    if (typeof run !== 'function') throw new TypeError(`The check "${rule} ${title}" has no function run.`)
    titles.add(`${rule} ${title}`)
  }
  for (const { rule } of unobservable)
    if (!ids.has(rule)) throw new TypeError(`${name} does not have the rule ${rule}, which is listed as unobservable.`)
  return contract
}

/** The server refused an item, because it has no room for more: the check cannot be judged. */
export class ServerFull extends Error {
  /** A contract may import another copy of this package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'ServerFull'
  }

  override readonly name = 'ServerFull'

  constructor({ status }: Response) {
    super(`the server takes no more items (status ${status})`)
  }
}

/** Runs of one process may be concurrent; checks may be called outside a run. */
const runIds = new AsyncLocalStorage<string>()
const newId = () => randomBytes(5).toString('hex')
const ownId = newId()
const runId = () => runIds.getStore() ?? ownId
export const asRun = <T>(work: () => Promise<T>): Promise<T> => runIds.run(newId(), work)
let texts = 0
/** Marks an item as one of this run. Needs no encoding in a path. */
export const uniqueText = () => `verify-${runId()}-${++texts}`
/** Whether `uniqueText` made the text; a server may have changed its case. */
export const isFromThisRun = (text: unknown) =>
  typeof text === 'string' && text.toLowerCase().includes(`verify-${runId()}`)
