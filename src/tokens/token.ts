export type Claims = Readonly<Record<string, unknown>>

export interface Token {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Claims
}

/** What is inside a JSON Web Token, or why it is none. Nothing is verified here. */
export function parseToken(text: string): Token | string {
  const segments = text.split('.')
  if (segments.length !== 3) return `it does not have three parts`
  const [first, second, signature] = segments.map(bytesOf)
  if (!first || !second || !signature) return 'a part of it is not base64url'
  const [header, claims] = [objectOf(first), objectOf(second)]
  if (!header || !claims) return `its ${header ? 'claims are' : 'header is'} not a JSON object`
  return { header, claims }
}

/** Base64url has more than one spelling for the same bytes; only the canonical one is taken. */
function bytesOf(segment: string): Buffer | undefined {
  const bytes = Buffer.from(segment, 'base64url')
  return segment !== '' && bytes.toString('base64url') === segment ? bytes : undefined
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function objectOf(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes))
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
