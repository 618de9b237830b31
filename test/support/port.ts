import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type Cleanup, cleanUp } from './cleanup.ts'

/**
 * A port of 127.0.0.1 that was free a moment ago. Systems assign ports above these where a program listens on port 0:
 * no service of another test gets it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    if (await isFree(port)) return port
  }
}

/** A port of 127.0.0.1 on which another program seems to listen. */
export async function usedPort(t: Cleanup): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  cleanUp(t, () => server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

export async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
