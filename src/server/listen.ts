import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { HttpHandler } from '../http/dispatch.ts'
import { nodeServer } from './node.ts'
import { runtime } from './runtime.ts'
import type { Address, Listening, ServerContext } from './server.ts'

/** Listens on an address and serves requests by the runtime's own server. */
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
    close: () => server.close(() => listener.close(context.monotonicNow)),
    async destroy() {
      await listener.close()
      await server.destroy()
    },
  }
}

/** A port on which connections are accepted. */
export interface Listener extends Pick<Listening, 'host' | 'port'> {
  /** Stops listening; with a clock, after a moment in which no client has connected. */
  close(monotonicNow?: () => number): Promise<void>
}

/** Calls `onConnection` for each connection. With `isPaused`, nothing is read from it until resume() is called. */
export const acceptConnections = (
  address: Pick<Address, 'host' | 'port'>,
  onConnection: (socket: Socket) => void,
  isPaused = false,
): Promise<Listener> =>
  bindAll(address, async (at) => {
    // The socket options that http.createServer() uses.
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
    return {
      host,
      port,
      async close(monotonicNow) {
        const accepted = monotonicNow ? await untilNobodyConnects(server, onConnection, monotonicNow) : []
        server.close()
        for (const socket of accepted) onConnection(socket)
      },
    }
  })

type Bound = Listener & Partial<Pick<Listening, 'destroy'>>

/** Binds both loopback addresses to one port for `localhost`, otherwise the address itself. */
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
      close: async (now) => void (await Promise.all([first.close(now), second.close(now)])),
      ...(first.destroy && { destroy: async () => void (await Promise.all([first.destroy?.(), second.destroy?.()])) }),
    }
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    // This machine has no IPv6.
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) return first
    await first.close()
    if (port === 0 && code === 'EADDRINUSE') return bindAll(address, bind)
    throw cause
  }
}

/** A listener closes when no client has connected for `quietMs`, and after `maxClosingMs` in any case. */
const quietMs = 20
const maxClosingMs = 300
/** After a longer turn of the event loop, there may be connections that Node has not emitted yet. */
const maxTurnMs = 1

/**
 * Returns the connections that were accepted meanwhile: closing the listener would have reset them. The wait is short,
 * because these connections get no response before it ends, so their clients have no reason to reconnect.
 */
async function untilNobodyConnects(server: Server, onConnection: (socket: Socket) => void, monotonicNow: () => number) {
  const accepted: Socket[] = []
  server.off('connection', onConnection).on('connection', (socket) => {
    // The client may leave before its connection is handed on.
    socket.on('error', () => {})
    accepted.push(socket)
  })
  const begin = monotonicNow()
  let quietSince = begin
  for (let now = begin; now - begin < maxClosingMs; ) {
    const [countBefore, turnStart] = [accepted.length, now]
    await nextTurn()
    now = monotonicNow()
    if (countBefore !== accepted.length) quietSince = now
    else if (now - quietSince >= quietMs && now - turnStart < maxTurnMs) break
  }
  return accepted
}
