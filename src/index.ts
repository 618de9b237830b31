/// <reference lib="esnext.disposable" preserve="true" />
import { faultErrors } from './control/faults.ts'
import { type Fault, type JournalEntry, type JournalQuery, journalQueryMembers } from './control/schema.ts'
import { describeError, Rejection } from './http/errors.ts'
import { quoteNumbers } from './http/int64.ts'
import { arrayReader } from './http/schema.ts'
import { outcomeErrors } from './profiles/profile.ts'
import { startInProcess, unknownOptions } from './service/start.ts'
import type { ListRepresentation, ReplaceOutcome } from './store/store.ts'

export type { Fault, JournalEntry, JournalQuery } from './control/schema.ts'

/** By profile: an item as a test states it. */
export interface TodoItems {
  readonly a: {
    /** An int64: a number where that is exact (up to 2^53 - 1), a bigint for any. */
    readonly id: number | bigint
    /** Null, where absent. */
    readonly name?: string | null
    readonly isComplete: boolean
  }
  readonly b: {
    readonly id: string
    readonly name: string
    readonly notes: string
    /** False, where absent. */
    readonly done?: boolean
  }
}

export interface StartOptions<Name extends keyof TodoItems> {
  /** The contract to serve. */
  readonly profile: Name
  /** Any free port, where absent. */
  readonly port?: number
  /** Repeats random numbers and ids exactly: forecast, trace ids, entity tags, random faults. */
  readonly seed?: number
  /** Stops the clock of forecast, journal and `Date` headers. The times of tokens are always those of the real clock. */
  readonly now?: Date | string
  /** Requires a token for the to-do endpoints too. */
  readonly requireAuth?: boolean
  /** A token of `token` is accepted for this long after its expiration: 0 to 3600 seconds, 0 where absent. */
  readonly clockToleranceSeconds?: number
  /** Gets a line for each request, such as `console.log`; nothing is logged, where absent. */
  readonly log?: (line: string) => void
}

export interface TokenOptions {
  /** `developer`, where absent. */
  readonly name?: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  /** Additional claims. */
  readonly claims?: Readonly<Record<string, string>>
  /**
   * An hour, where absent. The token expires after this time, rounded up to a whole second of the real clock; with 0 or a
   * negative number it has expired already. The server rejects it from then on, or `clockToleranceSeconds` later.
   */
  readonly validForSeconds?: number
}

/** Items with their ids, faults and requests that no other space has. */
export interface TodoSpace<Name extends keyof TodoItems> {
  /** Without trailing slash: `http://127.0.0.1:PORT/~NAME`. */
  readonly url: string
  /** Items as at the start, no faults, no requests. */
  reset(): Promise<void>
  /** The items; an id of Profile A is a bigint where a number would be rounded. */
  items(): Promise<Required<TodoItems[Name]>[]>
  /** Exactly these items. Rejects with every mistake, and then changes nothing. */
  putItems(items: readonly TodoItems[Name][]): Promise<void>
  /**
   * The last 1,000 requests, newest last, those without an outcome too: those behind the one with the id `since`, at most
   * `limit`. CORS preflights are among them only with `preflights: true`.
   */
  requests(query?: JournalQuery): JournalEntry[]
  /**
   * Adds faults behind those that there are. Of those that match a request and are not used up, it gets the first failure,
   * the first delay and the first rate.
   */
  addFault(...faults: Fault[]): Promise<void>
  /** A bearer token that this server accepts until it expires, in each space, and no other server does. */
  token(options?: TokenOptions): Promise<string>
}

/** A service in this process, in development mode, with items in memory. The members of a space are for clients without one. */
export interface TodoServer<Name extends keyof TodoItems> extends TodoSpace<Name>, AsyncDisposable {
  /** Without trailing slash: `http://127.0.0.1:PORT`. */
  readonly url: string
  /**
   * The space of this name (1 to 64 of `A-Za-z0-9_-`), which starts as the server starts. It is the same each time, until
   * there are more than 1,000 and it is the least recently used: then it starts again.
   */
  space(name: string): TodoSpace<Name>
  /** Stops at once; requests in flight get no response. */
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
    items: async () => parseItems(await find('items', name).list()),
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
      // A request that is rejected creates no space, but it is to be among the requests of this one.
      find('space', text)
      return spaceOf(text)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

const tokenOptionNames: readonly (keyof TokenOptions)[] = ['name', 'roles', 'scopes', 'claims', 'validForSeconds']

/** The compiler finds misspelt options, but tests may be in JavaScript. */
function rejectUnknown(member: string, options: object, known: readonly string[]): void {
  const mistakes = unknownOptions(options, known)
  if (mistakes.length > 0) throw new Error(`${member}: ${mistakes.join('; ')}.`)
}

function assertReplaced(member: string, outcome: ReplaceOutcome): void {
  if (outcome !== 'replaced') throw new Error(`${member}: ${describeError(outcomeErrors[outcome])}`)
}

/** JSON with every digit of a bigint. */
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

/** JSON.parse, but a bigint where a number would be rounded. */
function parseItems({ json }: ListRepresentation) {
  const text = typeof json === 'string' ? json : Buffer.concat(json).toString()
  const items = JSON.parse(text) as { id: unknown }[]
  const isRounded = ({ id }: { id: unknown }) => typeof id === 'number' && !Number.isSafeInteger(id)
  if (!items.some(isRounded)) return items as never
  const exact = JSON.parse(quoteNumbers(text)) as { id: string }[]
  return items.map((item, index) => (isRounded(item) ? { ...item, id: BigInt(exact[index]?.id ?? 0) } : item)) as never
}
