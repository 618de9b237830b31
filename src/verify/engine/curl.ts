import { escapeText } from '../../common/escape.ts'
import { isObject } from '../../common/json.ts'
import { itemAddresses } from './cleanup.ts'
import type { Request, Response } from './client.ts'
import type { ItemCollection } from './contract.ts'
import { tryParseExact } from './json.ts'

export interface Target {
  readonly url: string
  /** Accepts any certificate. */
  readonly insecure?: boolean | undefined
}

/** More would not be read. */
const maxCommands = 5
const maxSteps = 12

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
    if (id === undefined) return []
    return [{ response, id, isAssigned: /^[\w-]{1,200}$/.test(id) && idOf(sentIn(response.request)) !== id }]
  })
  const idsIn = (request: Request) =>
    [idInPath(request.path.slice(basePath.length)), idOf(sentIn(request))].filter((id) => id !== undefined)
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
    const changed = made?.isAssigned ? later.map((command) => insertVariable(command, made.id, variable)) : later
    if (changed.join() === later.join()) continue
    variables++
    const command = `${variable}=$(${commands[index]?.replace('curl -i', 'curl -s')} | ${readId})`
    commands.splice(index, commands.length, command, ...changed)
  }
  return commands.join('\n')
}

/** A program of Node that prints the member id of a response; JSON.parse would round a long number. */
const readId = `node -p '/"id" *: *"?([\\w-]+)/.exec(fs.readFileSync(0))[1]'`

const isSafe = ({ method }: Request) => ['GET', 'HEAD', 'OPTIONS'].includes(method)

function sentIn({ body }: Request): Record<string, unknown> {
  const value = body && tryParseExact(Buffer.from(body).toString())
  return isObject(value) ? value : {}
}

/** Inside single quotes: at the end of a URL, or as the value of the member id. */
const insertVariable = (command: string, id: string, variable: string) =>
  command
    .replace(new RegExp(`(?<=/)${id}(?=/?(?:\\?[^']*)?')`), `'"$$${variable}"'`)
    .replace(new RegExp(`(?<="id":\\s*"?)${id}(?=["\\s,}])`, 'g'), `'"$$${variable}"'`)
    .replace(`"$${variable}"''`, `"$$${variable}"`)

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
