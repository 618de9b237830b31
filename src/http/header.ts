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
export function hasDoubled(request: IncomingMessage): boolean {
  const { rawHeaders } = request
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] as string
    const names = singles[given.length]
    if (names && isAgain(rawHeaders, at, given) && names.includes(given.toLowerCase())) return true
  }
  return false
}

/** Whether a header stands before its place, too. */
function isAgain(rawHeaders: readonly string[], place: number, given: string): boolean {
  for (let at = 0; at < place; at += 2) {
    const before = rawHeaders[at] as string
    if (before.length === given.length && before.toLowerCase() === given.toLowerCase()) return true
  }
  return false
}
