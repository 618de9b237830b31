import { challenge } from '../http/auth.ts'
import type { Fault, RequestContext } from '../http/context.ts'
import type { Api } from '../http/dispatch.ts'
import { Rejection } from '../http/errors.ts'
import type { Response } from '../http/response.ts'
import { errorCodesOf, type Route } from '../http/router.ts'
import { type FaultRule, isValid, maxWaitSeconds, ruleMembers, type UsedRule } from './schema.ts'

/** Every request is delayed by a time in this range. */
export interface Delay {
  readonly minMs: number
  readonly maxMs: number
}

export interface FaultSettings {
  readonly delay: Delay | undefined
  /** Rules that hold in every sandbox; `PUT /__admin/faults` does not change them. */
  readonly rules: readonly FaultRule[]
  readonly random: () => number
}

/** Each sandbox has its own delays and failures. */
export class Faults {
  readonly #api: Api
  readonly #settings: FaultSettings
  #rules: { -readonly [Name in keyof UsedRule]: UsedRule[Name] }[] = []

  constructor(api: Api, settings: FaultSettings) {
    this.#api = api
    this.#settings = settings
  }

  get rules(): readonly UsedRule[] {
    return this.#rules
  }

  set(rules: readonly FaultRule[]): void {
    this.#rules = rules.map((rule) => ({ ...rule, used: 0 }))
  }

  /** Adds a rule behind the others. */
  add(rule: FaultRule): void {
    this.#rules.push({ ...rule, used: 0 })
  }

  /** Rules can be about these routes. */
  get routes(): readonly Route[] {
    return this.#api.routes
  }

  find(context: RequestContext, route: Route): Fault | undefined {
    const { delay, rules, random } = this.#settings
    if (route.isHealthCheck || route.isPageFile) return undefined
    const prefer = context.request.header('prefer')
    if (prefer === undefined && delay === undefined && rules.length === 0 && this.#rules.length === 0) return undefined
    const preferred = prefer === undefined ? undefined : this.#preferred(prefer, route)
    const isPreferred = preferred !== undefined && preferred.outcome !== 'none'
    const rule = isPreferred ? undefined : this.#match(context, route)
    const generalMs = delay ? Math.round(delay.minMs + random() * (delay.maxMs - delay.minMs)) : 0
    const delayMs = (preferred?.delayMs ?? 0) + (rule?.delay ?? 0) + generalMs
    const outcome = isPreferred ? preferred.outcome : rule ? this.#outcomeOf(rule, route) : 'none'
    if (outcome === 'none' && delayMs === 0 && !preferred) return undefined
    const applied = preferred?.applied ?? ''
    const descriptions = [applied && `Prefer: ${applied}`, rule && describeRule(rule), delayMs > 0 && `${delayMs} ms`]
    return { delayMs, outcome, applied, description: descriptions.filter(Boolean).join('; ') }
  }

  #match(context: RequestContext, route: Route): FaultRule | undefined {
    const { rules, random } = this.#settings
    const isChosen = (rule: FaultRule) =>
      matches(rule, context, route) &&
      (rule.code === undefined || this.failuresOf(route).has(rule.code)) &&
      (rule.share === undefined || random() < rule.share)
    const own = this.#rules.find((rule) => rule.used < (rule.times ?? Number.POSITIVE_INFINITY) && isChosen(rule))
    if (own) own.used++
    return own ?? rules.find(isChosen)
  }

  #outcomeOf({ code, fault, delay }: FaultRule, route: Route): Fault['outcome'] {
    if (fault) return fault
    if (code !== undefined) return this.failuresOf(route).get(code) ?? 'none'
    return delay === undefined ? new Rejection('store-unavailable') : 'none'
  }

  /** Returns the failures of a route by status. What a failing store causes comes first: a test wants it most. */
  failuresOf(route: Route): ReadonlyMap<number, Rejection | Response> {
    const failures = new Map<number, Rejection | Response>(route.secured ? [[401, expiredToken]] : [])
    const codes = errorCodesOf(route)
    const first = (['store-unavailable', 'internal'] as const).filter((code) => codes.includes(code))
    for (const failure of [...first, ...codes].map((code) => new Rejection(code))) {
      const { status } = this.#api.errorResponse(failure, route.operation, '')
      if (!failures.has(status)) failures.set(status, failure)
    }
    return failures
  }

  statusesOf(...routes: readonly Route[]): number[] {
    return [...new Set(routes.flatMap((route) => [...this.failuresOf(route).keys()]))].sort()
  }

  /** Unknown preferences are ignored (RFC 7240). */
  #preferred(header: string, route: Route): Pick<Fault, 'delayMs' | 'outcome' | 'applied'> | undefined {
    const preferences = parsePreferences(header)
    const [wait = '', code, fault] = ['wait', 'code', 'fault'].map((name) => preferences.get(name))
    const seconds = /^\d{1,9}$/.test(wait) ? Math.min(Number(wait), maxWaitSeconds) : undefined
    const applied = seconds === undefined ? [] : [`wait=${seconds}`]
    const rejected = (title: string) => ({ delayMs: 0, outcome: problem(400, `Prefer: ${title}`), applied: '' })
    let outcome: Fault['outcome'] = 'none'
    if (code !== undefined && fault !== undefined) return rejected('code and fault exclude each other.')
    if (fault !== undefined) {
      if (!isValid(ruleMembers.fault, fault)) return rejected(memberMessages.fault)
      outcome = fault
      applied.push(`fault=${fault}`)
    }
    if (code !== undefined) {
      const error = /^\d{3}$/.test(code) && this.failuresOf(route).get(Number(code))
      if (!error) return rejected(statusMessage(`${route.method} ${route.path}`, this.statusesOf(route)))
      outcome = error
      applied.push(`code=${code}`)
    }
    return applied.length > 0 ? { delayMs: 1000 * (seconds ?? 0), outcome, applied: applied.join(', ') } : undefined
  }
}

const expiredToken = challenge(
  'Bearer error="invalid_token", error_description="The token has expired"',
  'a fault was asked for',
)

const statusMessage = (operations: string, statuses: readonly number[]) =>
  `code must be a failure of ${operations}: ${statuses.join(', ')}.`

const matches = ({ method, path }: FaultRule, context: RequestContext, route: Route) =>
  (method === undefined || method === context.method) &&
  (path === undefined || [route.path, context.path].some((one) => normalized(one) === normalized(path)))

/** G1, G2: neither case nor one trailing slash matters. */
const normalized = (path: string) => path.toLowerCase().replace(/(?<=.)\/$/, '')

const describeRule = ({ method = 'any method', path = 'any path', code, fault, delay }: FaultRule) =>
  `rule for ${method} ${path}: ${code ?? fault ?? (delay === undefined ? 'failure' : 'delay')}`

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
  if (value.length > maxRules) return new Rejection('body-invalid', { '': [tooManyRules] })
  const errors = value
    .map((rule, index) => [`[${index}]`, ruleErrors(rule, faults)] as const)
    .filter(([, messages]) => messages.length > 0)
  return errors.length > 0 ? new Rejection('body-invalid', Object.fromEntries(errors)) : (value as FaultRule[])
}

/** Each request looks for the first rule that matches, so there are not many. */
export const maxRules = 1_000
export const tooManyRules = `There may be at most ${maxRules} rules.`

const memberMessages: Readonly<Record<keyof FaultRule, string>> = {
  method: 'method must be a method such as POST.',
  path: 'path must begin with /.',
  times: 'times must be a positive integer.',
  share: 'share must be a number from 0 to 1.',
  code: 'code must be a status.',
  fault: `fault must be ${ruleMembers.fault.enum?.join(', ')}.`,
  delay: `delay must be milliseconds from 0 to ${ruleMembers.delay.maximum}.`,
}

export function ruleErrors(rule: unknown, faults: Faults): string[] {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) return ['A rule must be an object.']
  const messages = Object.entries(rule).flatMap(([name, value]) => {
    if (!isRuleMember(name)) return `There is no member ${name}: use ${Object.keys(ruleMembers).join(', ')}.`
    return isValid<unknown>(ruleMembers[name], value) ? [] : memberMessages[name]
  })
  if (messages.length > 0) return messages
  const { method, path, code, fault } = rule as FaultRule
  if (code !== undefined && fault !== undefined) return ['code and fault exclude each other.']
  const matching = faults.routes.filter(
    (route) =>
      (method === undefined || method === route.method) &&
      (path === undefined || normalized(path) === normalized(route.path) || isPathOf(normalized(path), route)),
  )
  if (matching.length === 0) return ['No operation has this method and path.']
  const statuses = faults.statusesOf(...matching)
  if (code !== undefined && !statuses.includes(code)) return [statusMessage('these operations', statuses)]
  return []
}

const isRuleMember = (name: string): name is keyof FaultRule => Object.hasOwn(ruleMembers, name)

/** Tells whether the path is that of one item. */
function isPathOf(path: string, route: Route): boolean {
  const prefix = route.path.slice(0, -'{id}'.length)
  return route.path.endsWith('/{id}') && path.startsWith(prefix) && /^[^/]+$/.test(path.slice(prefix.length))
}
