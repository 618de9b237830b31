import { requireScope } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import { type CorsPolicy, isOriginAllowed } from '../http/cors.ts'
import {
  type Api,
  type ApiHandler,
  type DispatchHooks,
  type DispatchSettings,
  type HttpHandler,
  httpHandler,
} from '../http/dispatch.ts'
import type { Ending, Request } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { ObjectSchema } from '../http/schema.ts'
import {
  type Controlled,
  type ControlledItems,
  controlAccess,
  controlApi,
  controlScope,
  ownOrigin,
  type SignToken,
} from './api.ts'
import { type CodeSettings, Codes } from './codes.ts'
import { controlPattern, type FaultSettings, Faults, problem } from './faults.ts'
import { itemChange, Journal, JournalBudget, type Outcome, type RulesOf } from './journal.ts'
import { type ItemChange, isValid, type ProfileInfo, sandboxName } from './schema.ts'

export interface SandboxItems extends ControlledItems {
  /** The profile serves this on these items. */
  readonly api: Api
  /** Returns the memory of the items. */
  dispose(): void
}

export interface ControlOptions {
  readonly items: SandboxItems
  /** Undefined where there are no sandboxes, because the items are not in memory. */
  readonly openSandbox: (() => SandboxItems | 'memory-limit') | undefined
  readonly itemSchema: ObjectSchema
  readonly rulesOf: RulesOf
  readonly settings: DispatchSettings
  /** Checks the tokens of the control API. */
  readonly verifyToken: DispatchSettings['verifyToken']
  /** Returns what GET /__admin/info shows about the service. */
  readonly info: () => ProfileInfo
  /** Each start of the service has another one. */
  readonly instance: string
  readonly newToken: SignToken | undefined
  readonly codes: Omit<CodeSettings, 'monotonicNow'>
  readonly faults: Omit<FaultSettings, 'countRules'>
  readonly maxSandboxes: number
  readonly sandboxTtlMs: number
  /** A body for the control API may have this size. */
  readonly maxBodyBytes: number
  readonly now: () => Date
}

export interface Control extends HttpHandler {
  /** Requests that name no sandbox work on this. */
  readonly main: Controlled
  /** Returns the sandbox of this name, a new one where there is none, or the response that says why there can be none. */
  sandbox(name: string): Controlled | Response
  /** Ends the streams of events. */
  close(): void
}

interface Sandbox extends Controlled {
  /** Handles requests to the profile. */
  readonly service: ApiHandler
  /** Handles requests to the control API and its page. */
  readonly control: ApiHandler
  usedAt: number
  /** Returns whether its items are others than at the start. */
  readonly hasChanged: () => boolean
  dispose(): void
}

const sandboxHeader = 'x-todo-sandbox'
const sandboxPrefix = /^\/(?:~|%7e)([^/?]*)/i
const noSandboxes =
  'There are no sandboxes, because the items are not in memory: start without --data and --database-url.'
/** A body may have this many members and elements, more than the items that it may contain. */
const maxJsonValues = 1_000_000
/** A sandbox whose items have changed is kept for a minute before an empty one takes its place. */
const keptMs = 60_000

/** Serves a profile in development: with sandboxes, faults, a journal of requests, and the API that controls them. */
export function control(options: ControlOptions): Control {
  const { openSandbox, settings, maxSandboxes, sandboxTtlMs, maxBodyBytes } = options
  const { monotonicNow, log } = settings
  const budget = new JournalBudget()
  const codes = new Codes({ ...options.codes, monotonicNow })
  let opened = 0
  const main = sandboxOf(options.items)
  /** The least recently used one is the first. */
  const sandboxes = new Map<string, Sandbox>()
  const sweep = setInterval(dropExpired, Math.min(sandboxTtlMs, 10_000))
  sweep.unref()

  function sandboxOf(items: SandboxItems, name?: string): Sandbox {
    const { api } = items
    const instance = `${options.instance}-${++opened}`
    const journal = new Journal(budget, options.now, options.rulesOf)
    const faults = new Faults(api, { ...options.faults, countRules }, () => journal.notify('faults'))
    let hasChanged = false
    const hooks: DispatchHooks = {
      findFault: (context, route) => faults.find(context, route),
      begin(context) {
        const entry = journal.begin(context)
        let response: Response | undefined
        let item: ItemChange | undefined
        let hasEnded = false
        context.request.onEnd((how) => {
          hasEnded = true
          const milliseconds = monotonicNow() - context.startedAt
          const outcome = outcomeOf(context, response, how, milliseconds)
          const { state, status, reason } = outcome
          log.request(api.name, context, { status: status ?? state, reason }, milliseconds)
          if (entry) journal.end(entry, response, item ? { ...outcome, item } : outcome, milliseconds)
        })
        return (sent) => {
          response = sent
          item = itemChange(context, sent)
          hasChanged ||= item !== undefined
          // Its client did not wait for it.
          if (item && hasEnded && entry) journal.changed(entry, item)
        }
      },
    }
    const controlled: Controlled = {
      journal,
      faults,
      itemSchema: options.itemSchema,
      list: items.list,
      info: () => ({
        ...options.info(),
        instance,
        sandbox: name,
        sandboxes: openSandbox && [...sandboxes.keys()],
        hasChanged,
      }),
      newToken: options.newToken,
      codes,
      clearJournal() {
        journal.clear()
        journal.notify('clear')
      },
      async reset() {
        const outcome = await items.reset()
        if (outcome !== 'replaced') return outcome
        hasChanged = false
        faults.reset()
        controlled.clearJournal()
        journal.notify('reset')
        return outcome
      },
      async putItems(sent, ifMatch) {
        const outcome = await items.putItems(sent, ifMatch)
        if (outcome !== 'replaced') return outcome
        hasChanged = true
        journal.notify('reset')
        return outcome
      },
    }
    const controlSettings: DispatchSettings = {
      ...settings,
      cors: [],
      reportOrigin: () => {},
      hooks: controlAccess,
      maxBodyBytes,
      maxJsonValues,
      verifyToken: requireScope(options.verifyToken, controlScope),
      log: {
        ...log,
        // The page reads the items and rules again after each change, so only failures are logged.
        request(profile, context, response, milliseconds) {
          if (Number(response.status) >= 400) log.request(profile, context, response, milliseconds)
        },
      },
    }
    return {
      ...controlled,
      service: httpHandler(api, { ...settings, hooks }),
      control: httpHandler(controlApi(api, controlled), controlSettings),
      usedAt: monotonicNow(),
      hasChanged: () => hasChanged,
      dispose() {
        journal.close()
        items.dispose()
      },
    }
  }

  function countRules(): number {
    return [main, ...sandboxes.values()].reduce((sum, { faults }) => sum + faults.count, 0)
  }

  function findSandbox(name: string): Sandbox | undefined {
    const sandbox = sandboxes.get(name)
    if (!sandbox) return undefined
    sandbox.usedAt = monotonicNow()
    sandboxes.delete(name)
    sandboxes.set(name, sandbox)
    return sandbox
  }

  /** Says why there can be no sandbox of this name. */
  function findProblem(name: string): Response | undefined {
    if (!isValid(sandboxName, name))
      return problem(400, 'The name of a sandbox must have 1 to 64 of A-Z, a-z, 0-9, _ and -.')
    return openSandbox ? undefined : problem(400, noSandboxes)
  }

  function newSandboxFor(context: RequestContext, name: string): Sandbox | Response {
    if (isFromOtherSite(context, settings.cors))
      return problem(403, 'Pages of other sites may not create a sandbox: --cors allows their origin.')
    return newSandbox(name, context.method === 'GET' || context.method === 'HEAD')
  }

  function newSandbox(name: string, isEmpty: boolean): Sandbox | Response {
    if (sandboxes.size >= maxSandboxes && !dropOne(isEmpty))
      return problem(503, `All ${maxSandboxes} sandboxes are in use: wait a minute.`)
    const items = openSandbox?.()
    if (items === undefined || items === 'memory-limit')
      return problem(503, 'There is no memory for another sandbox: raise --max-memory, or lower --sandbox-ttl.')
    const sandbox = sandboxOf(items, name)
    sandboxes.set(name, sandbox)
    return sandbox
  }

  /** Drops the least recently used sandbox, but for an empty one none that somebody would miss. */
  function dropOne(forEmpty: boolean): boolean {
    const isMissed = ({ usedAt, hasChanged }: Sandbox) => hasChanged() && monotonicNow() - usedAt < keptMs
    const found = [...sandboxes].find(([, sandbox]) => !forEmpty || !isMissed(sandbox))
    if (found) drop(...found)
    return found !== undefined
  }

  function drop(name: string, sandbox: Sandbox): void {
    sandbox.dispose()
    sandboxes.delete(name)
  }

  function dropExpired(): void {
    for (const [name, sandbox] of sandboxes) if (monotonicNow() - sandbox.usedAt >= sandboxTtlMs) drop(name, sandbox)
  }

  return {
    main,
    sandbox: (name) => findSandbox(name) ?? findProblem(name) ?? newSandbox(name, false),
    dispatch(request) {
      const path = pathOf(request)
      const [prefix = '', prefixName] = sandboxPrefix.exec(path) ?? []
      const name = prefixName ?? request.header(sandboxHeader)
      const part = controlPattern.test(path.slice(prefix.length)) ? 'control' : 'service'
      const found = name === undefined || request.protocolError ? main : findSandbox(name)
      const rejection = found || name === undefined ? undefined : findProblem(name)
      if (found) found[part].dispatch(request, prefix)
      else if (rejection) main.service.reject(request, rejection)
      else
        main[part].dispatch(request, prefix, (context) => {
          const created = newSandboxFor(context, name as string)
          return 'status' in created ? created : created[part]
        })
    },
    malformed: main.service.malformed,
    close() {
      clearInterval(sweep)
      for (const { journal } of [main, ...sandboxes.values()]) journal.close()
    },
  }
}

/** Tells how a request ended. */
function outcomeOf(
  context: RequestContext,
  response: Response | undefined,
  how: Ending,
  milliseconds: number,
): Outcome {
  const { fault } = context
  const seconds = `${Number((milliseconds / 1000).toPrecision(2))} s`
  if (how === 'aborted') {
    const missed = response ? `, before the end of the response (${response.status})` : ''
    return { state: how, status: null, reason: `The client closed the connection after ${seconds}${missed}.` }
  }
  const cause = response && fault?.simulatedBy
  const simulated = cause !== undefined && { reason: `simulated by ${cause}`, isSimulated: true as const }
  if (response && (how === 'sent' || fault?.outcome === 'truncate')) {
    const { status, reason } = response
    return { state: 'sent', status, ...(reason !== undefined && { reason }), ...simulated }
  }
  return { state: 'closed', status: null, reason: `The service closed the connection after ${seconds}.`, ...simulated }
}

/** Tells whether a page of an origin that is not allowed sent this. One that cannot read the response sends no Origin. */
function isFromOtherSite(context: RequestContext, cors: CorsPolicy): boolean {
  const origin = context.request.header('origin')
  if (origin === undefined) return context.request.header('sec-fetch-site') === 'cross-site'
  return origin !== ownOrigin(context) && !isOriginAllowed(origin, cors)
}

/** Returns the path of the request target, without the authority of an absolute one. */
const pathOf = ({ target }: Request) => (target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, ''))
