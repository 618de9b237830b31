import type { IncomingMessage } from 'node:http'

/** The first value of a header, by its lower-case name. Node's own `headers` would make an object of all of them. */
export function header({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (given.length === name.length && given.toLowerCase() === name) return rawHeaders[at + 1]
  }
  return undefined
}
