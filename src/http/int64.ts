/** A11, A12: a canonical decimal int64, or undefined. */
export function int64(text: string | undefined): string | undefined {
  if (text === undefined || !/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined
  if (text.length < 19) return text
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? text : undefined
}

/**
 * The int64 that a member of a JSON object has, or undefined. JSON.parse rounds it: `value` is what it made of the member,
 * `text` the JSON that it read.
 */
export function int64Member(text: string, name: string, value: unknown): string | undefined {
  if (typeof value !== 'number') return undefined
  const digits = `${value}`
  return Number.isSafeInteger(value) && isOnlyMember(text, `"${name}"`, digits)
    ? digits
    : int64(numberSource(text, name))
}

/** Whether the member was sent with these digits; false also where only a parser can tell. It takes a fraction of its time. */
function isOnlyMember(text: string, name: string, digits: string): boolean {
  const start = text.indexOf(name)
  // The name could be that of another member, or be written with escapes.
  if (start < 0 || text.includes(name, start + 1) || text.includes('\\')) return false
  const colon = skipSpace(text, start + name.length)
  const number = skipSpace(text, colon + 1)
  const end = skipSpace(text, number + digits.length)
  return text[colon] === ':' && text.startsWith(digits, number) && (text[end] === ',' || text[end] === '}')
}

/** The index of the next character that is no white space in JSON. */
function skipSpace(text: string, start: number): number {
  let index = start
  for (let code = text.charCodeAt(index); isSpace(code); code = text.charCodeAt(index)) index++
  return index
}

const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** The digits as they were sent. */
const numberSource = (text: string, name: string) => (JSON.parse(quoteNumbers(text)) as Record<string, string>)[name]

/** The same JSON with every number as a string. */
export function quoteNumbers(text: string): string {
  const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g
  return text.replace(stringOrNumber, (token) => (token.startsWith('"') ? token : `"${token}"`))
}
