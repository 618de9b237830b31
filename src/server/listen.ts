import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { HttpHandler } from '../http/dispatch.ts'
import { nodeServer } from './node.ts'
import { runtime } from './runtime.ts'
import type { Address, Listening, ServerContext } from './server.ts'

/** Serves requests by the server of the runtime. */
export async function listen(handler: HttpHandler, address: Address, context: ServerContext): Promise<Listening> {
  if (runtime.name !== 'Node') {
    const { bind } = await (runtime.name === 'Bun' ? import('./bun.ts') : import('./deno.ts'))
    return bindAll(address, async (at) => bind(handler, { ...address, ...at }, context))
  }
  const server = nodeServer(handler, context, address.credentials)
  const listener = await acceptConnections(address, server.accept)
  return {
    host: listener.host,
    port: listener.port,
    close: () => server.close(listener.close),
    async destroy() {
      await listener.close()
      await server.destroy()
    },
  }
}

/** A port on which connections are accepted. */
export interface Listener extends Pick<Listening, 'host' | 'port'> {
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
    const { address: host, port } = server.address() as AddressInfo
    return { host, port, close: () => stopListening(server) }
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
      host,
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
