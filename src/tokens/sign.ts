import type { KeyObject } from 'node:crypto'
import type { TokenRequest } from '../common/token-request.ts'
import { devTokenDefaults } from './dev-key.ts'

export interface SignRequest extends TokenRequest {
  readonly id: string
  /** The defaults of issuer and audiences are those that a service in development mode accepts. */
  readonly issuer?: string
  readonly audiences?: readonly string[]
}

/** Ten years, in seconds. */
export const maxValidForSeconds = 3650 * 86_400

/**
 * Signs a development token with the claims of `dotnet user-jwts`, but without `nbf`, because the clock of the service
 * may be behind. Throws an error if `validForSeconds` is not valid.
 */
export async function signToken(
  request: SignRequest,
  key: KeyObject,
  now: Date,
): Promise<{ token: string; claims: { exp: number; iat: number } }> {
  const { SignJWT } = await import('jose/jwt/sign')
  const { name = 'developer', validForSeconds = 3600 } = request
  if (!Number.isFinite(validForSeconds) || validForSeconds > maxValidForSeconds)
    throw new Error(`token: validForSeconds must be a number, at most ${maxValidForSeconds} (ten years).`)
  const { issuer = devTokenDefaults.issuer, audiences = devTokenDefaults.audiences } = request
  const seconds = now.getTime() / 1000
  // `exp` has whole seconds, rounded up, so that the token is valid long enough; an expired token's are rounded down.
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

/** Returns a claim with these values, a single value as a string; no claim if there are no values. */
const listClaim = (name: string, values: readonly string[] = []) =>
  values.length > 0 && { [name]: values.length === 1 ? values[0] : values }
