import type { Worker } from 'node:cluster'
import type { Socket } from 'node:net'
import type { HttpHandler } from '../http/dispatch.ts'
import { acceptConnections, type Listener } from './listen.ts'
import { nodeServer } from './node.ts'
import type { Address, Listening, ServerContext } from './server.ts'

/*
 * With several workers the primary process accepts all connections and hands each to a worker. So the ports stay open
 * when a worker ends, and a connection that this worker has not taken goes to another worker.
 */

interface ListenRequest {
  readonly listen: Pick<Address, 'host' | 'port'>
  /** Identifies the listener in replies and connections. */
  readonly name: string
}

type WorkerMessage =
  | ListenRequest
  /** The worker has received the connection, and has not read from it yet. */
  | { readonly taken: true }
  /** The worker stops when it gets `released`. */
  | { readonly stopping: true }

type ListenReply =
  | { readonly name: string; readonly host: string; readonly port: number }
  | { readonly name: string; readonly error: { readonly code?: string | undefined; readonly message: string } }

type PrimaryMessage =
  | ListenReply
  /** The name of a listener. The connection is sent with this message. */
  | { readonly take: string }
  | { readonly released: true }

interface AcceptedConnection {
  readonly name: string
  readonly socket: Socket
}

/** Ignores a failure: the other process has ended, and `exit` or `disconnect` is emitted for that. */
function send(worker: Worker, message: WorkerMessage | PrimaryMessage, socket?: Socket): void {
  worker.send(message, socket, { keepOpen: true }, () => {})
}

interface WorkerState {
  isReady: boolean
  isStopping: boolean
  /** The connection that was sent to the worker, until the worker has taken it. */
  sent: AcceptedConnection | undefined
}

/** Runs in the primary process: accepts connections and sends each to a worker. */
export class Handover {
  readonly #maxWaiting: number
  readonly #monotonicNow: () => number
  readonly #listeners = new Map<string, Promise<Listener>>()
  /** In round-robin order: the first free worker gets the next connection. */
  readonly #workers = new Map<Worker, WorkerState>()
  readonly #waiting: AcceptedConnection[] = []
  #isStopping = false
  #closed: Promise<void> | undefined
  /** Whether all listeners are closed. */
  #isClosed = false

  /** When `maxWaiting` connections wait for a worker, further ones are closed. */
  constructor(maxWaiting: number, monotonicNow: () => number) {
    this.#maxWaiting = maxWaiting
    this.#monotonicNow = monotonicNow
  }

  /** Calls `onStopping` when the worker wants to stop. */
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

  /** Called when the worker can handle connections: from then on it gets some. */
  ready(worker: Worker): void {
    const state = this.#workers.get(worker)
    if (state) state.isReady = true
    this.#distribute()
    this.#release()
  }

  /** Closes the listeners as soon as no worker serves that does not want to stop. */
  stop(): void {
    this.#isStopping = true
    this.#release()
  }

  /** Closes the listeners. The workers may stop when all accepted connections are handed over. */
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
    // All workers have the same configuration: the first one opens the port, and all get the same reply.
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
    // The client may close the connection before it is handed over.
    connection.socket.on('error', () => {})
    this.#waiting.push(connection)
    this.#distribute()
  }

  #distribute(): void {
    for (let worker = this.#nextWorker(); worker && this.#waiting.length > 0; worker = this.#nextWorker()) {
      const state = this.#workers.get(worker) as WorkerState
      // Moves the worker to the end of the map, so that workers take turns.
      this.#workers.delete(worker)
      this.#workers.set(worker, state)
      state.sent = this.#waiting.shift() as AcceptedConnection
      const { name, socket } = state.sent
      send(worker, { take: name }, socket)
    }
    if (this.#isClosed && this.#workers.size === 0) for (const { socket } of this.#waiting) socket.destroy()
  }

  /** Whether any worker gets connections and does not want to stop. */
  get #isServed(): boolean {
    return [...this.#workers.values()].some(({ isReady, isStopping }) => isReady && !isStopping)
  }

  /** Returns the next worker for a connection: one that wants to stop only if no other worker serves. */
  #nextWorker(): Worker | undefined {
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

  /** Tells workers that want to stop that they get no more connections, as soon as that is so. */
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

/** Runs in a worker: returns a function that listens on a port by means of the primary process. */
export function primaryListener(worker: Worker) {
  const acceptors = new Map<string, (socket: Socket) => void>()
  const replies = new Map<string, (reply: ListenReply) => void>()
  let onReleased = () => {}
  const released = new Promise<void>((resolve) => {
    onReleased = resolve
  })
  worker.on('message', (message: PrimaryMessage, socket?: Socket) => {
    if ('take' in message) take(acceptors.get(message.take), socket)
    else if ('released' in message) onReleased()
    else if ('name' in message) replies.get(message.name)?.(message)
  })

  function take(accept: ((socket: Socket) => void) | undefined, socket: Socket | undefined): void {
    send(worker, { taken: true })
    // Node passes no socket if the client has closed the connection meanwhile.
    if (!socket) return
    socket.allowHalfOpen = true
    if (accept) accept(socket)
    else socket.destroy()
  }

  return async (
    handler: HttpHandler,
    { name: profile, host, port, credentials }: Address,
    context: ServerContext,
  ): Promise<Listening> => {
    const name = `${profile} ${credentials ? 'https' : 'http'}`
    const server = nodeServer(handler, context, credentials)
    acceptors.set(name, server.accept)
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
