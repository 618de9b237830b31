import type { Sent } from '../service.ts'

/** The request as a line for a shell that sends it again. */
export function curlOf(url: string, { method, path, headers, body }: Sent): string {
  const { origin } = new URL(url)
  const parts = ['curl -i --path-as-is', method === 'HEAD' ? '--head' : `-X ${method}`, quoted(`${origin}${path}`)]
  for (const [name, value] of Object.entries(headers))
    for (const one of [value ?? []].flat()) if (name !== 'content-length') parts.push(headerOf(name, one))
  if (!body) return parts.join(' ')
  if (!headers['content-type']) parts.push("-H 'content-type:'")
  const text = Buffer.from(body).toString()
  const isText = Buffer.from(text).equals(Buffer.from(body)) && !text.includes('\0')
  if (isText && text.length <= 2000) return `${parts.join(' ')} --data-binary ${quoted(text)}`
  return `${isText ? printed(text) : printedBytes(body)} | ${parts.join(' ')} --data-binary @-`
}

/** The token is written as a variable. */
const headerOf = (name: string, value: string) =>
  value.includes('$TOKEN') ? `-H "${name}: ${value}"` : `-H ${quoted(`${name}: ${value}`)}`

/** A long body is mostly one character, again and again. */
function printed(text: string): string {
  const found = /(.)\1{500,}/s.exec(text)
  if (!found) return `printf %s ${quoted(text)}`
  const { 0: run, 1: char = '', index } = found
  const steps = [
    `printf %s ${quoted(text.slice(0, index))}`,
    `head -c ${run.length} /dev/zero | tr '\\0' ${quoted(char)}`,
    `printf %s ${quoted(text.slice(index + run.length))}`,
  ]
  return `{ ${steps.join('; ')}; }`
}

const printedBytes = (body: Uint8Array) =>
  `printf '${[...body].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')}'`

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
