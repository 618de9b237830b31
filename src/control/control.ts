import { type Api, type ApiHandler, type DispatchSettings, type HttpHandler, httpHandler } from '../http/dispatch.ts'
import type { Request } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { FromSchema, ObjectSchema } from '../http/schema.ts'
import type { Log } from '../log.ts'
import type { Awaitable, ListRepresentation } from '../store/store.ts'
import { adminAccess, adminApi, type Controlled, type ReplaceOutcome } from './admin.ts'
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
  readonly admin: HttpHandler
  usedAt: number
  dispose(): void
}

const sandboxHeader = 'x-todo-sandbox'
/** The control API, and the page that uses it. */
const adminPattern = /^\/(?:__admin|app)(?:[/?]|$)/i
const sandboxName = /^[\w-]{1,64}$/
const sandboxPrefix = /^\/(?:~|%7e)([^/?]*)/i
/** Members and elements of a body: enough for `maxItems` items. */
const maxValues = 200_000

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
    const hooks = {
      findFault: faults.find.bind(faults),
      record: journal.record.bind(journal),
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
        controlled.setFaults([])
        controlled.clearJournal()
        journal.notify('reset')
        return outcome
      },
      async putItems(sent) {
        const outcome = await items.putItems(sent)
        if (outcome === 'replaced') journal.notify('reset')
        return outcome
      },
    }
    const adminSettings = {
      ...settings,
      verifyToken: options.verifyToken,
      cors: [],
      noticeOrigin: () => {},
      maxBodyBytes: options.maxBodyBytes,
      maxJsonValues: maxValues,
      hooks: adminAccess,
      log: { ...settings.log, request: logFailure(settings.log) },
    }
    return {
      ...controlled,
      handler: httpHandler(api, { ...settings, hooks }),
      admin: httpHandler(adminApi(api, controlled), adminSettings),
      usedAt: monotonicNow(),
      dispose() {
        journal.close()
        items.dispose()
      },
    }
  }

  function sandboxNamed(name: string, open: NonNullable<typeof openSandbox>): Sandbox | 'memory-limit' {
    const sandbox = sandboxes.get(name) ?? newSandbox(open, name)
    if (sandbox === 'memory-limit') return sandbox
    sandbox.usedAt = monotonicNow()
    sandboxes.delete(name)
    sandboxes.set(name, sandbox)
    return sandbox
  }

  function newSandbox(open: NonNullable<typeof openSandbox>, name: string): Sandbox | 'memory-limit' {
    const [oldest] = sandboxes.keys()
    if (sandboxes.size >= maxSandboxes && oldest !== undefined) drop(oldest)
    const items = open()
    return items === 'memory-limit' ? items : sandboxOf(items, name)
  }

  function findSandbox(name: string): Sandbox | Response {
    if (!sandboxName.test(name))
      return problem(400, 'The name of a sandbox must have 1 to 64 of A-Z, a-z, 0-9, _ and -.')
    if (!openSandbox)
      return problem(
        400,
        'There are no sandboxes, because the items are not in memory: start without --data and --database-url.',
      )
    const sandbox = sandboxNamed(name, openSandbox)
    return sandbox === 'memory-limit'
      ? problem(503, 'There is no memory for another sandbox: raise --max-memory, or lower --sandbox-ttl.')
      : sandbox
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
      const sandbox = name === undefined || request.protocolError ? main : findSandbox(name)
      if ('status' in sandbox) main.handler.reject(request, sandbox)
      else if (adminPattern.test(path.slice(prefix.length))) sandbox.admin.dispatch(request, prefix)
      else sandbox.handler.dispatch(request, prefix)
    },
    malformed: main.handler.malformed,
    close() {
      clearInterval(sweep)
      main.journal.close()
      for (const { journal } of sandboxes.values()) journal.close()
    },
  }
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
