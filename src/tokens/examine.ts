import { type Claims, parseToken, type Token } from './token.ts'
import type { Trust, TrustedKey } from './trust.ts'

/** One check of a token. `description` is what a client is told where it failed; `words` is for people. */
interface Finding {
  readonly ok: boolean
  readonly description: string
  readonly words: string
}

export interface Examination {
  readonly token: Token | undefined
  readonly findings: readonly Finding[]
}

export interface Terms {
  readonly trusts: readonly Trust[]
  readonly now: () => Date
  /** Seconds by which clocks may differ. */
  readonly clockTolerance: number
}

export const isAccepted = ({ findings }: Examination) => findings.every(({ ok }) => ok)

/** Holds a token against each trust: the one that accepts it, else the one that comes closest. */
export async function examine(text: string, { trusts, now, clockTolerance }: Terms): Promise<Examination> {
  const token = parseToken(text)
  if (typeof token === 'string')
    return { token: undefined, findings: [failed('The token is malformed', `this is not a JSON Web Token: ${token}`)] }
  const seconds = now().getTime() / 1000
  let closest: readonly Finding[] | undefined
  for (const trust of trusts) {
    const signature = await signatureFindings(text, token, trust)
    const findings = [...signature, ...claimFindings(token.claims, trust, seconds, clockTolerance)]
    if (!closest || failures(findings) < failures(closest)) closest = findings
    if (failures(closest) === 0) break
  }
  return { token, findings: closest ?? [failed('No token is accepted', 'no key is configured')] }
}

const failures = (findings: readonly Finding[]) => findings.filter(({ ok }) => !ok).length

async function signatureFindings(text: string, { header }: Token, trust: Trust): Promise<Finding[]> {
  const { alg, kid, crit } = header
  if (crit !== undefined) return [failed('The token has critical headers', 'crit: no critical header is understood')]
  if (kid !== undefined && typeof kid !== 'string') return [failed('The token is malformed', 'kid is not a string')]
  const keys = await trust.keys(kid)
  if (keys.length === 0) return [failed('No key is at hand to check the token', `the ${trust.name} is not at hand`)]
  const fitting = keys.filter(({ algorithms }) => algorithms.includes(alg as string))
  if (fitting.length === 0) {
    const accepted = [...new Set(keys.flatMap(({ algorithms }) => algorithms))].join(', ')
    return [
      failed(
        'The signing algorithm is not accepted',
        `algorithm is ${show(alg)}, the ${trust.name} accepts ${accepted}`,
      ),
    ]
  }
  const algorithm = passed(`algorithm is ${show(alg)}`)
  const candidates = fitting.filter((key) => kid === undefined || key.kid === undefined || key.kid === kid)
  if (candidates.length === 0)
    return [algorithm, failed('The signature is invalid', `no key of the ${trust.name} has the kid ${show(kid)}`)]
  for (const { key, algorithms } of candidates)
    if (await isSignedWith(text, key, algorithms)) return [algorithm, passed(`signature matches the ${trust.name}`)]
  return [algorithm, failed('The signature is invalid', `signature does not match the ${trust.name}`)]
}

async function isSignedWith(text: string, key: TrustedKey['key'], algorithms: readonly string[]): Promise<boolean> {
  const { compactVerify } = await import('jose/jws/compact/verify')
  return compactVerify(text, key, { algorithms: [...algorithms] }).then(
    () => true,
    () => false,
  )
}

function claimFindings({ iss, aud, exp, nbf, iat }: Claims, trust: Trust, now: number, tolerance: number): Finding[] {
  const issuer = typeof iss === 'string' && trust.issuers.includes(iss)
  const audiences: unknown[] = Array.isArray(aud) ? aud : [aud]
  const isText = audiences.every((one) => typeof one === 'string')
  const audience = isText && audiences.some((one) => trust.audiences.includes(one))
  return [
    issuer
      ? passed(`issuer is ${show(iss)}`)
      : failed('The issuer is not accepted', `issuer is ${show(iss)}, this service accepts ${list(trust.issuers)}`),
    audience
      ? passed(`audience is ${audiences.map(show).join(' and ')}`)
      : failed(
          'The audience is not accepted',
          `audience is ${show(aud)}, this service accepts ${list(trust.audiences)}`,
        ),
    expiry(exp, now, tolerance),
    ...(nbf === undefined ? [] : [notBefore(nbf, now, tolerance)]),
    ...(iat === undefined || isTime(iat)
      ? []
      : [failed('The token is malformed', 'iat, the time of issue, is no time')]),
  ]
}

function expiry(exp: unknown, now: number, tolerance: number): Finding {
  if (!isTime(exp)) return failed('The token has no expiration time', 'exp, the expiration time, is missing or no time')
  if (exp <= now - tolerance) return failed('The token has expired', `expired ${span(now - exp)} ago`)
  return passed(exp > now ? `expires in ${span(exp - now)}` : `expired ${span(now - exp)} ago, within the tolerance`)
}

function notBefore(nbf: unknown, now: number, tolerance: number): Finding {
  if (!isTime(nbf)) return failed('The token is malformed', 'nbf, the start of validity, is no time')
  if (nbf > now + tolerance) return failed('The token is not valid yet', `valid only in ${span(nbf - now)}`)
  return passed(nbf <= now ? `valid since ${span(now - nbf)}` : `valid in ${span(nbf - now)}, within the tolerance`)
}

const endOf9999 = 253_402_300_799
const isTime = (value: unknown): value is number => typeof value === 'number' && Math.abs(value) <= endOf9999

const passed = (words: string): Finding => ({ ok: true, description: '', words })
const failed = (description: string, words: string): Finding => ({ ok: false, description, words })

/** A stranger's value in a line for people: short, and nothing that steers a terminal. */
function show(value: unknown): string {
  if (value === undefined) return 'missing'
  const isFlat = Array.isArray(value) && value.length < 10 && value.every((one) => typeof one === 'string')
  if (typeof value === 'object' && value !== null && !isFlat) return Array.isArray(value) ? 'a list' : 'an object'
  const text = JSON.stringify(value).replace(/[^ -~]/g, '?')
  return text.length > 100 ? `${text.slice(0, 99)}…` : text
}

const list = (values: readonly unknown[]) => values.map(show).join(' or ')

function span(seconds: number): string {
  const units = [
    [86_400, 'day'],
    [3_600, 'hour'],
    [60, 'minute'],
  ] as const
  const [size, unit] = units.find(([length]) => seconds >= length) ?? [1, 'second']
  const count = Math.floor(seconds / size)
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
