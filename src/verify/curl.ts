import type { Request } from './client.ts'

const maxArgumentLength = 2000

/** A shell command that repeats the request. */
export function toCurl(url: string, { method, path, headers, body }: Request): string {
  const { origin } = new URL(url)
  const parts = ['curl -i --path-as-is', method === 'HEAD' ? '--head' : `-X ${method}`, quote(`${origin}${path}`)]
  for (const [name, value = []] of Object.entries(headers))
    for (const one of [value].flat()) if (name !== 'content-length') parts.push(headerOption(name, one))
  if (!body) return parts.join(' ')
  if (!headers['content-type']) parts.push("-H 'content-type:'")
  const text = Buffer.from(body).toString()
  const isText = Buffer.from(text).equals(Buffer.from(body)) && !text.includes('\0')
  if (isText && text.length <= maxArgumentLength) return `${parts.join(' ')} --data-binary ${quote(text)}`
  return `${isText ? printText(text) : printBytes(body)} | ${parts.join(' ')} --data-binary @-`
}

/** A redacted token is a shell variable, which expands in double quotes only. */
const headerOption = (name: string, value: string) =>
  value.includes('$TOKEN') ? `-H "${name}: ${value}"` : `-H ${quote(`${name}: ${value}`)}`

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

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
