export type Claims = Readonly<Record<string, unknown>>

export interface Token {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Claims
}

/** What is inside a JSON Web Token; undefined where it is none. Nothing is verified here. */
export function parseToken(text: string): Token | undefined {
  const [header, claims, signature, ...more] = text.split('.').map(bytesOf)
  if (!header || !claims || !signature || more.length > 0) return undefined
  const [parsedHeader, parsedClaims] = [objectOf(header), objectOf(claims)]
  return parsedHeader && parsedClaims && { header: parsedHeader, claims: parsedClaims }
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
