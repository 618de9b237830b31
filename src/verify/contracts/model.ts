import type { Client, Response } from '../../common/client.ts'
import { uniqueText } from '../engine/contract.ts'
import {
  expectItems,
  expectMembers,
  expectRoom,
  expectStatus,
  expectSuccess,
  hasMembers,
  observe,
  RuleViolation,
  setUp,
  stringify,
} from '../engine/expect.ts'
import type { Methods } from './document.ts'
import { itemPath, itemsPath } from './rules.ts'

type Id = string | number | bigint

export interface ModelItem {
  readonly id: Id
  readonly name: string | null
}

/** What the checks of both profiles need to know about one of them. Each operation is one request. */
export interface Profile<T extends ModelItem> {
  /** The rules of the operations. */
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
  expectNotFound(response: Response): void
  expectUnsupportedMediaType(response: Response): void
  expectInvalidBody(response: Response): void
  expectBodyTooLarge(response: Response): void
  expectUnstorableText(response: Response): void
  /** Whether the specification allows a server to refuse the text: it does not say which it must accept. */
  mayRefuse(response: Response, text: string): boolean
}

type Operation = 'list' | 'create' | 'update' | 'remove' | 'updateMissing' | 'createAtOnce' | 'unknownMembers'

export const postItem = <T extends ModelItem>(client: Client, profile: Profile<T>, item: T, unknown?: object) =>
  client.send('POST', itemsPath, { ...unknown, ...profile.body(item) })

export const deleteItem = (client: Client, id: Id) => client.send('DELETE', itemPath(id))

/** A step towards the statement of a check (`setUp`), or what it states (`observe`). */
type Mark = <R>(prerequisite: string, expectations: () => R) => R

const prerequisites: Readonly<Record<string, string>> = { POST: 'create', PUT: 'update', DELETE: 'delete' }

/** What a check states of the response to an operation. */
export const observeOperation = (response: Response, expectation: (response: Response) => void) =>
  observe(prerequisites[response.request.method] ?? 'list', () => expectation(response))

/**
 * The items that a check has created, as the rules say that they are stored. Other items of the server are not judged:
 * other clients may be at work.
 */
export class StoreModel<T extends ModelItem> {
  /** Sends the next requests. */
  client: Client
  readonly #profile: Profile<T>
  readonly #stored = new Map<string, T>()
  readonly #updated = new Set<string>()
  readonly #removed = new Map<string, T['id']>()
  #names = 0
  /** The names of the items of this model have it, and no others. */
  readonly mark = `${uniqueText()}.`

  constructor(client: Client, profile: Profile<T>) {
    this.client = client
    this.#profile = profile
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
    if (mark !== observe) expectRoom(response, 'CouldNotCreateItem')
    return this.add(response, content, mark)
  }

  /** Adds the item that a response to POST returns. */
  add(response: Response, content: T, mark: Mark = observe): T {
    return mark('create', () => {
      expectSuccess(response)
      const item = this.#profile.expectCreated(response, content)
      if (this.#stored.has(`${item.id}`)) throw new RuleViolation('an id that no other item has', response)
      this.#stored.set(`${item.id}`, item)
      this.#removed.delete(`${item.id}`)
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
    this.#stored.delete(`${id}`)
    this.#removed.set(`${id}`, id)
  }

  /** Called for an item that is deleted in a way that is not judged. */
  forget({ id }: T): void {
    this.#stored.delete(`${id}`)
  }

  /** The list has each item once, as it is stored, and none that was removed or never created; so does GET by id. */
  async expectStored(after: string): Promise<void> {
    const response = await this.client.send('GET', itemsPath)
    const listed = observe('list', () => expectItems(response))
    for (const item of this.items) {
      const entries = listed.filter(({ id }) => id === item.id)
      const isStored = entries.length === 1 && hasMembers(entries[0] ?? {}, item)
      const got = entries.length === 0 ? `a list without the item ${item.id}` : stringify(entries)
      if (!isStored)
        observe(this.#updated.has(`${item.id}`) ? 'update' : 'listed', () =>
          fail(`after ${after}, ${stringify(item)} in the list, once`, response, got, item.id),
        )
    }
    for (const entry of listed) {
      const isOfModel = `${entry.name}`.includes(this.mark) || this.#removed.has(`${entry.id}`)
      if (isOfModel && !this.#stored.has(`${entry.id}`))
        observe('delete', () =>
          fail(`after ${after}, no such item in the list`, response, stringify(entry), entry.id as Id),
        )
    }
    await this.#expectReadable(after)
  }

  async #expectReadable(after: string): Promise<void> {
    const { read } = this.#profile
    if (!read) return
    for (const item of this.items) {
      const response = await read(this.client, item.id)
      observe('read', () => {
        expectStatus(response, 200)
        const isStored = hasMembers(expectMembers(response, { id: item.id }), item)
        const show = () => fail(`after ${after}, the item ${stringify(item)}`, response, undefined, item.id)
        if (!isStored) observe(this.#updated.has(`${item.id}`) ? 'update' : 'read', show)
      })
    }
    for (const id of [...this.#removed.values()].slice(-maxRemovedRead)) {
      const response = await read(this.client, id)
      // Another client may have got the id.
      const isOfAnother = response.status === 200 && !response.text.includes(this.mark) && /"name"/.test(response.text)
      if (response.status !== 404 && !isOfAnother)
        observe('delete', () => fail('status 404 for a deleted item', response, undefined, id))
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

/** A model with three items, the second and the third alike but for the id, so that operations on neighbours show. */
export async function populate<T extends ModelItem>(
  client: Client,
  profile: Profile<T>,
): Promise<{ model: StoreModel<T>; other: T; target: T; twin: T }> {
  const model = new StoreModel(client, profile)
  const other = await model.create()
  const target = await model.create()
  const twin = await model.create({ ...target, id: model.newItem().id }, (_, expectations) =>
    setUp('twins', expectations),
  )
  return { model, other, target, twin }
}
