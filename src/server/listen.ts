import { type AddressInfo, createServer, type Server } from 'node:net'
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

/** `localhost` is both loopback addresses, on one port. */
export async function listen(
  handler: HttpHandler,
  address: Address,
  limits: ServerLimits,
  resources: Resources,
  now: () => Date,
): Promise<Listening> {
  const native = await nativeRuntime?.load()
  const bind = async (at: Address): Promise<Listening> => {
    if (native) return native.bind(handler, at, limits, resources, now)
    const { host, port, credentials } = at
    const server = nodeServer(handler, limits, resources, credentials)
    const listener = createServer(listenerOptions, server.accept)
    await new Promise<void>((listening, failed) => {
      listener.once('error', failed)
      listener.listen({ host, port }, () => {
        listener.off('error', failed)
        listening()
      })
    })
    return {
      port: (listener.address() as AddressInfo).port,
      close: () => server.close(() => stopListening(listener)),
      async destroy() {
        listener.close()
        server.destroy()
      },
    }
  }
  if (address.host !== 'localhost') return bind(address)
  const first = await bind({ ...address, host: '127.0.0.1' })
  try {
    const second = await bind({ ...address, host: '::1', port: first.port })
    const all = [first, second]
    return {
      port: first.port,
      close: async () => void (await Promise.all(all.map((one) => one.close()))),
      destroy: async () => void (await Promise.all(all.map((one) => one.destroy()))),
    }
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    // A machine without IPv6.
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) return first
    await first.close()
    if (address.port === 0 && code === 'EADDRINUSE') return listen(handler, address, limits, resources, now)
    throw cause
  }
}

/** As those of a server of node:http. */
const listenerOptions = { allowHalfOpen: true, noDelay: true }

/** Clients that got `Connection: close` reconnect; they are accepted before the listener is closed, which would reset them. */
async function stopListening(listener: Server): Promise<void> {
  let accepted = 0
  listener.on('connection', () => accepted++)
  for (let turns = 0, before = -1; before !== accepted && turns < 1_000; turns++) {
    before = accepted
    await nextTurn()
  }
  listener.close()
}
