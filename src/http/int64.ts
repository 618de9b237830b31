/** A11, A12: a canonical decimal int64, or undefined. */
export function int64(text: string | undefined): string | undefined {
  if (text === undefined || !/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined
  if (text.length < 19) return text
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? text : undefined
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
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = closingQuote(text, at)
        if (depth === 1 && key === undefined) key = JSON.parse(text.slice(at, end + 1)) as string
        at = end
        break
      }
      case colon:
        if (depth === 1) valueStart = at + 1
        break
      case openingBrace:
      case openingBracket:
        depth++
        break
      case closingBrace:
      case closingBracket:
      case comma:
        if (depth === 1) {
          if (key === name) source = text.slice(valueStart, at).trim()
          key = undefined
        }
        if (text.charCodeAt(at) !== comma) depth--
    }
  }
  return source
}

const [quote, colon, comma] = [0x22, 0x3a, 0x2c]
const [openingBrace, closingBrace, openingBracket, closingBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

function closingQuote(text: string, openingQuote: number): number {
  let at = openingQuote + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
