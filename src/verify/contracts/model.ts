import { isObject } from '../../common/json.ts'
import { asSecondCaller, type Client, type Headers, type Response } from '../engine/client.ts'
import type { Check } from '../engine/contract.ts'
import {
  citing,
  expectItems,
  expectMembers,
  expectRoom,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  isSuccess,
  parseJson,
  RuleViolation,
  stringify,
} from '../engine/expect.ts'
import { tryParseExact } from '../engine/json.ts'
import { uniqueText } from '../engine/state.ts'
import { hasFailed, itemPath, itemsPath, observe, type Prerequisite, setUp } from './rules.ts'

type Id = string | number | bigint

export interface ModelItem {
  readonly id: Id
  readonly name: string | null
}

/** The methods that a profile offers. */
export interface Methods {
  readonly collection: readonly string[]
  readonly item: readonly string[]
}

/** What the checks of both profiles need to know about one of them. Each operation is one request. */
export interface Profile<T extends ModelItem> {
  /** The rules of the operations, and of what they have in common. */
  readonly rules: Readonly<Record<Operation, string>>
  readonly methods: Methods
  readonly members: readonly string[]
  /** A member without which POST fails. */
  readonly requiredMember: string
  readonly createdStatus: number
  /** The name contains the text. */
  newItem(text: string): T
  /** Other values for the members that PUT changes. */
  changes(text: string, isDone: boolean): Partial<T>
  /** What POST sends: all members, in profile A without the id. */
  body(item: T): object
  /** `unknown` are members that the contract does not have. */
  update(client: Client, item: T, unknown?: object): Promise<Response>
  /** Profile A only. */
  read?(client: Client, id: T['id']): Promise<Response>
  /** Ids that no item has, but which look like that of an item, or match it in some other way than being equal. */
  unusedIds(client: Client, item: T): Promise<T['id'][]>
  /** Returns the item in a response to POST. */
  expectCreated(response: Response, content: T): T
  expectNotFound(response: Response, id: T['id']): void
  expectUnsupportedMediaType(response: Response): void
  expectInvalidBody(response: Response): void
  expectBodyTooLarge(response: Response): void
  expectUnstorableText(response: Response): void
  /** Values with which POST and PUT return 400, by member; undefined: it is absent. Each with the rule that says so. */
  readonly invalidValues: readonly (readonly [rule: string, member: string, values: readonly unknown[]])[]
  /** Whether the contract states this type for the member. */
  isOfType(name: string, value: unknown): boolean
  /** What holds for every response of this profile alone. */
  readonly invariants: readonly Check[]
  /** Whether the specification allows a server to refuse the text: it does not say which it must accept. */
  mayRefuse(response: Response, text: string): boolean
}

type Operation = 'list' | 'read' | 'create' | 'update' | 'remove' | 'updateMissing' | 'uniqueIds' | 'unknownMembers'

export const postItem = <T extends ModelItem>(client: Client, profile: Profile<T>, item: T, unknown?: object) =>
  client.send('POST', itemsPath, { ...unknown, ...profile.body(item) })

/** How a client writes its requests; headers replace those of a request. */
export interface Rewrite {
  readonly path?: (path: string) => string
  readonly body?: (text: string) => unknown
  readonly headers?: Headers
}

/** The same client, with requests that are written in another way. */
export const rewriting = (client: Client, { path: spell, body: write, headers: set }: Rewrite): Client => ({
  ...client,
  send(method, path, body, headers, caller) {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const written = write && text !== undefined ? write(text) : body
    return client.send(method, spell?.(path) ?? path, written, { ...headers, ...set }, caller)
  },
})

/** Another value for a member; undefined: it is absent. */
export const withValue =
  (member: string, value: unknown) =>
  (text: string): string => {
    const pair = `"${member}":("[^"]*"|\\w+)`
    if (value === undefined) return text.replace(new RegExp(`${pair},|,?${pair}`), '')
    return text.replace(new RegExp(pair), `"${member}":${JSON.stringify(value)}`)
  }

export const deleteItem = (client: Client, id: Id) => client.send('DELETE', itemPath(id))

/** A step towards the statement of a check (`setUp`), or what it states (`observe`). */
type Mark = <R>(prerequisite: Prerequisite, expectations: () => R) => R

/** The body of a response 400 with which a server of profile B refuses an item for which it has no room. */
export const refusal = 'CouldNotCreateItem'

const prerequisites: Readonly<Record<string, Prerequisite>> = { POST: 'create', PUT: 'update', DELETE: 'delete' }

/** A list of items. What is no JSON at all, in whatever operation, breaks another rule than that of the list. */
export function expectList(response: Response): Record<string, unknown>[] {
  expectStatus(response, 200)
  citing('G3', () => parseJson(response))
  return expectItems(response)
}

const prerequisiteOf = ({ request }: Response): Prerequisite => prerequisites[request.method] ?? 'list'

/** What a check states of the response to an operation. */
export const observeOperation = (response: Response, expectation: (response: Response) => void) =>
  observe(prerequisiteOf(response), () => expectation(response))

/** What a check states of the effect of operations, which cannot be judged where one of them fails by itself. */
export const observeOperations = (responses: readonly Response[], expectation: () => void) =>
  observe(responses.map(prerequisiteOf).find(hasFailed) ?? 'list', expectation)

/**
 * The items that a check has created, as the rules say that they are stored. Other items of the server are not judged:
 * other clients may be at work.
 */
export class StoreModel<T extends ModelItem> {
  /** Sends the next requests. */
  client: Client
  readonly #profile: Profile<T>
  readonly #rule: string | undefined
  /** The last operation, by which other items may have changed, too. */
  #last: Prerequisite = 'listed'
  readonly #stored = new Map<string, T>()
  /** Items that were updated since all were seen as they are stored. */
  readonly #updated = new Set<string>()
  readonly #removed = new Map<string, T['id']>()
  #names = 0
  /** The names of the items of this model have it, and no others. */
  readonly mark = `${uniqueText()}.`

  /** `rule`: what a check is about, whichever operation shows it. */
  constructor(client: Client, profile: Profile<T>, rule?: string) {
    this.client = client
    this.#profile = profile
    this.#rule = rule
  }

  get items(): T[] {
    return [...this.#stored.values()]
  }

  newItem(changes: Partial<T> = {}): T {
    return { ...this.#profile.newItem(this.#newName()), ...changes }
  }

  /** Other values for the members that PUT changes. */
  changes(isDone: boolean): Partial<T> {
    return this.#profile.changes(this.#newName(), isDone)
  }

  #newName(): string {
    return `${this.mark}${++this.#names}`
  }

  /** Creates an item, and returns it with its id. */
  async create(changes: Partial<T> = {}, mark: Mark = setUp): Promise<T> {
    return this.createFrom(this.newItem(changes), mark)
  }

  async createFrom(content: T, mark: Mark = setUp): Promise<T> {
    const response = await postItem(this.client, this.#profile, content)
    // Where the item is what the check is about, it may be refused for another reason than room.
    if (mark !== observe) expectRoom(response, refusal)
    else if (!isSuccess(response)) expectRoom(await postItem(this.client, this.#profile, this.newItem()), refusal)
    return this.add(response, content, mark)
  }

  /** Adds the item that a response to POST returns. */
  add(response: Response, content: T, mark: Mark = observe): T {
    expectRoom(response)
    return mark('create', () => {
      expectSuccess(response)
      const item = this.#profile.expectCreated(response, content)
      const isTaken = this.#stored.has(`${item.id}`)
      citing(this.#rule ?? this.#profile.rules.uniqueIds, () =>
        expectThat(!isTaken, 'an id that no other item has', response),
      )
      this.#stored.set(`${item.id}`, item)
      this.#removed.delete(`${item.id}`)
      this.#last = 'listed'
      return item
    })
  }

  /** Records what a request has stored. */
  set(item: T): void {
    this.#stored.set(`${item.id}`, item)
    this.#updated.add(`${item.id}`)
  }

  /** Replaces an item, and returns it. */
  async update(item: T, changes: Partial<T>, mark: Mark = setUp): Promise<T> {
    const changed = { ...item, ...changes }
    const response = await this.#profile.update(this.client, changed)
    mark('update', () => expectSuccess(response))
    this.set(changed)
    return changed
  }

  async remove({ id }: T, mark: Mark = setUp): Promise<void> {
    const response = await deleteItem(this.client, id)
    mark('delete', () => expectSuccess(response))
    this.recordRemoved(id)
  }

  recordRemoved(id: T['id']): void {
    this.#stored.delete(`${id}`)
    this.#removed.set(`${id}`, id)
    this.#last = 'delete'
  }

  /** Called for an item that is deleted in a way that is not judged. */
  forget({ id }: T): void {
    this.#stored.delete(`${id}`)
  }

  /**
   * The list has each item once, as it is stored, and none that was removed or never created; so does GET by id. Both are
   * the same for another caller.
   */
  async expectStored(after: string, isAtOnce = false): Promise<void> {
    const callers = [this.client, asSecondCaller(this.client)]
    const lists = await allOf(callers.map((caller) => caller.send('GET', itemsPath)))
    for (const list of lists) await this.#expectListed(list, after)
    await this.#expectReadable(after, isAtOnce)
    this.#updated.clear()
    this.#last = 'listed'
  }

  async #expectListed(response: Response, after: string): Promise<void> {
    const listed = observe('list', () => expectList(response))
    const entriesById = new Map<unknown, typeof listed>()
    for (const entry of listed) entriesById.set(entry.id, [...(entriesById.get(entry.id) ?? []), entry])
    for (const item of this.items) {
      const entries = entriesById.get(item.id) ?? []
      if (entries.length === 1 && hasMembers(entries[0] ?? {}, item)) continue
      const got = entries.length === 0 ? `a list without the item ${item.id}` : stringify(entries)
      const rule = entries.length > 1 ? this.#profile.rules.uniqueIds : await this.#ruleOfEntry(item)
      citing(this.#rule ?? rule, () =>
        observe(this.#updated.has(`${item.id}`) ? 'update' : this.#last, () =>
          fail(`after ${after}, ${stringify(item)} in the list, once`, response, got, item.id),
        ),
      )
    }
    for (const entry of listed) {
      const isOfModel = `${entry.name}`.includes(this.mark) || this.#removed.has(`${entry.id}`)
      if (isOfModel && !this.#stored.has(`${entry.id}`))
        citing(this.#rule ?? (this.#removed.has(`${entry.id}`) ? this.#profile.rules.remove : undefined), () =>
          observe('delete', () =>
            fail(`after ${after}, no such item in the list`, response, stringify(entry), entry.id as Id),
          ),
        )
    }
  }

  /** The rule that a wrong entry of the list breaks: that of the list, if GET of the item shows that it is stored. */
  async #ruleOfEntry(item: T): Promise<string | undefined> {
    const { read, rules } = this.#profile
    const { status, text } = read ? await read(this.client, item.id) : { status: 0, text: '' }
    const stored = status === 200 ? tryParseExact(text) : undefined
    if (isObject(stored) && hasMembers(stored, item)) return rules.list
    if (this.#updated.has(`${item.id}`)) return rules.update
    return this.#last === 'delete' ? rules.remove : undefined
  }

  async #expectReadable(after: string, isAtOnce: boolean): Promise<void> {
    const { read, rules } = this.#profile
    if (!read) return
    const { items } = this
    const interval = Math.ceil(items.length / maxRead)
    const chosen = items.filter((_, index) => index % interval === 0 || index === items.length - 1)
    const readItem = (item: T, index: number) =>
      read(index % 2 === 0 ? this.client : asSecondCaller(this.client), item.id)
    const responses = isAtOnce ? await allOf(chosen.map(readItem)) : []
    for (const [index, item] of chosen.entries()) {
      const response = responses[index] ?? (await readItem(item, index))
      const expectRead = () =>
        observe('read', () => {
          expectStatus(response, 200)
          const isStored = hasMembers(expectMembers(response, { id: item.id }), item)
          const show = () => fail(`after ${after}, the item ${stringify(item)}`, response, undefined, item.id)
          if (!isStored) observe(this.#updated.has(`${item.id}`) ? 'update' : 'read', show)
        })
      // The list has shown that it is stored.
      citing(this.#rule ?? rules.read, expectRead)
    }
    for (const id of [...this.#removed.values()].slice(-maxRemovedRead)) {
      const response = await read(this.client, id)
      // Another client may have got the id.
      const isOfAnother = response.status === 200 && !response.text.includes(this.mark) && /"name"/.test(response.text)
      if (response.status !== 404 && !isOfAnother)
        citing(this.#rule ?? rules.remove, () =>
          observe('delete', () => fail('status 404 for a deleted item', response, undefined, id)),
        )
    }
  }
}

function fail(expected: string, response: Response, got: string | undefined, about: Id): never {
  const violation = new RuleViolation(expected, response, got)
  violation.aboutId = `${about}`
  throw violation
}

/** Only the last that were deleted are read, to keep the number of requests low. */
const maxRemovedRead = 2
/** Of many items, some are read. */
const maxRead = 12

/** Waits for all requests, so that none goes on beside the next check, and throws the first failure. */
export async function allOf<Results extends readonly unknown[]>(
  requests: readonly [...{ [Index in keyof Results]: Promise<Results[Index]> }],
): Promise<Results> {
  await Promise.allSettled(requests)
  return Promise.all(requests) as Promise<unknown> as Promise<Results>
}

/** A model with three items, the second and the third alike but for the id, so that operations on neighbours show. */
export async function populate<T extends ModelItem>(
  client: Client,
  profile: Profile<T>,
): Promise<{ model: StoreModel<T>; other: T; target: T; twin: T }> {
  const model = new StoreModel(client, profile)
  const other = await model.create()
  const target = await model.create()
  // Where two items must differ in more than the id, the others can still be judged.
  const alike = hasFailed('twins') ? {} : { ...target, id: model.newItem().id }
  const twin = await model.create(alike, (_, expectations) => setUp('twins', expectations))
  return { model, other, target, twin }
}
