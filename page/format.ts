import type { JournalEntry } from '../src/control/schema.ts'
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
  417: 'Expectation Failed',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
  505: 'HTTP Version Not Supported',
}

export const describeStatus = (status: Status) =>
  status ? `${status} ${statuses[status] ?? ''}`.trim() : 'No response: the connection was closed'

/** 2xx to 5xx; `none` without a response. */
export const statusClass = (status: Status) => (status ? `${Math.floor(status / 100)}xx` : 'none')

const time = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' })
export const formatTime = (text: string) => time.format(new Date(text))
const date = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'short' })
export const formatDate = (value: string | number) => date.format(new Date(value))

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(2)} s`
}

const browserNames: Partial<Record<string, string>> = {
  Edg: 'Edge',
  OPR: 'Opera',
  CriOS: 'Chrome',
  HeadlessChrome: 'Chrome',
  Version: 'Safari',
}

/** The program behind a User-Agent header, such as `curl 8.5`. */
export function clientName(userAgent: string | undefined, address: string): string {
  if (!userAgent) return address
  const browser = /(Firefox|Edg|OPR|CriOS|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent)
  const [, name, version] =
    (userAgent.startsWith('Mozilla/') && browser) || /^([^\s/(]+)\/?([\w.]*)/.exec(userAgent) || []
  return name ? `${browserNames[name] ?? name} ${version}`.trim() : userAgent
}

const maxArgumentLength = 100_000
/** For a POSIX shell. Control characters could control the terminal into which the command is pasted. */
function quote(text: string): string {
  if (!/\p{Cc}/u.test(text)) return `'${text.replaceAll("'", "'\\''")}'`
  return `$'${text.replace(/[\p{Cc}\\']/gu, escapeBytes)}'`
}
const escapeBytes = (character: string) =>
  [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
/** curl sets them itself, or they belong to the connection of the client. */
const ownHeaders =
  /^(?:host|connection|content-length|accept-encoding|user-agent|accept|transfer-encoding|origin|referer|cache-control|pragma|accept-language|sec-.*)$/

/** A request as it was sent, or is to be sent. */
interface SentRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | null | undefined
}

/** A shell command that repeats a request. The journal has no tokens, so the command refers to one in $TOKEN. */
export function toCurl(origin: string, request: SentRequest, isSecured: boolean): string {
  const { method, path, query, headers = {}, body } = request
  const parts = [`curl -i${method === 'HEAD' ? ' --head' : ''}`]
  if (method !== 'GET' && method !== 'HEAD') parts.push(`-X ${/^[A-Z]+$/.test(method) ? method : quote(method)}`)
  parts.push(quote(`${origin}${path}${query}`))
  if (isSecured) parts.push('-H "Authorization: Bearer $TOKEN"')
  for (const [name, value] of Object.entries(headers))
    if (!ownHeaders.test(name)) parts.push(`-H ${quote(`${name}: ${value}`)}`)
  if (body) {
    if (!headers['content-type']) parts.push("-H 'content-type:'")
    // Unlike --data-binary it reads no file.
    parts.push(`--data-raw ${quote(body.slice(0, maxArgumentLength))}`)
  }
  return parts.join(' ')
}

const jsonTokens = /"(?:[^"\\]+|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:]/g

/** JSON, indented and coloured, every digit as it was sent; other text as it is. */
export function formatBody(text: string): HTMLElement {
  const block = h('pre', { class: 'body', tabindex: '0' })
  if (!isJson(text)) {
    block.textContent = text
    return block
  }
  let depth = 0
  let previous = ''
  const indent = () => `\n${'  '.repeat(depth)}`
  const tokens = text.match(jsonTokens) ?? []
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
    block.append(kind ? h('span', { class: kind }, token) : token === ':' ? ': ' : token)
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
