import type { IncomingMessage } from 'node:http'

/** The first value of a header, by its lower-case name. Node's own `headers` would make an object of all of them. */
export function header({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    if (given.length === name.length && given.toLowerCase() === name) return rawHeaders[at + 1]
  }
  return undefined
}

/** Headers of which a second one would leave open which counts, by their length. */
const singles: string[][] = []
for (const name of ['host', 'expect', 'if-match', 'content-type', 'authorization', 'if-none-match', 'content-length'])
  singles[name.length] = [...(singles[name.length] ?? []), name]

/** Whether a header by this name may be there only once, and with the other headers. */
export const isSingle = (name: string) => singles[name.length]?.includes(name.toLowerCase()) ?? false

/** Whether one of them is there twice. */
export function hasDoubled({ rawHeaders }: IncomingMessage): boolean {
  for (let at = 2; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    // A name of another length is another name, and that costs next to nothing to see.
    if (singles[given.length] && stands(rawHeaders, at, given.length) && isSingle(given)) {
      const name = given.toLowerCase()
      if (stands(rawHeaders, at, given.length, name)) return true
    }
  }
  return false
}

/** Whether a name of this length, or this name, stands before a place. */
function stands(rawHeaders: readonly string[], place: number, length: number, name?: string): boolean {
  for (let at = 0; at < place; at += 2) {
    const before = rawHeaders[at] as string
    if (before.length === length && (name === undefined || before.toLowerCase() === name)) return true
  }
  return false
}

/** Headers, or trailers, of a request: each costs more than its bytes. */
const mostHeaders = 200
/** So many are kept: one more tells that there are too many. */
export const keptHeaders = mostHeaders + 1
export const isTooMany = (raw: readonly string[]) => raw.length > 2 * mostHeaders
