import type { HeldMemory } from '../common/held-memory.ts'
import type { NamedSchema } from '../common/schema.ts'
import type { NewToken } from '../common/token-request.ts'
import type { VerifyToken } from '../http/auth.ts'
import type { RequestContext, RequestRecorder } from '../http/context.ts'
import { describeBlocked } from '../http/cors.ts'
import type { Api, DispatchHooks, DispatchSettings } from '../http/dispatch.ts'
import type { Ending, Space } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import type { Route } from '../http/router.ts'
import {
  type Collection,
  type CollectionType,
  type Document,
  defaultSpace,
  type IfMatch,
  type ReplaceOutcome,
  UnavailableError,
} from '../store/store.ts'
import type { Codes } from './codes.ts'
import { type AppliedFault, delay, sendWithFault } from './effects.ts'
import { type FaultSettings, Faults } from './faults.ts'
import { itemChange, Journal, type JournalBudget, type RequestOutcome, type RulesOf, Use } from './journal.ts'
import type { ItemChange, ProfileInfo, SpaceMode } from './schema.ts'

/** The settings of the control of a profile. */
export interface ControlSettings {
  readonly api: Api
  /** How requests to the profile are handled. */
  readonly settings: Omit<DispatchSettings, 'space'>
  /** Checks tokens for the control API. */
  readonly verifyToken: VerifyToken
  /** The largest body that the control API accepts. */
  readonly maxBodyBytes: number
  readonly now: () => Date
  readonly faults: Omit<FaultSettings, 'countFaults'>
  readonly rulesOf: RulesOf
  readonly spaces: SpaceMode
  readonly maxSpaces: number
  readonly spaceTtlMs: number
  /** An item as clients send it. */
  readonly itemSchema: NamedSchema
  readonly collection: CollectionType
  /** Turns items into documents, as they are stored. */
  readonly documentsOf: (items: readonly object[]) => Document[]
  readonly itemsOf: (space: string) => Collection
  /** Whether a space that no profile uses any more is deleted with its items. */
  readonly hasTemporarySpaces: boolean
  /** Called when the journal and the faults of a space were dropped. */
  readonly onForgotten: (space: string) => void
  /** Returns the number of items of this profile in each space that was written to. */
  readonly countItems: () => Promise<ReadonlyMap<string, number | undefined>>
  /** Deletes the space from the store; this calls `forget` in the control of each profile. */
  readonly deleteItems: (space: string) => Promise<void>
  /** Returns how often a space of this name was deleted. */
  readonly deletionsOf: (space: string) => number
  readonly info: () => ProfileInfo
  /** An id that is new with each start of the service. */
  readonly instance: string
  readonly newToken: NewToken | undefined
  readonly codes: Codes
  /** The memory of delayed requests and of responses that clients read slowly. */
  readonly held: HeldMemory
}

/** What the spaces of a profile share. */
export interface SpaceSettings extends ControlSettings {
  readonly faults: FaultSettings
  readonly budget: JournalBudget
  readonly onFaultsChange: () => void
}

/** A space with its faults and its journal, on which the control API works. */
export class ControlledSpace implements Space {
  readonly name: string
  readonly instance: string
  readonly journal: Journal
  readonly faults: Faults
  usedAt: number
  /** Whether an item was written since the start or the last reset. */
  hasChanged = false
  /** The default space never ends, so it is opened once. */
  readonly #always: Collection | undefined
  #isDisposed = false
  readonly #shared: SpaceSettings

  constructor(name: string, instance: string, shared: SpaceSettings) {
    const { api, settings, budget, now, rulesOf } = shared
    this.name = name
    this.instance = instance
    this.#always = name === defaultSpace ? shared.itemsOf(name) : undefined
    this.#shared = shared
    this.usedAt = settings.monotonicNow()
    this.journal = new Journal(budget, now, rulesOf)
    this.faults = new Faults(api, shared.faults, () => {
      this.journal.notify('faults')
      shared.onFaultsChange()
    })
  }

  get items(): Collection {
    const { hasTemporarySpaces, itemsOf } = this.#shared
    // The request was delayed until its space had ended. Opening the space would create it again, and nobody uses it.
    if (this.#isDisposed && hasTemporarySpaces) throw new UnavailableError('The space has ended.')
    return this.#always ?? itemsOf(this.name)
  }

  /** Restores the items and the faults of the start, and empties the journal. */
  async reset(): Promise<ReplaceOutcome> {
    const outcome = await this.items.replaceAll(this.#shared.collection.startingDocuments)
    if (outcome !== 'replaced') return outcome
    this.hasChanged = false
    this.faults.reset()
    this.journal.use = new Use()
    this.clearJournal()
    this.journal.notify('reset')
    return outcome
  }

  async putItems(sent: readonly object[], ifMatch?: IfMatch): Promise<ReplaceOutcome> {
    const outcome = await this.items.replaceAll(this.#shared.documentsOf(sent), ifMatch)
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
    this.#isDisposed = true
  }

  /** Adds the request to the journal, and logs it when it has ended. */
  record(context: RequestContext): RequestRecord {
    return new RequestRecord(this, context, this.#shared)
  }

  /** Delays the handler of a request, or responds in its place, as faults and preferences demand. */
  intercept(context: RequestContext, route: Route, next: Parameters<Intercept>[2]): void {
    const fault = this.faults.find(context, route)
    if (!fault) {
      next()
      return
    }
    const proceed = (remaining: AppliedFault) => {
      const { outcome } = remaining
      recordOf(context).fault = remaining
      next(typeof outcome === 'object' || outcome === 'reset' ? outcome : undefined)
    }
    if (fault.delayMs === 0) {
      proceed(fault)
      return
    }
    recordOf(context).fault = fault
    const size = { bodyBytes: context.bodyBytes?.length ?? 0, isRead: route.method === 'GET' }
    delay(context.request, fault, size, this.#shared.held, proceed)
  }
}

type Intercept = NonNullable<DispatchHooks['intercept']>

/** Records a request: adds an entry to the journal when it begins, and a line to the log when it ends. */
export class RequestRecord implements RequestRecorder {
  #fault: AppliedFault | undefined
  #sent: Response | undefined
  #item: ItemChange | undefined
  #hasEnded = false
  readonly #space: ControlledSpace
  readonly #context: RequestContext
  readonly #entry: ReturnType<Journal['begin']>

  constructor(space: ControlledSpace, context: RequestContext, { api, settings }: SpaceSettings) {
    const { monotonicNow, log } = settings
    this.#space = space
    this.#context = context
    this.#entry = space.journal.begin(context)
    context.request.onEnd((how) => {
      this.#hasEnded = true
      const milliseconds = monotonicNow() - context.startedAt
      const outcome = this.#outcomeOf(how, milliseconds)
      const { state, status, reason } = outcome
      log.request(api.name, context, { status: status ?? state, reason }, milliseconds)
      const item = this.#item && { item: this.#item }
      if (this.#entry) space.journal.end(this.#entry, this.#sent, { ...outcome, ...item }, milliseconds)
    })
  }

  get fault(): AppliedFault | undefined {
    return this.#fault
  }

  set fault(fault: AppliedFault) {
    this.#fault = fault
    if (this.#entry) this.#entry.fault = fault
  }

  /** Sends the response with the effects of the fault, and returns it as the journal shows it. */
  sendWithFault(response: Response, fault: AppliedFault, held: HeldMemory): Response {
    const sent = sendWithFault(this.#context.request, response, fault, held)
    this.fault = sent.fault
    return sent.response
  }

  takeResponse(response: Response): void {
    const item = itemChange(this.#context, response)
    this.#sent = response
    this.#item = item
    this.#space.hasChanged ||= item !== undefined
    // The client left before the response, so the entry has ended without the changed item.
    if (item && this.#hasEnded && this.#entry) this.#space.journal.changed(this.#entry, item)
  }

  #outcomeOf(how: Ending, milliseconds: number): RequestOutcome {
    const { blockedOrigin } = this.#context
    const [response, fault] = [this.#sent, this.#fault]
    const seconds = `${Number((milliseconds / 1000).toPrecision(2))} s`
    if (how === 'aborted') {
      const missed = response ? `, before the end of the response (${response.status})` : ''
      return { state: how, status: null, reason: `The client closed the connection after ${seconds}${missed}.` }
    }
    const isReset = fault?.outcome === 'reset' && fault.delayMs === 0
    const cause = response || isReset ? fault?.simulatedBy : undefined
    const simulated = cause !== undefined && { reason: `simulated by ${cause}`, isSimulated: true as const }
    if (response && (how === 'sent' || fault?.outcome === 'truncate')) {
      const { status } = response
      const reason = [response.reason, blockedOrigin && describeBlocked(blockedOrigin)].filter(Boolean).join(' ')
      return { state: 'sent', status, ...(reason && { reason }), ...(blockedOrigin && { blockedOrigin }), ...simulated }
    }
    return {
      state: 'closed',
      status: null,
      reason: `The service closed the connection after ${seconds}.`,
      ...simulated,
    }
  }
}

/** Requests to a profile are recorded before they are handled. */
function recordOf({ recorder }: RequestContext): RequestRecord {
  if (!(recorder instanceof RequestRecord)) throw new Error('The request is not recorded.')
  return recorder
}
