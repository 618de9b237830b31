import { type Client, NoResponseError, PiecewiseBody, type Response } from '../../common/client.ts'
import type { Random } from '../../common/random.ts'
import { unlessUndeletable } from '../engine/cleanup.ts'
import { type Check, choice, onOwnServer, type ServerControl, spec, uniqueText } from '../engine/contract.ts'
import {
  expectAllow,
  expectArray,
  expectContentType,
  expectEmpty,
  expectMediaType,
  expectMembers,
  expectMethodNotAllowed,
  expectObject,
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  stringify,
} from '../engine/expect.ts'
import {
  allOf,
  deleteItem,
  type ModelItem,
  observeOperation,
  type Profile,
  populate,
  postItem,
  StoreModel,
} from './model.ts'
import { itemPath, itemsPath, observe } from './rules.ts'
import { send } from './samples.ts'
import { generateTexts, textClasses } from './texts.ts'

/** Few enough for a server that stores few items. */
const textsAtOnce = 5

/** Text is stored and returned unchanged by POST and PUT, in each of these members; a server may refuse a text. */
export function textChecks<T extends ModelItem>(
  profile: Profile<T>,
  members: readonly (keyof T & string)[],
  methods: readonly ('POST' | 'PUT')[],
): Check[] {
  /** Stores the text in all members, or in each of them that may have it. */
  async function store(client: Client, model: StoreModel<T>, text: string, replaced: T | undefined): Promise<void> {
    for (const names of members.length > 1 ? [members, ...members.map((name) => [name])] : [members]) {
      const texts = Object.fromEntries(names.map((name) => [name, text]))
      const content: T = { ...model.newItem(), ...(replaced && { id: replaced.id }), ...texts }
      const sent = replaced ? profile.update(client, content) : postItem(client, profile, content)
      const response = await unlessTooLong(text, unlessUndeletable(sent))
      if (!response || profile.mayRefuse(response, text)) continue
      observeOperation(response, expectSuccess)
      if (replaced) model.set(content)
      else model.add(response, content)
      return
    }
  }

  async function expectKept(client: Client, texts: readonly string[], method: 'POST' | 'PUT'): Promise<void> {
    const model = new StoreModel(client, profile)
    const replaced: T[] = []
    while (method === 'PUT' && replaced.length < textsAtOnce) replaced.push(await model.create())
    for (let start = 0; start < texts.length; start += textsAtOnce) {
      const some = texts.slice(start, start + textsAtOnce)
      for (const [index, text] of some.entries()) await store(client, model, text, replaced[index])
      await model.expectStored(`${method} with ${some.map(preview).join(', ')}`)
      for (const item of method === 'POST' ? model.items : []) {
        const response = await deleteItem(client, item.id)
        if (/^[\w.-]+$/.test(`${item.id}`)) observeOperation(response, expectSuccess)
        // Whether every id can be deleted is a choice (B11).
        if (isSuccess(response)) model.forget(item)
      }
    }
  }

  const checksOf = (name: string, texts: (random: Random) => readonly string[]) =>
    methods.map((method) =>
      spec(
        method === 'POST' ? profile.rules.create : profile.rules.update,
        `${method} keeps ${name} in ${members.join(' and ')}`,
        (client, random) => expectKept(client, texts(random), method),
      ),
    )
  return [
    ...Object.entries(textClasses).flatMap(([name, texts]) => checksOf(name, () => texts)),
    ...checksOf('generated texts', generateTexts),
  ]
}

/** A character of several bytes may come in two packets, or in two chunks. */
function piecewiseChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  return (['POST', 'PUT'] as const).map((method) =>
    spec(
      method === 'POST' ? profile.rules.create : profile.rules.update,
      `${method} keeps characters whose bytes come one after the other`,
      async (client) => {
        const model = new StoreModel(client, profile)
        const replaced = method === 'PUT' ? [await model.create(), await model.create()] : []
        // Bodies that come at once must not get into each other.
        const exchanges = [{}, chunked].map(async (headers, index) => {
          const name = `${model.newItem().name} \u00e9\u20ac\u{1f600} \u6f22\u5b57`
          const content: T = {
            ...model.newItem({ name } as Partial<T>),
            ...(replaced[index] && { id: replaced[index].id }),
          }
          const piecewise: Client = {
            ...client,
            send: (verb, path, body, more) =>
              client.send(verb, path, inPieces(typeof body === 'string' ? body : JSON.stringify(body)), {
                ...more,
                ...headers,
              }),
          }
          const send = method === 'PUT' ? profile.update(piecewise, content) : postItem(piecewise, profile, content)
          return { content, response: await send }
        })
        for (const { content, response } of await allOf(exchanges)) {
          observeOperation(response, expectSuccess)
          if (method === 'PUT') model.set(content)
          else model.add(response, content)
        }
        await model.expectStored(`${method} in pieces`)
      },
    ),
  )
}

/** The same JSON, written in other ways. */
const jsonForms: readonly ((text: string) => string)[] = [
  (text) => text.replace(/[{,](?=")/g, '$&\n  ').replace(/(?<="):/g, ': '),
  (text) => `\r\n\t ${text}\n`,
  (text) => text.replace(/[a-z]"(?=:)/gi, (end) => `${escapeChar(end.charAt(0))}"`),
  (text) => text.replace(/[^ -~]/g, escapeChar),
  (text) => text.replaceAll('/', '\\/'),
  // JSON.parse would round a long id.
  (text) =>
    /\d{16}/.test(text) ? text : JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).reverse())),
]
const escapeChar = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

/** JSON is read in every form that it can have. */
const jsonFormChecks = <T extends ModelItem>(profile: Profile<T>): Check[] => [
  spec(profile.rules.create, 'POST and PUT read JSON in each of its forms', async (client) => {
    const model = new StoreModel(client, profile)
    for (const rewrite of jsonForms) {
      const rewriting: Client = {
        ...client,
        send: (method, path, body, ...rest) =>
          client.send(
            method,
            path,
            body === undefined ? body : rewrite(typeof body === 'string' ? body : JSON.stringify(body)),
            ...rest,
          ),
      }
      const { name } = model.newItem()
      const content: T = model.newItem({ name: `${name} a/b \u{1f600} \u00e9` } as Partial<T>)
      const item = model.add(await postItem(rewriting, profile, content), content)
      const changed = { ...item, ...model.changes(true) }
      observeOperation(await profile.update(rewriting, changed), expectSuccess)
      model.set(changed)
    }
    await model.expectStored('POST and PUT of JSON in other forms')
  }),
]

/** Every character of more than one byte is cut. */
function inPieces(text: string): PiecewiseBody {
  const bytes = Buffer.from(text)
  return new PiecewiseBody(
    bytes,
    [...bytes.keys()].filter((index) => (bytes[index] ?? 0) >> 6 === 0b10),
  )
}

const maxShortLength = 10_000

/** A server may close the connection where a body is too long for it: undefined. How long is not specified. */
const unlessTooLong = <Result>(text: string, work: Promise<Result>): Promise<Result | undefined> =>
  work.catch((cause: unknown) => {
    if (cause instanceof NoResponseError && text.length >= maxShortLength) return undefined
    throw cause
  })

const preview = (text: string) => (text.length > 20 ? `${stringify(text.slice(0, 20))}…` : stringify(text))

export const commonChecks = <T extends ModelItem>(profile: Profile<T>): Check[] => [
  ...piecewiseChecks(profile),
  ...jsonFormChecks(profile),
  ...pathChecks(profile),
  ...bodyChecks(profile),
]

async function expectHead(client: Client, path: string): Promise<void> {
  const head = await client.send('HEAD', path)
  const get = await client.send('GET', path)
  expectEmpty(head, get.status)
  expectThat(head.headers['content-type'] === get.headers['content-type'], 'the content-type of GET', head)
}

async function expectOptions(client: Client, path: string, allowed: readonly string[]): Promise<void> {
  const response = await send(client, path, 'OPTIONS')
  expectEmpty(response, 204)
  expectAllow(response, allowed)
}

/** After the checks of whether the sample endpoints are served. */
export const sampleMethodChecks: readonly Check[] = [
  choice('G2', 'a sample endpoint accepts one trailing slash', async (client) => {
    const forecast = await client.send('GET', '/weatherforecast/')
    observe('/weatherforecast', () => expectArray(forecast))
  }),
  choice('G6', 'an unsupported method on a sample endpoint returns 405 with Allow', async (client) => {
    for (const path of ['/', '/weatherforecast', '/secret'])
      expectMethodNotAllowed(await send(client, path, 'POST'), ['GET', 'HEAD'])
  }),
  choice('G6', 'HEAD and OPTIONS on a sample endpoint are answered as on the items', async (client) => {
    for (const path of ['/', '/weatherforecast']) {
      await expectHead(client, path)
      await expectOptions(client, path, ['GET', 'HEAD'])
    }
  }),
]

/** A client that writes each path in another way. */
const spelling = (client: Client, spell: (path: string) => string): Client => ({
  ...client,
  send: (method, path, ...rest) => client.send(method, spell(path), ...rest),
})

function pathChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  const { methods } = profile
  const createItem = async (client: Client) => itemPath((await new StoreModel(client, profile).create()).id)

  /** Every operation on this spelling of a path has the effect that it has on the usual one. */
  async function expectSpelling(client: Client, spell: (path: string) => string): Promise<void> {
    const { model, target, twin } = await populate(client, profile)
    await model.expectStored('three POSTs')
    model.client = spelling(client, spell)
    const { name } = model.newItem()
    await model.update(target, { name } as Partial<T>, observe)
    await model.remove(twin, observe)
    await model.create({}, observe)
    await model.expectStored(`requests to ${spell(itemsPath)}`)
    model.client = client
    await model.expectStored(`requests to ${spell(itemsPath)}`)
  }

  return [
    spec('G1', 'paths match case-insensitively', async (client) => {
      for (const other of ['/API/TODOITEMS', '/api/todoItems'])
        await expectSpelling(client, (path) => path.replace(itemsPath, other))
    }),
    choice('G2', 'one trailing slash is accepted', (client) => expectSpelling(client, (path) => `${path}/`)),
    choice('G2', 'percent-encoded letters and digits in a path match', async (client) => {
      const { model } = await populate(client, profile)
      const encode = (path: string) => path.replace(/\d/g, '%3$&').replace(itemsPath, '/%61p%69/%74odo%49tems')
      model.client = spelling(client, encode)
      await model.expectStored(`GET ${encode(itemsPath)}`)
    }),
    choice('G2', 'two trailing slashes return 404', async (client) => {
      expectStatus(await client.send('GET', `${itemsPath}//`), 404)
    }),
    choice('G2', 'an encoded slash is not a path separator', async (client) => {
      expectStatus(await client.send('GET', '/api%2Ftodoitems'), 404)
    }),
    choice('G6', 'an unsupported method on the collection returns 405 with Allow', async (client) => {
      for (const method of ['PATCH', 'PUT', 'TRACE'].filter((method) => !methods.collection.includes(method)))
        expectMethodNotAllowed(await client.send(method, itemsPath), methods.collection)
    }),
    onOwnServer(
      choice('G6', 'DELETE on the collection returns 405 with Allow', async (client) => {
        expectMethodNotAllowed(await client.send('DELETE', itemsPath), methods.collection)
      }),
    ),
    choice('G6', 'an unsupported method on an item returns 405 with Allow', async (client) => {
      const path = await createItem(client)
      for (const method of ['POST', 'PATCH']) expectMethodNotAllowed(await client.send(method, path, {}), methods.item)
    }),
    choice('G6', 'HEAD returns the status and content-type of GET without the body', (client) =>
      expectHead(client, itemsPath),
    ),
    choice('G6', 'OPTIONS returns 204 with Allow', async (client) => {
      await expectOptions(client, itemsPath, methods.collection)
      await expectOptions(client, await createItem(client), methods.item)
    }),
    choice('G6', 'an unknown path returns 404', async (client) => {
      for (const path of ['/nowhere', '/api', '/api/todoitem', `${itemsPath}/1/2`, '/api//todoitems', '/%zz'])
        expectStatus(await client.send('GET', path), 404)
      for (const method of ['POST', 'PUT', 'DELETE']) expectStatus(await client.send(method, '/nowhere'), 404)
    }),
    choice('G9', 'Accept does not change the response', async (client) => {
      for (const accept of ['text/html', 'application/xml', 'application/json;q=0', '*/*', 'nonsense']) {
        const response = await client.send('GET', itemsPath, undefined, { accept })
        observe('list', () => expectArray(response))
        expectMediaType(response, 'application/json')
      }
    }),
  ]
}

const maxBodyBytes = 2 ** 20
const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }

function bodyChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  const { requiredMember } = profile
  const newItem = (name: string): Record<string, unknown> => ({ ...profile.body(profile.newItem(name)) })

  async function expectCreated(
    client: Client,
    content: (name: string) => unknown,
    headers = {},
    name = uniqueText(),
  ): Promise<void> {
    const response = await client.send('POST', itemsPath, content(name), headers)
    observe('create', () => {
      expectSuccess(response)
      expectMembers(response, { name })
    })
  }

  /** Expects an error response, and that nothing was stored. */
  async function expectRejected(
    client: Client,
    expectError: (response: Response) => void,
    content: (name: string) => unknown,
    headers = {},
  ): Promise<void> {
    const model = new StoreModel(client, profile)
    expectError(await client.send('POST', itemsPath, content(model.mark), headers))
    await model.expectStored('a rejected POST')
  }

  const itemJson = (name: string) => JSON.stringify(newItem(name))
  /** An item with further members, as JSON text, at its end. */
  const itemJsonWith = (name: string, members: string) => `${itemJson(name).slice(0, -1)},${members}}`
  const paddedItemJson = (name: string, size: number) => {
    const text = itemJsonWith(name, '"padding":""')
    return text.replace('"padding":"', `"padding":"${'x'.repeat(size - Buffer.byteLength(text))}`)
  }

  const tooLarge = (name: string) => paddedItemJson(name, maxBodyBytes + 1)

  return [
    choice('G3', 'lists and items declare charset=utf-8', async (client) => {
      const created = await client.send('POST', itemsPath, newItem(uniqueText()))
      const { id } = observe('create', () => expectObject(created))
      const responses = [created, await client.send('GET', itemsPath), await client.send('GET', `${itemsPath}/${id}`)]
      for (const response of responses.filter(isSuccess)) expectContentType(response, 'application/json; charset=utf-8')
    }),
    spec('G3', 'lists and items are JSON whatever Accept says', async (client) => {
      for (const accept of ['text/html,application/xhtml+xml', 'application/xml', 'text/plain']) {
        const created = await client.send('POST', itemsPath, newItem(uniqueText()), { accept })
        const list = await client.send('GET', itemsPath, undefined, { accept })
        // A server may refuse with 406 (choice, G9).
        for (const response of [created, list].filter(isSuccess)) expectMediaType(response, 'application/json')
      }
    }),
    spec('G3', 'a request body may be application/json; charset=utf-8', async (client) => {
      await expectCreated(client, newItem, { 'content-type': 'application/json; charset=utf-8' })
    }),
    spec(profile.rules.create, 'POST reads a chunked body, and one sent with Expect: 100-continue', async (client) => {
      for (const headers of [chunked, { expect: '100-continue' }]) await expectCreated(client, newItem, headers)
    }),
    choice('G4', 'unknown members are ignored', async (client) => {
      await expectCreated(client, (name) => itemJsonWith(name, '"colour":"red","more":{"deep":[1,2,{"x":null}]}'))
    }),
    choice('G4', '__proto__ and constructor are unknown members', async (client) => {
      await expectCreated(client, (name) =>
        itemJsonWith(name, '"__proto__":{"polluted":true},"constructor":{"prototype":{}}'),
      )
      const { [requiredMember]: value, ...rest } = newItem(uniqueText())
      const hidden = `{"__proto__":${JSON.stringify({ [requiredMember]: value })},${JSON.stringify(rest).slice(1)}`
      profile.expectInvalidBody(await client.send('POST', itemsPath, hidden))
    }),
    choice('G4', 'member names are case-sensitive', async (client) => {
      await expectRejected(client, profile.expectInvalidBody, (name) => {
        const { [requiredMember]: value, ...rest } = newItem(name)
        return { ...rest, [requiredMember[0]?.toUpperCase() + requiredMember.slice(1)]: value }
      })
    }),
    choice('G4', 'the last of duplicate members wins', async (client) => {
      await expectCreated(client, (name) => itemJsonWith(uniqueText(), `"name":${JSON.stringify(name)}`))
    }),
    choice('G5', 'JSON media types are accepted in any case, with charset utf-8 or none', async (client) => {
      for (const type of [
        'application/json',
        'APPLICATION/JSON',
        'application/json; charset=utf-8',
        'application/json;charset="UTF-8"',
        'application/json; charset=Utf-8; profile=x',
        'text/json',
        'application/merge-patch+json',
        'application/vnd.todo.v1+JSON',
      ])
        await expectCreated(client, newItem, { 'content-type': type })
    }),
    ...[
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonx',
      'application/xml',
      'text/vnd.todo+json',
      'json',
      'application/json; charset=utf-16',
      'application/json; charset=iso-8859-1',
    ].map((type) =>
      choice('G5', `media type ${type} is rejected`, (client) =>
        expectRejected(client, profile.expectUnsupportedMediaType, newItem, { 'content-type': type }),
      ),
    ),
    choice('G5', 'a leading byte order mark is skipped', async (client) => {
      await expectCreated(client, (name) => `\ufeff${itemJson(name)}`)
    }),
    choice('G5', 'invalid UTF-8 is rejected', async (client) => {
      for (const bytes of [
        [0xff],
        [0xc0, 0xaf],
        [0xed, 0xa0, 0x80],
        [0xf4, 0x90, 0x80, 0x80],
        [0xe2, 0x82],
        [0xf0, 0x9f, 0x98],
      ])
        await expectRejected(client, profile.expectInvalidBody, (name) => {
          const [before = '', after = ''] = itemJsonWith(name, '"x":"|"').split('|')
          return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
        })
    }),
    choice('G5', 'malformed JSON is rejected', async (client) => {
      for (const corrupt of [
        (text: string) => text.slice(0, -1),
        (text: string) => `${text} x`,
        (text: string) => `${text}${text}`,
        (text: string) => text.replace(/}$/, ',}'),
        (text: string) => text.replaceAll('"', "'"),
        (text: string) => text.replace('{', '{/* comment */'),
        (text: string) => text.replace('{', '{"n":NaN,'),
        (text: string) => text.replace('{', '{"n":01,'),
        (text: string) => text.replace('{', '{"n":"\t",'),
        (text: string) => text.replace('{', '{n:1,'),
        (text: string) => `\ufeff\ufeff${text}`,
      ])
        await expectRejected(client, profile.expectInvalidBody, (name) => corrupt(itemJson(name)))
    }),
    choice('G5', 'a body that is not an object is rejected', async (client) => {
      for (const text of ['', ' ', 'null', 'true', '0', '"text"', '[]', `[${itemJson(uniqueText())}]`])
        profile.expectInvalidBody(await client.send('POST', itemsPath, text))
    }),
    choice('G5', 'a body of 1 MiB is accepted, one byte more is rejected', async (client) => {
      await expectCreated(client, (name) => paddedItemJson(name, maxBodyBytes))
      await expectRejected(client, profile.expectBodyTooLarge, tooLarge)
    }),
    choice('G5', 'the size limit applies to chunked bodies', (client) =>
      expectRejected(client, profile.expectBodyTooLarge, tooLarge, chunked),
    ),
    choice('G5', 'a lone surrogate is rejected, a surrogate pair is accepted', async (client) => {
      for (const half of ['\\ud800', '\\udc00', '\\ude00\\ud83d'])
        await expectRejected(client, profile.expectUnstorableText, (name) =>
          itemJsonWith(name, `"name":"${name}${half}"`),
        )
      const escapePair = (name: string) => itemJson(name).replace('😀', '\\ud83d\\ude00')
      await expectCreated(client, escapePair, {}, `${uniqueText()}😀`)
    }),
  ]
}

/** The control API of a todo-service in development. */
export async function openControl(client: Client): Promise<ServerControl> {
  const send = async (method: string, path: string, expected: number, body?: string) => {
    const headers = client.token === undefined ? {} : { authorization: `Bearer ${client.token}` }
    const response = await client.send(method, `/__admin/${path}`, body, headers).catch((cause: Error) => cause)
    if ('status' in response && response.status === expected) return response.text
    const got = 'status' in response ? `status ${response.status}` : response.message
    throw new Error(`${method} /__admin/${path} got ${got}. --reset needs a todo-service in development.`)
  }
  const items = await send('GET', 'items', 200)
  const reset = () => send('POST', 'reset', 204)
  return {
    reset,
    async restore() {
      await reset()
      await send('PUT', 'items', 204, items)
    },
  }
}
