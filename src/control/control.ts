import { isValid, type NamedSchema } from '../common/schema.ts'
import { requireScope } from '../http/auth.ts'
import type { RequestContext } from '../http/context.ts'
import { type CorsPolicy, isOriginAllowed } from '../http/cors.ts'
import { type ApiHandler, type HttpHandler, httpHandler } from '../http/dispatch.ts'
import type { Request, Space } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import { decode } from '../http/router.ts'
import { callerSpace, callerSpaceOf, isCallerSpace } from '../http/spaces.ts'
import { defaultSpace } from '../store/store.ts'
import {
  controlAccess,
  controlApi,
  controlScope,
  endedWithSpace,
  findTokenProblem,
  grantedSpace,
  ownOrigin,
  spaceOf,
} from './api.ts'
import { controlPattern, problem } from './faults.ts'
import { JournalBudget } from './journal.ts'
import { type SpaceUse, spaceName } from './schema.ts'
import { ControlledSpace, type ControlSettings, RequestRecord, type SpaceSettings } from './space.ts'

const spaceHeader = 'x-todo-space'
const spacePrefix = /^\/(?:~|%7e)([^/?]*)/i
/** A space with changed items that was used within this time is not dropped for a new space that is only read. */
const keptMs = 60_000
const maxSweepIntervalMs = 10_000
/** How many JSON values a body may have: enough for the items that it may contain. */
const maxJsonValues = 1_000_000

/** Serves a profile in development mode: with spaces, faults, a journal of requests, and the API that controls them. */
export class Control implements HttpHandler {
  /** The space of requests that name no space. */
  readonly defaultSpace: ControlledSpace
  readonly itemSchema: NamedSchema
  readonly #shared: SpaceSettings
  /** All spaces but the default one; the least recently used comes first. */
  readonly #spaces = new Map<string, ControlledSpace>()
  /** The handlers of requests to the profile and of requests to the control API. */
  readonly #handlers: Readonly<Record<'service' | 'control', ApiHandler>>
  readonly #sweep: NodeJS.Timeout
  #opened = 0
  /** False if no fault closes connections; while it is true, `#closesConnections` has to look at the faults. */
  #mayCloseConnections = false
  readonly #idleClosers: (() => void)[] = []

  constructor(options: ControlSettings) {
    const { settings, deletionsOf } = options
    this.itemSchema = options.itemSchema
    this.#shared = {
      ...options,
      faults: { ...options.faults, countFaults: () => this.#countFaults() },
      budget: new JournalBudget(),
      onFaultsChange: () => {
        this.#mayCloseConnections = true
        if (this.#closesConnections) for (const closeIdle of this.#idleClosers) closeIdle()
      },
    }
    this.defaultSpace = this.#create(defaultSpace)
    const { api } = options
    const controlled = controlApi(options, {
      listSpaces: (only) => this.#listSpaces(only),
      deleteSpace: (name) => this.#deleteSpace(name),
    })
    this.#handlers = {
      service: httpHandler(api, {
        ...settings,
        verifyToken: endedWithSpace(settings.verifyToken, deletionsOf),
        space: this.defaultSpace,
        hooks: {
          intercept: (context, route, next) => spaceOf(context).intercept(context, route, next),
          send: (context, response) => this.#send(context, response),
          begin: (context) => (isEntered(context.space) ? context.space.record(context) : undefined),
          // If a request was rejected before it entered its space, the default space records it.
          beginLate: (context) => this.defaultSpace.record(context),
        },
        enterSpace: (context) => {
          const refused = this.#enter(context)
          if (!refused) context.recorder ??= spaceOf(context).record(context)
          return refused
        },
      }),
      control: httpHandler(controlled, {
        ...settings,
        space: this.defaultSpace,
        hooks: { ...controlAccess, send: (context, response) => this.#send(context, response) },
        cors: [],
        reportOrigin: () => {},
        maxBodyBytes: options.maxBodyBytes,
        maxJsonValues,
        verifyToken: requireScope(endedWithSpace(options.verifyToken, deletionsOf), controlScope),
        log: {
          ...settings.log,
          // Only failures are logged, because /app reads items and faults again after each change.
          request(profile, context, response, milliseconds) {
            if (Number(response.status) >= 400) settings.log.request(profile, context, response, milliseconds)
          },
        },
        enterSpace: (context) => this.#enter(context) ?? findTokenProblem(context, context.space.name),
      }),
    }
    this.#sweep = setInterval(() => this.#dropExpired(), Math.min(options.spaceTtlMs, maxSweepIntervalMs))
    this.#sweep.unref()
  }

  /** Returns the space of this name, which is created if it is missing; or the response if it cannot be created. */
  space(name: string): ControlledSpace | Response {
    return this.#find(name) ?? this.#findProblem(name, 'service') ?? this.#open(name, false)
  }

  dispatch(request: Request): void {
    const { prefix, name, headerName = name, part } = targetOf(request)
    if (request.protocolError || name === undefined) {
      // With --spaces caller, the space is known once the token has been checked.
      const hasToken = part === 'service' || request.header('authorization') !== undefined
      const isByToken = this.#shared.spaces === 'caller' && hasToken && !request.protocolError
      const space = isByToken ? this.#unentered(defaultSpace) : this.defaultSpace
      this.#handlers[part].dispatch(request, prefix, space)
      return
    }
    const rejection =
      name === headerName
        ? this.#findProblem(name, part)
        : problem(400, `The path names the space ${name}, the header ${headerName}.`)
    if (rejection) this.#handlers.service.reject(request, rejection)
    else this.#handlers[part].dispatch(request, prefix, this.#find(name) ?? this.#unentered(name))
  }

  malformed(status: number, reason: string, client: string): void {
    this.#handlers.service.malformed(status, reason, client)
  }

  onCloseIdle(closeIdle: () => void): void {
    this.#idleClosers.push(closeIdle)
  }

  /** Ends all event streams. */
  close(): void {
    clearInterval(this.#sweep)
    for (const { journal } of [this.defaultSpace, ...this.#spaces.values()]) journal.close()
  }

  #create(name: string): ControlledSpace {
    const instance = `${this.#shared.instance}-${++this.#opened}`
    return new ControlledSpace(name, instance, this.#shared)
  }

  /**
   * Whether a fault of any space closes connections: connections must not be reused then, because a browser repeats a
   * request if a reused connection closes without a response. Browsers share connections among spaces.
   */
  get #closesConnections(): boolean {
    this.#mayCloseConnections &&= [this.defaultSpace, ...this.#spaces.values()].some(
      ({ faults }) => faults.closesConnections,
    )
    return this.#mayCloseConnections
  }

  #send(context: RequestContext, response: Response): Response {
    const { request, recorder } = context
    const sent = this.#closesConnections ? { ...response, closesConnection: true } : response
    if (recorder instanceof RequestRecord && recorder.fault)
      return recorder.sendWithFault(sent, recorder.fault, this.#shared.held)
    request.respond(sent)
    return sent
  }

  #countFaults(): number {
    return [this.defaultSpace, ...this.#spaces.values()].reduce((sum, { faults }) => sum + faults.count, 0)
  }

  /** Returns a placeholder for a space that is found or created only when the request is accepted. */
  #unentered(name: string): Space {
    return { name, items: this.defaultSpace.items }
  }

  #find(name: string): ControlledSpace | undefined {
    const space = this.#spaces.get(name)
    if (!space) return undefined
    space.usedAt = this.#shared.settings.monotonicNow()
    this.#spaces.delete(name)
    this.#spaces.set(name, space)
    return space
  }

  /** Returns the error response if requests cannot name this space. */
  #findProblem(name: string, part: 'service' | 'control'): Response | undefined {
    const { spaces } = this.#shared
    if (spaces === 'none') return problem(400, 'This service has no spaces: start it with --spaces path.')
    if (spaces === 'path')
      return isValid(spaceName, name)
        ? undefined
        : problem(400, 'The name of a space must have 1 to 64 of A-Z, a-z, 0-9, _ and -.')
    if (part === 'service') return problem(400, 'The token of a request says which space it is for (--spaces caller).')
    return isCallerSpace(name) ? undefined : problem(400, 'The name of a space is that in GET /__admin/spaces.')
  }

  /** Moves the request into its space, which is created if it is missing. Called after all other checks. */
  #enter(context: RequestContext): Response | undefined {
    if (isEntered(context.space)) return undefined
    const space = this.#spaceFor(context)
    if ('status' in space) return space
    context.space = space
    return undefined
  }

  #spaceFor(context: RequestContext): ControlledSpace | Response {
    const { method } = context
    const name = context.space.name || nameByToken(context)
    if (typeof name !== 'string') return name
    if (name === defaultSpace) return this.defaultSpace
    if (this.#shared.spaces === 'path' && isFromOtherSite(context, this.#shared.settings.cors))
      return problem(403, 'Pages of other sites may not create a space: --cors allows their origin.')
    // Another request may have created it meanwhile.
    return this.#find(name) ?? this.#open(name, method === 'GET' || method === 'HEAD')
  }

  async #listSpaces(only: string | undefined): Promise<SpaceUse[]> {
    const counts = await this.#shared.countItems()
    const names = [...new Set([defaultSpace, ...counts.keys(), ...this.#spaces.keys()])]
    return names
      .filter((name) => only === undefined || name === only)
      .map((name) => {
        const space = name === defaultSpace ? this.defaultSpace : this.#spaces.get(name)
        const { lastUsed, requests = 0, rejected = 0, met = [], broken = [], mistake } = space?.journal.use ?? {}
        return {
          name,
          items: counts.get(name) ?? this.#shared.collection.startingDocuments.length,
          ...(lastUsed && { lastUsed: lastUsed.toISOString() }),
          requests,
          rejected,
          met: [...met].sort(),
          broken: [...broken].sort(),
          ...(mistake && { mistake }),
        }
      })
  }

  async #deleteSpace(name: string): Promise<boolean> {
    const exists = this.#spaces.has(name) || (await this.#shared.countItems()).has(name)
    if (name === defaultSpace || !exists) return false
    await this.#shared.deleteItems(name)
    return true
  }

  /** Drops faults and journal of a space. Also called when the control API of another profile has deleted the space. */
  forget(name: string): void {
    this.#spaces.get(name)?.dispose()
    if (this.#spaces.delete(name)) this.#shared.onForgotten(name)
  }

  has(name: string): boolean {
    return this.#spaces.has(name)
  }

  #open(name: string, isEmpty: boolean): ControlledSpace | Response {
    const { maxSpaces } = this.#shared
    if (this.#spaces.size >= maxSpaces && !this.#dropOne(isEmpty))
      return problem(503, `All ${maxSpaces} spaces are in use: wait a minute.`)
    const space = this.#create(name)
    this.#spaces.set(name, space)
    return space
  }

  /** Drops the least recently used space without subscribers; with `forEmpty`, none that `keptMs` protects. */
  #dropOne(forEmpty: boolean): boolean {
    const isMissed = ({ usedAt, hasChanged }: ControlledSpace) =>
      hasChanged && this.#shared.settings.monotonicNow() - usedAt < keptMs
    const found = [...this.#spaces.values()].find(
      (space) => !space.journal.hasSubscribers && (!forEmpty || !isMissed(space)),
    )
    if (found) this.forget(found.name)
    return found !== undefined
  }

  #dropExpired(): void {
    const now = this.#shared.settings.monotonicNow()
    for (const [name, space] of this.#spaces)
      if (now - space.usedAt >= this.#shared.spaceTtlMs && !space.journal.hasSubscribers) this.forget(name)
  }
}

const isEntered = (space: Space): space is ControlledSpace => space instanceof ControlledSpace

/** Returns the space that the token selects; the default space for a request that needs no token. */
function nameByToken(context: RequestContext): string | Response {
  const { caller, path } = context
  // Only tokens that this service has signed reach the control API, so their claim can be trusted.
  if (caller && controlPattern.test(path)) return grantedSpace(caller) ?? callerSpace(caller)
  return callerSpaceOf(context)
}

/** Whether a page of a forbidden origin sent this. Without Origin (images, links), Sec-Fetch-Site tells. */
function isFromOtherSite(context: RequestContext, cors: CorsPolicy): boolean {
  const origin = context.request.header('origin')
  if (origin === undefined) return context.request.header('sec-fetch-site') === 'cross-site'
  return origin !== ownOrigin(context) && !isOriginAllowed(origin, cors)
}

/** Returns the space that path or header name, and whether the request is to the profile or the control API. */
function targetOf(request: Request) {
  const { target } = request
  // The target may be in absolute form: http://authority/path.
  const whole = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '')
  const headerName = request.header(spaceHeader)
  const [prefix = '', segment] = spacePrefix.exec(whole) ?? []
  const name = segment === undefined ? headerName : (decode(segment) ?? segment)
  const part = controlPattern.test(whole.slice(prefix.length)) ? ('control' as const) : ('service' as const)
  return { prefix, name, headerName, part }
}
