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
  // Fast path for nearly every client: the first member, its digits those of a number that is exact, no other member with
  // this name, which may be written with escapes.
  const digits = `${value}`
  const start = name.length + 4
  if (Number.isSafeInteger(value) && text.startsWith(digits, start) && text.startsWith(name, 2)) {
    const next = text[start + digits.length]
    const isFirst = text.startsWith('{"') && text.startsWith('":', start - 2) && (next === ',' || next === '}')
    if (isFirst && !text.includes(`"${name}"`, start) && !text.includes('\\', start)) return digits
  }
  return int64(numberSource(text, name))
}

/** The digits as they were sent. */
const numberSource = (text: string, name: string) => (JSON.parse(quoteNumbers(text)) as Record<string, string>)[name]

/** The same JSON with every number as a string. */
export function quoteNumbers(text: string): string {
  const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g
  return text.replace(stringOrNumber, (token) => (token.startsWith('"') ? token : `"${token}"`))
}
