/*
 * Limits far above any response of a contract. The values of a malicious text of 16 MiB could take gigabytes, and
 * minutes to parse; nothing can interrupt JSON.parse.
 */
const maxDepth = 500
const maxValues = 2_000_000
const maxDigits = 1_000

/** Thrown for JSON that is not accepted; the message names what is expected instead. */
export class UnacceptableJson extends Error {}

/** Returns undefined for a text that cannot be parsed. */
export function tryParseExact(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

/** Returns the index of the quotation mark that closes the string at `start`; without one, the length of the text. */
function endOfString(text: string, start: number): number {
  let index = start + 1
  for (let code = 0; index < text.length; index += code === backslash ? 2 : 1) {
    code = text.charCodeAt(index)
    if (code === quote) return index
  }
  return text.length
}

/** Returns the numbers of a JSON text as they are written. */
export function numberLiterals(text: string): string[] {
  let outside = ''
  for (let start = 0; start < text.length; ) {
    const string = text.indexOf('"', start)
    outside += ` ${text.slice(start, string < 0 ? undefined : string)}`
    start = string < 0 ? text.length : endOfString(text, string) + 1
  }
  return outside.match(/-?\d[\d.eE+-]*/g) ?? []
}

/** Parses like JSON.parse, but first throws `UnacceptableJson` if the text exceeds a limit. */
function parseBounded(text: string): unknown {
  let [depth, values, digits] = [0, 1, 0]
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code >= zero && code <= nine) {
      if (++digits > maxDigits) throw new UnacceptableJson(`JSON numbers of at most ${maxDigits} digits`)
      continue
    }
    digits = 0
    if (code === quote) index = endOfString(text, index)
    else if (code === closingBracket || code === closingBrace) depth--
    else if (code === bracket || code === brace) {
      values++
      if (++depth > maxDepth) throw new UnacceptableJson(`JSON with at most ${maxDepth} levels of nesting`)
    } else if (code === comma) values++
    if (values > maxValues) throw new UnacceptableJson(`JSON with at most ${maxValues} values`)
  }
  return JSON.parse(text)
}

const [quote, backslash, comma, zero, nine] = [0x22, 0x5c, 0x2c, 0x30, 0x39]
const [bracket, closingBracket, brace, closingBrace] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Parses like `parseBounded`, but an integer that a number would round becomes a bigint, so that an int64 is exact.
 * Also throws `UnacceptableJson` for an object with two members of the same name.
 */
export function parseExact(text: string): unknown {
  // Throws for everything that is not JSON, so that the functions below need no checks.
  parseBounded(text)
  const separators = /[ \t\r\n,:]*/y
  let position = 0

  function value(): unknown {
    const first = next()
    if (first === '"') return string()
    if (first !== '{' && first !== '[') return literal()
    position++
    const nested = first === '{' ? object() : array()
    position++
    return nested
  }

  /** Moves to the next character that is neither white space nor a comma or colon, and returns it. */
  function next(): string | undefined {
    separators.lastIndex = position
    separators.test(text)
    position = separators.lastIndex
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
    position = endOfString(text, start) + 1
    return JSON.parse(text.slice(start, position))
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
