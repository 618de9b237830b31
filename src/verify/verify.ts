import { type Check, items } from './check.ts'
import { Broken, jsonOf } from './expect.ts'
import { profileAChecks } from './profile-a.ts'
import { profileBChecks } from './profile-b.ts'
import { type Basis, rules } from './rules.ts'
import { NoAnswer, type Received, type Sent, type Service, type ServiceOptions, serviceAt } from './service.ts'
import { watch } from './traces.ts'
import { unobservable } from './unobservable.ts'

export type ProfileName = 'a' | 'b'

/** Every check of the contract, by profile. */
export const checks: Readonly<Record<ProfileName, readonly Check[]>> = { a: profileAChecks, b: profileBChecks }

export interface VerifyOptions extends ServiceOptions {
  readonly url: string
  readonly profile: ProfileName
  /** Rule ids to check, `*` standing for anything: `A8`, `B*`. All when absent. */
  readonly only?: readonly string[] | undefined
  /** Deviations from choices fail, too. */
  readonly strict?: boolean | undefined
  /** Stops after the check that is running; what was made is deleted all the same. */
  readonly signal?: AbortSignal | undefined
  /** Told of each outcome as it comes. */
  readonly onOutcome?: ((outcome: Outcome, done: number, total: number) => void) | undefined
}

export interface Outcome {
  readonly rule: string
  readonly sentence: string
  readonly basis: Basis
  readonly name: string
  /** A deviation is a choice that does not hold: a note, or with `strict` a failure. */
  readonly status: 'passed' | 'failed' | 'deviates' | 'skipped'
  /** Why it was skipped. */
  readonly reason?: string
  readonly failure?: Failure
  readonly milliseconds: number
}

export interface Failure {
  readonly expected: string
  readonly got: string
  readonly sent?: Sent
  readonly received?: Pick<Received, 'status' | 'headers' | 'text'>
}

export interface Verification {
  readonly url: string
  readonly profile: ProfileName
  readonly strict: boolean
  /** Whether every rule that was checked holds. */
  readonly ok: boolean
  readonly passed: number
  readonly failed: number
  readonly deviations: number
  readonly skipped: number
  readonly outcomes: readonly Outcome[]
  /** What nobody can see from outside. */
  readonly unobservable: typeof unobservable
  /** Items of this run that could not be deleted. */
  readonly leftovers: readonly string[]
}

/** The server could not be checked at all: nobody there, no HTTP, another address. */
export class CannotVerify extends Error {}

/** After so many checks in a row without any answer, the others are not worth the wait. */
const patience = 3

/** Holds a running server against the contract of a profile. Works only on items that it made, and deletes them. */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { url, profile, only, strict = false, signal, onOutcome } = options
  const chosen = checks[profile].filter(({ rule }) => !only || only.some((pattern) => matches(pattern, rule)))
  if (chosen.length === 0) throw new CannotVerify(`No rule of profile ${profile} matches ${only?.join(', ')}.`)
  const target = serviceAt(url, options)
  const untouched = await isUntouched(target, profile)
  const { service, remove } = watch(target)

  const outcomes: Outcome[] = []
  let unanswered = 0
  for (const check of sorted(chosen)) {
    const hindrance = signal?.aborted
      ? 'it was stopped'
      : unanswered >= patience
        ? 'the server has stopped answering'
        : undefined
    const missing = hindrance ?? missingFor(check, service, untouched)
    const outcome = missing ? skip(check, missing) : await attempt(check, service, strict)
    if (!missing) unanswered = outcome.failure?.sent && !outcome.failure.received ? unanswered + 1 : 0
    outcomes.push(outcome)
    onOutcome?.(outcome, outcomes.length, chosen.length)
  }
  const leftovers = await remove()
  return {
    ...summary(outcomes),
    url: target.url,
    profile,
    strict,
    outcomes,
    unobservable: unobservableIn(profile),
    leftovers,
  }
}

function summary(outcomes: readonly Outcome[]) {
  const count = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status).length
  const [passed, failed, deviations, skipped] = [count('passed'), count('failed'), count('deviates'), count('skipped')]
  return { ok: failed === 0, passed, failed, deviations, skipped }
}

const unobservableIn = (profile: ProfileName) =>
  unobservable.filter(({ rule }) => checks[profile].some((check) => check.rule === rule))

function matches(pattern: string, rule: string): boolean {
  const escaped = pattern
    .trim()
    .replace(/[^\w*]/g, '\\$&')
    .replaceAll('*', '.*')
  return new RegExp(`^${escaped}$`, 'i').test(rule)
}

/** What holds only on an untouched store is checked before anything is written to it. */
const sorted = (all: readonly Check[]) => {
  const first = all.filter(({ needs }) => needs === 'untouched store')
  return [...first, ...all.filter((check) => !first.includes(check))]
}

const itemsAtStart = { a: 0, b: 3 }

/** Whether the store is as it is at the start, as far as a list can tell. */
async function isUntouched(service: Service, profile: ProfileName): Promise<boolean> {
  const answer = await service.send('GET', items).catch((cause: Error) => {
    throw new CannotVerify(`${service.url} cannot be checked: ${cause.message}.`)
  })
  const { location } = answer.headers
  if (answer.status >= 300 && answer.status < 400 && location)
    throw new CannotVerify(`${service.url} redirects to ${location}: check that address instead.`)
  const length = answer.status === 200 ? lengthOf(answer) : undefined
  return length === itemsAtStart[profile]
}

function lengthOf(answer: Received): number | undefined {
  try {
    const list = jsonOf(answer)
    return Array.isArray(list) ? list.length : undefined
  } catch {
    return undefined
  }
}

function missingFor({ needs }: Check, { token }: Service, untouched: boolean): string | undefined {
  if (needs === 'first write') return 'an empty list does not show whether items were there before'
  if (needs === 'untouched store' && !untouched) return 'the store has been written to'
  if (needs === 'token' && !token) return 'it needs a token, and none was given'
  return undefined
}

const describe = ({ rule, basis, name }: Check) => {
  const sentence = rules.find(({ id }) => id === rule)?.sentence ?? ''
  return { rule, sentence, basis, name }
}

const skip = (check: Check, reason: string): Outcome => ({
  ...describe(check),
  status: 'skipped',
  reason,
  milliseconds: 0,
})

async function attempt(check: Check, service: Service, strict: boolean): Promise<Outcome> {
  const startedAt = performance.now()
  const failure = await check.run(service).then(() => undefined, failureOf)
  const discreet = failure?.sent ? { ...failure, sent: withoutToken(failure.sent, service.token) } : failure
  const broken = check.basis === 'spec' || strict ? 'failed' : 'deviates'
  const milliseconds = Math.round(performance.now() - startedAt)
  return {
    ...describe(check),
    status: discreet ? broken : 'passed',
    ...(discreet && { failure: discreet }),
    milliseconds,
  }
}

/** The token at hand is nobody else's business. */
function withoutToken(sent: Sent, token: string | undefined): Sent {
  const { authorization } = sent.headers
  return token && authorization === `Bearer ${token}`
    ? { ...sent, headers: { ...sent.headers, authorization: 'Bearer $TOKEN' } }
    : sent
}

/** Anything else that a check throws is an answer that it could not make sense of. */
function failureOf(cause: unknown): Failure {
  if (cause instanceof Broken) {
    const { expected, got, received } = cause
    return { expected, got, ...(received && { sent: received.sent, received }) }
  }
  if (cause instanceof NoAnswer) return { expected: 'an answer', got: cause.message, sent: cause.sent }
  return { expected: 'an answer of the shape that the rule states', got: String(cause) }
}
