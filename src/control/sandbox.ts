import { requireScope } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import { type Api, type ApiHandler, type DispatchHooks, type DispatchSettings, httpHandler } from '../http/dispatch.ts'
import type { Ending } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { Route } from '../http/router.ts'
import type { ObjectSchema } from '../http/schema.ts'
import type { IfMatch, ReplaceOutcome } from '../store/store.ts'
import {
  type Controlled,
  type ControlledItems,
  controlAccess,
  controlApi,
  controlScope,
  type ItemBodies,
  type SignToken,
} from './api.ts'
import type { Codes } from './codes.ts'
import { type FaultSettings, Faults } from './faults.ts'
import { itemChange, Journal, type JournalBudget, type RequestOutcome, type RulesOf } from './journal.ts'
import type { ItemChange, SandboxInfo } from './schema.ts'

export interface SandboxItems extends ControlledItems {
  /** The profile serves this on these items. */
  readonly api: Api
  /** Returns the memory of the items. */
  dispose(): void
}

/** What all sandboxes of a profile share. */
export interface SandboxSettings {
  readonly itemSchema: ObjectSchema
  readonly rulesOf: RulesOf
  readonly settings: DispatchSettings
  /** Checks the tokens of the control API. */
  readonly verifyToken: DispatchSettings['verifyToken']
  readonly newToken: SignToken | undefined
  /** A body for the control API may have this size. */
  readonly maxBodyBytes: number
  readonly faults: FaultSettings
  readonly codes: Codes
  readonly budget: JournalBudget
  readonly now: () => Date
}

/** What a request is for: the profile, or the control of its sandbox. */
export type SandboxPart = 'service' | 'control'

/** A body may have this many members and elements, more than the items that it may contain. */
const maxJsonValues = 1_000_000

/** A set of items with faults and a journal of its own, and the API that controls them. */
export class Sandbox implements Controlled {
  readonly journal: Journal
  readonly faults: Faults
  readonly itemSchema: ObjectSchema
  readonly newToken: SignToken | undefined
  readonly codes: Codes
  /** Handles requests to the profile, and to the control API and its page. */
  readonly handlers: Readonly<Record<SandboxPart, ApiHandler>>
  usedAt: number
  readonly #apis: Readonly<Record<SandboxPart, Api>>
  readonly #hooks: Readonly<Record<SandboxPart, DispatchHooks>> = {
    service: {
      findFault: (context, route) => this.faults.find(context, route),
      begin: (context) => this.#record(context),
    },
    control: controlAccess,
  }
  readonly #items: SandboxItems
  readonly #shared: SandboxSettings
  readonly #info: () => Omit<SandboxInfo, 'hasChanged'>
  #hasChanged = false

  constructor(items: SandboxItems, shared: SandboxSettings, info: () => Omit<SandboxInfo, 'hasChanged'>) {
    const { settings, budget, now, rulesOf } = shared
    this.#items = items
    this.#shared = shared
    this.#info = info
    this.itemSchema = shared.itemSchema
    this.newToken = shared.newToken
    this.codes = shared.codes
    this.usedAt = settings.monotonicNow()
    this.journal = new Journal(budget, now, rulesOf)
    this.faults = new Faults(items.api, shared.faults, () => this.journal.notify('faults'))
    this.#apis = { service: items.api, control: controlApi(items.api, this) }
    this.handlers = {
      service: httpHandler(this.#apis.service, this.#settingsOf('service')),
      control: httpHandler(this.#apis.control, this.#settingsOf('control')),
    }
  }

  /**
   * Handles requests to sandboxes that do not exist yet, by the settings of this one: `open` makes the sandbox, or says why
   * there can be none, when nothing else is left to refuse the request.
   */
  opening(part: SandboxPart, open: (context: RequestContext) => Sandbox | Response): ApiHandler {
    const opened = new WeakMap<object, Sandbox>()
    const { [part]: api } = this.#apis
    // All sandboxes of a profile have the same routes in the same order.
    const routeOf = (context: object, index: number) =>
      (opened.get(context) as Sandbox).#apis[part].routes[index] as Route
    // The reader of a rule counts those of its own sandbox.
    const readerOf = (context: object | undefined, index: number) =>
      routeOf(context ?? {}, index).readBody as NonNullable<Route['readBody']>
    const routes = api.routes.map(
      (route, index): Route => ({
        ...route,
        ...(route.readBody && { readBody: (text, sent) => readerOf(sent, index)(text, sent) }),
        execute: (input) => routeOf(input, index).execute(input),
        respond: (outcome, input) => routeOf(input, index).respond(outcome, input),
      }),
    )
    const hooksOf = (context: RequestContext) => (opened.get(context) as Sandbox).#hooks[part]
    const accept = (context: RequestContext) => {
      const sandbox = open(context)
      if ('status' in sandbox) return sandbox
      opened.set(context, sandbox)
      context.record = sandbox.#hooks[part].begin?.(context)
      return undefined
    }
    const findFault: DispatchHooks['findFault'] = (context, route) =>
      hooksOf(context).findFault(context, routeOf(context, routes.indexOf(route)))
    // What is refused before it opens a sandbox is recorded in this one.
    const { begin, ...rest } = this.#hooks[part]
    const hooks = { ...rest, ...(begin && { beginLate: begin }), accept, findFault }
    return httpHandler({ ...api, routes }, { ...this.#settingsOf(part), hooks })
  }

  /** Whether its items are others than at the start. */
  get hasChanged(): boolean {
    return this.#hasChanged
  }

  info(): SandboxInfo {
    return { ...this.#info(), hasChanged: this.#hasChanged }
  }

  list() {
    return this.#items.list()
  }

  async reset(): Promise<ReplaceOutcome> {
    const outcome = await this.#items.reset()
    if (outcome !== 'replaced') return outcome
    this.#hasChanged = false
    this.faults.reset()
    this.clearJournal()
    this.journal.notify('reset')
    return outcome
  }

  async putItems(sent: ItemBodies, ifMatch?: IfMatch): Promise<ReplaceOutcome> {
    const outcome = await this.#items.putItems(sent, ifMatch)
    if (outcome !== 'replaced') return outcome
    this.#hasChanged = true
    this.journal.notify('reset')
    return outcome
  }

  clearJournal(): void {
    this.journal.clear()
    this.journal.notify('clear')
  }

  dispose(): void {
    this.journal.close()
    this.#items.dispose()
  }

  #settingsOf(part: SandboxPart): DispatchSettings {
    const { [part]: hooks } = this.#hooks
    return part === 'control' ? this.#controlSettings(hooks) : { ...this.#shared.settings, hooks }
  }

  /** Adds the request to the journal, and to the log when it has ended. */
  #record(context: RequestContext): (outcome: Response | 'reset') => void {
    const { monotonicNow, log } = this.#shared.settings
    const { name } = this.#items.api
    const entry = this.journal.begin(context)
    let sent: Response | 'reset' | undefined
    let item: ItemChange | undefined
    let hasEnded = false
    context.request.onEnd((how) => {
      hasEnded = true
      const milliseconds = monotonicNow() - context.startedAt
      const outcome = outcomeOf(context, sent, how, milliseconds)
      const { state, status, reason } = outcome
      log.request(name, context, { status: status ?? state, reason }, milliseconds)
      const response = sent === 'reset' ? undefined : sent
      if (entry) this.journal.end(entry, response, item ? { ...outcome, item } : outcome, milliseconds)
    })
    return (outcome) => {
      sent = outcome
      if (outcome === 'reset') return
      item = itemChange(context, outcome)
      this.#hasChanged ||= item !== undefined
      // Its client did not wait for it.
      if (item && hasEnded && entry) this.journal.changed(entry, item)
    }
  }

  #controlSettings(hooks: DispatchHooks): DispatchSettings {
    const { settings, verifyToken, maxBodyBytes } = this.#shared
    const { log } = settings
    return {
      ...settings,
      cors: [],
      reportOrigin: () => {},
      hooks,
      maxBodyBytes,
      maxJsonValues,
      verifyToken: requireScope(verifyToken, controlScope),
      log: {
        ...log,
        // The page reads the items and rules again after each change, so only failures are logged.
        request(profile, context, response, milliseconds) {
          if (Number(response.status) >= 400) log.request(profile, context, response, milliseconds)
        },
      },
    }
  }
}

/** Tells how a request ended. */
function outcomeOf(
  context: RequestContext,
  sent: Response | 'reset' | undefined,
  how: Ending,
  milliseconds: number,
): RequestOutcome {
  const { fault } = context
  const response = sent === 'reset' ? undefined : sent
  const seconds = `${Number((milliseconds / 1000).toPrecision(2))} s`
  if (how === 'aborted') {
    const missed = response ? `, before the end of the response (${response.status})` : ''
    return { state: how, status: null, reason: `The client closed the connection after ${seconds}${missed}.` }
  }
  const cause = sent && fault?.simulatedBy
  const simulated = cause !== undefined && { reason: `simulated by ${cause}`, isSimulated: true as const }
  if (response && (how === 'sent' || fault?.outcome === 'truncate')) {
    const { status, reason } = response
    return { state: 'sent', status, ...(reason !== undefined && { reason }), ...simulated }
  }
  return { state: 'closed', status: null, reason: `The service closed the connection after ${seconds}.`, ...simulated }
}
