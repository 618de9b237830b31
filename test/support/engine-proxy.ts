import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type Cleanup, cleanUp } from './cleanup.ts'
import { message, readMessages } from './postgres-messages.ts'

/** What engines that speak PostgreSQL's protocol refuse. */
const unsupported = [
  /\block\s+table\b/i,
  /\bselect\s+from\b/i,
  /\bpg_(?:current_wal|last_wal|wal|control_)\w*\s*\(/i,
  /\bpg_(?:try_)?advisory_\w+/i,
]
const ddl = /^\s*(?:create|alter|drop|truncate|grant)\b/i
const dml = /^\s*(?:insert|update|delete|with|select\s+setval)\b/i
/** PostgreSQL refuses it with SQLSTATE 0A000 when it is parsed, whatever parameters it has. */
const refusedStatement = 'select distinct 1 for update'

interface EngineProxyOptions {
  /** Replaces the severity of errors, as a server does whose `lc_messages` is not English. */
  readonly severity?: string
}

interface EngineProxy {
  readonly port: number
  /** Statements that were refused. */
  readonly refused: readonly string[]
}

/**
 * PostgreSQL behind a proxy that makes it as restricted as engines that speak its protocol. A statement that such an
 * engine refuses is replaced by one that PostgreSQL refuses with SQLSTATE 0A000: so the server itself sends the error in
 * its turn, skips what is pipelined up to Sync, and aborts the transaction.
 */
export async function startEngineProxy(
  t: Cleanup,
  targetPort: number,
  { severity }: EngineProxyOptions = {},
): Promise<EngineProxy> {
  const refused: string[] = []
  const sockets = new Set<Socket>()
  const listener = createServer((client) => {
    const server = connect(targetPort, '127.0.0.1')
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket)
      socket.setNoDelay()
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
    const refuses = createEngine()
    // The first message of a client, the startup message, has no type.
    readMessages(client, 0, (type, body) => {
      const replaced = type === 'Q' || type === 'P' ? replaceStatement(type, body) : body
      server.write(message(type, replaced))
    })
    readMessages(server, 1, (type, body) => {
      const text = type === 'E' && severity ? body.toString().replace(/^S\w+/, `S${severity}`) : undefined
      client.write(message(type, text === undefined ? body : Buffer.from(text)))
    })

    function replaceStatement(type: 'Q' | 'P', body: Buffer): Buffer {
      const start = type === 'Q' ? 0 : body.indexOf(0) + 1
      const end = body.indexOf(0, start)
      const text = body.toString('utf8', start, end)
      if (!refuses(text)) return body
      refused.push(text)
      return Buffer.concat([body.subarray(0, start), Buffer.from(refusedStatement), body.subarray(end)])
    }
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  cleanUp(t, () => {
    listener.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (listener.address() as AddressInfo).port, refused }
}

/** Tells of each statement of a connection, in turn, whether it is refused. */
function createEngine(): (text: string) => boolean {
  let transaction: 'none' | 'empty' | 'DDL' | 'DML' = 'none'
  return (text) => {
    if (/^\s*begin\b/i.test(text)) transaction = 'empty'
    if (/^\s*(?:commit|rollback)\b/i.test(text)) transaction = 'none'
    if (unsupported.some((pattern) => pattern.test(text))) return true
    const kind = ddl.test(text) ? 'DDL' : dml.test(text) ? 'DML' : undefined
    if (kind === undefined || transaction === 'none') return false
    if (transaction === 'empty') transaction = kind
    return transaction !== kind
  }
}
