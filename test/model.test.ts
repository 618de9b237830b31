import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { transports } from './support/running.ts'
import { stores } from './support/stores.ts'
import { storableText } from './support/text.ts'

/** A request in the parts that the models interpret. */
interface ModelRequest {
  readonly method: string
  readonly path: string
  /** The last path segment, percent-encoded as it is sent. */
  readonly segment: string | undefined
  readonly type: string | undefined
  /** Member names and their values as JSON, or text that is no JSON object. */
  readonly body: readonly (readonly [string, string])[] | string
}

interface Expected {
  readonly status: number
  /** Compared if present: text as it is, anything else as JSON. */
  readonly body?: unknown
}

/** The contract, implemented independently of the service. */
interface Model {
  expect(request: ModelRequest): Expected
}

const hasBody = ({ method }: ModelRequest) => method === 'POST' || method === 'PUT'
const textOf = ({ body }: ModelRequest) =>
  typeof body === 'string' ? body : `{${body.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
const isJson = ({ type = '' }: ModelRequest) => ['application/json', 'text/JSON; charset=UTF-8'].includes(type)

/** The last of two equal names wins. Values stay JSON text, so that no digit of an id is lost. */
const membersOf = ({ body }: ModelRequest) => (typeof body === 'string' ? undefined : new Map(body))
const isString = (value: string | undefined) => value?.startsWith('"') ?? false
const isBoolean = (value: string | undefined) => value === 'true' || value === 'false'
const isWellFormed = (value: string | undefined) => value === undefined || JSON.parse(value)?.isWellFormed?.() !== false
const isBlank = (value: string | undefined) => !isString(value) || JSON.parse(value as string).trim() === ''

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

class ModelA implements Model {
  #items: { id: string; name: string | null; isComplete: boolean }[] = []
  #lastId = 0

  #toJson = ({ id, ...rest }: { id: string }) => ({ id: Number(id), ...rest })

  expect(request: ModelRequest): Expected {
    const { method, segment } = request
    if (segment === undefined) {
      if (method === 'GET') return { status: 200, body: this.#items.map(this.#toJson) }
      return method === 'POST' ? this.#create(request) : { status: 405 }
    }
    if (!['GET', 'PUT', 'DELETE'].includes(method)) return { status: 405 }
    const id = decode(segment)
    const isInt64 = id !== undefined && /^(0|-?[1-9]\d*)$/.test(id) && BigInt.asIntN(64, BigInt(id)) === BigInt(id)
    if (!isInt64) return { status: 400 }
    const error = method === 'PUT' ? this.#findBodyError(request) : undefined
    if (error) return error
    if (method === 'PUT' && membersOf(request)?.get('id') !== id) return { status: 400 }
    const index = this.#items.findIndex((item) => item.id === id)
    const item = this.#items[index]
    if (!item) return { status: 404 }
    if (method === 'GET') return { status: 200, body: this.#toJson(item) }
    if (method === 'DELETE') this.#items.splice(index, 1)
    else this.#items[index] = { id, ...this.#members(request) }
    return { status: 204, body: '' }
  }

  #create(request: ModelRequest): Expected {
    const error = this.#findBodyError(request)
    if (error) return error
    const item = { id: `${++this.#lastId}`, ...this.#members(request) }
    this.#items.push(item)
    return { status: 201, body: this.#toJson(item) }
  }

  #findBodyError(request: ModelRequest): Expected | undefined {
    if (!isJson(request)) return { status: 415 }
    const members = membersOf(request)
    const name = members?.get('name') ?? 'null'
    const isValid = isBoolean(members?.get('isComplete')) && (name === 'null' || (isString(name) && isWellFormed(name)))
    return isValid ? undefined : { status: 400 }
  }

  #members(request: ModelRequest) {
    const members = membersOf(request)
    return {
      name: JSON.parse(members?.get('name') ?? 'null') as string | null,
      isComplete: members?.get('isComplete') === 'true',
    }
  }
}

class ModelB implements Model {
  #items: { id: string; name: string; notes: string; done: boolean }[] = []

  expect(request: ModelRequest): Expected {
    const { method, segment } = request
    if (segment !== undefined) return method === 'DELETE' ? this.#delete(decode(segment)) : { status: 405 }
    if (method === 'GET') return { status: 200, body: this.#items }
    if (method !== 'POST' && method !== 'PUT') return { status: 405 }
    const members = membersOf(request)
    const [id, name, notes] = [members?.get('id'), members?.get('name'), members?.get('notes')]
    const done = members?.get('done') ?? 'false'
    if (!isJson(request) || isBlank(id) || isBlank(name) || isBlank(notes) || !isBoolean(done))
      return { status: 400, body: 'TodoItemNameAndNotesRequired' }
    if (![id, name, notes].every(isWellFormed))
      return { status: 400, body: method === 'POST' ? 'CouldNotCreateItem' : 'CouldNotUpdateItem' }
    const [idText, nameText, notesText] = [id, name, notes].map((value) => JSON.parse(value as string))
    return this.#write(method, { id: idText, name: nameText, notes: notesText, done: done === 'true' })
  }

  #write(method: 'POST' | 'PUT', item: { id: string; name: string; notes: string; done: boolean }): Expected {
    const index = this.#items.findIndex(({ id }) => id === item.id)
    if (method === 'POST') {
      if (index >= 0) return { status: 409, body: 'TodoItemIDInUse' }
      this.#items.push(item)
      return { status: 200, body: item }
    }
    if (index < 0) return { status: 404, body: 'RecordNotFound' }
    this.#items[index] = item
    return { status: 204, body: '' }
  }

  #delete(id: string | undefined): Expected {
    const index = this.#items.findIndex((item) => item.id === id)
    if (index < 0) return { status: 404, body: 'RecordNotFound' }
    this.#items.splice(index, 1)
    return { status: 204, body: '' }
  }
}

const mostly = <T>(usual: fc.Arbitrary<T>, ...rare: T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: fc.constantFrom(...rare) })

const string = mostly(
  storableText(12).map((value) => JSON.stringify(value)),
  '""',
  '"  "',
  '"\\ud800"',
  '"\\u00e9\\n\\""',
  '"<b>\'; drop table items"',
  '"__proto__"',
)
const boolean = fc.constantFrom('true', 'false')
const any = fc.oneof(string, boolean, fc.constantFrom('null', '0', '-1.5e3', '[]', '{"a":[1,{}]}'))
const notObjects = ['', 'null', '[]', '"x"', '{', '{"isComplete":true', "{'id':'x'}", '{"id":"x",}', '\0', '{}{}']
const path = fc.constantFrom('/api/todoitems', '/api/todoitems/', '/API/ToDoItems', '/api/%74odoitems')
const type = mostly<string | undefined>(
  fc.constantFrom('application/json', 'text/JSON; charset=UTF-8'),
  'text/plain',
  'application/json; charset=latin1',
  undefined,
)

/** All members; or some of them in any order, one of them twice; or all of them and any member with any value. */
function bodyOf(members: Readonly<Record<string, fc.Arbitrary<string>>>): fc.Arbitrary<ModelRequest['body']> {
  const good = Object.entries(members).map(([name, value]) => fc.tuple(fc.constant(name), value))
  const anyMember = fc.tuple(fc.constantFrom(...Object.keys(members), 'secret', '__proto__', 'NAME'), any)
  const some = fc.shuffledSubarray(good, { minLength: 1 }).chain((chosen) => fc.tuple(...chosen, ...chosen.slice(0, 1)))
  const usual = fc.oneof(
    { weight: 8, arbitrary: fc.tuple(...good) },
    { weight: 1, arbitrary: some },
    { weight: 1, arbitrary: fc.tuple(...good, anyMember) },
  )
  return mostly<ModelRequest['body']>(usual, ...notObjects)
}

type Resource = 'list' | 'item'
interface Generator {
  /** Methods with their resources. */
  readonly targets: readonly [string, Resource][]
  readonly segment: fc.Arbitrary<string>
  readonly body: fc.Arbitrary<ModelRequest['body']>
}

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']
const requestsTo = ({ targets, segment, body }: Generator): fc.Arbitrary<ModelRequest> =>
  fc
    .record({
      target: mostly(
        fc.constantFrom(...targets),
        ...methods.flatMap(
          (method) =>
            [
              [method, 'list'],
              [method, 'item'],
            ] as [string, Resource][],
        ),
      ),
      path,
      segment,
      type,
      body,
    })
    .map(({ target: [method, resource], path, segment, ...rest }) => ({
      ...rest,
      method,
      path: resource === 'item' ? '/api/todoitems' : path,
      segment: resource === 'item' ? segment : undefined,
    }))

/** Few enough that requests address the same items. */
const numbers = fc.constantFrom('1', '2', '3')
const names = ['x', 'X', 'é', 'e\u0301', 'a/b', '%41']

const profiles = {
  a: {
    newModel: () => new ModelA(),
    request: requestsTo({
      targets: [
        ['GET', 'list'],
        ['POST', 'list'],
        ['POST', 'list'],
        ['GET', 'item'],
        ['PUT', 'item'],
        ['PUT', 'item'],
        ['DELETE', 'item'],
      ],
      segment: mostly(
        numbers,
        '%31',
        '9007199254740992',
        '0',
        '-1',
        '01',
        '+1',
        '1.5',
        'abc',
        '%zz',
        '%ff',
        '9223372036854775808',
        '1%2F2',
      ),
      body: bodyOf({
        id: mostly(numbers, '9007199254740993', '9007199254740992'),
        name: fc.oneof(string, fc.constant('null')),
        isComplete: boolean,
      }),
    }),
  },
  b: {
    newModel: () => new ModelB(),
    request: requestsTo({
      targets: [
        ['GET', 'list'],
        ['POST', 'list'],
        ['POST', 'list'],
        ['PUT', 'list'],
        ['PUT', 'list'],
        ['DELETE', 'item'],
      ],
      segment: mostly(fc.constantFrom(...names.map(encodeURIComponent)), '%78', '%', '%ff', 'none', 'x%00'),
      body: bodyOf({
        id: fc.constantFrom(...names.map((name) => JSON.stringify(name))),
        name: string,
        notes: string,
        done: boolean,
      }),
    }),
  },
}

suite('random requests get the response of the model', { concurrency: true }, () => {
  for (const [kind, open] of Object.entries(stores))
    for (const profile of ['a', 'b'] as const)
      test(`profile ${profile}, ${kind} store`, async (t) => {
        const { newModel, request: anyRequest } = profiles[profile]
        const anyRequests = fc.array(anyRequest, { minLength: 20, maxLength: 60, size: 'max' })
        const opened = await open(t, { a: [], b: [] })
        const service = await transports['over a socket'](t, profile, { stores: opened })
        const property = fc.asyncProperty(anyRequests, async (requests) => {
          // Ids start from 1 again.
          await opened[profile].replaceAll([])
          const model = newModel()
          for (const request of requests) {
            const { method, path, segment, type } = request
            const target = segment === undefined ? path : `${path}/${segment}`
            const sent = hasBody(request) ? textOf(request) : undefined
            const response = await service.send(method, target, sent, { 'content-type': type })
            const { status, body } = model.expect(request)
            assert.equal(response.status, status, response.text)
            if (typeof body === 'string') assert.equal(response.text, body)
            else if (body !== undefined) assert.deepEqual(JSON.parse(response.text), body)
          }
        })
        await fc.assert(property, { numRuns: 25 })
      })
})
