import { createHmac, createPublicKey, type JsonWebKey, randomInt, verify } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import type {
  BodyFault,
  CodeB,
  DraftA,
  Errors,
  ForecastEntry,
  ItemA,
  ItemB,
  Json,
  JsonObject,
  Outcome,
  ReferenceOptions,
  ReferenceServer,
  Request,
  Result,
} from './reference.ts'
import { empty, isObject, json, ReferenceA, ReferenceB, text, writeJson } from './reference.ts'
import type { FaultyServer } from './types.ts'

const servers: FaultyServer[] = []

/** Servers that each break one specified sentence: races, time, numbers, callers, texts, rare answers, tokens, ids. */
export const furtherFaults: readonly FaultyServer[] = servers

const add = (
  id: `${'a' | 'b'}-${string}`,
  rule: string,
  kind: FaultyServer['kind'],
  fault: string,
  Served: new (options: ReferenceOptions) => ReferenceServer,
) => {
  const profile = id.startsWith('a-') ? 'a' : 'b'
  servers.push({
    id,
    profile,
    rule,
    kind,
    breaks: 'specified',
    fault,
    create: (options) => new Served(options).create(),
  })
}

// What several share

const accepted = <T>(value: T) => ({ ok: true, value }) as const
const header = (request: Request, name: string) => String(request.incoming.headers[name] ?? '')
const later = (milliseconds: number, work: () => void) => void setTimeout(work, milliseconds).unref()
const sinceStart = () => performance.now()
const gzipped = (result: Result): Result => ({
  ...result,
  headers: { ...result.headers, 'content-encoding': 'gzip' },
  body: gzipSync(result.body as string),
})

/** The parts of a body as they arrive. */
const chunksOf = (incoming: IncomingMessage) =>
  new Promise<Buffer[]>((resolve, reject) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming
      .on('end', () => resolve(chunks))
      .on('error', reject)
      .on('close', reject)
  })

/** PUT with a slow store. */
abstract class SlowPutA extends ReferenceA {
  abstract write(item: ItemA, draft: DraftA): Promise<void>

  override async putItem(request: Request): Promise<Result> {
    const body = this.readValid(request)
    const item = this.find(this.pathId(request) ?? -1n)
    if (item === undefined || !body.ok || body.value.id !== item.id) return super.putItem(request)
    await this.write(item, this.toDraft(body.value))
    return empty(204)
  }
}

/** Keeps the secret that a request brings, and returns it. */
abstract class TakesSecretA extends ReferenceA {
  abstract secretOf(body: JsonObject): string | null

  override toDraft(body: JsonObject): DraftA {
    return Object.assign(super.toDraft(body), { secret: this.secretOf(body) })
  }
  override insert(draft: DraftA): ItemA {
    const item = { ...super.insert(draft), ...draft }
    this.items.set(item.id, item)
    return item
  }
  override toWire(item: ItemA): JsonObject {
    return item.secret === null ? super.toWire(item) : { ...super.toWire(item), secret: item.secret }
  }
}

/** Stores another name than the one that was sent. */
const storesName = (change: (name: string) => string | null, methods = 'POST PUT') =>
  class extends ReferenceA {
    method = ''
    override async route(request: Request): Promise<Result> {
      this.method = request.method // the work up to toDraft is synchronous
      return super.route(request)
    }
    override toDraft(body: JsonObject): DraftA {
      const draft = super.toDraft(body)
      if (draft.name === null || !methods.includes(this.method)) return draft
      return { ...draft, name: change(draft.name) }
    }
  }

/** A store for each value of a request header. */
const storePerHeader = (name: string) =>
  class extends ReferenceA {
    stores = new Map<string, ReferenceA>()
    override async route(request: Request) {
      const value = header(request, name)
      const store = this.stores.get(value) ?? new ReferenceA(this.options)
      this.stores.set(value, store)
      return store.route(request)
    }
  }

// Profile A: several operations at once

add(
  'a-put-in-flight-restores-deleted',
  'A9',
  'state',
  'A PUT that began before a DELETE of the same item brings the item back.',
  class extends SlowPutA {
    async write(item: ItemA, draft: DraftA) {
      await sleep(12)
      this.items.set(item.id, { ...item, ...draft })
    }
  },
)

add(
  'a-puts-at-once-mixed',
  'A7',
  'state',
  'Two PUTs of one item at once can leave the name of one and the flag of the other.',
  class extends SlowPutA {
    async write({ id }: ItemA, { name, isComplete }: DraftA) {
      const column = async (part: Partial<DraftA>) => {
        await sleep(randomInt(1, 8))
        const item = this.items.get(id)
        if (item !== undefined) this.items.set(id, { ...item, ...part })
      }
      await Promise.all([column({ name }), column({ isComplete })])
    }
  },
)

add(
  'a-put-leaves-gap',
  'A7',
  'state',
  'A PUT removes the item and adds it again some milliseconds later; in between the id is 404.',
  class extends SlowPutA {
    async write(item: ItemA, draft: DraftA) {
      this.items.delete(item.id)
      await sleep(10)
      this.items.set(item.id, { ...item, ...draft })
    }
    override list() {
      return super.list().sort((one, other) => Number(one.id - other.id))
    }
  },
)

add(
  'a-list-pages-shift',
  'A1',
  'state',
  'The list is read in pages of ten by offset, so that a DELETE at the same time makes it skip an item.',
  class extends ReferenceA {
    override async getItems() {
      const items: ItemA[] = []
      for (let at = 0; ; at += 10) {
        const page = this.list().slice(at, at + 10)
        items.push(...page)
        if (page.length < 10) break
        await sleep(1)
      }
      return json(
        200,
        items.map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'a-deletes-at-once-both-204',
  'A9',
  'state',
  'Two DELETEs of one item at once are both answered 204.',
  class extends ReferenceA {
    override async deleteItem(request: Request) {
      const item = this.find(this.pathId(request) ?? -1n)
      if (item === undefined) return super.deleteItem(request)
      await sleep(5)
      this.remove(item.id)
      return empty(204)
    }
  },
)

add(
  'a-posts-at-once-same-id',
  'A4',
  'state',
  'POSTs at the same time are given the same id, and the last one overwrites the others.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const last = this.lastId
      if (!this.readValid(request).ok) return super.postItem(request)
      await sleep(3)
      this.lastId = last
      return super.postItem(request)
    }
  },
)

add(
  'a-put-lost-beside-put-of-other-item',
  'A7',
  'state',
  'A PUT writes back a copy of the whole store, so that of two PUTs of different items at once one is lost.',
  class extends SlowPutA {
    async write(item: ItemA, draft: DraftA) {
      const copy = new Map(this.items)
      await sleep(4)
      for (const [id, old] of copy) if (this.items.has(id)) this.items.set(id, old)
      if (this.items.has(item.id)) this.items.set(item.id, { ...item, ...draft })
    }
  },
)

// Profile A: time

add(
  'a-created-item-not-found-at-once',
  'A2',
  'state',
  'GET by id reads a replica that knows a created item only after 40 ms.',
  class extends ReferenceA {
    born = new Map<bigint, number>()
    override insert(draft: DraftA) {
      const item = super.insert(draft)
      this.born.set(item.id, sinceStart())
      return item
    }
    override find(id: bigint) {
      return sinceStart() - (this.born.get(id) ?? 0) < 40 ? undefined : super.find(id)
    }
  },
)

add(
  'a-item-expires-after-3s',
  'A2',
  'state',
  'An item is gone three seconds after it was created.',
  class extends ReferenceA {
    override insert(draft: DraftA) {
      const item = super.insert(draft)
      later(3000, () => this.items.delete(item.id))
      return item
    }
  },
)

add(
  'a-flag-reverts-after-2s',
  'A7',
  'state',
  'Two seconds after a PUT isComplete is again what it was before.',
  class extends ReferenceA {
    override replace(id: bigint, draft: DraftA) {
      const before = this.items.get(id)
      later(2000, () => {
        const item = this.items.get(id)
        if (item && before) this.items.set(id, { ...item, isComplete: before.isComplete })
      })
      return super.replace(id, draft)
    }
  },
)

add(
  'a-cache-by-spelling-of-path',
  'A2',
  'state',
  'GET by id is cached by the path as sent; a PUT or DELETE under another spelling of the path does not clear it.',
  class extends ReferenceA {
    cached = new Map<string, Result>()
    override async getItem(request: Request) {
      const result = this.cached.get(request.path) ?? (await super.getItem(request))
      if (result.status === 200) this.cached.set(request.path, result)
      return result
    }
    override async route(request: Request) {
      if (request.method === 'PUT' || request.method === 'DELETE') this.cached.delete(request.path)
      return super.route(request)
    }
  },
)

add(
  'a-404-cached-2s',
  'A2',
  'state',
  'A 404 for an id is repeated for two seconds, though the item has been created since.',
  class extends ReferenceA {
    missing = new Map<bigint, number>()
    override find(id: bigint) {
      if (sinceStart() - (this.missing.get(id) ?? -Infinity) < 2000) return undefined
      const item = super.find(id)
      if (item === undefined) this.missing.set(id, sinceStart())
      return item
    }
  },
)

add(
  'a-list-cached-for-queries',
  'A1',
  'state',
  'A list requested with a query is cached for five seconds by that query.',
  class extends ReferenceA {
    cached = new Map<string, Result>()
    override async getItems(request: Request) {
      const { query } = request
      const result = this.cached.get(query) ?? (await super.getItems(request))
      if (query !== '' && !this.cached.has(query)) {
        this.cached.set(query, result)
        later(5000, () => this.cached.delete(query))
      }
      return result
    }
  },
)

// Profile A: numbers

add(
  'a-list-cut-at-500',
  'A1',
  'state',
  'The list has at most 500 items.',
  class extends ReferenceA {
    override async getItems() {
      return json(
        200,
        this.list()
          .slice(0, 500)
          .map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'a-oldest-evicted-beyond-150',
  'A2',
  'state',
  'The store keeps 150 items and drops the oldest when another is created.',
  class extends ReferenceA {
    override insert(draft: DraftA) {
      const item = super.insert(draft)
      const oldest = this.list()[0]
      if (this.items.size > 150 && oldest) this.items.delete(oldest.id)
      return item
    }
  },
)

add(
  'a-ids-wrap-at-256',
  'A4',
  'state',
  'Ids are counted in one byte: after 255 they begin again and overwrite items.',
  class extends ReferenceA {
    override nextId() {
      this.lastId = BigInt.asUintN(8, this.lastId + 1n)
      return this.lastId
    }
  },
)

add(
  'a-location-groups-thousands',
  'A3',
  'wire',
  'From 1000 on the id in Location has a thousands separator.',
  class extends ReferenceA {
    override location(request: Request, item: ItemA) {
      return `${this.baseUrl(request)}/api/todoitems/${item.id.toLocaleString('en')}`
    }
  },
)

add(
  'a-list-loses-item-at-batch-border',
  'A1',
  'state',
  'The list is read in batches of 256, and the first item of every further batch is lost.',
  class extends ReferenceA {
    override async getItems() {
      const items = this.list().filter((_, index) => index === 0 || index % 256 !== 0)
      return json(
        200,
        items.map((item) => this.toWire(item)),
      )
    }
  },
)

// Profile A: who asks

add(
  'a-list-cached-per-connection',
  'A1',
  'state',
  'The list is cached per connection, and only changes made over the same connection clear it.',
  class extends ReferenceA {
    cached = new WeakMap<Socket, Result>()
    override async getItems(request: Request) {
      const result = this.cached.get(request.incoming.socket) ?? (await super.getItems(request))
      this.cached.set(request.incoming.socket, result)
      return result
    }
    override async route(request: Request) {
      if (request.method !== 'GET') this.cached.delete(request.incoming.socket)
      return super.route(request)
    }
  },
)

add('a-store-per-user-agent', 'A1', 'state', 'Every User-Agent has a store of its own.', storePerHeader('user-agent'))

add(
  'a-null-name-translated',
  'A5',
  'text',
  'A name that is null is returned as a placeholder to callers whose Accept-Language is German.',
  class extends ReferenceA {
    override async getItem(request: Request) {
      const item = this.find(this.pathId(request) ?? -1n)
      if (item?.name !== null || !/^de/i.test(header(request, 'accept-language'))) return super.getItem(request)
      return json(200, { ...this.toWire(item), name: '(ohne Namen)' })
    }
  },
)

add(
  'a-list-gzip-not-declared',
  'G3',
  'wire',
  'A list of more than 1 KiB is compressed for callers that accept gzip, without Content-Encoding.',
  class extends ReferenceA {
    override async getItems(request: Request) {
      const result = await super.getItems(request)
      if (result.body.length <= 1024 || !header(request, 'accept-encoding').includes('gzip')) return result
      return { ...result, body: gzipSync(result.body as string) }
    }
  },
)

add(
  'a-flag-remembered-on-connection',
  'A6',
  'state',
  'An absent isComplete is taken from the last body on the same connection.',
  class extends ReferenceA {
    last = new WeakMap<Socket, boolean>()
    override readObject(request: Request): Outcome<JsonObject, BodyFault> {
      const { socket } = request.incoming
      const body = super.readObject(request)
      if (!body.ok) return body
      const { isComplete = this.last.get(socket) } = body.value
      if (typeof isComplete !== 'boolean') return body
      this.last.set(socket, isComplete)
      return accepted({ ...body.value, isComplete })
    }
  },
)

add(
  'a-store-per-authorization',
  'A1',
  'state',
  'Every value of Authorization has a store of its own.',
  storePerHeader('authorization'),
)

add(
  'a-range-with-200',
  'A2',
  'wire',
  'For a Range header GET by id sends only that part of the item, with the status 200.',
  class extends ReferenceA {
    override async getItem(request: Request) {
      const result = await super.getItem(request)
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(header(request, 'range')) ?? []
      return first === undefined ? result : { ...result, body: result.body.slice(Number(first), Number(last) + 1) }
    }
  },
)

add(
  'a-query-id-wins',
  'A2',
  'state',
  'GET by id reads the id from the query where there is one, and not from the path.',
  class extends ReferenceA {
    override async getItem(request: Request) {
      const parameter = new URLSearchParams(request.query).get('id') ?? request.parameter
      return super.getItem({ ...request, parameter })
    }
  },
)

add(
  'a-list-gzip-for-everybody',
  'G3',
  'wire',
  'The list is compressed with gzip also for callers that accept only the identity coding.',
  class extends ReferenceA {
    override async getItems(request: Request) {
      return gzipped(await super.getItems(request))
    }
  },
)

add(
  'a-list-says-gzip-and-is-not',
  'G3',
  'wire',
  'The list has the Content-Encoding gzip, but is not compressed.',
  class extends ReferenceA {
    override async getItems(request: Request) {
      const result = await super.getItems(request)
      return { ...result, headers: { ...result.headers, 'content-encoding': 'gzip' } }
    }
  },
)

add(
  'a-own-origin-403',
  'S5',
  'wire',
  'Writes with an Origin header are refused with 403, those of the page of the server too.',
  class extends ReferenceA {
    override async route(request: Request) {
      const isWrite = !['GET', 'HEAD', 'OPTIONS'].includes(request.method)
      return isWrite && header(request, 'origin') !== '' ? empty(403) : super.route(request)
    }
  },
)

add(
  'a-list-gzip-from-cache',
  'G3',
  'wire',
  'A list that was compressed for one caller is sent from a cache to callers that do not accept gzip.',
  class extends ReferenceA {
    cached: Result | undefined
    override async getItems(request: Request) {
      if (this.cached) return this.cached
      const result = await super.getItems(request)
      if (!header(request, 'accept-encoding').includes('gzip')) return result
      this.cached = gzipped(result)
      return this.cached
    }
    override async route(request: Request) {
      if (request.method !== 'GET') this.cached = undefined
      return super.route(request)
    }
  },
)

add(
  'a-put-of-flag-alone-lost',
  'A7',
  'state',
  'A PUT that changes only isComplete is not stored, which a cache hides for 1.5 seconds.',
  class extends ReferenceA {
    override replace(id: bigint, draft: DraftA) {
      const before = this.items.get(id)
      const isReplaced = super.replace(id, draft)
      const after = this.items.get(id)
      if (before && before.name === draft.name)
        later(1500, () => {
          if (this.items.get(id) === after) this.items.set(id, before)
        })
      return isReplaced
    }
  },
)

// Profile A: texts

add(
  'a-name-cut-at-65535',
  'A3',
  'text',
  'A name is cut after 65,535 characters.',
  storesName((name) => name.slice(0, 65_535)),
)

add(
  'a-name-without-soft-hyphens',
  'A3',
  'text',
  'Soft hyphens and zero-width spaces are removed from a name.',
  storesName((name) => name.replace(/[\u00ad\u200b]/g, '')),
)

add(
  'a-name-links-marked-up',
  'A3',
  'text',
  'A web address in a name becomes an HTML link.',
  storesName((name) => name.replace(/https?:\/\/[^\s<>"]+/g, '<a href="$&">$&</a>')),
)

add(
  'a-name-shortcodes-to-emoji',
  'A3',
  'text',
  'Shortcodes such as :smile: in a name become emoji.',
  storesName((name) =>
    name.replace(
      /:(smile|heart|tada|\+1):/g,
      (_, code: string) => ({ smile: '😄', heart: '❤️', tada: '🎉' })[code] ?? '👍',
    ),
  ),
)

add(
  'a-name-words-filtered',
  'A3',
  'text',
  'Rude words are replaced by asterisks, inside of other words too (class, Scunthorpe).',
  storesName((name) => name.replace(/ass|cunt|damn|fuck|shit/gi, (word) => '*'.repeat(word.length))),
)

add(
  'a-put-name-to-nfc',
  'A7',
  'text',
  'PUT normalises the name to NFC.',
  storesName((name) => name.normalize('NFC'), 'PUT'),
)

add(
  'a-put-name-trimmed',
  'A7',
  'text',
  'PUT trims white space from the ends of a name.',
  storesName((name) => name.trim(), 'PUT'),
)

add(
  'a-name-null-text-to-null',
  'A5',
  'text',
  'The text "null" as a name becomes null.',
  storesName((name) => (name === 'null' ? null : name)),
)

add(
  'a-name-dates-rewritten',
  'A3',
  'text',
  'A name that is an ISO date and time is read as a date and written in another format.',
  storesName((name) =>
    name.replace(/^(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?$/, '$2/$3/$1 $4'),
  ),
)

add(
  'a-name-dollar-patterns',
  'A3',
  'text',
  'A name passes through String.replace as the replacement, so $$ becomes $ and $& another text.',
  storesName((name) => '{name}'.replace('{name}', name)),
)

add(
  'a-name-ends-at-nul',
  'A3',
  'text',
  'A name ends at the first U+0000.',
  storesName((name) => name.split('\0')[0] ?? ''),
)

add(
  'a-name-smart-quotes',
  'A3',
  'text',
  'Straight quotation marks in a name become typographic ones.',
  storesName((name) => name.replace(/"([^"]*)"/g, '“$1”').replace(/(\w)'(\w)/g, '$1’$2')),
)

add(
  'a-name-numeric-text-to-number',
  'A1',
  'text',
  'In the list, a name that consists of digits is a JSON number.',
  class extends ReferenceA {
    override async getItems() {
      const number = ({ name }: ItemA) => (name !== null && /^\d+$/.test(name) ? Number(name) : name)
      return json(
        200,
        this.list().map((item) => ({ ...this.toWire(item), name: number(item) })),
      )
    }
  },
)

add(
  'a-name-broken-at-chunk-border',
  'A3',
  'text',
  'Every part of a request body is decoded by itself, so that a character across two parts becomes U+FFFD.',
  class extends ReferenceA {
    override async readBody(incoming: IncomingMessage) {
      const chunks = await chunksOf(incoming)
      const body = Buffer.concat(chunks)
      const decoded = Buffer.from(chunks.map((chunk) => chunk.toString()).join(''))
      return { body: body.toString().includes('\ufffd') ? body : decoded, bodyTooLong: body.length > 1_048_576 }
    }
  },
)

// Profile A: answers that are rarely wrong

add(
  'a-every-20th-post-200',
  'A3',
  'wire',
  'Every twentieth POST is answered 200 instead of 201.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      return result.status === 201 && this.lastId % 20n === 0n ? { ...result, status: 200 } : result
    }
  },
)

add(
  'a-location-appends-to-own-path',
  'A3',
  'wire',
  'Location is the path of the request as sent, a slash and the id: //5 after a trailing slash, upper case after upper case.',
  class extends ReferenceA {
    override location(request: Request, item: ItemA) {
      return `${this.baseUrl(request)}${request.path}/${item.id}`
    }
  },
)

add(
  'a-location-missing-when-chunked',
  'A3',
  'wire',
  'The answer to a POST with a chunked body has no Location.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      if (header(request, 'transfer-encoding') !== '') delete result.headers.location
      return result
    }
  },
)

add(
  'a-location-keeps-query',
  'A3',
  'wire',
  'Location repeats the query of the request.',
  class extends ReferenceA {
    override location(request: Request, item: ItemA) {
      return super.location(request, item) + request.query
    }
  },
)

add(
  'a-large-post-202',
  'A3',
  'wire',
  'A POST of more than 100,000 bytes is answered 202.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      return result.status === 201 && request.body.length > 100_000 ? { ...result, status: 202 } : result
    }
  },
)

add(
  'a-put-unchanged-200',
  'A7',
  'wire',
  'A PUT that changes nothing is answered 200 with the item.',
  class extends ReferenceA {
    override async putItem(request: Request) {
      const before = this.find(this.pathId(request) ?? -1n)
      const result = await super.putItem(request)
      const after = this.find(before?.id ?? -1n)
      const same = before && after && before.name === after.name && before.isComplete === after.isComplete
      return same && result.status === 204 ? json(200, this.toWire(after)) : result
    }
  },
)

add(
  'a-etag-without-flag',
  'A2',
  'wire',
  'The entity tag of an item does not depend on isComplete, so a conditional GET is 304 after the flag has changed.',
  class extends ReferenceA {
    override async getItem(request: Request) {
      const result = await super.getItem(request)
      const item = this.find(this.pathId(request) ?? -1n)
      if (item === undefined) return result
      const etag = `W/"${createHmac('sha1', `${item.id}`).update(`${item.name}`).digest('hex')}"`
      if (header(request, 'if-none-match') === etag) return empty(304, { etag })
      return { ...result, headers: { ...result.headers, etag } }
    }
  },
)

add(
  'a-double-submit-guard',
  'A4',
  'state',
  'A POST with the same body as the last one, within half a second, creates nothing and returns the item of the last one.',
  class extends ReferenceA {
    last = { body: '', at: -Infinity, id: 0n }
    override async postItem(request: Request) {
      const body = request.body.toString()
      const item = this.find(this.last.id)
      if (item && body === this.last.body && sinceStart() - this.last.at < 500)
        return json(201, this.toWire(item), { location: this.location(request, item) })
      const result = await super.postItem(request)
      if (result.status === 201) this.last = { body, at: sinceStart(), id: this.lastId }
      return result
    }
  },
)

add(
  'a-name-must-be-unique',
  'A3',
  'state',
  'A POST with the name of another item is answered 409.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const body = this.readValid(request)
      const taken = body.ok && this.list().some(({ name }) => name !== null && name === body.value.name)
      return taken ? this.error(request, 409) : super.postItem(request)
    }
  },
)

add(
  'a-completed-item-locked',
  'A7',
  'state',
  'A PUT of an item that is complete is answered 409 unless it sets isComplete to false.',
  class extends ReferenceA {
    override async putItem(request: Request) {
      const item = this.find(this.pathId(request) ?? -1n)
      const body = this.readValid(request)
      const locked = item?.isComplete && body.ok && body.value.id === item.id && body.value.isComplete === true
      return locked ? this.error(request, 409) : super.putItem(request)
    }
  },
)

// Profile A: shapes of answers

add(
  'a-list-of-one-is-object',
  'A1',
  'wire',
  'A list of one item is the item, not an array.',
  class extends ReferenceA {
    override async getItems() {
      const items = this.list().map((item) => this.toWire(item))
      return json(200, items.length === 1 ? (items[0] ?? null) : items)
    }
  },
)

add(
  'a-list-with-gap-is-object',
  'A1',
  'wire',
  'Once an item that is not the last has been deleted, the list is an object with positions as names.',
  class extends ReferenceA {
    override async getItems() {
      const items = this.list()
      if (items.every(({ id }, index) => id === BigInt(index + 1))) return super.getItems({} as Request)
      return json(200, Object.fromEntries(items.map((item) => [String(item.id - 1n), this.toWire(item)])))
    }
  },
)

add(
  'a-list-204-after-last-delete',
  'A1',
  'wire',
  'The list is 204 without a body when all items have been deleted.',
  class extends ReferenceA {
    override async getItems(request: Request) {
      return this.items.size === 0 && this.lastId > 0n ? empty(204) : super.getItems(request)
    }
  },
)

add(
  'a-null-name-omitted-in-list',
  'A1',
  'wire',
  'In the list, an item whose name is null has no member name.',
  class extends ReferenceA {
    override async getItems() {
      const items = this.list().map((item) => this.toWire(item))
      for (const item of items) if (item.name === null) delete item.name
      return json(200, items)
    }
  },
)

add(
  'a-greeting-html-for-browsers',
  'S2',
  'samples',
  'The greeting is HTML for callers that accept text/html.',
  class extends ReferenceA {
    override async getGreeting(request: Request) {
      const result = await super.getGreeting(request)
      if (!header(request, 'accept').includes('text/html')) return result
      return { ...result, headers: { 'content-type': 'text/html; charset=utf-8' }, body: `<h1>${this.greeting()}</h1>` }
    }
  },
)

// Profile A: paths and the interface description

add(
  'a-path-lowered-in-turkish',
  'G1',
  'wire',
  'Paths are lowered by the rules of Turkish, so that /API/TODOITEMS is no known path.',
  class extends ReferenceA {
    override matchLiteral(literal: string, segment: string) {
      return this.decodeSegment(segment)?.toLocaleLowerCase('tr') === literal
    }
  },
)

add(
  'a-item-path-case-sensitive',
  'G1',
  'wire',
  'The path of one item matches in lower case only; the path of the list matches in any case.',
  class extends ReferenceA {
    override findRoute(path: string) {
      const found = super.findRoute(path)
      return found !== undefined && found.parameter !== '' && /[A-Z]/.test(path) ? undefined : found
    }
  },
)

add(
  'a-page-without-delete',
  'S5',
  'document',
  'The page does not list the DELETE operation.',
  class extends ReferenceA {
    override page() {
      return super.page().replace(/<form data-method="DELETE"[\s\S]*?<\/form>/g, '')
    }
  },
)

// Profile A: tokens

const anonymous = (): Outcome<JsonObject, Result> => accepted({})

add(
  'a-empty-bearer-accepted',
  'S3',
  'samples',
  'The scheme Bearer without a token is accepted.',
  class extends ReferenceA {
    override authenticate(request: Request) {
      return /^bearer\s*$/i.test(header(request, 'authorization')) ? anonymous() : super.authenticate(request)
    }
  },
)

add(
  'a-query-token-unchecked',
  'S3',
  'samples',
  'A token in the query, access_token, is accepted without a check of its signature.',
  class extends ReferenceA {
    override authenticate(request: Request) {
      const token = new URLSearchParams(request.query).get('access_token')
      if (!token) return super.authenticate(request)
      return accepted(this.tokenPart(token.split('.')[1] ?? '') ?? {})
    }
  },
)

add(
  'a-document-open-in-mixed-case',
  'S4',
  'samples',
  'The interface description needs no token when its path is not in lower case.',
  class extends ReferenceA {
    override async getDocument(request: Request) {
      return /[A-Z]/.test(request.path) ? json(200, this.document()) : super.getDocument(request)
    }
  },
)

add(
  'a-secret-open-when-percent-encoded',
  'S3',
  'samples',
  '/secret needs no token when its path has a percent-encoding in it (/%73ecret).',
  class extends ReferenceA {
    override async getSecret(request: Request) {
      return request.path.includes('%') ? text(200, this.secret('')) : super.getSecret(request)
    }
  },
)

add(
  'a-signature-first-half',
  'S3',
  'samples',
  'Only the first half of the signature of a token is compared.',
  class extends ReferenceA {
    override signatureMatches(input: string, signature: string) {
      const expected = createHmac('sha256', this.options.tokenKey).update(input).digest('base64url')
      return expected.slice(0, 21) === signature.slice(0, 21)
    }
  },
)

add(
  'a-token-brings-its-key',
  'S3',
  'samples',
  'A token is accepted that is signed with the key in its own header (jwk).',
  class extends ReferenceA {
    override verifyToken(token: string) {
      const { jwk } = this.tokenPart(token.split('.')[0] ?? '') ?? {}
      const own = super.verifyToken(token)
      if (own.ok || !isObject(jwk) || typeof jwk.k !== 'string') return own
      return new ReferenceA({ tokenKey: Buffer.from(jwk.k, 'base64url').toString() }).verifyToken(token)
    }
  },
)

add(
  'a-token-brings-its-rsa-key',
  'S3',
  'samples',
  'A token is accepted that is signed with RS256 and the key pair whose public key is in its header (jwk).',
  class extends ReferenceA {
    override verifyToken(token: string): Outcome<JsonObject, string> {
      const [head = '', payload = '', signature = ''] = token.split('.')
      const { alg, jwk } = this.tokenPart(head) ?? {}
      const claims = this.tokenPart(payload)
      if (alg !== 'RS256' || !isObject(jwk) || claims === undefined) return super.verifyToken(token)
      const key = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' })
      const isSigned = verify('sha256', Buffer.from(`${head}.${payload}`), key, Buffer.from(signature, 'base64url'))
      return isSigned ? accepted(claims) : super.verifyToken(token)
    }
  },
)

add(
  'a-token-of-unknown-key',
  'S3',
  'samples',
  'A token whose header names a key (kid) that the server does not have is checked with an empty key.',
  class extends ReferenceA {
    override verifyToken(token: string) {
      const { kid } = this.tokenPart(token.split('.')[0] ?? '') ?? {}
      return kid === undefined ? super.verifyToken(token) : new ReferenceA({ tokenKey: '' }).verifyToken(token)
    }
  },
)

add(
  'a-identity-name-as-latin1',
  'S3',
  'samples',
  'The claims are decoded as Latin-1, so that an identity name with other letters is garbled.',
  class extends ReferenceA {
    override identity(claims: JsonObject) {
      return Buffer.from(super.identity(claims)).toString('latin1')
    }
  },
)

add(
  'a-forwarded-for-loopback-trusted',
  'S3',
  'samples',
  'A request with X-Forwarded-For: 127.0.0.1 needs no token.',
  class extends ReferenceA {
    override authenticate(request: Request) {
      return header(request, 'x-forwarded-for').startsWith('127.') ? anonymous() : super.authenticate(request)
    }
  },
)

// Profile A: secret

add(
  'a-secret-echoed-in-400',
  'A10',
  'wire',
  'A validation error repeats the body when it brings a secret, secret included.',
  class extends ReferenceA {
    override validate(body: JsonObject): Errors {
      const errors = super.validate(body)
      const echo = Object.keys(errors).length > 0 && body.secret !== undefined
      return echo ? { ...errors, received: [writeJson(body)] } : errors
    }
  },
)

add(
  'a-secret-becomes-name',
  'A10',
  'state',
  'When the name is null or absent, secret becomes the name.',
  class extends ReferenceA {
    override toDraft(body: JsonObject) {
      const { name, isComplete } = super.toDraft(body)
      return { name: name ?? (typeof body.secret === 'string' ? body.secret : null), isComplete }
    }
  },
)

add(
  'a-secret-accepted-as-number',
  'A10',
  'state',
  'A secret that is a number is stored and returned, one that is a text is not.',
  class extends TakesSecretA {
    secretOf({ secret }: JsonObject) {
      return typeof secret === 'bigint' || typeof secret === 'number' ? String(secret) : null
    }
  },
)

add(
  'a-secret-accepted-in-pascal-case',
  'A10',
  'state',
  'A create request may bring a secret by the name Secret, and the item is returned with it.',
  class extends TakesSecretA {
    secretOf({ Secret: secret }: JsonObject) {
      return typeof secret === 'string' ? secret : null
    }
  },
)

add(
  'a-secret-in-list-after-put',
  'A10',
  'wire',
  'The list shows the member secret of items that have been changed by PUT.',
  class extends ReferenceA {
    changed = new Set<bigint>()
    override replace(id: bigint, draft: DraftA) {
      this.changed.add(id)
      return super.replace(id, draft)
    }
    override async getItems() {
      const wire = (item: ItemA) =>
        this.changed.has(item.id) ? { ...this.toWire(item), secret: item.secret } : this.toWire(item)
      return json(200, this.list().map(wire))
    }
  },
)

// Profile A: ids, bodies and the forecast

add(
  'a-body-id-compared-as-double',
  'A8',
  'wire',
  'PUT compares the ids of path and body as doubles: 9007199254740993 and 9007199254740992 are the same.',
  class extends ReferenceA {
    override readValid(request: Request) {
      const body = super.readValid(request)
      if (request.method !== 'PUT' || !body.ok || typeof body.value.id !== 'bigint') return body
      const id = this.pathId(request) ?? body.value.id
      return Number(id) === Number(body.value.id) ? accepted({ ...body.value, id }) : body
    }
  },
)

add(
  'a-path-id-cut-to-32-bits',
  'A11',
  'state',
  'GET by id uses the low 32 bits of the id: 4294967297 finds item 1.',
  class extends ReferenceA {
    override find(id: bigint) {
      return super.find(BigInt.asIntN(32, id))
    }
  },
)

add(
  'a-delete-ignores-sign',
  'A9',
  'state',
  'DELETE of id -1 deletes item 1.',
  class extends ReferenceA {
    override remove(id: bigint) {
      return super.remove(id < 0n ? -id : id)
    }
  },
)

add(
  'a-put-restores-soft-deleted',
  'A8',
  'state',
  'A PUT of an item that has been deleted is answered 204 and brings the item back.',
  class extends ReferenceA {
    deleted = new Map<bigint, ItemA>()
    override remove(id: bigint) {
      const item = this.items.get(id)
      if (item) this.deleted.set(id, item)
      return super.remove(id)
    }
    override replace(id: bigint, draft: DraftA) {
      const item = this.deleted.get(id)
      if (item) this.items.set(id, item)
      this.deleted.delete(id)
      return super.replace(id, draft)
    }
    override list() {
      return super.list().sort((one, other) => Number(one.id - other.id))
    }
  },
)

add(
  'a-post-with-id-overwrites',
  'A4',
  'state',
  'A POST that brings the id of an existing item changes that item instead of creating one.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const body = this.readValid(request)
      if (!body.ok || typeof body.value.id !== 'bigint') return super.postItem(request)
      const item = this.replace(body.value.id, this.toDraft(body.value)) ? this.find(body.value.id) : undefined
      if (item === undefined) return super.postItem(request)
      return json(201, this.toWire(item), { location: this.location(request, item) })
    }
  },
)

add(
  'a-put-null-flag-keeps-old',
  'A6',
  'state',
  'A PUT in which isComplete is null is answered 204 and keeps the stored flag.',
  class extends ReferenceA {
    override readObject(request: Request): Outcome<JsonObject, BodyFault> {
      const body = super.readObject(request)
      const item = this.find(this.pathId(request) ?? -1n)
      if (request.method !== 'PUT' || !item || !body.ok || body.value.isComplete !== null) return body
      return accepted({ ...body.value, isComplete: item.isComplete })
    }
  },
)

add(
  'a-refused-put-changes-name',
  'A6',
  'state',
  'A PUT without a valid isComplete is answered 400, but the name has been changed already.',
  class extends ReferenceA {
    override async putItem(request: Request) {
      const body = this.readObject(request)
      const item = this.find(this.pathId(request) ?? -1n)
      if (
        item &&
        body.ok &&
        body.value.id === item.id &&
        Object.keys(this.validate(body.value)).join() === 'isComplete'
      )
        this.replace(item.id, { ...this.toDraft(body.value), isComplete: item.isComplete })
      return super.putItem(request)
    }
  },
)

add(
  'a-refused-post-stored',
  'A6',
  'state',
  'A POST without a valid isComplete is answered 400, but the item has been stored.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const body = this.readObject(request)
      if (body.ok && Object.keys(this.validate(body.value)).join() === 'isComplete')
        this.insert(this.toDraft(body.value))
      return super.postItem(request)
    }
  },
)

add(
  'a-fahrenheit-rounded-down',
  'S1',
  'samples',
  'temperatureF is rounded down instead of truncated, which differs below 0 °C.',
  class extends ReferenceA {
    override fahrenheit(celsius: number) {
      return 32 + Math.floor(celsius / 0.5556)
    }
  },
)

add(
  'a-forecast-rarely-55',
  'S1',
  'samples',
  'temperatureC is 55 in one entry of 76.',
  class extends ReferenceA {
    override forecastEntry(now: Date, days: number): ForecastEntry {
      const entry = super.forecastEntry(now, days)
      return randomInt(76) > 0 ? entry : { ...entry, temperatureC: 55, temperatureF: this.fahrenheit(55) }
    }
  },
)

// Profile B: several operations at once

/** POST with a slow store. */
abstract class SlowPostB extends ReferenceB {
  abstract write(item: ItemB): Promise<void>

  override async postItem(request: Request): Promise<Result> {
    const read = this.readItem(request, 'CouldNotCreateItem')
    if (!read.ok || this.find(read.value.id) !== undefined || !this.isStorable(read.value))
      return super.postItem(request)
    await this.write(read.value)
    return json(200, this.toWire(read.value))
  }
}

/** PUT with a slow store. */
abstract class SlowPutB extends ReferenceB {
  abstract write(item: ItemB): Promise<void>

  override async putItem(request: Request): Promise<Result> {
    const read = this.readItem(request, 'CouldNotUpdateItem')
    if (!read.ok || this.find(read.value.id) === undefined || !this.isStorable(read.value))
      return super.putItem(request)
    await this.write(read.value)
    return empty(204)
  }
}

/** Stores other texts than the ones that were sent. */
const storesText = (change: (text: string) => string, ...members: ('id' | 'name' | 'notes')[]) =>
  class extends ReferenceB {
    override toItem(body: JsonObject): ItemB {
      const item = super.toItem(body)
      return { ...item, ...Object.fromEntries(members.map((member) => [member, change(item[member])])) }
    }
  }

/** Removes by another id than the one in the path. */
const deletesAs = (change: (parameter: string) => string) =>
  class extends ReferenceB {
    override async deleteItem(request: Request): Promise<Result> {
      return super.deleteItem({ ...request, parameter: change(request.parameter) })
    }
  }

const tryDecode = (source: string) => {
  try {
    return decodeURIComponent(source)
  } catch {
    return source
  }
}

add(
  'b-posts-at-once-same-id-both-200',
  'B5',
  'state',
  'Two POSTs with the same id at once are both answered 200.',
  class extends SlowPostB {
    async write(item: ItemB) {
      await sleep(4)
      this.insert(item)
    }
  },
)

add(
  'b-post-lost-beside-post',
  'B3',
  'state',
  'A POST writes back a copy of the whole store, so that of several POSTs at once only one remains.',
  class extends SlowPostB {
    async write(item: ItemB) {
      const copy = this.list()
      await sleep(4)
      this.items.clear()
      for (const one of [...copy, item]) this.insert(one)
    }
  },
)

add(
  'b-puts-at-once-mixed',
  'B7',
  'state',
  'Two PUTs of one item at once can leave the name of one and the notes of the other.',
  class extends SlowPutB {
    async write({ id, name, notes, done }: ItemB) {
      const column = async (part: Partial<ItemB>) => {
        await sleep(randomInt(1, 8))
        const item = this.items.get(id)
        if (item !== undefined) this.items.set(id, { ...item, ...part })
      }
      await Promise.all([column({ name }), column({ notes }), column({ done })])
    }
  },
)

add(
  'b-put-in-flight-restores-deleted',
  'B8',
  'state',
  'A PUT that began before a DELETE of the same item brings the item back.',
  class extends SlowPutB {
    async write(item: ItemB) {
      await sleep(12)
      this.items.set(item.id, item)
    }
  },
)

add(
  'b-list-null-for-deleted',
  'B1',
  'state',
  'An item that is deleted while the list is read is null in it.',
  class extends ReferenceB {
    override async getItems() {
      const ids = [...this.items.keys()]
      await sleep(5)
      return json(
        200,
        ids.map((id) => this.find(id)).map((item) => (item ? this.toWire(item) : null)),
      )
    }
  },
)

add(
  'b-list-item-twice-beside-post',
  'B1',
  'state',
  'The list is read in pages of ten, newest first, so that a POST at the same time makes an item appear twice.',
  class extends ReferenceB {
    override async getItems() {
      const items: ItemB[] = []
      for (let at = 0; ; at += 10) {
        const page = this.list()
          .reverse()
          .slice(at, at + 10)
        items.push(...page)
        if (page.length < 10) break
        await sleep(1)
      }
      return json(
        200,
        items.reverse().map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'b-late-purge-takes-recreated',
  'B8',
  'state',
  'A DELETE removes by id once more 30 ms later, and takes an item that was created since.',
  class extends ReferenceB {
    override remove(id: string) {
      if (this.items.has(id)) later(30, () => this.items.delete(id))
      return super.remove(id)
    }
  },
)

add(
  'b-put-throttled',
  'B7',
  'state',
  'A PUT within 20 ms of another PUT of the same item is answered 204 and dropped.',
  class extends ReferenceB {
    last = new Map<string, number>()
    override replace(id: string, item: ItemB) {
      if (this.items.has(id) && sinceStart() - (this.last.get(id) ?? -Infinity) < 20) return true
      this.last.set(id, sinceStart())
      return super.replace(id, item)
    }
  },
)

// Profile B: time

add(
  'b-deleted-returns-after-2s',
  'B8',
  'state',
  'A deleted item is back two seconds later.',
  class extends ReferenceB {
    override remove(id: string) {
      const item = this.items.get(id)
      if (item) later(2000, () => this.items.has(id) || this.items.set(id, item))
      return super.remove(id)
    }
  },
)

add(
  'b-done-reset-after-3s',
  'B7',
  'state',
  'Three seconds after a PUT sets done it is false again.',
  class extends ReferenceB {
    override replace(id: string, item: ItemB) {
      later(3000, () => this.items.get(id) === item && this.items.set(id, { ...item, done: false }))
      return super.replace(id, item)
    }
  },
)

add(
  'b-done-archived-after-2s',
  'B1',
  'state',
  'An item created with done true is gone after two seconds.',
  class extends ReferenceB {
    override insert(item: ItemB) {
      if (item.done) later(2000, () => this.items.get(item.id) === item && this.items.delete(item.id))
      return super.insert(item)
    }
  },
)

add(
  'b-deleted-id-refused-for-3s',
  'B5',
  'state',
  'A POST with the id of an item deleted in the last three seconds is answered 409.',
  class extends ReferenceB {
    gone = new Map<string, number>()
    override remove(id: string) {
      if (this.items.has(id)) this.gone.set(id, sinceStart())
      return super.remove(id)
    }
    override async postItem(request: Request) {
      const read = this.readItem(request, 'CouldNotCreateItem')
      const refused = read.ok && sinceStart() - (this.gone.get(read.value.id) ?? -Infinity) < 3000
      return refused ? this.error(409, 'TodoItemIDInUse') : super.postItem(request)
    }
  },
)

add(
  'b-large-list-cached-1s',
  'B1',
  'state',
  'A list of more than 50 items is cached for one second.',
  class extends ReferenceB {
    cached: Result | undefined
    override async getItems(request: Request) {
      if (this.cached) return this.cached
      const result = await super.getItems(request)
      if (this.items.size > 50) {
        this.cached = result
        later(1000, () => (this.cached = undefined))
      }
      return result
    }
  },
)

add(
  'b-starting-items-return-when-empty',
  'B8',
  'state',
  'A list request finds the three starting items again when all items have been deleted.',
  class extends ReferenceB {
    override async getItems(request: Request) {
      if (this.items.size === 0) for (const item of this.startingItems()) this.insert(item)
      return super.getItems(request)
    }
  },
)

add(
  'b-put-visible-after-60ms',
  'B7',
  'state',
  'The list shows the item from before a PUT for another 60 ms.',
  class extends ReferenceB {
    before = new Map<string, ItemB>()
    override replace(id: string, item: ItemB) {
      const old = this.items.get(id)
      if (old) this.before.set(id, old)
      later(60, () => this.before.get(id) === old && this.before.delete(id))
      return super.replace(id, item)
    }
    override list() {
      return super.list().map((item) => this.before.get(item.id) ?? item)
    }
  },
)

add(
  'b-list-empty-after-head',
  'B1',
  'state',
  'The response to a HEAD of the list is cached for 1.5 seconds, or until a write, and sent to GET without a body.',
  class extends ReferenceB {
    cachedUntil = 0
    override async route(request: Request) {
      if (request.method !== 'GET') this.cachedUntil = request.method === 'HEAD' ? sinceStart() + 1500 : 0
      return super.route(request)
    }
    override async getItems(request: Request) {
      const result = await super.getItems(request)
      return request.method === 'GET' && sinceStart() < this.cachedUntil ? { ...result, body: '' } : result
    }
  },
)

add(
  'b-puts-written-in-other-order',
  'B7',
  'state',
  'Of two PUTs of one item within 250 ms the first is written again 800 ms later.',
  class extends ReferenceB {
    last = new Map<string, { item: ItemB; at: number }>()
    override replace(id: string, item: ItemB) {
      const { item: first, at } = this.last.get(id) ?? { item, at: -Infinity }
      if (sinceStart() - at < 250)
        later(800, () => {
          if (this.items.has(id)) this.items.set(id, first)
        })
      this.last.set(id, { item, at: sinceStart() })
      return super.replace(id, item)
    }
  },
)

add(
  'b-put-written-again-after-delete',
  'B8',
  'state',
  'A PUT is written again 700 ms later, so that an item that was deleted in between comes back.',
  class extends ReferenceB {
    override replace(id: string, item: ItemB) {
      later(700, () => this.items.set(id, item))
      return super.replace(id, item)
    }
  },
)

add(
  'b-list-read-in-pages-of-five',
  'B1',
  'state',
  'The list is read in pages of five by offset, 8 ms each, so that a DELETE of an earlier item makes it skip one.',
  class extends ReferenceB {
    override async getItems() {
      const items: ItemB[] = []
      for (let at = 0; at < this.items.size; at += 5) {
        items.push(...this.list().slice(at, at + 5))
        await sleep(8)
      }
      return json(
        200,
        items.map((item) => this.toWire(item)),
      )
    }
  },
)

// Profile B: numbers

add(
  'b-list-cut-at-250',
  'B1',
  'state',
  'The list has at most 250 items.',
  class extends ReferenceB {
    override async getItems() {
      return json(
        200,
        this.list()
          .slice(0, 250)
          .map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'b-list-newest-1000',
  'B1',
  'state',
  'The list has the newest 1,000 items only.',
  class extends ReferenceB {
    override async getItems() {
      return json(
        200,
        this.list()
          .slice(-1000)
          .map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'b-oldest-evicted-beyond-200',
  'B1',
  'state',
  'The store keeps 200 items and drops the oldest when another is created.',
  class extends ReferenceB {
    override insert(item: ItemB) {
      const oldest = this.list()[0]
      if (this.items.size >= 200 && oldest) this.items.delete(oldest.id)
      return super.insert(item)
    }
  },
)

/** As in Java, the lower 16 bits. */
const hashOf = (id: string) => [...Buffer.from(id)].reduce((hash, byte) => (hash * 31 + byte) & 0xffff, 0)

add(
  'b-ids-compared-by-hash',
  'B5',
  'state',
  'POST compares ids by a hash of 16 bits, so that Aa and BB, and now and then two others, are the same.',
  class extends ReferenceB {
    override find(id: string) {
      return super.find(id) ?? this.list().find((item) => hashOf(item.id) === hashOf(id))
    }
  },
)

// Profile B: who asks

add(
  'b-store-per-cookie',
  'B1',
  'state',
  'Every value of Cookie has a store of its own.',
  class extends ReferenceB {
    stores = new Map<string, ReferenceB>()
    override async route(request: Request) {
      const cookie = header(request, 'cookie')
      const store = this.stores.get(cookie) ?? new ReferenceB(this.options)
      this.stores.set(cookie, store)
      return store.route(request)
    }
  },
)

add(
  'b-created-seen-on-own-connection-only',
  'B1',
  'state',
  'A created item is in the list for other connections only after the connection that created it has ended.',
  class extends ReferenceB {
    creators = new Map<string, Socket>()
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      const read = this.readItem(request, 'CouldNotCreateItem')
      if (result.status === 200 && read.ok) this.creators.set(read.value.id, request.incoming.socket)
      return result
    }
    override async getItems(request: Request) {
      const visible = ({ id }: ItemB) => {
        const creator = this.creators.get(id)
        return creator === undefined || creator === request.incoming.socket || creator.destroyed
      }
      return json(
        200,
        this.list()
          .filter(visible)
          .map((item) => this.toWire(item)),
      )
    }
  },
)

add(
  'b-browser-redirected-after-post',
  'B3',
  'wire',
  'A POST by a browser (User-Agent with Mozilla) is answered 303 to the list.',
  class extends ReferenceB {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      const redirect = result.status === 200 && header(request, 'user-agent').includes('Mozilla')
      return redirect ? empty(303, { location: '/api/todoitems' }) : result
    }
  },
)

add(
  'b-list-etag-counts-items',
  'B1',
  'wire',
  'The entity tag of the list is the number of items, so a conditional GET is 304 after a PUT.',
  class extends ReferenceB {
    override async getItems(request: Request) {
      const etag = `"${this.items.size}"`
      if (header(request, 'if-none-match') === etag) return empty(304, { etag })
      const result = await super.getItems(request)
      return { ...result, headers: { ...result.headers, etag } }
    }
  },
)

add(
  'b-upgrade-insecure-redirected',
  'B12',
  'wire',
  'In development, a request with Upgrade-Insecure-Requests: 1 is redirected to HTTPS.',
  class extends ReferenceB {
    override async route(request: Request) {
      return header(request, 'upgrade-insecure-requests') === '1' ? this.redirect(request) : super.route(request)
    }
  },
)

add(
  'b-list-cached-by-spelling-of-path',
  'B1',
  'state',
  'The list is cached by the path as sent; a change under another spelling of the path does not clear it.',
  class extends ReferenceB {
    cached = new Map<string, Result>()
    override async getItems(request: Request) {
      const result = this.cached.get(request.path) ?? (await super.getItems(request))
      this.cached.set(request.path, result)
      return result
    }
    override async route(request: Request) {
      const [collection = ''] = /^\/[^/]+\/[^/]+/.exec(request.path) ?? []
      if (request.method !== 'GET') for (const path of [collection, `${collection}/`]) this.cached.delete(path)
      return super.route(request)
    }
  },
)

// Profile B: texts

add(
  'b-notes-cut-at-65536-bytes',
  'B3',
  'text',
  'Notes are cut after 65,536 bytes of UTF-8.',
  storesText((text) => {
    const bytes = Buffer.from(text)
    return bytes.length <= 65_536
      ? text
      : bytes
          .subarray(0, 65_536)
          .toString()
          .replace(/\ufffd$/, '')
  }, 'notes'),
)

add(
  'b-large-body-as-latin1',
  'B3',
  'text',
  'A body of more than 16 KiB is decoded as Latin-1.',
  class extends ReferenceB {
    override decodeBody(body: Buffer) {
      const source = super.decodeBody(body)
      return body.length > 16_384 ? Buffer.from(source).toString('latin1') : source
    }
  },
)

add(
  'b-body-decoded-in-blocks',
  'B3',
  'text',
  'A body is decoded in blocks of 8 KiB, so that a character across two blocks becomes U+FFFD.',
  class extends ReferenceB {
    override decodeBody(body: Buffer) {
      super.decodeBody(body) // throws unless valid
      let source = ''
      for (let at = 0; at < body.length; at += 8192) source += body.subarray(at, at + 8192).toString()
      return source.replace(/^\ufeff/, '')
    }
  },
)

add(
  'b-notes-white-space-collapsed',
  'B3',
  'text',
  'Runs of white space in notes become one space.',
  storesText((text) => text.replace(/\s+/g, ' '), 'notes'),
)

add(
  'b-notes-tags-stripped',
  'B3',
  'text',
  'HTML tags are removed from notes.',
  storesText((text) => text.replace(/<\/?[a-z][^>]*>/gi, ''), 'notes'),
)

add(
  'b-notes-dashes-and-ellipsis',
  'B3',
  'text',
  'Two hyphens become a dash and three dots an ellipsis in notes.',
  storesText((text) => text.replace(/--/g, '—').replace(/\.{3}/g, '…'), 'notes'),
)

add(
  'b-emoji-without-joiners',
  'B3',
  'text',
  'Zero-width joiners and variation selectors are removed from names, so that emoji fall apart.',
  storesText((text) => text.replace(/[\u200c\u200d\ufe0e\ufe0f]/g, ''), 'name'),
)

add(
  'b-name-to-nfkc',
  'B3',
  'text',
  'Names are normalised to NFKC: ﬁ becomes fi, ① becomes 1.',
  storesText((text) => text.normalize('NFKC'), 'name'),
)

add(
  'b-notes-folded-at-998',
  'B3',
  'text',
  'A line of notes that is longer than 998 characters is folded.',
  storesText((text) => text.replace(/[^\r\n]{998}(?=[^\r\n])/g, '$&\r\n'), 'notes'),
)

add(
  'b-notes-card-numbers-masked',
  'B3',
  'text',
  'Groups of 16 digits in notes are masked but for the last four.',
  storesText((text) => text.replace(/\b(?:\d[ -]?){12}(\d{4})\b/g, '************$1'), 'notes'),
)

add(
  'b-notes-slashes-stripped',
  'B3',
  'text',
  'A backslash in notes that stands before a quotation mark or another backslash is removed.',
  storesText((text) => text.replace(/\\(["'\\])/g, '$1'), 'notes'),
)

add(
  'b-put-notes-line-ends',
  'B7',
  'text',
  'PUT writes CR LF in notes as LF.',
  class extends ReferenceB {
    override replace(id: string, item: ItemB) {
      return super.replace(id, { ...item, notes: item.notes.replace(/\r\n/g, '\n') })
    }
  },
)

// Profile B: answers that are rarely wrong

add(
  'b-error-as-json-string',
  'B9',
  'wire',
  'Callers that accept application/json get the error code as a JSON string.',
  class extends ReferenceB {
    override async route(request: Request) {
      const result = await super.route(request)
      const rewrite =
        result.status >= 400 && result.body !== '' && header(request, 'accept').includes('application/json')
      return rewrite ? json(result.status, result.body as string) : result
    }
  },
)

add(
  'b-large-put-200',
  'B7',
  'wire',
  'A PUT of more than 64 KiB is answered 200 with the item.',
  class extends ReferenceB {
    override async putItem(request: Request) {
      const result = await super.putItem(request)
      const read = this.readItem(request, 'CouldNotUpdateItem')
      return result.status === 204 && read.ok && request.body.length > 65_536
        ? json(200, this.toWire(read.value))
        : result
    }
  },
)

add(
  'b-every-25th-list-short',
  'B1',
  'state',
  'Every twenty-fifth list lacks its last item.',
  class extends ReferenceB {
    count = 0
    override list() {
      return ++this.count % 25 === 0 ? super.list().slice(0, -1) : super.list()
    }
  },
)

add(
  'b-large-invalid-other-code',
  'B4',
  'wire',
  'A missing field is answered CouldNotCreateItem when the body has more than 32 KiB.',
  class extends ReferenceB {
    override async postItem(request: Request) {
      const body = this.readObject(request)
      const other = body.ok && !this.validate(body.value) && request.body.length > 32_768
      return other ? this.error(400, 'CouldNotCreateItem') : super.postItem(request)
    }
  },
)

add(
  'b-every-tenth-error-empty',
  'B9',
  'wire',
  'Every tenth error has no body.',
  class extends ReferenceB {
    errors = 0
    override error(status: number, code: CodeB) {
      return ++this.errors % 10 === 0
        ? empty(status, { 'content-type': 'text/plain; charset=utf-8' })
        : super.error(status, code)
    }
  },
)

add(
  'b-replaced-id-created-again',
  'B5',
  'state',
  'A POST with the id of an item that has been replaced by PUT is answered 200 and overwrites it.',
  class extends ReferenceB {
    replaced = new Set<string>()
    override replace(id: string, item: ItemB) {
      this.replaced.add(id)
      return super.replace(id, item)
    }
    override async postItem(request: Request) {
      const read = this.readItem(request, 'CouldNotCreateItem')
      if (!read.ok || !this.replaced.delete(read.value.id) || !this.isStorable(read.value))
        return super.postItem(request)
      return json(200, this.toWire(this.insert(read.value)))
    }
  },
)

add(
  'b-conflict-overwrites',
  'B5',
  'state',
  'A POST that is answered 409 has replaced the item.',
  class extends ReferenceB {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      const read = this.readItem(request, 'CouldNotCreateItem')
      if (result.status === 409 && read.ok && this.isStorable(read.value)) this.replace(read.value.id, read.value)
      return result
    }
  },
)

add(
  'b-refused-put-changes-name',
  'B4',
  'state',
  'A PUT without notes is answered 400, but the name has been changed already.',
  class extends ReferenceB {
    override async putItem(request: Request) {
      const body = this.readObject(request)
      const item = body.ok && typeof body.value.id === 'string' ? this.items.get(body.value.id) : undefined
      if (item && body.ok && body.value.notes === undefined && this.validate({ ...body.value, notes: 'x' }))
        this.items.set(item.id, { ...item, name: body.value.name as string })
      return super.putItem(request)
    }
  },
)

add(
  'b-delete-by-name',
  'B8',
  'state',
  'DELETE with the name of an item in place of its id is answered 204 and deletes it.',
  class extends ReferenceB {
    override remove(id: string) {
      return super.remove(id) || super.remove(this.list().find(({ name }) => name === id)?.id ?? '')
    }
  },
)

add(
  'b-delete-404-after-put',
  'B8',
  'state',
  'An item that has been replaced by PUT cannot be deleted: 404.',
  class extends ReferenceB {
    replaced = new Set<string>()
    override replace(id: string, item: ItemB) {
      this.replaced.add(id)
      return super.replace(id, item)
    }
    override remove(id: string) {
      return !this.replaced.has(id) && super.remove(id)
    }
  },
)

add(
  'b-put-of-deleted-creates',
  'B7',
  'state',
  'A PUT with the id of a deleted item is answered 204 and creates it again.',
  class extends ReferenceB {
    deleted = new Map<string, ItemB>()
    override remove(id: string) {
      const item = this.items.get(id)
      if (item) this.deleted.set(id, item)
      return super.remove(id)
    }
    override async putItem(request: Request) {
      const read = this.readItem(request, 'CouldNotUpdateItem')
      const item = read.ok && this.isStorable(read.value) ? this.deleted.get(read.value.id) : undefined
      if (item && this.deleted.delete(item.id) && !this.items.has(item.id)) this.insert(item)
      return super.putItem(request)
    }
  },
)

add(
  'b-done-not-deletable',
  'B8',
  'state',
  'DELETE of an item that is done is answered 400.',
  class extends ReferenceB {
    override remove(id: string) {
      if (this.items.get(id)?.done) throw new Error('done')
      return super.remove(id)
    }
  },
)

add(
  'b-done-number-after-put',
  'B1',
  'wire',
  'In the list, done of an item replaced by PUT is 0 or 1.',
  class extends ReferenceB {
    replaced = new Set<string>()
    override replace(id: string, item: ItemB) {
      this.replaced.add(id)
      return super.replace(id, item)
    }
    override async getItems() {
      const done = (item: ItemB): Json => (this.replaced.has(item.id) ? Number(item.done) : item.done)
      return json(
        200,
        this.list().map((item) => ({ ...this.toWire(item), done: done(item) })),
      )
    }
  },
)

// Profile B: ids

add(
  'b-id-of-object-member-in-use',
  'B5',
  'state',
  'A POST with an id that every object has as a member (constructor, toString) is answered 409.',
  class extends ReferenceB {
    override find(id: string) {
      return id in {} ? { id, name: '', notes: '', done: false } : super.find(id)
    }
  },
)

add(
  'b-id-proto-not-stored',
  'B3',
  'state',
  'An item with the id __proto__ is answered 200 and not stored.',
  class extends ReferenceB {
    override insert(item: ItemB) {
      return item.id === '__proto__' ? item : super.insert(item)
    }
  },
)

add(
  'b-id-of-12-characters-not-found',
  'B7',
  'state',
  'An id of 12 characters is taken for another kind of id: PUT and DELETE do not find its item.',
  class extends ReferenceB {
    override async putItem(request: Request) {
      const body = this.readItem(request, 'CouldNotUpdateItem')
      return body.ok && body.value.id.length === 12 ? this.error(404, 'RecordNotFound') : super.putItem(request)
    }
    override async deleteItem(request: Request) {
      return request.parameter.length === 12 ? this.error(404, 'RecordNotFound') : super.deleteItem(request)
    }
  },
)

add(
  'b-delete-in-any-case',
  'B8',
  'state',
  'POST tells ids apart by case, DELETE does not: it deletes the first of ABC and abc.',
  class extends ReferenceB {
    override remove(id: string) {
      const lower = id.toLowerCase()
      return super.remove(this.list().find((item) => item.id.toLowerCase() === lower)?.id ?? id)
    }
  },
)

add(
  'b-id-trimmed',
  'B3',
  'text',
  'White space at the ends of an id is removed.',
  storesText((text) => text.trim(), 'id'),
)

add(
  'b-id-to-nfc',
  'B3',
  'text',
  'An id is normalised to NFC.',
  storesText((text) => text.normalize('NFC'), 'id'),
)

add(
  'b-id-of-digits-as-number',
  'B3',
  'text',
  'An id that looks like a number is read as one: 007 becomes 7 and 1e3 becomes 1000.',
  storesText((text) => (/^\d+(\.\d+)?(e\d+)?$/i.test(text) ? String(Number(text)) : text), 'id'),
)

add(
  'b-guid-in-lower-case',
  'B3',
  'text',
  'An id that is a GUID is stored in lower case.',
  storesText((text) => (/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text) ? text.toLowerCase() : text), 'id'),
)

add(
  'b-id-cut-at-255',
  'B3',
  'text',
  'An id is cut after 255 characters.',
  storesText((text) => ([...text].length > 1024 ? text : [...text].slice(0, 255).join('')), 'id'),
)

add(
  'b-delete-extension-stripped',
  'B8',
  'state',
  'DELETE takes the end of an id after a dot (report.json) for a format and leaves it out.',
  deletesAs((parameter) => parameter.replace(/\.[a-z]\w*$/i, '')),
)

add(
  'b-delete-plus-as-space',
  'B8',
  'state',
  'DELETE reads a plus in the path as a space.',
  deletesAs((parameter) => parameter.replace(/\+/g, '%20')),
)

add(
  'b-delete-decoded-twice',
  'B8',
  'state',
  'DELETE decodes the id twice, so that it takes %41 for A.',
  deletesAs((parameter) => encodeURIComponent(tryDecode(tryDecode(parameter)))),
)

add(
  'b-delete-cut-at-question-mark',
  'B8',
  'state',
  'DELETE decodes the path before it looks for the query, so that an id ends at an encoded ? or #.',
  deletesAs((parameter) => parameter.replace(/%(3f|23).*$/i, '')),
)

add(
  'b-delete-matrix-parameters',
  'B8',
  'state',
  'DELETE takes the part of an id after a semicolon for a path parameter and leaves it out.',
  deletesAs((parameter) => parameter.replace(/(;|%3b).*$/i, '')),
)

add(
  'b-delete-encoded-slash-is-path',
  'B8',
  'state',
  'An encoded slash in the id of a DELETE separates path segments, so the item is not found.',
  class extends ReferenceB {
    override findRoute(path: string) {
      return super.findRoute(path.replace(/%2f/gi, '/'))
    }
    override notFoundPath(request: Request) {
      return request.method === 'DELETE' ? this.error(404, 'RecordNotFound') : super.notFoundPath(request)
    }
  },
)

add(
  'b-delete-with-like',
  'B8',
  'state',
  'DELETE compares ids as LIKE does: _ stands for any character and % for any text, and the first match is deleted.',
  class extends ReferenceB {
    override remove(id: string) {
      const source = id
        .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
        .replace(/_/g, '.')
        .replace(/%/g, '.*')
      const pattern = new RegExp(`^${source}$`, 'su')
      return super.remove(this.list().find((item) => pattern.test(item.id))?.id ?? id)
    }
  },
)

add(
  'b-delete-of-escaped-id',
  'B8',
  'state',
  'An item whose id has a quotation mark, a backslash or a control character cannot be deleted.',
  class extends ReferenceB {
    override remove(id: string) {
      return super.remove(JSON.stringify(id).slice(1, -1))
    }
  },
)

add(
  'b-numeric-ids-compared-as-doubles',
  'B5',
  'state',
  'POST compares two ids of digits as doubles: 9007199254740993 is in use when 9007199254740992 is.',
  class extends ReferenceB {
    override find(id: string) {
      if (!/^[1-9]\d*$/.test(id)) return super.find(id)
      return this.list().find((item) => /^[1-9]\d*$/.test(item.id) && Number(item.id) === Number(id))
    }
  },
)

add(
  'b-null-text-missing',
  'B4',
  'state',
  'The texts null and undefined count as missing.',
  class extends ReferenceB {
    override isPresent(value: Json | undefined) {
      return value !== 'null' && value !== 'undefined' && super.isPresent(value)
    }
  },
)

add(
  'b-zero-text-missing',
  'B4',
  'state',
  'The text 0 counts as missing.',
  class extends ReferenceB {
    override isPresent(value: Json | undefined) {
      return value !== '0' && super.isPresent(value)
    }
  },
)

// Profile B: tokens and samples

add(
  'b-token-alg-none',
  'S3',
  'samples',
  'A token with the algorithm none, in any case, and no signature is accepted.',
  class extends ReferenceB {
    override verifyToken(token: string): Outcome<JsonObject, string> {
      const [head = '', payload = '', signature] = token.split('.')
      const claims = this.tokenPart(payload)
      const none = /^none$/i.test(String(this.tokenPart(head)?.alg)) && signature === ''
      return none && claims && this.timeAllows(claims) ? accepted(claims) : super.verifyToken(token)
    }
  },
)

add(
  'b-signature-in-any-case',
  'S3',
  'samples',
  'The signature of a token is compared without case.',
  class extends ReferenceB {
    override signatureMatches(input: string, signature: string) {
      const expected = createHmac('sha256', this.options.tokenKey).update(input).digest('base64url')
      return expected.toLowerCase() === signature.toLowerCase()
    }
  },
)

add(
  'b-connection-stays-authorized',
  'S3',
  'samples',
  'After one request with a valid token, the next ones on the same connection need none.',
  class extends ReferenceB {
    callers = new WeakMap<Socket, JsonObject>()
    override authenticate(request: Request) {
      const { socket } = request.incoming
      const known = this.callers.get(socket)
      const caller = super.authenticate(request)
      if (caller.ok) this.callers.set(socket, caller.value)
      return known && header(request, 'authorization') === '' ? accepted(known) : caller
    }
  },
)

add(
  'b-document-open-from-page',
  'S4',
  'samples',
  'The interface description needs no token when Referer is the page.',
  class extends ReferenceB {
    override async getDocument(request: Request) {
      const page = header(request, 'referer').includes('/swagger')
      return page ? json(200, this.document()) : super.getDocument(request)
    }
  },
)

add(
  'b-401-has-secret-phrase',
  'S3',
  'samples',
  'The 401 of /secret has the greeting with the secret phrase as its body.',
  class extends ReferenceB {
    override async getSecret(request: Request) {
      const result = await super.getSecret(request)
      return result.status === 401 ? text(401, this.secret('stranger'), result.headers) : result
    }
  },
)

add(
  'b-bad-token-refused-everywhere',
  'S7',
  'samples',
  'A bad token in a request for the forecast is answered 401.',
  class extends ReferenceB {
    override async getForecast(request: Request) {
      const caller = this.authenticate(request)
      return caller.ok || header(request, 'authorization') === '' ? super.getForecast(request) : caller.why
    }
  },
)

add(
  'b-identity-of-first-caller',
  'S3',
  'samples',
  'The greeting of /secret is cached: it names the first caller to every other one.',
  class extends ReferenceB {
    greeted: Result | undefined
    override async getSecret(request: Request) {
      const result = await super.getSecret(request)
      if (result.status === 200) this.greeted ??= result
      return result.status === 200 && this.greeted ? this.greeted : result
    }
  },
)

add(
  'b-signature-compared-by-its-length',
  'S3',
  'samples',
  'As much of the signature is compared as the token has, so that an empty one is accepted.',
  class extends ReferenceB {
    override signatureMatches(input: string, signature: string) {
      return createHmac('sha256', this.options.tokenKey).update(input).digest('base64url').startsWith(signature)
    }
  },
)

add(
  'b-every-tenth-forecast-short',
  'S1',
  'samples',
  'Every tenth forecast has four entries.',
  class extends ReferenceB {
    count = 0
    override forecast(now: Date) {
      return ++this.count % 10 === 0 ? super.forecast(now).slice(0, 4) : super.forecast(now)
    }
  },
)

add(
  'b-document-without-delete',
  'S4',
  'document',
  'The interface description does not have the path with the id, and so no DELETE.',
  class extends ReferenceB {
    override itemPaths() {
      const paths = super.itemPaths()
      delete paths['/api/todoitems/{id}']
      return paths
    }
  },
)

add(
  'b-done-required',
  'B4',
  'state',
  'An item without done is refused as one without name or notes.',
  class extends ReferenceB {
    override validate(body: JsonObject) {
      return typeof body.done === 'boolean' && super.validate(body)
    }
  },
)

add(
  'b-delete-like',
  'B8',
  'state',
  'DELETE looks for the id with LIKE: _ and % in it stand for other characters.',
  class extends ReferenceB {
    override remove(id: string) {
      const escaped = id
        .replace(/[^\w%]/g, '\\$&')
        .replaceAll('_', '.')
        .replaceAll('%', '.*')
      const first = this.list().find((item) => new RegExp(`^${escaped}$`, 's').test(item.id))
      return first !== undefined && super.remove(first.id)
    }
  },
)

add(
  'b-delete-with-body-200',
  'B8',
  'wire',
  'DELETE with a body returns 200.',
  class extends ReferenceB {
    override async deleteItem(request: Request) {
      const result = await super.deleteItem(request)
      return result.status === 204 && request.body.length > 0 ? { ...result, status: 200 } : result
    }
  },
)

add(
  'b-bodies-share-a-buffer',
  'B3',
  'wire',
  'Parts of bodies that arrive at the same time are put together in the order in which they come.',
  class extends ReferenceB {
    chunks: Buffer[] = []
    reading = 0
    override async readBody(incoming: IncomingMessage) {
      if (this.reading++ === 0) this.chunks = []
      for await (const chunk of incoming as AsyncIterable<Buffer>) this.chunks.push(chunk)
      this.reading--
      return { body: Buffer.concat(this.chunks), bodyTooLong: false }
    }
  },
)

add(
  'b-token-without-algorithm',
  'S6',
  'samples',
  'A token whose header names no algorithm is accepted with any signature.',
  class extends ReferenceB {
    algorithm: unknown
    override acceptsTokenHeader(tokenHeader: JsonObject) {
      this.algorithm = tokenHeader.alg
      return this.algorithm === undefined || super.acceptsTokenHeader(tokenHeader)
    }
    override signatureMatches(input: string, signature: string) {
      return this.algorithm === undefined || super.signatureMatches(input, signature)
    }
  },
)

add(
  'b-every-refusal-is-a-conflict',
  'B5',
  'state',
  'A POST that cannot be stored returns 409 TodoItemIDInUse.',
  class extends ReferenceB {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      return result.body === 'CouldNotCreateItem' ? this.error(409, 'TodoItemIDInUse') : result
    }
  },
)

add(
  'a-secret-in-problem',
  'A10',
  'state',
  'A refused POST returns what it has read, with the member secret.',
  class extends ReferenceA {
    override async postItem(request: Request) {
      const result = await super.postItem(request)
      if (result.status !== 400) return result
      const problem = JSON.parse(result.body as string) as JsonObject
      return { ...result, body: writeJson({ ...problem, value: { name: null, secret: null } }) }
    }
  },
)

add(
  'a-name-of-deleted-item',
  'A5',
  'state',
  'A POST without name takes the name of the item that was deleted last.',
  class extends ReferenceA {
    deletedName: string | null = null
    override remove(id: bigint) {
      this.deletedName = this.find(id)?.name ?? null
      return super.remove(id)
    }
    override toDraft(body: JsonObject) {
      return super.toDraft(body.name === undefined ? { ...body, name: this.deletedName } : body)
    }
  },
)

add(
  'b-id-of-36-characters-compared',
  'B5',
  'state',
  'Of an id the first 36 characters are compared: a longer one is in use when another begins alike.',
  class extends ReferenceB {
    override find(id: string) {
      return this.list().find((item) => item.id.slice(0, 36) === id.slice(0, 36))
    }
  },
)

add(
  'b-id-in-use-of-newest-20',
  'B5',
  'state',
  'POST looks for the id among the 20 newest items, and stores a second item with that of an older one.',
  class extends ReferenceB {
    override async postItem(request: Request) {
      const all = [...this.items]
      this.items.clear()
      for (const [id, item] of all.slice(-20)) this.items.set(id, item)
      const result = await super.postItem(request)
      const newest = [...this.items]
      this.items.clear()
      for (const [id, item] of [...all.slice(0, -20), ...newest]) this.items.set(id, item)
      return result
    }
  },
)

add(
  'b-delete-without-body-refused',
  'B8',
  'wire',
  'DELETE with a media type and without a body is refused.',
  class extends ReferenceB {
    override async deleteItem(request: Request) {
      const isRefused = header(request, 'content-type') !== '' && request.body.length === 0
      return isRefused ? this.error(400, 'CouldNotDeleteItem') : super.deleteItem(request)
    }
  },
)

add(
  'b-list-not-modified-in-the-same-second',
  'B1',
  'state',
  'The list has Last-Modified in whole seconds, and If-Modified-Since gets 304 for a change in the same second.',
  class extends ReferenceB {
    changedAt = Date.now()
    override async route(request: Request) {
      const result = await super.route(request)
      if (request.method !== 'GET') this.changedAt = Date.now()
      return result
    }
    override async getItems(request: Request) {
      const modified = new Date(this.changedAt).toUTCString()
      const isKnown = header(request, 'if-modified-since') === modified
      const result = isKnown ? empty(304) : await super.getItems(request)
      return { ...result, headers: { ...result.headers, 'last-modified': modified } }
    }
  },
)

add(
  'a-forecast-in-the-language-of-the-caller',
  'S1',
  'samples',
  'For callers that prefer German the summaries are German.',
  class extends ReferenceA {
    override async getForecast(request: Request) {
      const result = await super.getForecast(request)
      if (!header(request, 'accept-language').startsWith('de')) return result
      return { ...result, body: (result.body as string).replace(/"summary":"[^"]*"/g, '"summary":"warm und trocken"') }
    }
  },
)
