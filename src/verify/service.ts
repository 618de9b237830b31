import { type Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'

type Headers = Readonly<Record<string, string | string[] | undefined>>

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: Uint8Array | undefined
}

export interface Received {
  readonly sent: Sent
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A running server, known only through HTTP. */
export interface Service {
  /** Where it is: scheme and authority, no trailing slash. */
  readonly url: string
  /** A token that it accepts, where one is at hand. */
  readonly token: string | undefined
  /**
   * Sends the path as it stands. A body that is neither text nor bytes goes as JSON.
   * A body brings its content-type and content-length along, unless `headers` says otherwise: undefined leaves one out.
   */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Received>
}

export function serviceAt(url: string, { agent, token }: { agent?: Agent; token?: string } = {}): Service {
  return {
    url,
    token,
    send(method, path, content, headers = {}) {
      const body = content === undefined ? undefined : bytesOf(content)
      const ofBody = body && { 'content-type': 'application/json', 'content-length': `${body.length}` }
      const all = Object.entries({ ...ofBody, ...headers }).filter(([, value]) => value !== undefined)
      return exchange(url, { method, path, headers: Object.fromEntries(all), body }, agent)
    },
  }
}

function bytesOf(content: unknown): Uint8Array {
  if (content instanceof Uint8Array) return content
  return Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
}

function exchange(url: string, sent: Sent, agent: Agent | undefined): Promise<Received> {
  const { method, path, headers, body } = sent
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? httpsRequest : httpRequest
    const outgoing = send(url, { method, path, headers, agent }, (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('error', reject)
      incoming.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        resolve({ sent, status: incoming.statusCode ?? 0, headers: incoming.headers, text })
      })
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
