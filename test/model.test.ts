import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { transports } from './support/running.ts'
import { stores } from './support/stores.ts'

/** A request, in parts that a model can look at. */
interface Asked {
  readonly method: string
  readonly path: string
  /** Behind the path, as it is sent. */
  readonly segment: string | undefined
  readonly type: string | undefined
  /** Names with their values in JSON, or text that is no object. */
  readonly body: readonly (readonly [string, string])[] | string
}

interface Expected {
  readonly status: number
  /** What is looked at: JSON, a code, or nothing. */
  readonly body?: unknown
}

/** What the contract says, written down as plainly as can be: nothing is shared with the service. */
interface Model {
  answer(asked: Asked): Expected
}

const hasBody = ({ method }: Asked) => method === 'POST' || method === 'PUT'
const textOf = ({ body }: Asked) =>
  typeof body === 'string' ? body : `{${body.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
const isJson = ({ type = '' }: Asked) => ['application/json', 'text/JSON; charset=UTF-8'].includes(type)

/** The last of two equal names wins; what follows knows values by their JSON, so that no digit is lost. */
const membersOf = ({ body }: Asked) => (typeof body === 'string' ? undefined : new Map(body))
const isText = (value: string | undefined) => value?.startsWith('"') ?? false
const isFlag = (value: string | undefined) => value === 'true' || value === 'false'
const isWhole = (value: string | undefined) => value === undefined || JSON.parse(value)?.isWellFormed?.() !== false
const isBlank = (value: string | undefined) => !isText(value) || JSON.parse(value as string).trim() === ''

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

class ModelA implements Model {
  #items: { id: string; name: string | null; isComplete: boolean }[] = []
  #lastId = 0

  #shown = ({ id, ...rest }: { id: string }) => ({ id: Number(id), ...rest })

  answer(asked: Asked): Expected {
    const { method, segment } = asked
    if (segment === undefined) {
      if (method === 'GET') return { status: 200, body: this.#items.map(this.#shown) }
      return method === 'POST' ? this.#create(asked) : { status: 405 }
    }
    if (!['GET', 'PUT', 'DELETE'].includes(method)) return { status: 405 }
    const id = decoded(segment)
    const isInt64 = id !== undefined && /^(0|-?[1-9]\d*)$/.test(id) && BigInt.asIntN(64, BigInt(id)) === BigInt(id)
    if (!isInt64) return { status: 400 }
    const wrong = method === 'PUT' ? this.#wrongWith(asked) : undefined
    if (wrong) return wrong
    if (method === 'PUT' && membersOf(asked)?.get('id') !== id) return { status: 400 }
    const at = this.#items.findIndex((item) => item.id === id)
    const item = this.#items[at]
    if (!item) return { status: 404 }
    if (method === 'GET') return { status: 200, body: this.#shown(item) }
    if (method === 'DELETE') this.#items.splice(at, 1)
    else this.#items[at] = { id, ...this.#content(asked) }
    return { status: 204, body: '' }
  }

  #create(asked: Asked): Expected {
    const wrong = this.#wrongWith(asked)
    if (wrong) return wrong
    const item = { id: `${++this.#lastId}`, ...this.#content(asked) }
    this.#items.push(item)
    return { status: 201, body: this.#shown(item) }
  }

  #wrongWith(asked: Asked): Expected | undefined {
    if (!isJson(asked)) return { status: 415 }
    const members = membersOf(asked)
    const name = members?.get('name') ?? 'null'
    const isFine = isFlag(members?.get('isComplete')) && (name === 'null' || (isText(name) && isWhole(name)))
    return isFine ? undefined : { status: 400 }
  }

  #content(asked: Asked) {
    const members = membersOf(asked)
    return {
      name: JSON.parse(members?.get('name') ?? 'null') as string | null,
      isComplete: members?.get('isComplete') === 'true',
    }
  }
}

class ModelB implements Model {
  #items: { id: string; name: string; notes: string; done: boolean }[] = []

  answer(asked: Asked): Expected {
    const { method, segment } = asked
    if (segment !== undefined) return method === 'DELETE' ? this.#delete(decoded(segment)) : { status: 405 }
    if (method === 'GET') return { status: 200, body: this.#items }
    if (method !== 'POST' && method !== 'PUT') return { status: 405 }
    const members = membersOf(asked)
    const [id, name, notes] = [members?.get('id'), members?.get('name'), members?.get('notes')]
    const done = members?.get('done') ?? 'false'
    if (!isJson(asked) || isBlank(id) || isBlank(name) || isBlank(notes) || !isFlag(done))
      return { status: 400, body: 'TodoItemNameAndNotesRequired' }
    if (![id, name, notes].every(isWhole))
      return { status: 400, body: method === 'POST' ? 'CouldNotCreateItem' : 'CouldNotUpdateItem' }
    const [idText, nameText, notesText] = [id, name, notes].map((value) => JSON.parse(value as string))
    return this.#write(method, { id: idText, name: nameText, notes: notesText, done: done === 'true' })
  }

  #write(method: 'POST' | 'PUT', item: { id: string; name: string; notes: string; done: boolean }): Expected {
    const at = this.#items.findIndex(({ id }) => id === item.id)
    if (method === 'POST') {
      if (at >= 0) return { status: 409, body: 'TodoItemIDInUse' }
      this.#items.push(item)
      return { status: 200, body: item }
    }
    if (at < 0) return { status: 404, body: 'RecordNotFound' }
    this.#items[at] = item
    return { status: 204, body: '' }
  }

  #delete(id: string | undefined): Expected {
    const at = this.#items.findIndex((item) => item.id === id)
    if (at < 0) return { status: 404, body: 'RecordNotFound' }
    this.#items.splice(at, 1)
    return { status: 204, body: '' }
  }
}

const mostly = <T>(usual: fc.Arbitrary<T>, ...odd: T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: fc.constantFrom(...odd) })

/** Any text but U+0000, of which stores say different things. */
const text = mostly(
  fc
    .string({ unit: 'binary', minLength: 1, maxLength: 12 })
    .map((string) => JSON.stringify(string.replaceAll('\0', ''))),
  ...['""', '"  "', '"\\ud800"', '"\\u00e9\\n\\""', '"<b>\'; drop table items"', '"__proto__"'],
)
const flag = fc.constantFrom('true', 'false')
const any = fc.oneof(text, flag, fc.constantFrom('null', '0', '-1.5e3', '[]', '{"a":[1,{}]}'))
const noObject = ['', 'null', '[]', '"x"', '{', '{"isComplete":true', "{'id':'x'}", '{"id":"x",}', '\0', '{}{}']
const path = fc.constantFrom('/api/todoitems', '/api/todoitems/', '/API/ToDoItems', '/api/%74odoitems')
const type = mostly<string | undefined>(
  fc.constantFrom('application/json', 'text/JSON; charset=UTF-8'),
  ...['text/plain', 'application/json; charset=latin1', undefined],
)

/** All members, some of them, or more of them, one of them twice and one with a wrong value among them. */
function bodyOf(members: Readonly<Record<string, fc.Arbitrary<string>>>): fc.Arbitrary<Asked['body']> {
  const good = Object.entries(members).map(([name, value]) => fc.tuple(fc.constant(name), value))
  const odd = fc.tuple(fc.constantFrom(...Object.keys(members), 'secret', '__proto__', 'NAME'), any)
  const some = fc.shuffledSubarray(good, { minLength: 1 }).chain((chosen) => fc.tuple(...chosen, ...chosen.slice(0, 1)))
  const usual = fc.oneof(
    { weight: 8, arbitrary: fc.tuple(...good) },
    { weight: 1, arbitrary: some },
    { weight: 1, arbitrary: fc.tuple(...good, odd) },
  )
  return mostly<Asked['body']>(usual, ...noObject)
}

type Place = 'list' | 'item'
interface Generator {
  readonly places: readonly [string, Place][]
  readonly segment: fc.Arbitrary<string>
  readonly body: fc.Arbitrary<Asked['body']>
}

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']
const askedWith = ({ places, segment, body }: Generator): fc.Arbitrary<Asked> =>
  fc
    .record({
      place: mostly(
        fc.constantFrom(...places),
        ...methods.flatMap(
          (method) =>
            [
              [method, 'list'],
              [method, 'item'],
            ] as [string, Place][],
        ),
      ),
      path,
      segment,
      type,
      body,
    })
    .map(({ place: [method, place], path, segment, ...rest }) => ({
      ...rest,
      method,
      path: place === 'item' ? '/api/todoitems' : path,
      segment: place === 'item' ? segment : undefined,
    }))

/** Few enough to meet again. */
const numbers = fc.constantFrom('1', '2', '3')
const names = ['x', 'X', 'é', 'e\u0301', 'a/b', '%41']

const profiles = {
  a: {
    model: () => new ModelA(),
    asked: askedWith({
      places: [
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
        name: fc.oneof(text, fc.constant('null')),
        isComplete: flag,
      }),
    }),
  },
  b: {
    model: () => new ModelB(),
    asked: askedWith({
      places: [
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
        name: text,
        notes: text,
        done: flag,
      }),
    }),
  },
}

for (const [kind, open] of Object.entries(stores))
  for (const profile of ['a', 'b'] as const)
    test(`any requests in any order, good and bad: profile ${profile} on ${kind} answers as its model does`, async (t) => {
      const { model: newModel, asked } = profiles[profile]
      await fc.assert(
        fc.asyncProperty(fc.array(asked, { minLength: 20, maxLength: 60, size: 'max' }), async (all) => {
          const service = await transports['over a socket'](t, profile, { stores: await open(t, { a: [], b: [] }) })
          const model = newModel()
          for (const one of all) {
            const { method, path, segment, type } = one
            const sent = hasBody(one) ? textOf(one) : undefined
            const { status, body } = model.answer(one)
            const answer = await service.send(method, segment === undefined ? path : `${path}/${segment}`, sent, {
              'content-type': type,
            })
            assert.equal(answer.status, status, answer.text)
            if (typeof body === 'string') assert.equal(answer.text, body)
            else if (body !== undefined) assert.deepEqual(JSON.parse(answer.text), body)
          }
        }),
        { numRuns: 25 },
      )
    })
