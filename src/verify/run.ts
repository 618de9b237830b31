import { type Check, itemsPath } from './check.ts'
import { profileAChecks } from './checks/profile-a.ts'
import { profileBChecks } from './checks/profile-b.ts'
import { trackItems } from './cleanup.ts'
import {
  type Client,
  type ClientOptions,
  createClient,
  NoResponseError,
  type Request,
  type Response,
} from './client.ts'
import { parseJson, RuleViolation, summarize } from './expect.ts'
import { type Basis, rules, unobservable } from './rules.ts'

export type ProfileName = 'a' | 'b'

/** Every check of the contract, by profile. */
export const checks: Readonly<Record<ProfileName, readonly Check[]>> = { a: profileAChecks, b: profileBChecks }

export interface VerifyOptions extends ClientOptions {
  readonly url: string
  readonly profile: ProfileName
  /** Ids of the rules to check, with `*` as a wildcard: `A8`, `B*`. Default: all. */
  readonly only?: readonly string[] | undefined
  /** Count deviations from choices as failures. */
  readonly strict?: boolean | undefined
  /** Stops the run after the current check; the items of the run are deleted as usual. */
  readonly signal?: AbortSignal | undefined
  /** Called after each check. */
  readonly onOutcome?: ((outcome: Outcome, done: number, total: number) => void) | undefined
}

export interface Verification {
  readonly url: string
  readonly profile: ProfileName
  readonly strict: boolean
  /** The run is complete and no check failed. */
  readonly ok: boolean
  /** False when the run was stopped or took too long, or the server stopped responding. */
  readonly complete: boolean
  readonly passed: number
  readonly failed: number
  readonly deviations: number
  readonly skipped: number
  readonly outcomes: readonly Outcome[]
  /** Parts of the rules that cannot be checked over HTTP. */
  readonly unobservable: typeof unobservable
  /** Paths of the items of this run that could not be deleted. */
  readonly leftovers: readonly string[]
}

export interface Outcome {
  readonly rule: string
  /** The text of the rule. */
  readonly sentence: string
  readonly basis: Basis
  readonly name: string
  /** `deviates`: a check of basis choice failed, and the run is not strict. */
  readonly status: 'passed' | 'failed' | 'deviates' | 'skipped'
  /** Why the check was skipped. */
  readonly reason?: string
  readonly failure?: Failure
  readonly milliseconds: number
}

export interface Failure {
  readonly expected: string
  readonly got: string
  readonly sent?: Request
  readonly received?: Pick<Response, 'status' | 'headers' | 'text'>
}

/** No check could run: invalid options, no server, no HTTP, or a redirect. */
export class CannotVerify extends Error {}

const maxRunMs = 10 * 60_000
/** After this many checks in a row without a response, the rest are skipped. */
const maxUnansweredChecks = 3
const initialItemCounts = { a: 0, b: 3 }

/** Checks a running server against the contract of a profile. Changes only items that it creates, and deletes them. */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { url, profile, strict = false, signal, onOutcome } = options
  const selected = selectChecks(options)
  const target = createClient(url, options)
  const initialList = await fetchInitialList(target)
  const isUntouched = initialList.status === 200 && listLength(initialList) === initialItemCounts[profile]
  const { client, lastResponse, deleteItems } = trackItems(target, initialList)

  const outcomes: Outcome[] = []
  const startedAt = performance.now()
  let unanswered = 0
  let complete = true
  for (const check of selected) {
    const stopReason = reasonToStop(signal, unanswered, performance.now() - startedAt)
    if (stopReason) complete = false
    const skipReason = stopReason ?? reasonToSkip(check, client, isUntouched)
    const outcome = skipReason ? skip(check, skipReason) : await runCheck(check, client, strict, lastResponse)
    if (!skipReason) {
      unanswered = outcome.failure?.sent && !outcome.failure.received ? unanswered + 1 : 0
      if (unanswered === maxUnansweredChecks && (await isResponding(target))) unanswered = 0
    }
    outcomes.push(outcome)
    onOutcome?.(outcome, outcomes.length, selected.length)
  }
  const leftovers = await deleteItems()
  const count = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status).length
  return {
    ok: complete && count('failed') === 0,
    complete,
    passed: count('passed'),
    failed: count('failed'),
    deviations: count('deviates'),
    skipped: count('skipped'),
    url: target.url,
    profile,
    strict,
    outcomes,
    unobservable: unobservable.filter(({ rule }) => checks[profile].some((check) => check.rule === rule)),
    leftovers,
  }
}

/** The checks of the run; those that need an untouched store come first, before anything is written to it. */
function selectChecks({ url, profile, only }: VerifyOptions): Check[] {
  if (!URL.canParse(url)) throw new CannotVerify(`${url} is not a URL.`)
  if (!Object.hasOwn(checks, profile)) throw new CannotVerify(`Unknown profile ${profile}: use a or b.`)
  for (const pattern of only ?? [])
    if (!checks[profile].some(({ rule }) => matches(pattern, rule)))
      throw new CannotVerify(`No rule of profile ${profile} matches ${pattern}.`)
  const selected = checks[profile].filter(({ rule }) => !only || only.some((pattern) => matches(pattern, rule)))
  const needsUntouched = ({ needs }: Check) => needs === 'untouched store'
  return [...selected.filter(needsUntouched), ...selected.filter((check) => !needsUntouched(check))]
}

function matches(pattern: string, rule: string): boolean {
  const escaped = pattern
    .trim()
    .replace(/[^\w*]/g, '\\$&')
    .replaceAll('*', '.*')
  return new RegExp(`^${escaped}$`, 'i').test(rule)
}

async function fetchInitialList(client: Client): Promise<Response> {
  const response = await client.send('GET', itemsPath).catch((cause: Error) => {
    throw new CannotVerify(`${client.url} cannot be checked: ${cause.message.replace(/\s+/g, ' ').slice(0, 200)}.`)
  })
  const { location } = response.headers
  if (response.status >= 300 && response.status < 400 && location)
    throw new CannotVerify(`${client.url} redirects to ${location}: check that address instead.`)
  return response
}

function listLength(response: Response): number | undefined {
  try {
    const list = parseJson(response)
    return Array.isArray(list) ? list.length : undefined
  } catch {
    return undefined
  }
}

const isResponding = (client: Client) =>
  client.send('GET', itemsPath).then(
    () => true,
    () => false,
  )

function reasonToStop(signal: AbortSignal | undefined, unanswered: number, elapsedMs: number): string | undefined {
  if (signal?.aborted) return 'the run was stopped'
  if (unanswered >= maxUnansweredChecks) return 'the server stopped responding'
  return elapsedMs > maxRunMs ? 'the run took longer than 10 minutes' : undefined
}

function reasonToSkip({ needs }: Check, { token }: Client, isUntouched: boolean): string | undefined {
  if (needs === 'own server') return 'it runs only against a server started for the check'
  if (needs === 'untouched store' && !isUntouched) return 'the store is not in its initial state'
  if (needs === 'token' && !token) return 'it needs a token, and none was passed'
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

async function runCheck(
  check: Check,
  client: Client,
  strict: boolean,
  lastResponse: () => Response | undefined,
): Promise<Outcome> {
  const startedAt = performance.now()
  const cause: unknown = await check.run(client).then(
    () => undefined,
    (error: unknown) => error ?? new Error('unknown'),
  )
  const milliseconds = Math.round(performance.now() - startedAt)
  if (!cause) return { ...describe(check), status: 'passed', milliseconds }
  const failure = redactToken(toFailure(cause, lastResponse()), client.token)
  // A missing response is a failure whatever the basis of the check.
  const fails = check.basis === 'spec' || strict || cause instanceof NoResponseError
  return { ...describe(check), status: fails ? 'failed' : 'deviates', failure, milliseconds }
}

const maxExpectedLength = 500
const maxReceivedLength = 1000

/** Errors other than `RuleViolation` come from reading members of a response with an unexpected structure. */
function toFailure(cause: unknown, lastResponse: Response | undefined): Failure {
  if (cause instanceof NoResponseError) return { expected: 'a response', got: cause.message, sent: cause.request }
  const response = cause instanceof RuleViolation ? (cause.response ?? lastResponse) : lastResponse
  const expected =
    cause instanceof RuleViolation ? cause.expected : 'a response with the structure that the rule states'
  if (!response) return { expected: expected.slice(0, maxExpectedLength), got: String(cause) }
  const { request, status, headers, text } = response
  return {
    expected: expected.slice(0, maxExpectedLength),
    got: summarize(response),
    sent: request,
    received: { status, headers, text: text.slice(0, maxReceivedLength) },
  }
}

function redactToken(failure: Failure, token: string | undefined): Failure {
  if (!token) return failure
  const redact = (text: string) => text.replaceAll(token, '$TOKEN')
  const { sent } = failure
  const headers = Object.entries(sent?.headers ?? {}).map(([name, value]) => [
    name,
    typeof value === 'string' ? redact(value) : value?.map(redact),
  ])
  return {
    ...failure,
    expected: redact(failure.expected),
    got: redact(failure.got),
    ...(sent && { sent: { ...sent, headers: Object.fromEntries(headers) } }),
  }
}
