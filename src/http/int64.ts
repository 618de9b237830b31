/** A11, A12: returns the text if it is a canonical decimal int64, and otherwise undefined. */
export function int64(text: string | undefined): string | undefined {
  if (text === undefined || !/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined
  if (text.length < 19) return text
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? text : undefined
}

/**
 * Returns the exact int64 of a member of a JSON object, or undefined. `value` is the member as parsed by JSON.parse,
 * which may have rounded it; `text` is the JSON.
 */
export function int64Member(text: string, name: string, value: unknown): string | undefined {
  if (typeof value !== 'number') return undefined
  const digits = `${value}`
  return Number.isSafeInteger(value) && isOnlyMember(text, `"${name}"`, digits)
    ? digits
    : int64(numberSource(text, name))
}

/** Whether the text has this name once, with these digits; false if only a parser, which is much slower, can tell. */
function isOnlyMember(text: string, name: string, digits: string): boolean {
  const start = text.indexOf(name)
  // A second occurrence could be a value or a nested member; with escapes, the name could be hidden.
  if (start < 0 || text.includes(name, start + 1) || text.includes('\\')) return false
  const colon = skipSpace(text, start + name.length)
  const number = skipSpace(text, colon + 1)
  const end = skipSpace(text, number + digits.length)
  return text[colon] === ':' && text.startsWith(digits, number) && (text[end] === ',' || text[end] === '}')
}

/** Returns the index of the next character that is not JSON white space. */
function skipSpace(text: string, start: number): number {
  let index = start
  for (let code = text.charCodeAt(index); isSpace(code); code = text.charCodeAt(index)) index++
  return index
}

const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** Returns the digits of a number as they were sent. */
const numberSource = (text: string, name: string) => (JSON.parse(quoteNumbers(text)) as Record<string, string>)[name]

/** Returns the JSON with every number as a string. */
export function quoteNumbers(text: string): string {
  const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g
  return text.replace(stringOrNumber, (token) => (token.startsWith('"') ? token : `"${token}"`))
}
