import type { Sent } from '../service.ts'

const longest = 2000

/** The request as a line for a shell that sends it again. */
export function curlOf(url: string, { method, path, headers, body }: Sent): string {
  const { origin } = new URL(url)
  const parts = ['curl -i --path-as-is', method === 'HEAD' ? '--head' : `-X ${method}`, quoted(`${origin}${path}`)]
  for (const [name, value] of Object.entries(headers))
    for (const one of [value ?? []].flat()) if (name !== 'content-length') parts.push(headerOf(name, one))
  if (body && !headers['content-type']) parts.push("-H 'content-type:'")
  if (!body) return parts.join(' ')
  const text = Buffer.from(body).toString()
  if (body.length > longest)
    return `head -c ${body.length} /dev/zero | ${parts.join(' ')} --data-binary @-   # ${body.length} bytes that begin with ${text.slice(0, 80)}`
  const isText = Buffer.from(text).equals(Buffer.from(body)) && !text.includes('\0')
  if (isText) return `${parts.join(' ')} --data-binary ${quoted(text)}`
  const octal = [...body].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
  return `printf '${octal}' | ${parts.join(' ')} --data-binary @-`
}

/** The token is written as a variable. */
const headerOf = (name: string, value: string) =>
  value.endsWith('$TOKEN') ? `-H "${name}: ${value}"` : `-H ${quoted(`${name}: ${value}`)}`

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
