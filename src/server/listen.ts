import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { HttpHandler } from '../http/dispatch.ts'
import type { Credentials } from './dev-certificate.ts'
import { nodeServer, type ServerLimits } from './node-server.ts'
import type { Resources } from './resources.ts'
import { nativeRuntime } from './runtime.ts'

export interface Listening {
  readonly port: number
  /** Without failing a request. */
  close(): Promise<void>
  /** At once: requests in flight get no response. */
  destroy(): Promise<void>
}

/** HTTPS with credentials. Without a host, every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
  readonly credentials?: Credentials | undefined
}

/** Without a host, every interface. */
export async function listen(
  handler: HttpHandler,
  address: Address,
  limits: ServerLimits,
  resources: Resources,
  now: () => Date,
): Promise<Listening> {
  const native = await nativeRuntime?.load()
  if (native) return bindAll(address, async (at) => native.bind(handler, { ...address, ...at }, limits, resources, now))
  const server = nodeServer(handler, limits, resources, address.credentials)
  const listener = await acceptConnections(address, server.accept)
  return {
    port: listener.port,
    close: () => server.close(listener.close),
    async destroy() {
      await listener.close()
      server.destroy()
    },
  }
}

/** A port on which connections are accepted. */
export interface Listener {
  readonly port: number
  /** Accepts no more connections. */
  close(): Promise<void>
}

/** Calls back for each connection, which is read only when somebody resumes it if `isPaused`. */
export const acceptConnections = (
  address: Pick<Address, 'host' | 'port'>,
  onConnection: (socket: Socket) => void,
  isPaused = false,
): Promise<Listener> =>
  bindAll(address, async (at) => {
    // As a server of node:http has them.
    const options = { allowHalfOpen: true, noDelay: true, pauseOnConnect: isPaused }
    const server = createServer(options, onConnection)
    await new Promise<void>((listening, failed) => {
      server.once('error', failed)
      server.listen(at, () => {
        server.off('error', failed)
        listening()
      })
    })
    return { port: (server.address() as AddressInfo).port, close: () => stopListening(server) }
  })

type Bound = Listener & Partial<Pick<Listening, 'destroy'>>

/** `localhost` is both loopback addresses, on one port. */
async function bindAll<B extends Bound>(
  address: Pick<Address, 'host' | 'port'>,
  bind: (at: Pick<Address, 'host' | 'port'>) => Promise<B>,
): Promise<B> {
  const { host, port } = address
  if (host !== 'localhost') return bind({ host, port })
  const first = await bind({ host: '127.0.0.1', port })
  try {
    const second = await bind({ host: '::1', port: first.port })
    return {
      ...first,
      close: async () => void (await Promise.all([first.close(), second.close()])),
      ...(first.destroy && { destroy: async () => void (await Promise.all([first.destroy?.(), second.destroy?.()])) }),
    }
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    // A machine without IPv6.
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) return first
    await first.close()
    if (port === 0 && code === 'EADDRINUSE') return bindAll(address, bind)
    throw cause
  }
}

/** Clients that got `Connection: close` reconnect; they are accepted before the listener is closed, which would reset them. */
async function stopListening(server: Server): Promise<void> {
  let accepted = 0
  server.on('connection', () => accepted++)
  for (let turns = 0, before = -1; before !== accepted && turns < 1_000; turns++) {
    before = accepted
    await nextTurn()
  }
  server.close()
}
