import { isObject } from '../common/json.ts'
import { memberCheck } from '../common/schema.ts'
import { challengeExpired } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import type { Api } from '../http/dispatch.ts'
import { type ErrorCode, Rejection } from '../http/errors.ts'
import type { Response } from '../http/response.ts'
import { decode, errorCodesOf, type Route } from '../http/router.ts'
import type { AppliedFault } from './effects.ts'
import { type ActiveFault, type Fault, type FlagFault, faultMembers, maxWaitSeconds } from './schema.ts'

export interface FaultSettings {
  /** The faults of --fault and --delay, which every space has at the start and after a reset. */
  readonly faults: readonly FlagFault[]
  readonly random: () => number
  /** Returns the number of faults in all spaces, without those of --fault and --delay. */
  readonly countFaults: () => number
}

type MutableFault = { -readonly [Name in keyof ActiveFault]: ActiveFault[Name] }

/** The faults of a space. */
export class Faults {
  readonly api: Api
  readonly #settings: FaultSettings
  readonly #onChange: () => void
  /** The active faults; those of --fault and --delay come last. */
  #active: MutableFault[]
  #lastId: number
  readonly #failures = new Map<Route, ReadonlyMap<number, ErrorCode | 'token-rejected'>>()

  constructor(api: Api, settings: FaultSettings, onChange = () => {}) {
    this.api = api
    this.#settings = settings
    this.#lastId = settings.faults.length
    this.#onChange = onChange
    this.#active = this.#flagFaults()
  }

  get active(): readonly ActiveFault[] {
    return this.#active
  }

  /** The number of faults, without those of --fault and --delay. */
  get count(): number {
    return this.#active.filter(({ flag }) => !flag).length
  }

  /** Whether an active fault closes connections without a complete response. */
  get closesConnections(): boolean {
    return this.#active.some(({ connection, times, used }) => connection && used < (times ?? Number.POSITIVE_INFINITY))
  }

  /** Returns why this space cannot have `count` faults besides those of --fault and --delay; undefined if it can. */
  findProblem(count: number): string | undefined {
    if (count > maxFaults) return `There may be at most ${maxFaults} faults.`
    if (this.#settings.countFaults() - this.count + count <= maxFaultsTogether) return undefined
    return `There may be at most ${maxFaultsTogether} faults in all spaces together: reset one that you no longer need.`
  }

  /** Replaces all faults but those of --fault and --delay. */
  set(faults: readonly Fault[]): void {
    this.#active = [...faults.map((fault) => this.#newFault(fault)), ...this.#active.filter(({ flag }) => flag)]
    this.#onChange()
  }

  /** Inserts a fault before those of --fault and --delay, which would otherwise take effect first. */
  add(fault: Fault): ActiveFault {
    const added = this.#newFault(fault)
    const firstOfFlags = this.#active.findIndex(({ flag }) => flag)
    this.#active.splice(firstOfFlags < 0 ? this.#active.length : firstOfFlags, 0, added)
    this.#onChange()
    return added
  }

  /** Replaces the fault with this id, or removes it if `fault` is undefined. Returns whether there was one. */
  replace(id: number, fault?: Fault): boolean {
    const index = this.#active.findIndex((active) => active.id === id)
    if (index < 0) return false
    this.#active.splice(index, 1, ...(fault ? [this.#activate(id, fault)] : []))
    this.#onChange()
    return true
  }

  reset(): void {
    this.#active = this.#flagFaults()
    this.#onChange()
  }

  #flagFaults(): MutableFault[] {
    return this.#settings.faults.map((fault, index) => this.#activate(index + 1, fault))
  }

  #newFault(fault: Fault): MutableFault {
    return this.#activate(++this.#lastId, fault)
  }

  #activate(id: number, fault: FlagFault): MutableFault {
    return { id, ...fault, description: this.#describe(fault), used: 0 }
  }

  /** Describes the requests and the effects of a fault: `POST /api/todoitems: 503, twice`. */
  #describe(fault: FlagFault, [failure, delay, rate] = effectsOf(fault), delayMs?: number): string {
    const { maxDelay = delay, share, times, flag } = fault
    const isForAll = routesOf(this.api, fault).every(
      (route) => isExempt(route) || this.failuresOf(route).has(failure as number),
    )
    const drawn = maxDelay === delay || delayMs === undefined ? '' : ` (${delayMs})`
    const effects = [
      typeof failure === 'number' ? `${failure}${isForAll ? '' : ' where possible'}` : failure && failureTexts[failure],
      delay !== undefined && `delayed by ${maxDelay === delay ? delay : `${delay} to ${maxDelay}`} ms${drawn}`,
      rate !== undefined && `body at ${rate} bytes/s`,
      share !== undefined && `${Number((100 * share).toPrecision(6))} % of them`,
      times !== undefined && (['', 'once', 'twice'][times] ?? `${times} times`),
    ]
    return `${requestsOf(fault)}: ${effects.filter(Boolean).join(', ')}${flag ? ` (${flag})` : ''}`
  }

  /** Finds failure, delay and rate for a request: each from `Prefer`, or else from the first fault that has one. */
  find(context: RequestContext, route: Route): AppliedFault | undefined {
    if (isExempt(route)) return undefined
    const prefer = context.request.header('prefer')
    if (prefer === undefined && this.#active.length === 0) return undefined
    const preferred = prefer === undefined ? undefined : this.#preferred(prefer, context, route)
    if (preferred && 'status' in preferred) {
      const none = { delayMs: 0, bytesPerSecond: undefined, applied: '', faultIds: [] }
      return { ...none, outcome: preferred, description: `Prefer: ${prefer}`, simulatedBy: undefined }
    }
    let { outcome, delayMs, bytesPerSecond, simulatedBy } = preferred ?? {}
    const applied = preferred?.applied ?? ''
    const descriptions = applied ? [`Prefer: ${applied}`] : []
    const faultIds: number[] = []
    for (const fault of this.#active) {
      const effects = effectsOf(fault)
      const failure = outcome === undefined ? effects[0] : undefined
      const delay = delayMs === undefined ? effects[1] : undefined
      const rate = bytesPerSecond === undefined ? effects[2] : undefined
      if ((failure ?? delay ?? rate) === undefined || !this.#isChosen(fault, context, route)) continue
      fault.used++
      if (delay !== undefined) delayMs = this.#delayOf(delay, fault.maxDelay)
      if (rate !== undefined) bytesPerSecond = rate
      const isWhole =
        effects[0] === failure && effects[1] === delay && effects[2] === rate && fault.maxDelay === undefined
      const description = isWhole ? fault.description : this.#describe(fault, [failure, delay, rate], delayMs)
      if (failure !== undefined) {
        outcome = this.#outcomeOf(failure, context, route)
        simulatedBy = description
      }
      descriptions.push(description)
      faultIds.push(fault.id)
    }
    if (descriptions.length === 0) return undefined
    const description = descriptions.join('; ')
    return {
      outcome: outcome ?? 'none',
      delayMs: delayMs ?? 0,
      bytesPerSecond,
      applied,
      description,
      faultIds,
      simulatedBy,
    }
  }

  #isChosen(fault: MutableFault, context: RequestContext, route: Route): boolean {
    const { times = Number.POSITIVE_INFINITY, used, code, share } = fault
    if (used >= times || !matches(fault, context, route)) return false
    if (code !== undefined && !this.failuresOf(route).has(code)) return false
    return share === undefined || this.#settings.random() < share
  }

  #outcomeOf(failure: SimulatedFailure, context: RequestContext, route: Route): AppliedFault['outcome'] {
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
   * Returns the failures of a route by status, including those that only other settings cause: a required token, a rate
   * limit. If several errors have the same status, those of a failing store win: tests want them most.
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

  /** Reads the preferences of a request, and ignores unknown ones (RFC 7240). */
  #preferred(header: string, context: RequestContext, route: Route): Preferred | Response {
    const { wait, code, connection, rate } = parsePreferences(header)
    const delayMs = wait === undefined ? undefined : 1000 * Math.min(Number(wait), maxWaitSeconds)
    const bytesPerSecond = rate === undefined ? undefined : /^\d+$/.test(rate) ? Number(rate) : 0
    const response = /^\d{3}$/.test(code ?? '') ? this.#responseWith(Number(code), context, route) : undefined
    const mistake =
      (wait !== undefined && !/^\d{1,9}$/.test(wait) && 'wait must be a whole number of seconds.') ||
      (code !== undefined && connection !== undefined && 'code and connection exclude each other.') ||
      (connection !== undefined && mistakeIn('connection', connection)) ||
      (code !== undefined && !response && statusMessage(`${route.method} ${route.path}`, this.statusesOf(route))) ||
      (bytesPerSecond !== undefined && mistakeIn('bytesPerSecond', bytesPerSecond, 'rate'))
    if (mistake) return problem(400, `Prefer: ${mistake}`)
    const failure = connection === undefined ? code && `code=${code}` : `connection=${connection}`
    const applied = [
      delayMs !== undefined && `wait=${delayMs / 1000}`,
      failure,
      bytesPerSecond !== undefined && `rate=${bytesPerSecond}`,
    ]
    return {
      outcome: (connection as Fault['connection']) ?? response,
      delayMs,
      bytesPerSecond,
      applied: applied.filter(Boolean).join(', '),
      simulatedBy: failure && `Prefer: ${failure}`,
    }
  }
}

type Preferred = { [Name in Exclude<keyof AppliedFault, 'description' | 'faultIds'>]: AppliedFault[Name] | undefined }

const statusMessage = (operations: string, statuses: readonly number[]) =>
  `code must be a failure of ${operations}: ${statuses.join(', ')}.`

const matches = ({ method, path }: Fault, context: RequestContext, route: Route) =>
  (method === undefined || method === context.method) &&
  (path === undefined || isSamePath(path, route.path) || isSamePath(path, context.path))

/** Compares the lengths first, which settles most cases. */
const isSamePath = (a: string, b: string) => Math.abs(a.length - b.length) <= 1 && normalized(a) === normalized(b)

/** G1, G2: removes differences that do not matter in a path: case, and one trailing slash. */
const normalized = (path: string) => path.toLowerCase().replace(/(?<=.)\/$/, '')

type SimulatedFailure = number | NonNullable<Fault['connection']> | 'failure'

/** Returns failure, delay and rate of a fault. A fault that has none of them makes the store fail (`failure`). */
const effectsOf = ({ code, connection, delay, bytesPerSecond }: Fault) => {
  const failure = code ?? connection ?? ((delay ?? bytesPerSecond) === undefined ? 'failure' : undefined)
  return [failure satisfies SimulatedFailure | undefined, delay, bytesPerSecond] as const
}

const failureTexts = {
  failure: 'failure of the store',
  reset: 'connection reset',
  truncate: 'connection closed after half of the body',
  lost: 'connection closed after the effect, without a response',
} as const satisfies Record<Exclude<SimulatedFailure, number>, string>

function requestsOf({ method, path }: Fault): string {
  if (path !== undefined) return method ? `${method} ${path}` : `requests to ${path}`
  return method ? `${method} requests` : 'all requests'
}

/** Returns preferences by name in lower case. The first wins if a name is repeated. */
const parsePreferences = (header: string): Readonly<Partial<Record<string, string>>> =>
  Object.fromEntries(
    [...header.matchAll(preference)]
      .reverse()
      .map(([, name = '', quoted, plain = '']) => [name.toLowerCase(), quoted ?? plain]),
  )

/** Matches a preference and skips its parameters, which follow a semicolon. */
const preference = /(?:^|,)\s*([\w-]+)\s*(?:=\s*(?:"([^"]*)"|([^\s,;]*)))?/g

/** A problem document for an error that is not part of the contract, so that no profile has a response for it. */
export const problem = (status: number, title: string, details: object = {}): Response => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: JSON.stringify({ type: 'about:blank', title, status, ...details }),
  reason: title,
})

/** Reads the body of PUT /__admin/faults; the messages of a rejection are by position. */
export function readFaults(text: string, faults: Faults) {
  const value: unknown = JSON.parse(text)
  if (!Array.isArray(value)) return new Rejection('body-invalid', { '': ['The body must be an array of faults.'] })
  const limit = faults.findProblem(value.length)
  if (limit) return new Rejection('body-invalid', { '': [limit] })
  const errors = value
    .map((fault, index) => [`[${index}]`, faultErrors(fault, faults)] as const)
    .filter(([, messages]) => messages.length > 0)
  return errors.length > 0 ? new Rejection('body-invalid', Object.fromEntries(errors)) : (value as Fault[])
}

export function readFault(text: string, faults: Faults) {
  const fault: unknown = JSON.parse(text)
  const messages = faultErrors(fault, faults)
  return messages.length > 0 ? new Rejection('body-invalid', { '': messages }) : (fault as Fault)
}

/** The limit for a space: each request is compared with every fault. */
const maxFaults = 1_000
/** The limit for all spaces: this many faults with the longest paths and descriptions take about 24 MB. */
const maxFaultsTogether = 10_000

const mistakeIn = memberCheck('member', faultMembers)

export function faultErrors(fault: unknown, faults: Faults): string[] {
  if (!isObject(fault)) return ['A fault must be an object.']
  const messages = Object.entries(fault).flatMap(([name, value]) => mistakeIn(name, value) ?? [])
  if (messages.length > 0) return messages
  const { path, code, connection, delay, maxDelay } = fault as Fault
  if (code !== undefined && connection !== undefined) return ['code and connection exclude each other.']
  if (maxDelay !== undefined && !(delay !== undefined && delay <= maxDelay))
    return ['maxDelay needs a delay that is not greater.']
  const matching = routesOf(faults.api, fault as Fault)
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

const routesOf = ({ routes }: Api, { method, path }: Pick<Fault, 'method' | 'path'>) =>
  routes.filter(
    (route) =>
      (method === undefined || method === route.method) && (path === undefined || matchOf(path, route) !== undefined),
  )

/** Faults and preferences have no effect on health checks and files of pages. */
const isExempt = ({ isHealthCheck, isPageFile }: Route) => isHealthCheck || isPageFile

/** Matches the paths of the control API and of /app. */
export const controlPattern = /^\/(?:__admin|app)(?:[/?]|$)/i

/** Compares a path with that of a route, or of an item. Returns undefined if it matches neither. */
function matchOf(path: string, route: Route): 'matches' | 'id-malformed' | undefined {
  if (isSamePath(path, route.path)) return 'matches'
  const prefix = route.path.slice(0, -'{id}'.length)
  const segment = normalized(path).slice(prefix.length)
  if (!route.id || !normalized(path).startsWith(prefix) || !/^[^/]+$/.test(segment)) return undefined
  return route.id.parse(decode(segment)) instanceof Rejection ? 'id-malformed' : 'matches'
}
