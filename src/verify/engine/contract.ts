import type { Basis, Rule } from '../../common/rules.ts'
import type { Client, Request, Response } from './client.ts'
import type { Random } from './random.ts'

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

export type Item = Readonly<Record<string, unknown>>

/** The collection that a run works on: it changes and deletes only items that it created. */
export interface ItemCollection {
  /** GET returns all items, POST creates one and returns it. */
  readonly path: string
  /** The number of items of a fresh server. Default: 0. */
  readonly initialCount?: number
  /** The path of an item. Default: the path of the collection and the member `id`. */
  readonly pathOf?: (item: Item) => string | undefined
  /** The items in a response to GET, or to POST. Default: the elements of a JSON array, or the JSON object. */
  readonly list?: (response: Response) => readonly Item[]
  /** The headers of requests that list and delete what a run has created. Default: those of --header. */
  readonly headers?: (client: Client) => Request['headers']
  /**
   * Where clients supply the ids: whether the response to DELETE of an id that no item has is one that the contract states.
   * Another response means that an item with it may stay for ever, so a run creates none.
   */
  readonly isStated?: (response: Response, id: string) => boolean
  /** Deletes an item. Default: DELETE of its path. */
  readonly remove?: (client: Client, item: Item) => Promise<Response>
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
   * one or two tokens that the server accepts, credentials of two users, or an http URL.
   */
  readonly needs?: 'untouched store' | 'own server' | 'token' | 'two tokens' | 'two users' | 'plain HTTP'
  /**
   * Other checks build on this one: when it fails, they cannot be judged. It comes before them. The check of DELETE
   * provides `delete`: from then on the items of each check are deleted after it.
   */
  readonly provides?: string
  /** Left out of a quick run, as are all checks of basis choice. */
  readonly isLong?: boolean
  /**
   * Rejects with `RuleViolation` when the server breaks the rule. `random` yields the same numbers for the same seed.
   * Returns what the report says beside the check, or what is called at the end of the run: the items of the check are
   * kept until then.
   */
  run(client: Client, random: Random): Promise<AtEnd | string | undefined>
  /** The steps that `run` takes, where fewer of them may show the same violation. */
  readonly sequence?: Sequence
  /**
   * Called for every response of the run, whichever check sent the request; throws `RuleViolation`. The path has neither the
   * base path of the server nor the query. Such a check is judged at the end.
   */
  readonly inspect?: (response: Response, path: string, client: Client) => void
}

/** Waits until `watchMs` have passed since the items were created, at most. */
export type AtEnd = (watchMs: number) => Promise<string | undefined>

export interface Sequence<Step = unknown> {
  generate(random: Random): readonly Step[]
  take(client: Client, steps: readonly Step[]): Promise<void>
}

// biome-ignore lint/suspicious/noConfusingVoidType: a check that returns nothing is the usual one.
type Run = (client: Client, random: Random) => Promise<AtEnd | string | undefined | void>

export const spec = (rule: string, name: string, run: Run): Check => toCheck('spec', rule, name, run)
export const choice = (rule: string, name: string, run: Run): Check => toCheck('choice', rule, name, run)
const toCheck = (basis: Basis, rule: string, name: string, run: Run): Check => ({
  rule,
  basis,
  name,
  run: run as Check['run'],
})
/** A statement about every response of the run. */
export const invariant = (rule: string, name: string, inspect: NonNullable<Check['inspect']>): Check => ({
  ...spec(rule, name, async () => {}),
  inspect,
})
/** A check that takes generated steps. When it fails, the fewest of them that still fail are reported. */
export const sequence = <Step>(rule: string, name: string, steps: Sequence<Step>): Check => ({
  ...spec(rule, name, (client, random) => steps.take(client, steps.generate(random))),
  sequence: steps as Sequence,
})
export const onUntouchedStore = (check: Check): Check => ({ ...check, needs: 'untouched store' })
export const onOwnServer = (check: Check): Check => ({ ...check, needs: 'own server' })
export const withToken = (check: Check): Check => ({ ...check, needs: 'token' })
export const withTwoTokens = (check: Check): Check => ({ ...check, needs: 'two tokens' })
export const withTwoUsers = (check: Check): Check => ({ ...check, needs: 'two users' })
export const overPlainHttp = (check: Check): Check => ({ ...check, needs: 'plain HTTP' })
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
