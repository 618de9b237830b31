import type { AddressInfo } from 'node:net'
import type { HttpHandler } from '../http/dispatch.ts'
import type { Credentials } from './dev-certificate.ts'
import { nodeServer, type ServerLimits } from './node-server.ts'
import type { OverloadMonitor } from './overload.ts'
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
  overload: OverloadMonitor,
  now: () => Date,
): Promise<Listening> {
  const native = await nativeRuntime?.load()
  const bind = async (at: Address): Promise<Listening> => {
    if (native) return native.bind(handler, at, limits, overload, now)
    const { host, port, credentials } = at
    const { server, close, destroy } = nodeServer(handler, limits, overload, credentials)
    await new Promise<void>((listening, failed) => {
      server.once('error', failed)
      server.listen({ host, port }, () => {
        server.off('error', failed)
        listening()
      })
    })
    return { port: (server.address() as AddressInfo).port, close, destroy }
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
    if (address.port === 0 && code === 'EADDRINUSE') return listen(handler, address, limits, overload, now)
    throw cause
  }
}
