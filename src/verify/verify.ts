import { type Check, items } from './check.ts'
import { jsonOf } from './expect.ts'
import { attempt, type Outcome, skip } from './outcome.ts'
import { profileAChecks } from './profile-a.ts'
import { profileBChecks } from './profile-b.ts'
import { type Received, type Service, type ServiceOptions, serviceAt } from './service.ts'
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

export interface Verification {
  readonly url: string
  readonly profile: ProfileName
  readonly strict: boolean
  /** Whether it came to its end, and every rule that was checked holds. */
  readonly ok: boolean
  /** False where it was stopped, took too long, or the server stopped answering. */
  readonly complete: boolean
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
/** Milliseconds that a whole run may take. */
const longestRun = 10 * 60_000

/** Holds a running server against the contract of a profile. Works only on items that it made, and deletes them. */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { url, profile, only, strict = false, signal, onOutcome } = options
  if (!URL.canParse(url)) throw new CannotVerify(`${url} is not a URL.`)
  if (!Object.hasOwn(checks, profile)) throw new CannotVerify(`There is no profile ${profile}: it is a or b.`)
  for (const pattern of only ?? [])
    if (!checks[profile].some(({ rule }) => matches(pattern, rule)))
      throw new CannotVerify(`No rule of profile ${profile} matches ${pattern}.`)
  const chosen = checks[profile].filter(({ rule }) => !only || only.some((pattern) => matches(pattern, rule)))
  const target = serviceAt(url, options)
  const present = await firstList(target)
  const untouched = present.status === 200 && lengthOf(present) === itemsAtStart[profile]
  const { service, last, remove } = watch(target, present)

  const outcomes: Outcome[] = []
  const startedAt = performance.now()
  let unanswered = 0
  let complete = true
  for (const check of sorted(chosen)) {
    const hindrance = hindranceTo(signal, unanswered, performance.now() - startedAt)
    if (hindrance) complete = false
    const missing = hindrance ?? missingFor(check, service, untouched)
    const outcome = missing ? skip(check, missing) : await attempt(check, service, strict, last)
    if (!missing) unanswered = outcome.failure?.sent && !outcome.failure.received ? unanswered + 1 : 0
    if (!missing && unanswered === patience && (await answers(target))) unanswered = 0
    outcomes.push(outcome)
    onOutcome?.(outcome, outcomes.length, chosen.length)
  }
  const leftovers = await remove()
  return {
    ...summary(outcomes, complete),
    url: target.url,
    profile,
    strict,
    outcomes,
    unobservable: unobservableIn(profile),
    leftovers,
  }
}

function hindranceTo(signal: AbortSignal | undefined, unanswered: number, elapsed: number): string | undefined {
  if (signal?.aborted) return 'it was stopped'
  if (unanswered >= patience) return 'the server has stopped answering'
  return elapsed > longestRun ? 'the run has taken ten minutes' : undefined
}

function summary(outcomes: readonly Outcome[], complete: boolean) {
  const count = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status).length
  const [passed, failed, deviations, skipped] = [count('passed'), count('failed'), count('deviates'), count('skipped')]
  return { ok: complete && failed === 0, complete, passed, failed, deviations, skipped }
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

const answers = (service: Service) =>
  service.send('GET', items).then(
    () => true,
    () => false,
  )

/** The list before the run; where there is none to be had, nothing can be checked. */
async function firstList(service: Service): Promise<Received> {
  const answer = await service.send('GET', items).catch((cause: Error) => {
    throw new CannotVerify(`${service.url} cannot be checked: ${cause.message.replace(/\s+/g, ' ').slice(0, 200)}.`)
  })
  const { location } = answer.headers
  if (answer.status >= 300 && answer.status < 400 && location)
    throw new CannotVerify(`${service.url} redirects to ${location}: check that address instead.`)
  return answer
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
  if (needs === 'own server') return 'only whoever starts the server for it can try it'
  if (needs === 'untouched store' && !untouched) return 'the store has been written to'
  if (needs === 'token' && !token) return 'it needs a token, and none was given'
  return undefined
}
