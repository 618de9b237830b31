import type { Worker } from 'node:cluster'
import type { Socket } from 'node:net'
import type { HttpHandler } from '../http/dispatch.ts'
import { acceptConnections, type Listener } from './listen.ts'
import { nodeServer } from './node.ts'
import type { Address, Listening, ServerContext } from './server.ts'

/*
 * With several workers the primary process accepts all connections and hands each to a worker. So the ports stay open
 * whichever workers end, and a connection that a worker has not taken when it ends goes to another one.
 */

interface ListenRequest {
  readonly listen: Pick<Address, 'host' | 'port'>
  /** Identifies the listener in replies and connections. */
  readonly name: string
}

type WorkerMessage =
  | ListenRequest
  /** The worker has the connection, and has read nothing of it yet. */
  | { readonly taken: true }
  /** The worker stops as soon as it is told that it gets no more connections. */
  | { readonly stopping: true }

type ListenReply =
  | { readonly name: string; readonly host: string; readonly port: number }
  | { readonly name: string; readonly error: { readonly code?: string | undefined; readonly message: string } }

type PrimaryMessage =
  | ListenReply
  /** The connection is sent with this message. */
  | { readonly take: string }
  | { readonly released: true }

interface AcceptedConnection {
  readonly name: string
  readonly socket: Socket
}

/** A message that cannot be sent is dropped: the other process has ended, of which `exit` or `disconnect` tells. */
function send(worker: Worker, message: WorkerMessage | PrimaryMessage, socket?: Socket): void {
  worker.send(message, socket, { keepOpen: true }, () => {})
}

interface WorkerState {
  isReady: boolean
  isStopping: boolean
  /** Sent to it and not taken. */
  sent: AcceptedConnection | undefined
}

/** The side of the primary process. */
export class Handover {
  readonly #maxWaiting: number
  readonly #monotonicNow: () => number
  readonly #listeners = new Map<string, Promise<Listener>>()
  /** In round-robin order: the first one gets the next connection. */
  readonly #workers = new Map<Worker, WorkerState>()
  readonly #waiting: AcceptedConnection[] = []
  #isStopping = false
  #closed: Promise<void> | undefined
  /** Whether no more connections are accepted. */
  #isClosed = false

  /** When `maxWaiting` connections wait for a worker, further ones are closed. */
  constructor(maxWaiting: number, monotonicNow: () => number) {
    this.#maxWaiting = maxWaiting
    this.#monotonicNow = monotonicNow
  }

  /** `onStopping` is called when the worker will take no more connections. */
  add(worker: Worker, onStopping: () => void): void {
    const state: WorkerState = { isReady: false, isStopping: false, sent: undefined }
    this.#workers.set(worker, state)
    worker.on('message', (message: WorkerMessage) => {
      if ('listen' in message) this.#listen(worker, message)
      else if ('taken' in message) this.#onTaken(state)
      else if ('stopping' in message) {
        state.isStopping = true
        onStopping()
        this.#release()
      }
    })
    worker.once('exit', () => {
      this.#workers.delete(worker)
      if (state.sent) this.#waiting.unshift(state.sent)
      this.#distribute()
      this.#release()
    })
  }

  /** The worker may get connections. */
  ready(worker: Worker): void {
    const state = this.#workers.get(worker)
    if (state) state.isReady = true
    this.#distribute()
    this.#release()
  }

  /** Accepts connections as long as a worker serves that was not told to stop. */
  stop(): void {
    this.#isStopping = true
    this.#release()
  }

  /** Accepts no more connections. Those that were accepted are handed over, then the workers may stop. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    for (const listener of await Promise.allSettled(this.#listeners.values()))
      if (listener.status === 'fulfilled') await listener.value.close(this.#monotonicNow)
    this.#isClosed = true
    this.#release()
  }

  async #listen(worker: Worker, { listen, name }: ListenRequest): Promise<void> {
    // All workers have the same configuration: the first one that asks finds out whether the port is free.
    const listener =
      this.#listeners.get(name) ?? acceptConnections(listen, (socket) => this.#accept({ name, socket }), true)
    this.#listeners.set(name, listener)
    const reply: ListenReply = await listener.then(
      ({ host, port }) => ({ name, host, port }),
      ({ code, message }: NodeJS.ErrnoException) => ({ name, error: { code, message } }),
    )
    send(worker, reply)
  }

  #accept(connection: AcceptedConnection): void {
    if (this.#waiting.length >= this.#maxWaiting) {
      connection.socket.destroy()
      return
    }
    // The client may leave before it is handed over.
    connection.socket.on('error', () => {})
    this.#waiting.push(connection)
    this.#distribute()
  }

  #distribute(): void {
    for (let worker = this.#free(); worker && this.#waiting.length > 0; worker = this.#free()) {
      const state = this.#workers.get(worker) as WorkerState
      // It goes to the end of the map: workers take turns.
      this.#workers.delete(worker)
      this.#workers.set(worker, state)
      state.sent = this.#waiting.shift() as AcceptedConnection
      const { name, socket } = state.sent
      send(worker, { take: name }, socket)
    }
    if (this.#isClosed && this.#workers.size === 0) for (const { socket } of this.#waiting) socket.destroy()
  }

  /** Whether a worker gets connections that is not to stop. */
  get #isServed(): boolean {
    return [...this.#workers.values()].some(({ isReady, isStopping }) => isReady && !isStopping)
  }

  /** One that is to stop gets connections as long as there is no other. */
  #free(): Worker | undefined {
    const isServed = this.#isServed
    for (const [worker, { isReady, isStopping, sent }] of this.#workers)
      if (isReady && !sent && !(isStopping && isServed) && worker.isConnected()) return worker
    return undefined
  }

  #onTaken(state: WorkerState): void {
    state.sent?.socket.destroy()
    state.sent = undefined
    this.#distribute()
    this.#release()
  }

  /** Lets workers stop that will get no more connections. */
  #release(): void {
    const isServed = this.#isServed
    if (this.#isStopping && !isServed) void this.close()
    const isOver = this.#isClosed && this.#waiting.length === 0
    for (const [worker, state] of this.#workers) {
      if (!state.isStopping || !state.isReady || state.sent || !(isServed || isOver)) continue
      state.isReady = false
      send(worker, { released: true })
    }
  }
}

/** The side of a worker: listens on ports of the primary process. */
export function primaryListener(worker: Worker) {
  const servers = new Map<string, (socket: Socket) => void>()
  const replies = new Map<string, (reply: ListenReply) => void>()
  let onReleased = () => {}
  const released = new Promise<void>((resolve) => {
    onReleased = resolve
  })
  worker.on('message', (message: PrimaryMessage, socket?: Socket) => {
    if ('take' in message) take(servers.get(message.take), socket)
    else if ('released' in message) onReleased()
    else if ('name' in message) replies.get(message.name)?.(message)
  })

  function take(accept: ((socket: Socket) => void) | undefined, socket: Socket | undefined): void {
    send(worker, { taken: true })
    // The client has left meanwhile.
    if (!socket) return
    socket.allowHalfOpen = true
    if (accept) accept(socket)
    else socket.destroy()
  }

  return async (
    handler: HttpHandler,
    { name: of, host, port, credentials }: Address,
    context: ServerContext,
  ): Promise<Listening> => {
    const name = `${of} ${credentials ? 'https' : 'http'}`
    const server = nodeServer(handler, context, credentials)
    servers.set(name, server.accept)
    const reply = await new Promise<ListenReply>((resolve) => {
      replies.set(name, resolve)
      send(worker, { listen: { host, port }, name })
    })
    if ('error' in reply) {
      const error: NodeJS.ErrnoException = new Error(reply.error.message)
      error.code = reply.error.code
      throw error
    }
    const stopListening = () => {
      send(worker, { stopping: true })
      return released
    }
    return { host: reply.host, port: reply.port, close: () => server.close(stopListening), destroy: server.destroy }
  }
}
