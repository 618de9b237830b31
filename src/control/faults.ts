import { isObject } from '../common/json.ts'
import { checkOf } from '../common/schema.ts'
import { challengeExpired } from '../http/auth.ts'
import type { Fault, RequestContext } from '../http/context.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import type { Response } from '../http/response.ts'
import { decode, errorCodesOf, type Route } from '../http/router.ts'
import { type FaultRule, type FlagRule, maxWaitSeconds, ruleMembers, type UsedRule } from './schema.ts'

export interface FaultSettings {
  /** The rules that a space has at the start, and after a reset. */
  readonly rules: readonly FlagRule[]
  readonly random: () => number
  /** Counts the rules of all spaces but those of flags. */
  readonly countRules: () => number
}

type ActiveRule = { -readonly [Name in keyof UsedRule]: UsedRule[Name] }

/** Each space has its own rules for failures, delays and rates. */
export class Faults {
  readonly api: Api
  readonly #settings: FaultSettings
  readonly #onChange: () => void
  /** Those of flags are the last. */
  #rules: ActiveRule[]
  #lastId: number
  readonly #failures = new Map<Route, ReadonlyMap<number, ErrorCode | 'token-rejected'>>()

  constructor(api: Api, settings: FaultSettings, onChange = () => {}) {
    this.api = api
    this.#settings = settings
    this.#lastId = settings.rules.length
    this.#onChange = onChange
    this.#rules = this.#flagRules()
  }

  get rules(): readonly UsedRule[] {
    return this.#rules
  }

  /** How many rules there are but those of flags. */
  get count(): number {
    return this.#rules.filter(({ flag }) => !flag).length
  }

  /** Says why there cannot be `count` rules but those of flags; undefined where there can. */
  findProblem(count: number): string | undefined {
    if (count > maxRules) return `There may be at most ${maxRules} rules.`
    if (this.#settings.countRules() - this.count + count <= maxRulesTogether) return undefined
    return `There may be at most ${maxRulesTogether} rules in all spaces together: reset one that you no longer need.`
  }

  /** These rules replace all but those of flags. */
  set(rules: readonly FaultRule[]): void {
    this.#rules = [...rules.map((rule) => this.#newRule(rule)), ...this.#rules.filter(({ flag }) => flag)]
    this.#onChange()
  }

  /** Adds a rule behind the others, but before those of flags: they would hide it. */
  add(rule: FaultRule): UsedRule {
    const added = this.#newRule(rule)
    const firstOfFlags = this.#rules.findIndex(({ flag }) => flag)
    this.#rules.splice(firstOfFlags < 0 ? this.#rules.length : firstOfFlags, 0, added)
    this.#onChange()
    return added
  }

  /** Puts `rule` in the place of the one with this id, or removes that. Returns whether there is one. */
  replace(id: number, rule?: FaultRule): boolean {
    const index = this.#rules.findIndex((one) => one.id === id)
    if (index < 0) return false
    this.#rules.splice(index, 1, ...(rule ? [{ id, ...rule, used: 0 }] : []))
    this.#onChange()
    return true
  }

  reset(): void {
    this.#rules = this.#flagRules()
    this.#onChange()
  }

  #flagRules(): ActiveRule[] {
    return this.#settings.rules.map((rule, index) => ({ id: index + 1, ...rule, used: 0 }))
  }

  #newRule(rule: FaultRule): ActiveRule {
    return { id: ++this.#lastId, ...rule, used: 0 }
  }

  /** The failure, the delay and the rate, each of the first that has one: the preferences, then rule by rule. */
  find(context: RequestContext, route: Route): Fault | undefined {
    if (isExempt(route)) return undefined
    const prefer = context.request.header('prefer')
    if (prefer === undefined && this.#rules.length === 0) return undefined
    const preferred = prefer === undefined ? undefined : this.#preferred(prefer, context, route)
    if (preferred && 'status' in preferred) {
      const description = `Prefer: ${prefer}`
      const none = { delayMs: 0, bytesPerSecond: undefined, applied: '' }
      return { ...none, outcome: preferred, description, simulatedBy: undefined }
    }
    let { outcome, delayMs, bytesPerSecond, simulatedBy } = preferred ?? {}
    const applied = preferred?.applied ?? ''
    const descriptions = applied ? [`Prefer: ${applied}`] : []
    for (const rule of this.#rules) {
      const failure = outcome === undefined ? failureOf(rule) : undefined
      const delay = delayMs === undefined ? rule.delay : undefined
      const rate = bytesPerSecond === undefined ? rule.bytesPerSecond : undefined
      if ((failure ?? delay ?? rate) === undefined || !this.#isChosen(rule, context, route)) continue
      rule.used++
      const parts: unknown[] = []
      if (failure !== undefined) {
        outcome = this.#outcomeOf(failure, context, route)
        simulatedBy = `${nameOf(rule)}: ${failure}`
        parts.push(failure)
      }
      if (delay !== undefined) {
        delayMs = this.#delayOf(delay, rule.maxDelay)
        parts.push(`${delayMs} ms`)
      }
      if (rate !== undefined) {
        bytesPerSecond = rate
        parts.push(`${rate} bytes/s`)
      }
      descriptions.push(`${nameOf(rule)}: ${parts.join(', ')}`)
    }
    if (descriptions.length === 0) return undefined
    const description = descriptions.join('; ')
    return { outcome: outcome ?? 'none', delayMs: delayMs ?? 0, bytesPerSecond, applied, description, simulatedBy }
  }

  #isChosen(rule: ActiveRule, context: RequestContext, route: Route): boolean {
    const { times = Number.POSITIVE_INFINITY, used, code, share } = rule
    if (used >= times || !matches(rule, context, route)) return false
    if (code !== undefined && !this.failuresOf(route).has(code)) return false
    return share === undefined || this.#settings.random() < share
  }

  #outcomeOf(failure: SimulatedFailure, context: RequestContext, route: Route): Fault['outcome'] {
    if (typeof failure === 'number') return this.#responseWith(failure, context, route) ?? 'none'
    return failure === 'failure' ? new Rejection('store-unavailable') : failure
  }

  #responseWith(status: number, { request }: RequestContext, route: Route): Rejection | Response | undefined {
    const code = this.failuresOf(route).get(status)
    return code === 'token-rejected' ? challengeExpired(request) : code && new Rejection(code)
  }

  #delayOf(min: number, max = min): number {
    return max === min ? min : Math.round(min + this.#settings.random() * (max - min))
  }

  /**
   * Returns the failures of a route by status, those too that other settings of the service would add: a required token, a
   * rate limit. What a failing store causes comes first: a test wants it most.
   */
  failuresOf(route: Route): ReadonlyMap<number, ErrorCode | 'token-rejected'> {
    const known = this.#failures.get(route)
    if (known) return known
    const secured = route.secured === true || route.isSecurable === true
    const failures = new Map<number, ErrorCode | 'token-rejected'>(secured ? [[401, 'token-rejected']] : [])
    const codes = errorCodesOf({ ...route, secured }, true)
    const first = (['store-unavailable', 'internal'] as const).filter((code) => codes.includes(code))
    for (const code of [...first, ...codes]) {
      const { status } = this.api.errorResponse(new Rejection(code), route.operation, { traceId: '' })
      if (!failures.has(status)) failures.set(status, code)
    }
    this.#failures.set(route, failures)
    return failures
  }

  statusesOf(...routes: readonly Route[]): number[] {
    return [...new Set(routes.flatMap((route) => [...this.failuresOf(route).keys()]))].sort()
  }

  /** Unknown preferences are ignored (RFC 7240). */
  #preferred(header: string, context: RequestContext, route: Route): Preferred | Response {
    const preferences = parsePreferences(header)
    const [wait = '', code, fault, rate] = ['wait', 'code', 'fault', 'rate'].map((name) => preferences.get(name))
    const seconds = /^\d{1,9}$/.test(wait) ? Math.min(Number(wait), maxWaitSeconds) : undefined
    const applied = seconds === undefined ? [] : [`wait=${seconds}`]
    let outcome: Fault['outcome'] | undefined
    let simulatedBy: string | undefined
    if (code !== undefined && fault !== undefined) return rejectedPreference('code and fault exclude each other.')
    if (fault !== undefined) {
      const mistake = mistakeIn('fault', fault)
      if (mistake) return rejectedPreference(mistake)
      outcome = fault as NonNullable<FaultRule['fault']>
      simulatedBy = `Prefer: fault=${fault}`
      applied.push(`fault=${fault}`)
    }
    if (code !== undefined) {
      outcome = /^\d{3}$/.test(code) ? this.#responseWith(Number(code), context, route) : undefined
      if (!outcome) return rejectedPreference(statusMessage(`${route.method} ${route.path}`, this.statusesOf(route)))
      simulatedBy = `Prefer: code=${code}`
      applied.push(`code=${code}`)
    }
    const bytesPerSecond = rate === undefined ? undefined : /^\d+$/.test(rate) ? Number(rate) : 0
    if (bytesPerSecond !== undefined) {
      const mistake = mistakeIn('bytesPerSecond', bytesPerSecond, 'rate')
      if (mistake) return rejectedPreference(mistake)
      applied.push(`rate=${bytesPerSecond}`)
    }
    const delayMs = seconds === undefined ? undefined : 1000 * seconds
    return { outcome, delayMs, bytesPerSecond, applied: applied.join(', '), simulatedBy }
  }
}

type Preferred = { [Name in Exclude<keyof Fault, 'description'>]: Fault[Name] | undefined }

const rejectedPreference = (title: string) => problem(400, `Prefer: ${title}`)

const statusMessage = (operations: string, statuses: readonly number[]) =>
  `code must be a failure of ${operations}: ${statuses.join(', ')}.`

const matches = ({ method, path }: FaultRule, context: RequestContext, route: Route) =>
  (method === undefined || method === context.method) &&
  (path === undefined || isSamePath(path, route.path) || isSamePath(path, context.path))

/** Most rules are for paths of another length. */
const isSamePath = (one: string, other: string) =>
  Math.abs(one.length - other.length) <= 1 && normalized(one) === normalized(other)

/** G1, G2: neither case nor one trailing slash matters. */
const normalized = (path: string) => path.toLowerCase().replace(/(?<=.)\/$/, '')

type SimulatedFailure = number | NonNullable<FaultRule['fault']> | 'failure'

/** `failure` is that of the store. */
const failureOf = ({ code, fault, delay, bytesPerSecond }: FaultRule): SimulatedFailure | undefined =>
  code ?? fault ?? ((delay ?? bytesPerSecond) === undefined ? 'failure' : undefined)

const nameOf = ({ flag, method = 'any method', path = 'any path' }: ActiveRule) => flag ?? `rule for ${method} ${path}`

/** Names are in lower case; of two equal ones the first counts. */
const parsePreferences = (header: string) =>
  new Map(
    [...header.matchAll(preference)]
      .reverse()
      .map(([, name = '', quoted, plain = '']) => [name.toLowerCase(), quoted ?? plain]),
  )

/** Parameters of a preference, behind a semicolon, are skipped. */
const preference = /(?:^|,)\s*([\w-]+)\s*(?:=\s*(?:"([^"]*)"|([^\s,;]*)))?/g

/** A problem document for what is no part of the contract: neither profile has an error for it. */
export const problem = (status: number, title: string, details: object = {}): Response => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: JSON.stringify({ type: 'about:blank', title, status, ...details }),
  reason: title,
})

/** Returns the rules of PUT /__admin/faults, or what is wrong with them by position. */
export function readFaultRules(text: string, faults: Faults) {
  const value: unknown = JSON.parse(text)
  if (!Array.isArray(value)) return new Rejection('body-invalid', { '': ['The body must be an array of rules.'] })
  const limit = faults.findProblem(value.length)
  if (limit) return new Rejection('body-invalid', { '': [limit] })
  const errors = value
    .map((rule, index) => [`[${index}]`, ruleErrors(rule, faults)] as const)
    .filter(([, messages]) => messages.length > 0)
  return errors.length > 0 ? new Rejection('body-invalid', Object.fromEntries(errors)) : (value as FaultRule[])
}

export function readFaultRule(text: string, faults: Faults) {
  const rule: unknown = JSON.parse(text)
  const messages = ruleErrors(rule, faults)
  return messages.length > 0 ? new Rejection('body-invalid', { '': messages }) : (rule as FaultRule)
}

/** Each request looks at every rule, so there are not many. */
const maxRules = 1_000
/** So many rules with the longest paths take about 12 MB. */
const maxRulesTogether = 10_000

const memberChecks = Object.fromEntries(Object.entries(ruleMembers).map(([name, schema]) => [name, checkOf(schema)]))

const mistakeIn = (member: keyof FaultRule, value: unknown, name: string = member): string | undefined => {
  const mistake = memberChecks[member]?.(value)
  return mistake && `${name} ${mistake.message}.`
}

export function ruleErrors(rule: unknown, faults: Faults): string[] {
  if (!isObject(rule)) return ['A rule must be an object.']
  const messages = Object.entries(rule).flatMap(([name, value]) => {
    if (!isRuleMember(name)) return `There is no member ${name}: use ${Object.keys(ruleMembers).join(', ')}.`
    return mistakeIn(name, value) ?? []
  })
  if (messages.length > 0) return messages
  const { method, path, code, fault, delay, maxDelay } = rule as FaultRule
  if (code !== undefined && fault !== undefined) return ['code and fault exclude each other.']
  if (maxDelay !== undefined && !(delay !== undefined && delay <= maxDelay))
    return ['maxDelay needs a delay that is not greater.']
  const matching = faults.api.routes.filter(
    (route) =>
      (method === undefined || method === route.method) && (path === undefined || matchOf(path, route) !== undefined),
  )
  const served = matching.filter((route) => !isExempt(route))
  if (served.length === 0)
    return matching.length > 0 || (path !== undefined && controlPattern.test(path))
      ? ['Health checks, the pages and /__admin are neither delayed nor made to fail.']
      : ['No operation has this method and path.']
  if (path !== undefined && served.every((route) => matchOf(path, route) === 'id-malformed'))
    return ['No item can have the id of this path: {id} stands for every id.']
  const statuses = faults.statusesOf(...served)
  if (code !== undefined && !statuses.includes(code)) return [statusMessage('these operations', statuses)]
  return []
}

/** Rules and preferences are not for these. */
const isExempt = ({ isHealthCheck, isPageFile }: Route) => isHealthCheck || isPageFile

/** The control API and the page that uses it have these paths. */
export const controlPattern = /^\/(?:__admin|app)(?:[/?]|$)/i

const isRuleMember = (name: string): name is keyof FaultRule => Object.hasOwn(ruleMembers, name)

/** Tells whether the path is that of the route, or of an item; undefined where it is neither. */
function matchOf(path: string, route: Route): 'matches' | 'id-malformed' | undefined {
  if (isSamePath(path, route.path)) return 'matches'
  const prefix = route.path.slice(0, -'{id}'.length)
  const segment = normalized(path).slice(prefix.length)
  if (!route.id || !normalized(path).startsWith(prefix) || !/^[^/]+$/.test(segment)) return undefined
  return route.id.parse(decode(segment)) instanceof Rejection ? 'id-malformed' : 'matches'
}
