import type { Request, Response } from '../../common/client.ts'
import { escapeText } from '../../common/escape.ts'
import { isObject, tryParse } from '../../common/json.ts'
import { itemAddresses } from './cleanup.ts'
import type { ItemCollection } from './contract.ts'

export interface Target {
  readonly url: string
  /** Accepts any certificate. */
  readonly insecure?: boolean | undefined
}

/** More would not be read. */
const maxCommands = 5
const maxSteps = 12
/** An id that a server assigns may be of any length. */
const maxIdLength = 200

interface About {
  /** The id of an item that the last request does not name. */
  readonly aboutId?: string | undefined
  /** Every request before the last one may be to blame. */
  readonly hasSteps?: boolean
}

/**
 * Shell commands, one on each line, that repeat a request, after those of the same check that created or changed what
 * it is about. An id that the server assigns is read from its response.
 */
export function toScript(
  { url, insecure = false }: Target,
  items: ItemCollection,
  history: readonly Response[],
  last: Request,
  { aboutId, hasSteps = false }: About = {},
): string {
  const { idInPath, idOf, itemsIn } = itemAddresses(items)
  const basePath = new URL(url).pathname.replace(/\/$/, '')
  const created = history.flatMap((response) => {
    const [item] = (response.request.method === 'POST' && response.status < 300 && itemsIn(response)) || []
    const id = item && idOf(item)
    return id === undefined || id.length > maxIdLength
      ? []
      : [{ response, id, isAssigned: idOf(parseObject(bodyText(response.request)) ?? {}) !== id }]
  })
  const idsIn = (request: Request) => {
    const body = parseObject(bodyText(request))
    return [idInPath(request.path.slice(basePath.length)), body && idOf(body)].filter((id) => id !== undefined)
  }
  const aboutIds = aboutId === undefined ? idsIn(last) : [aboutId]
  const before = history.filter((response) => {
    if (response.request === last || isSafe(response.request)) return false
    if (hasSteps) return true
    const ids = [...idsIn(response.request), ...created.filter((one) => one.response === response).map(({ id }) => id)]
    return aboutIds.length === 0 ? isSafe(last) : ids.some((id) => aboutIds.includes(id))
  })
  if (before.length === 0) return toCurl(url, insecure, last)
  // What happened between the creation and the last changes is left out.
  const most = hasSteps ? maxSteps : maxCommands
  if (before.length >= most) before.splice(1, before.length - most + 1)

  const commands = [...before.map(({ request }) => request), last].map((request) => toCurl(url, insecure, request))
  let variables = 0
  for (const [index, response] of before.entries()) {
    const made = created.find((one) => one.response === response)
    const variable = `id${variables + 1}`
    const later = commands.slice(index + 1)
    const changed = made?.isAssigned
      ? later.map((command) => insertVariable(command, made.id.replace(/.*\//, ''), variable))
      : later
    if (changed.join() === later.join()) continue
    variables++
    const command = commands[index]?.replace('curl -i', 'curl -s')
    commands.splice(
      index,
      commands.length,
      `${variable}=$(${command} | ${readId(response.text, made?.id ?? '')})`,
      ...changed,
    )
  }
  return commands.join('\n')
}

/** A program of Node that prints the id in a response: a member, or what a member ends with behind a slash. */
function readId(text: string, id: string): string {
  // JSON.parse rounds a longer number.
  if (/^-?\d{16,}$/.test(id)) return `node -p '/"id": *"?(-?[0-9]+)/.exec(fs.readFileSync(0))[1]'`
  const value = 'JSON.parse(fs.readFileSync(0))'
  const name = id.replace(/.*\//, '')
  const [members = ['id'], found] = findMember(tryParse(text), name) ?? []
  const end = found === undefined || found === name ? '' : '.split("/").pop()'
  return `node -p '${value}${members.map((member) => `.${member}`).join('')}${end}'`
}

/** The names of the members on the way to the first value that is the text, or ends with it behind a slash. */
function findMember(value: unknown, text: string): [members: string[], value: string] | undefined {
  if (!isObject(value)) return undefined
  for (const [name, member] of Object.entries(value)) {
    if (!/^\w+$/.test(name)) continue
    if (`${member}` === text || `${member}`.endsWith(`/${text}`)) return [[name], `${member}`]
    const found = findMember(member, text)
    if (found) return [[name, ...found[0]], found[1]]
  }
  return undefined
}

const isSafe = ({ method }: Request) => ['GET', 'HEAD', 'OPTIONS'].includes(method)
const bodyText = ({ body }: Request) => (body ? Buffer.from(body).toString() : '')

function parseObject(text: string): Record<string, unknown> | undefined {
  const value = tryParse(text)
  return isObject(value) ? value : undefined
}

/** Inside single quotes: at the end of a URL, or as the value of the member id. */
function insertVariable(command: string, id: string, variable: string): string {
  const [value, inPath] = [id, encodeURIComponent(id)].map((text) => text.replace(/[^\w]/g, '\\$&'))
  return command
    .replace(new RegExp(`(?<=/)${inPath}(?=/?(?:\\?[^']*)?')`), `'"$$${variable}"'`)
    .replace(new RegExp(`(?<="id":\\s*"?)${value}(?=["\\s,}])`, 'g'), `'"$$${variable}"'`)
    .replace(`"$${variable}"''`, `"$$${variable}"`)
}

const maxArgumentLength = 2000

/** A shell command that repeats the request. */
function toCurl(url: string, insecure: boolean, { method, path, headers, body }: Request): string {
  const { origin } = new URL(url)
  const parts = [
    `curl -i${insecure ? ' -k' : ''} --path-as-is`,
    method === 'HEAD' ? '--head' : `-X ${method}`,
    quote(`${origin}${path}`),
  ]
  for (const [name, value = []] of Object.entries(headers))
    for (const one of [value].flat()) if (name !== 'content-length') parts.push(headerOption(name, one))
  if (!body) return parts.join(' ')
  if (!headers['content-type']) parts.push("-H 'content-type:'")
  const text = Buffer.from(body).toString()
  const isText = Buffer.from(text).equals(Buffer.from(body)) && !text.includes('\0')
  if (isText && text.length <= maxArgumentLength) return `${parts.join(' ')} --data-binary ${quote(text)}`
  return `${isText ? printText(text) : printBytes(body)} | ${parts.join(' ')} --data-binary @-`
}

/** A redacted token is a shell variable, which expands in double quotes only; so would what a server put beside it. */
const headerOption = (name: string, value: string) =>
  /^\w* ?\$(OTHER_)?TOKEN$/.test(value)
    ? `-H "${name}: ${value}"`
    : `-H ${quote(`${name}: ${value}`).replace(/\$(OTHER_)?TOKEN/g, `'"$&"'`)}`

/** Large bodies repeat a few characters; the shell generates them. */
function printText(text: string): string {
  const match = /([^\r\n]{1,8}?)\1{200,}/.exec(text)
  if (!match) return `printf %s ${quote(text)}`
  const { 0: repeated, 1: part = '', index } = match
  const commands = [
    `printf %s ${quote(text.slice(0, index))}`,
    `yes ${quote(part)} | head -n ${repeated.length / part.length} | tr -d '\\n'`,
    `printf %s ${quote(text.slice(index + repeated.length))}`,
  ]
  return `{ ${commands.join('; ')}; }`
}

const printBytes = (body: Uint8Array) =>
  `printf '${[...body].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')}'`

const quote = (text: string) => `'${escapeText(text.replaceAll("'", "'\\''"), 'shell')}'`
