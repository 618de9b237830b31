import { createSecretKey, randomBytes } from 'node:crypto'
import { Agent } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import type { TestContext } from 'node:test'
import { app, collectionsOf, profiles } from '../../src/app.ts'
import type { Mode } from '../../src/config/token-options.ts'
import type { CorsPolicy } from '../../src/http/cors.ts'
import type { ProxyTrust } from '../../src/http/proxy.ts'
import { jsonLog, type Log } from '../../src/log.ts'
import type { ProfileName } from '../../src/profiles/profile.ts'
import { nodeServer } from '../../src/server/node.ts'
import { Message } from '../../src/server/node-message.ts'
import { noOverloadMonitor } from '../../src/server/overload.ts'
import { type ServerLimits, serverContext } from '../../src/server/server.ts'
import { devTokenDefaults, devTokenIssuer } from '../../src/tokens/dev-key.ts'
import { signToken } from '../../src/tokens/sign.ts'
import { createTokenVerifier, type TokenVerifierOptions } from '../../src/tokens/verify.ts'
import type { Client } from '../../src/verify/engine/client.ts'
import { cleanUp } from './cleanup.ts'
import { createClient } from './client.ts'
import { memoryStores, type OpenedStores } from './stores.ts'

// As after the first body of a process, which alone is read as a stream.
Message.isBodyPushed = true

const devKey = createSecretKey(randomBytes(32))

const devVerifyOptions: TokenVerifierOptions = {
  trustedIssuers: [devTokenIssuer(devKey)],
  now: () => new Date(),
}

/** A token that the services below accept. */
export async function tokenFor(name: string): Promise<string> {
  const request = { ...devTokenDefaults, id: 'test', name, validForSeconds: 3600 }
  return (await signToken(request, devKey, new Date())).token
}

interface ServiceOptions {
  readonly stores?: Pick<OpenedStores, 'spaces'>
  readonly baseUrl?: string
  readonly requireAuth?: boolean
  readonly mode?: Mode
  readonly redirectPort?: number
  readonly trustProxy?: ProxyTrust
  readonly verifyOptions?: Partial<TokenVerifierOptions>
  readonly log?: Log
  readonly limits?: Partial<ServerLimits>
  readonly allowRequest?: () => boolean
  readonly redirectsToHttps?: boolean
  readonly cors?: CorsPolicy
}

const defaultLimits: ServerLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000,
  stalledTimeoutMs: 30_000,
  drainDelayMs: 0,
  drainTimeoutMs: 10_000,
  maxConnections: 12_000,
}

/** A server with one profile, nothing written to its store yet. */
export function serverOf(
  name: ProfileName,
  {
    stores = memoryStores(collectionsOf(profiles), 'test'),
    baseUrl,
    requireAuth = false,
    redirectPort,
    trustProxy,
    mode = 'development',
    verifyOptions,
    log = silentLog,
    limits,
    allowRequest,
    redirectsToHttps = false,
    cors = [],
  }: ServiceOptions,
) {
  let requests = 0
  const settings = {
    spaces: 'none' as const,
    maxBodyBytes: 2 ** 20,
    baseUrl,
    requireAuth,
    redirectPort,
    trustProxy,
    newPageToken: mode === 'development' ? () => tokenFor('developer') : undefined,
    verifyToken: createTokenVerifier({ ...devVerifyOptions, ...verifyOptions }),
    log,
    allowRequest,
    cors,
    reportOrigin: () => {},
    redirectsToHttps,
    hsts: false,
    observe: undefined,
    unreadyReason: async () => undefined,
    newId: () => `request-${++requests}`,
    monotonicNow: () => 0,
    now: () => new Date(),
    random: Math.random,
  }
  const handler = app(profiles[name], stores.spaces, settings)
  return nodeServer(handler, contextWith(limits))
}

/** What a server needs besides a handler. */
export const contextWith = (limits: Partial<ServerLimits> = {}) =>
  serverContext({
    limits: { ...defaultLimits, ...limits },
    overload: noOverloadMonitor(),
    now: () => new Date(),
    monotonicNow: () => performance.now(),
    maxBodyBytes: 2 ** 20,
    heapLimitBytes: 2 ** 30,
  })

const silentLog = jsonLog(
  () => {},
  'silent',
  () => new Date(),
)

/** An agent whose connections are pairs of streams into the server, without a socket. */
export function agentInto(accept: (stream: Duplex) => void): Agent {
  const agent = new Agent()
  agent.createConnection = () => {
    const [client, served] = duplexPair()
    // As a socket does: the client reads what was written before, then sees that the connection is cut.
    served.once('close', () => {
      if (!served.writableFinished) setImmediate(() => client.destroy())
    })
    accept(served)
    return client as never
  }
  return agent
}

/** Ways to reach a fresh service, which is closed when the test ends. */
export const transports = {
  async 'in process'(t: TestContext, name: ProfileName, options: ServiceOptions = {}): Promise<Client> {
    const server = serverOf(name, options)
    const agent = agentInto((stream) => server.accept(stream as Socket))
    cleanUp(t, () => agent.destroy())
    return createClient('http://in.process', { agent, token: await tokenFor('ada'), otherToken: await tokenFor('bob') })
  },

  async 'over a socket'(t: TestContext, name: ProfileName, options: ServiceOptions = {}): Promise<Client> {
    const server = serverOf(name, options)
    const listener = createServer({ allowHalfOpen: true }, server.accept)
    await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening))
    const agent = new Agent({ keepAlive: true })
    cleanUp(t, async () => {
      agent.destroy()
      server.destroy()
      await new Promise((closed) => listener.close(closed))
    })
    return createClient(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`, {
      agent,
      token: await tokenFor('ada'),
      otherToken: await tokenFor('bob'),
    })
  },
}
