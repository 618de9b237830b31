import { createSecretKey, randomBytes } from 'node:crypto'
import { Agent, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { duplexPair } from 'node:stream'
import type { TestContext } from 'node:test'
import { app, profiles } from '../../src/app.ts'
import { type ProxyTrust, trustNobody } from '../../src/http/proxy.ts'
import { httpServer, type Limits } from '../../src/http/server.ts'
import { jsonLog, type Log } from '../../src/log.ts'
import type { ProfileName } from '../../src/profiles/profile.ts'
import { memoryStores } from '../../src/store/memory.ts'
import type { Stores } from '../../src/store/store.ts'
import type { Mode } from '../../src/token-config.ts'
import { developmentTrust, developmentWish } from '../../src/tokens/development.ts'
import type { Terms } from '../../src/tokens/examine.ts'
import { guardOf } from '../../src/tokens/guard.ts'
import { mint } from '../../src/tokens/mint.ts'
import { type Service, serviceAt } from '../../src/verify/service.ts'

const developmentKey = { key: createSecretKey(randomBytes(32)), isKept: true }

const developmentTerms: Terms = {
  trusts: [developmentTrust(developmentKey)],
  now: () => new Date(),
  clockTolerance: 60,
}

/** A token that the services below accept. */
export async function tokenFor(name: string): Promise<string> {
  const wish = { ...developmentWish, id: 'test', name, validForSeconds: 3600 }
  return (await mint(wish, developmentKey.key, new Date())).token
}

interface Parts {
  readonly stores?: Stores
  readonly baseUrl?: string
  readonly requireAuth?: boolean
  readonly mode?: Mode
  readonly redirectPort?: number
  readonly trustProxy?: ProxyTrust
  readonly terms?: Partial<Terms>
  readonly log?: Log
  readonly limits?: Partial<Limits>
}

const usualLimits: Limits = {
  headerTimeout: 10_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 65_000,
  stalledTimeout: 30_000,
  drainDelay: 0,
  drainTimeout: 10_000,
  maxConnections: 12_000,
}

/** A server with one profile, nothing written to its store yet. */
function serverOf(
  name: ProfileName,
  {
    stores = memoryStores(profiles, 'test'),
    baseUrl,
    requireAuth = false,
    redirectPort,
    trustProxy = trustNobody,
    mode = 'development',
    terms,
    log = quiet,
    limits,
  }: Parts,
) {
  let requests = 0
  const settings = {
    bodyLimit: 2 ** 20,
    baseUrl,
    requireAuth,
    redirectPort,
    trustProxy,
    pageToken: mode === 'development' ? () => tokenFor('developer') : undefined,
    guard: guardOf({ ...developmentTerms, ...terms }),
    log,
    allows: undefined,
    corsOrigins: [],
    hsts: false,
    observe: undefined,
    unready: () => undefined,
    newId: () => `request-${++requests}`,
    ticks: () => 0,
    now: () => new Date(),
    random: Math.random,
  }
  const handler = app(profiles[name], stores, settings)
  return httpServer(handler, { ...usualLimits, ...limits })
}

const quiet = jsonLog(
  () => {},
  'silent',
  () => new Date(),
)

/** An agent whose connections are pairs of streams into the server, without a socket. */
export function agentInto(server: Server): Agent {
  const agent = new Agent()
  agent.createConnection = () => {
    const [client, served] = duplexPair()
    server.emit('connection', served)
    return client as never
  }
  return agent
}

/** Ways to reach a fresh service; it is gone when the test ends. */
export const transports = {
  async 'in process'(t: TestContext, name: ProfileName, parts: Parts = {}): Promise<Service> {
    const { server } = serverOf(name, parts)
    const agent = agentInto(server)
    t.after(() => agent.destroy())
    return serviceAt('http://in.process', { agent, token: await tokenFor('ada') })
  },

  async 'over a socket'(t: TestContext, name: ProfileName, parts: Parts = {}): Promise<Service> {
    const { server, close } = serverOf(name, parts)
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const agent = new Agent({ keepAlive: true })
    t.after(() => {
      agent.destroy()
      return close()
    })
    return serviceAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      agent,
      token: await tokenFor('ada'),
    })
  },
}
