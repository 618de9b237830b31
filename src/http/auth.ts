import { Rejection } from './errors.ts'
import type { Claims, Request } from './request.ts'
import { empty, type Response } from './response.ts'

/** Verifies a token. `errorDescription` is sent to the client; the reasons are for the log. */
export type VerifyToken = (token: string) => Promise<
  | { readonly claims: Claims }
  | { readonly errorDescription: string; readonly reason: string }
  /** The token is valid, but lacks this scope (RFC 6750, 3.1). */
  | { readonly missingScope: string }
  /** The keys could not be fetched, so the token may be valid. */
  | { readonly undecidedReason: string }
>

/** S6: returns the claims of the bearer token, or the error response. */
export async function authenticate(
  request: Request,
  verifyToken: VerifyToken,
): Promise<{ claims: Claims } | Response | Rejection> {
  if (repeated.test(request.header('authorization') ?? '')) return new Rejection('header-repeated')
  const token = bearerToken(request)
  if (!token) return tokenMissing
  const result = await verifyToken(token).catch((cause: unknown) => ({
    errorDescription: 'The token is malformed',
    reason: `${cause}`,
  }))
  if ('claims' in result) return result
  if ('missingScope' in result)
    return {
      ...empty(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${result.missingScope}"` }),
      reason: `the token has no scope ${result.missingScope}`,
    }
  if ('undecidedReason' in result) return new Rejection('keys-unavailable', undefined, result.undecidedReason)
  return tokenInvalid(result.errorDescription, result.reason)
}

const bearerToken = (request: Request) => /^Bearer +(\S.*)$/i.exec(request.header('authorization') ?? '')?.[1]

/** Simulates a 401: as if the token of this request had expired, or were missing. */
export const challengeExpired = (request: Request): Response =>
  bearerToken(request) ? tokenInvalid('The token has expired', 'the token has expired') : tokenMissing

/** Matches two Authorization headers joined with ", ". In a single header, a comma is followed by `name=`. */
const repeated = /, (?:[^\s,="]+(?: |$)|$)/

/** Accepts only tokens with this scope. */
export const requireScope =
  (verifyToken: VerifyToken, scope: string): VerifyToken =>
  async (token) => {
    const result = await verifyToken(token)
    if (!('claims' in result)) return result
    const { scope: granted = [] } = result.claims
    const scopes = typeof granted === 'string' ? granted.split(' ') : granted
    return Array.isArray(scopes) && scopes.includes(scope) ? result : { missingScope: scope }
  }

const challenge = (value: string, reason: string): Response => ({
  ...empty(401, { 'www-authenticate': value, 'cache-control': 'no-store' }),
  reason,
})
const tokenMissing = challenge('Bearer', 'no bearer token was sent')
const tokenInvalid = (errorDescription: string, reason: string) =>
  challenge(`Bearer error="invalid_token", error_description="${errorDescription}"`, reason)
