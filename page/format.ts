import type { JournalEntry, Message } from '../src/control/schema.ts'
import { h } from './dom.ts'

type Status = JournalEntry['status']

const statuses: Partial<Record<number, string>> = {
  200: 'OK',
  201: 'Created',
  204: 'No Content',
  302: 'Found',
  304: 'Not Modified',
  307: 'Temporary Redirect',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

export const describeStatus = (status: Status) => `${status} ${statuses[status ?? 0] ?? ''}`.trim()

type ShownOutcome = Pick<JournalEntry, 'state' | 'status' | 'blockedOrigin'>

/** Returns `2xx` to `5xx`; `pending` for a request that has not ended, `none` for one without a response. */
export const outcomeGroup = ({ state, status }: ShownOutcome) =>
  status ? `${Math.floor(status / 100)}xx` : state === 'pending' ? state : 'none'

/** Returns the CSS class for the colour of an outcome. */
export const outcomeClass = (outcome: ShownOutcome) =>
  outcome.blockedOrigin === undefined ? outcomeGroup(outcome).replace(/^\d/, 's$&') : 'none'

export const methodMark = (method: string) => h('span', { class: `method ${method.toLowerCase()}` }, method)

/** The label of an OPTIONS request that a browser sends before the request of a page. */
export const preflight = 'CORS preflight'

const outcomes = { pending: 'pending', aborted: 'client left', closed: 'no response' }
export const outcomeOf = ({ state, status }: ShownOutcome) => (state === 'sent' ? `${status}` : outcomes[state])

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const
const time = new Intl.DateTimeFormat([], clock)
export const formatTime = (value: string | number) => time.format(new Date(value))
const exactTime = new Intl.DateTimeFormat([], { ...clock, fractionalSecondDigits: 3 })
export const formatExactTime = (value: string | number) => exactTime.format(new Date(value))
const date = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'short' })
export const formatDate = (value: string | number) => date.format(new Date(value))

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(2)} s`
}

export const formatCount = (count: number) => count.toLocaleString('en')
/** Returns `1 item` or `2,000 items`. */
export const counted = (count: number, noun: string, nouns = `${noun}s`) =>
  `${formatCount(count)} ${count === 1 ? noun : nouns}`

const browserNames: Partial<Record<string, string>> = {
  Edg: 'Edge',
  OPR: 'Opera',
  CriOS: 'Chrome',
  HeadlessChrome: 'Chrome',
  Version: 'Safari',
}

/** Returns the name of the program in a User-Agent header, such as `curl 8.5`. */
export function programName(userAgent: string): string {
  const browser = /(Firefox|Edg|OPR|CriOS|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent)
  const [, name, version] =
    (userAgent.startsWith('Mozilla/') && browser) || /^([^\s/(]+)\/?([\w.]*)/.exec(userAgent) || []
  return name ? `${browserNames[name] ?? name} ${version}`.trim() : userAgent
}

const maxArgumentLength = 100_000
/** Quotes text for a shell. Escapes characters that are invisible or could control the terminal on pasting. */
function quote(text: string): string {
  if (!/[\p{C}\u2028\u2029]/u.test(text)) return `'${text.replaceAll("'", "'\\''")}'`
  return `$'${text.replace(/[\p{C}\u2028\u2029\\']/gu, escapeBytes)}'`
}
const escapeBytes = (character: string) =>
  [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
/** Matches headers that every client sets itself, or that are about the connection of the original client. */
const ownHeaders =
  /^(?:host|connection|content-length|accept-encoding|user-agent|accept|transfer-encoding|origin|referer|cache-control|pragma|accept-language|x-todo-client|sec-.*)$/

/** A request that was sent, or is to be sent. */
interface SentRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | null | undefined
}

/** Returns the headers to repeat. A preflight needs Origin, which other requests leave out. */
export const repeatedHeaders = ({ headers = {} }: SentRequest) =>
  Object.entries(headers).filter(
    ([name]) => !ownHeaders.test(name) || (name === 'origin' && headers['access-control-request-method'] !== undefined),
  )

/** Returns a shell command that repeats a request. The journal has no tokens, so the command uses $TOKEN. */
export function toCurl(origin: string, request: SentRequest, isSecured: boolean): string {
  const { method, path, query, headers = {}, body } = request
  const parts = [`curl -i${method === 'HEAD' ? ' --head' : ''}`]
  if (method !== 'GET' && method !== 'HEAD') parts.push(`-X ${/^[A-Z]+$/.test(method) ? method : quote(method)}`)
  parts.push(quote(`${origin}${path}${query}`))
  if (isSecured) parts.push('-H "Authorization: Bearer $TOKEN"')
  for (const [name, value] of repeatedHeaders(request)) parts.push(`-H ${quote(`${name}: ${value}`)}`)
  if (body) {
    if (!headers['content-type']) parts.push("-H 'content-type:'")
    // --data-raw does not read a file if the body begins with @, unlike --data-binary.
    parts.push(`--data-raw ${quote(body.slice(0, maxArgumentLength))}`)
  }
  return parts.join(' ')
}

/** Returns a string literal of JavaScript and C#, with escapes for characters that are invisible or break lines. */
const literal = (text: string) =>
  JSON.stringify(text).replace(/[\p{C}\u2028\u2029]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  )

/** Returns JavaScript that repeats a request, with a variable `token` if the request needs one. */
export function toFetch(origin: string, request: SentRequest, isSecured: boolean): string {
  const { method, path, query, headers = {}, body } = request
  const isBodyAllowed = method !== 'GET' && method !== 'HEAD'
  // A plain "__proto__" in an object literal would set its prototype.
  const fields = repeatedHeaders(request).map(
    ([name, value]) => `${name === '__proto__' ? '["__proto__"]' : literal(name)}: ${literal(value)}`,
  )
  if (isSecured) fields.unshift('"authorization": "Bearer " + token')
  const options: string[] = []
  if (method !== 'GET') options.push(`method: ${literal(method)}`)
  if (fields.length > 0) options.push(`headers: { ${fields.join(', ')} }`)
  // fetch would add a content type for a string, but not for a Blob without a type.
  if (body && isBodyAllowed)
    options.push(`body: ${headers['content-type'] ? literal(body) : `new Blob([${literal(body)}])`}`)
  const init = options.length > 0 ? `, {\n${options.map((option) => `  ${option},\n`).join('')}}` : ''
  const warning = body && !isBodyAllowed ? `// fetch cannot send the body of this ${method}.\n` : ''
  return `${warning}const response = await fetch(${literal(`${origin}${path}${query}`)}${init})`
}

/** Matches the headers that .NET has in the content of a request. */
const contentHeader = /^(?:content-.*|allow|expires|last-modified)$/
const csharpMethods: Partial<Record<string, string>> = { GET: 'Get', POST: 'Post', PUT: 'Put', DELETE: 'Delete' }

/** Returns C# that repeats a request, with a variable `token` if the request needs one. */
export function toCSharp(origin: string, request: SentRequest, isSecured: boolean): string {
  const { method, path, query, body } = request
  const known = csharpMethods[method]
  const fields = repeatedHeaders(request)
  const lines = [
    'using var client = new HttpClient();',
    `using var request = new HttpRequestMessage(${known ? `HttpMethod.${known}` : `new HttpMethod(${literal(method)})`}, ${literal(`${origin}${path}${query}`)});`,
  ]
  if (isSecured) lines.push('request.Headers.TryAddWithoutValidation("authorization", "Bearer " + token);')
  if (body || fields.some(([name]) => contentHeader.test(name))) {
    lines.push(`request.Content = new StringContent(${literal(body ?? '')});`)
    lines.push('request.Content.Headers.Remove("content-type");')
  }
  for (const [name, value] of fields)
    lines.push(
      `request.${contentHeader.test(name) ? 'Content.' : ''}Headers.TryAddWithoutValidation(${literal(name)}, ${literal(value)});`,
    )
  return [...lines, 'using var response = await client.SendAsync(request);'].join('\n')
}

const byteLength = (text: string) => new TextEncoder().encode(text).length
const pairs = (entries: Iterable<readonly [string, string]>) =>
  Array.from(entries, ([name, value]) => ({ name, value }))
const cutComment = 'The first 16 KiB of the body.'

/** Returns entries in the format HAR 1.2, which the network panels of browsers import. */
export const toHar = (origin: string, version: string, entries: readonly JournalEntry[]) => ({
  log: {
    version: '1.2',
    creator: { name: 'todo-item-service', version },
    entries: entries.map((entry) => harEntry(origin, entry)),
  },
})

function harEntry(origin: string, entry: JournalEntry) {
  const { time, method, path, query, state, status, milliseconds, request, response, reason, fault } = entry
  const shared = (message: Message) => ({
    httpVersion: 'HTTP/1.1',
    cookies: [],
    headers: pairs(Object.entries(message.headers)),
    headersSize: -1,
    bodySize: sizeOf(message),
  })
  const comments = [entry.isPreflight && preflight, entry.isSimulated && reason, fault && `fault: ${fault}`]
  const comment = comments.filter(Boolean).join('; ')
  return {
    startedDateTime: time,
    time: milliseconds,
    request: {
      method,
      url: `${origin}${path}${query}`,
      ...shared(request),
      queryString: pairs(new URLSearchParams(query)),
      ...(request.body && {
        postData: {
          mimeType: request.headers['content-type'] ?? '',
          params: [],
          text: request.body,
          ...(request.isTruncated && { comment: cutComment }),
        },
      }),
    },
    response: {
      status: status ?? 0,
      statusText: statuses[status ?? 0] ?? '',
      ...shared(response),
      content: {
        size: sizeOf(response),
        mimeType: response.headers['content-type'] ?? 'x-unknown',
        ...(response.body !== null && { text: response.body }),
        ...(response.isTruncated && { comment: cutComment }),
      },
      redirectURL: response.headers.location ?? '',
    },
    cache: {},
    timings: { send: 0, wait: milliseconds, receive: 0 },
    ...(state !== 'sent' && { _error: (state !== 'pending' && reason) || outcomes[state] }),
    ...(comment && { comment }),
  }
}

const sizeOf = ({ headers, body, isTruncated }: Message) =>
  Number((isTruncated && headers['content-length']) || byteLength(body ?? ''))

const jsonTokens = /"(?:[^"\\]+|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:]/g

/** Indents and colours JSON, without changing a digit, and marks the members in `wrong`. Shows other text as it is. */
export function formatBody(text: string, wrong: readonly string[] = []): HTMLElement {
  const block = h('pre.body', { tabindex: '0' })
  if (!isJson(text)) {
    block.textContent = text
    return block
  }
  let depth = 0
  let previous = ''
  const indent = () => `\n${'  '.repeat(depth)}`
  const tokens = text.match(jsonTokens) ?? []
  let isWrong = false
  for (const [index, token] of tokens.entries()) {
    const isClosing = token === ']' || token === '}'
    if (isClosing) depth--
    if (isClosing && previous !== '[' && previous !== '{') block.append(indent())
    else if (!isClosing && (previous === '[' || previous === '{' || previous === ',')) block.append(indent())
    if (token === '[' || token === '{') depth++
    const kind = token.startsWith('"')
      ? tokens[index + 1] === ':'
        ? 'key'
        : 'string'
      : /^[-\dtfn]/.test(token)
        ? 'literal'
        : ''
    if (kind === 'key') isWrong = depth === 1 && wrong.includes(JSON.parse(token))
    const part = kind ? h('span', { class: kind }, token) : token === ':' ? ': ' : token
    block.append(isWrong && kind ? h('mark', part) : part)
    previous = token
  }
  return block
}

function isJson(text: string): boolean {
  if (!/^\s*[[{"]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
