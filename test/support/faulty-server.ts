import assert from 'node:assert/strict'
import { type Agent, createServer, type Server } from 'node:http'
import type { TestContext } from 'node:test'
import type { Client, Response } from '../../src/verify/engine/client.ts'
import { type Verification, type VerifyOptions, verify } from '../../src/verify/index.ts'
import { pretty } from '../../src/verify/report/pretty.ts'
import { cleanUp } from './cleanup.ts'
import { agentInto, tokenFor, transports } from './running.ts'

export interface ProxiedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: Buffer
}

export type ProxiedResponse = Pick<Response, 'status' | 'headers' | 'text'>

/** Turns a correct server into a faulty one: changes requests before, or responses after `forward`. */
export type Mutation = (
  request: ProxiedRequest,
  forward: (request: ProxiedRequest) => Promise<ProxiedResponse>,
) => Promise<ProxiedResponse>

/** A proxy in front of the server of `client`. */
export function faultyServer(client: Client, mutate: Mutation): Server {
  const forward = ({ method, path, headers, body }: ProxiedRequest) => {
    const { connection: _, 'transfer-encoding': __, ...rest } = headers
    const hasBody = body.length > 0 || headers['content-length'] !== undefined
    return client.send(method, path, hasBody ? body : undefined, {
      ...rest,
      'content-type': headers['content-type'],
      ...(hasBody && { 'content-length': `${body.length}` }),
    })
  }
  return createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const { method = '', url = '', headersDistinct } = incoming
    const headers = {
      ...incoming.headers,
      ...(headersDistinct.authorization?.[1] && { authorization: headersDistinct.authorization }),
    }
    const response = await mutate({ method, path: url, headers, body: Buffer.concat(chunks) }, forward)
    const { status, text } = response
    if (status === 204 && text) {
      // Node omits the body of a 204.
      outgoing.socket?.end(`HTTP/1.1 204 No Content\r\n\r\n${text}`)
      return
    }
    const { connection: _, 'keep-alive': __, 'content-length': length, ...rest } = response.headers
    const set = Object.entries(rest).filter(([, value]) => value !== undefined)
    const contentLength = status === 204 || method === 'HEAD' ? length : `${Buffer.byteLength(text)}`
    outgoing.writeHead(status, {
      ...Object.fromEntries(set),
      ...(contentLength && { 'content-length': contentLength }),
    })
    outgoing.end(text)
  })
}

/** An agent whose connections lead to a faulty server in this process. */
export async function faultyAgent(t: TestContext, profile: 'a' | 'b', mutate: Mutation): Promise<Agent> {
  const server = faultyServer(await transports['in process'](t, profile), mutate)
  const agent = agentInto((stream) => server.emit('connection', stream))
  cleanUp(t, () => agent.destroy())
  return agent
}

export async function verifyFaulty(
  t: TestContext,
  profile: 'a' | 'b',
  mutate: Mutation,
  options: Partial<VerifyOptions> = {},
): Promise<Verification> {
  const agent = await faultyAgent(t, profile, mutate)
  return verify({ url: 'http://faulty.example', profile, agent, token: await tokenFor('ada'), ...options })
}

/** Of the checks with this outcome. Short: a failed assertion prints what it compares. */
export const titles = ({ outcomes }: Verification, status: string) =>
  outcomes.filter((outcome) => outcome.status === status).map(({ rule, name }) => `${rule} ${name}`)

export const failedRules = ({ outcomes }: Verification) => [
  ...new Set(outcomes.filter(({ status }) => status === 'failed').map(({ rule }) => rule)),
]

export const ruleOf = (title: string) => title.slice(0, title.indexOf(' '))

const terminalColumns = 120
const terminalRows = 48
const countRows = (text: string) =>
  text.split('\n').reduce((rows, line) => rows + Math.max(1, Math.ceil(line.length / terminalColumns)), 0)

/** The fault with this title is found, and its cause is not buried. */
export function assertFails(verification: Verification, title: string): void {
  assert.equal(verification.ok, false)
  const failed = titles(verification, 'failed')
  assert.ok(failed.map(ruleOf).includes(ruleOf(title)), `failed: ${failed.join('; ')}`)
  assert.ok(failed.length <= 4, `${failed.length} failed: ${failed.join('; ')}`)
  const rows = countRows(pretty(verification))
  assert.ok(rows <= terminalRows, `${rows} rows`)
}
