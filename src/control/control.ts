import { isValid } from '../common/schema.ts'
import { requireScope } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import { type CorsPolicy, isOriginAllowed } from '../http/cors.ts'
import {
  type ApiHandler,
  type DispatchHooks,
  type DispatchSettings,
  type HttpHandler,
  httpHandler,
} from '../http/dispatch.ts'
import type { Request } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { ObjectSchema } from '../http/schema.ts'
import {
  type ControlApiSettings,
  type Controlled,
  controlAccess,
  controlApi,
  controlScope,
  ownOrigin,
  sandboxOf,
} from './api.ts'
import { type CodeSettings, Codes } from './codes.ts'
import { controlPattern, type FaultSettings, problem } from './faults.ts'
import { JournalBudget } from './journal.ts'
import { Sandbox, type SandboxItems, type SandboxSettings } from './sandbox.ts'
import { type ProfileInfo, sandboxName } from './schema.ts'

export interface ControlOptions
  extends Omit<SandboxSettings, 'settings' | 'faults' | 'budget'>,
    Omit<ControlApiSettings, 'codes'> {
  readonly settings: Omit<DispatchSettings, 'space'>
  /** Checks the tokens of the control API. */
  readonly verifyToken: DispatchSettings['verifyToken']
  /** A body for the control API may have this size. */
  readonly maxBodyBytes: number
  readonly items: SandboxItems
  /** Undefined where there are no sandboxes, because the items are not in memory. */
  readonly openSandbox: (() => SandboxItems | 'memory-limit') | undefined
  readonly info: () => ProfileInfo
  /** Each start of the service has another one. */
  readonly instance: string
  readonly codes: Omit<CodeSettings, 'monotonicNow'>
  readonly faults: Omit<FaultSettings, 'countRules'>
  readonly maxSandboxes: number
  readonly sandboxTtlMs: number
}

const sandboxHeader = 'x-todo-sandbox'
const sandboxPrefix = /^\/(?:~|%7e)([^/?]*)/i
const noSandboxes =
  'There are no sandboxes, because the items are not in memory: start without --data and --database-url.'
/** A sandbox whose items have changed is kept for a minute before an empty one takes its place. */
const keptMs = 60_000
const maxSweepIntervalMs = 10_000
/** A body may have this many members and elements, more than the items that it may contain. */
const maxJsonValues = 1_000_000

/** What a request is for: the profile, or the control of its sandbox. */
type Handlers = Readonly<Record<'service' | 'control', ApiHandler>>

/** Serves a profile in development: with sandboxes, faults, a journal of requests, and the API that controls them. */
export class Control implements HttpHandler {
  /** Requests that name no sandbox work on this. */
  readonly main: Sandbox
  readonly itemSchema: ObjectSchema
  readonly #options: ControlOptions
  readonly #shared: SandboxSettings
  readonly #monotonicNow: () => number
  /** The least recently used one is the first. */
  readonly #sandboxes = new Map<string, Sandbox>()
  readonly #handlers: Handlers
  /** Handles requests to sandboxes that do not exist yet. */
  readonly #opening: Handlers
  readonly #sweep: NodeJS.Timeout
  #opened = 0

  constructor(options: ControlOptions) {
    const { monotonicNow } = options.settings
    this.#options = options
    this.itemSchema = options.itemSchema
    this.#monotonicNow = monotonicNow
    this.#shared = {
      ...options,
      faults: { ...options.faults, countRules: () => this.#countRules() },
      budget: new JournalBudget(),
    }
    this.main = this.#create(options.items)
    const { api } = options
    const service = {
      ...options.settings,
      space: this.main,
      hooks: {
        findFault: (context, route) => sandboxOf(context).faults.find(context, route),
        begin: (context) => sandboxOf(context).record(context),
      },
    } satisfies DispatchSettings
    const controlled = controlApi(api, { ...options, codes: new Codes({ ...options.codes, monotonicNow }) })
    const control = controlSettings(options, this.main)
    this.#handlers = { service: httpHandler(api, service), control: httpHandler(controlled, control) }
    this.#opening = {
      service: httpHandler(api, { ...service, hooks: this.#openingHooks(service.hooks) }),
      control: httpHandler(controlled, { ...control, hooks: this.#openingHooks(controlAccess) }),
    }
    this.#sweep = setInterval(() => this.#dropExpired(), Math.min(options.sandboxTtlMs, maxSweepIntervalMs))
    this.#sweep.unref()
  }

  /** Returns the sandbox of this name, a new one where there is none, or the response that says why there can be none. */
  sandbox(name: string): Controlled | Response {
    return this.#find(name) ?? this.#findProblem(name) ?? this.#open(name, false)
  }

  dispatch(request: Request): void {
    const { prefix, name, path } = targetOf(request)
    const part = controlPattern.test(path) ? 'control' : 'service'
    const found = name === undefined || request.protocolError ? this.main : this.#find(name)
    const rejection = found || name === undefined ? undefined : this.#findProblem(name)
    if (rejection) this.#handlers.service.reject(request, rejection)
    else if (found) this.#handlers[part].dispatch(request, prefix, found)
    else this.#opening[part].dispatch(request, prefix)
  }

  malformed(status: number, reason: string, client: string): void {
    this.#handlers.service.malformed(status, reason, client)
  }

  /** Ends the streams of events. */
  close(): void {
    clearInterval(this.#sweep)
    for (const { journal } of [this.main, ...this.#sandboxes.values()]) journal.close()
  }

  #create(items: SandboxItems, name?: string): Sandbox {
    const { info, openSandbox } = this.#options
    const instance = `${this.#options.instance}-${++this.#opened}`
    return new Sandbox(items, this.#shared, () => ({
      ...info(),
      instance,
      sandbox: name,
      sandboxes: openSandbox && [...this.#sandboxes.keys()],
    }))
  }

  #countRules(): number {
    return [this.main, ...this.#sandboxes.values()].reduce((sum, { faults }) => sum + faults.count, 0)
  }

  #find(name: string): Sandbox | undefined {
    const sandbox = this.#sandboxes.get(name)
    if (!sandbox) return undefined
    sandbox.usedAt = this.#monotonicNow()
    this.#sandboxes.delete(name)
    this.#sandboxes.set(name, sandbox)
    return sandbox
  }

  #findProblem(name: string): Response | undefined {
    if (!isValid(sandboxName, name))
      return problem(400, 'The name of a sandbox must have 1 to 64 of A-Z, a-z, 0-9, _ and -.')
    return this.#options.openSandbox ? undefined : problem(400, noSandboxes)
  }

  /**
   * The sandbox is made when nothing else is left to refuse the request. What is refused before is recorded in the main
   * sandbox.
   */
  #openingHooks({ begin, ...hooks }: DispatchHooks): DispatchHooks {
    return {
      ...hooks,
      ...(begin && { beginLate: begin }),
      accept: (context) => {
        const sandbox = this.#openFor(context)
        if ('status' in sandbox) return sandbox
        context.space = sandbox
        context.record = begin?.(context)
        return undefined
      },
    }
  }

  #openFor(context: RequestContext): Sandbox | Response {
    if (isFromOtherSite(context, this.#options.settings.cors))
      return problem(403, 'Pages of other sites may not create a sandbox: --cors allows their origin.')
    // The request names one: otherwise the main sandbox handles it.
    const name = targetOf(context.request).name as string
    // Another request may have made it meanwhile.
    return this.#find(name) ?? this.#open(name, context.method === 'GET' || context.method === 'HEAD')
  }

  #open(name: string, isEmpty: boolean): Sandbox | Response {
    const { maxSandboxes, openSandbox } = this.#options
    if (this.#sandboxes.size >= maxSandboxes && !this.#dropOne(isEmpty))
      return problem(503, `All ${maxSandboxes} sandboxes are in use: wait a minute.`)
    const items = openSandbox?.()
    if (items === undefined || items === 'memory-limit')
      return problem(503, 'There is no memory for another sandbox: raise --max-memory, or lower --sandbox-ttl.')
    const sandbox = this.#create(items, name)
    this.#sandboxes.set(name, sandbox)
    return sandbox
  }

  /** Drops the least recently used sandbox, but for an empty one none that somebody would miss. */
  #dropOne(forEmpty: boolean): boolean {
    const isMissed = ({ usedAt, hasChanged }: Sandbox) => hasChanged && this.#monotonicNow() - usedAt < keptMs
    const found = [...this.#sandboxes].find(([, sandbox]) => !forEmpty || !isMissed(sandbox))
    if (found) this.#drop(...found)
    return found !== undefined
  }

  #drop(name: string, sandbox: Sandbox): void {
    sandbox.dispose()
    this.#sandboxes.delete(name)
  }

  #dropExpired(): void {
    const now = this.#monotonicNow()
    for (const [name, sandbox] of this.#sandboxes)
      if (now - sandbox.usedAt >= this.#options.sandboxTtlMs) this.#drop(name, sandbox)
  }
}

const controlSettings = (
  { settings, verifyToken, maxBodyBytes }: ControlOptions,
  space: Sandbox,
): DispatchSettings => ({
  ...settings,
  space,
  hooks: controlAccess,
  cors: [],
  reportOrigin: () => {},
  maxBodyBytes,
  maxJsonValues,
  verifyToken: requireScope(verifyToken, controlScope),
  log: {
    ...settings.log,
    // The page reads the items and rules again after each change, so only failures are logged.
    request(profile, context, response, milliseconds) {
      if (Number(response.status) >= 400) settings.log.request(profile, context, response, milliseconds)
    },
  },
})

/** Tells whether a page of an origin that is not allowed sent this. One that cannot read the response sends no Origin. */
function isFromOtherSite(context: RequestContext, cors: CorsPolicy): boolean {
  const origin = context.request.header('origin')
  if (origin === undefined) return context.request.header('sec-fetch-site') === 'cross-site'
  return origin !== ownOrigin(context) && !isOriginAllowed(origin, cors)
}

/** The sandbox that a request names, if it does, by the prefix of its path or by a header; and the path behind the prefix. */
function targetOf(request: Request) {
  const { target } = request
  // An absolute-form target has an authority.
  const whole = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '')
  const [prefix = '', name = request.header(sandboxHeader)] = sandboxPrefix.exec(whole) ?? []
  return { prefix, name, path: whole.slice(prefix.length) }
}
