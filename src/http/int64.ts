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
  return firstSource(text, name) ?? anySource(text, name)
}

/** As nearly everyone writes it: the first member, in digits, and nothing else by this name. */
function firstSource(text: string, name: string): string | undefined {
  const key = `"${name}"`
  if (!text.startsWith(key, 1) || text.charCodeAt(key.length + 1) !== colon) return undefined
  if (text.lastIndexOf(key) !== 1 || text.includes('\\')) return undefined
  const start = key.length + 2
  let end = start
  while (isDigit(text.charCodeAt(end))) end++
  const next = text.charCodeAt(end)
  return next === comma || next === closingBrace ? text.slice(start, end) : undefined
}

const isDigit = (code: number) => code >= 0x30 && code <= 0x39

function anySource(text: string, name: string): string | undefined {
  let source: string | undefined
  let depth = 0
  let key: string | undefined
  let valueStart = 0
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = closingQuote(text, at)
        if (depth === 1 && key === undefined) {
          const written = text.slice(at + 1, end)
          key = written.includes('\\') ? (JSON.parse(`"${written}"`) as string) : written
        }
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

const [quote, colon, comma, backslash] = [0x22, 0x3a, 0x2c, 0x5c]
const [openingBrace, closingBrace, openingBracket, closingBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

function closingQuote(text: string, openingQuote: number): number {
  let at = text.indexOf('"', openingQuote + 1)
  while (isEscaped(text, at)) at = text.indexOf('"', at + 1)
  return at
}

/** Behind an odd number of backslashes. */
function isEscaped(text: string, at: number): boolean {
  let before = at
  while (text.charCodeAt(before - 1) === backslash) before--
  return (at - before) % 2 === 1
}
