import type { KeyObject } from 'node:crypto'

export interface Wish {
  readonly id: string
  readonly name: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  readonly claims?: Readonly<Record<string, string>>
  readonly issuer: string
  readonly audiences: readonly string[]
  readonly validForSeconds: number
}

/** A development token, with claims as `dotnet user-jwts` writes them. */
export async function mint(wish: Wish, key: KeyObject, now: Date): Promise<{ token: string; claims: { exp: number } }> {
  const { SignJWT } = await import('jose/jwt/sign')
  const issuedAt = Math.floor(now.getTime() / 1000)
  const claims = {
    unique_name: wish.name,
    sub: wish.name,
    jti: wish.id,
    ...oneOrMany('scope', wish.scopes),
    ...oneOrMany('role', wish.roles),
    ...wish.claims,
    ...oneOrMany('aud', wish.audiences),
    nbf: issuedAt,
    exp: issuedAt + wish.validForSeconds,
    iat: issuedAt,
    iss: wish.issuer,
  }
  const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(key)
  return { token, claims }
}

const oneOrMany = (name: string, values: readonly string[] = []) =>
  values.length > 0 && { [name]: values.length === 1 ? values[0] : values }
