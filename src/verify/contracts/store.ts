import type { Client, Response } from '../../common/client.ts'
import type { Random } from '../../common/random.ts'
import { type Check, long, providing, spec, uniqueText } from '../engine/contract.ts'
import {
  expectEmpty,
  expectExactly,
  expectItems,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  observe,
  RuleViolation,
  setUp,
} from '../engine/expect.ts'
import { deleteItem, type ModelItem, observeOperation, type Profile, populate, postItem, StoreModel } from './model.ts'
import { itemsPath } from './rules.ts'

/**
 * What both profiles state of their operations: after each, the item, the list and every other item are compared with a
 * model of the store. The first three groups are those that others build on.
 */
export function storeChecks<T extends ModelItem>(profile: Profile<T>) {
  const { rules, createdStatus } = profile
  const newModel = (client: Client) => new StoreModel(client, profile)

  const created: Check[] = [
    providing(
      'list',
      spec(rules.list, 'GET returns 200 with an array of items', async (client) => {
        const response = await client.send('GET', itemsPath)
        expectServed(response)
        expectItems(response)
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
    spec(rules.create, `POST returns ${createdStatus}`, async (client) => {
      const response = await postItem(client, profile, newModel(client).newItem())
      setUp('create', () => expectSuccess(response))
      expectStatus(response, createdStatus)
    }),
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
    spec(rules.remove, 'DELETE returns 204 without a body', async (client) => {
      const { id } = await newModel(client).create()
      const response = await deleteItem(client, id)
      setUp('delete', () => expectSuccess(response))
      expectEmpty(response, 204)
    }),
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
    spec(rules.update, 'PUT returns 204 without a body', async (client) => {
      const model = newModel(client)
      const response = await profile.update(client, { ...(await model.create()), ...model.changes(true) })
      setUp('update', () => expectSuccess(response))
      expectEmpty(response, 204)
    }),
    spec(rules.update, 'PUT may make two items alike but for the id', async (client) => {
      const { model, other, target } = await populate(client, profile)
      await model.update(other, { ...target, id: other.id }, observe)
      await model.expectStored('PUT with the content of another item')
    }),
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
        profile.expectNotFound(response)
      }
    }),
    spec(rules.updateMissing, 'PUT returns 404 when no item has the id, and creates none', async (client) => {
      const { model, unusedIds } = await removeOne(client, profile)
      for (const id of unusedIds)
        profile.expectNotFound(await profile.update(client, model.newItem({ ...model.changes(true), id })))
      await model.expectStored('PUT of ids that no item has')
    }),
    long(
      spec(rules.list, `the list has every one of ${manyItems} items`, (client) =>
        expectAllListed(newModel(client), client),
      ),
    ),
    spec(rules.createAtOnce, 'concurrent POSTs are all stored, with different ids', async (client) => {
      const model = newModel(client)
      await Promise.all(Array.from({ length: 10 }, () => model.create({}, observe)))
      await model.expectStored('ten concurrent POSTs')
    }),
    spec(rules.update, 'concurrent PUTs change one item each', async (client) => {
      const { model } = await populate(client, profile)
      await Promise.all(model.items.map((item) => model.update(item, model.changes(true))))
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
            for (const value of itemsIn(response, item.id)) expectExactly(response, value, profile.members)
        }
      }),
    ),
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
          for (const value of itemsIn(response, item.id))
            observe('members', () => expectExactly(response, value, profile.members))
        }
      },
    ),
    spec(
      rules.list,
      'after each of a generated sequence of operations, the store agrees with a model of it',
      (client, random) => expectGeneratedSequence(newModel(client), random),
    ),
  ]

  /** Returns the item as the list shows it, and in profile A as GET by id does. */
  async function fetchItem(client: Client, id: T['id']): Promise<Response[]> {
    const list = await client.send('GET', itemsPath)
    return profile.read ? [list, await profile.read(client, id)] : [list]
  }

  return { created, listed, changed, further }
}

/** The items with this id in a response that has one item, or a list. */
function itemsIn(response: Response, id: ModelItem['id']): Record<string, unknown>[] {
  if (response.text === '') return []
  const list = response.request.path.endsWith(itemsPath) && response.request.method === 'GET'
  const items = list ? observe('list', () => expectItems(response)) : [observe('read', () => expectObject(response))]
  return items.filter((item) => item.id === id)
}

const manyItems = 105
const concurrentRequests = 5

/** Creates more items than the usual size of a page. */
async function expectAllListed<T extends ModelItem>(model: StoreModel<T>, client: Client): Promise<void> {
  let remaining = manyItems
  const create = async () => {
    while (remaining-- > 0) await model.create()
  }
  await Promise.all(Array.from({ length: concurrentRequests }, create))
  const response = await client.send('GET', itemsPath)
  const ids = new Set(observe('list', () => expectItems(response)).map(({ id }) => id))
  const missing = model.items.filter(({ id }) => !ids.has(id)).length
  const got = `${ids.size} items, ${missing} of them missing`
  observe('listed', () => {
    if (missing > 0) throw new RuleViolation(`all ${manyItems} items of the check in the list`, response, got)
  })
  const compressed = await client.send('GET', itemsPath, undefined, { 'accept-encoding': 'gzip' })
  const isDecodable = compressed.headers['content-encoding'] !== undefined || /^\s*\[/.test(compressed.text)
  expectThat(isDecodable, 'a Content-Encoding, or JSON as it is', compressed)
}

const generatedSteps = 40
const maxGeneratedItems = 6

/** Creates, changes and deletes items in a generated order, and compares the store with a model of it. */
async function expectGeneratedSequence<T extends ModelItem>(model: StoreModel<T>, random: Random): Promise<void> {
  /** Some of the members. */
  const change = () => {
    const changes = model.changes(random() < 0.5)
    for (const name of Object.keys(changes) as (keyof T)[]) if (random() < 0.4) delete changes[name]
    return changes
  }
  for (let step = 1; step <= generatedSteps; step++) {
    const item = model.items[Math.floor(random() * model.items.length)]
    const choice = random()
    let done = 'POST'
    if (!item || (choice < 0.4 && model.items.length < maxGeneratedItems)) {
      await model.create(change())
    } else if (choice < 0.75) {
      await model.update(item, change())
      done = `PUT of ${item.id}`
    } else {
      await model.remove(item)
      done = `DELETE of ${item.id}`
    }
    await model.expectStored(`step ${step} of a generated sequence (${done})`)
  }
}

/** A model of which an item was deleted, and ids that no item has: some that are like another, and the deleted one. */
async function removeOne<T extends ModelItem>(client: Client, profile: Profile<T>) {
  const { model, target } = await populate(client, profile)
  const removed = await model.create()
  await model.remove(removed)
  return { model, unusedIds: [...(await profile.unusedIds(client, target)), removed.id] }
}

/** One of ten concurrent requests must succeed, and nine must fail. Returns the response to the one. */
export async function expectSingleSuccess(send: () => Promise<Response>, failureStatus: number): Promise<Response> {
  const responses = await Promise.all(Array.from({ length: 10 }, send))
  responses.sort((one, other) => one.status - other.status)
  const statuses = responses.map(({ status }) => status)
  const [first, ...others] = responses as [Response, ...Response[]]
  const isSingle = first.status <= 299 && others.every(({ status }) => status === failureStatus)
  observeOperation(first, () => expectThat(isSingle, `one success and nine times ${failureStatus}, not ${statuses}`))
  return first
}
