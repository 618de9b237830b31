import { type Check, itemsPath, type Prerequisite } from './check.ts'
import { profileAChecks } from './checks/profile-a.ts'
import { profileBChecks } from './checks/profile-b.ts'
import { ItemNotCreated, trackItems } from './cleanup.ts'
import {
  type Client,
  type ClientOptions,
  createClient,
  NoResponseError,
  type Request,
  type Response,
} from './client.ts'
import { toCurl } from './curl.ts'
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
  /** Checks what only a fresh server shows, too: resets it through its control API, and restores its items at the end. */
  readonly reset?: boolean | undefined
  /** Stops the run at the first failure; the items of the run are deleted as usual. */
  readonly bail?: boolean | undefined
  /** Stops the run after the current check; the items of the run are deleted as usual. */
  readonly signal?: { readonly aborted: boolean } | undefined
  /** Called after each check. */
  readonly onOutcome?: ((outcome: Outcome, done: number, total: number) => void) | undefined
}

export interface Verification {
  readonly url: string
  readonly profile: ProfileName
  readonly strict: boolean
  /** The run is complete and no check failed. */
  readonly ok: boolean
  /**
   * False when the run was stopped or took too long, the server stopped responding, or items of the run could not be
   * deleted, so that no more were created.
   */
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
  /** Why the check was skipped, or could not be judged. */
  readonly reason?: string
  readonly failure?: Failure
  readonly milliseconds: number
}

export interface Failure {
  readonly expected: string
  readonly got: string
  /** A shell command that repeats the request. */
  readonly request?: string
}

/** No check could run: invalid options, no server, no HTTP, or a redirect. */
export class CannotVerify extends Error {}

const maxRunMs = 10 * 60_000
/** After this many checks in a row without a response, the rest are skipped. */
const maxUnansweredChecks = 3
const initialItemCounts = { a: 0, b: 3 }

/** Checks a running server against the contract of a profile. Changes only items that it creates, and deletes them. */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { url, profile, strict = false, bail = false, signal, onOutcome } = options
  const selected = selectChecks(options)
  const target = createClient(url, options)
  const control = options.reset ? await openControl(target) : undefined
  const initialList = await fetchInitialList(target)
  const isUntouched = initialList.status === 200 && listLength(initialList) === initialItemCounts[profile]
  const { client, lastResponse, deleteCreated, deleteLeftovers } = trackItems(target, initialList)

  const outcomes: Outcome[] = []
  /** Checks that others build on and that failed, by what they provide; undefined: passed. */
  const failedBasics = new Map<Prerequisite, Check | undefined>()
  const startedAt = performance.now()
  let isDeleteJudged = !selected.some(({ provides }) => provides === 'delete')
  let unanswered = 0
  let complete = true

  async function judge(check: Check): Promise<Outcome> {
    const isBailing = bail && outcomes.some(({ status }) => status === 'failed')
    const stopReason = isBailing
      ? 'the run stopped at the first failure'
      : reasonToStop(signal, unanswered, performance.now() - startedAt)
    if (stopReason) complete = false
    const skipReason =
      stopReason ?? reasonToSkip(check, client, isUntouched, failedBasics.get('list'), control !== undefined)
    if (skipReason) return skip(check, skipReason)

    if (check.needs === 'untouched store' || check.needs === 'own server') await control?.reset()
    const { cause, milliseconds } = await runCheck(check, client)
    unanswered = cause instanceof NoResponseError ? unanswered + 1 : 0
    if (unanswered === maxUnansweredChecks && (await isResponding(target))) unanswered = 0
    if (check.provides === 'delete') isDeleteJudged = true
    if (unanswered === 0 && isDeleteJudged) await deleteCreated()
    if (cause instanceof ItemNotCreated) {
      if (cause.appliesToAll) complete = false
      return skip(check, cause.message)
    }

    const { prerequisite, isSetup = false } = cause instanceof RuleViolation ? cause : {}
    // What the check provides itself, it cannot blame another check for.
    const foreign = prerequisite === check.provides ? undefined : prerequisite
    const failedBasic = foreign && failedBasics.get(foreign)
    if (check.provides) failedBasics.set(check.provides, cause ? (failedBasic ?? check) : undefined)
    if (failedBasic) return skip(check, notJudged(failedBasic))
    if (!cause) return { ...describe(check), status: 'passed', milliseconds }

    const failure = toFailure(cause, lastResponse(), client)
    // With `only`, the check of the prerequisite may be no part of the run: then it must not hide a failure.
    const unselected = foreign && !failedBasics.has(foreign) ? await failedUnselected(foreign) : undefined
    if (unselected) failure.expected += ` (${unselected.rule}, on which this check builds)`
    const fails = check.basis === 'spec' || strict || isSetup || unselected || cause instanceof NoResponseError
    return { ...describe(check), status: fails ? 'failed' : 'deviates', failure, milliseconds }
  }

  const unselectedBasics = new Map<Prerequisite, Check | undefined>()
  async function failedUnselected(prerequisite: Prerequisite): Promise<Check | undefined> {
    const basic = checks[profile].find(({ provides }) => provides === prerequisite)
    if (basic && !unselectedBasics.has(prerequisite)) {
      const { cause } = await runCheck(basic, client)
      await deleteCreated()
      unselectedBasics.set(prerequisite, cause ? basic : undefined)
    }
    return unselectedBasics.get(prerequisite)
  }

  for (const check of selected) {
    const outcome = await judge(check)
    outcomes.push(outcome)
    onOutcome?.(outcome, outcomes.length, selected.length)
  }
  const leftovers = control ? await control.restore() : await deleteLeftovers()
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

/** The control API of a todo-service in development. */
async function openControl(client: Client) {
  const send = async (method: string, path: string, expected: number, body?: string) => {
    const headers = client.token === undefined ? {} : { authorization: `Bearer ${client.token}` }
    const response = await client.send(method, `/__admin/${path}`, body, headers).catch((cause: Error) => cause)
    if ('status' in response && response.status === expected) return response.text
    const got = 'status' in response ? `status ${response.status}` : response.message
    throw new CannotVerify(
      `${client.url} cannot be reset: ${method} /__admin/${path} got ${got}. --reset needs a todo-service in development.`,
    )
  }
  const items = await send('GET', 'items', 200)
  const reset = () => send('POST', 'reset', 204)
  await reset()
  return {
    reset,
    /** Returns what may remain of the run: nothing, since the items are those from before. */
    async restore(): Promise<readonly string[]> {
      await reset()
      await send('PUT', 'items', 204, items)
      return []
    },
  }
}

function selectChecks({ url, profile, only }: VerifyOptions): Check[] {
  if (!URL.canParse(url)) throw new CannotVerify(`${url} is not a URL.`)
  if (!Object.hasOwn(checks, profile)) throw new CannotVerify(`Unknown profile ${profile}: use a or b.`)
  for (const pattern of only ?? [])
    if (!checks[profile].some(({ rule }) => matches(pattern, rule)))
      throw new CannotVerify(`No rule of profile ${profile} matches ${pattern}.`)
  return checks[profile].filter(({ rule }) => !only || only.some((pattern) => matches(pattern, rule)))
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

function reasonToStop(signal: VerifyOptions['signal'], unanswered: number, elapsedMs: number): string | undefined {
  if (signal?.aborted) return 'the run was stopped'
  if (unanswered >= maxUnansweredChecks) return 'the server stopped responding'
  return elapsedMs > maxRunMs ? 'the run took longer than 10 minutes' : undefined
}

const notJudged = ({ rule, name }: Check) => `could not be judged, because ${rule} failed (${name})`

function reasonToSkip(
  { needs }: Check,
  { token, url }: Client,
  isUntouched: boolean,
  failedList: Check | undefined,
  canReset: boolean,
): string | undefined {
  if (needs === 'own server' && !canReset) return 'only with --reset, or for a server that was started for the checks'
  if (needs === 'untouched store' && failedList) return notJudged(failedList)
  if (needs === 'untouched store' && !isUntouched) return 'the store is not in its initial state'
  if (needs === 'token' && !token) return 'no token was passed'
  if (needs === 'plain HTTP' && url.startsWith('https:')) return 'only for an http URL'
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

async function runCheck(check: Check, client: Client): Promise<{ cause: unknown; milliseconds: number }> {
  const startedAt = performance.now()
  const cause: unknown = await check.run(client).then(
    () => undefined,
    (error: unknown) => error ?? new Error('unknown'),
  )
  return { cause, milliseconds: Math.round(performance.now() - startedAt) }
}

const maxExpectedLength = 500

/** Errors other than `RuleViolation` come from reading members of a response with an unexpected structure. */
function toFailure(cause: unknown, lastResponse: Response | undefined, { url, token }: Client) {
  const redact = (text: string) => (token ? text.replaceAll(token, '$TOKEN') : text)
  const violation = cause instanceof RuleViolation ? cause : undefined
  const response = violation?.response ?? lastResponse
  const request = cause instanceof NoResponseError ? cause.request : response?.request
  const expected =
    cause instanceof NoResponseError
      ? 'a response'
      : (violation?.expected ?? 'a response with the structure that the rule states')
  const got =
    cause instanceof NoResponseError || !response
      ? (cause as Error).message
      : (violation?.got ?? summarize({ ...response, text: redact(response.text) }))
  return {
    expected: redact(expected).slice(0, maxExpectedLength),
    got: redact(got),
    ...(request && { request: toCurl(url, { ...request, headers: redactHeaders(request.headers, redact) }) }),
  }
}

const redactHeaders = (headers: Request['headers'], redact: (text: string) => string): Request['headers'] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === 'string' ? redact(value) : value?.map(redact),
    ]),
  )
