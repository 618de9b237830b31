import type { IncomingMessage } from 'node:http'

/** The first value of a header, by its lower-case name. Node's own `headers` would make an object of all of them. */
export function header({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (given.length === name.length && given.toLowerCase() === name) return rawHeaders[at + 1]
  }
  return undefined
}

/** Headers of which a second one would leave open which counts. */
const singles = ['host', 'content-type', 'content-length', 'authorization', 'if-match', 'if-none-match', 'expect']
const lengths = new Set(singles.map(({ length }) => length))

/** Whether one of them is there twice. */
export function hasDoubled({ rawHeaders }: IncomingMessage): boolean {
  let seen = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (!lengths.has(given.length)) continue
    const index = singles.indexOf(given.toLowerCase())
    if (index < 0) continue
    if (seen & (1 << index)) return true
    seen |= 1 << index
  }
  return false
}
