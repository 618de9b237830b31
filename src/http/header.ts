import type { IncomingMessage } from 'node:http'

/** The first value of a header, by its lower-case name. Node's own `headers` would make an object of all of them. */
export function header({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (given.length === name.length && given.toLowerCase() === name) return rawHeaders[at + 1]
  }
  return undefined
}

/** Headers of which a second one would leave open which counts: a bit for each, by the length of its name. */
const singles: Map<string, number>[] = []
for (const [at, name] of [
  'host',
  'expect',
  'if-match',
  'content-type',
  'authorization',
  'if-none-match',
  'content-length',
].entries())
  singles[name.length] = (singles[name.length] ?? new Map<string, number>()).set(name, 1 << at)

const bitOf = (name: string) => singles[name.length]?.get(name.toLowerCase()) ?? 0

/** Whether a header by this name may be there only once, and with the other headers. */
export const isSingle = (name: string) => bitOf(name) > 0

/** Whether one of them is there twice. */
export function hasDoubled({ rawHeaders }: IncomingMessage): boolean {
  let seen = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const bit = bitOf(rawHeaders[at] as string)
    if (seen & bit) return true
    seen |= bit
  }
  return false
}

/** Headers, or trailers, of a request: each costs more than its bytes. */
const mostHeaders = 200
/** So many are kept: one more tells that there are too many. */
export const keptHeaders = mostHeaders + 1
export const isTooMany = (raw: readonly string[]) => raw.length > 2 * mostHeaders
