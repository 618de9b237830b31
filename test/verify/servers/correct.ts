import { createHash, createHmac, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import type { CorrectServer, ServerOptions } from './types.ts'

type Json = string | number | bigint | boolean | null | readonly Json[] | { readonly [key: string]: Json }
type Header = readonly [name: string, value: string]
interface Reply {
  readonly status: number
  readonly headers?: readonly Header[]
  readonly body?: string
}
type Methods = Readonly<Record<string, (req: IncomingMessage) => Reply | Promise<Reply>>>

// Traits of both profiles

interface Style {
  readonly indent: string
  readonly eol: string
  readonly reverse: boolean
  readonly escape: 'none' | 'ascii' | 'all'
}

interface Common {
  readonly delay: number
  readonly perSecond: number
  readonly close: boolean
  /** `Connection: keep-alive` in every response, also where the request says `close`. */
  readonly keep: boolean
  readonly chunked: boolean
  readonly gzip: boolean
  readonly etag: boolean
  readonly date: boolean
  readonly reason: boolean
  readonly interim: boolean
  readonly upper: boolean
  readonly extra: readonly Header[]
  /** Idle milliseconds after which a connection is closed without notice. */
  readonly idle: number
  readonly requestsPerConnection: number
  readonly jsonType: string
  readonly textType: string
  /** In text/plain;charset=ISO-8859-1 it is sent in that charset. */
  readonly greetingType: string
  readonly documentType: string
  readonly style: Style
  /** A trailing slash and percent-encoded unreserved characters match. */
  readonly loosePaths: boolean
  readonly head: boolean
  readonly options: boolean
  readonly unknownMethod: 404 | 405
  /** Everything but the greeting and the forecast needs a token. */
  readonly guarded: boolean
  readonly denied: (fault: 'none' | 'bad' | 'twice') => Reply
  readonly skew: number
  readonly claims: readonly string[]
  readonly zone: string
  readonly midnight: boolean
  readonly greeting: string
  readonly secret: (name: string) => string
  readonly otherDocument: boolean
  readonly scriptPage: boolean
  readonly development: boolean
  readonly bodyLimit: number
  readonly storable: (text: string) => boolean
  readonly capacity: number
  readonly company: boolean
}

const challenge = (fault: 'none' | 'bad'): Header => [
  'WWW-Authenticate',
  fault === 'none' ? 'Bearer' : 'Bearer error="invalid_token", error_description="The access token is not valid"',
]

const common: Common = {
  delay: 0,
  perSecond: Infinity,
  close: false,
  keep: false,
  chunked: false,
  gzip: false,
  etag: false,
  date: true,
  reason: true,
  interim: false,
  upper: false,
  extra: [],
  idle: 0,
  requestsPerConnection: Infinity,
  jsonType: 'application/json; charset=utf-8',
  textType: 'text/plain; charset=utf-8',
  greetingType: 'text/plain; charset=utf-8',
  documentType: 'application/json; charset=utf-8',
  style: { indent: '', eol: '', reverse: false, escape: 'none' },
  loosePaths: true,
  head: true,
  options: true,
  unknownMethod: 405,
  guarded: false,
  denied: (fault) => (fault === 'twice' ? { status: 400 } : { status: 401, headers: [challenge(fault)] }),
  skew: 0,
  claims: ['unique_name', 'name', 'sub'],
  zone: '+00:00',
  midnight: false,
  greeting: 'Hello World!',
  secret: (name) => `Hello ${name}. My secret is: the kettle knows.`,
  otherDocument: false,
  scriptPage: false,
  development: true,
  bodyLimit: 1_048_576,
  storable: (text) => text.isWellFormed(),
  capacity: Infinity,
  company: false,
}

// JSON and bodies

const unit = (c: string): string => `\\u${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`

const quote = (text: string, escape: Style['escape']): string => {
  if (escape === 'none') return JSON.stringify(text)
  return `"${text.replace(escape === 'all' ? /[^]/g : /[^ -~]|["\\/<>&+']/g, (c) => (c === '/' ? '\\/' : unit(c)))}"`
}

const write = (value: Json, s: Style, pad = s.eol): string => {
  if (typeof value === 'string') return quote(value, s.escape)
  if (typeof value !== 'object' || value === null) return String(value)
  const inner = pad + s.indent
  const space = s.indent === '' ? '' : ' '
  const rows = Array.isArray(value)
    ? value.map((v: Json) => write(v, s, inner))
    : Object.entries(value).map(([key, v]) => `${quote(key, s.escape)}:${space}${write(v, s, inner)}`)
  const [open, end] = Array.isArray(value) ? '[]' : '{}'
  if (rows.length === 0) return `${open}${end}`
  return `${open}${inner}${(s.reverse && !Array.isArray(value) ? rows.reverse() : rows).join(`,${inner}`)}${pad}${end}`
}

const json = (o: Common, status: number, value: Json, headers: readonly Header[] = []): Reply => ({
  status,
  headers: [['Content-Type', o.jsonType], ...headers],
  body: write(value, o.style),
})

const typed = (type: string, body: string): Reply => ({ status: 200, headers: [['Content-Type', type]], body })

/** Reads the whole body; undefined when it is over the limit. */
const bodyOf = async (req: IncomingMessage, limit: number): Promise<Buffer | undefined> => {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of req as AsyncIterable<Buffer>) {
    size += part.length
    if (size <= limit) parts.push(part)
  }
  return size > limit ? undefined : Buffer.concat(parts)
}

const utf8 = (bytes: Buffer): string => new TextDecoder('utf-8', { fatal: true }).decode(bytes)

const isJson = (req: IncomingMessage): boolean => {
  const [type = '', ...parameters] = (req.headers['content-type'] ?? '')
    .toLowerCase()
    .split(';')
    .map((p) => p.trim())
  const charset = parameters.find((p) => p.startsWith('charset='))
  return (
    /^(?:(?:application|text)\/json|application\/[^/\s]+\+json)$/.test(type) &&
    (charset === undefined || /^charset="?utf-8"?$/.test(charset))
  )
}

// Tokens

/** The caller's name, or the refusal. */
const callerOf = (req: IncomingMessage, key: string, o: Common): string | Reply => {
  const [credentials = '', second] = req.headersDistinct.authorization ?? []
  if (second !== undefined) return o.denied('twice')
  if (!/^bearer(?: |$)/i.test(credentials)) return o.denied('none')
  const [head = '', payload = '', signature, ...rest] = credentials.slice(6).trim().split('.')
  if (rest.length > 0 || createHmac('sha256', key).update(`${head}.${payload}`).digest('base64url') !== signature) {
    return o.denied('bad')
  }
  try {
    const header = JSON.parse(Buffer.from(head, 'base64url').toString()) as Record<string, unknown>
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>
    const { exp = Infinity, nbf = -Infinity } = claims
    const now = Date.now() / 1000
    const timely = typeof exp === 'number' && typeof nbf === 'number' && exp + o.skew > now && nbf - o.skew <= now
    if (header.alg !== 'HS256' || 'crit' in header || !timely) return o.denied('bad')
    const name = o.claims.map((claim) => claims[claim]).find((value) => typeof value === 'string' && value !== '')
    return typeof name === 'string' ? name : ''
  } catch {
    return o.denied('bad')
  }
}

// Sample endpoints, document and page

interface Operation {
  readonly method: string
  readonly path: string
  readonly name: string
  readonly takes?: string
  /** Status to schema; an empty name is a response without a body. */
  readonly gives: Readonly<Record<string, string>>
  readonly secured?: boolean
}
interface Profile {
  readonly key: Json
  readonly operations: readonly Operation[]
  readonly schemas: Readonly<Record<string, Json>>
}

const text: Json = { type: 'string' }
const nullableText: Json = { type: 'string', nullable: true }
const weather: Json = {
  type: 'object',
  properties: {
    date: { type: 'string', format: 'date-time' },
    temperatureC: { type: 'integer', format: 'int32' },
    temperatureF: { type: 'integer', format: 'int32' },
    summary: nullableText,
  },
}
const sampleOperations: readonly Operation[] = [
  { method: 'get', path: '/weatherforecast', name: 'GetWeatherForecast', gives: { 200: 'WeatherForecast[]' } },
  { method: 'get', path: '/', name: 'GetGreeting', gives: { 200: 'text' } },
  { method: 'get', path: '/secret', name: 'GetSecret', gives: { 200: 'text' }, secured: true },
]

const operationsOf = (o: Common, { operations }: Profile): readonly Operation[] =>
  o.otherDocument
    ? [...operations, { method: 'get', path: '/healthz', name: 'GetHealth', gives: { 200: 'text' } }]
    : operations

const describe = (o: Common, profile: Profile): Json => {
  const { key, schemas } = profile
  const other = o.otherDocument
  const schema = (name: string): Json => {
    if (name === 'text') return text
    if (name.endsWith('[]')) return { type: 'array', items: schema(name.slice(0, -2)) }
    return other ? (schemas[name] ?? {}) : { $ref: `#/components/schemas/${name}` }
  }
  const content = (name: string): Json => {
    const types = other ? ['application/json', 'text/json', 'application/*+json'] : ['application/json']
    const chosen = name === 'text' ? ['text/plain'] : types
    return Object.fromEntries(chosen.map((type) => [type, { schema: schema(name) }]))
  }
  const location = { Location: { description: 'URI of the created item', schema: text } }
  const refusal = { [o.denied('none').status]: '' }
  const response = ([status, given]: [string, string]): [string, Json] => [
    status,
    {
      description: other ? 'See the handbook.' : `Status ${status}`,
      ...(status === '201' ? { headers: location } : {}),
      ...(given === '' ? {} : { content: content(given) }),
    },
  ]
  const parameters: Json = [{ name: other ? 'todoItemId' : 'id', in: 'path', required: true, schema: key }]
  const paths: Record<string, Record<string, Json>> = {}
  for (const { method, path, name, takes, gives, secured } of operationsOf(o, profile)) {
    const guarded = secured ?? (o.guarded && path.startsWith('/api'))
    const outcomes: Record<string, string> = { ...(guarded ? refusal : {}), ...gives }
    const at = other ? path.replace('todoitems', 'TodoItems').replace('{id}', '{todoItemId}') : path
    const item = (paths[at] ??= other && path.includes('{id}') ? { summary: 'One item', parameters } : {})
    item[method] = {
      operationId: other ? `${method}_${name.replace(/\B[A-Z]/g, '_$&').toLowerCase()}_1` : name,
      tags: other ? ['todo-service', path.startsWith('/api') ? 'items' : 'samples'] : ['Todo'],
      ...(!other && path.includes('{id}') ? { parameters } : {}),
      ...(takes === undefined ? {} : { requestBody: { required: true, content: content(takes) } }),
      responses: Object.fromEntries(Object.entries(outcomes).map(response)),
      ...(guarded ? { security: [{ bearer: [] }] } : {}),
    }
  }
  return {
    openapi: '3.0.1',
    info: { title: 'To-do items', version: 'v1', ...(other ? { license: { name: 'MIT' }, 'x-press': 4 } : {}) },
    ...(other ? { servers: [{ url: '/' }], tags: [{ name: 'items' }, { name: 'samples', description: '' }] } : {}),
    paths,
    components: {
      ...(other ? {} : { schemas }),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  }
}

const SCRIPT = `addEventListener('submit', async (event) => {
  event.preventDefault()
  const { dataset, elements } = event.target
  const token = document.querySelector('#token').value
  const headers = token === '' ? {} : { Authorization: 'Bearer ' + token }
  const body = elements.body ? elements.body.value : undefined
  if (elements.body) headers['Content-Type'] = 'application/json'
  const path = dataset.path.replace('{id}', () => encodeURIComponent(elements.key.value))
  const reply = await fetch(path, { method: dataset.method, headers, body })
  elements.reply.value = reply.status + ' ' + await reply.text()
})`

const formOf = ({ method, path, takes }: Operation): string =>
  `<form data-method="${method.toUpperCase()}" data-path="${path}">` +
  `<b>${method.toUpperCase()}</b> <code>${path}</code>` +
  `${path.includes('{id}') ? ' <input name="key" placeholder="id">' : ''}` +
  `${takes === undefined ? '' : ' <textarea name="body">{}</textarea>'} <button>Try it</button> <output name="reply">` +
  '</output></form>'

const pageOf = (forms: string | undefined): string =>
  '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">' +
  '<title>To-do items</title></head><body><label>Token <input id="token"></label>' +
  (forms === undefined
    ? '<div id="app"></div><script src="/swagger/app.js"></script>'
    : `${forms}<script>${SCRIPT}</script>`) +
  '</body></html>\n'

const SUMMARIES = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')

const forecast = (o: Common): Json => {
  const [, sign, hours = '0', minutes = '0'] = /^([+-])(\d\d):(\d\d)$/.exec(o.zone) ?? []
  const shift = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
  const now = Date.now() + shift
  return [1, 2, 3, 4, 5].map((day) => {
    const local = new Date(now + day * 86_400_000).toISOString()
    const temperatureC = randomInt(-20, 55)
    return {
      date: `${o.midnight ? `${local.slice(0, 10)}T00:00:00` : `${local.slice(0, 23)}0000`}${o.zone}`,
      temperatureC,
      temperatureF: 32 + Math.trunc(temperatureC / 0.5556),
      summary: SUMMARIES[randomInt(10)] ?? null,
    }
  })
}

const samples = (o: Common, key: string, profile: Profile): ((path: string) => Methods | undefined) => {
  const forms = operationsOf(o, profile).map(formOf).join('\n')
  const described = json({ ...o, jsonType: o.documentType }, 200, describe(o, profile))
  const secured = (reply: (name: string) => Reply): Methods => ({
    GET: (req) => {
      const caller = callerOf(req, key, o)
      return typeof caller === 'string' ? reply(caller) : caller
    },
  })
  const table: Record<string, Methods> = {
    '/': { GET: () => typed(o.greetingType, o.greeting) },
    '/weatherforecast': { GET: () => json(o, 200, forecast(o)) },
    '/secret': secured((name) => typed(o.textType, o.secret(name))),
    '/swagger/v1/swagger.json': secured(() => described),
  }
  if (o.otherDocument) table['/healthz'] = { GET: () => typed(o.textType, 'ok') }
  if (o.development) {
    table['/swagger'] = { GET: () => ({ status: 302, headers: [['Location', '/swagger/index.html']] }) }
    table['/swagger/index.html'] = {
      GET: () => typed('text/html; charset=utf-8', pageOf(o.scriptPage ? undefined : forms)),
    }
  }
  if (o.development && o.scriptPage) {
    const draw = `document.querySelector('#app').innerHTML = ${JSON.stringify(forms)}\n${SCRIPT}\n`
    table['/swagger/app.js'] = { GET: () => typed('text/javascript; charset=utf-8', draw) }
  }
  return (path) => (Object.hasOwn(table, path) ? table[path] : undefined)
}

// The wire

const send = async (req: IncomingMessage, res: ServerResponse, reply: Reply, o: Common): Promise<void> => {
  if (o.interim && req.httpVersion === '1.1') res.writeProcessing()
  if (o.delay > 0) await wait(o.delay)
  const bodiless = reply.status === 204
  let status = reply.status
  const isLatin1 = reply.headers?.some(([, value]) => /ISO-8859-1$/.test(value))
  let body = Buffer.from(reply.body ?? '', isLatin1 ? 'latin1' : 'utf8')
  const headers: Header[] = [...o.extra, ...(reply.headers ?? [])]
  if (o.gzip && body.length > 0) {
    headers.push(['Vary', 'Accept-Encoding'])
    if (/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(String(req.headers['accept-encoding'] ?? ''))) {
      body = gzipSync(body)
      headers.push(['Content-Encoding', 'gzip'])
    }
  }
  if (o.etag && status === 200 && (req.method === 'GET' || req.method === 'HEAD')) {
    const tag = `"${createHash('sha1').update(body).digest('base64url')}"`
    headers.push(['ETag', tag])
    const known = req.headers['if-none-match'] ?? ''
    if (known.trim() === '*' || known.includes(tag)) status = 304
  }
  const pieces = o.chunked && body.length > 0 && req.httpVersion === '1.1' && req.method !== 'HEAD' && status !== 304
  if (pieces) headers.push(['Trailer', 'X-Checksum'])
  else if (!bodiless && status !== 304) headers.push(['Content-Length', String(body.length)])
  const lasting = req.httpVersion === '1.1' && req.headers.connection?.toLowerCase() !== 'close'
  if (o.close) headers.push(['Connection', 'close'])
  else if (o.keep || (o.idle > 0 && lasting)) headers.push(['Connection', 'keep-alive'])
  res.sendDate = o.date
  const flat = headers.flatMap(([name, value]) => [o.upper ? name.toUpperCase() : name, value])
  if (o.reason) res.writeHead(status, flat)
  else res.writeHead(status, '', flat)
  if (pieces) {
    const step = Math.ceil(body.length / 9)
    for (let from = 0; from < body.length; from += step) {
      res.write(body.subarray(from, from + step))
      await turn()
    }
    res.addTrailers({ 'X-Checksum': createHash('sha1').update(body).digest('hex') })
    res.end()
  } else {
    res.end(bodiless || status === 304 ? undefined : body)
  }
}

const unreserved = (path: string): string =>
  path.replace(/%([0-9a-f]{2})/gi, (coded, hex: string) => {
    const c = String.fromCharCode(parseInt(hex, 16))
    return /[\w.~-]/.test(c) ? c : coded
  })

interface Parts {
  readonly profile: Profile
  readonly key: string
  /** Takes the path as it was sent, without query and trailing slash. */
  readonly find: (path: string) => Methods | undefined
  /** The body of an answer that is tied to no operation. */
  readonly bare: (status: number) => Reply
  readonly act: () => void
}

const serve = (o: Common, { profile, key, find, bare, act }: Parts): Server => {
  const sample = samples(o, key, profile)
  let second = 0
  let count = 0
  const answer = (req: IncomingMessage): Reply | Promise<Reply> => {
    const now = Math.floor(Date.now() / 1000)
    if (now !== second) [second, count] = [now, 0]
    if (++count > o.perSecond) return { status: 429, headers: [['Retry-After', '1']] }
    const sent = (req.url ?? '/').replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#][^]*$/, '') || '/'
    const path = o.loosePaths ? sent.replace(/(?<=[^])\/$/, '') : sent
    const literal = (o.loosePaths ? unreserved(path) : path).toLowerCase()
    if (o.guarded && literal !== '/' && literal !== '/weatherforecast') {
      const caller = callerOf(req, key, o)
      if (typeof caller !== 'string') return caller
    }
    const methods = sample(literal) ?? find(path)
    if (methods === undefined) return bare(404)
    const method = o.head && req.method === 'HEAD' ? 'GET' : (req.method ?? '')
    const handler = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (handler !== undefined) return handler(req)
    const names = Object.keys(methods).flatMap((name) => (name === 'GET' && o.head ? ['GET', 'HEAD'] : [name]))
    const allow: readonly Header[] = [['Allow', names.join(', ')]]
    if (o.options && req.method === 'OPTIONS') return { status: 204, headers: allow }
    return o.unknownMethod === 404 ? bare(404) : { status: 405, headers: allow }
  }
  const connections = new WeakMap<Socket, { requests: number; timer?: NodeJS.Timeout }>()
  const server = createServer((req, res) => {
    const connection = connections.get(req.socket) ?? { requests: 0 }
    connections.set(req.socket, connection)
    connection.requests++
    clearTimeout(connection.timer)
    if (o.idle > 0) res.on('close', () => (connection.timer = setTimeout(() => req.socket.end(), o.idle).unref()))
    const last = o.close || connection.requests >= o.requestsPerConnection
    void (async () => answer(req))()
      .catch(() => bare(500))
      .then((reply) => send(req, res, reply, { ...o, close: last }))
      .catch(() => res.destroy())
  })
  if (o.company) {
    let timer: NodeJS.Timeout | undefined
    const tick = (): void => {
      act()
      timer = setTimeout(tick, randomInt(1, 9)).unref()
    }
    server.on('listening', tick).on('close', () => clearTimeout(timer))
  }
  return server
}

const shuffled = <T>(list: readonly T[]): T[] =>
  list
    .map((value) => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value)

// Profile A: one map, refusals are thrown

interface TraitsA extends Common {
  /** The next id; `taken` says whether an item has it now. */
  readonly ids: () => (taken: (id: bigint) => boolean) => bigint
  readonly sort: (ids: bigint[]) => bigint[]
  readonly errors: 'problem' | 'json' | 'html' | 'empty'
  readonly invalid: 400 | 422
  readonly malformedJson: 400 | 500
  readonly malformedId: 400 | 404
  readonly tooLarge: 400 | 413
  readonly full: 503 | 507
  /** Unknown members, an absent name and an id of another type are refused. */
  readonly strict: boolean
  /** Member names in any case, any media type, ids like `01` and `"1"`, an absent id in PUT, numbers as names. */
  readonly lax: boolean
  readonly missingFirst: boolean
  readonly publicUrl: string | undefined
  readonly isLocalhost: boolean
}

class Refused extends Error {
  readonly status: number
  readonly member: string | undefined
  constructor(status: number, member?: string) {
    super()
    this.status = status
    this.member = member
  }
}

const INT64_MAX = 9223372036854775807n
const schemaA: Json = {
  type: 'object',
  required: ['isComplete'],
  additionalProperties: false,
  properties: { id: { type: 'integer', format: 'int64' }, name: nullableText, isComplete: { type: 'boolean' } },
}
const profileOfA: Profile = {
  key: { type: 'integer', format: 'int64' },
  schemas: { TodoItem: schemaA, WeatherForecast: weather },
  operations: [
    { method: 'get', path: '/api/todoitems', name: 'ListItems', gives: { 200: 'TodoItem[]' } },
    {
      method: 'post',
      path: '/api/todoitems',
      name: 'CreateItem',
      takes: 'TodoItem',
      gives: { 201: 'TodoItem', 400: '' },
    },
    { method: 'get', path: '/api/todoitems/{id}', name: 'GetItem', gives: { 200: 'TodoItem', 404: '' } },
    {
      method: 'put',
      path: '/api/todoitems/{id}',
      name: 'ReplaceItem',
      takes: 'TodoItem',
      gives: { 204: '', 400: '', 404: '' },
    },
    { method: 'delete', path: '/api/todoitems/{id}', name: 'DeleteItem', gives: { 204: '', 404: '' } },
    ...sampleOperations,
  ],
}

const countFrom =
  (first: bigint, step: () => bigint): TraitsA['ids'] =>
  () => {
    let next = first
    return () => {
      const id = next
      next += step()
      return id
    }
  }

const ascending = (ids: bigint[]): bigint[] => ids.sort((a, b) => (a < b ? -1 : 1))

const defaultsA: TraitsA = {
  ...common,
  ids: countFrom(1n, () => 1n),
  sort: ascending,
  errors: 'problem',
  invalid: 400,
  malformedJson: 400,
  malformedId: 400,
  isLocalhost: false,
  tooLarge: 413,
  full: 503,
  strict: false,
  lax: false,
  missingFirst: false,
  publicUrl: undefined,
}

/** Parses JSON with every string prefixed by `'` and every number as a string prefixed by `#`: no digit is lost. */
const exact = (source: string): unknown => {
  JSON.parse(source)
  return JSON.parse(
    source.replace(/"([^"\\]*(?:\\.[^"\\]*)*)"|-?\d[\d.eE+-]*/g, (token, inner: string | undefined) =>
      inner === undefined ? `"#${token}"` : `"'${inner}"`,
    ),
  )
}

const profileA =
  (given: Partial<TraitsA>) =>
  ({ tokenKey }: ServerOptions): Server => {
    const o: TraitsA = { ...defaultsA, ...given }
    const items = new Map<bigint, { name: string | null; isComplete: boolean }>()
    const nextId = o.ids()
    const own: bigint[] = []

    const failure = (status: number, member?: string): Reply => {
      const title = status < 500 ? 'The request was refused.' : 'The request failed.'
      if (o.errors === 'json')
        return json(o, status, { error: { code: status, message: title, field: member ?? null } })
      if (o.errors === 'html' && (status === 400 || status === 404)) {
        const body = `<!DOCTYPE html>\n<html lang="en"><body><pre>Error ${status}</pre></body></html>\n`
        return { ...typed('text/html; charset=utf-8', body), status }
      }
      if (o.errors !== 'problem') return { status }
      return json({ ...o, jsonType: 'application/problem+json' }, status, {
        type: 'about:blank',
        title,
        status,
        traceId: randomUUID(),
        ...(member === undefined ? {} : { errors: { [member]: ['The value is not valid.'] } }),
      })
    }
    const caught =
      (handler: Methods[string]): Methods[string] =>
      async (req) => {
        try {
          return await handler(req)
        } catch (error) {
          return error instanceof Refused ? failure(error.status, error.member) : failure(500)
        }
      }
    const idOf = (source: string): bigint | undefined => {
      if (!(o.lax ? /^[+-]?\d{1,30}$/ : /^(?:0|-?[1-9]\d{0,18})$/).test(source)) return undefined
      const id = BigInt(source.replace('+', '').replace(/^-0+$/, '0'))
      return id > INT64_MAX || id < -INT64_MAX - 1n ? undefined : id
    }
    const shown = (id: bigint): Json => {
      const item = items.get(id)
      if (item === undefined) throw new Refused(404)
      return { id, name: item.name, isComplete: item.isComplete }
    }
    const add = (name: string | null, isComplete: boolean): bigint => {
      const id = nextId((taken) => items.has(taken))
      items.set(id, { name, isComplete })
      return id
    }

    const sentItem = async (req: IncomingMessage) => {
      const bytes = await bodyOf(req, o.bodyLimit)
      if (bytes === undefined) throw new Refused(o.tooLarge)
      if (!o.lax && !isJson(req)) throw new Refused(415)
      if (bytes.length === 0) throw new Refused(400)
      let value: unknown
      try {
        value = exact(utf8(bytes))
      } catch {
        throw new Refused(o.malformedJson)
      }
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Refused(400)
      const members = new Map(
        Object.entries(value as Record<string, unknown>).map(([key, v]) => [
          o.lax ? key.slice(1).toLowerCase() : key.slice(1),
          v,
        ]),
      )
      const isComplete = members.get(o.lax ? 'iscomplete' : 'isComplete')
      if (typeof isComplete !== 'boolean') throw new Refused(o.invalid, 'isComplete')
      const { id, name } = { id: members.get('id'), name: members.get('name') }
      const unknown = [...members.keys()].filter((key) => !['id', 'name', 'isComplete'].includes(key))
      if (o.strict && unknown.length > 0) throw new Refused(400, unknown[0])
      if (o.strict && name === undefined) throw new Refused(o.invalid, 'name')
      if (o.strict && id !== undefined && !/^#-?\d+$/.test(String(id))) throw new Refused(o.invalid, 'id')
      if (name === undefined || name === null) return { id, name: null, isComplete }
      if (typeof name !== 'string' || (name[0] === '#' && !o.lax)) throw new Refused(o.invalid, 'name')
      if (!o.storable(name.slice(1))) throw new Refused(400, 'name')
      return { id, name: name.slice(1), isComplete }
    }

    const collection: Methods = {
      GET: caught(() => json(o, 200, o.sort([...items.keys()]).map(shown))),
      POST: caught(async (req) => {
        const { name, isComplete } = await sentItem(req)
        if (items.size >= o.capacity) throw new Refused(o.full)
        const id = add(name, isComplete)
        const host = (!o.isLocalhost && req.headers.host) || `localhost:${req.socket.localPort}`
        const base = o.publicUrl ?? `http://${host}`
        return json(o, 201, shown(id), [['Location', `${base}/api/todoitems/${id}`]])
      }),
    }
    const single = (source: string): Methods => {
      const known = (): bigint => {
        const id = idOf(source)
        if (id === undefined) throw new Refused(o.malformedId, 'id')
        return id
      }
      return {
        GET: caught(() => json(o, 200, shown(known()))),
        PUT: caught(async (req) => {
          const id = known()
          if (o.missingFirst) shown(id)
          const sent = await sentItem(req)
          const tagged = typeof sent.id === 'string' ? sent.id : ''
          const same =
            tagged === ''
              ? o.lax && (sent.id === undefined || sent.id === null)
              : (o.lax || tagged[0] === '#') && idOf(tagged.slice(1)) === id
          if (!same) throw new Refused(400, 'id')
          const item = items.get(id)
          if (item === undefined) throw new Refused(404)
          Object.assign(item, { name: sent.name, isComplete: sent.isComplete })
          return { status: 204 }
        }),
        DELETE: caught(() => {
          if (!items.delete(known())) throw new Refused(404)
          return { status: 204 }
        }),
      }
    }

    return serve(o, {
      profile: profileOfA,
      key: tokenKey,
      bare: failure,
      find: (path) => {
        const match = /^\/api\/todoitems(?:\/([^/]+))?$/i.exec(o.loosePaths ? unreserved(path) : path)
        if (match === null) return undefined
        return match[1] === undefined ? collection : single(match[1])
      },
      act: () => {
        const at = randomInt(own.length + 1)
        const id = own[at]
        if (id === undefined || own.length < 3) {
          if (own.length < 9) own.push(add(`visitor ${randomUUID()}`, false))
        } else if (randomInt(2) === 0 && items.has(id)) {
          items.set(id, { name: `visitor ${randomUUID()}`, isComplete: randomInt(2) === 0 })
        } else {
          items.delete(id)
          own.splice(at, 1)
        }
      },
    })
  }

// Profile B: one list, the outcome of every step is an item or a code

type Code =
  | 'TodoItemNameAndNotesRequired'
  | 'TodoItemIDInUse'
  | 'RecordNotFound'
  | 'CouldNotCreateItem'
  | 'CouldNotUpdateItem'
  | 'CouldNotDeleteItem'
interface ItemB {
  readonly id: string
  readonly name: string
  readonly notes: string
  readonly done: boolean
}

interface TraitsB extends Common {
  readonly arrange: (items: readonly ItemB[]) => readonly ItemB[]
  readonly putMoves: boolean
  readonly fold: (id: string) => string
  readonly inUseFirst: boolean
  /** Empty and blank names and notes are texts like any other. */
  readonly blanks: boolean
  /** Malformed JSON, another media type and values of another type are other failures. */
  readonly narrow: boolean
  readonly unknownRefused: boolean
  readonly idStorable: (id: string) => boolean
  readonly getOne: boolean
  readonly badEncoding: Code
  readonly startersVanish: boolean
}

const schemaB: Json = {
  type: 'object',
  required: ['id', 'name', 'notes'],
  properties: { id: text, name: text, notes: text, done: { type: 'boolean' } },
}
const profileOfB: Profile = {
  key: text,
  schemas: { TodoItem: schemaB, WeatherForecast: weather },
  operations: [
    { method: 'get', path: '/api/todoitems', name: 'AllItems', gives: { 200: 'TodoItem[]' } },
    {
      method: 'post',
      path: '/api/todoitems',
      name: 'AddItem',
      takes: 'TodoItem',
      gives: { 200: 'TodoItem', 400: 'text', 409: 'text' },
    },
    {
      method: 'put',
      path: '/api/todoitems',
      name: 'EditItem',
      takes: 'TodoItem',
      gives: { 204: '', 400: 'text', 404: 'text' },
    },
    { method: 'delete', path: '/api/todoitems/{id}', name: 'RemoveItem', gives: { 204: '', 400: 'text', 404: 'text' } },
    ...sampleOperations,
  ],
}

const defaultsB: TraitsB = {
  ...common,
  arrange: (items) => items,
  putMoves: false,
  fold: (id) => id,
  inUseFirst: false,
  blanks: false,
  narrow: false,
  unknownRefused: false,
  idStorable: () => true,
  getOne: false,
  badEncoding: 'RecordNotFound',
  startersVanish: false,
}

const MAX_ID = 1024
const REQUIRED: Code = 'TodoItemNameAndNotesRequired'

const profileB =
  (given: Partial<TraitsB>) =>
  ({ tokenKey }: ServerOptions): Server => {
    const o: TraitsB = { ...defaultsB, ...given }
    const starters: readonly ItemB[] = [
      { id: 'b3a1f0c2', name: 'Water the ferns', notes: 'Not on Sundays', done: true },
      { id: 'c7d2e9a4', name: 'Oil the gate', notes: 'The can is in the shed', done: false },
      { id: 'd9e4b7f6', name: 'Post the letters', notes: 'Before five', done: false },
    ]
    let items = [...starters]
    let touched = false
    const own: string[] = []

    const coded = (code: Code): Reply => {
      const status = code === 'RecordNotFound' ? 404 : code === 'TodoItemIDInUse' ? 409 : 400
      return { ...typed(o.textType, code), status }
    }
    const at = (id: string): number => items.findIndex((item) => o.fold(item.id) === o.fold(id))
    const remove = (id: string): boolean => {
      const index = at(id)
      if (index >= 0) items.splice(index, 1)
      return index >= 0
    }
    const replace = (index: number, item: ItemB): void => {
      items[index] = item
      if (o.putMoves) items = [...items.filter((other) => other !== item), item]
    }
    const storable = (item: ItemB): boolean =>
      [item.id, item.name, item.notes].every(o.storable) && o.idStorable(item.id)
    const plain = ({ id, name, notes, done }: ItemB): Json => ({ id, name, notes, done })

    const receive = async (req: IncomingMessage, other: Code, creating: boolean): Promise<ItemB | Code> => {
      const bytes = await bodyOf(req, o.bodyLimit)
      if (bytes === undefined) return other
      if (bytes.length === 0) return REQUIRED
      const misfit = o.narrow ? other : REQUIRED
      let value: unknown
      try {
        value = JSON.parse(utf8(bytes))
      } catch {
        return misfit
      }
      if (!isJson(req)) return misfit
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return REQUIRED
      const { id, name, notes, done = false, ...rest } = value as Record<string, unknown>
      if (o.unknownRefused && Object.keys(rest).length > 0) return other
      if (creating && o.inUseFirst && typeof id === 'string' && at(id) >= 0) return 'TodoItemIDInUse'
      if ([id, name, notes].some((v) => v === undefined || v === null)) return REQUIRED
      if (typeof id !== 'string' || typeof name !== 'string' || typeof notes !== 'string') return misfit
      if (typeof done !== 'boolean') return misfit
      if ((o.blanks ? [id] : [id, name, notes]).some((v) => v.trim() === '')) return REQUIRED
      if ([...id].length > MAX_ID) return other
      return { id, name, notes, done }
    }

    const collection: Methods = {
      GET: () => json(o, 200, o.arrange(items).map(plain)),
      POST: async (req) => {
        const item = await receive(req, 'CouldNotCreateItem', true)
        if (typeof item === 'string') return coded(item)
        if (at(item.id) >= 0) return coded('TodoItemIDInUse')
        if (items.length >= o.capacity || !storable(item)) return coded('CouldNotCreateItem')
        items.push(item)
        return json(o, 200, plain(item))
      },
      PUT: async (req) => {
        const item = await receive(req, 'CouldNotUpdateItem', false)
        if (typeof item === 'string') return coded(item)
        const index = at(item.id)
        if (index < 0) return coded('RecordNotFound')
        if (!storable(item)) return coded('CouldNotUpdateItem')
        replace(index, item)
        return { status: 204 }
      },
    }
    const single = (segment: string): Methods => {
      let id: string | undefined
      try {
        id = decodeURIComponent(segment)
      } catch {
        id = undefined
      }
      const erase: Methods = {
        DELETE: () => {
          if (id === undefined) return coded(o.badEncoding)
          if ([...id].length > MAX_ID) return coded('CouldNotDeleteItem')
          return remove(id) ? { status: 204 } : coded('RecordNotFound')
        },
      }
      if (!o.getOne) return erase
      const item = id === undefined ? undefined : items[at(id)]
      return { ...erase, GET: () => (item === undefined ? coded('RecordNotFound') : json(o, 200, plain(item))) }
    }

    return serve(o, {
      profile: profileOfB,
      key: tokenKey,
      bare: (status) => ({ status }),
      find: (path) => {
        const [, ...segments] = path.split('/')
        const [api = '', name = ''] = segments.map((part) => (o.loosePaths ? unreserved(part) : part).toLowerCase())
        const [, , id, ...more] = segments
        if (api !== 'api' || name !== 'todoitems' || id === '' || more.length > 0) return undefined
        if (o.startersVanish && !touched) {
          touched = true
          starters.forEach((item, index) => setTimeout(() => remove(item.id), 150 * (index + 1)).unref())
        }
        return id === undefined ? collection : single(id)
      },
      act: () => {
        const chosen = own[randomInt(own.length + 1)]
        if (chosen === undefined || own.length < 3) {
          if (own.length > 8) return
          const id = randomUUID()
          own.push(id)
          items.push({ id, name: `visitor ${id}`, notes: 'passing by', done: false })
        } else if (randomInt(2) === 0 && at(chosen) >= 0) {
          replace(at(chosen), {
            id: chosen,
            name: `visitor ${randomUUID()}`,
            notes: 'changed',
            done: randomInt(2) === 0,
          })
        } else {
          remove(chosen)
          own.splice(own.indexOf(chosen), 1)
        }
      },
    })
  }

// The servers

const a = (id: string, trait: string, deviates: readonly string[], traits: Partial<TraitsA>): CorrectServer => ({
  id: `a-${id}`,
  profile: 'a',
  trait,
  deviates,
  ...(traits.publicUrl !== undefined && { publicUrl: traits.publicUrl }),
  create: profileA(traits),
})

const b = (id: string, trait: string, deviates: readonly string[], traits: Partial<TraitsB>): CorrectServer => ({
  id: `b-${id}`,
  profile: 'b',
  trait,
  deviates,
  create: profileB(traits),
})

const randomId = (taken: (id: bigint) => boolean): bigint => {
  const id = randomBytes(8).readBigInt64BE()
  return taken(id) ? randomId(taken) : id
}

const lowestFree = (taken: (id: bigint) => boolean): bigint => {
  let id = 1n
  while (taken(id)) id += 1n
  return id
}

const shortText = (value: string): boolean => value.isWellFormed() && [...value].length <= 2000 && !value.includes('\0')

const chatter: readonly Header[] = [
  ['x-powered-by', 'Kettle/3'],
  ['Set-Cookie', 'visit=1; Path=/; HttpOnly'],
  ['Set-Cookie', 'lane=b; Path=/'],
  ['Cache-Control', 'private, no-cache'],
  ['Access-Control-Allow-Origin', '*'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Via', '1.1 edge-7'],
  ['X-Empty', ''],
]

export const correctServers: readonly CorrectServer[] = [
  a('ids-down-from-max', 'Ids count down from 9223372036854775807, so neighbours are equal as doubles.', ['A4'], {
    ids: countFrom(INT64_MAX, () => -1n),
  }),
  a(
    'ids-random',
    'Ids are random int64 values of either sign and the list is in descending order of id.',
    ['A1', 'A4'],
    { ids: () => randomId, sort: (ids) => ascending(ids).reverse() },
  ),
  a(
    'ids-negative-gaps',
    'Ids are 0 and then negative with random gaps, and every list is in another order.',
    ['A1', 'A4'],
    { ids: countFrom(0n, () => BigInt(-randomInt(1, 9000))), sort: shuffled },
  ),
  a('ids-reused', 'A new item gets the lowest id that is free, so the id of a deleted item is given again.', ['A4'], {
    ids: () => lowestFree,
  }),
  a(
    'html-errors',
    'Errors 400 and 404 have HTML bodies, a malformed id and an unknown method are 404, dates end in Z.',
    ['A12', 'A13', 'G6', 'S1'],
    { errors: 'html', malformedId: 404, unknownMethod: 404, zone: 'Z', etag: true, extra: chatter },
  ),
  a(
    'strict-members',
    'Unknown members are refused with 400; an absent name, an id of another type and an invalid ' +
      'isComplete with 422.',
    ['A4', 'A5', 'A6', 'A7', 'A8', 'A13', 'G4'],
    { strict: true, invalid: 422, errors: 'json' },
  ),
  a(
    'bare-router',
    'Malformed JSON is 500, a malformed id 404, errors have no body; no HEAD, no OPTIONS, no trailing ' + 'slash.',
    ['A12', 'A13', 'A14', 'G2', 'G6'],
    { errors: 'empty', malformedJson: 500, malformedId: 404, loosePaths: false, head: false, options: false },
  ),
  a(
    'lax',
    'Member names in any case, any media type, ids like 01 and "1", numbers as names, lone surrogates, a PUT ' +
      'without an id; 404 comes before the body is checked.',
    ['A5', 'A8', 'A12', 'A14', 'G4', 'G5'],
    { lax: true, missingFirst: true, storable: () => true },
  ),
  a(
    'token-everywhere',
    'Everything but the greeting and the forecast needs a token; the refusal is a 401 with a ' +
      'JSON body and a longer challenge.',
    ['G6', 'S5', 'S6', 'S7'],
    {
      guarded: true,
      denied: (fault) => ({
        status: 401,
        body: '{"error":"unauthorized"}',
        headers: [
          ['Content-Type', common.jsonType],
          ['WWW-Authenticate', `Bearer realm="to-do, items"${fault === 'none' ? '' : ', error="invalid_token"'}`],
        ],
      }),
    },
  ),
  a('rate-limited', 'After 20 requests in a second the rest get 429 with Retry-After: 1 and no body.', [], {
    perSecond: 20,
  }),
  a('full-at-15', 'A create is answered with 507 while there are 15 items.', ['A15'], { capacity: 15, full: 507 }),
  a('busy', 'Another client creates, changes and deletes items of its own every few milliseconds.', [], {
    company: true,
  }),
  a(
    'wire',
    'Chunked bodies cut inside characters, a trailer, a 102 before every response, upper-case header names, ' +
      'no Date and no reason phrases; Connection: keep-alive always, and Location with localhost.',
    [],
    {
      chunked: true,
      interim: true,
      upper: true,
      date: false,
      reason: false,
      extra: chatter,
      keep: true,
      isLocalhost: true,
    },
  ),
  a(
    'limits',
    'Names over 2,000 characters or with U+0000 are refused with 400, bodies over 100 kB with 400; five ' +
      'requests per connection; the greeting is in ISO-8859-1.',
    ['A14', 'G5', 'S2'],
    {
      storable: shortText,
      bodyLimit: 100_000,
      tooLarge: 400,
      requestsPerConnection: 5,
      greeting: 'Grüß Gott!',
      greetingType: 'text/plain;charset=ISO-8859-1',
    },
  ),
  a(
    'production',
    'Not in development mode: no page; Location holds a public URL with another host and a path; a ' +
      'missing or bad token is 404.',
    ['S5', 'S6'],
    { development: false, publicUrl: 'https://gateway.example/team', denied: () => ({ status: 404 }) },
  ),
  a(
    'json-escaped',
    'JSON is indented with CRLF, members are in reverse order, every character is escaped, and the ' +
      'media type is spelt application/json;charset=UTF-8.',
    [],
    {
      jsonType: 'application/json;charset=UTF-8',
      textType: 'Text/Plain;charset="UTF-8"',
      style: { indent: '\t', eol: '\r\n', reverse: true, escape: 'all' },
    },
  ),
  a(
    'other-document',
    'The document has inline schemas, other path spellings, extra paths and media types, and is ' +
      'application/vnd.oai.openapi+json; forecast dates are midnights at +02:00; the secret phrase comes first.',
    ['S1'],
    {
      otherDocument: true,
      documentType: 'application/vnd.oai.openapi+json',
      zone: '+02:00',
      midnight: true,
      secret: (name) => `The kettle knows.\r\n(for ${name})\r\n`,
    },
  ),
  a('slow', 'Every response takes 50 ms and closes its connection.', [], { delay: 50, close: true }),
  b(
    'shuffled',
    'Every list is in another order, so the first starting item is not always listed first.',
    ['B1', 'B7'],
    { arrange: shuffled },
  ),
  b(
    'ids-any-case',
    'Ids are compared without regard to case, an id in use is found before missing fields, and a PUT ' +
      'moves the item to the end of the list.',
    ['B5', 'B7'],
    { fold: (id) => id.toLowerCase(), inUseFirst: true, putMoves: true },
  ),
  b(
    'present-is-enough',
    'Empty and blank names and notes are stored, lone surrogates too; values of another type, ' +
      'malformed JSON and other media types are CouldNotCreateItem or CouldNotUpdateItem.',
    ['B4', 'G5'],
    { blanks: true, narrow: true, storable: () => true, idStorable: (id) => id.isWellFormed() },
  ),
  b(
    'full-at-15',
    'A create is answered with CouldNotCreateItem while there are 15 items; JSON is escaped to ASCII.',
    [],
    { capacity: 15, style: { indent: '  ', eol: '\n', reverse: true, escape: 'ascii' } },
  ),
  b('busy', 'Another client creates, changes and deletes items of its own every few milliseconds.', [], {
    company: true,
  }),
  b(
    'starters-deleted',
    'Another client deletes the three starting items 150, 300 and 450 ms after the first request.',
    [],
    { startersVanish: true },
  ),
  b(
    'token-everywhere',
    'Everything but the greeting and the forecast needs a token; the refusal is a bare 403.',
    ['B10', 'G6', 'S5', 'S6', 'S7'],
    { guarded: true, denied: () => ({ status: 403 }) },
  ),
  b(
    'get-one',
    'GET by id answers 200 or 404 RecordNotFound; unknown methods are 404; no HEAD and no OPTIONS; a ' +
      'broken percent-encoding is CouldNotDeleteItem.',
    ['B10', 'B11', 'G6'],
    { getOne: true, unknownMethod: 404, head: false, options: false, badEncoding: 'CouldNotDeleteItem' },
  ),
  b(
    'wire',
    'gzip when accepted, ETag with 304, extra headers, idle connections closed without notice after 1 s; ' +
      'forecast dates at -11:00.',
    ['S1'],
    {
      gzip: true,
      etag: true,
      extra: chatter,
      idle: 1000,
      zone: '-11:00',
      textType: 'text/plain;charset=UTF-8',
    },
  ),
  b(
    'other-document',
    'The document is from another generator, the page is drawn by a script, expired tokens are ' +
      'good for five minutes more, the name is the claim name first, dates at +14:00, greeting in Japanese.',
    ['S1', 'S3', 'S6'],
    {
      otherDocument: true,
      scriptPage: true,
      skew: 300,
      claims: ['name', 'unique_name', 'sub'],
      zone: '+14:00',
      greeting: 'ようこそ 🌏',
      secret: (name) => `やかんは知っている — ${name}`,
    },
  ),
  b(
    'limits',
    'Ids are up to 64 letters, digits, points, hyphens and underscores; long texts, U+0000, unknown ' +
      'members and bodies over 100 kB are CouldNotCreateItem or CouldNotUpdateItem; the list is sorted by name.',
    ['B1', 'B7', 'B11', 'G4', 'G5'],
    {
      idStorable: (id) => /^[\w.-]{1,64}$/.test(id),
      storable: shortText,
      unknownRefused: true,
      bodyLimit: 100_000,
      arrange: (items) => [...items].sort((one, other) => one.name.localeCompare(other.name)),
    },
  ),
]
