import { createHmac, randomInt, randomUUID, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer, STATUS_CODES } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { ServerOptions } from './types.ts'

export type Json = null | boolean | number | bigint | string | Json[] | JsonObject
export interface JsonObject {
  [name: string]: Json
}
export type Headers = Record<string, string | string[]>

export interface ReferenceOptions extends ServerOptions {
  /** Serve the page and, in profile B, do not redirect to HTTPS. True unless told. */
  readonly development?: boolean
  /** The base address in `Location`, without a slash at the end. */
  readonly publicUrl?: string
  /** Bytes of a request body, 1 MiB unless told. */
  readonly bodyLimit?: number
}

export interface Request {
  readonly id: string
  readonly method: string
  /** The path as sent, without query. */
  readonly path: string
  /** `?` and the query as sent, or empty. */
  readonly query: string
  /** Host and port the client asked for. */
  readonly authority: string
  readonly secure: boolean
  /** The path segment in place of `{id}` as sent, empty when the route has none. */
  readonly parameter: string
  readonly body: Buffer
  readonly bodyTooLong: boolean
  readonly incoming: IncomingMessage
}

export interface Result {
  readonly status: number
  readonly headers: Headers
  readonly body: string | Buffer
}

export interface Route {
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly handle: (request: Request) => Promise<Result>
}

/** A value, or why there is none. */
export type Outcome<T, W> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: W }

export type BodyFault = 'media type' | 'too long' | 'malformed'

export interface ForecastEntry {
  readonly date: string
  readonly temperatureC: number
  readonly temperatureF: number
  readonly summary: string | null
}

const done = <T>(value: T) => ({ ok: true, value }) as const
const refused = <W>(why: W) => ({ ok: false, why }) as const

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const endOfString = (text: string, start: number) => {
  let at = start + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

/** Strict JSON; integers of up to 19 digits become bigint, objects have no prototype, the last of equal names wins. */
export const readJson = (text: string): Json => {
  JSON.parse(text) // throws unless well-formed, so the scan below need not check
  const open: (Json[] | JsonObject)[] = []
  const scalar = /[^\s,:[\]{}"]+/y
  let root: Json = null
  let name: string | undefined
  const put = (value: Json) => {
    const parent = open.at(-1)
    if (parent === undefined) root = value
    else if (Array.isArray(parent)) parent.push(value)
    else parent[name ?? ''] = value
    name = undefined
    if (typeof value === 'object' && value !== null) open.push(value)
  }
  for (let at = 0; at < text.length; ) {
    const char = text[at] ?? ''
    if (char === '"') {
      const end = endOfString(text, at)
      const value = JSON.parse(text.slice(at, end)) as string
      const parent = open.at(-1)
      if (name === undefined && parent !== undefined && !Array.isArray(parent)) name = value
      else put(value)
      at = end
    } else if (/[\s,:[\]{}]/.test(char)) {
      if (char === '[') put([])
      else if (char === '{') put(Object.create(null) as JsonObject)
      else if (char === ']' || char === '}') open.pop()
      at++
    } else {
      scalar.lastIndex = at
      const token = scalar.exec(text)?.[0] ?? ''
      put(/^-?\d{1,19}$/.test(token) ? BigInt(token) : (JSON.parse(token) as Json))
      at += token.length
    }
  }
  return root
}

export const writeJson = (value: Json): string => {
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return `[${value.map(writeJson).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, part]) => `${JSON.stringify(name)}:${writeJson(part)}`)
    .join(',')}}`
}

/** Puts a value at a place of a JSON value, or removes what is there (undefined). Throws when the way is not there. */
export const setNode = (root: Json, way: readonly (string | number)[], value: Json | undefined): void => {
  const last = String(way.at(-1))
  let node: Json | undefined = root
  for (const step of way.slice(0, -1)) node = (node as JsonObject | undefined)?.[step]
  if (typeof node !== 'object' || node === null) throw new Error(`No node at ${way.join(' > ')}`)
  if (value !== undefined) (node as JsonObject)[last] = value
  else if (Array.isArray(node)) node.splice(Number(last), 1)
  else delete node[last]
}

export const json = (status: number, value: Json, headers: Headers = {}): Result => ({
  status,
  headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
  body: writeJson(value),
})
export const text = (status: number, body: string, headers: Headers = {}): Result => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8', ...headers },
  body,
})
export const empty = (status: number, headers: Headers = {}): Result => ({ status, headers, body: '' })

const escapeHtml = (value: string) => value.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)

const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
const content = (schema: JsonObject, ...types: string[]): JsonObject =>
  Object.fromEntries(types.map((type) => [type, { schema }]))
/** A copy in which no two places share an object, so that a change of one node changes no other. */
const separate = (value: JsonObject) => JSON.parse(JSON.stringify(value)) as JsonObject
const answer = (description: string, more: JsonObject = {}): JsonObject => ({ description, ...more })
const jsonAnswer = (description: string, schema: JsonObject): JsonObject =>
  answer(description, { content: content(schema, 'application/json') })
const textAnswer = (description: string, schema: JsonObject = { type: 'string' }): JsonObject =>
  answer(description, { content: content(schema, 'text/plain') })
const header = (description: string, more: JsonObject = {}): JsonObject => ({
  description,
  schema: { type: 'string', ...more },
})
const itemsOf = (name: string): JsonObject => ({ type: 'array', items: ref(name) })
const requestBody = (name: string): JsonObject => ({
  required: true,
  content: content(ref(name), 'application/json', 'text/json', 'application/*+json'),
})

const summaries = ['Freezing', 'Bracing', 'Chilly', 'Cool', 'Mild', 'Warm', 'Balmy', 'Hot', 'Sweltering', 'Scorching']

const pageScript = `
const token = document.getElementById('token')
const show = async (output, path, options) => {
  try {
    if (token.value) options.headers.authorization = 'Bearer ' + token.value
    const response = await fetch(path, options)
    output.textContent = response.status + ' ' + response.statusText + '\\n' + await response.text()
  } catch (error) { output.textContent = String(error) }
}
document.getElementById('load').addEventListener('click', () =>
  show(document.getElementById('document'), '/swagger/v1/swagger.json', { headers: {} }))
for (const form of document.querySelectorAll('form')) form.addEventListener('submit', event => {
  event.preventDefault()
  const id = form.elements.namedItem('id')
  const body = form.elements.namedItem('body')
  const path = form.dataset.path.replace('{id}', () => encodeURIComponent(id.value))
  show(form.querySelector('pre'), path, body
    ? { method: form.dataset.method, headers: { 'content-type': 'application/json' }, body: body.value }
    : { method: form.dataset.method, headers: {} })
})
`

export abstract class ReferenceServer {
  readonly options: ReferenceOptions

  constructor(options: ReferenceOptions) {
    this.options = options
  }

  abstract readonly title: string
  abstract itemRoutes(): Route[]
  abstract itemPaths(): JsonObject
  abstract itemSchemas(): JsonObject
  /** An error outside the to-do operations. */
  abstract plainError(request: Request, status: number): Result

  get development(): boolean {
    return this.options.development ?? true
  }

  // From the socket and back

  create(): Server {
    return createServer({ maxHeaderSize: 65_536 }, (incoming, outgoing) => void this.serve(incoming, outgoing))
  }

  async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    let request: Request
    try {
      request = await this.readRequest(incoming)
    } catch {
      outgoing.destroy() // the client went away
      return
    }
    this.send(await this.answer(request), request, outgoing)
  }

  async answer(request: Request): Promise<Result> {
    try {
      return await this.route(request)
    } catch (error) {
      this.log(request, error)
      return this.plainError(request, 500)
    }
  }

  log(_request: Request, _error: unknown): void {}

  async readRequest(incoming: IncomingMessage): Promise<Request> {
    const target = /^(?:https?:\/\/([^/?]+))?([^?]*)(.*)$/is.exec(incoming.url ?? '/')
    const { localAddress, localPort } = incoming.socket
    const authority = target?.[1] ?? incoming.headers.host ?? ''
    return {
      id: randomUUID(),
      method: incoming.method ?? 'GET',
      path: target?.[2] || '/',
      query: target?.[3] ?? '',
      authority: authority || `${localAddress}:${localPort}`,
      secure: (incoming.socket as TLSSocket).encrypted === true,
      parameter: '',
      ...(await this.readBody(incoming)),
      incoming,
    }
  }

  /** Reads to the end, keeps no more than the limit. */
  async readBody(incoming: IncomingMessage): Promise<Pick<Request, 'body' | 'bodyTooLong'>> {
    const limit = this.options.bodyLimit ?? 1_048_576
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length <= limit) chunks.push(chunk)
    }
    return { body: Buffer.concat(chunks), bodyTooLong: length > limit }
  }

  send(result: Result, request: Request, outgoing: ServerResponse): void {
    const body = Buffer.from(result.body as string)
    outgoing.statusCode = result.status
    for (const [name, value] of Object.entries(result.headers)) outgoing.setHeader(name, value)
    if (result.status !== 204 && result.status !== 304) outgoing.setHeader('content-length', body.length)
    if (request.method === 'HEAD') outgoing.end()
    else outgoing.end(body)
  }

  // Routes

  routes(): Route[] {
    return [...this.itemRoutes(), ...this.sampleRoutes(), ...(this.development ? this.pageRoutes() : [])]
  }

  sampleRoutes(): Route[] {
    return [
      { method: 'GET', path: '/', summary: 'Greeting', handle: (r) => this.getGreeting(r) },
      { method: 'GET', path: '/weatherforecast', summary: 'Forecast of five days', handle: (r) => this.getForecast(r) },
      { method: 'GET', path: '/secret', summary: 'Secured greeting', handle: (r) => this.getSecret(r) },
      {
        method: 'GET',
        path: '/swagger/v1/swagger.json',
        summary: 'This description',
        handle: (r) => this.getDocument(r),
      },
    ]
  }

  pageRoutes(): Route[] {
    return [
      { method: 'GET', path: '/swagger/index.html', summary: 'Page to browse and try', handle: (r) => this.getPage(r) },
      { method: 'GET', path: '/swagger', summary: 'Leads to the page', handle: (r) => this.getPageRedirect(r) },
    ]
  }

  async route(request: Request): Promise<Result> {
    const found = this.findRoute(request.path)
    if (found === undefined) return this.notFoundPath(request)
    const allow = this.allow(found.routes)
    if (request.method === 'OPTIONS') return this.optionsOf(request, allow)
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const route = found.routes.find((one) => one.method === method)
    if (route === undefined) return this.methodNotAllowed(request, allow)
    return route.handle({ ...request, parameter: found.parameter })
  }

  /** The routes of a path, one per method. */
  findRoute(path: string): { routes: Route[]; parameter: string } | undefined {
    const routes: Route[] = []
    let parameter = ''
    for (const route of this.routes()) {
      const match = this.matchPath(route.path, path)
      if (match === undefined) continue
      routes.push(route)
      parameter = match
    }
    return routes.length === 0 ? undefined : { routes, parameter }
  }

  /** The raw parameter (empty when there is none), undefined when the path is another. */
  matchPath(template: string, path: string): string | undefined {
    const expected = this.segments(template)
    const actual = this.segments(path)
    if (!path.startsWith('/') || expected.length !== actual.length) return undefined
    let parameter = ''
    for (const [index, segment] of actual.entries()) {
      if (expected[index] === '{id}' && segment !== '') parameter = segment
      else if (!this.matchLiteral(expected[index] ?? '', segment)) return undefined
    }
    return parameter
  }

  /** Without the slash at the start and one at the end. */
  segments(path: string): string[] {
    return path.replace(/^\//, '').replace(/\/$/, '').split('/')
  }

  matchLiteral(literal: string, segment: string): boolean {
    return this.decodeSegment(segment)?.toLowerCase() === literal
  }

  /** Undefined when it is no valid percent-encoding. */
  decodeSegment(segment: string): string | undefined {
    if (/[^\x21-\x7e]/.test(segment)) return undefined
    try {
      return decodeURIComponent(segment)
    } catch {
      return undefined
    }
  }

  allow(routes: readonly Route[]): string {
    return routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  }

  optionsOf(_request: Request, allow: string): Result {
    return empty(204, { allow })
  }

  methodNotAllowed(_request: Request, allow: string): Result {
    return empty(405, { allow })
  }

  notFoundPath(request: Request): Result {
    return this.plainError(request, 404)
  }

  baseUrl(request: Request): string {
    return this.options.publicUrl ?? `${request.secure ? 'https' : 'http'}://${request.authority}`
  }

  // JSON bodies

  readObject(request: Request): Outcome<JsonObject, BodyFault> {
    if (!this.acceptsMediaType(request.incoming.headers['content-type'] ?? '')) return refused('media type')
    if (request.bodyTooLong) return refused('too long')
    try {
      const value = this.parseJson(this.decodeBody(request.body))
      return isObject(value) ? done(value) : refused('malformed')
    } catch {
      return refused('malformed')
    }
  }

  acceptsMediaType(contentType: string): boolean {
    const [type = '', ...parameters] = contentType
      .toLowerCase()
      .split(';')
      .map((part) => part.trim())
    return (
      /^(application\/json|text\/json|application\/[^\s/]+\+json)$/.test(type) &&
      parameters.every((one) => !one.startsWith('charset=') || one === 'charset=utf-8' || one === 'charset="utf-8"')
    )
  }

  /** Throws unless valid UTF-8; skips a byte order mark. */
  decodeBody(body: Buffer): string {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  }

  parseJson(source: string): Json {
    return readJson(source)
  }

  // Tokens

  authenticate(request: Request): Outcome<JsonObject, Result> {
    const credentials = request.incoming.headersDistinct.authorization ?? []
    if (credentials.length > 1) return refused(this.plainError(request, 400))
    const token = /^bearer +(.+)$/i.exec(credentials[0] ?? '')?.[1]
    if (token === undefined) return refused(this.challenge())
    const claims = this.verifyToken(token)
    return claims.ok ? claims : refused(this.challenge(claims.why))
  }

  challenge(reason?: string): Result {
    const more = reason === undefined ? '' : ` error="invalid_token", error_description="${reason}"`
    return empty(401, { 'www-authenticate': `Bearer${more}` })
  }

  verifyToken(token: string): Outcome<JsonObject, string> {
    const [head = '', payload = '', signature = '', ...rest] = token.split('.')
    const header = this.tokenPart(head)
    const claims = this.tokenPart(payload)
    if (header === undefined || claims === undefined || rest.length > 0) return refused('The token is malformed')
    if (!this.acceptsTokenHeader(header)) return refused('The algorithm is not accepted')
    if (!this.signatureMatches(`${head}.${payload}`, signature)) return refused('The signature is invalid')
    return this.timeAllows(claims) ? done(claims) : refused('The token is expired or not yet valid')
  }

  tokenPart(part: string): JsonObject | undefined {
    try {
      const value: unknown = JSON.parse(this.decodeBody(Buffer.from(part, 'base64url')))
      return isObject(value) ? value : undefined
    } catch {
      return undefined
    }
  }

  acceptsTokenHeader(header: JsonObject): boolean {
    return header.alg === 'HS256' && header.crit === undefined
  }

  signatureMatches(input: string, signature: string): boolean {
    const expected = Buffer.from(createHmac('sha256', this.options.tokenKey).update(input).digest('base64url'))
    const actual = Buffer.from(signature)
    return expected.length === actual.length && timingSafeEqual(expected, actual)
  }

  timeAllows({ exp = Infinity, nbf = -Infinity }: JsonObject): boolean {
    const now = Date.now() / 1000
    return typeof exp === 'number' && typeof nbf === 'number' && nbf <= now && now < exp
  }

  identity(claims: JsonObject): string {
    const names = [claims.unique_name, claims.name, claims.sub]
    return names.find((name): name is string => typeof name === 'string' && name !== '') ?? ''
  }

  // Samples: one handler each, and the value it sends

  async getGreeting(_request: Request): Promise<Result> {
    return text(200, this.greeting())
  }

  async getForecast(_request: Request): Promise<Result> {
    return json(
      200,
      this.forecast(new Date()).map((entry) => ({ ...entry })),
    )
  }

  async getSecret(request: Request): Promise<Result> {
    const caller = this.authenticate(request)
    return caller.ok ? text(200, this.secret(this.identity(caller.value))) : caller.why
  }

  async getDocument(request: Request): Promise<Result> {
    const caller = this.authenticate(request)
    return caller.ok ? json(200, this.document()) : caller.why
  }

  async getPage(_request: Request): Promise<Result> {
    return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: this.page() }
  }

  async getPageRedirect(_request: Request): Promise<Result> {
    return empty(302, { location: '/swagger/index.html' })
  }

  greeting(): string {
    return 'Hello, this is the to-do item service.'
  }

  secret(name: string): string {
    return `Hello ${name}. The secret phrase is: the owl flies at noon.`
  }

  forecast(now: Date): ForecastEntry[] {
    return [1, 2, 3, 4, 5].map((days) => this.forecastEntry(now, days))
  }

  forecastEntry(now: Date, days: number): ForecastEntry {
    const temperatureC = randomInt(-20, 55)
    return {
      date: new Date(now.getTime() + days * 86_400_000).toISOString().replace('Z', '+00:00'),
      temperatureC,
      temperatureF: this.fahrenheit(temperatureC),
      summary: summaries[randomInt(summaries.length)] ?? null,
    }
  }

  fahrenheit(celsius: number): number {
    return 32 + Math.trunc(celsius / 0.5556)
  }

  page(): string {
    const forms = this.routes().map(
      ({ method, path, summary }) => `
<form data-method="${method}" data-path="${escapeHtml(path)}">
<h2><code>${method} ${escapeHtml(path)}</code></h2><p>${escapeHtml(summary)}</p>
${path.includes('{id}') ? '<label>id <input name="id" required></label>' : ''}
${method === 'POST' || method === 'PUT' ? '<label>body <textarea name="body">{}</textarea></label>' : ''}
<button>Try it</button><pre></pre></form>`,
    )
    return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(this.title)}</title></head><body>
<h1>${escapeHtml(this.title)}</h1>
<p><label>Access token <input id="token"></label> <button id="load">Show /swagger/v1/swagger.json</button></p>
<pre id="document"></pre>${forms.join('')}
<script>${pageScript}</script></body></html>
`
  }

  // The interface description

  document(): JsonObject {
    return {
      openapi: '3.0.1',
      info: { title: this.title, version: 'v1' },
      paths: { ...this.itemPaths(), ...this.samplePaths(), ...(this.development ? this.pagePaths() : {}) },
      components: {
        schemas: { ...this.itemSchemas(), ForecastEntry: this.forecastSchema() },
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      },
    }
  }

  samplePaths(): JsonObject {
    const tags = ['Samples']
    const forecast = { type: 'array', minItems: 5, maxItems: 5, items: ref('ForecastEntry') }
    const security = [{ bearer: [] }]
    const refusals = {
      400: this.plainErrorAnswer('More than one Authorization header'),
      401: answer('No token or a bad one', { headers: { 'WWW-Authenticate': header('Bearer challenge') } }),
    }
    return separate({
      '/': { get: { operationId: 'getGreeting', tags, responses: { 200: textAnswer('A greeting') } } },
      '/weatherforecast': {
        get: { operationId: 'getForecast', tags, responses: { 200: jsonAnswer('Five days', forecast) } },
      },
      '/secret': {
        get: {
          operationId: 'getSecret',
          tags,
          security,
          responses: { 200: textAnswer('The name of the caller and a secret phrase'), ...refusals },
        },
      },
      '/swagger/v1/swagger.json': {
        get: {
          operationId: 'getDocument',
          tags,
          security,
          responses: { 200: jsonAnswer('This description', { type: 'object' }), ...refusals },
        },
      },
    })
  }

  pagePaths(): JsonObject {
    const tags = ['Samples']
    const location = { headers: { Location: header('Path of the page') } }
    return separate({
      '/swagger/index.html': {
        get: {
          operationId: 'getPage',
          tags,
          responses: { 200: answer('The page', { content: content({ type: 'string' }, 'text/html') }) },
        },
      },
      '/swagger': {
        get: { operationId: 'getPageRedirect', tags, responses: { 302: answer('Leads to the page', location) } },
      },
    })
  }

  /** How the description tells of plainError: without a body. */
  plainErrorAnswer(description: string): JsonObject {
    return answer(description)
  }

  forecastSchema(): JsonObject {
    return {
      type: 'object',
      required: ['date', 'temperatureC', 'temperatureF', 'summary'],
      properties: {
        date: { type: 'string', format: 'date-time' },
        temperatureC: { type: 'integer', format: 'int32', minimum: -20, maximum: 54 },
        temperatureF: { type: 'integer', format: 'int32' },
        summary: { type: 'string', nullable: true, enum: [...summaries, null] },
      },
      additionalProperties: false,
    }
  }
}

// Profile A

export interface DraftA {
  readonly name: string | null
  readonly isComplete: boolean
}

export interface ItemA extends DraftA {
  readonly id: bigint
  readonly secret: string | null
}

/** Member names and what is wrong with them. */
export type Errors = Record<string, string[]>

export class ReferenceA extends ReferenceServer {
  readonly title: string = 'To-do items, profile A'
  readonly items = new Map<bigint, ItemA>()
  lastId = 0n

  itemRoutes(): Route[] {
    const path = '/api/todoitems'
    return [
      { method: 'GET', path, summary: 'All items', handle: (r) => this.getItems(r) },
      { method: 'POST', path, summary: 'Create an item', handle: (r) => this.postItem(r) },
      { method: 'GET', path: `${path}/{id}`, summary: 'One item', handle: (r) => this.getItem(r) },
      { method: 'PUT', path: `${path}/{id}`, summary: 'Update an item', handle: (r) => this.putItem(r) },
      { method: 'DELETE', path: `${path}/{id}`, summary: 'Delete an item', handle: (r) => this.deleteItem(r) },
    ]
  }

  // Store

  /** By id, ascending. */
  list(): ItemA[] {
    return [...this.items.values()]
  }

  find(id: bigint): ItemA | undefined {
    return this.items.get(id)
  }

  insert(draft: DraftA): ItemA {
    const item = { id: this.nextId(), name: draft.name, isComplete: draft.isComplete, secret: null }
    this.items.set(item.id, item)
    return item
  }

  /** False when no item has the id. */
  replace(id: bigint, draft: DraftA): boolean {
    const item = this.items.get(id)
    if (item === undefined) return false
    this.items.set(id, { ...item, name: draft.name, isComplete: draft.isComplete })
    return true
  }

  /** False when no item has the id. */
  remove(id: bigint): boolean {
    return this.items.delete(id)
  }

  nextId(): bigint {
    return ++this.lastId
  }

  // Operations

  async getItems(_request: Request): Promise<Result> {
    return json(
      200,
      this.list().map((item) => this.toWire(item)),
    )
  }

  async getItem(request: Request): Promise<Result> {
    const id = this.pathId(request)
    if (id === undefined) return this.malformedId(request)
    const item = this.find(id)
    return item === undefined ? this.error(request, 404) : json(200, this.toWire(item))
  }

  async postItem(request: Request): Promise<Result> {
    const body = this.readValid(request)
    if (!body.ok) return body.why
    const item = this.insert(this.toDraft(body.value))
    return json(201, this.toWire(item), { location: this.location(request, item) })
  }

  async putItem(request: Request): Promise<Result> {
    const id = this.pathId(request)
    if (id === undefined) return this.malformedId(request)
    const body = this.readValid(request)
    if (!body.ok) return body.why
    if (body.value.id !== id) return this.error(request, 400, { id: ['The ids of path and body differ.'] })
    return this.replace(id, this.toDraft(body.value)) ? empty(204) : this.error(request, 404)
  }

  async deleteItem(request: Request): Promise<Result> {
    const id = this.pathId(request)
    if (id === undefined) return this.malformedId(request)
    return this.remove(id) ? empty(204) : this.error(request, 404)
  }

  // Steps

  /** Undefined unless it is an int64 in its shortest decimal form. */
  pathId(request: Request): bigint | undefined {
    const source = this.decodeSegment(request.parameter) ?? ''
    if (!/^(0|-?[1-9]\d{0,18})$/.test(source)) return undefined
    const id = BigInt(source)
    return BigInt.asIntN(64, id) === id ? id : undefined
  }

  readValid(request: Request): Outcome<JsonObject, Result> {
    const body = this.readObject(request)
    if (!body.ok) return refused(this.bodyError(request, body.why))
    const errors = this.validate(body.value)
    return Object.keys(errors).length === 0 ? body : refused(this.error(request, 400, errors))
  }

  bodyError(request: Request, fault: BodyFault): Result {
    return this.error(request, fault === 'media type' ? 415 : fault === 'too long' ? 413 : 400)
  }

  validate(body: JsonObject): Errors {
    const { name = null, isComplete } = body
    const errors: Errors = {}
    if (name !== null && typeof name !== 'string') errors.name = ['Must be a string or null.']
    if (typeof name === 'string' && !name.isWellFormed()) errors.name = ['Must be well-formed Unicode.']
    if (typeof isComplete !== 'boolean') errors.isComplete = ['Is required and must be a boolean.']
    return errors
  }

  /** Of a valid body. */
  toDraft({ name, isComplete }: JsonObject): DraftA {
    return { name: typeof name === 'string' ? name : null, isComplete: isComplete === true }
  }

  toWire(item: ItemA): JsonObject {
    return { id: item.id, name: item.name, isComplete: item.isComplete }
  }

  location(request: Request, item: ItemA): string {
    return `${this.baseUrl(request)}/api/todoitems/${item.id}`
  }

  malformedId(request: Request): Result {
    return this.error(request, 400, { id: ['Must be an integer of 64 bits.'] })
  }

  error(request: Request, status: number, errors?: Errors): Result {
    const problem: JsonObject = { type: 'about:blank', title: STATUS_CODES[status] ?? '', status, traceId: request.id }
    if (errors !== undefined) problem.errors = errors
    return json(status, problem, { 'content-type': 'application/problem+json; charset=utf-8' })
  }

  plainError(request: Request, status: number): Result {
    return this.error(request, status)
  }

  // Description

  override plainErrorAnswer(description: string): JsonObject {
    return answer(description, { content: content(ref('Problem'), 'application/problem+json') })
  }

  itemPaths(): JsonObject {
    const tags = ['TodoItems']
    const problem = (description: string) => this.plainErrorAnswer(description)
    const failed = { 500: problem('Unhandled failure') }
    const missing = { 400: problem('The id is no int64'), 404: problem('No item has the id'), ...failed }
    const body = { 413: problem('The body is too long'), 415: problem('The media type is not read') }
    const id = { name: 'id', in: 'path', required: true, schema: { type: 'integer', format: 'int64' } }
    const parameters = [id]
    const created = {
      ...jsonAnswer('The created item', ref('TodoItem')),
      headers: { Location: header('URI of the created item', { format: 'uri' }) },
    }
    return separate({
      '/api/todoitems': {
        get: {
          operationId: 'getTodoItems',
          tags,
          responses: { 200: jsonAnswer('All items', itemsOf('TodoItem')), ...failed },
        },
        post: {
          operationId: 'createTodoItem',
          tags,
          requestBody: requestBody('NewTodoItem'),
          responses: { 201: created, 400: problem('The body is invalid'), ...body, ...failed },
        },
      },
      '/api/todoitems/{id}': {
        get: {
          operationId: 'getTodoItem',
          tags,
          parameters,
          responses: { 200: jsonAnswer('The item', ref('TodoItem')), ...missing },
        },
        put: {
          operationId: 'updateTodoItem',
          tags,
          parameters,
          requestBody: requestBody('ChangedTodoItem'),
          responses: {
            204: answer('Updated'),
            ...missing,
            ...body,
            400: problem('The id is no int64, the body is invalid or the ids differ'),
          },
        },
        delete: { operationId: 'deleteTodoItem', tags, parameters, responses: { 204: answer('Deleted'), ...missing } },
      },
    })
  }

  itemSchemas(): JsonObject {
    const id = { type: 'integer', format: 'int64' }
    const name = { type: 'string', nullable: true }
    const isComplete = { type: 'boolean' }
    const texts = { type: 'array', items: { type: 'string' } }
    return separate({
      TodoItem: {
        type: 'object',
        required: ['id', 'name', 'isComplete'],
        properties: { id, name, isComplete },
        additionalProperties: false,
      },
      NewTodoItem: { type: 'object', required: ['isComplete'], properties: { name, isComplete } },
      ChangedTodoItem: { type: 'object', required: ['id', 'isComplete'], properties: { id, name, isComplete } },
      Problem: {
        type: 'object',
        required: ['type', 'title', 'status', 'traceId'],
        properties: {
          type: { type: 'string' },
          title: { type: 'string' },
          status: { type: 'integer', format: 'int32' },
          traceId: { type: 'string' },
          errors: { type: 'object', additionalProperties: texts },
        },
      },
    })
  }
}

// Profile B

export interface ItemB {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

export type CodeB =
  | 'TodoItemNameAndNotesRequired'
  | 'TodoItemIDInUse'
  | 'RecordNotFound'
  | 'CouldNotCreateItem'
  | 'CouldNotUpdateItem'
  | 'CouldNotDeleteItem'

export class ReferenceB extends ReferenceServer {
  readonly title: string = 'To-do items, profile B'
  readonly items = new Map<string, ItemB>()

  constructor(options: ReferenceOptions) {
    super(options)
    for (const item of this.startingItems()) this.items.set(item.id, item)
  }

  startingItems(): ItemB[] {
    return [
      { id: '6bb8a868-dba1-4f1a-93b7-24ebce87e243', name: 'Learn', notes: 'Take a course', done: true },
      { id: 'b94afb54-a1cb-4313-8af3-b7511551b33b', name: 'Develop', notes: 'Write the app', done: false },
      { id: 'ecfa6f80-3671-4911-aabe-63cc442c1ecf', name: 'Publish', notes: 'Send it to the stores', done: false },
    ]
  }

  itemRoutes(): Route[] {
    const path = '/api/todoitems'
    return [
      { method: 'GET', path, summary: 'All items', handle: (r) => this.getItems(r) },
      { method: 'POST', path, summary: 'Create an item', handle: (r) => this.postItem(r) },
      { method: 'PUT', path, summary: 'Replace an item', handle: (r) => this.putItem(r) },
      { method: 'DELETE', path: `${path}/{id}`, summary: 'Delete an item', handle: (r) => this.deleteItem(r) },
    ]
  }

  override async route(request: Request): Promise<Result> {
    return this.development || request.secure ? super.route(request) : this.redirect(request)
  }

  redirect({ authority, path, query }: Request): Result {
    return empty(307, { location: `https://${authority.replace(/:\d+$/, '')}${path}${query}` })
  }

  // Store

  /** In the order of creation. */
  list(): ItemB[] {
    return [...this.items.values()]
  }

  find(id: string): ItemB | undefined {
    return this.items.get(id)
  }

  insert(item: ItemB): ItemB {
    this.items.set(item.id, item)
    return item
  }

  /** False when no item has the id. */
  replace(id: string, item: ItemB): boolean {
    if (!this.items.has(id)) return false
    this.items.set(id, item)
    return true
  }

  /** False when no item has the id. */
  remove(id: string): boolean {
    return this.items.delete(id)
  }

  // Operations

  async getItems(_request: Request): Promise<Result> {
    return json(
      200,
      this.list().map((item) => this.toWire(item)),
    )
  }

  async postItem(request: Request): Promise<Result> {
    return this.guard(request, 'CouldNotCreateItem', () => {
      const read = this.readItem(request, 'CouldNotCreateItem')
      if (!read.ok) return read.why
      if (this.find(read.value.id) !== undefined) return this.error(409, 'TodoItemIDInUse')
      if (!this.isStorable(read.value)) return this.error(400, 'CouldNotCreateItem')
      return json(200, this.toWire(this.insert(read.value)))
    })
  }

  async putItem(request: Request): Promise<Result> {
    return this.guard(request, 'CouldNotUpdateItem', () => {
      const read = this.readItem(request, 'CouldNotUpdateItem')
      if (!read.ok) return read.why
      if (this.find(read.value.id) === undefined) return this.error(404, 'RecordNotFound')
      if (!this.isStorable(read.value)) return this.error(400, 'CouldNotUpdateItem')
      return this.replace(read.value.id, read.value) ? empty(204) : this.error(404, 'RecordNotFound')
    })
  }

  async deleteItem(request: Request): Promise<Result> {
    return this.guard(request, 'CouldNotDeleteItem', () => {
      const id = this.decodeSegment(request.parameter)
      if (id === undefined) return this.error(404, 'RecordNotFound')
      if (!this.isIdInLimits(id)) return this.error(400, 'CouldNotDeleteItem')
      return this.remove(id) ? empty(204) : this.error(404, 'RecordNotFound')
    })
  }

  // Steps

  /** Any failure of the work becomes the code. */
  guard(request: Request, code: CodeB, work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      this.log(request, error)
      return this.error(400, code)
    }
  }

  /** A valid item with an id within limits; the code is for a body or an id beyond them. */
  readItem(request: Request, code: CodeB): Outcome<ItemB, Result> {
    const body = this.readObject(request)
    if (!body.ok) return refused(this.error(400, body.why === 'too long' ? code : 'TodoItemNameAndNotesRequired'))
    if (!this.validate(body.value)) return refused(this.error(400, 'TodoItemNameAndNotesRequired'))
    const item = this.toItem(body.value)
    return this.isIdInLimits(item.id) ? done(item) : refused(this.error(400, code))
  }

  validate(body: JsonObject): boolean {
    const { id, name, notes, done: isDone = false } = body
    return [id, name, notes].every((value) => this.isPresent(value)) && typeof isDone === 'boolean'
  }

  isPresent(value: Json | undefined): boolean {
    return typeof value === 'string' && value.trim() !== ''
  }

  /** Up to 1,024 characters (code points) of well-formed Unicode. */
  isIdInLimits(id: string): boolean {
    return id.isWellFormed() && [...id].length <= 1024
  }

  isStorable({ name, notes }: ItemB): boolean {
    return name.isWellFormed() && notes.isWellFormed()
  }

  /** Of a valid body. */
  toItem({ id, name, notes, done: isDone }: JsonObject): ItemB {
    return { id: id as string, name: name as string, notes: notes as string, done: isDone === true }
  }

  toWire(item: ItemB): JsonObject {
    return { id: item.id, name: item.name, notes: item.notes, done: item.done }
  }

  error(status: number, code: CodeB): Result {
    return text(status, code)
  }

  plainError(_request: Request, status: number): Result {
    return empty(status)
  }

  // Description

  itemPaths(): JsonObject {
    const tags = ['TodoItems']
    const codes = (description: string, ...names: CodeB[]) => textAnswer(description, { type: 'string', enum: names })
    const missing = codes('No item has the id', 'RecordNotFound')
    return separate({
      '/api/todoitems': {
        get: {
          operationId: 'getTodoItems',
          tags,
          responses: { 200: jsonAnswer('All items', itemsOf('TodoItem')), 500: answer('Unhandled failure') },
        },
        post: {
          operationId: 'createTodoItem',
          tags,
          requestBody: requestBody('SentTodoItem'),
          responses: {
            200: jsonAnswer('The created item', ref('TodoItem')),
            400: codes('Invalid, or not created', 'TodoItemNameAndNotesRequired', 'CouldNotCreateItem'),
            409: codes('An item has the id', 'TodoItemIDInUse'),
          },
        },
        put: {
          operationId: 'replaceTodoItem',
          tags,
          requestBody: requestBody('SentTodoItem'),
          responses: {
            204: answer('Replaced'),
            400: codes('Invalid, or not updated', 'TodoItemNameAndNotesRequired', 'CouldNotUpdateItem'),
            404: missing,
          },
        },
      },
      '/api/todoitems/{id}': {
        delete: {
          operationId: 'deleteTodoItem',
          tags,
          parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
          responses: { 204: answer('Deleted'), 400: codes('Not deleted', 'CouldNotDeleteItem'), 404: missing },
        },
      },
    })
  }

  itemSchemas(): JsonObject {
    const present = { type: 'string', minLength: 1, pattern: '\\S' }
    const properties = { id: { ...present, maxLength: 1024 }, name: present, notes: present }
    return separate({
      TodoItem: {
        type: 'object',
        required: ['id', 'name', 'notes', 'done'],
        properties: { ...properties, done: { type: 'boolean' } },
        additionalProperties: false,
      },
      SentTodoItem: {
        type: 'object',
        required: ['id', 'name', 'notes'],
        properties: { ...properties, done: { type: 'boolean', default: false } },
      },
    })
  }
}
