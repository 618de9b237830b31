import { unlessUndeletable } from '../engine/cleanup.ts'
import { asSecondCaller, type Client, NoResponseError, PiecewiseBody, type Response } from '../engine/client.ts'
import { type Check, choice, onOwnServer, type ServerControl, spec } from '../engine/contract.ts'
import {
  expectAllow,
  expectArray,
  expectContentType,
  expectEmpty,
  expectMethodNotAllowed,
  expectObject,
  expectStatus,
  expectSuccess,
  expectThat,
  isSuccess,
  stringify,
} from '../engine/expect.ts'
import type { Random } from '../engine/random.ts'
import { uniqueText } from '../engine/state.ts'
import {
  allOf,
  deleteItem,
  expectList,
  type ModelItem,
  observeOperation,
  type Profile,
  populate,
  postItem,
  type Rewrite,
  rewriting,
  StoreModel,
  withValue,
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
      const forget = async (item: T) => {
        const response = await deleteItem(client, item.id)
        if (/^[\w.-]+$/.test(`${item.id}`)) observeOperation(response, expectSuccess)
        // Whether every id can be deleted is a choice (B11).
        if (isSuccess(response)) model.forget(item)
      }
      if (method === 'POST') await allOf(model.items.map(forget))
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

/** Requests in other forms are carried out, also where they come at once: they must not get into each other. */
async function expectAccepted<T extends ModelItem>(
  client: Client,
  profile: Profile<T>,
  rewrites: readonly Rewrite[],
): Promise<void> {
  const model = new StoreModel(client, profile)
  await allOf(
    rewrites.map(async (rewrite) => {
      const via = rewriting(client, rewrite)
      const content = model.newItem({
        name: `${model.newItem().name} a/b \u{1f600} \u00e9\u20ac \u6f22\u5b57`,
      } as Partial<T>)
      const item = model.add(await postItem(via, profile, content), content)
      const changed = { ...item, ...model.changes(true) }
      observeOperation(await profile.update(via, changed), expectSuccess)
      model.set(changed)
    }),
  )
  await model.expectStored('POST and PUT in other forms')
}

/** Requests in other forms get this error, and change nothing; what was refused can be created afterwards. */
export async function expectRefused<T extends ModelItem>(
  client: Client,
  profile: Profile<T>,
  rewrites: readonly Rewrite[],
  expectError: (response: Response) => void,
): Promise<void> {
  const model = new StoreModel(client, profile)
  const item = await model.create()
  const refused = model.newItem()
  for (const rewrite of rewrites) {
    const via = rewriting(client, rewrite)
    expectError(await postItem(via, profile, refused))
    expectError(await profile.update(via, { ...item, ...model.changes(true) }))
  }
  await model.expectStored('refused requests')
  await model.createFrom(refused, observe)
  await model.expectStored('POST of what was refused before')
}

const escapeChar = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

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

const withMembers = (members: string) => (text: string) => text.replace(/}$/, `,${members}}`)

const malformed: readonly ((text: string) => unknown)[] = [
  (text) => text.slice(0, -1),
  (text) => `${text} x`,
  (text) => `${text}${text}`,
  (text) => text.replace(/}$/, ',}'),
  (text) => text.replaceAll('"', "'"),
  (text) => text.replace('{', '{/* comment */'),
  ...['"n":NaN', '"n":01', '"n":"\t"', 'n:1'].map((member) => (text: string) => text.replace('{', `{${member},`)),
  (text) => `\ufeff\ufeff${text}`,
  // No objects.
  ...['', ' ', 'null', 'true', '0', '"text"', '[]'].map((text) => () => text),
  (text) => `[${text}]`,
  // Invalid UTF-8.
  ...['ff', 'c0af', 'eda080', 'f4908080', 'e282', 'f09f98'].map(
    (bytes) => (text: string) =>
      Buffer.concat([Buffer.from(text.replace(/}$/, ',"x":"')), Buffer.from(bytes, 'hex'), Buffer.from('"}')]),
  ),
]

const maxBodyBytes = 2 ** 20
const padTo = (size: number) => (text: string) =>
  withMembers(`"padding":"${'x'.repeat(size - Buffer.byteLength(text) - ',"padding":""'.length)}"`)(text)
const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }

/** A character of several bytes may come in two packets, or in two chunks. */
const wireForms: readonly Rewrite[] = [
  { body: inPieces },
  { body: inPieces, headers: chunked },
  { headers: chunked },
  { headers: { expect: '100-continue' } },
]

const withType = (type: string | undefined): Rewrite => ({ headers: { 'content-type': type } })
const jsonTypes = [
  'application/json',
  'APPLICATION/JSON',
  'application/json; charset=utf-8',
  'application/json;charset="UTF-8"',
  'application/json; charset=Utf-8; profile=x',
  'text/json',
  'application/merge-patch+json',
  'application/vnd.todo.v1+JSON',
]
const otherTypes = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/jsonx',
  'application/xml',
  'text/vnd.todo+json',
  'json',
  'application/json; charset=utf-16',
  'application/json; charset=iso-8859-1',
]

function bodyChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  const { requiredMember, rules, invalidValues } = profile
  const accepting = (rewrites: readonly Rewrite[]) => (client: Client) => expectAccepted(client, profile, rewrites)
  const refusing = (rewrites: readonly Rewrite[], expectError: (response: Response) => void) => (client: Client) =>
    expectRefused(client, profile, rewrites, expectError)
  const toBodies = (bodies: readonly NonNullable<Rewrite['body']>[]) => bodies.map((body) => ({ body }))
  const tooLarge = padTo(maxBodyBytes + 1)
  const inCapitals = requiredMember.charAt(0).toUpperCase() + requiredMember.slice(1)
  return [
    spec(rules.create, 'POST and PUT read JSON in each of its forms', accepting(toBodies(jsonForms))),
    spec(rules.create, 'POST and PUT read a body in pieces, in chunks and after 100-continue', accepting(wireForms)),
    spec('G3', 'a request body may be application/json; charset=utf-8', accepting([withType(jsonTypes[2])])),
    choice(
      'G4',
      'unknown members are ignored, and the last of duplicate members wins',
      accepting(
        toBodies([
          withMembers('"colour":"red","more":{"deep":[1,2,{"x":null}]}'),
          withMembers('"__proto__":{"polluted":true},"constructor":{"prototype":{}}'),
          (text) => text.replace('{', '{"name":"other",'),
        ]),
      ),
    ),
    choice(
      'G4',
      'a member is not read from __proto__, nor from a name in another case',
      refusing(
        toBodies(
          [`"__proto__":{"${requiredMember}":$1}`, `"${inCapitals}":$1`].map(
            (other) => (text) => text.replace(new RegExp(`"${requiredMember}":("[^"]*"|\\w+)`), other),
          ),
        ),
        profile.expectInvalidBody,
      ),
    ),
    choice(
      'G5',
      'JSON media types are accepted in any case, with charset utf-8 or none, and a byte order mark',
      accepting([...jsonTypes.map(withType), { body: (text) => `\ufeff${text}` }]),
    ),
    choice(
      'G5',
      'other media types are rejected',
      refusing(otherTypes.map(withType), profile.expectUnsupportedMediaType),
    ),
    choice(
      'G5',
      'malformed JSON, invalid UTF-8 and bodies that are no object are rejected',
      refusing(toBodies(malformed), profile.expectInvalidBody),
    ),
    choice('G5', 'a body of 1 MiB is accepted', accepting([{ body: padTo(maxBodyBytes) }])),
    choice(
      'G5',
      'one byte more than 1 MiB is rejected, also in chunks',
      refusing([{ body: tooLarge }, { body: tooLarge, headers: chunked }], profile.expectBodyTooLarge),
    ),
    choice(
      'G5',
      'a lone surrogate is rejected',
      refusing(
        toBodies(
          ['\\ud800', '\\udc00', '\\ude00\\ud83d'].map((half) => (text) => text.replace('"name":"', `$&${half}`)),
        ),
        profile.expectUnstorableText,
      ),
    ),
    ...invalidValues.map(([rule, member, values]) =>
      choice(
        rule,
        `POST and PUT with another value of ${member} are rejected`,
        refusing(toBodies(values.map((value) => withValue(member, value))), profile.expectInvalidBody),
      ),
    ),
    spec('G3', 'lists and items are JSON whatever Accept says', async (client) => {
      await asSecondCaller(client).send('GET', itemsPath) // accepts gzip
      const plain = await client.send('GET', itemsPath, undefined, { 'accept-encoding': 'identity' })
      const { 'content-encoding': encoding = 'identity' } = plain.headers
      observe('list', () => {
        expectThat(/^identity$/i.test(encoding), 'a list without a content coding', plain)
        expectList(plain)
      })
      // A server may refuse with 406 (choice, G9). What it sends is judged by what holds for every response.
      for (const accept of ['text/html,application/xhtml+xml', 'application/xml', 'text/plain']) {
        const via = rewriting(client, { headers: { accept } })
        await postItem(via, profile, profile.newItem(uniqueText()))
        await via.send('GET', itemsPath)
      }
    }),
    choice('G3', 'lists and items declare charset=utf-8', async (client) => {
      const created = await postItem(client, profile, profile.newItem(uniqueText()))
      const { id } = observe('create', () => expectObject(created))
      const responses = [created, await client.send('GET', itemsPath), await client.send('GET', itemPath(id))]
      for (const response of responses.filter(isSuccess)) expectContentType(response, 'application/json; charset=utf-8')
    }),
  ]
}

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

/** The methods of a sample endpoint. */
const sampleMethods = ['GET', 'HEAD']

function pathChecks<T extends ModelItem>(profile: Profile<T>): Check[] {
  const { methods } = profile

  /** Every operation on this spelling of a path has the effect that it has on the usual one. */
  async function expectSpelling(client: Client, path: (path: string) => string): Promise<void> {
    const { model, target, twin } = await populate(client, profile)
    await model.expectStored('three POSTs')
    const spelling = rewriting(client, { path })
    model.client = spelling
    await model.remove(twin, observe)
    await model.create({}, observe)
    for (const sender of [spelling, client])
      for (const reader of [spelling, client]) {
        model.client = sender
        await model.update(target, { name: model.newItem().name } as Partial<T>, observe)
        model.client = reader
        await model.expectStored(`requests to ${path(itemsPath)}`)
      }
  }

  /** Each path with the methods that it offers. */
  const resourcesOf = async (client: Client): Promise<[path: string, methods: readonly string[]][]> => [
    [itemsPath, methods.collection],
    [itemPath((await new StoreModel(client, profile).create()).id), methods.item],
    ['/', sampleMethods],
    ['/weatherforecast', sampleMethods],
  ]

  return [
    spec('G1', 'paths match case-insensitively', async (client) => {
      for (const other of ['/API/TODOITEMS', '/api/todoItems'])
        await expectSpelling(client, (path) => path.replace(itemsPath, other))
    }),
    choice('G2', 'one trailing slash is accepted', async (client) => {
      await expectSpelling(client, (path) => `${path}/`)
      const forecast = await client.send('GET', '/weatherforecast/')
      observe('/weatherforecast', () => expectArray(forecast))
    }),
    choice('G2', 'percent-encoded letters and digits in a path match', async (client) => {
      const { model } = await populate(client, profile)
      const encode = (path: string) => path.replace(/\d/g, '%3$&').replace(itemsPath, '/%61p%69/%74odo%49tems')
      model.client = rewriting(client, { path: encode })
      await model.expectStored(`GET ${encode(itemsPath)}`)
    }),
    choice('G2', 'two trailing slashes and an encoded slash are other paths: 404', async (client) => {
      for (const path of [`${itemsPath}//`, '/api%2Ftodoitems']) expectStatus(await client.send('GET', path), 404)
    }),
    choice('G6', 'an unsupported method returns 405 with Allow', async (client) => {
      for (const [path, allowed] of [...(await resourcesOf(client)), ['/secret', sampleMethods] as const])
        for (const method of ['POST', 'PUT', 'PATCH', 'TRACE'].filter((one) => !allowed.includes(one)))
          expectMethodNotAllowed(await send(client, path, method), allowed)
    }),
    onOwnServer(
      choice('G6', 'DELETE on the collection returns 405 with Allow', async (client) => {
        expectMethodNotAllowed(await client.send('DELETE', itemsPath), methods.collection)
      }),
    ),
    choice('G6', 'HEAD is answered as GET without the body, OPTIONS with 204 and Allow', async (client) => {
      for (const [path, allowed] of await resourcesOf(client)) {
        const response = await send(client, path, 'OPTIONS')
        expectEmpty(response, 204)
        expectAllow(response, allowed)
        if (!allowed.includes('HEAD')) continue
        const head = await client.send('HEAD', path)
        const get = await client.send('GET', path)
        expectEmpty(head, get.status)
        expectThat(head.headers['content-type'] === get.headers['content-type'], 'the content-type of GET', head)
      }
    }),
    choice('G6', 'an unknown path returns 404', async (client) => {
      for (const path of ['/nowhere', '/api', '/api/todoitem', `${itemsPath}/1/2`, '/api//todoitems', '/%zz'])
        expectStatus(await client.send('GET', path), 404)
      for (const method of ['POST', 'PUT', 'DELETE']) expectStatus(await client.send(method, '/nowhere'), 404)
    }),
  ]
}

export const commonChecks = <T extends ModelItem>(profile: Profile<T>): Check[] => [
  ...bodyChecks(profile),
  ...pathChecks(profile),
]

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
