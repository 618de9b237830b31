import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { cleanUp } from './cleanup.ts'

/**
 * Disconnect before or after forwarding the bytes, forward them and drop all responses or read none of them, or send
 * ReadyForQuery instead of forwarding them.
 */
type Action = 'disconnect before' | 'disconnect after' | 'blackhole' | 'read nothing' | 'no result'

const readyForQuery = Buffer.from('Z\0\0\0\x05I')

/** A TCP proxy between an instance and its database. */
export interface TcpProxy {
  readonly port: number
  /** Closes all connections. */
  disconnectAll(): void
  /** Closes all connections with a TCP reset. */
  resetAll(): void
  /** Accepts connections and data and forwards nothing, until restored. */
  blackhole(): void
  /** Forwards nothing of new connections; existing ones are not affected. */
  blackholeNew(): void
  /** Resets new connections and closes the existing ones, until restored. */
  refuse(): void
  /** Forwards new connections again. Existing ones are closed; those accepted in the meantime get no data. */
  restore(): void
  /** Acts on each connection on which the client sends these bytes. */
  onBytes(bytes: string, action: Action): void
  /** Sends this when a client sends these bytes, which are not forwarded. */
  respond(bytes: string, response: Buffer, times?: number): void
  /** Replaces bytes that the client sends, by as many others. */
  replaceBytes(from: string, to: string): void
  /** Forwards so many messages of the response to the next prepared statement, then closes its connection. */
  endResponseAfter(messages: number): void
  /** Resolves when such bytes are received. */
  readonly triggered: Promise<void>
  /** Tells whether they were, since `onBytes`. */
  isTriggered(): boolean
}

export async function startProxy(t: TestContext, targetPort: number): Promise<TcpProxy> {
  const connections = new Set<{ client: Socket; server: Socket | undefined }>()
  let state: 'forwarding' | 'blackhole' | 'refusing' = 'forwarding'
  let isNewForwarded = true
  let trigger: { bytes: string; action: Action } | undefined
  let responseTo: { bytes: string; response: Buffer; times: number } | undefined
  let replacement: { from: string; to: string } | undefined
  let responseMessages: number | undefined
  let isTriggered = false
  let onTriggered = () => {}
  const triggered = new Promise<void>((resolve) => {
    onTriggered = resolve
  })

  const listener = createServer((client) => {
    client.on('error', () => {})
    if (state === 'refusing') return void client.resetAndDestroy()
    const server = state === 'forwarding' && isNewForwarded ? connect(targetPort, '127.0.0.1') : undefined
    server?.on('error', () => {})
    const connection = { client, server }
    connections.add(connection)
    const close = () => {
      client.destroy()
      server?.destroy()
      connections.delete(connection)
    }
    client.on('close', close)
    server?.on('close', close)
    client.on('data', (data) => {
      // Parse or Bind.
      if (responseMessages !== undefined && server && 'PB'.includes(data.toString('latin1', 0, 1))) {
        server.removeAllListeners('data')
        forwardMessages(server, client, responseMessages, close)
        responseMessages = undefined
      }
      if (responseTo && responseTo.times > 0 && data.includes(responseTo.bytes)) {
        responseTo.times--
        return void client.write(responseTo.response)
      }
      const action = trigger && data.includes(trigger.bytes) ? trigger.action : undefined
      if (action) {
        isTriggered = true
        onTriggered()
      }
      if (action === 'disconnect before') return close()
      if (action === 'no result') return void client.write(readyForQuery)
      if (action === 'blackhole') server?.removeAllListeners('data').off('close', close).resume()
      if (action === 'read nothing') server?.pause()
      const sent = replacement
        ? Buffer.from(data.toString('latin1').replace(replacement.from, replacement.to), 'latin1')
        : data
      if (state === 'forwarding') server?.write(sent, () => action === 'disconnect after' && close())
    })
    server?.on('data', (data) => state === 'forwarding' && client.write(data))
  })
  const disconnectAll = () => {
    for (const { client } of connections) client.destroy()
  }
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  cleanUp(t, () => {
    listener.close()
    disconnectAll()
  })
  return {
    port: (listener.address() as AddressInfo).port,
    triggered,
    disconnectAll,
    resetAll: () => {
      for (const { client } of connections) client.resetAndDestroy()
    },
    blackhole: () => {
      state = 'blackhole'
    },
    blackholeNew: () => {
      isNewForwarded = false
    },
    refuse: () => {
      state = 'refusing'
      disconnectAll()
    },
    restore: () => {
      for (const { client, server } of connections) {
        client.removeAllListeners('data').resume()
        server?.destroy()
      }
      state = 'forwarding'
    },
    respond: (bytes, response, times = 1) => {
      responseTo = { bytes, response, times }
    },
    replaceBytes: (from, to) => {
      replacement = { from, to }
    },
    endResponseAfter: (messages) => {
      responseMessages = messages
    },
    isTriggered: () => isTriggered,
    onBytes: (bytes, action) => {
      isTriggered = false
      trigger = { bytes, action }
    },
  }
}

/** Forwards so many messages of PostgreSQL's protocol: a byte for the type and the length as int32, which counts itself. */
function forwardMessages(server: Socket, client: Socket, count: number, end: () => void): void {
  let received = Buffer.alloc(0)
  let forwarded = 0
  if (count === 0) end()
  server.on('data', (data) => {
    received = Buffer.concat([received, data])
    while (received.length > 4 && received.length > received.readInt32BE(1)) {
      const length = 1 + received.readInt32BE(1)
      client.write(received.subarray(0, length))
      received = received.subarray(length)
      if (++forwarded < count) continue
      server.removeAllListeners('data')
      return void client.end(end)
    }
  })
}
