import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { asSecondCaller, type Client, type Response } from '../engine/client.ts'
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
} from '../engine/contract.ts'
import {
  expectExactly,
  expectItems,
  expectObject,
  expectRoom,
  expectServed,
  expectSuccess,
  expectThat,
  hasMembers,
  isSuccess,
} from '../engine/expect.ts'
import { tryParseExact } from '../engine/json.ts'
import { uniqueText } from '../engine/state.ts'
import {
  allOf,
  deleteItem,
  expectList,
  type ModelItem,
  observeOperation,
  observeOperations,
  type Profile,
  populate,
  postItem,
  refusal,
  rewriting,
  StoreModel,
  withValue,
} from './model.ts'
import { itemPath, itemsPath, observe, providing } from './rules.ts'

/**
 * What both profiles state of their operations: after each, the item, the list and every other item are compared with a
 * model of the store. All but the last group are those that others build on.
 */
export function storeChecks<T extends ModelItem>(profile: Profile<T>) {
  const { rules } = profile
  const newModel = (client: Client) => new StoreModel(client, profile)

  /** The requests that name an item by its id. */
  type Send = (client: Client, id: T['id']) => Promise<Response>
  const putMissing: Send = (client, id) => profile.update(client, { ...profile.newItem(uniqueText()), id })
  const missing: readonly (readonly [method: string, rule: string, send: Send])[] = [
    ...(profile.read ? [['GET', rules.read, profile.read] as const] : []),
    ['PUT', rules.updateMissing, putMissing],
    ['DELETE', rules.remove, deleteItem],
  ]

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
        const { model, target, twin } = await populate(client, profile)
        const last = await model.create(model.changes(true))
        for (const item of [target, last]) {
          await model.remove(item)
          await model.expectStored(`DELETE of ${item.id}`)
        }
        // Whether a body is allowed is not specified; that of some clients is empty, with a media type.
        expectSuccess(await client.send('DELETE', itemPath(twin.id), ''))
        model.recordRemoved(twin.id)
        const { id } = await model.create()
        if (isSuccess(await client.send('DELETE', itemPath(id), {}))) model.recordRemoved(id)
        await model.expectStored('DELETE with a body')
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
    spec(rules.list, 'items that nobody changes stay as they are', (client) => watch(newModel(client))),
  ]

  const further: Check[] = [
    spec(rules.update, 'PUT stores each member that it changes, alone and together', async (client) => {
      const { model, other, target } = await populate(client, profile)
      const members = [true, false].flatMap((isDone) => Object.entries(model.changes(isDone)))
      const steps: readonly [what: string, changes: object][] = [
        ...members.map(([member, value]): [string, object] => [`only ${member}`, { [member]: value }]),
        ['nothing', {}],
        ['everything', model.changes(true)],
        ['everything back', target],
        ['the name in another case', { name: `${target.name}`.toUpperCase() }],
        ['all to that of another item', { ...other, id: target.id }],
      ]
      let item = target
      for (const [what, changes] of steps) {
        item = await model.update(item, changes, observe)
        await model.expectStored(`PUT that changes ${what}`)
      }
    }),
    ...missing.map(([method, rule, send]) =>
      spec(rule, `${method} returns 404 when no item has the id, and changes nothing`, async (client) => {
        const { model, target } = await populate(client, profile)
        const removed = await model.create()
        // A server may keep responses.
        await model.expectStored('four POSTs')
        await model.remove(removed)
        for (const id of [...(await profile.unusedIds(client, target)), removed.id])
          profile.expectNotFound(await send(client, id), id)
        await model.expectStored(`${method} of ids that no item has`)
      }),
    ),
    long(
      spec(rules.list, `the list has every one of up to ${manyItems} items`, (client) =>
        expectAllListed(newModel(client), client),
      ),
    ),
    spec(rules.remove, 'DELETEs and PUTs of an item at once have the effect of one order of them', (client) =>
      expectSomeOrder(client, profile, ({ put, remove }) => [put, remove, put, remove, remove]),
    ),
    spec(rules.update, 'PUTs and reads of an item at once have the effect of one order of them', (client) =>
      expectSomeOrder(client, profile, ({ put, read }) => [put, put, read, read, read]),
    ),
    spec(rules.list, 'a list that is read while items come and go has each of the others once', (client) =>
      expectWholeList(client, profile),
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
    spec(rules.uniqueIds, 'requests for different items at once are all carried out', async (client) => {
      const model = newModel(client)
      await allOf(Array.from({ length: 10 }, () => model.create({}, observe)))
      await model.expectStored('ten POSTs at once')
      await allOf(model.items.map((item) => model.update(item, model.changes(true))))
      await model.expectStored('ten PUTs at once')
    }),
    choice(rules.list, 'an item has no other members', async (client) => {
      const item = await newModel(client).create()
      for (const response of await fetchItem(client, item.id))
        for (const value of itemsIn(response, item.id)) expectExactly(response, value, profile.members)
    }),
    spec(
      rules.unknownMembers,
      'what is sent beyond the members of an item is neither stored, copied nor returned',
      async (client) => {
        const model = newModel(client)
        const target = await model.create()
        for (const toValue of [String, Number, (digits: string) => ({ digits })])
          for (const members of [{}, { name: null }] as Partial<T>[]) {
            const sent = `${randomInt(10 ** 12, 10 ** 13)}`
            const [secret, isDeleted] = [toValue(sent), true]
            const unknown = { secret, Secret: secret, colour: secret, createdAt: secret, isDeleted }
            const [content, changed] = [model.newItem(members), { ...target, ...model.changes(true), ...members }]
            // Whether unknown members are ignored or refused is a choice (G4).
            const created = await postItem(client, profile, content, unknown)
            if (isSuccess(created)) model.add(created, content)
            const updated = await profile.update(client, changed, unknown)
            if (isSuccess(updated)) model.set(changed)
            // What an error contains is judged by what holds for every response.
            const refusing = rewriting(client, { body: withValue(profile.requiredMember, undefined) })
            await postItem(refusing, profile, content, unknown)
            await profile.update(refusing, changed, unknown)
            await client.send('POST', itemsPath, `{"secret":"${sent}","done":tru}`)
            for (const response of [created, updated, ...(await fetchItem(client, target.id))].filter(isSuccess)) {
              const returned = `${response.text} ${Object.values(response.headers)}`
              expectThat(!returned.includes(sent), 'no member that was sent', response)
            }
          }
        await model.expectStored('POST and PUT with other members')
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
  const changes = model.changes(true)
  await model.create(changes)
  const flagAlone = Object.fromEntries(Object.entries(changes).filter(([, value]) => value === true)) as Partial<T>
  // What is written late, in another order or only to a cache shows later.
  const createChanged = async () => model.update(await model.create(), model.changes(false))
  await model.update(await createChanged(), flagAlone)
  await model.remove(await createChanged())
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
  model.client = rewriting(client, { headers: { connection: 'close' } })
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

const after = async <Result>(milliseconds = 0, request: () => Promise<Result>): Promise<Result> => {
  if (milliseconds > 0) await delay(milliseconds)
  return request()
}

/** What a request with this response has done to an item; `impossible`: it would have got another response. */
type EffectOf<T> = (response: Response, content: T) => (stored: T | undefined) => T | undefined | typeof impossible
const impossible = Symbol('impossible')

/** A request for an item. */
interface Act<T> {
  readonly send: (client: Client, content: T) => Promise<Response>
  readonly step: EffectOf<T>
}

const actsOn = <T extends ModelItem>(profile: Profile<T>) => ({
  post: {
    send: (client: Client, item: T) => postItem(client, profile, item),
    step: (response: Response, item: T) => (stored: T | undefined) =>
      isSuccess(response) === (stored === undefined) ? (stored ?? item) : impossible,
  },
  put: {
    send: (client: Client, item: T) => profile.update(client, item),
    step: (response: Response, item: T) => (stored: T | undefined) =>
      isSuccess(response) === (stored !== undefined) ? stored && item : impossible,
  },
  remove: {
    send: (client: Client, { id }: T) => deleteItem(client, id),
    step: (response: Response) => (stored: T | undefined) =>
      isSuccess(response) === (stored !== undefined) ? undefined : impossible,
  },
  read: {
    send: (client: Client, _: T) => client.send('GET', itemsPath),
    step: (response: Response, { id }: T) => {
      const entry = observe('list', () => expectList(response)).find((one) => one.id === id)
      return (stored: T | undefined) =>
        (entry && stored ? hasMembers(entry, stored) : entry === stored) ? stored : impossible
    },
  },
})
type Acts<T extends ModelItem> = ReturnType<typeof actsOn<T>>

/** What is stored after each order of the requests in which they may get these responses. */
function storedByOrders<T>(stored: T | undefined, steps: readonly ReturnType<EffectOf<T>>[]): (T | undefined)[] {
  if (steps.length === 0) return [stored]
  const possible = steps.filter((step) => step(stored) !== impossible)
  // What changes nothing may as well come first.
  const idle = possible.find((step) => step(stored) === stored)
  return (idle ? [idle] : possible).flatMap((first) =>
    storedByOrders(
      first(stored) as T | undefined,
      steps.filter((step) => step !== first),
    ),
  )
}

/**
 * Requests for one item that overlap, at once and one some milliseconds after the other: their responses, and what is
 * stored, are those of some order of them. `isNew`: no item has the id before.
 */
export async function expectSomeOrder<T extends ModelItem>(
  client: Client,
  profile: Profile<T>,
  choose: (acts: Acts<T>) => readonly Act<T>[],
  isNew = false,
): Promise<void> {
  const model = new StoreModel(client, profile)
  await model.create()
  const acts = actsOn(profile)
  const chosen = choose(acts)
  const mayBeMissing = isNew || chosen.includes(acts.remove)
  const errors = [...(mayBeMissing ? [404] : []), ...(chosen.includes(acts.post) ? [409] : [])]
  for (let round = 0; round < rounds; round++) {
    const item = isNew ? model.newItem() : await model.create()
    const delays = [0, round % 4, round >> 1]
    const taken = await allOf(
      chosen.map(async (act, index) => {
        const content: T = { ...item, ...model.changes(index % 2 === 0) }
        const caller = index % 2 === 0 ? client : asSecondCaller(client)
        return { act, content, response: await after(delays[index % 3], () => act.send(caller, content)) }
      }),
    )
    for (const { act, response } of taken) {
      if (act === acts.post) expectRoom(response, refusal)
      if (!errors.includes(response.status)) observeOperation(response, expectSuccess)
    }
    const steps = taken.map(({ act, content, response }) => act.step(response, content))
    const last = await acts.read.send(client, item)
    const isStored = acts.read.step(last, item)
    const possible = storedByOrders(isNew ? undefined : item, steps).filter((stored) => isStored(stored) !== impossible)
    const responses = taken.map(({ response }) => response)
    const statuses = responses.map(({ request, status }) => `${request.method} ${status}`)
    const expected = `an item as after some order of ${statuses.join(', ')}`
    observeOperations([...responses, last], () => expectThat(possible.length > 0, expected, last))
    const [stored] = possible
    if (stored) model.set(stored)
    else model.recordRemoved(item.id)
    await model.expectStored(`requests that overlapped (round ${round + 1})`)
    if (stored) await model.remove(stored)
  }
}

/** More than a page, should the list be read so. */
const itemsBesideChanges = 110

async function expectWholeList<T extends ModelItem>(client: Client, profile: Profile<T>): Promise<void> {
  const model = new StoreModel(client, profile)
  for (let round = 0; round < rounds; round++) {
    if (model.items.length < minItems) await createMany(model, itemsBesideChanges)
    if (round === 0) for (const item of model.items.slice(-1)) await model.remove(item)
    const startedAt = performance.now()
    await client.send('GET', itemsPath)
    const fourth = Math.max(1, (performance.now() - startedAt) / 4)
    await listBesideChanges(model, profile, [0, (round % 4) * fourth, (round >> 1) * fourth])
    await model.expectStored(`requests that overlapped (round ${round + 1})`)
  }
}

async function listBesideChanges<T extends ModelItem>(
  model: StoreModel<T>,
  profile: Profile<T>,
  [none, short, long]: readonly number[],
): Promise<void> {
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
  // What is made with a query is judged by what holds for every POST.
  await client.send('POST', `${itemsPath}?verify=1`, profile.body(profile.newItem(uniqueText())))
  const resources = [itemsPath, ...(profile.read ? [itemPath(target.id)] : [])]
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
    const before = await allOf(resources.map((path) => client.send('GET', path)))
    await allOf(resources.map((path) => client.send('GET', `${path}?verify=1`)))
    await change()
    for (const [index, path] of resources.entries()) {
      await client.send('HEAD', path)
      const part = await client.send('GET', path, undefined, { range: 'bytes=0-3' })
      const isWhole = part.status !== 200 || tryParseExact(part.text) !== undefined
      observeOperation(part, () => expectThat(isWhole, 'all of it, or the status 206', part))
      const { etag, 'last-modified': modified } = before[index]?.headers ?? {}
      for (const condition of [{ 'if-none-match': etag }, { 'if-modified-since': modified }]) {
        if (Object.values(condition)[0] === undefined) continue
        const now = await client.send('GET', path, undefined, condition)
        const current = await client.send('GET', path)
        const isStale = now.status === 304 && current.text !== before[index]?.text
        observe('update', () => expectThat(!isStale, 'what has changed, and no 304', now))
      }
    }
    const ofOther = `?id=${encodeURIComponent(`${twin.id}`)}`
    const byQuery = rewriting(client, { path: (path) => `${path}${path === itemsPath ? '?verify=1' : ofOther}` })
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
