import { attempt } from '../common/attempt.ts'
import { escapeText } from '../common/escape.ts'
import { isObject } from '../common/json.ts'
import { publicKeyAlgorithms, type VerificationKey } from './keys.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** A token is accepted if one of these keys has signed it, and its `iss` and `aud` are among issuers and audiences. */
export interface TrustedIssuer {
  /** The name of the key in messages, as in "signature matches the development key". */
  readonly keyName: string
  readonly issuers: readonly string[]
  readonly audiences: readonly string[]
  /** How much the clock of the issuer may differ from that of the service. */
  readonly clockToleranceSeconds: number
  /** Returns the keys. `kid` is from the header of the token; remote keys are fetched again if they do not have it. */
  keys(kid: string | undefined): Promise<readonly VerificationKey[]>
}

export interface TokenVerifierOptions {
  readonly trustedIssuers: readonly TrustedIssuer[]
  readonly now: () => Date
}

/** `message` has the details for the log and for `token verify`; `errorDescription` is sent to the client. */
type CheckResult =
  | { readonly ok: true; readonly message: string }
  | {
      readonly ok: false
      readonly message: string
      readonly errorDescription: string
      /** The keys could not be fetched, so the token may be valid. */
      readonly isUndecided?: true
    }

interface TokenReport {
  /** Undefined if the token is malformed. */
  readonly token: ParsedToken | undefined
  readonly checks: readonly CheckResult[]
}

type TokenCheck =
  | { readonly claims: JsonObject }
  | { readonly errorDescription: string; readonly reason: string }
  | { readonly undecidedReason: string }

export function createTokenVerifier(options: TokenVerifierOptions) {
  return async (text: string): Promise<TokenCheck> => {
    const { token, checks } = await checkToken(text, options)
    const failures = checks.filter((check) => !check.ok)
    if (token && failures.length === 0) return { claims: token.claims }
    const reason = failures.map(({ message }) => message).join('; ')
    const [failure] = failures.filter((check) => !check.isUndecided)
    return failure ? { errorDescription: failure.errorDescription, reason } : { undecidedReason: reason }
  }
}

/** Whether checks have failed, but only because they could not be made. */
export const isUndecided = (checks: readonly CheckResult[]) =>
  checks.some(({ ok }) => !ok) && checks.every((check) => check.ok || check.isUndecided)

/** Runs all checks for each trusted issuer, and returns those of the issuer with the fewest failures. */
export async function checkToken(text: string, options: TokenVerifierOptions): Promise<TokenReport> {
  const token = parseToken(text)
  if (typeof token === 'string') {
    const check = failed('The token is malformed', `this is not a JSON Web Token: ${token}`)
    return { token: undefined, checks: [check] }
  }
  const now = options.now().getTime() / 1000
  let best: readonly CheckResult[] = [failed('No token is accepted', 'no key is configured')]
  let fewest = Number.POSITIVE_INFINITY
  for (const issuer of options.trustedIssuers) {
    const signature = await checkSignature(text, token.header, issuer)
    const checks = [...signature, ...checkClaims(token.claims, issuer, now)]
    // A check that could not be made counts less than one that has failed.
    const failures = isUndecided(checks) ? 0.5 : checks.filter(({ ok }) => !ok).length
    if (failures < fewest) [best, fewest] = [checks, failures]
    if (failures === 0) break
  }
  return { token, checks: best }
}

const passed = (message: string): CheckResult => ({ ok: true, message })
const failed = (errorDescription: string, message: string) => ({ ok: false, message, errorDescription }) as const

interface ParsedToken {
  readonly header: JsonObject
  readonly claims: JsonObject
}

/** Decodes a JSON Web Token without verifying it; returns the reason if it is malformed. */
function parseToken(text: string): ParsedToken | string {
  const segments = text.split('.')
  if (segments.length !== 3) return 'it does not have three parts'
  const [headerBytes, claimsBytes, signature] = segments.map(decodeBase64url)
  if (!headerBytes || !claimsBytes || !signature) return 'one of its parts is not base64url'
  const header = parseJsonObject(headerBytes)
  const claims = parseJsonObject(claimsBytes)
  if (!header || !claims) return `its ${header ? 'claims are' : 'header is'} not a JSON object`
  return { header, claims }
}

/** Accepts the canonical encoding alone, while jose and Buffer also decode other encodings of the same bytes. */
function decodeBase64url(segment: string): Buffer | undefined {
  const bytes = Buffer.from(segment, 'base64url')
  return segment !== '' && bytes.toString('base64url') === segment ? bytes : undefined
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function parseJsonObject(bytes: Buffer): JsonObject | undefined {
  const value: unknown = attempt(() => JSON.parse(utf8.decode(bytes)), undefined)
  return isObject(value) ? value : undefined
}

async function checkSignature(text: string, header: JsonObject, issuer: TrustedIssuer): Promise<CheckResult[]> {
  const { alg, kid, crit } = header
  const { keyName } = issuer
  if (crit !== undefined)
    return [failed('The token has critical headers', 'crit: no critical header parameter is supported')]
  if (kid !== undefined && typeof kid !== 'string') return [failed('The token is malformed', 'kid is not a string')]
  const keys = await issuer.keys(kid)
  const accepted = keys.length === 0 ? publicKeyAlgorithms : keys.flatMap(({ algorithms }) => algorithms)
  if (!accepted.includes(alg as string)) {
    const message = `algorithm is ${formatValue(alg)}, the ${keyName} accepts ${[...new Set(accepted)].join(', ')}`
    return [failed('The signing algorithm is not accepted', message)]
  }
  if (keys.length === 0)
    return [{ ...failed('The token cannot be checked', `the ${keyName} could not be fetched`), isUndecided: true }]
  const usable = keys.filter(({ algorithms }) => algorithms.includes(alg as string))
  const algorithm = passed(`algorithm is ${formatValue(alg)}`)
  const candidates = usable.filter((key) => kid === undefined || key.kid === undefined || key.kid === kid)
  if (candidates.length === 0)
    return [algorithm, failed('The signature is invalid', `no ${keyName} has the kid ${formatValue(kid)}`)]
  const { compactVerify } = await import('jose/jws/compact/verify')
  for (const { key, algorithms } of candidates)
    try {
      await compactVerify(text, key, { algorithms: [...algorithms] })
      return [algorithm, passed(`signature matches the ${keyName}`)]
    } catch {}
  return [algorithm, failed('The signature is invalid', `signature does not match the ${keyName}`)]
}

function checkClaims(claims: JsonObject, issuer: TrustedIssuer, now: number): CheckResult[] {
  const { iss, aud, exp, nbf, iat } = claims
  const { clockToleranceSeconds: tolerance } = issuer
  const checks = [
    checkAccepted('issuer', iss, [iss], issuer.issuers),
    checkAccepted('audience', aud, Array.isArray(aud) ? aud : [aud], issuer.audiences),
    checkExpiration(exp, now, tolerance),
  ]
  if (nbf !== undefined) checks.push(checkNotBefore(nbf, now, tolerance))
  if (iat !== undefined && !isNumericDate(iat))
    checks.push(failed('The token is malformed', 'iat, the time of issue, is not a time in seconds'))
  return checks
}

function checkAccepted(
  claim: 'issuer' | 'audience',
  value: unknown,
  names: readonly unknown[],
  accepted: readonly string[],
): CheckResult {
  if (names.every((name) => typeof name === 'string') && names.some((name) => accepted.includes(name)))
    return passed(`${claim} is ${names.map(formatValue).join(' and ')}`)
  return failed(
    `The ${claim} is not accepted`,
    `${claim} is ${formatValue(value)}, this service accepts ${accepted.map(formatValue).join(' or ')}`,
  )
}

function checkExpiration(exp: unknown, now: number, tolerance: number): CheckResult {
  if (!isNumericDate(exp))
    return failed('The token has no expiration time', 'exp, the expiration time, is missing or not a time in seconds')
  if (exp > now) return passed(`expires in ${formatDuration(exp - now)}`)
  const message = `expired ${formatDuration(now - exp)} ago`
  if (exp > now - tolerance) return passed(`${message}, within the clock tolerance`)
  return failed('The token has expired', message)
}

function checkNotBefore(nbf: unknown, now: number, tolerance: number): CheckResult {
  if (!isNumericDate(nbf))
    return failed('The token is malformed', 'nbf, the start of validity, is not a time in seconds')
  if (nbf <= now) return passed(`became valid ${formatDuration(now - nbf)} ago`)
  const message = `becomes valid in ${formatDuration(nbf - now)}`
  if (nbf <= now + tolerance) return passed(`${message}, within the clock tolerance`)
  return failed('The token is not valid yet', message)
}

/** 9999-12-31T23:59:59Z: a claim in milliseconds by mistake is greater. */
const maxNumericDate = 253_402_300_799

const isNumericDate = (value: unknown): value is number =>
  typeof value === 'number' && Math.abs(value) <= maxNumericDate

/** Shortens and escapes an untrusted value for a log or a terminal. */
function formatValue(value: unknown): string {
  if (value === undefined) return 'missing'
  const isStringList = Array.isArray(value) && value.length < 10 && value.every((item) => typeof item === 'string')
  if (typeof value === 'object' && value !== null && !isStringList) return Array.isArray(value) ? 'a list' : 'an object'
  const text = JSON.stringify(value)
  return escapeText(text.length > 100 ? `${text.slice(0, 99)}…` : text)
}

function formatDuration(seconds: number): string {
  const units = [
    [86_400, 'day'],
    [3_600, 'hour'],
    [60, 'minute'],
  ] as const
  const [size, unit] = units.find(([length]) => seconds >= length) ?? [1, 'second']
  const count = Math.floor(seconds / size)
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
