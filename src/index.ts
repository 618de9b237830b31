/// <reference lib="esnext.disposable" preserve="true" />
import type { TokenRequest as TokenOptions } from './common/token-request.ts'
import { faultErrors } from './control/faults.ts'
import { type Fault, type JournalEntry, type JournalQuery, journalQueryMembers } from './control/schema.ts'
import { arrayReader } from './http/body-reader.ts'
import { describeError, Rejection } from './http/errors.ts'
import { quoteNumbers } from './http/int64.ts'
import { outcomeErrors } from './profiles/profile.ts'
import { startInProcess, unknownOptions } from './service/start.ts'
import type { ListRepresentation, ReplaceOutcome } from './store/store.ts'

export type { TokenRequest as TokenOptions } from './common/token-request.ts'
export type { Fault, JournalEntry, JournalQuery } from './control/schema.ts'

/** The items of each profile, as a test passes them to `putItems`. */
export interface TodoItems {
  readonly a: {
    /** An int64. A bigint can hold each of them, a number those up to 2^53 - 1. */
    readonly id: number | bigint
    /** Default: null. */
    readonly name?: string | null
    readonly isComplete: boolean
  }
  readonly b: {
    readonly id: string
    readonly name: string
    readonly notes: string
    /** Default: false. */
    readonly done?: boolean
  }
}

export interface StartOptions<Name extends keyof TodoItems> {
  /** The contract to serve. */
  readonly profile: Name
  /** Default: any free port. */
  readonly port?: number
  /** The same seed gives the same random numbers and ids: forecast, trace ids, entity tags, random faults. */
  readonly seed?: number
  /** Stops the clock of the forecast, the journal and `Date` headers at this time. Tokens always use the real clock. */
  readonly now?: Date | string
  /** Whether the to-do endpoints require a token. */
  readonly requireAuth?: boolean
  /** How long a token from `token()` is still accepted after it has expired: 0 to 3600 seconds. Default: 0. */
  readonly clockToleranceSeconds?: number
  /** Called with a line for each request; `console.log`, for example. Default: nothing is logged. */
  readonly log?: (line: string) => void
}

/** A space has its own items, ids, faults and requests, which no other space sees. */
export interface TodoSpace<Name extends keyof TodoItems> {
  /** The base URL of the space, without trailing slash: `http://127.0.0.1:PORT/~NAME`. */
  readonly url: string
  /** Restores the items of the start; removes all faults and requests. */
  reset(): Promise<void>
  /** Returns all items. An id of Profile A is a bigint if a number would round it. */
  items(): Promise<Required<TodoItems[Name]>[]>
  /** Replaces all items by these. If some are invalid, it changes nothing and rejects with all mistakes. */
  putItems(items: readonly TodoItems[Name][]): Promise<void>
  /**
   * Returns the last 1,000 requests, newest last, including those that have no outcome yet: with `since` those after
   * the request with this id, with `limit` only the newest ones, with `preflights: true` CORS preflights, too.
   */
  requests(query?: JournalQuery): JournalEntry[]
  /**
   * Appends faults to the list. A request gets the first failure, the first delay and the first rate among the faults
   * that match it and are not used up.
   */
  addFault(...faults: Fault[]): Promise<void>
  /** Creates a bearer token that only this server accepts, in all of its spaces, until the token expires. */
  token(options?: TokenOptions): Promise<string>
}

/** A service in development mode in this process, with items in memory. Its own members work on the default space. */
export interface TodoServer<Name extends keyof TodoItems> extends TodoSpace<Name>, AsyncDisposable {
  /** The base URL of the service, without trailing slash: `http://127.0.0.1:PORT`. */
  readonly url: string
  /**
   * Returns the space of this name (1 to 64 of `A-Za-z0-9_-`). A new space has the items of the start. Beyond 1,000
   * spaces, the least recently used one is dropped; its name then gets a new space.
   */
  space(name: string): TodoSpace<Name>
  /** Stops the server at once; requests in flight get no response. */
  close(): Promise<void>
}

/** Starts a service in this process, for tests. Any number of them run side by side and share nothing. */
export async function start<Name extends keyof TodoItems>(options: StartOptions<Name>): Promise<TodoServer<Name>> {
  const { url, control, newToken, destroy } = await startInProcess(options)
  const readItems = arrayReader(control.itemSchema, 'id')
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= destroy()
    return closed
  }
  const find = (member: string, name?: string) => {
    if (closed) throw new Error(`${member}: The server is closed.`)
    const found = name === undefined ? control.defaultSpace : control.space(name)
    if ('status' in found) throw new Error(`${member}: ${found.reason}`)
    return found
  }
  const spaceOf = (name?: string): TodoSpace<Name> => ({
    url: name === undefined ? url : `${url}/~${name}`,
    async reset() {
      assertReplaced('reset', await find('reset', name).reset())
    },
    items: async () => parseItems(await find('items', name).items.list()),
    async putItems(items) {
      const checked = readItems(itemsToJson(items))
      if (checked instanceof Rejection) throw new Error(`putItems: ${describeError(checked)}`)
      assertReplaced('putItems', await find('putItems', name).putItems(checked))
    },
    requests(query = {}) {
      rejectUnknown('requests', query, Object.keys(journalQueryMembers))
      const { preflights = false } = query
      return find('requests', name).journal.list({ ...query, preflights })
    },
    async addFault(...added) {
      const { faults } = find('addFault', name)
      const mistakes = added.flatMap((fault) => faultErrors(fault, faults))
      const limit = faults.findProblem(faults.count + added.length)
      if (limit) mistakes.push(limit)
      if (mistakes.length > 0) throw new Error(`addFault: ${mistakes.join(' ')}`)
      for (const fault of added) faults.add(fault)
    },
    async token(options = {}) {
      rejectUnknown('token', options, tokenOptionNames)
      return newToken(options)
    },
  })
  return {
    ...spaceOf(),
    space(name) {
      const text = typeof name === 'string' ? name : ''
      // Creates the space at once: a rejected request does not create one, but must be in the journal of this space.
      find('space', text)
      return spaceOf(text)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

const tokenOptionNames: readonly (keyof TokenOptions)[] = ['name', 'roles', 'scopes', 'claims', 'validForSeconds']

/** Finds misspelt options in tests that are written in JavaScript, which no compiler checks. */
function rejectUnknown(member: string, options: object, known: readonly string[]): void {
  const mistakes = unknownOptions(options, known)
  if (mistakes.length > 0) throw new Error(`${member}: ${mistakes.join('; ')}.`)
}

function assertReplaced(member: string, outcome: ReplaceOutcome): void {
  if (outcome !== 'replaced') throw new Error(`${member}: ${describeError(outcomeErrors[outcome])}`)
}

/** Writes items as JSON, with every digit of a bigint. */
function itemsToJson(items: readonly object[]): string {
  if (!Array.isArray(items)) throw new Error('putItems: The items must be an array.')
  const mistakes: string[] = []
  const texts = items.map((item: unknown, index) => {
    if (typeof item !== 'object' || item === null) return JSON.stringify(item) ?? 'null'
    const members = Object.entries(item).map(([name, value]) => {
      if (Number.isInteger(value) && !Number.isSafeInteger(value))
        mistakes.push(`[${index}].${name} may be rounded as a number: write it as a bigint.`)
      const json = typeof value === 'bigint' ? value : JSON.stringify(value)
      return json === undefined ? [] : `${JSON.stringify(name)}:${json}`
    })
    return `{${members.flat().join(',')}}`
  })
  if (mistakes.length > 0) throw new Error(`putItems: ${mistakes.join(' ')}`)
  return `[${texts.join(',')}]`
}

/** Parses items; an id that a number would round becomes a bigint. */
function parseItems({ json }: ListRepresentation) {
  const text = typeof json === 'string' ? json : Buffer.concat(json).toString()
  const items = JSON.parse(text) as { id: unknown }[]
  const isRounded = ({ id }: { id: unknown }) => typeof id === 'number' && !Number.isSafeInteger(id)
  if (!items.some(isRounded)) return items as never
  const exact = JSON.parse(quoteNumbers(text)) as { id: string }[]
  return items.map((item, index) => (isRounded(item) ? { ...item, id: BigInt(exact[index]?.id ?? 0) } : item)) as never
}
