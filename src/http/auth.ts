import { ApiError } from './errors.ts'
import type { Request } from './request.ts'
import { empty, type Response } from './response.ts'

/** Claims of a verified token. */
export type Claims = Readonly<Record<string, unknown>>

/** `errorDescription` is for the client, the reasons are for the log. */
export type VerifyToken = (token: string) => Promise<
  | { readonly claims: Claims }
  | { readonly errorDescription: string; readonly reason: string }
  /** There is no key yet that could tell whether the token is valid. */
  | { readonly undecidedReason: string }
>

/** S6: the claims of the bearer token, or the challenge. */
export async function authenticate(
  request: Request,
  verifyToken: VerifyToken,
): Promise<{ claims: Claims } | Response | ApiError> {
  const authorization = request.header('authorization') ?? ''
  if (repeated.test(authorization)) return new ApiError('header-repeated')
  const [, token] = /^Bearer +(\S.*)$/i.exec(authorization) ?? []
  if (!token) return challenge('Bearer', 'no bearer token was sent')
  const result = await verifyToken(token).catch((cause: unknown) => ({
    errorDescription: 'The token is malformed',
    reason: `${cause}`,
  }))
  if ('claims' in result) return result
  if ('undecidedReason' in result) return new ApiError('keys-unavailable', undefined, result.undecidedReason)
  return challenge(`Bearer error="invalid_token", error_description="${result.errorDescription}"`, result.reason)
}

/** Two Authorization headers, joined with ", " by a server that did not find them. In one, `=` follows a name there. */
const repeated = /, (?:[^\s,="]+(?: |$)|$)/

export const challenge = (value: string, reason: string): Response => ({
  ...empty(401, { 'www-authenticate': value }),
  reason,
})
