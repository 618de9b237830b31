import type { Api, Fault } from '../http/dispatch.ts'
import { ApiError, type ErrorCode, errorCodesOf } from '../http/errors.ts'
import type { RequestContext } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { Route } from '../http/router.ts'

const faultKinds = ['reset', 'truncate', 'lost'] as const
type FaultKind = (typeof faultKinds)[number]

/** A failure that requests get until it is used up. */
export interface FaultRule {
  /** Any method, where absent. */
  readonly method?: string
  /** A path, or one of the document's such as `/api/todoitems/{id}`; any, where absent. */
  readonly path?: string
  /** How many requests; all, where absent. */
  readonly times?: number
  /** The share of these requests, from 0 to 1; all, where absent. */
  readonly share?: number
  /** The status of the response; the profile's own failure, where neither `code` nor `fault` nor `delay` is there. */
  readonly code?: number
  readonly fault?: FaultKind
  /** Milliseconds. */
  readonly delay?: number
}

interface CountedRule extends FaultRule {
  used: number
}

/** A delay of every request: milliseconds, from … to …. */
export interface Delay {
  readonly minMs: number
  readonly maxMs: number
}

export interface FaultSettings {
  readonly delay: Delay | undefined
  /** For every sandbox; `PUT /__admin/faults` does not change them. */
  readonly rules: readonly FaultRule[]
  readonly random: () => number
}

/** The delays and failures of a sandbox. */
export class Faults {
  readonly #api: Api
  readonly #settings: FaultSettings
  #rules: CountedRule[] = []

  constructor(api: Api, settings: FaultSettings) {
    this.#api = api
    this.#settings = settings
  }

  get rules(): readonly (FaultRule & { readonly used: number })[] {
    return this.#rules
  }

  /** Replaces the rules. */
  set(rules: readonly FaultRule[]): void {
    this.#rules = rules.map((rule) => ({ ...rule, used: 0 }))
  }

  find(context: RequestContext, route: Route): Fault | undefined {
    const { delay, rules, random } = this.#settings
    if (route.isHealthCheck || route.isPageFile) return undefined
    const prefer = context.request.header('prefer')
    if (prefer === undefined && delay === undefined && rules.length === 0 && this.#rules.length === 0) return undefined
    const preferred = prefer === undefined ? undefined : this.#preferred(prefer, route)
    const rule = preferred?.outcome !== 'none' && preferred ? undefined : this.#match(context, route)
    const delayMs =
      (preferred?.delayMs ?? 0) +
      (rule?.delay ?? 0) +
      (delay ? Math.round(delay.minMs + random() * (delay.maxMs - delay.minMs)) : 0)
    const byRule = rule && this.#outcomeOf(rule, route)
    const outcome = preferred && preferred.outcome !== 'none' ? preferred.outcome : (byRule ?? 'none')
    if (outcome === 'none' && delayMs === 0 && !preferred) return undefined
    const descriptions = [
      preferred?.applied ? `Prefer: ${preferred.applied}` : '',
      rule ? describeRule(rule) : '',
      delayMs > 0 ? `${delayMs} ms` : '',
    ]
    return {
      delayMs,
      outcome,
      applied: preferred?.applied ?? '',
      description: descriptions.filter((text) => text !== '').join('; '),
    }
  }

  #match({ method, path }: RequestContext, route: Route): FaultRule | undefined {
    for (const rule of this.#rules)
      if (matches(rule, method, path, route) && rule.used < (rule.times ?? Number.POSITIVE_INFINITY))
        if (rule.share === undefined || this.#settings.random() < rule.share) {
          rule.used++
          return rule
        }
    return this.#settings.rules.find(
      (rule) =>
        matches(rule, method, path, route) && (rule.share === undefined || this.#settings.random() < rule.share),
    )
  }

  #outcomeOf({ code, fault, delay }: FaultRule, route: Route): Fault['outcome'] {
    if (fault) return fault
    if (code !== undefined) return this.errorFor(code, route) ?? 'none'
    return delay === undefined ? new ApiError('store-unavailable') : 'none'
  }

  /** The error by which the route gets this status; undefined where it never does. */
  errorFor(status: number, route: Route): ApiError | undefined {
    const code = orderedCodes(route).find((candidate) => this.#statusOf(candidate, route) === status)
    return code && new ApiError(code)
  }

  /** The error statuses that the route can have. */
  statusesOf(route: Route): number[] {
    return [...new Set(orderedCodes(route).map((code) => this.#statusOf(code, route)))].sort()
  }

  #statusOf = (code: ErrorCode, { operation }: Route) =>
    this.#api.errorResponse(new ApiError(code), operation, '').status

  /** RFC 7240. Unknown preferences are ignored. */
  #preferred(header: string, route: Route): Pick<Fault, 'delayMs' | 'outcome' | 'applied'> | undefined {
    const applied: string[] = []
    let delayMs = 0
    let outcome: Fault['outcome'] = 'none'
    for (const [name, value] of preferences(header)) {
      if (name === 'wait' && /^\d{1,4}$/.test(value)) {
        const seconds = Math.min(Number(value), maxWaitSeconds)
        delayMs = 1000 * seconds
        applied.push(`wait=${seconds}`)
      } else if (name === 'fault' && faultKinds.includes(value as FaultKind)) {
        outcome = value as FaultKind
        applied.push(`fault=${value}`)
      } else if (name === 'code') {
        const error = this.errorFor(Number(value), route)
        outcome = error ?? invalidPreference(value, route, this.statusesOf(route))
        if (error) applied.push(`code=${value}`)
      } else if (name === 'fault') outcome = problem(400, `fault must be ${faultKinds.join(', ')}, not ${value}.`)
    }
    return applied.length > 0 || outcome !== 'none' ? { delayMs, outcome, applied: applied.join(', ') } : undefined
  }
}

const maxWaitSeconds = 60

/** What a failing store causes comes first: it is what a test of a client wants most. */
function orderedCodes(route: Route): readonly ErrorCode[] {
  const codes = errorCodesOf(route)
  const first = ['store-unavailable', 'internal'] as const
  return [...first.filter((code) => codes.includes(code)), ...codes]
}

function matches({ method, path }: FaultRule, actualMethod: string, actualPath: string, route: Route): boolean {
  if (method !== undefined && method !== actualMethod) return false
  const lower = path?.toLowerCase()
  return lower === undefined || lower === route.path.toLowerCase() || lower === actualPath.toLowerCase()
}

const describeRule = ({ method = 'any method', path = 'any path', code, fault, delay }: FaultRule) =>
  `rule for ${method} ${path}: ${code ?? fault ?? (delay === undefined ? 'failure' : 'delay')}`

function preferences(header: string): [name: string, value: string][] {
  return [...header.matchAll(/(?:^|[,;])\s*([\w-]+)\s*(?:=\s*(?:"([^"]*)"|([^\s,;]*)))?/g)].map(
    ([, name = '', quoted, plain]) => [name.toLowerCase(), quoted ?? plain ?? ''],
  )
}

const invalidPreference = (value: string, { method, path }: Route, statuses: readonly number[]) =>
  problem(400, `${method} ${path} never gets the status ${value.slice(0, 20)}: use ${statuses.join(', ')}.`)

/** For what is no part of the contract: neither profile has an error for it. */
export const problem = (status: number, title: string): Response => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: JSON.stringify({ type: 'about:blank', title, status }),
  reason: title,
})

/** What is wrong with rules for PUT /__admin/faults, by position. */
export function readFaultRules(text: string, faults: Pick<Faults, 'statusesOf'>, routes: readonly Route[]) {
  const value: unknown = JSON.parse(text)
  if (!Array.isArray(value)) return new ApiError('body-invalid', { '': ['The body must be an array of rules.'] })
  const errors: Record<string, string[]> = {}
  for (const [index, rule] of value.entries()) {
    const messages = ruleErrors(rule, faults, routes)
    if (messages.length > 0) errors[`[${index}]`] = messages
  }
  return Object.keys(errors).length > 0 ? new ApiError('body-invalid', errors) : (value as FaultRule[])
}

const memberChecks: Record<keyof FaultRule, (value: unknown) => string | undefined> = {
  method: (value) => (/^[A-Z]+$/.test(`${value}`) ? undefined : 'method must be a method such as POST.'),
  path: (value) => (typeof value === 'string' && value.startsWith('/') ? undefined : 'path must begin with /.'),
  times: (value) => (Number.isInteger(value) && Number(value) > 0 ? undefined : 'times must be a positive integer.'),
  share: (value) =>
    typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'share must be a number from 0 to 1.',
  code: (value) => (Number.isInteger(value) ? undefined : 'code must be a status.'),
  fault: (value) => (faultKinds.includes(value as FaultKind) ? undefined : `fault must be ${faultKinds.join(', ')}.`),
  delay: (value) =>
    Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 1000 * maxWaitSeconds
      ? undefined
      : `delay must be milliseconds from 0 to ${1000 * maxWaitSeconds}.`,
}

export function ruleErrors(rule: unknown, faults: Pick<Faults, 'statusesOf'>, routes: readonly Route[]): string[] {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) return ['A rule must be an object.']
  const messages = Object.entries(rule).flatMap(([name, value]) => {
    const check = Object.hasOwn(memberChecks, name) ? memberChecks[name as keyof FaultRule] : undefined
    return (check ? check(value) : `There is no member ${name}: use ${Object.keys(memberChecks).join(', ')}.`) ?? []
  })
  if (messages.length > 0) return messages
  const { method, path, code, fault } = rule as FaultRule
  if (code !== undefined && fault !== undefined) return ['code and fault exclude each other.']
  const matching = routes.filter(
    (route) =>
      (method === undefined || method === route.method) &&
      (path === undefined || path.toLowerCase() === route.path.toLowerCase() || isPathOf(path, route)),
  )
  if (matching.length === 0) return ['No operation has this method and path.']
  const statuses = [...new Set(matching.flatMap((route) => faults.statusesOf(route)))].sort()
  if (code !== undefined && !statuses.includes(code))
    return [`These operations never get the status ${code}: use ${statuses.join(', ')}.`]
  return []
}

/** Whether the route with an id matches the path. */
const isPathOf = (path: string, route: Route) =>
  route.path.endsWith('/{id}') && path.toLowerCase().startsWith(route.path.slice(0, -'{id}'.length).toLowerCase())
