import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { hostname } from 'node:os'
import { gzipSync } from 'node:zlib'
import type {
  BodyFault,
  CodeB,
  DraftA,
  Errors,
  ItemA,
  ItemB,
  Json,
  JsonObject,
  Outcome,
  ReferenceServer,
  Request,
  Result,
  Route,
} from './reference.ts'
import { empty, isObject, json, ReferenceA, ReferenceB, readJson, text, writeJson } from './reference.ts'
import type { FaultyServer, ServerOptions } from './types.ts'

type Breaks = FaultyServer['breaks']

const faulty = (
  id: string,
  rule: string,
  breaks: Breaks,
  fault: string,
  Faulty: new (options: ServerOptions) => ReferenceServer,
): FaultyServer => ({
  id,
  profile: id.startsWith('a-') ? 'a' : 'b',
  rule,
  kind: 'wire',
  breaks,
  fault,
  create: (options) => new Faulty(options).create(),
})

const isSuccess = ({ status }: Result) => status >= 200 && status < 300

const withType = (result: Result, type: string): Result =>
  isSuccess(result) ? { ...result, headers: { ...result.headers, 'content-type': type } } : result

/** Another JSON value in a success, the rest as it was. */
const edit = (result: Result, change: (value: Json) => Json): Result =>
  isSuccess(result) ? { ...result, body: writeJson(change(readJson(String(result.body)))) } : result

/** The same for one item, or for each of a list. */
const editItems = (result: Result, change: (item: JsonObject) => JsonObject): Result =>
  edit(result, (value) => {
    if (Array.isArray(value)) return value.filter(isObject).map(change)
    return isObject(value) ? change(value) : value
  })

/** Another text in a success. */
const editText = (result: Result, change: (body: string) => string): Result =>
  isSuccess(result) ? { ...result, body: change(String(result.body)) } : result

const renamed = (item: JsonObject, name: (old: string) => string): JsonObject =>
  Object.fromEntries(Object.entries(item).map(([old, value]) => [name(old), value]))
const pascal = (name: string) => name.charAt(0).toUpperCase() + name.slice(1)

const without = (item: JsonObject, drop: (value: Json, name: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(item).filter(([name, value]) => !drop(value, name)))

const location = (result: Result, change: (uri: string) => string | string[]): Result =>
  isSuccess(result)
    ? { ...result, headers: { ...result.headers, location: change(String(result.headers.location)) } }
    : result

const isRecased = (path: string) => /^\/api\/todoitems/i.test(path) && !path.startsWith('/api/todoitems')

/** The members of a body that is an object. */
const sent = (body: Outcome<JsonObject, BodyFault>): JsonObject => (body.ok ? body.value : {})

const accept = (request: Request) => request.incoming.headers.accept ?? ''

/** Past the HTTP layer, which would leave the body out. */
const sendRaw = (outgoing: ServerResponse, head: readonly string[], body: string) =>
  outgoing.socket?.end([...head, 'connection: close', '', body].join('\r\n'))

/** PUT in smaller steps. */
class StepsA extends ReferenceA {
  isSameId(inBody: Json | undefined, id: bigint): boolean {
    return inBody === id
  }

  differing(request: Request): Result {
    return this.error(request, 400, { id: ['The ids of path and body differ.'] })
  }

  missing(request: Request): Result {
    return this.error(request, 404)
  }

  override async putItem(request: Request): Promise<Result> {
    const id = this.pathId(request)
    if (id === undefined) return this.malformedId(request)
    const body = this.readValid(request)
    if (!body.ok) return body.why
    if (!this.isSameId(body.value.id, id)) return this.differing(request)
    return this.replace(id, this.toDraft(body.value)) ? empty(204) : this.missing(request)
  }
}

/** Changes the members of a request body before they are checked. */
class AmendA extends ReferenceA {
  amend(body: JsonObject, _request: Request): JsonObject {
    return body
  }

  override readObject(request: Request): Outcome<JsonObject, BodyFault> {
    const body = super.readObject(request)
    return body.ok ? { ok: true, value: this.amend(body.value, request) } : body
  }
}

class AmendB extends ReferenceB {
  amend(body: JsonObject, _request: Request): JsonObject {
    return body
  }

  override readObject(request: Request): Outcome<JsonObject, BodyFault> {
    const body = super.readObject(request)
    return body.ok ? { ok: true, value: this.amend(body.value, request) } : body
  }
}

const mediaTypesA = [
  faulty(
    'a-get-one-media-type-html',
    'G3',
    'specified',
    'GET of one item sends its JSON as text/html.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return withType(await super.getItem(request), 'text/html; charset=utf-8')
      }
    },
  ),
  faulty(
    'a-post-media-type-text',
    'G3',
    'specified',
    'The created item is sent as text/plain.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        return withType(await super.postItem(request), 'text/plain; charset=utf-8')
      }
    },
  ),
  faulty(
    'a-list-charset-latin1',
    'G3',
    'specified',
    'The list is UTF-8 but declares charset=ISO-8859-1.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return withType(await super.getItems(request), 'application/json;charset=ISO-8859-1')
      }
    },
  ),
  faulty(
    'a-get-one-charset-missing',
    'G3',
    'specified',
    'GET of one item sends application/json without a charset.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return withType(await super.getItem(request), 'application/json')
      }
    },
  ),
  faulty(
    'a-forecast-media-type-text',
    'G3',
    'specified',
    'The forecast is sent as text/plain.',
    class extends ReferenceA {
      override async getForecast(request: Request) {
        return withType(await super.getForecast(request), 'text/plain; charset=utf-8')
      }
    },
  ),
  faulty(
    'a-error-media-type-json',
    'A13',
    'choice',
    'Errors are sent as application/json, not as a problem.',
    class extends ReferenceA {
      override error(request: Request, status: number, errors?: Errors): Result {
        const type = 'application/json; charset=utf-8'
        return { ...super.error(request, status, errors), headers: { 'content-type': type } }
      }
    },
  ),
]

const locationsA = [
  faulty(
    'a-location-relative',
    'A3',
    'specified',
    'Location is a path without scheme and authority.',
    class extends ReferenceA {
      override location(_request: Request, item: ItemA) {
        return `/api/todoitems/${item.id}`
      }
    },
  ),
  faulty(
    'a-location-machine-name',
    'A3',
    'specified',
    'Location names the machine, not the host of the request.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return `http://${hostname()}:${request.incoming.socket.localPort}/api/todoitems/${item.id}`
      }
    },
  ),
  faulty(
    'a-location-https',
    'A3',
    'specified',
    'Location says https although the request came by http.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return super.location(request, item).replace(/^http:/, 'https:')
      }
    },
  ),
  faulty(
    'a-location-port-lost',
    'A3',
    'specified',
    'Location lacks the port of the request.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return super.location(request, item).replace(/:\d+(?=\/)/, '')
      }
    },
  ),
  faulty(
    'a-location-prefix-lost',
    'A3',
    'specified',
    'Location lacks the segment /api, as behind a rewriting gateway.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return super.location(request, item).replace('/api/', '/')
      }
    },
  ),
  faulty(
    'a-location-id-in-query',
    'A3',
    'specified',
    'Location has the id in the query: /api/todoitems?id=1.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return `${this.baseUrl(request)}/api/todoitems?id=${item.id}`
      }
    },
  ),
  faulty(
    'a-location-keeps-query',
    'A3',
    'specified',
    'The query of the create request is repeated in Location.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return super.location(request, item) + request.query
      }
    },
  ),
  faulty(
    'a-location-content-location',
    'A3',
    'specified',
    'The URI is sent as Content-Location, Location is missing.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const {
          headers: { location: uri = '', ...headers },
          ...result
        } = await super.postItem(request)
        return { ...result, headers: uri === '' ? headers : { ...headers, 'content-location': uri } }
      }
    },
  ),
  faulty(
    'a-location-twice',
    'A3',
    'specified',
    'Location is sent in two header lines.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        return location(await super.postItem(request), (uri) => [uri, uri])
      }
    },
  ),
  faulty(
    'a-location-unsaved-id',
    'A3',
    'specified',
    'Location is made before the item has its id: it ends with 0.',
    class extends ReferenceA {
      override location(request: Request, item: ItemA) {
        return super.location(request, { ...item, id: 0n })
      }
    },
  ),
]

const pathsA = [
  faulty(
    'a-put-path-case',
    'G1',
    'specified',
    'PUT finds no item when the path is written in another case.',
    class extends ReferenceA {
      override async route(request: Request) {
        return request.method === 'PUT' && isRecased(request.path) ? this.notFoundPath(request) : super.route(request)
      }
    },
  ),
  faulty(
    'a-delete-path-case',
    'G1',
    'specified',
    'DELETE finds no item when the path is written in another case.',
    class extends ReferenceA {
      override async route(request: Request) {
        const isUnknown = request.method === 'DELETE' && isRecased(request.path)
        return isUnknown ? this.notFoundPath(request) : super.route(request)
      }
    },
  ),
  faulty(
    'a-path-case-redirect',
    'G1',
    'specified',
    'A path in another case is redirected (301) to its lower case.',
    class extends ReferenceA {
      override async route(request: Request) {
        const { path, query } = request
        return isRecased(path) ? empty(301, { location: path.toLowerCase() + query }) : super.route(request)
      }
    },
  ),
  faulty(
    'a-trailing-slash-redirect',
    'G2',
    'choice',
    'A path with a slash at the end is redirected (301).',
    class extends ReferenceA {
      override async route(request: Request) {
        const { path, query } = request
        return /.\/$/.test(path) ? empty(301, { location: path.slice(0, -1) + query }) : super.route(request)
      }
    },
  ),
  faulty(
    'a-path-id-int32-wrapped',
    'A11',
    'specified',
    'The path id is cut to 32 bits: 4294967297 names item 1.',
    class extends ReferenceA {
      override pathId(request: Request) {
        const id = super.pathId(request)
        return id === undefined ? undefined : BigInt.asIntN(32, id)
      }
    },
  ),
  faulty(
    'a-path-id-int32-only',
    'A11',
    'specified',
    'A path id above 2147483647 is answered with 400, not 404.',
    class extends ReferenceA {
      override pathId(request: Request) {
        const id = super.pathId(request)
        return id !== undefined && BigInt.asIntN(32, id) === id ? id : undefined
      }
    },
  ),
  faulty(
    'a-path-id-number-forms',
    'A12',
    'choice',
    'Other spellings of a number (01, 1.0, 1e0, 0x1) name an item.',
    class extends ReferenceA {
      override pathId(request: Request) {
        const number = Number(this.decodeSegment(request.parameter) || NaN)
        return super.pathId(request) ?? (Number.isSafeInteger(number) ? BigInt(number) : undefined)
      }
    },
  ),
  faulty(
    'a-malformed-id-404',
    'A12',
    'choice',
    'A malformed path id is answered with 404.',
    class extends ReferenceA {
      override malformedId(request: Request) {
        return this.error(request, 404)
      }
    },
  ),
]

const statusesA = [
  faulty(
    'a-put-204-with-body',
    'A7',
    'specified',
    'The 204 of PUT has a content-length, and the item behind it.',
    class extends ReferenceA {
      override send(result: Result, request: Request, outgoing: ServerResponse) {
        if (request.method !== 'PUT' || result.status !== 204) return super.send(result, request, outgoing)
        const type = 'content-type: application/json; charset=utf-8'
        const length = `content-length: ${request.body.length}`
        sendRaw(outgoing, ['HTTP/1.1 204 No Content', type, length], request.body.toString())
      }
    },
  ),
  faulty(
    'a-delete-204-with-body',
    'A9',
    'specified',
    'The 204 of DELETE is chunked and has a body (null).',
    class extends ReferenceA {
      override send(result: Result, request: Request, outgoing: ServerResponse) {
        if (request.method !== 'DELETE' || result.status !== 204) return super.send(result, request, outgoing)
        sendRaw(outgoing, ['HTTP/1.1 204 No Content', 'transfer-encoding: chunked'], '4\r\nnull\r\n0\r\n\r\n')
      }
    },
  ),
  faulty(
    'a-put-200-item',
    'A7',
    'specified',
    'PUT answers 200 with the updated item.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const item = this.find(this.pathId(request) ?? 0n)
        return isSuccess(result) && item !== undefined ? json(200, this.toWire(item)) : result
      }
    },
  ),
  faulty(
    'a-delete-200-item',
    'A9',
    'specified',
    'DELETE answers 200 with the deleted item.',
    class extends ReferenceA {
      override async deleteItem(request: Request) {
        const item = this.find(this.pathId(request) ?? 0n)
        const result = await super.deleteItem(request)
        return isSuccess(result) && item !== undefined ? json(200, this.toWire(item)) : result
      }
    },
  ),
  faulty(
    'a-post-200',
    'A3',
    'specified',
    'POST answers 200 instead of 201.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return isSuccess(result) ? { ...result, status: 200 } : result
      }
    },
  ),
  faulty(
    'a-post-no-item',
    'A3',
    'specified',
    'POST answers 201 with Location and no body.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return isSuccess(result) ? empty(201, { location: String(result.headers.location) }) : result
      }
    },
  ),
  faulty(
    'a-get-missing-204',
    'A2',
    'specified',
    'GET of an item that is not there answers 204.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        const result = await super.getItem(request)
        return result.status === 404 ? empty(204) : result
      }
    },
  ),
  faulty(
    'a-put-missing-204',
    'A8',
    'specified',
    'PUT of an item that is not there answers 204 and does nothing.',
    class extends StepsA {
      override missing() {
        return empty(204)
      }
    },
  ),
  faulty(
    'a-delete-missing-204',
    'A9',
    'specified',
    'DELETE of an item that is not there answers 204.',
    class extends ReferenceA {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return result.status === 404 ? empty(204) : result
      }
    },
  ),
  faulty(
    'a-delete-missing-500',
    'A9',
    'specified',
    'DELETE of an item that is not there fails with 500.',
    class extends ReferenceA {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return result.status === 404 ? this.error(request, 500) : result
      }
    },
  ),
  faulty(
    'a-put-differing-ids-409',
    'A8',
    'specified',
    'Differing ids of path and body are answered with 409.',
    class extends StepsA {
      override differing(request: Request) {
        return this.error(request, 409)
      }
    },
  ),
  faulty(
    'a-put-differing-ids-404',
    'A8',
    'specified',
    'Differing ids of path and body are answered with 404.',
    class extends StepsA {
      override differing(request: Request) {
        return this.error(request, 404)
      }
    },
  ),
  faulty(
    'a-put-body-id-ignored',
    'A8',
    'specified',
    'PUT ignores the id of the body, whatever it is.',
    class extends StepsA {
      override isSameId() {
        return true
      }
    },
  ),
  faulty(
    'a-put-body-id-text',
    'A8',
    'choice',
    'PUT takes an id written as text in the body for the number.',
    class extends StepsA {
      override isSameId(inBody: Json | undefined, id: bigint) {
        return inBody === id || inBody === String(id)
      }
    },
  ),
  faulty(
    'a-put-missing-before-differing',
    'A8',
    'choice',
    'Differing ids and no such item: 404 comes first.',
    class extends StepsA {
      override differing(request: Request) {
        const item = this.find(this.pathId(request) ?? 0n)
        return item === undefined ? this.missing(request) : super.differing(request)
      }
    },
  ),
  faulty(
    'a-put-ids-as-doubles',
    'A11',
    'specified',
    'PUT compares ids as doubles: 9007199254740993 equals ...992.',
    class extends StepsA {
      override isSameId(inBody: Json | undefined, id: bigint) {
        return typeof inBody === 'bigint' && Number(inBody) === Number(id)
      }
    },
  ),
  faulty(
    'a-put-body-id-rounded',
    'A11',
    'specified',
    'The body id of PUT is rounded to a double: 9007199254740993 in path and body differ (400, not 404).',
    class extends StepsA {
      override isSameId(inBody: Json | undefined, id: bigint) {
        return typeof inBody === 'bigint' && BigInt(Number(inBody)) === id
      }
    },
  ),
  faulty(
    'a-malformed-json-500',
    'A14',
    'choice',
    'A malformed JSON body is answered with 500.',
    class extends ReferenceA {
      override bodyError(request: Request, fault: BodyFault) {
        return fault === 'malformed' ? this.error(request, 500) : super.bodyError(request, fault)
      }
    },
  ),
  faulty(
    'a-malformed-json-stack',
    'G8',
    'choice',
    'The problem of a malformed JSON body has the stack trace in it.',
    class extends ReferenceA {
      override bodyError(request: Request, fault: BodyFault) {
        const result = super.bodyError(request, fault)
        if (fault !== 'malformed') return result
        const { stack = '' } = new SyntaxError('Unexpected token in JSON')
        return { ...result, body: String(result.body).replace(/}$/, () => `,"detail":${JSON.stringify(stack)}}`) }
      }
    },
  ),
]

const shapesA = [
  faulty(
    'a-list-pascal-case',
    'G3',
    'specified',
    'The members of listed items are Id, Name and IsComplete.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => renamed(item, pascal))
      }
    },
  ),
  faulty(
    'a-get-one-snake-case',
    'G3',
    'specified',
    'GET of one item calls the flag is_complete.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return editItems(await super.getItem(request), (item) =>
          renamed(item, (name) => name.replace(/[A-Z]/g, (char) => `_${char.toLowerCase()}`)),
        )
      }
    },
  ),
  faulty(
    'a-list-id-text',
    'A1',
    'specified',
    'The ids of listed items are JSON strings.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => ({ ...item, id: String(item.id) }))
      }
    },
  ),
  faulty(
    'a-null-name-left-out',
    'A1',
    'specified',
    'A name that is null is left out of every response.',
    class extends ReferenceA {
      override toWire(item: ItemA) {
        return without(super.toWire(item), (value) => value === null)
      }
    },
  ),
  faulty(
    'a-list-false-left-out',
    'A1',
    'specified',
    'isComplete is left out of listed items when it is false.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => without(item, (value) => value === false))
      }
    },
  ),
  faulty(
    'a-list-in-data',
    'A1',
    'specified',
    'The list is wrapped: {"data": [...]}.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return edit(await super.getItems(request), (data) => ({ data }))
      }
    },
  ),
  faulty(
    'a-get-one-in-array',
    'A2',
    'specified',
    'GET of one item sends an array of one item.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return edit(await super.getItem(request), (item) => [item])
      }
    },
  ),
  faulty(
    'a-empty-list-null',
    'A1',
    'specified',
    'The list is null when there are no items.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return edit(await super.getItems(request), (items) =>
          Array.isArray(items) && items.length === 0 ? null : items,
        )
      }
    },
  ),
  faulty(
    'a-get-one-secret',
    'A10',
    'specified',
    'GET of one item has a member secret (null).',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return editItems(await super.getItem(request), (item) => ({ ...item, secret: null }))
      }
    },
  ),
  faulty(
    'a-post-echoes-secret',
    'A10',
    'specified',
    'A secret in a create request comes back in its response.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const { secret } = sent(this.readObject(request))
        return editItems(await super.postItem(request), (item) => (secret === undefined ? item : { ...item, secret }))
      }
    },
  ),
  faulty(
    'a-put-stores-secret',
    'A10',
    'specified',
    'A secret in a PUT is stored, and returned by GET of the item.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const item = this.find(this.pathId(request) ?? 0n)
        const { secret } = sent(this.readObject(request))
        if (isSuccess(result) && item && typeof secret === 'string') this.items.set(item.id, { ...item, secret })
        return result
      }

      override async getItem(request: Request) {
        const secret = this.find(this.pathId(request) ?? 0n)?.secret ?? null
        return editItems(await super.getItem(request), (item) => (secret === null ? item : { ...item, secret }))
      }
    },
  ),
  faulty(
    'a-post-stores-secret',
    'A10',
    'unobservable',
    'A secret in a create request is stored, but never returned.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        const item = this.find(this.lastId)
        const { secret } = sent(this.readObject(request))
        if (isSuccess(result) && item && typeof secret === 'string') this.items.set(item.id, { ...item, secret })
        return result
      }
    },
  ),
  faulty(
    'a-list-created-at',
    'A1',
    'specified',
    'Listed items have a member createdAt.',
    class extends ReferenceA {
      readonly createdAt = new Date().toISOString()

      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => ({ ...item, createdAt: this.createdAt }))
      }
    },
  ),
  faulty(
    'a-post-echoes-unknown',
    'A3',
    'specified',
    'Unknown members of a create request come back in its response.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const echo = without(sent(this.readObject(request)), (_value, name) => name === 'secret')
        return editItems(await super.postItem(request), (item) => ({ ...echo, ...item }))
      }
    },
  ),
  faulty(
    'a-put-stores-unknown',
    'A7',
    'specified',
    'Unknown members of a PUT are stored and returned by GET.',
    class extends ReferenceA {
      readonly more = new Map<bigint, JsonObject>()

      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const more = without(sent(this.readObject(request)), (_value, name) => name === 'secret')
        if (isSuccess(result)) this.more.set(this.pathId(request) ?? 0n, more)
        return result
      }

      override async getItem(request: Request) {
        const more = this.more.get(this.pathId(request) ?? 0n)
        return editItems(await super.getItem(request), (item) => ({ ...more, ...item }))
      }
    },
  ),
  faulty(
    'a-get-one-id-twice',
    'A2',
    'specified',
    'GET of one item has two members id in its object, 0 and the id.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return editText(await super.getItem(request), (body) => body.replace('{', '{"id":0,'))
      }
    },
  ),
  faulty(
    'a-list-item-twice',
    'A1',
    'specified',
    'An item is in the list twice once it has been updated.',
    class extends ReferenceA {
      readonly updated = new Set<bigint>()

      override replace(id: bigint, draft: DraftA) {
        this.updated.add(id)
        return super.replace(id, draft)
      }

      override list() {
        return super.list().flatMap((item) => (this.updated.has(item.id) ? [item, item] : [item]))
      }
    },
  ),
  faulty(
    'a-list-byte-order-mark',
    'G3',
    'specified',
    'The list begins with a byte order mark, not in JSON.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        return editText(await super.getItems(request), (body) => `\uFEFF${body}`)
      }
    },
  ),
  faulty(
    'a-list-gzip-undeclared',
    'G3',
    'specified',
    'A list above 1 KiB is compressed for clients that accept gzip, without Content-Encoding.',
    class extends ReferenceA {
      override async getItems(request: Request) {
        const result = await super.getItems(request)
        const isAsked = /\bgzip\b/.test(String(request.incoming.headers['accept-encoding']))
        return isAsked && result.body.length > 1024 ? { ...result, body: gzipSync(result.body) } : result
      }
    },
  ),
  faulty(
    'a-post-length-in-characters',
    'A3',
    'specified',
    'The response of POST is cut: its length is counted in characters, not in bytes.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return { ...result, body: Buffer.from(String(result.body)).subarray(0, result.body.length) }
      }
    },
  ),
]

const requestsA = [
  faulty(
    'a-post-is-complete-absent',
    'A6',
    'specified',
    'POST without isComplete creates an item, not completed.',
    class extends AmendA {
      override amend(body: JsonObject, request: Request) {
        return request.method === 'POST' ? { isComplete: false, ...body } : body
      }
    },
  ),
  faulty(
    'a-put-is-complete-absent',
    'A6',
    'specified',
    'PUT without isComplete is accepted and sets it to false.',
    class extends AmendA {
      override amend(body: JsonObject, request: Request) {
        return request.method === 'PUT' ? { isComplete: false, ...body } : body
      }
    },
  ),
  faulty(
    'a-is-complete-null',
    'A6',
    'specified',
    'isComplete null is accepted as false.',
    class extends AmendA {
      override amend(body: JsonObject) {
        return body.isComplete === null ? { ...body, isComplete: false } : body
      }
    },
  ),
  faulty(
    'a-is-complete-text',
    'A6',
    'specified',
    'isComplete "true" and "false", as text, are accepted.',
    class extends AmendA {
      override amend(body: JsonObject) {
        const { isComplete } = body
        return isComplete === 'true' || isComplete === 'false' ? { ...body, isComplete: isComplete === 'true' } : body
      }
    },
  ),
  faulty(
    'a-is-complete-number',
    'A6',
    'specified',
    'isComplete 0 and 1 are accepted.',
    class extends AmendA {
      override amend(body: JsonObject) {
        const { isComplete } = body
        return isComplete === 0n || isComplete === 1n ? { ...body, isComplete: isComplete === 1n } : body
      }
    },
  ),
  faulty(
    'a-is-complete-absent-500',
    'A6',
    'specified',
    'A body without isComplete fails with 500.',
    class extends ReferenceA {
      override readValid(request: Request): Outcome<JsonObject, Result> {
        const body = this.readObject(request)
        return body.ok && body.value.isComplete === undefined
          ? { ok: false, why: this.error(request, 500) }
          : super.readValid(request)
      }
    },
  ),
  faulty(
    'a-name-null-refused',
    'A5',
    'specified',
    'A name that is null is refused with 400.',
    class extends ReferenceA {
      override validate(body: JsonObject) {
        return body.name === null ? { name: ['Must be a string.'] } : super.validate(body)
      }
    },
  ),
  faulty(
    'a-name-any-type',
    'A5',
    'specified',
    'A name that is a number, an array or an object is stored and returned.',
    class extends ReferenceA {
      override validate(body: JsonObject) {
        return super.validate(typeof body.name === 'string' ? body : { ...body, name: null })
      }

      override toDraft(body: JsonObject) {
        return { ...super.toDraft(body), name: (body.name ?? null) as string | null }
      }
    },
  ),
  faulty(
    'a-post-id-refused',
    'A4',
    'specified',
    'A create request that has an id is refused with 400.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const isFull = sent(this.readObject(request)).id !== undefined
        return isFull ? this.error(request, 400, { id: ['Must not be sent.'] }) : super.postItem(request)
      }
    },
  ),
  faulty(
    'a-charset-refused',
    'G3',
    'specified',
    'A body sent as application/json; charset=utf-8 is refused with 415.',
    class extends ReferenceA {
      override acceptsMediaType(contentType: string) {
        return !contentType.includes(';') && super.acceptsMediaType(contentType)
      }
    },
  ),
  faulty(
    'a-charset-capitals-refused',
    'G5',
    'choice',
    'A body sent with charset=UTF-8 (capitals) is refused: 415.',
    class extends ReferenceA {
      override acceptsMediaType(contentType: string) {
        return !contentType.includes('UTF-8') && super.acceptsMediaType(contentType)
      }
    },
  ),
  faulty(
    'a-chunked-body-unread',
    'A3',
    'specified',
    'A body sent in chunks is taken for empty.',
    class extends ReferenceA {
      override async readBody(incoming: IncomingMessage) {
        const read = await super.readBody(incoming)
        return 'transfer-encoding' in incoming.headers ? { ...read, body: Buffer.alloc(0) } : read
      }
    },
  ),
  faulty(
    'a-accept-406',
    'G9',
    'choice',
    'To-do requests whose Accept has no JSON are answered with 406.',
    class extends ReferenceA {
      override async route(request: Request) {
        const isAcceptable = accept(request) === '' || /\*\/\*|application\/(\*|json)/i.test(accept(request))
        return isAcceptable || !/^\/api\//i.test(request.path) ? super.route(request) : this.error(request, 406)
      }
    },
  ),
  faulty(
    'a-accept-html',
    'G3',
    'specified',
    'Items are shown as a page of HTML when Accept begins with text/html.',
    class extends ReferenceA {
      asPage(result: Result, request: Request) {
        if (!accept(request).startsWith('text/html')) return result
        const escape = (body: string) => body.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
        const page = editText(result, (body) => `<!DOCTYPE html><pre>${escape(body)}</pre>`)
        return withType(page, 'text/html; charset=utf-8')
      }

      override async getItems(request: Request) {
        return this.asPage(await super.getItems(request), request)
      }

      override async getItem(request: Request) {
        return this.asPage(await super.getItem(request), request)
      }
    },
  ),
  faulty(
    'a-proto-member-read',
    'A6',
    'specified',
    'isComplete is read from a member __proto__ when it is absent.',
    class extends AmendA {
      override amend(body: JsonObject) {
        const inherited = body.__proto__
        return isObject(inherited) ? { ...inherited, ...body } : body
      }
    },
  ),
  faulty(
    'a-unknown-members-refused',
    'G4',
    'choice',
    'A body with an unknown member is refused with 400.',
    class extends ReferenceA {
      override validate(body: JsonObject): Errors {
        const isKnown = (name: string) => ['id', 'name', 'isComplete'].includes(name)
        return Object.keys(body).every(isKnown) ? super.validate(body) : { body: ['Has an unknown member.'] }
      }
    },
  ),
  faulty(
    'a-first-id-wins',
    'G4',
    'choice',
    'The first of two members id wins in a PUT.',
    class extends AmendA {
      override amend(body: JsonObject, request: Request) {
        const first = /^\s*\{[^{}]*?"id"\s*:\s*(-?\d{1,19})(?![\d.eE])/.exec(this.decodeBody(request.body))?.[1]
        return first === undefined ? body : { ...body, id: BigInt(first) }
      }
    },
  ),
]

const mediaTypesB = [
  faulty(
    'b-post-media-type-html',
    'G3',
    'specified',
    'The created item is sent as text/html.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        return withType(await super.postItem(request), 'text/html; charset=utf-8')
      }
    },
  ),
  faulty(
    'b-list-media-type-text-json',
    'G3',
    'specified',
    'The list is sent as text/json.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return withType(await super.getItems(request), 'text/json; charset=utf-8')
      }
    },
  ),
  faulty(
    'b-error-media-type-html',
    'B9',
    'specified',
    'Error codes are sent as text/html.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return text(status, code, { 'content-type': 'text/html; charset=utf-8' })
      }
    },
  ),
  faulty(
    'b-error-charset-missing',
    'B9',
    'specified',
    'Error codes are sent as text/plain without a charset.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return text(status, code, { 'content-type': 'text/plain' })
      }
    },
  ),
  faulty(
    'b-secret-media-type-html',
    'S3',
    'specified',
    'The secured greeting is sent as text/html.',
    class extends ReferenceB {
      override async getSecret(request: Request) {
        return withType(await super.getSecret(request), 'text/html; charset=utf-8')
      }
    },
  ),
  faulty(
    'b-greeting-octet-stream',
    'S2',
    'specified',
    'The root greeting is sent as application/octet-stream.',
    class extends ReferenceB {
      override async getGreeting(request: Request) {
        return withType(await super.getGreeting(request), 'application/octet-stream')
      }
    },
  ),
  faulty(
    'b-forecast-encoded-twice',
    'S1',
    'specified',
    'The forecast is a JSON string that holds JSON text.',
    class extends ReferenceB {
      override async getForecast(request: Request) {
        return editText(await super.getForecast(request), JSON.stringify)
      }
    },
  ),
]

const pathsB = [
  faulty(
    'b-post-path-case',
    'G1',
    'specified',
    'POST finds nothing when the path is written in another case.',
    class extends ReferenceB {
      override async route(request: Request) {
        return request.method === 'POST' && isRecased(request.path) ? this.notFoundPath(request) : super.route(request)
      }
    },
  ),
  faulty(
    'b-put-path-case',
    'G1',
    'specified',
    'PUT finds nothing when the path is written in another case.',
    class extends ReferenceB {
      override async route(request: Request) {
        return request.method === 'PUT' && isRecased(request.path) ? this.notFoundPath(request) : super.route(request)
      }
    },
  ),
  faulty(
    'b-delete-path-case',
    'G1',
    'specified',
    'DELETE answers RecordNotFound when the path is in another case.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return isRecased(request.path) ? this.error(404, 'RecordNotFound') : super.deleteItem(request)
      }
    },
  ),
  faulty(
    'b-delete-id-lowered',
    'G1',
    'specified',
    'The whole path is put in lower case, the id of DELETE with it.',
    class extends ReferenceB {
      override findRoute(path: string) {
        return super.findRoute(path.toLowerCase())
      }
    },
  ),
  faulty(
    'b-delete-semicolon-cut',
    'B8',
    'specified',
    'DELETE cuts the id at a semicolon: a;b removes a.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return super.deleteItem({ ...request, parameter: request.parameter.replace(/;.*$/, '') })
      }
    },
  ),
  faulty(
    'b-delete-suffix-cut',
    'B8',
    'specified',
    'DELETE cuts .json, .xml and the like from the end of an id.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return super.deleteItem({ ...request, parameter: request.parameter.replace(/(?<=.)\.[a-z]+$/i, '') })
      }
    },
  ),
  faulty(
    'b-delete-encoded-slash',
    'B11',
    'choice',
    'A path with an encoded slash (%2F) is refused with 400.',
    class extends ReferenceB {
      override async route(request: Request) {
        return /%2f/i.test(request.path) ? empty(400) : super.route(request)
      }
    },
  ),
  faulty(
    'b-delete-not-decoded',
    'B11',
    'choice',
    'DELETE compares the id as written in the path, percent-encoded.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return super.deleteItem({ ...request, parameter: encodeURIComponent(request.parameter) })
      }
    },
  ),
  faulty(
    'b-upgrade-redirect',
    'B12',
    'specified',
    'In development too, a request with Upgrade-Insecure-Requests is redirected to HTTPS.',
    class extends ReferenceB {
      override async route(request: Request) {
        const isAsked = request.incoming.headers['upgrade-insecure-requests'] === '1'
        return isAsked && !request.secure ? this.redirect(request) : super.route(request)
      }
    },
  ),
  faulty(
    'b-get-one-200',
    'B10',
    'choice',
    'GET of one item answers 200 with the item.',
    class extends ReferenceB {
      override itemRoutes(): Route[] {
        const path = '/api/todoitems/{id}'
        return [...super.itemRoutes(), { method: 'GET', path, summary: 'One item', handle: (r) => this.getItem(r) }]
      }

      async getItem(request: Request) {
        const item = this.find(this.decodeSegment(request.parameter) ?? '')
        return item === undefined ? this.error(404, 'RecordNotFound') : json(200, this.toWire(item))
      }
    },
  ),
  faulty(
    'b-allow-missing',
    'G6',
    'choice',
    '405 comes without Allow.',
    class extends ReferenceB {
      override methodNotAllowed() {
        return empty(405)
      }
    },
  ),
  faulty(
    'b-head-with-body',
    'G6',
    'choice',
    'HEAD of the list is answered with the body.',
    class extends ReferenceB {
      override send(result: Result, request: Request, outgoing: ServerResponse) {
        if (request.method !== 'HEAD' || !/^\/api\//i.test(request.path)) return super.send(result, request, outgoing)
        const head = [`HTTP/1.1 ${result.status} OK`, `content-type: ${String(result.headers['content-type'])}`]
        sendRaw(outgoing, [...head, `content-length: ${Buffer.byteLength(result.body)}`], String(result.body))
      }
    },
  ),
]

const statusesB = [
  faulty(
    'b-put-204-with-body',
    'B7',
    'specified',
    'The 204 of PUT has a content-length, and the item behind it.',
    class extends ReferenceB {
      override send(result: Result, request: Request, outgoing: ServerResponse) {
        if (request.method !== 'PUT' || result.status !== 204) return super.send(result, request, outgoing)
        const type = 'content-type: application/json; charset=utf-8'
        const length = `content-length: ${request.body.length}`
        sendRaw(outgoing, ['HTTP/1.1 204 No Content', type, length], request.body.toString())
      }
    },
  ),
  faulty(
    'b-delete-204-with-body',
    'B8',
    'specified',
    'The 204 of DELETE has a body without a length ({}).',
    class extends ReferenceB {
      override send(result: Result, request: Request, outgoing: ServerResponse) {
        if (request.method !== 'DELETE' || result.status !== 204) return super.send(result, request, outgoing)
        sendRaw(outgoing, ['HTTP/1.1 204 No Content', 'content-type: application/json; charset=utf-8'], '{}')
      }
    },
  ),
  faulty(
    'b-post-201',
    'B3',
    'specified',
    'POST answers 201 instead of 200.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return isSuccess(result) ? { ...result, status: 201 } : result
      }
    },
  ),
  faulty(
    'b-put-200-item',
    'B7',
    'specified',
    'PUT answers 200 with the item.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const item = this.find(String(sent(this.readObject(request)).id))
        return isSuccess(result) && item !== undefined ? json(200, this.toWire(item)) : result
      }
    },
  ),
  faulty(
    'b-delete-202',
    'B8',
    'specified',
    'DELETE answers 202 without body.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return isSuccess(result) ? empty(202) : result
      }
    },
  ),
  faulty(
    'b-post-id-in-use-400',
    'B5',
    'specified',
    'An id in use is answered with 400 TodoItemIDInUse.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return super.error(status === 409 ? 400 : status, code)
      }
    },
  ),
  faulty(
    'b-post-invalid-422',
    'B4',
    'specified',
    'POST answers 422 TodoItemNameAndNotesRequired.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return result.body === 'TodoItemNameAndNotesRequired' ? { ...result, status: 422 } : result
      }
    },
  ),
  faulty(
    'b-put-missing-400',
    'B7',
    'specified',
    'PUT of an item that is not there answers 400 CouldNotUpdateItem.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        return result.status === 404 ? this.error(400, 'CouldNotUpdateItem') : result
      }
    },
  ),
  faulty(
    'b-delete-missing-204',
    'B8',
    'specified',
    'DELETE of an item that is not there answers 204.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return result.status === 404 ? empty(204) : result
      }
    },
  ),
  faulty(
    'b-post-in-use-before-invalid',
    'B5',
    'choice',
    'An id in use is told before missing fields: 409, not 400.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const { id } = sent(this.readObject(request))
        const isUsed = typeof id === 'string' && this.find(id) !== undefined
        return isUsed ? this.error(409, 'TodoItemIDInUse') : super.postItem(request)
      }
    },
  ),
  faulty(
    'b-post-no-body-415',
    'B4',
    'specified',
    'POST without body and media type answers 415.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const isBare = request.body.length === 0 && request.incoming.headers['content-type'] === undefined
        return isBare ? empty(415) : super.postItem(request)
      }
    },
  ),
  faulty(
    'b-put-no-body-500',
    'B4',
    'specified',
    'PUT without body fails with 500.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        return request.body.length === 0 ? empty(500) : super.putItem(request)
      }
    },
  ),
  faulty(
    'b-body-too-long-413',
    'B6',
    'specified',
    'A body above the limit is answered with 413 without a code.',
    class extends ReferenceB {
      override readItem(request: Request, code: CodeB): Outcome<ItemB, Result> {
        return request.bodyTooLong ? { ok: false, why: empty(413) } : super.readItem(request, code)
      }
    },
  ),
  faulty(
    'b-post-failure-500',
    'B6',
    'specified',
    'What is CouldNotCreateItem (an id above its limit) fails with 500.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return code === 'CouldNotCreateItem' ? empty(500) : super.error(status, code)
      }
    },
  ),
  faulty(
    'b-list-304',
    'B1',
    'specified',
    'A list that has not changed since the last answer is 304, unasked.',
    class extends ReferenceB {
      last: Result['body'] = ''

      override async getItems(request: Request) {
        const result = await super.getItems(request)
        if (result.body === this.last) return empty(304)
        this.last = result.body
        return result
      }
    },
  ),
]

const codesB = [
  faulty(
    'b-code-misspelt',
    'B5',
    'specified',
    'The code of an id in use is written TodoItemIdInUse.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return text(status, code.replace('IDInUse', 'IdInUse'))
      }
    },
  ),
  faulty(
    'b-code-quoted',
    'B9',
    'specified',
    'RecordNotFound is sent as a JSON string.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return code === 'RecordNotFound' ? json(status, code) : super.error(status, code)
      }
    },
  ),
  faulty(
    'b-code-newline',
    'B9',
    'specified',
    'The code of a failed DELETE ends with a newline.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return isSuccess(result) ? result : { ...result, body: `${String(result.body)}\n` }
      }
    },
  ),
  faulty(
    'b-code-byte-order-mark',
    'B9',
    'specified',
    'The code of a failed PUT begins with a byte order mark.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        return isSuccess(result) ? result : { ...result, body: `\uFEFF${String(result.body)}` }
      }
    },
  ),
  faulty(
    'b-code-in-problem',
    'B9',
    'specified',
    'Missing fields are told in a problem document.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return code === 'TodoItemNameAndNotesRequired'
          ? json(status, { type: 'about:blank', title: code, status }, { 'content-type': 'application/problem+json' })
          : super.error(status, code)
      }
    },
  ),
  faulty(
    'b-code-number',
    'B9',
    'specified',
    'The code of an id in use is sent as its number in the list of codes: 1.',
    class extends ReferenceB {
      override error(status: number, code: CodeB) {
        return text(status, code === 'TodoItemIDInUse' ? '1' : code)
      }
    },
  ),
  faulty(
    'b-code-left-out',
    'B8',
    'specified',
    'DELETE of an item that is not there answers 404 without body.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        const result = await super.deleteItem(request)
        return result.status === 404 ? empty(404) : result
      }
    },
  ),
  faulty(
    'b-put-invalid-other-code',
    'B4',
    'specified',
    'PUT with a missing field answers CouldNotUpdateItem.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        return result.status === 400 ? this.error(400, 'CouldNotUpdateItem') : result
      }
    },
  ),
  faulty(
    'b-post-notes-missing-other-code',
    'B4',
    'specified',
    'POST without notes answers CouldNotCreateItem.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const { id, name, notes } = sent(this.readObject(request))
        const lacksNotes = this.isPresent(id) && this.isPresent(name) && notes === undefined
        return lacksNotes ? this.error(400, 'CouldNotCreateItem') : super.postItem(request)
      }
    },
  ),
  faulty(
    'b-malformed-json-message',
    'B9',
    'specified',
    'Malformed JSON is answered with the message of the parser.',
    class extends ReferenceB {
      override readItem(request: Request, code: CodeB): Outcome<ItemB, Result> {
        const body = this.readObject(request)
        try {
          if (!body.ok && body.why === 'malformed' && request.body.length > 0) JSON.parse(this.decodeBody(request.body))
          return super.readItem(request, code)
        } catch (error) {
          return { ok: false, why: text(400, String(error)) }
        }
      }
    },
  ),
]

const shapesB = [
  faulty(
    'b-list-id-capitals',
    'G3',
    'specified',
    'The id of listed items is called ID.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) =>
          renamed(item, (name) => (name === 'id' ? 'ID' : name)),
        )
      }
    },
  ),
  faulty(
    'b-post-pascal-case',
    'G3',
    'specified',
    'The members of the created item are Id, Name, Notes and Done.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        return editItems(await super.postItem(request), (item) => renamed(item, pascal))
      }
    },
  ),
  faulty(
    'b-list-id-number',
    'B1',
    'specified',
    'An id of digits is a JSON number in the list.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) =>
          /^[1-9]\d{0,14}$/.test(String(item.id)) ? { ...item, id: Number(item.id) } : item,
        )
      }
    },
  ),
  faulty(
    'b-list-false-left-out',
    'B1',
    'specified',
    'done is left out of listed items when it is false.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => without(item, (value) => value === false))
      }
    },
  ),
  faulty(
    'b-list-in-values',
    'B1',
    'specified',
    'The list is wrapped: {"$id": "1", "$values": [...]}.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return edit(await super.getItems(request), ($values) => ({ $id: '1', $values }))
      }
    },
  ),
  faulty(
    'b-list-object-after-delete',
    'B1',
    'specified',
    'Once an item other than the last has been deleted, the list is an object with the indexes as names.',
    class extends ReferenceB {
      hasGap = false

      override remove(id: string) {
        const isLast = this.list().at(-1)?.id === id
        const isRemoved = super.remove(id)
        this.hasGap ||= isRemoved && !isLast
        return isRemoved
      }

      override async getItems(request: Request) {
        return edit(await super.getItems(request), (items) =>
          this.hasGap && Array.isArray(items)
            ? Object.fromEntries(items.map((item, index) => [index + 1, item]))
            : items,
        )
      }
    },
  ),
  faulty(
    'b-list-version',
    'B1',
    'specified',
    'Listed items have a member __v.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return editItems(await super.getItems(request), (item) => ({ ...item, __v: 0 }))
      }
    },
  ),
  faulty(
    'b-post-echoes-unknown',
    'B3',
    'specified',
    'Unknown members of a create request come back in its response.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const echo = sent(this.readObject(request))
        return editItems(await super.postItem(request), (item) => ({ ...echo, ...item }))
      }
    },
  ),
  faulty(
    'b-put-stores-unknown',
    'B1',
    'specified',
    'Unknown members of a PUT are stored, and returned in the list.',
    class extends ReferenceB {
      readonly more = new Map<string, JsonObject>()

      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const body = sent(this.readObject(request))
        if (isSuccess(result)) this.more.set(String(body.id), body)
        return result
      }

      override remove(id: string) {
        this.more.delete(id)
        return super.remove(id)
      }

      override toWire(item: ItemB) {
        return { ...this.more.get(item.id), ...super.toWire(item) }
      }
    },
  ),
  faulty(
    'b-stores-unknown-unseen',
    'G4',
    'unobservable',
    'Unknown members are stored but never returned.',
    class extends ReferenceB {
      override toItem(body: JsonObject) {
        return { ...body, ...super.toItem(body) }
      }
    },
  ),
  faulty(
    'b-list-id-twice',
    'B1',
    'specified',
    'Listed items have two members id: the number of the row, and the id.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        let row = 0
        const number = (body: string) => body.replaceAll('{"id":', () => `{"id":${++row},"id":`)
        return editText(await super.getItems(request), number)
      }
    },
  ),
  faulty(
    'b-list-guarded',
    'G3',
    'specified',
    'The list begins with a guard against script inclusion.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        return editText(await super.getItems(request), (body) => `)]}',\n${body}`)
      }
    },
  ),
]

const requestsB = [
  faulty(
    'b-post-id-generated',
    'B4',
    'specified',
    'POST without id creates an item with an id of the service.',
    class extends AmendB {
      override amend(body: JsonObject, request: Request) {
        return request.method === 'POST' ? { id: randomUUID(), ...body } : body
      }
    },
  ),
  faulty(
    'b-put-notes-optional',
    'B4',
    'specified',
    'PUT without notes is accepted and keeps the stored ones.',
    class extends AmendB {
      override amend(body: JsonObject, request: Request) {
        const stored = request.method === 'PUT' ? this.find(String(body.id)) : undefined
        return stored === undefined ? body : { notes: stored.notes, ...body }
      }
    },
  ),
  faulty(
    'b-accept-xml',
    'G3',
    'specified',
    'The list is XML when Accept begins with application/xml.',
    class extends ReferenceB {
      override async getItems(request: Request) {
        if (!accept(request).startsWith('application/xml')) return super.getItems(request)
        const escape = (value: Json) => String(value).replace(/[<&]/g, (char) => `&#${char.charCodeAt(0)};`)
        const items = this.list().map((item) =>
          Object.entries(this.toWire(item))
            .map(([name, value]) => `<${name}>${escape(value)}</${name}>`)
            .join(''),
        )
        const body = `<items>${items.map((item) => `<item>${item}</item>`).join('')}</items>`
        return text(200, body, { 'content-type': 'application/xml; charset=utf-8' })
      }
    },
  ),
  faulty(
    'b-chunked-body-unread',
    'B3',
    'specified',
    'A body sent in chunks is taken for missing.',
    class extends ReferenceB {
      override async readBody(incoming: IncomingMessage) {
        const read = await super.readBody(incoming)
        return 'transfer-encoding' in incoming.headers ? { ...read, body: Buffer.alloc(0) } : read
      }
    },
  ),
  faulty(
    'b-expect-417',
    'B3',
    'specified',
    'A request with Expect: 100-continue is refused with 417.',
    class extends ReferenceB {
      override create(): Server {
        return super.create().on('checkContinue', (_incoming, outgoing) => {
          outgoing.writeHead(417, { 'content-length': 0, connection: 'close' }).end()
        })
      }
    },
  ),
  faulty(
    'b-unknown-members-refused',
    'G4',
    'choice',
    'A body with an unknown member is refused as invalid.',
    class extends ReferenceB {
      override validate(body: JsonObject) {
        const isKnown = (name: string) => ['id', 'name', 'notes', 'done'].includes(name)
        return Object.keys(body).every(isKnown) && super.validate(body)
      }
    },
  ),
  faulty(
    'b-byte-order-mark-refused',
    'G5',
    'choice',
    'A body that begins with a byte order mark is refused.',
    class extends ReferenceB {
      override decodeBody(body: Buffer) {
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
      }
    },
  ),
  faulty(
    'b-cause-not-logged',
    'G8',
    'unobservable',
    'The cause of a failure is not written to the log.',
    class extends ReferenceB {
      override log() {
        // nothing
      }
    },
  ),
]

export const wireFaults: readonly FaultyServer[] = [
  ...mediaTypesA,
  ...locationsA,
  ...pathsA,
  ...statusesA,
  ...shapesA,
  ...requestsA,
  ...mediaTypesB,
  ...pathsB,
  ...statusesB,
  ...codesB,
  ...shapesB,
  ...requestsB,
]
