import { type Agent, createServer } from 'node:http'
import type { TestContext } from 'node:test'
import type { Received } from '../../src/verify/service.ts'
import { agentInto, transports } from './running.ts'

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: Buffer
}

export type Answer = Pick<Received, 'status' | 'headers' | 'text'>

/** What stands between a client and a correct server, and lies. */
export type Bend = (request: Request, forward: (request: Request) => Promise<Answer>) => Promise<Answer>

/** An agent whose every connection leads to a correct server behind a bend. */
export async function bentAgent(t: TestContext, profile: 'a' | 'b', bend: Bend): Promise<Agent> {
  const correct = await transports['in process'](t, profile)
  const forward = ({ method, path, headers, body }: Request) => {
    const { connection: _, 'transfer-encoding': __, ...rest } = headers
    const hasBody = body.length > 0 || headers['content-length'] !== undefined
    return correct.send(method, path, hasBody ? body : undefined, {
      ...rest,
      'content-type': headers['content-type'],
      ...(hasBody && { 'content-length': `${body.length}` }),
    })
  }
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const { method = '', url = '' } = incoming
    const headers = {
      ...incoming.headers,
      ...(incoming.headersDistinct.authorization?.[1] && { authorization: incoming.headersDistinct.authorization }),
    }
    const {
      status,
      headers: all,
      text,
    } = await bend({ method, path: url, headers, body: Buffer.concat(chunks) }, forward)
    const { connection: _, 'keep-alive': __, 'content-length': length, ...kept } = all
    const own = Object.entries(kept).filter(([, value]) => value !== undefined)
    const announced = status === 204 || method === 'HEAD' ? length : `${Buffer.byteLength(text)}`
    if (status === 204 && text) {
      outgoing.socket?.end(`HTTP/1.1 204 No Content\r\n\r\n${text}`)
      return
    }
    outgoing.writeHead(status, { ...Object.fromEntries(own), ...(announced && { 'content-length': announced }) })
    outgoing.end(text)
  })
  const agent = agentInto(server)
  t.after(() => agent.destroy())
  return agent
}
