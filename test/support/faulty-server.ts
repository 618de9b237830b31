import { type Agent, createServer, type Server } from 'node:http'
import type { TestContext } from 'node:test'
import type { Client, Response } from '../../src/verify/client.ts'
import { agentInto, transports } from './running.ts'

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
  t.after(() => agent.destroy())
  return agent
}
