import type { KeyObject } from 'node:crypto'
import { devTokenDefaults } from './dev-key.ts'

export interface TokenRequest {
  readonly id: string
  /** `developer`, where absent. */
  readonly name?: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  /** Additional claims. */
  readonly claims?: Readonly<Record<string, string>>
  /** Those that a service in development mode accepts, where absent. */
  readonly issuer?: string
  readonly audiences?: readonly string[]
  /** An hour, where absent. Rounded up to a whole second of the clock; 0 or less for a token that has expired. */
  readonly validForSeconds?: number
}

/** Ten years. */
export const maxValidForSeconds = 3650 * 86_400

/**
 * Signs a development token with the claims that `dotnet user-jwts` writes, but without `nbf`: the clock of a service may be
 * behind the one here. Throws where `validForSeconds` is not valid.
 */
export async function signToken(
  request: TokenRequest,
  key: KeyObject,
  now: Date,
): Promise<{ token: string; claims: { exp: number; iat: number } }> {
  const { SignJWT } = await import('jose/jwt/sign')
  const { name = 'developer', validForSeconds = 3600 } = request
  if (!Number.isFinite(validForSeconds) || validForSeconds > maxValidForSeconds)
    throw new Error(`token: validForSeconds must be a number, at most ${maxValidForSeconds} (ten years).`)
  const { issuer = devTokenDefaults.issuer, audiences = devTokenDefaults.audiences } = request
  const seconds = now.getTime() / 1000
  // Whole seconds: valid for no less than was asked for, and for no moment where that is 0 or less.
  const expiresAt = validForSeconds > 0 ? Math.ceil(seconds + validForSeconds) : Math.floor(seconds + validForSeconds)
  const claims = {
    unique_name: name,
    sub: name,
    jti: request.id,
    ...listClaim('scope', request.scopes),
    ...listClaim('role', request.roles),
    ...request.claims,
    ...listClaim('aud', audiences),
    exp: expiresAt,
    iat: Math.floor(seconds),
    iss: issuer,
  }
  const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(key)
  return { token, claims }
}

/** No claim for an empty list, a string for a single value. */
const listClaim = (name: string, values: readonly string[] = []) =>
  values.length > 0 && { [name]: values.length === 1 ? values[0] : values }
