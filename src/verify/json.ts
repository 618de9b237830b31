/** Far above any response of a contract; the parser is recursive. */
const maxDepth = 500

/** Valid JSON that is not accepted; the message says what is expected. */
export class UnacceptableJson extends Error {}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** As `parseExact`; undefined where that throws. */
export function tryParse(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

/** The numbers of a JSON text, as they are written. */
export const numberLiterals = (text: string) =>
  (text.match(/"(?:[^"\\]+|\\.)*"|-?\d[\d.eE+-]*/g) ?? []).filter((part) => !part.startsWith('"'))

/**
 * As JSON.parse, but an integer that a number cannot hold becomes a bigint: JSON.parse would round an int64.
 * Throws a SyntaxError, and `UnacceptableJson` for two members with the same name, or for deep nesting.
 */
export function parseExact(text: string): unknown {
  // Rejects everything that is not JSON, so that the rest needs no checks.
  JSON.parse(text)
  let position = 0
  let depth = 0

  function value(): unknown {
    const first = next()
    if (first === '"') return string()
    if (first !== '{' && first !== '[') return literal()
    if (++depth > maxDepth) throw new UnacceptableJson(`JSON with at most ${maxDepth} levels of nesting`)
    position++
    const nested = first === '{' ? object() : array()
    position++
    depth--
    return nested
  }

  /** The next character that is neither white space nor a comma or colon. */
  function next(): string | undefined {
    while (' \t\r\n,:'.includes(text[position] ?? '?')) position++
    return text[position]
  }

  function object(): Record<string, unknown> {
    const members = new Map<string, unknown>()
    while (next() !== '}') {
      const name = string()
      if (members.has(name)) throw new UnacceptableJson('a JSON object without two members of the same name')
      members.set(name, value())
    }
    return Object.fromEntries(members)
  }

  function array(): unknown[] {
    const elements: unknown[] = []
    while (next() !== ']') elements.push(value())
    return elements
  }

  function string(): string {
    const start = position
    do position = text.indexOf('"', position + 1)
    while (isEscaped(position))
    return JSON.parse(text.slice(start, ++position))
  }

  function isEscaped(quote: number): boolean {
    let before = quote
    while (text[before - 1] === '\\') before--
    return (quote - before) % 2 === 1
  }

  function literal(): unknown {
    const start = position
    while (position < text.length && !' \t\r\n,]}'.includes(text[position] ?? '')) position++
    const source = text.slice(start, position)
    const parsed: unknown = JSON.parse(source)
    const isRounded = typeof parsed === 'number' && /^-?\d+$/.test(source) && !Number.isSafeInteger(parsed)
    return isRounded ? BigInt(source) : parsed
  }

  return value()
}
