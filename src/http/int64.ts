/** A11, A12: a canonical decimal int64, or undefined. */
export function int64(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? value : undefined
}

/**
 * The source text of a top-level member of a JSON object: `JSON.parse` would round an int64.
 * `text` must be valid JSON. The last of equal names wins (G4).
 */
export function memberSource(text: string, name: string): string | undefined {
  let source: string | undefined
  let depth = 0
  let key: string | undefined
  let valueStart = 0
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') {
      const end = closingQuote(text, at)
      if (depth === 1 && key === undefined) key = JSON.parse(text.slice(at, end + 1)) as string
      at = end
    } else if (char === ':' && depth === 1) {
      valueStart = at + 1
    } else if (char === '{' || char === '[') {
      depth++
    } else if (char === '}' || char === ']' || char === ',') {
      if (depth === 1) {
        if (key === name) source = text.slice(valueStart, at).trim()
        key = undefined
      }
      if (char !== ',') depth--
    }
  }
  return source
}

function closingQuote(text: string, openingQuote: number): number {
  let at = openingQuote + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
