import {
  type Client,
  type ClientOptions,
  createAgent,
  createClient,
  Interrupted,
  NoResponseError,
  obeyRetryAfter,
  type Request,
  type Response,
  type StopSignal,
  stoppedReason,
  unlessStopped,
} from '../../common/client.ts'
import { escapeText } from '../../common/escape.ts'
import { tryParse } from '../../common/json.ts'
import { derivedSeed, seededRandom } from '../../common/random.ts'
import type { Basis, Rule } from '../../common/rules.ts'
import { ItemNotCreated, trackItems } from './cleanup.ts'
import { CannotVerify, fetchFirst, responds } from './connect.ts'
import type { Check, Contract, ServerControl, Unobservable } from './contract.ts'
import { asRun, ServerFull } from './contract.ts'
import { type Target, toScript } from './curl.ts'
import { RuleViolation, summarize } from './expect.ts'
import { matchesRule, type Waiver, type WaiverUse } from './waivers.ts'

export interface RunOptions extends ClientOptions {
  readonly url: string
  readonly contract: Contract
  /** Ids of the rules to check, with `*` as a wildcard: `A8`, `B*`. Default: all. */
  readonly only?: readonly string[] | undefined
  /** Ids of rules whose failures are counted apart, with `*` as a wildcard. */
  readonly except?: readonly string[] | undefined
  /** Failures that are accepted, as by `except`, each with its reason. */
  readonly waivers?: readonly Waiver[] | undefined
  /** Count deviations from choices as failures. */
  readonly strict?: boolean | undefined
  /** Checks only what is specified, without the checks that take long. */
  readonly quick?: boolean | undefined
  /** The same seed generates the same texts and sequences. Default: 1. */
  readonly seed?: number | undefined
  /** The server was started for this run and may lose all its items: checks what only a fresh server shows, too. */
  readonly fresh?: boolean | undefined
  /** Makes the server fresh: resets it, and restores its items at the end. */
  readonly reset?: boolean | undefined
  /** Stops the run at the first failure; the items of the run are deleted as usual. */
  readonly bail?: boolean | undefined
  /** Milliseconds to wait for a server that is starting. Default: 0. */
  readonly waitMs?: number | undefined
  /** Stops the run within a moment; the items of the run are deleted as usual. */
  readonly signal?: StopSignal | undefined
  /** Called after each check. */
  readonly onOutcome?: ((outcome: Outcome, done: number, total: number) => void) | undefined
  /** The clock that waivers expire by. */
  readonly now?: (() => Date) | undefined
}

export interface Verification {
  readonly url: string
  /** The name of the contract. */
  readonly contract: string
  readonly strict: boolean
  readonly quick: boolean
  readonly seed: number
  /** The run is complete and no check failed. */
  readonly ok: boolean
  /**
   * False when the run was stopped or took too long, the server stopped responding or had no room for the first item,
   * or items of the run could not be deleted, so that no more were created.
   */
  readonly complete: boolean
  readonly passed: number
  readonly failed: number
  readonly deviations: number
  /** Failures of rules that are waived. */
  readonly waived: number
  readonly skipped: number
  /** Repetitions of requests after a response 429. */
  readonly retries: number
  readonly milliseconds: number
  readonly outcomes: readonly Outcome[]
  readonly waivers: readonly WaiverUse[]
  /** Parts of the rules that cannot be checked over HTTP. */
  readonly unobservable: readonly Unobservable[]
  /** Paths of the items of this run that could not be deleted. */
  readonly leftovers: readonly string[]
}

export interface Outcome {
  readonly rule: string
  /** The text of the rule. */
  readonly sentence: string
  readonly basis: Basis
  readonly name: string
  /**
   * `deviates`: a check of basis choice failed, and the run is not strict. `waived`: a check failed, and a waiver
   * applies to its rule.
   */
  readonly status: 'passed' | 'failed' | 'deviates' | 'waived' | 'skipped'
  /** Why the check was skipped or could not be judged, or why its failure is waived. */
  readonly reason?: string
  readonly failure?: Failure
  readonly milliseconds: number
}

export interface Failure {
  readonly expected: string
  readonly got: string
  /** Shell commands, one on each line, that repeat the request and those that it needs. */
  readonly request?: string
}

const maxRunMs = 10 * 60_000
/** After this many checks in a row without a response, the rest are skipped. */
const maxUnansweredChecks = 3

/** Checks a running server against a contract. Changes only items that it creates, and deletes them. */
export async function run(options: RunOptions): Promise<Verification> {
  const selected = selectChecks(options)
  const agent = options.agent ? undefined : createAgent(options.url, options)
  try {
    return await asRun(() => runChecks(selected, options, createClient(options.url, { agent, ...options })))
  } finally {
    agent?.destroy()
  }
}

async function runChecks(selected: readonly Check[], options: RunOptions, plain: Client): Promise<Verification> {
  const { contract, strict = false, quick = false, seed = 1, bail = false, signal, onOutcome } = options
  const waivers = findWaivers(options)
  const startedAt = performance.now()
  let retries = 0
  const { target, firstList } = await connect(
    obeyRetryAfter(plain, {
      signal,
      onRetry() {
        retries++
      },
    }),
    options,
  )
  const control = options.reset ? await openControl(contract, target) : undefined
  const initialList = control ? await target.send('GET', contract.items.path) : firstList
  const existing = initialList.status === 200 ? tryParse(initialList.text) : undefined
  const isUntouched = Array.isArray(existing) && existing.length === (contract.items.initialCount ?? 0)
  const isOwn = control !== undefined || options.fresh === true
  const {
    client: trackingClient,
    deleteCreated,
    deleteLeftovers,
  } = trackItems(target, contract.items, isOwn ? undefined : initialList)
  /** The responses of the current check, but of several to GET in a row only the last: lists may be large. */
  let history: Response[] = []
  const client: Client = {
    ...trackingClient,
    async send(...request) {
      const response = await unlessStopped(signal, trackingClient.send(...request))
      if (response.request.method === 'GET' && history.at(-1)?.request.method === 'GET') history.pop()
      history.push(response)
      return response
    },
  }

  const outcomes: Outcome[] = []
  /** Checks that others build on and that failed, by what they provide; undefined: passed. */
  const failedBasics = new Map<string, Check | undefined>()
  let isDeleteJudged = !selected.some(({ provides }) => provides === 'delete')
  let unanswered = 0
  let complete = true
  let interruption: string | undefined

  async function judge(check: Check): Promise<Outcome> {
    const skip = (reason: string): Outcome => ({
      ...describe(check, contract),
      status: 'skipped',
      reason: escapeText(reason),
      milliseconds: 0,
    })
    const isBailing = bail && outcomes.some(({ status }) => status === 'failed')
    const stopReason = isBailing
      ? 'the run stopped at the first failure'
      : (interruption ?? reasonToStop(signal, unanswered, performance.now() - startedAt))
    if (stopReason) complete = false
    const skipReason = stopReason ?? reasonToSkip(check, client, isUntouched, failedBasics.get('list'), isOwn)
    if (skipReason) return skip(skipReason)

    if (check.needs === 'untouched store' || check.needs === 'own server') await control?.reset()
    // Other clients may have changed the store since the start of the run.
    const checkClient = check.needs === 'untouched store' && !isOwn ? respondingOnce(client, initialList) : client
    const { cause, milliseconds } = await runCheck(check, checkClient)
    unanswered = cause instanceof NoResponseError ? unanswered + 1 : 0
    if (unanswered === maxUnansweredChecks && (await responds(target, contract.items.path))) unanswered = 0
    if (check.provides === 'delete') isDeleteJudged = true
    if (cause instanceof Interrupted) {
      complete = false
      interruption = cause.message
      return skip(cause.message)
    }
    if (unanswered === 0 && isDeleteJudged) await deleteCreated()
    if (cause instanceof ItemNotCreated || cause instanceof ServerFull) {
      if (cause instanceof ServerFull ? check.provides : cause.appliesToAll) complete = false
      return skip(cause.message)
    }

    const { prerequisite, isSetup = false } = cause instanceof RuleViolation ? cause : {}
    // What the check provides itself, it cannot blame another check for.
    const foreign = prerequisite === check.provides ? undefined : prerequisite
    const failedBasic = foreign === undefined ? undefined : failedBasics.get(foreign)
    if (check.provides) failedBasics.set(check.provides, cause ? (failedBasic ?? check) : undefined)
    if (failedBasic) return skip(notJudged(failedBasic))
    if (!cause) return { ...describe(check, contract), status: 'passed', milliseconds }

    const sameAs = foreign === undefined ? undefined : sameFailure(check, foreign, cause as RuleViolation)
    if (sameAs) return skip(notJudged(sameAs))
    const failure = toFailure(cause, history, { ...client, insecure: options.insecure }, contract)
    // With `only`, the check of the prerequisite may be no part of the run: then it must not hide a failure.
    const isUnselected = foreign !== undefined && !failedBasics.has(foreign)
    const unselected = isUnselected ? await failedUnselected(foreign) : undefined
    if (unselected) failure.expected += ` (${unselected.rule}, on which this check builds)`
    const fails = check.basis === 'spec' || strict || isSetup || unselected || cause instanceof NoResponseError
    const outcome = { ...describe(check, contract), failure, milliseconds }
    if (!fails) return { ...outcome, status: 'deviates' }
    const reason = waivers.reasonFor(check.rule)
    return reason === undefined ? { ...outcome, status: 'failed' } : { ...outcome, status: 'waived', reason }
  }

  async function runCheck(check: Check, checkClient: Client): Promise<{ cause: unknown; milliseconds: number }> {
    history = []
    const checkStartedAt = performance.now()
    const cause: unknown = await Promise.resolve()
      .then(() => check.run(checkClient, seededRandom(derivedSeed(seed, check.name))))
      .then(
        () => undefined,
        (error: unknown) => error ?? new Error('unknown'),
      )
    return { cause, milliseconds: Math.round(performance.now() - checkStartedAt) }
  }

  const failures = new Map<string, Check>()
  /** An operation that fails in the same way again, on the way to another statement, is one failure. */
  function sameFailure(check: Check, prerequisite: string, { expected }: RuleViolation): Check | undefined {
    const key = `${prerequisite}: ${expected}`
    const earlier = failures.get(key)
    if (!earlier && check.basis === 'spec') failures.set(key, check)
    return earlier
  }

  const unselectedBasics = new Map<string, Check | undefined>()
  async function failedUnselected(prerequisite: string): Promise<Check | undefined> {
    const basic = contract.checks.find(({ provides }) => provides === prerequisite)
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
  if (control) await control.restore()
  const leftovers = control ? [] : await deleteLeftovers(signal)
  const count = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status).length
  return {
    ok: complete && count('failed') === 0,
    complete,
    passed: count('passed'),
    failed: count('failed'),
    deviations: count('deviates'),
    waived: count('waived'),
    skipped: count('skipped'),
    url: target.url,
    contract: contract.name,
    strict,
    quick,
    seed,
    retries,
    milliseconds: Math.round(performance.now() - startedAt),
    outcomes,
    waivers: waivers.uses(),
    unobservable: contract.unobservable ?? [],
    leftovers,
  }
}

function selectChecks({ url, contract, only, quick, fresh }: RunOptions): Check[] {
  if (!URL.canParse(url)) throw new CannotVerify(`${url} is not a URL.`)
  requireRules(contract, only)
  const selected = contract.checks.filter(
    ({ rule, basis, isLong }) =>
      (!only || only.some((pattern) => matchesRule(pattern, rule))) && !(quick && (basis === 'choice' || isLong)),
  )
  if (selected.length === 0)
    throw new CannotVerify(`No check of ${only?.join(', ') ?? contract.name} is left${quick ? ' in a quick run' : ''}.`)
  if (!fresh) return selected
  // A server is fresh once.
  const order = ({ needs }: Check) => (needs === 'untouched store' ? 0 : needs === 'own server' ? 1 : 2)
  return selected.sort((a, b) => order(a) - order(b))
}

function requireRules({ name, rules }: Contract, patterns: readonly string[] = [], where = ''): void {
  for (const pattern of patterns)
    if (!rules.some(({ id }) => matchesRule(pattern, id)))
      throw new CannotVerify(`No rule of ${name} matches ${pattern}${where}.`)
}

function findWaivers({ contract, except = [], waivers = [], now = () => new Date() }: RunOptions) {
  requireRules(contract, except)
  requireRules(
    contract,
    waivers.map(({ rule }) => rule),
    ', which is waived',
  )
  const today = now().toISOString().slice(0, 10)
  const all: readonly Waiver[] = [...except.map((rule) => ({ rule, reason: '--except' })), ...waivers]
  const used = new Set<Waiver>()
  const isExpired = ({ until }: Waiver) => until !== undefined && until < today
  return {
    reasonFor(rule: string): string | undefined {
      const waiver = all.find((one) => matchesRule(one.rule, rule) && !isExpired(one))
      if (waiver) used.add(waiver)
      return waiver?.reason
    },
    uses: (): WaiverUse[] =>
      all.map((waiver) => ({
        ...waiver,
        status: isExpired(waiver) ? 'expired' : used.has(waiver) ? 'used' : 'unused',
      })),
  }
}

/** The client that checks use, and the list of items before the run. */
async function connect(plain: Client, options: RunOptions): Promise<{ target: Client; firstList: Response }> {
  const { path } = options.contract.items
  const first = await fetchFirst(plain, path, options)
  const { status, headers } = first
  if (status >= 300 && status < 400 && headers.location)
    throw new CannotVerify(
      `${plain.url} redirects to ${escapeText(withoutPath(headers.location, path))}: check that address instead.`,
    )
  if (status !== 401 && status !== 403) return { target: plain, firstList: first }
  if (plain.token === undefined) throw new CannotVerify(`${plain.url} requires a token for ${path}: pass --token.`)
  const target = authorizing(plain, path, plain.token)
  const firstList = await target.send('GET', path)
  if (firstList.status === status) throw new CannotVerify(`${plain.url} rejects the token for ${path} (${status}).`)
  return { target, firstList }
}

/** The address of the server that an absolute URL of its items names. */
function withoutPath(location: string, path: string): string {
  const isOfItems = /^https?:/i.test(location) && location.toLowerCase().endsWith(path.toLowerCase())
  return isOfItems ? location.slice(0, -path.length) : location
}

/** Sends the token to the items, unless a check sets the header itself. */
const authorizing = (client: Client, itemsPath: string, token: string): Client => ({
  ...client,
  send(method, path, body, headers) {
    const unescaped = path.replace(/%([2-7][\da-f])/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
    const isForItems = unescaped.toLowerCase().startsWith(itemsPath.toLowerCase())
    return client.send(method, path, body, isForItems ? { authorization: `Bearer ${token}`, ...headers } : headers)
  },
})

/** Returns a response from before for the first request of the same kind. */
function respondingOnce(client: Client, earlier: Response): Client {
  let isUsed = false
  return {
    ...client,
    async send(method, path, ...rest) {
      const isSame = method === earlier.request.method && earlier.request.path.endsWith(path) && !isUsed
      isUsed ||= isSame
      return isSame ? earlier : client.send(method, path, ...rest)
    },
  }
}

async function openControl(contract: Contract, client: Client): Promise<ServerControl> {
  if (!contract.openControl) throw new CannotVerify(`${contract.name} does not say how a server is reset.`)
  const explain = (cause: Error): never => {
    throw new CannotVerify(`${client.url} cannot be reset: ${cause.message}`)
  }
  const control = await contract.openControl(client).catch(explain)
  await control.reset().catch(explain)
  return { reset: () => control.reset().catch(explain), restore: () => control.restore().catch(explain) }
}

function reasonToStop(signal: RunOptions['signal'], unanswered: number, elapsedMs: number): string | undefined {
  if (signal?.aborted) return stoppedReason
  if (unanswered >= maxUnansweredChecks) return 'the server stopped responding'
  return elapsedMs > maxRunMs ? 'the run took longer than 10 minutes' : undefined
}

const notJudged = ({ rule, name }: Check) => `could not be judged, because ${rule} failed (${name})`

function reasonToSkip(
  { needs }: Check,
  { token, otherToken, url }: Client,
  isUntouched: boolean,
  failedList: Check | undefined,
  isOwn: boolean,
): string | undefined {
  if (needs === 'own server' && !isOwn) return 'only with --fresh or --reset'
  if (needs === 'untouched store' && failedList) return notJudged(failedList)
  if (needs === 'untouched store' && !isUntouched && !isOwn) return 'the store is not in its initial state'
  if ((needs === 'token' || needs === 'two tokens') && !token) return 'no token was passed'
  if (needs === 'two tokens' && !otherToken) return 'no second token was passed (--other-token)'
  if (needs === 'plain HTTP' && url.startsWith('https:')) return 'only for an http URL'
  return undefined
}

const describe = ({ rule, basis, name }: Check, { rules }: Contract) => {
  const sentence = rules.find(({ id }: Rule) => id === rule)?.sentence ?? ''
  return { rule, sentence, basis, name }
}

const maxExpectedLength = 500
const maxGotLength = 1_000

/** Errors other than `RuleViolation` come from reading members of a response with an unexpected structure. */
function toFailure(cause: unknown, history: readonly Response[], target: Target, { items }: Contract) {
  const secrets = [target.token, target.otherToken].filter((token) => token !== undefined)
  const redact = (text: string) => secrets.reduce((redacted, token) => redacted.replaceAll(token, '$TOKEN'), text)
  const redacted = (request: Request) => ({ ...request, headers: redactHeaders(request.headers, redact) })
  const violation = cause instanceof RuleViolation ? cause : undefined
  const response = violation?.response ?? history.at(-1)
  const request = cause instanceof NoResponseError ? cause.request : response?.request
  const index = response ? history.indexOf(response) : -1
  const before = index < 0 ? history : history.slice(0, index)
  const message = `${cause instanceof Error ? cause.message : cause}`.replace(/\s+/g, ' ')
  const expected =
    cause instanceof NoResponseError
      ? 'a response'
      : (violation?.expected ?? `a response with the structure that the rule states (${message})`)
  const got =
    cause instanceof NoResponseError || !response
      ? message
      : (violation?.got ?? summarize({ ...response, text: redact(response.text) }))
  return {
    expected: escapeText(redact(expected).slice(0, maxExpectedLength)),
    got: escapeText(redact(got).slice(0, maxGotLength)),
    ...(request && {
      request: toScript(
        target,
        items,
        before.map((earlier) => ({ ...earlier, request: redacted(earlier.request) })),
        redacted(request),
        violation?.aboutId,
      ),
    }),
  }
}

const redactHeaders = (headers: Request['headers'], redact: (text: string) => string): Request['headers'] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === 'string' ? redact(value) : value?.map(redact),
    ]),
  )
