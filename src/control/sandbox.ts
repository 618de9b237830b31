import { requireScope } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import { type Api, type ApiHandler, type DispatchHooks, type DispatchSettings, httpHandler } from '../http/dispatch.ts'
import type { Ending } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { Route } from '../http/router.ts'
import type { IfMatch, ReplaceOutcome } from '../store/store.ts'
import {
  type ControlApiSettings,
  type Controlled,
  type ControlledItems,
  controlAccess,
  controlApi,
  controlScope,
  type ItemBodies,
} from './api.ts'
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
export interface SandboxSettings extends ControlApiSettings {
  readonly rulesOf: RulesOf
  readonly settings: DispatchSettings
  /** Checks the tokens of the control API. */
  readonly verifyToken: DispatchSettings['verifyToken']
  /** A body for the control API may have this size. */
  readonly maxBodyBytes: number
  readonly faults: FaultSettings
  readonly budget: JournalBudget
  readonly now: () => Date
}

/** What a request is for: the profile, or the control of its sandbox. */
export type SandboxPart = 'service' | 'control'

interface ServedPart {
  readonly api: Api
  readonly hooks: DispatchHooks
  readonly settings: DispatchSettings
  readonly handler: ApiHandler
}

/** A body may have this many members and elements, more than the items that it may contain. */
const maxJsonValues = 1_000_000

/** A set of items with faults and a journal of its own, and the API that controls them. */
export class Sandbox implements Controlled {
  readonly journal: Journal
  readonly faults: Faults
  readonly parts: Readonly<Record<SandboxPart, ServedPart>>
  usedAt: number
  /** Whether its items are others than at the start. */
  hasChanged = false
  readonly #items: SandboxItems
  readonly #shared: SandboxSettings
  readonly #info: () => Omit<SandboxInfo, 'hasChanged'>

  constructor(items: SandboxItems, shared: SandboxSettings, info: () => Omit<SandboxInfo, 'hasChanged'>) {
    const { settings, budget, now, rulesOf } = shared
    this.#items = items
    this.#shared = shared
    this.#info = info
    this.usedAt = settings.monotonicNow()
    this.journal = new Journal(budget, now, rulesOf)
    this.faults = new Faults(items.api, shared.faults, () => this.journal.notify('faults'))
    const hooks: DispatchHooks = {
      findFault: (context, route) => this.faults.find(context, route),
      begin: (context) => this.#record(context),
    }
    this.parts = {
      service: servedPart(items.api, settings, hooks),
      control: servedPart(controlApi(items.api, this, shared), controlDispatchSettings(shared), controlAccess),
    }
  }

  /**
   * Handles requests to sandboxes that do not exist yet, by the settings of this one: `open` makes the sandbox, or says why
   * there can be none, when nothing else is left to refuse the request.
   */
  opening(part: SandboxPart, open: (context: RequestContext) => Sandbox | Response): ApiHandler {
    const { api, hooks, settings } = this.parts[part]
    const opened = new WeakMap<object, ServedPart>()
    const openedFor = (context: object = {}) => opened.get(context) as ServedPart
    // All sandboxes of a profile have the same routes in the same order.
    const routeOf = (context: object | undefined, index: number) => openedFor(context).api.routes[index] as Route
    // The reader of a rule counts those of its own sandbox.
    const readerOf = (context: object | undefined, index: number) =>
      routeOf(context, index).readBody as NonNullable<Route['readBody']>
    const routes = api.routes.map(
      (route, index): Route => ({
        ...route,
        ...(route.readBody && { readBody: (text, sent) => readerOf(sent, index)(text, sent) }),
        execute: (input) => routeOf(input, index).execute(input),
        respond: (outcome, input) => routeOf(input, index).respond(outcome, input),
      }),
    )
    const accept = (context: RequestContext) => {
      const sandbox = open(context)
      if ('status' in sandbox) return sandbox
      opened.set(context, sandbox.parts[part])
      context.record = sandbox.parts[part].hooks.begin?.(context)
      return undefined
    }
    const findFault: DispatchHooks['findFault'] = (context, route) =>
      openedFor(context).hooks.findFault(context, routeOf(context, routes.indexOf(route)))
    // What is refused before it opens a sandbox is recorded in this one.
    const { begin, ...rest } = hooks
    const openingHooks = { ...rest, ...(begin && { beginLate: begin }), accept, findFault }
    return httpHandler({ ...api, routes }, { ...settings, hooks: openingHooks })
  }

  info(): SandboxInfo {
    return { ...this.#info(), hasChanged: this.hasChanged }
  }

  list() {
    return this.#items.list()
  }

  async reset(): Promise<ReplaceOutcome> {
    const outcome = await this.#items.reset()
    if (outcome !== 'replaced') return outcome
    this.hasChanged = false
    this.faults.reset()
    this.clearJournal()
    this.journal.notify('reset')
    return outcome
  }

  async putItems(sent: ItemBodies, ifMatch?: IfMatch): Promise<ReplaceOutcome> {
    const outcome = await this.#items.putItems(sent, ifMatch)
    if (outcome !== 'replaced') return outcome
    this.hasChanged = true
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
      this.hasChanged ||= item !== undefined
      // Its client did not wait for it.
      if (item && hasEnded && entry) this.journal.changed(entry, item)
    }
  }
}

function servedPart(api: Api, shared: DispatchSettings, hooks: DispatchHooks): ServedPart {
  const settings = { ...shared, hooks }
  return { api, hooks, settings, handler: httpHandler(api, settings) }
}

const controlDispatchSettings = ({ settings, verifyToken, maxBodyBytes }: SandboxSettings): DispatchSettings => ({
  ...settings,
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
