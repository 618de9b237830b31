import { requireScope } from '../http/auth.ts'
import { type CorsPolicy, isOriginAllowed } from '../http/cors.ts'
import {
  type Api,
  type ApiHandler,
  type DispatchHooks,
  type DispatchSettings,
  type HttpHandler,
  httpHandler,
} from '../http/dispatch.ts'
import type { Request, RequestContext } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { FromSchema, ObjectSchema } from '../http/schema.ts'
import type { Log } from '../log.ts'
import type { Awaitable, ListRepresentation } from '../store/store.ts'
import { type Controlled, controlAccess, controlApi, ownOrigin, type ReplaceOutcome } from './api.ts'
import { type FaultSettings, Faults, problem } from './faults.ts'
import { Journal, JournalBudget, type RuleOf } from './journal.ts'

/** The items of a sandbox, whatever the profile. */
export interface SandboxItems {
  list(): Awaitable<ListRepresentation>
  /** The starting items. */
  reset(): Awaitable<ReplaceOutcome>
  putItems(items: readonly FromSchema<ObjectSchema>[]): Awaitable<ReplaceOutcome>
  /** What the profile serves on these items. */
  readonly api: Api
  /** Returns the memory of the items. */
  dispose(): void
}

export interface ControlOptions {
  readonly items: SandboxItems
  /** Undefined where there can be no sandboxes: the items are not in memory. */
  readonly openSandbox: (() => SandboxItems | 'memory-limit') | undefined
  readonly itemSchema: ObjectSchema
  readonly ruleOf: RuleOf
  readonly settings: DispatchSettings
  /** For the control API. */
  readonly verifyToken: DispatchSettings['verifyToken']
  /** For GET /__admin/info. */
  readonly info: () => object
  /** Another one after each start. */
  readonly instance: string
  readonly newToken: (() => Promise<string>) | undefined
  readonly faults: FaultSettings
  readonly maxSandboxes: number
  readonly sandboxTtlMs: number
  /** Of a body for the control API. */
  readonly maxBodyBytes: number
  readonly now: () => Date
}

export interface Control extends HttpHandler {
  /** Without a sandbox. */
  readonly main: Controlled
  /** Ends the streams of events. */
  close(): void
}

interface Sandbox extends Controlled {
  readonly handler: ApiHandler
  readonly control: ApiHandler
  usedAt: number
  /** Whether its items are others than at the start. */
  readonly hasChanged: () => boolean
  dispose(): void
}

const sandboxHeader = 'x-todo-sandbox'
/** Of tokens for the control API. */
const controlScope = 'control'
/** The control API, and the page that uses it. */
const controlPattern = /^\/(?:__admin|app)(?:[/?]|$)/i
const sandboxName = /^[\w-]{1,64}$/
const sandboxPrefix = /^\/(?:~|%7e)([^/?]*)/i
/** Members and elements of a body: more than the items have that it may contain. */
const maxValues = 1_000_000
/** A sandbox whose items have changed is kept for a minute before an empty one takes its place. */
const keptMs = 60_000

/** Serves a profile in development: with sandboxes, faults, a journal of requests, and the API that controls them. */
export function control(options: ControlOptions): Control {
  const { openSandbox, settings, maxSandboxes, sandboxTtlMs } = options
  const { monotonicNow } = settings
  const budget = new JournalBudget()
  let opened = 0
  const main = sandboxOf(options.items)
  /** Least recently used first. */
  const sandboxes = new Map<string, Sandbox>()
  const sweep = setInterval(dropExpired, Math.min(sandboxTtlMs, 10_000))
  sweep.unref()

  function sandboxOf(items: SandboxItems, name?: string): Sandbox {
    const { api } = items
    const instance = `${options.instance}-${++opened}`
    const journal = new Journal(budget, options.now, options.ruleOf)
    const faults = new Faults(api, options.faults)
    let hasChanged = false
    const hooks: DispatchHooks = {
      findFault: faults.find.bind(faults),
      record(context, response, milliseconds) {
        hasChanged ||= ['POST', 'PUT', 'DELETE'].includes(context.method) && response.status < 300
        journal.record(context, response, milliseconds)
      },
    }
    const controlled: Controlled = {
      journal,
      faults,
      itemSchema: options.itemSchema,
      list: items.list,
      info: () => ({ ...options.info(), instance, sandbox: name, sandboxes: openSandbox && [...sandboxes.keys()] }),
      newToken: options.newToken,
      setFaults(rules) {
        faults.set(rules)
        journal.notify('faults')
      },
      clearJournal() {
        journal.clear()
        journal.notify('clear')
      },
      async reset() {
        const outcome = await items.reset()
        if (outcome !== 'replaced') return outcome
        hasChanged = false
        controlled.setFaults([])
        controlled.clearJournal()
        journal.notify('reset')
        return outcome
      },
      async putItems(sent) {
        const outcome = await items.putItems(sent)
        if (outcome !== 'replaced') return outcome
        hasChanged = true
        journal.notify('reset')
        return outcome
      },
    }
    const controlSettings = {
      ...settings,
      verifyToken: requireScope(options.verifyToken, controlScope),
      cors: [],
      noticeOrigin: () => {},
      maxBodyBytes: options.maxBodyBytes,
      maxJsonValues: maxValues,
      hooks: controlAccess,
      log: { ...settings.log, request: logFailure(settings.log) },
    }
    return {
      ...controlled,
      handler: httpHandler(api, { ...settings, hooks }),
      control: httpHandler(controlApi(api, controlled), controlSettings),
      usedAt: monotonicNow(),
      hasChanged: () => hasChanged,
      dispose() {
        journal.close()
        items.dispose()
      },
    }
  }

  /** Undefined: there is none of this name. */
  function findSandbox(name: string): Sandbox | undefined {
    const sandbox = sandboxes.get(name)
    if (!sandbox) return undefined
    sandbox.usedAt = monotonicNow()
    sandboxes.delete(name)
    sandboxes.set(name, sandbox)
    return sandbox
  }

  /** Why there can be no sandbox of this name. */
  function findProblem(name: string): Response | undefined {
    if (!sandboxName.test(name))
      return problem(400, 'The name of a sandbox must have 1 to 64 of A-Z, a-z, 0-9, _ and -.')
    if (!openSandbox)
      return problem(
        400,
        'There are no sandboxes, because the items are not in memory: start without --data and --database-url.',
      )
    return undefined
  }

  function newSandbox(name: string, context: RequestContext): Sandbox | Response {
    if (isFromOtherSite(context, settings.cors))
      return problem(403, 'Pages of other sites may not create a sandbox: --cors allows their origin.')
    const isEmpty = context.method === 'GET' || context.method === 'HEAD'
    if (sandboxes.size >= maxSandboxes && !dropOne(isEmpty))
      return problem(503, `All ${maxSandboxes} sandboxes are in use: wait a minute, or raise --max-sandboxes.`)
    const items = openSandbox?.()
    if (items === undefined || items === 'memory-limit')
      return problem(503, 'There is no memory for another sandbox: raise --max-memory, or lower --sandbox-ttl.')
    const sandbox = sandboxOf(items, name)
    sandboxes.set(name, sandbox)
    return sandbox
  }

  /** The least recently used one. Where an empty one is to take its place, not one that somebody would miss. */
  function dropOne(forEmpty: boolean): boolean {
    for (const [name, { usedAt, hasChanged }] of sandboxes) {
      if (forEmpty && hasChanged() && monotonicNow() - usedAt < keptMs) continue
      drop(name)
      return true
    }
    return false
  }

  function drop(name: string): void {
    sandboxes.get(name)?.dispose()
    sandboxes.delete(name)
  }

  function dropExpired(): void {
    for (const [name, { usedAt }] of sandboxes) {
      if (monotonicNow() - usedAt < sandboxTtlMs) return
      drop(name)
    }
  }

  return {
    main,
    dispatch(request) {
      const path = pathOf(request)
      const match = path.charCodeAt(1) === tilde || path.charCodeAt(1) === percent ? sandboxPrefix.exec(path) : null
      const name = match ? match[1] : request.header(sandboxHeader)
      const prefix = match?.[0] ?? ''
      const part = controlPattern.test(path.slice(prefix.length)) ? 'control' : 'handler'
      const found = name === undefined || request.protocolError ? main : findSandbox(name)
      const rejection = found || name === undefined ? undefined : findProblem(name)
      if (found) found[part].dispatch(request, prefix)
      else if (rejection) main.handler.reject(request, rejection)
      else
        main[part].dispatch(request, prefix, (context) => {
          const created = newSandbox(name as string, context)
          return 'status' in created ? created : created[part]
        })
    },
    malformed: main.handler.malformed,
    close() {
      clearInterval(sweep)
      main.journal.close()
      for (const { journal } of sandboxes.values()) journal.close()
    },
  }
}

/** Whether a page sent the request whose origin may not use the service. A page that cannot read the response sends no Origin. */
function isFromOtherSite(context: RequestContext, cors: CorsPolicy): boolean {
  const origin = context.request.header('origin')
  if (origin === undefined) return context.request.header('sec-fetch-site') === 'cross-site'
  return origin !== ownOrigin(context) && !isOriginAllowed(origin, cors)
}

/** The page reads the items and rules again after each change. */
const logFailure =
  (log: Log): Log['request'] =>
  (profile, request, response, milliseconds) => {
    if (response.status >= 400) log.request(profile, request, response, milliseconds)
  }

const tilde = 0x7e
const percent = 0x25

/** Of the request target, without the authority of an absolute one. */
const pathOf = ({ target }: Request) => (target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, ''))
