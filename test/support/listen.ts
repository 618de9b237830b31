import { Server } from 'node:http'
import type { AddressInfo, Server as TcpServer } from 'node:net'
import { type Cleanup, cleanUp } from './cleanup.ts'

/** Returns the http URL of the server; closes it when the test ends. */
export async function listen(t: Cleanup, server: TcpServer): Promise<string> {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  cleanUp(t, () => {
    server.close()
    if (server instanceof Server) server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
