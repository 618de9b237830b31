import { setTimeout as sleep } from 'node:timers/promises'
import { HeldMemory } from '../common/held-memory.ts'
import type { HttpHandler } from '../http/dispatch.ts'
import { isAuthority } from '../http/proxy.ts'
import type { Credentials } from './dev-certificate.ts'
import type { OverloadMonitor } from './overload.ts'
import { Uploads } from './uploads.ts'

export interface ServerLimits {
  readonly headersTimeoutMs: number
  /** The head of a request may take this long, and then its body again. */
  readonly requestTimeoutMs: number
  /** The connection is closed when no request begins for this long. */
  readonly keepAliveTimeoutMs: number
  /** The connection is closed when the client reads nothing of its response for this long. */
  readonly stalledTimeoutMs: number
  readonly drainDelayMs: number
  readonly drainTimeoutMs: number
  readonly maxConnections: number
}

/** What all listeners of a service share. */
export interface ServerContext {
  readonly limits: ServerLimits
  readonly overload: OverloadMonitor
  readonly uploads: Uploads
  readonly held: HeldMemory
  /** Connections with bodies in small pieces take turns: parsing a packet of one-byte chunks takes tens of ms. */
  readonly turns: Turns
  readonly now: () => Date
  readonly monotonicNow: () => number
}

/** What the requests of one listener share. */
export interface ServerState extends ServerContext {
  readonly handler: HttpHandler
  readonly isEncrypted: boolean
  /** Set on shutdown: responses then carry `Connection: close`. */
  isDraining: boolean
  /** The last valid Host. */
  lastHost?: string
}

/** Whether Host is valid. Nearly every request has the same as the one before. */
export function isValidHost(host: string, state: ServerState): boolean {
  if (host !== state.lastHost && isAuthority(host)) state.lastHost = host
  return host === state.lastHost
}

/** Waiting requests and unread responses may take this share of the heap limit. */
const heldShare = 1 / 16
const minHeldBytes = 32 * 2 ** 20

interface ServerSettings extends Pick<ServerContext, 'limits' | 'overload' | 'now' | 'monotonicNow'> {
  /** The size of the largest body that the service accepts. */
  readonly maxBodyBytes: number
  readonly heapLimitBytes: number
}

export const serverContext = ({ maxBodyBytes, heapLimitBytes, ...settings }: ServerSettings): ServerContext => ({
  ...settings,
  uploads: new Uploads(maxBodyBytes, settings.limits.requestTimeoutMs),
  held: new HeldMemory(Math.max(minHeldBytes, heldShare * heapLimitBytes)),
  turns: new Turns(),
})

/** Calls callbacks one by one, each in its own turn of the event loop. */
export class Turns {
  readonly #waiting: (() => void)[] = []

  wait(callback: () => void): void {
    if (this.#waiting.push(callback) === 1) setImmediate(this.#next)
  }

  readonly #next = (): void => {
    const callback = this.#waiting.shift()
    // Before the call: a callback that waits again must not schedule a second turn.
    if (this.#waiting.length > 0) setImmediate(this.#next)
    callback?.()
  }
}

/** Where to listen: without a host on every interface, with credentials for HTTPS. */
export interface Address {
  /** The name of the profile, which tells apart two addresses with port 0. */
  readonly name: string
  readonly host: string | undefined
  readonly port: number
  readonly credentials?: Credentials | undefined
}

/** A port on which requests are served. */
export interface Listening {
  /** The address that it is bound to, or `localhost` for both loopback addresses. */
  readonly host: string
  readonly port: number
  /** Stops without failing a request: see "Stopping" in docs/operations.md. */
  close(): Promise<void>
  /** Stops at once: requests in flight get no response. */
  destroy(): Promise<void>
}

/** Serves requests by the runtime's own server. */
export type Bind = (handler: HttpHandler, address: Address, context: ServerContext) => Listening

/** How long a shutdown waits for requests that clients have sent and the service has not received. */
const graceMs = 200
const graceStepMs = 100
/** How much longer than the drain times a shutdown may take: for requests and connections that are on their way. */
const maxGraceMs = 450

interface Stoppable {
  /** Whether no more requests are expected. */
  isQuiet(): boolean
  /** Stops accepting connections; left out where `stop` does that. */
  stopListening?(): Promise<void>
  /** Resolves when all requests have their responses, or after `destroy`. */
  stop(): Promise<void>
  destroy(): Promise<void>
}

/** Stops a server step by step, and destroys it when clients have not let it stop in time. */
export async function shutDown(state: ServerState, server: Stoppable): Promise<void> {
  const { drainDelayMs, drainTimeoutMs } = state.limits
  state.isDraining = true
  const timer = new AbortController()
  const timeout = sleep(drainDelayMs + maxGraceMs + drainTimeoutMs, undefined, { signal: timer.signal })
  await Promise.race([drain(drainDelayMs, server), timeout.then(() => server.destroy())])
  timer.abort()
  await timeout.catch(() => {})
}

async function drain(delayMs: number, server: Stoppable): Promise<void> {
  await sleep(delayMs)
  for (let waitedMs = 0; waitedMs < graceMs && !server.isQuiet(); waitedMs += graceStepMs) await sleep(graceStepMs)
  await server.stopListening?.()
  await server.stop()
}
