import type { Client, Response } from '../../common/client.ts'
import type { Random } from '../../common/random.ts'
import { type Check, long, providing, spec, uniqueText } from '../engine/contract.ts'
import {
  expectEmpty,
  expectExactly,
  expectItems,
  expectObject,
  expectSuccess,
  expectThat,
  isSuccess,
  observe,
  RuleViolation,
  setUp,
} from '../engine/expect.ts'
import { type ModelItem, type ModelOperations, populate, StoreModel } from './model.ts'
import { itemsPath } from './rules.ts'

/** The rules of a profile about its operations. */
interface StoreRules {
  readonly list: string
  readonly create: string
  readonly update: string
  readonly remove: string
  readonly concurrentCreate: string
  readonly unknownMembers: string
}

/**
 * What both profiles state of their operations: after each, the item, the list and every other item are compared with a
 * model of the store. The first three groups are those that others build on.
 */
export function storeChecks<T extends ModelItem>(operations: ModelOperations<T>, rules: StoreRules) {
  const newModel = (client: Client) => new StoreModel(client, operations)
  const changed = (model: StoreModel<T>, isDone: boolean) => operations.changes(`${model.newItem().name}`, isDone)

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
        for (const isDone of [false, true]) await model.create(changed(model, isDone))
        await model.expectStored('two POSTs')
      }),
    ),
  ]

  const deleted: Check[] = [
    providing(
      'delete',
      spec(rules.remove, 'DELETE removes the item and no other', async (client) => {
        const { model, target } = await populate(client, operations)
        const last = await model.create(changed(model, true))
        for (const item of [target, last]) {
          await model.remove(item)
          await model.expectStored(`DELETE of ${item.id}`)
        }
      }),
    ),
    spec(rules.remove, 'DELETE returns 204 without a body', async (client) => {
      const { id } = await newModel(client).create()
      const response = await operations.remove(client, id)
      setUp('delete', () => expectSuccess(response))
      expectEmpty(response, 204)
    }),
  ]

  const updated: Check[] = [
    providing(
      'update',
      spec(rules.update, 'PUT changes the item and no other', async (client) => {
        const { model, target } = await populate(client, operations)
        for (const isDone of [true, false]) {
          await model.update(target, changed(model, isDone))
          await model.expectStored(`PUT of ${target.id}`)
        }
      }),
    ),
    spec(rules.update, 'PUT returns 204 without a body', async (client) => {
      const model = newModel(client)
      const response = await operations.update(client, { ...(await model.create()), ...changed(model, true) })
      setUp('update', () => expectSuccess(response))
      expectEmpty(response, 204)
    }),
  ]

  const further: Check[] = [
    long(
      spec(rules.list, `the list has every one of ${manyItems} items`, (client) =>
        expectAllListed(newModel(client), client),
      ),
    ),
    spec(rules.concurrentCreate, 'concurrent POSTs are all stored, with different ids', async (client) => {
      const model = newModel(client)
      await Promise.all(Array.from({ length: 10 }, () => model.create({}, observe)))
      await model.expectStored('ten concurrent POSTs')
    }),
    spec(rules.update, 'concurrent PUTs change one item each', async (client) => {
      const { model } = await populate(client, operations)
      await Promise.all(model.items.map((item) => model.update(item, changed(model, true))))
      await model.expectStored('three concurrent PUTs')
    }),
    spec(rules.remove, 'exactly one of ten concurrent DELETEs succeeds', async (client) => {
      const { id } = await newModel(client).create()
      await expectSingleSuccess('delete', () => operations.remove(client, id), 404)
    }),
    providing(
      'members',
      spec(rules.list, 'an item has exactly its members, in each response', async (client) => {
        const model = newModel(client)
        for (const isDone of [true, false]) {
          const content = model.newItem(changed(model, isDone))
          const created = await operations.create(client, content)
          const item = model.add(created, content)
          const before = await fetchItem(client, item.id)
          await model.update(item, changed(model, !isDone))
          for (const response of [created, ...before, ...(await fetchItem(client, item.id))])
            for (const value of itemsIn(response, item.id)) expectExactly(response, value, operations.members)
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
        const created = await operations.create(client, content, unknown)
        // Whether unknown members are ignored or refused is a choice (G4).
        const item = isSuccess(created) ? model.add(created, content) : await model.create()
        const put = await operations.update(client, { ...item, ...changed(model, true) }, unknown)
        for (const response of [created, put, ...(await fetchItem(client, item.id))].filter(isSuccess)) {
          const sent = `${response.text} ${Object.values(response.headers)}`
          expectThat(!sent.includes(text), 'no member that was sent', response)
          for (const value of itemsIn(response, item.id))
            observe('members', () => expectExactly(response, value, operations.members))
        }
      },
    ),
    spec(
      rules.list,
      'after each of a generated sequence of operations, the store agrees with a model of it',
      (client, random) => {
        const model = newModel(client)
        return expectGeneratedSequence(model, () => changed(model, random() < 0.5), random)
      },
    ),
  ]

  /** Returns the item as the list shows it, and in profile A as GET by id does. */
  async function fetchItem(client: Client, id: T['id']): Promise<Response[]> {
    const list = await client.send('GET', itemsPath)
    return operations.read ? [list, await operations.read(client, id)] : [list]
  }

  return { listed, deleted, updated, further }
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
async function expectGeneratedSequence<T extends ModelItem>(
  model: StoreModel<T>,
  changed: () => Partial<T>,
  random: Random,
): Promise<void> {
  /** Some of the members. */
  const change = () => {
    const changes = changed()
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

/** One of ten concurrent requests must succeed, and nine must fail. */
export async function expectSingleSuccess(
  prerequisite: string,
  send: () => Promise<Response>,
  failureStatus: number,
): Promise<void> {
  const responses = await Promise.all(Array.from({ length: 10 }, send))
  const statuses = responses.map(({ status }) => status).sort()
  const [success = 0, ...others] = statuses
  const isSingle = success <= 299 && others.every((status) => status === failureStatus)
  observe(prerequisite, () => expectThat(isSingle, `one success and nine times ${failureStatus}, not ${statuses}`))
}
