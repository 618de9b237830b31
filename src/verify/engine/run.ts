import { escapeText } from '../../common/escape.ts'
import type { Basis, Rule } from '../../common/rules.ts'
import { ItemNotCreated, type ItemTracker, trackItems, unescapeUnreserved } from './cleanup.ts'
import {
  bearer,
  type Client,
  type ClientOptions,
  createAgent,
  createClient,
  type Headers,
  Interrupted,
  NoResponseError,
  obeyRetryAfter,
  type Request,
  type Response,
  type StopSignal,
  stoppedReason,
  unlessStopped,
} from './client.ts'
import { CannotVerify, fetchFirst, responds } from './connect.ts'
import type { AtEnd, Check, Contract, ServerControl, Unobservable } from './contract.ts'
import { ServerFull } from './contract.ts'
import { type Target, toScript } from './curl.ts'
import { RuleViolation, summarize } from './expect.ts'
import { tryParseExact } from './json.ts'
import { randomFor } from './random.ts'
import { shrink } from './shrink.ts'
import { asRun, runState } from './state.ts'
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
  /** Finds the fewest steps of a generated sequence that fail. Default: true. */
  readonly shrink?: boolean | undefined
  /** How long items are watched that nobody changes, in milliseconds. Default: 5500, in a quick run 0. */
  readonly watchMs?: number | undefined
  /** Stops the run at the first failure; the items of the run are deleted as usual. */
  readonly bail?: boolean | undefined
  /** Milliseconds to wait for a server that is starting. Default: 0. */
  readonly waitMs?: number | undefined
  /** Makes tokens of two callers, where none was passed. Called once the server has responded. */
  readonly findTokens?: (() => Promise<Pick<ClientOptions, 'token' | 'otherToken'> | undefined>) | undefined
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
  /** Repetitions of requests after a response 429, or 503 with Retry-After. */
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
  /** Why the check was skipped or could not be judged, why its failure is waived, or what a passed check left out. */
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
const defaultWatchMs = 5_500
/** After this many checks in a row without a response, the rest are skipped. */
const maxUnansweredChecks = 3

/** Checks a running server against a contract. Changes only items that it creates, and deletes them. */
export async function run(options: RunOptions): Promise<Verification> {
  const selected = selectChecks(options)
  const agents = options.agent ? [] : [createAgent(options.url, options), createAgent(options.url, options)]
  const [agent = options.agent, secondAgent = options.agent] = agents
  try {
    return await asRun(() =>
      new Run(selected, options).verify(createClient(options.url, { ...options, agent, secondAgent })),
    )
  } finally {
    for (const one of agents) one.destroy()
  }
}

/** How a check ended. */
interface Ended {
  /** What the check threw; undefined where it passed. */
  readonly cause: unknown
  readonly milliseconds: number
  /** The responses that it got. */
  readonly history: readonly Response[]
  /** What a check that passed left out. */
  readonly remark?: string | undefined
}

interface Returned<Result> extends Ended {
  readonly result?: Result | undefined
}

type Judgement = Pick<Outcome, 'status' | 'reason'>

const skipped = (reason: string): Judgement => ({ status: 'skipped', reason: escapeText(reason) })

/** What says nothing about the statement of a check. */
const isUnjudged = (cause: unknown) =>
  cause instanceof Interrupted || cause instanceof ItemNotCreated || cause instanceof ServerFull

/** A run of the checks of a contract against a server. */
class Run {
  readonly #options: RunOptions
  readonly #selected: readonly Check[]
  readonly #waivers: ReturnType<typeof findWaivers>
  readonly #startedAt = performance.now()
  readonly #outcomes = new Map<Check, Outcome>()
  /** Operations that checks build on, each with how it failed, and the check in which it did. */
  readonly #failures = new Map<string, Check>()
  /** What is called at the end of the run. */
  readonly #pending: { readonly check: Check; readonly atEnd: AtEnd; readonly ended: Ended }[] = []
  /** Responses that broke what holds for all of them, the first of each check in which there were some. */
  readonly #violations = new Map<Check, Map<Check, Ended>>()
  #current: Check | undefined
  #client!: Client
  #tracker!: ItemTracker
  #control: ServerControl | undefined
  #initialList: Response | undefined
  #isUntouched = false
  #retries = 0
  #unanswered = 0
  #isComplete = true
  #interruption: string | undefined
  /** The responses of the current check, but of several to GET in a row only the last: lists may be large. */
  #history: Response[] = []

  constructor(selected: readonly Check[], options: RunOptions) {
    this.#options = options
    this.#selected = selected
    this.#waivers = findWaivers(options)
  }

  async verify(plain: Client): Promise<Verification> {
    const { contract, signal, strict = false, quick = false, seed = 1 } = this.#options
    const polite = obeyRetryAfter(plain, { signal, onRetry: () => this.#retries++ })
    const { target, firstList } = await connect(polite, this.#options)
    if (this.#options.reset) this.#control = await openControl(contract, target)
    const initialList = this.#control ? await target.send('GET', contract.items.path) : firstList
    this.#initialList = initialList
    const existing = initialList.status === 200 ? tryParseExact(initialList.text) : undefined
    this.#isUntouched = Array.isArray(existing) && existing.length === (contract.items.initialCount ?? 0)
    this.#tracker = trackItems(target, contract.items, this.#isOwn ? undefined : initialList)
    this.#client = this.#recording(this.#tracker.client)
    const invariants = this.#selected.filter(({ inspect }) => inspect)
    for (const check of this.#selected)
      if (!invariants.includes(check)) {
        await this.#report(check, () => this.#runAndJudge(check))
        const broken = this.#options.bail ? invariants.filter((one) => this.#unseenIn(one)) : []
        for (const invariant of broken) await this.#report(invariant, () => this.#runAndJudge(invariant))
      }
    for (const pending of this.#pending)
      await this.#report(pending.check, async () => this.#judge(pending.check, await this.#end(pending)))
    for (const check of invariants) await this.#report(check, () => this.#runAndJudge(check))
    if (this.#control) await this.#control.restore()
    const leftovers = this.#control ? [] : await this.#tracker.deleteLeftovers(signal)
    const outcomes = this.#selected.map((check) => this.#outcomes.get(check) as Outcome)
    const count = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status).length
    return {
      ok: this.#isComplete && count('failed') === 0,
      complete: this.#isComplete,
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
      retries: this.#retries,
      milliseconds: Math.round(performance.now() - this.#startedAt),
      outcomes,
      waivers: this.#waivers.uses(),
      unobservable: contract.unobservable ?? [],
      leftovers,
    }
  }

  /** The server may lose all its items. */
  get #isOwn(): boolean {
    return this.#control !== undefined || this.#options.fresh === true
  }

  /** Records responses, and inspects each for what holds for all. */
  #recording(client: Client): Client {
    const { signal, contract } = this.#options
    const basePath = new URL(client.url).pathname.replace(/\/$/, '')
    const inspecting = contract.checks.filter(({ inspect }) => inspect)
    const inspect = (response: Response) => {
      const path = response.request.path.slice(basePath.length).replace(/\?.*$/, '')
      for (const check of inspecting) {
        const known = this.#violations.get(check) ?? new Map<Check, Ended>()
        if (!this.#current || known.has(this.#current)) continue
        try {
          check.inspect?.(response, path, client)
        } catch (cause) {
          if (!(cause instanceof RuleViolation)) throw cause
          known.set(this.#current, { cause, milliseconds: 0, history: [...this.#history] })
          this.#violations.set(check, known)
        }
      }
    }
    return {
      ...client,
      send: async (...request) => {
        const response = await unlessStopped(signal, client.send(...request))
        if (response.request.method === 'GET' && this.#history.at(-1)?.request.method === 'GET') this.#history.pop()
        this.#history.push(response)
        inspect(response)
        return response
      },
    }
  }

  /** Calls `judge`, unless the check is judged already; it is undefined where the check ends with the run. */
  async #report(check: Check, judge: () => Promise<Outcome | undefined>): Promise<void> {
    if (this.#outcomes.has(check)) return
    const outcome = await judge()
    if (!outcome) return
    this.#outcomes.set(check, outcome)
    this.#options.onOutcome?.(outcome, this.#outcomes.size, this.#selected.length)
  }

  async #runAndJudge(check: Check): Promise<Outcome | undefined> {
    const { contract } = this.#options
    const stopReason = this.#reasonToStop()
    if (stopReason) this.#isComplete = false
    const skipReason = stopReason ?? this.#reasonToSkip(check)
    if (skipReason) return { ...describe(check, contract), ...skipped(skipReason), milliseconds: 0 }

    if (check.needs === 'untouched store' || check.needs === 'own server') await this.#control?.reset()
    this.#current = check
    // Other clients may have changed the store since the start of the run.
    const isAsAtStart = check.needs === 'untouched store' && !this.#isOwn && this.#initialList
    const client = isAsAtStart ? respondingOnce(this.#client, isAsAtStart) : this.#client
    const { result, ...ended } = await this.#run(check, client)
    if (typeof result !== 'function')
      return this.#judge(check, { ...(await this.#shrink(check, ended)), remark: result })
    this.#tracker.keepCreated()
    this.#pending.push({ check, atEnd: result, ended })
    return undefined
  }

  /** What broke a statement about every response. Where the check in which it did has failed, too, it is the same failure. */
  #unseenIn(check: Check): Ended | undefined {
    const unseen = [...(this.#violations.get(check) ?? [])].find(([during]) =>
      ['passed', 'deviates'].includes(`${this.#outcomes.get(during)?.status}`),
    )
    return unseen?.[1]
  }

  async #run(check: Check, client: Client): Promise<Returned<AtEnd | string>> {
    const { seed = 1 } = this.#options
    return this.#unseenIn(check) ?? this.#time(() => check.run(client, randomFor(seed, check.name)))
  }

  async #time<Result>(work: () => Promise<Result | undefined>): Promise<Returned<Result>> {
    this.#history = []
    const startedAt = performance.now()
    const outcome = await Promise.resolve()
      .then(work)
      .then(
        (result) => ({ cause: undefined, result }),
        (error: unknown) => ({ cause: error ?? new Error('unknown') }),
      )
    return { ...outcome, milliseconds: Math.round(performance.now() - startedAt), history: this.#history }
  }

  async #end({ atEnd, ended }: { readonly atEnd: AtEnd; readonly ended: Ended }): Promise<Ended> {
    const { quick, watchMs = quick ? 0 : defaultWatchMs } = this.#options
    const reason = this.#reasonToStop()
    this.#current = undefined
    const { result: remark, ...last } = await this.#time(async () => {
      if (reason !== undefined) throw new Interrupted(reason)
      return atEnd(watchMs)
    })
    const history = [...ended.history, ...last.history]
    return { ...last, history, milliseconds: ended.milliseconds + last.milliseconds, remark }
  }

  /** The fewest steps of a sequence that fail in the same way, in place of all. */
  async #shrink(check: Check, ended: Ended): Promise<Ended> {
    const { shrink: isWanted = true, seed = 1 } = this.#options
    const { sequence } = check
    if (!sequence || !isWanted || !(ended.cause instanceof RuleViolation)) return ended
    const steps = sequence.generate(randomFor(seed, check.name))
    const { prerequisite } = ended.cause
    return shrink(steps, ended, async (fewer) => {
      await this.#tracker.deleteCreated()
      const again = await this.#time(() => sequence.take(this.#client, fewer))
      return again.cause instanceof RuleViolation && again.cause.prerequisite === prerequisite ? again : undefined
    })
  }

  async #judge(check: Check, outcome: Ended): Promise<Outcome> {
    const { milliseconds } = outcome
    let { cause } = outcome
    const { contract, strict = false } = this.#options
    this.#unanswered = cause instanceof NoResponseError ? this.#unanswered + 1 : 0
    if (this.#unanswered === maxUnansweredChecks && (await responds(this.#client, contract.items.path)))
      this.#unanswered = 0
    if (cause instanceof Interrupted) this.#interruption = cause.message
    const deletion = this.#selected.find(({ provides }) => provides === 'delete')
    const isDeleteJudged = !deletion || deletion === check || this.#outcomes.has(deletion)
    if (this.#unanswered === 0 && isDeleteJudged && !this.#interruption) {
      const undeleted = await this.#tracker.deleteCreated()
      // What a check has created must be deleted by the operation that another check is about.
      if (undeleted && deletion && cause === undefined) {
        undeleted.rule = deletion.rule
        undeleted.prerequisite = 'delete'
        cause = undeleted
      }
    }
    const ended = { ...outcome, cause }
    const isNothingCreated = cause instanceof ItemNotCreated && cause.appliesToAll
    if (cause instanceof Interrupted || isNothingCreated || (cause instanceof ServerFull && check.provides))
      this.#isComplete = false

    const { prerequisite } = cause instanceof RuleViolation ? cause : {}
    // What the check provides itself, it cannot blame another check for.
    const foreign = prerequisite === check.provides ? undefined : prerequisite
    if (foreign !== undefined) await this.#judgeBefore(foreign)
    const { basics } = runState()
    const failedBasic = foreign === undefined ? undefined : basics.get(foreign)
    if (check.provides && !isUnjudged(cause)) basics.set(check.provides, cause ? (failedBasic ?? check) : undefined)
    const sameAs =
      foreign === undefined || failedBasic ? undefined : this.#sameFailure(check, foreign, cause as RuleViolation)
    // With `only`, the check of the prerequisite may be no part of the run: then it must not hide a failure.
    const isUnselected = foreign !== undefined && !failedBasic && !sameAs && !basics.has(foreign)
    const unselected = isUnselected ? await this.#failedUnselected(foreign) : undefined
    const rule = (cause instanceof RuleViolation && cause.rule) || check.rule
    // A choice counts only if the run is strict, or if what failed is not the choice but a step towards it.
    const isFailure =
      check.basis === 'spec' ||
      strict ||
      unselected !== undefined ||
      cause instanceof NoResponseError ||
      (cause instanceof RuleViolation && cause.isSetup)
    const waiver = this.#waivers.reasonFor(rule)
    /** The first that applies. */
    const judgements: readonly (Judgement | false | undefined)[] = [
      isUnjudged(cause) && skipped((cause as Error).message),
      failedBasic && skipped(notJudged(failedBasic)),
      cause === undefined && { status: 'passed', ...(ended.remark && { reason: ended.remark }) },
      sameAs && skipped(notJudged(sameAs)),
      !isFailure && { status: 'deviates' },
      waiver !== undefined && { status: 'waived', reason: waiver },
    ]
    const judgement = judgements.find((one) => typeof one === 'object') ?? { status: 'failed' }
    if (judgement.status === 'skipped') return { ...describe(check, contract), ...judgement, milliseconds: 0 }
    if (judgement.status === 'passed') return { ...describe(check, contract), ...judgement, milliseconds }
    if (judgement.status === 'waived') this.#waivers.use(rule)
    const target = { ...this.#client, insecure: this.#options.insecure }
    const failure = toFailure(ended, target, contract, check.sequence !== undefined)
    if (unselected) failure.expected += ` (${unselected.rule}, on which this check builds)`
    return { ...describe({ ...check, rule }, contract), ...judgement, failure, milliseconds }
  }

  /** A check that others build on may come after one of them, such as on a fresh server: it is judged first. */
  async #judgeBefore(prerequisite: string): Promise<void> {
    const basic = this.#selected.find(({ provides }) => provides === prerequisite)
    if (basic && !runState().basics.has(prerequisite)) await this.#report(basic, () => this.#runAndJudge(basic))
  }

  /** An operation that fails in the same way again, on the way to another statement, is one failure. */
  #sameFailure(check: Check, prerequisite: string, { expected }: RuleViolation): Check | undefined {
    const key = `${prerequisite}: ${expected}`
    const earlier = this.#failures.get(key)
    if (!earlier && check.basis === 'spec') this.#failures.set(key, check)
    return earlier
  }

  readonly #unselectedBasics = new Map<string, Check | undefined>()
  async #failedUnselected(prerequisite: string): Promise<Check | undefined> {
    const basic = this.#options.contract.checks.find(({ provides }) => provides === prerequisite)
    if (basic && !this.#unselectedBasics.has(prerequisite)) {
      const { cause } = await this.#run(basic, this.#client)
      await this.#tracker.deleteCreated()
      this.#unselectedBasics.set(prerequisite, cause ? basic : undefined)
    }
    return this.#unselectedBasics.get(prerequisite)
  }

  #reasonToStop(): string | undefined {
    const isBailing = this.#options.bail && [...this.#outcomes.values()].some(({ status }) => status === 'failed')
    if (isBailing) return 'the run stopped at the first failure'
    if (this.#interruption !== undefined) return this.#interruption
    if (this.#options.signal?.aborted) return stoppedReason
    if (this.#unanswered >= maxUnansweredChecks) return 'the server stopped responding'
    return performance.now() - this.#startedAt > maxRunMs ? 'the run took longer than 10 minutes' : undefined
  }

  #reasonToSkip({ needs, inspect, rule }: Check): string | undefined {
    const sameRule =
      inspect &&
      [...this.#outcomes].find(
        ([, { status, ...other }]) => other.rule === rule && ['failed', 'waived'].includes(status),
      )
    if (sameRule) return notJudged({ ...sameRule[0], rule })
    const { token, otherToken, credentials, otherCredentials, url } = this.#client
    const failedList = runState().basics.get('list')
    if (needs === 'own server' && !this.#isOwn) return 'only with --fresh or --reset'
    if (needs === 'untouched store' && failedList) return notJudged(failedList)
    if (needs === 'untouched store' && !this.#isUntouched && !this.#isOwn)
      return 'the store is not in its initial state'
    if ((needs === 'token' || needs === 'two tokens') && !token) return 'no token was passed'
    if (needs === 'two tokens' && !otherToken) return 'no second token was passed (--other-token)'
    if (needs === 'two users' && !credentials) return 'no credentials were passed (--header, --token)'
    if (needs === 'two users' && !otherCredentials) return 'none of another user were passed (--other-header)'
    if (needs === 'plain HTTP' && url.startsWith('https:')) return 'only for an http URL'
    return undefined
  }
}

function selectChecks({ url, contract, only, quick, fresh, reset }: RunOptions): Check[] {
  if (!URL.canParse(url)) throw new CannotVerify(`${url} is not a URL.`)
  requireRules(contract, only)
  const selected = contract.checks.filter(
    ({ rule, basis, isLong }) =>
      (!only || only.some((pattern) => matchesRule(pattern, rule))) && !(quick && (basis === 'choice' || isLong)),
  )
  if (selected.length === 0)
    throw new CannotVerify(`No check of ${only?.join(', ') ?? contract.name} is left${quick ? ' in a quick run' : ''}.`)
  if (!fresh && !reset) return selected
  // A server is fresh once, and a reset would delete items that are watched.
  const order = ({ needs }: Check) => (needs === 'untouched store' || needs === 'own server' ? 0 : 1)
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
  const find = (rule: string) => all.find((one) => matchesRule(one.rule, rule) && !isExpired(one))
  return {
    reasonFor: (rule: string) => find(rule)?.reason,
    use(rule: string): void {
      const waiver = find(rule)
      if (waiver) used.add(waiver)
    },
    uses: (): WaiverUse[] =>
      all.map((waiver) => ({
        ...waiver,
        status: isExpired(waiver) ? 'expired' : used.has(waiver) ? 'used' : 'unused',
      })),
  }
}

/** The client that checks use, and the list of items before the run. */
async function connect(client: Client, options: RunOptions): Promise<{ target: Client; firstList: Response }> {
  const { path } = options.contract.items
  const first = await fetchFirst(client, path, options)
  const found = client.token === undefined ? await options.findTokens?.() : undefined
  const plain = { ...client, ...found, credentials: client.credentials ?? (found && bearer(found.token)) }
  const { status, headers } = first
  if (status >= 300 && status < 400 && headers.location)
    throw new CannotVerify(
      `${plain.url} redirects to ${escapeText(withoutPath(headers.location, path))}: check that address instead.`,
    )
  const isDenied = status === 401 || status === 403
  if (!isDenied && !options.credentials) return { target: plain, firstList: first }
  if (!plain.credentials)
    throw new CannotVerify(`${plain.url} requires a token for ${path}: pass --token, or other credentials as --header.`)
  const target = authorizing(plain, path, plain.credentials)
  const firstList = await target.send('GET', path)
  if (firstList.status === status && isDenied)
    throw new CannotVerify(
      `${plain.url} rejects the ${options.credentials ? 'header' : 'token'} for ${path} (${status}).`,
    )
  return { target, firstList }
}

/** The address of the server that an absolute URL of its items names. */
function withoutPath(location: string, path: string): string {
  const isOfItems = /^https?:/i.test(location) && location.toLowerCase().endsWith(path.toLowerCase())
  return isOfItems ? location.slice(0, -path.length) : location
}

/** Sends the credentials to the items, unless a check sets the header itself. */
const authorizing = (client: Client, itemsPath: string, credentials: Headers): Client => ({
  ...client,
  send(method, path, body, headers, caller) {
    const isForItems = unescapeUnreserved(path).toLowerCase().startsWith(itemsPath.toLowerCase())
    return client.send(method, path, body, isForItems ? { ...credentials, ...headers } : headers, caller)
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

const notJudged = ({ rule, name }: Pick<Check, 'rule' | 'name'>) =>
  `could not be judged, because ${rule} failed (${name})`

const describe = ({ rule, basis, name }: Check, { rules }: Contract) => {
  const sentence = rules.find(({ id }: Rule) => id === rule)?.sentence ?? ''
  return { rule, sentence, basis, name }
}

const maxExpectedLength = 500
const maxGotLength = 1_000

/** Errors other than `RuleViolation` come from reading members of a response with an unexpected structure. */
function toFailure({ cause, history }: Ended, target: Target & Client, contract: Contract, hasSteps: boolean) {
  const { redact, redactHeader } = redactorOf(target)
  const redacted = ({ headers, ...request }: Request): Request => ({
    ...request,
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value = []]) => [name, [value].flat().map((one) => redactHeader(name, one))]),
    ),
  })
  const violation = cause instanceof RuleViolation ? cause : undefined
  const unanswered = cause instanceof NoResponseError ? cause : undefined
  const response = violation?.response ?? history.at(-1)
  const request = unanswered ? unanswered.request : response?.request
  const before = response && history.includes(response) ? history.slice(0, history.indexOf(response)) : history
  const message = `${cause instanceof Error ? cause.message : cause}`.replace(/\s+/g, ' ')
  const structure = `a response with the structure that the rule states (${message})`
  const expected = unanswered ? 'a response' : (violation?.expected ?? structure)
  const received = response && !unanswered ? summarize({ ...response, text: redact(response.text) }) : message
  const got = violation?.got ?? received
  return {
    expected: escapeText(redact(expected).slice(0, maxExpectedLength)),
    got: escapeText(redact(got).slice(0, maxGotLength)),
    ...(request && {
      request: toScript(
        target,
        contract.items,
        before.map((earlier) => ({ ...earlier, request: redacted(earlier.request) })),
        redacted(request),
        { aboutId: violation?.aboutId, hasSteps },
      ),
    }),
  }
}

/** Authorization: Token … */
const scheme = /^[\w-]+ +/
/** Authorization: Token key="…", Cookie: session=… */
const parameterValues = /(?<=="?)[^\s;,"=]+/g
/** A shorter text may be in a report by chance: it is hidden only in the header in which it was sent. */
const minSecretLength = 6

/** Replaces what only the users know by names of shell variables: tokens, and headers of theirs without the scheme. */
function redactorOf({ token, otherToken, credentials = {}, otherCredentials = {} }: Client) {
  const users = [
    { variable: '$TOKEN', token, headers: credentials },
    { variable: '$OTHER_TOKEN', token: otherToken, headers: otherCredentials },
  ]
  const secrets = users.flatMap(({ variable, token = '', headers }) => {
    const values = Object.values(headers).flatMap((value = []) => value)
    const known = values.flatMap((value) => [value.replace(scheme, ''), ...(value.match(parameterValues) ?? [])])
    return [token, ...known].filter(({ length }) => length >= minSecretLength).map((secret) => ({ secret, variable }))
  })
  const redact = (text: string) =>
    secrets.reduce((redacted, { secret, variable }) => redacted.replaceAll(secret, variable), text)
  return {
    redact,
    redactHeader(name: string, value: string) {
      const user = users.find(({ headers }) => [headers[name]].flat().includes(value))
      return user ? `${scheme.exec(value)?.[0] ?? ''}${user.variable}` : redact(value)
    },
  }
}
