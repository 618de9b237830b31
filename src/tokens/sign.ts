import type { KeyObject } from 'node:crypto'

export interface TokenRequest {
  readonly id: string
  readonly name: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  /** Additional claims. */
  readonly claims?: Readonly<Record<string, string>>
  readonly issuer: string
  readonly audiences: readonly string[]
  readonly validForSeconds: number
}

/** Signs a development token with the claims that `dotnet user-jwts` writes. */
export async function signToken(
  request: TokenRequest,
  key: KeyObject,
  now: Date,
): Promise<{ token: string; claims: { exp: number } }> {
  const { SignJWT } = await import('jose/jwt/sign')
  const issuedAt = Math.floor(now.getTime() / 1000)
  const claims = {
    unique_name: request.name,
    sub: request.name,
    jti: request.id,
    ...listClaim('scope', request.scopes),
    ...listClaim('role', request.roles),
    ...request.claims,
    ...listClaim('aud', request.audiences),
    nbf: issuedAt,
    exp: issuedAt + request.validForSeconds,
    iat: issuedAt,
    iss: request.issuer,
  }
  const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(key)
  return { token, claims }
}

/** No claim for an empty list, a string for a single value. */
const listClaim = (name: string, values: readonly string[] = []) =>
  values.length > 0 && { [name]: values.length === 1 ? values[0] : values }
