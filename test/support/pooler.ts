import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, Socket } from 'node:net'
import { delimiter, join } from 'node:path'
import { Client } from 'pg'
import { spawnTied } from './child-process.ts'
import { type Cleanup, cleanUp } from './cleanup.ts'
import { freePort } from './port.ts'
import { asUser, temporaryDirectory } from './postgres.ts'
import { message, readMessages } from './postgres-messages.ts'

interface PoolerClient {
  readonly socket: Socket
  /** What it sent up to a Sync or Query, the oldest first. */
  readonly requests: Buffer[]
}

const greeting = Buffer.concat([message('R', Buffer.alloc(4)), message('K', Buffer.alloc(8)), message('Z', 'I')])

/**
 * A connection pooler with transaction pooling and a single server connection, such as PgBouncer before 1.21: prepared
 * statements stay with the server connection, whichever client sends the next transaction. Returns its URL.
 */
export async function startPooler(t: Cleanup, url: string): Promise<string> {
  const server = new Socket()
  const login = new Client({ connectionString: url, stream: () => server })
  login.on('error', () => {})
  await login.connect()
  server.removeAllListeners('data')
  const clients = new Set<PoolerClient>()
  /** The client whose transaction is being executed. */
  let current: PoolerClient | undefined
  let isBusy = false

  function next(): void {
    if (isBusy) return
    current ??= [...clients].find(({ requests }) => requests.length > 0)
    const request = current?.requests.shift()
    if (!request) return
    isBusy = true
    server.write(request)
  }

  readMessages(server, 1, (type, body) => {
    current?.socket.write(message(type, body))
    if (type !== 'Z') return
    isBusy = false
    if (body.toString() === 'I') {
      // Clients take turns.
      if (current && clients.delete(current)) clients.add(current)
      current = undefined
    }
    next()
  })
  server.resume()

  const listener = createServer((socket) => {
    const client: PoolerClient = { socket, requests: [] }
    let received: Buffer[] = []
    clients.add(client)
    socket.on('error', () => {})
    socket.on('close', () => clients.delete(client))
    readMessages(socket, 0, (type, body) => {
      if (type === '') socket.write(greeting)
      if (type === '' || type === 'X') return
      received.push(message(type, body))
      if (type !== 'S' && type !== 'Q') return
      client.requests.push(Buffer.concat(received))
      received = []
      next()
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  cleanUp(t, () => {
    listener.close()
    server.destroy()
    for (const { socket } of clients) socket.destroy()
  })
  const pooled = new URL(url)
  pooled.port = `${(listener.address() as AddressInfo).port}`
  return pooled.href
}

/** The program, where it is installed. */
export const pgBouncer = [...`${process.env.PATH}`.split(delimiter), '/usr/sbin']
  .map((directory) => join(directory, 'pgbouncer'))
  .find(existsSync)

/** PgBouncer with transaction pooling and two server connections. Returns its URL. */
export async function startPgBouncer(t: Cleanup, program: string, url: string): Promise<string> {
  const directory = temporaryDirectory()
  const { username, password, port: serverPort } = new URL(url)
  const port = await freePort()
  writeFileSync(join(directory, 'users.txt'), `"${username}" "${password}"\n`)
  writeFileSync(
    join(directory, 'pgbouncer.ini'),
    `[databases]
* = host=127.0.0.1 port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${join(directory, 'users.txt')}
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = statement_timeout
`,
  )
  const running = spawnTied(program, [join(directory, 'pgbouncer.ini')], {
    ...asUser,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  cleanUp(t, async () => {
    running.kill('SIGINT')
    await once(running, 'exit')
  })
  for await (const line of running.stderr ?? []) if (`${line}`.includes('process up')) break
  const pooled = new URL(url)
  pooled.port = `${port}`
  return pooled.href
}
