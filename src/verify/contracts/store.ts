import { setTimeout as delay } from 'node:timers/promises'
import { asSecondCaller, type Client, type Response } from '../../common/client.ts'
import {
  type AtEnd,
  type Check,
  choice,
  long,
  onUntouchedStore,
  type Sequence,
  ServerFull,
  sequence,
  spec,
  uniqueText,
} from '../engine/contract.ts'
import {
  expectEmpty,
  expectExactly,
  expectItems,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  isSuccess,
  stringify,
} from '../engine/expect.ts'
import {
  allOf,
  deleteItem,
  expectList,
  type ModelItem,
  observeOperation,
  type Profile,
  populate,
  postItem,
  StoreModel,
} from './model.ts'
import { itemPath, itemsPath, observe, providing, setUp } from './rules.ts'

/**
 * What both profiles state of their operations: after each, the item, the list and every other item are compared with a
 * model of the store. All but the last group are those that others build on.
 */
export function storeChecks<T extends ModelItem>(profile: Profile<T>) {
  const { rules, createdStatus } = profile
  const newModel = (client: Client) => new StoreModel(client, profile)

  const list = providing(
    'list',
    spec(rules.list, 'GET returns 200 with an array of items', async (client) => {
      const response = await client.send('GET', itemsPath)
      expectServed(response)
      expectList(response)
    }),
  )

  const created: Check[] = [
    onUntouchedStore(
      spec(rules.list, 'the list is an array with one item, and with none', async (client) => {
        const model = newModel(client)
        const before = await client.send('GET', itemsPath)
        observe('list', () => expectItems(before))
        const item = await model.create()
        await model.expectStored('POST')
        await model.remove(item)
        const list = await client.send('GET', itemsPath)
        expectThat(
          list.text.trim() === before.text.trim() || expectItems(list).length > 0,
          'the list from before',
          list,
        )
      }),
    ),
    providing(
      'create',
      spec(rules.create, 'POST creates an item and returns it with its id', async (client) => {
        for (const isDone of [false, true]) {
          const model = newModel(client)
          const content = model.newItem(model.changes(isDone))
          const response = await postItem(client, profile, content)
          expectServed(response)
          model.add(response, content)
        }
      }),
    ),
    providing(
      'POST status',
      spec(rules.create, `POST returns ${createdStatus}`, async (client) => {
        const response = await postItem(client, profile, newModel(client).newItem())
        setUp('create', () => expectSuccess(response))
        expectStatus(response, createdStatus)
      }),
    ),
  ]

  const listed: Check[] = [
    providing(
      'twins',
      spec(rules.create, 'two items may be alike but for the id', async (client) => {
        const model = newModel(client)
        const item = await model.create()
        await model.create({ ...item, id: model.newItem().id }, observe)
      }),
    ),
    providing(
      'listed',
      spec(rules.list, 'the list has each created item, once', async (client) => {
        const model = newModel(client)
        for (const isDone of [false, true]) await model.create(model.changes(isDone))
        await model.expectStored('two POSTs')
      }),
    ),
  ]

  const changed: Check[] = [
    providing(
      'delete',
      spec(rules.remove, 'DELETE removes the item and no other', async (client) => {
        const { model, target } = await populate(client, profile)
        const last = await model.create(model.changes(true))
        for (const item of [target, last]) {
          await model.remove(item)
          await model.expectStored(`DELETE of ${item.id}`)
        }
      }),
    ),
    providing(
      'DELETE status',
      spec(rules.remove, 'DELETE returns 204 without a body', async (client) => {
        for (const body of [undefined, '', {}]) {
          const { id } = await newModel(client).create()
          const response = await client.send('DELETE', itemPath(id), body)
          // Whether a body is allowed is not specified; that of some clients is empty, with a media type.
          if (body && !isSuccess(response)) continue
          setUp('delete', () => expectSuccess(response))
          expectEmpty(response, 204)
        }
      }),
    ),
    providing(
      'update',
      spec(rules.update, 'PUT changes the item and no other', async (client) => {
        const { model, target } = await populate(client, profile)
        for (const isDone of [true, false]) {
          await model.update(target, model.changes(isDone))
          await model.expectStored(`PUT of ${target.id}`)
        }
      }),
    ),
    providing(
      'PUT status',
      spec(rules.update, 'PUT returns 204 without a body', async (client) => {
        const model = newModel(client)
        const response = await profile.update(client, { ...(await model.create()), ...model.changes(true) })
        setUp('update', () => expectSuccess(response))
        expectEmpty(response, 204)
      }),
    ),
    spec(rules.update, 'PUT may make two items alike but for the id', async (client) => {
      const { model, other, target } = await populate(client, profile)
      await model.update(other, { ...target, id: other.id }, observe)
      await model.expectStored('PUT with the content of another item')
    }),
    spec(rules.list, 'items that nobody changes stay as they are', (client) => watch(newModel(client))),
  ]

  const further: Check[] = [
    spec(rules.update, 'PUT stores each member that it changes, alone and together', async (client) => {
      const { model, target } = await populate(client, profile)
      const members = [true, false].flatMap((isDone) => Object.entries(model.changes(isDone)))
      const steps: readonly [what: string, changes: object][] = [
        ...members.map(([member, value]): [string, object] => [`only ${member}`, { [member]: value }]),
        ['nothing', {}],
        ['everything', model.changes(true)],
        ['everything back', target],
        ['the name in another case', { name: `${target.name}`.toUpperCase() }],
      ]
      let item = target
      for (const [what, changes] of steps) {
        item = await model.update(item, changes, observe)
        await model.expectStored(`PUT that changes ${what}`)
      }
    }),
    spec(rules.remove, 'DELETE returns 404 when no item has the id, and removes none', async (client) => {
      const { model, unusedIds } = await removeOne(client, profile)
      for (const id of unusedIds) {
        const response = await deleteItem(client, id)
        await model.expectStored(`DELETE of ${id}, which no item has`)
        profile.expectNotFound(response, id)
      }
    }),
    spec(rules.updateMissing, 'PUT returns 404 when no item has the id, and creates none', async (client) => {
      const { model, unusedIds } = await removeOne(client, profile)
      for (const id of unusedIds)
        profile.expectNotFound(await profile.update(client, model.newItem({ ...model.changes(true), id })), id)
      await model.expectStored('PUT of ids that no item has')
    }),
    long(
      spec(rules.list, `the list has every one of up to ${manyItems} items`, (client) =>
        expectAllListed(newModel(client), client),
      ),
    ),
    spec(rules.remove, 'a PUT beside a DELETE does not bring the item back', (client) =>
      repeatedly(client, profile, putBesideDelete),
    ),
    spec(rules.update, 'of PUTs at once, one is stored, and readers see one of them', (client) =>
      repeatedly(client, profile, putsAtOnce),
    ),
    spec(rules.list, 'a list that is read while items come and go has each of the others once', (client) =>
      repeatedly(client, profile, listBesideChanges),
    ),
    spec(rules.list, 'what has changed is sent, also for an entity tag or a query', (client) =>
      expectCurrent(client, profile),
    ),
    spec(rules.read, 'reads at once get what each of them asks for', async (client) => {
      const model = newModel(client)
      for (let count = 0; count < itemsReadAtOnce; count++) await model.create()
      for (let round = 0; round < rounds; round++)
        await allOf([...Array(4).keys()].map(() => model.expectStored('reads at once', true)))
    }),
    spec(rules.uniqueIds, 'concurrent POSTs are all stored, with different ids', async (client) => {
      const model = newModel(client)
      await allOf(Array.from({ length: 10 }, () => model.create({}, observe)))
      await model.expectStored('ten concurrent POSTs')
    }),
    spec(rules.update, 'concurrent PUTs change one item each', async (client) => {
      const { model } = await populate(client, profile)
      await allOf(model.items.map((item) => model.update(item, model.changes(true))))
      await model.expectStored('three concurrent PUTs')
    }),
    spec(rules.remove, 'exactly one of ten concurrent DELETEs succeeds', async (client) => {
      const { id } = await newModel(client).create()
      await expectSingleSuccess(() => deleteItem(client, id), 404)
    }),
    providing(
      'members',
      spec(rules.list, 'an item has exactly its members, in each response', async (client) => {
        const model = newModel(client)
        for (const isDone of [true, false]) {
          const content = model.newItem(model.changes(isDone))
          const created = await postItem(client, profile, content)
          const item = model.add(created, content)
          const before = await fetchItem(client, item.id)
          await model.update(item, model.changes(!isDone))
          for (const response of [created, ...before, ...(await fetchItem(client, item.id))])
            for (const value of itemsIn(response, item.id))
              for (const name of profile.members) expectThat(Object.hasOwn(value, name), `the member ${name}`, response)
        }
      }),
    ),
    choice(rules.list, 'an item has no other members', async (client) => {
      const item = await newModel(client).create()
      for (const response of await fetchItem(client, item.id))
        for (const value of itemsIn(response, item.id)) expectExactly(response, value, profile.members)
    }),
    spec(
      rules.unknownMembers,
      'what a client sends beyond the members of an item is neither stored nor returned',
      async (client) => {
        const model = newModel(client)
        const text = uniqueText()
        const unknown = { secret: text, Secret: text, colour: text, createdAt: text, isDeleted: true }
        const content = model.newItem()
        const created = await postItem(client, profile, content, unknown)
        // Whether unknown members are ignored or refused is a choice (G4).
        const item = isSuccess(created) ? model.add(created, content) : await model.create()
        const put = await profile.update(client, { ...item, ...model.changes(true) }, unknown)
        for (const response of [created, put, ...(await fetchItem(client, item.id))].filter(isSuccess)) {
          const sent = `${response.text} ${Object.values(response.headers)}`
          expectThat(!sent.includes(text), 'no member that was sent', response)
        }
      },
    ),
    sequence(
      rules.list,
      'after each of a generated sequence of operations, the store agrees with a model of it',
      generatedSequence(newModel),
    ),
  ]

  /** Returns the item as the list shows it, and in profile A as GET by id does. */
  async function fetchItem(client: Client, id: T['id']): Promise<Response[]> {
    const list = await client.send('GET', itemsPath)
    return profile.read ? [list, await profile.read(client, id)] : [list]
  }

  return { list, created, listed, changed, further }
}

/** The items with this id in a response that has one item, or a list. */
function itemsIn(response: Response, id: ModelItem['id']): Record<string, unknown>[] {
  if (response.text === '') return []
  const list = response.request.path.endsWith(itemsPath) && response.request.method === 'GET'
  const items = list ? observe('list', () => expectList(response)) : [observe('read', () => expectObject(response))]
  return items.filter((item) => item.id === id)
}

/** Some that were created, changed and deleted are looked at again at the end of the run. */
async function watch<T extends ModelItem>(model: StoreModel<T>): Promise<AtEnd> {
  const [changed, removed] = [await model.create(), await model.create(), await model.create(model.changes(true))]
  if (changed) await model.update(changed, model.changes(true))
  if (removed) await model.remove(removed)
  await model.expectStored('POST, PUT and DELETE')
  const startedAt = performance.now()
  const secondsPassed = () => Math.round((performance.now() - startedAt) / 1000)
  return async (watchMs) => {
    await delay(Math.max(0, watchMs - (performance.now() - startedAt)))
    await model.expectStored(`nothing for ${secondsPassed()} seconds`)
    return undefined
  }
}

const manyItems = 1_200
const concurrentRequests = 8
const maxCreatingMs = 2_500

/** Creates more items than a page, a cache or a table of a demonstration has, as far as the server is fast enough. */
async function expectAllListed<T extends ModelItem>(model: StoreModel<T>, client: Client): Promise<string | undefined> {
  await createMany(model, manyItems)
  const { length } = model.items
  await model.expectStored(`${length} POSTs`)
  const [oldest, second] = model.items
  if (oldest && second) {
    await model.update(oldest, model.changes(true), observe)
    await model.remove(second, observe)
  }
  await model.expectStored(`${length} POSTs, and changes of the oldest items`)
  model.client = {
    ...client,
    send: (method, path, body, headers, caller) =>
      client.send(method, path, body, { connection: 'close', ...headers }, caller),
  }
  await model.expectStored(`${length} POSTs, with Connection: close`)
  model.client = client
  return length < manyItems
    ? `with ${length} of ${manyItems} items: more would have taken too long, or had no room`
    : undefined
}

/** As many items as the server has room for, and is fast enough. */
async function createMany<T extends ModelItem>(model: StoreModel<T>, count: number): Promise<void> {
  const deadline = performance.now() + maxCreatingMs
  let remaining = count
  const create = async () => {
    while (remaining-- > 0 && performance.now() < deadline)
      await model.create().catch((cause: unknown) => {
        if (!(cause instanceof ServerFull) || model.items.length < minItems) throw cause
        remaining = 0
      })
  }
  await allOf(Array.from({ length: concurrentRequests }, create))
}

const minItems = 4
const rounds = 8
const itemsReadAtOnce = 6

/** Sends requests that overlap; the delays, in milliseconds, say when each is sent. */
type Round = <T extends ModelItem>(
  model: StoreModel<T>,
  profile: Profile<T>,
  delays: readonly number[],
) => Promise<void>

/** Overlaps requests in one way after the other: at once, and one some milliseconds after the other. */
async function repeatedly<T extends ModelItem>(client: Client, profile: Profile<T>, overlap: Round): Promise<void> {
  const model = new StoreModel(client, profile)
  await model.create()
  for (let round = 0; round < rounds; round++) {
    await overlap(model, profile, [0, round % 4, round >> 1])
    await model.expectStored(`requests that overlapped (round ${round + 1})`)
  }
}

const after = async <Result>(milliseconds = 0, request: () => Promise<Result>): Promise<Result> => {
  if (milliseconds > 0) await delay(milliseconds)
  return request()
}

/** In each order the item is gone: a PUT comes before the DELETE, or finds no item. */
const putBesideDelete: Round = async (model, profile, [none, short, long]) => {
  const item = await model.create()
  const put = () => profile.update(model.client, { ...item, ...model.changes(true) })
  const [removed, ...updated] = await allOf([
    after(short, () => deleteItem(asSecondCaller(model.client), item.id)),
    after(none, put),
    after(long, put),
  ])
  observeOperation(removed, expectSuccess)
  for (const response of updated) {
    const isPossible = isSuccess(response) || response.status === 404
    observe('update', () => expectThat(isPossible, 'a success status (2xx) or 404', response))
  }
  model.recordRemoved(item.id)
}

const putsAtOnce: Round = async (model, profile, [none, short, long]) => {
  const item = await model.create()
  const versions = [item, { ...item, ...model.changes(true) }, { ...item, ...model.changes(false) }]
  const put = (index: number) => profile.update(model.client, versions[index] ?? item)
  const read = async () => {
    const response = await model.client.send('GET', itemsPath)
    const entry = observe('list', () => expectList(response)).find(({ id }) => id === item.id)
    const stored = versions.find((version) => entry && hasMembers(entry, version))
    const expected = `${versions.map(stringify).join(' or ')} in the list`
    observe('update', () => expectThat(stored !== undefined, expected, response))
    return stored
  }
  const [first, second] = await allOf([
    after(none, () => put(1)),
    after(short, () => put(2)),
    after(long, read),
    after(short, read),
  ])
  for (const response of [first, second]) observeOperation(response, expectSuccess)
  const stored = await read()
  observe('update', () => expectThat(stored !== item, 'one of two PUTs to be stored'))
  model.set(stored ?? item)
}

/** More than a page, should the list be read so. */
const itemsBesideChanges = 110

const listBesideChanges: Round = async (model, profile, [none, short, long]) => {
  if (model.items.length < minItems) {
    await createMany(model, itemsBesideChanges)
    for (const item of model.items.slice(-1)) await model.remove(item)
  }
  const [oldest, second] = model.items.map(({ id }) => ({ id, name: '' })) as [ModelItem, ModelItem]
  const stays = model.items.slice(2)
  const expectWhole = async () => {
    const response = await asSecondCaller(model.client).send('GET', itemsPath)
    const listed = observe('list', () => expectList(response))
    const timesOf = (item: ModelItem) => listed.filter(({ id }) => id === item.id).length
    const wrong = stays.find((item) => timesOf(item) !== 1) ?? [oldest, second].find((item) => timesOf(item) > 1)
    observe('listed', () => expectThat(wrong === undefined, `each item in the list, once, also ${wrong?.id}`, response))
  }
  const comes = model.newItem()
  const changes = [
    after(short, () => postItem(model.client, profile, comes)),
    after(none, () => deleteItem(model.client, oldest.id)),
    after(long, () => deleteItem(model.client, second.id)),
  ] as const
  await allOf([...changes, ...[none, short, long].map((milliseconds) => after(milliseconds, expectWhole))])
  const [created, ...removed] = await Promise.all(changes)
  for (const response of removed) observeOperation(response, expectSuccess)
  for (const { id } of [oldest, second]) model.recordRemoved(id)
  // A server may give it the id of one that has gone (choice, A4).
  model.add(created, comes)
}

/** What was sent for an entity tag, or with a query, is the current state. */
async function expectCurrent<T extends ModelItem>(client: Client, profile: Profile<T>): Promise<void> {
  const { model, target, twin } = await populate(client, profile)
  const resources = [() => itemsPath, ...(profile.read ? [(): string => itemPath(target.id)] : [])]
  const changes = [
    ...Object.entries(model.changes(true)).map(
      ([member, value]) =>
        () =>
          model.update(target, { [member]: value } as Partial<T>),
    ),
    () => model.remove(twin),
    () => model.create(),
  ]
  for (const change of changes) {
    const before = await allOf(resources.map((path) => client.send('GET', path())))
    await allOf(resources.map((path) => client.send('GET', `${path()}?verify=1`)))
    await change()
    for (const { headers, text, request } of before) {
      const { etag, 'last-modified': modified } = headers
      const path = request.path.endsWith(itemsPath) ? itemsPath : itemPath(target.id)
      const conditions = [etag && { 'if-none-match': etag }, modified && { 'if-modified-since': modified }]
      for (const condition of conditions.filter((one) => one !== undefined)) {
        const now = await client.send('GET', path, undefined, condition || {})
        const current = await client.send('GET', path)
        const isStale = now.status === 304 && current.text !== text
        observe('update', () => expectThat(!isStale, 'what has changed, and no 304', now))
      }
    }
    const byQuery: Client = {
      ...client,
      send: (method, path, ...rest) => client.send(method, method === 'GET' ? `${path}?verify=1` : path, ...rest),
    }
    // Queries are not specified: a server may refuse them, but not find another item, or none.
    const { status } = await byQuery.send('GET', itemsPath)
    if (status >= 400 && status !== 404) continue
    model.client = byQuery
    await model.expectStored('a change, with a query')
    model.client = client
  }
}

const generatedSteps = 40
const maxGeneratedItems = 6

interface Step {
  readonly operation: 'create' | 'update' | 'remove'
  /** The number of the step that creates the item. */
  readonly item: number
  readonly isDone: boolean
  /** Whether the members are changed, in their order. */
  readonly areChanged: readonly boolean[]
  readonly isBySecond: boolean
}

/** Creates, changes and deletes items in a generated order, and compares the store with a model of it. */
const generatedSequence = <T extends ModelItem>(newModel: (client: Client) => StoreModel<T>): Sequence<Step> => ({
  generate(random) {
    const isLikely = (probability: number) => random() < probability
    const items: number[] = []
    return Array.from({ length: generatedSteps }, (_, step) => {
      const isCreating = items.length === 0 || (items.length < maxGeneratedItems && isLikely(0.4))
      const operation = isCreating ? 'create' : isLikely(0.6) ? 'update' : 'remove'
      const index = Math.floor(random() * items.length)
      const item = isCreating ? step : (items[index] as number)
      if (isCreating) items.push(step)
      if (operation === 'remove') items.splice(index, 1)
      const areChanged = [isLikely(0.6), isLikely(0.6), isLikely(0.6)]
      return { operation, item, isDone: isLikely(0.5), areChanged, isBySecond: isLikely(0.3) }
    })
  },
  async take(client, steps) {
    const model = newModel(client)
    const items = new Map<number, T>()
    for (const { operation, item: number, isDone, areChanged, isBySecond } of steps) {
      const item = items.get(number)
      // Its creation was left out.
      if (!item && operation !== 'create') continue
      model.client = isBySecond ? asSecondCaller(client) : client
      const changes = Object.entries(model.changes(isDone)).filter((_, index) => areChanged[index])
      const content = Object.fromEntries(changes) as Partial<T>
      let done = 'POST'
      if (!item) items.set(number, await model.create(content))
      else if (operation === 'update') {
        items.set(number, await model.update(item, content))
        done = `PUT of ${item.id}`
      } else {
        await model.remove(item)
        done = `DELETE of ${item.id}`
      }
      model.client = client
      await model.expectStored(`a generated sequence (${done})`)
    }
  },
})

/** A model of which an item was deleted, and ids that no item has: some that are like another, and the deleted one. */
async function removeOne<T extends ModelItem>(client: Client, profile: Profile<T>) {
  const { model, target } = await populate(client, profile)
  const removed = await model.create()
  await model.remove(removed)
  return { model, unusedIds: [...(await profile.unusedIds(client, target)), removed.id] }
}

/** One of ten concurrent requests must succeed, and nine must fail. Returns the response to the one. */
export async function expectSingleSuccess(send: () => Promise<Response>, failureStatus: number): Promise<Response> {
  const responses = await allOf(Array.from({ length: 10 }, send))
  responses.sort((one, other) => one.status - other.status)
  const statuses = responses.map(({ status }) => status)
  const [first, ...others] = responses as [Response, ...Response[]]
  const isSingle = first.status <= 299 && others.every(({ status }) => status === failureStatus)
  observeOperation(first, () => expectThat(isSingle, `one success and nine times ${failureStatus}, not ${statuses}`))
  return first
}
