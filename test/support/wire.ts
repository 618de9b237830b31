import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** The line between an instance and its database, in the hands of a test. */
type Moment = 'before' | 'after' | 'silently'

export interface Wire {
  readonly port: number
  /** Ends every connection, at once. */
  cut(): void
  /** Ends every connection with a reset: an error for whoever uses it. */
  reset(): void
  /** Takes connections and bytes, and lets nothing through, until it is mended. */
  swallow(): void
  /** Refuses connections, until it is mended. */
  refuse(): void
  /** New connections work again; what was swallowed is lost. */
  mend(): void
  /** Ends the connections through which such bytes come: before or after they are handed on. Or lets nothing through from then on. */
  cutOn(bytes: string, when: Moment): void
  /** Resolves when they come. */
  readonly isCaught: Promise<void>
}

export async function wireTo(t: TestContext, port: number): Promise<Wire> {
  const pairs = new Set<[Socket, Socket | undefined]>()
  let state: 'open' | 'swallowing' | 'refusing' = 'open'
  let onCaught = () => {}
  const isCaught = new Promise<void>((resolve) => {
    onCaught = resolve
  })
  let trap: { bytes: string; when: Moment } | undefined

  const server = createServer((near) => {
    near.on('error', () => {})
    if (state === 'refusing') return void near.resetAndDestroy()
    const far = state === 'open' ? connect(port, '127.0.0.1') : undefined
    far?.on('error', () => {})
    const pair: [Socket, Socket | undefined] = [near, far]
    pairs.add(pair)
    const end = () => {
      near.destroy()
      far?.destroy()
      pairs.delete(pair)
    }
    near.on('close', end)
    far?.on('close', end)
    near.on('data', (data) => {
      const caught = trap && data.includes(trap.bytes) ? trap.when : undefined
      if (caught) onCaught()
      if (caught === 'before') return end()
      if (caught === 'silently') far?.removeAllListeners('data').resume()
      if (state === 'open') far?.write(data, () => caught === 'after' && end())
    })
    far?.on('data', (data) => state === 'open' && near.write(data))
  })
  const cut = () => {
    for (const [near] of pairs) near.destroy()
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    cut()
  })
  return {
    port: (server.address() as AddressInfo).port,
    isCaught,
    cut,
    reset: () => {
      for (const [near] of pairs) near.resetAndDestroy()
    },
    swallow: () => {
      state = 'swallowing'
    },
    refuse: () => {
      state = 'refusing'
      cut()
    },
    mend: () => {
      // What is swallowed stays swallowed: those connections never say another word.
      for (const [near, far] of pairs) {
        near.removeAllListeners('data').resume()
        far?.destroy()
      }
      state = 'open'
    },
    cutOn: (bytes, when) => {
      trap = { bytes, when }
    },
  }
}
