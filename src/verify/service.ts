import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest, Agent as SecureAgent } from 'node:https'
import type { Socket } from 'node:net'

type Headers = Readonly<Record<string, string | string[] | undefined>>

export interface Sent {
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

/** A request that got no answer, or none that could be read to its end. */
export class NoAnswer extends Error {
  readonly sent: Sent

  constructor(reason: string, sent: Sent) {
    super(reason)
    this.sent = sent
  }
}

/** A running server, known only through HTTP. */
export interface Service {
  /** Where it is, no trailing slash. */
  readonly url: string
  /** A token that it accepts, where one is at hand. */
  readonly token: string | undefined
  /**
   * Sends the path as it stands, behind that of the URL. A body that is neither text nor bytes goes as JSON.
   * A body brings its content-type and content-length along, unless `headers` says otherwise: undefined leaves one out.
   */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Received>
}

export interface ServiceOptions {
  readonly token?: string | undefined
  /** Milliseconds until an answer must have come in whole. */
  readonly timeout?: number | undefined
  /** Accepts a certificate that nobody vouches for. */
  readonly insecure?: boolean | undefined
  readonly agent?: Agent | undefined
}

/** No answer of the contract is near this; a server that streams forever is cut off here. */
const sizeLimit = 2 ** 24

export function serviceAt(url: string, { token, timeout = 10_000, insecure, agent }: ServiceOptions = {}): Service {
  const base = new URL(url).href.replace(/\/+$/, '')
  const prefix = new URL(base).pathname.replace(/\/$/, '')
  const connections = agent ?? newAgent(base, insecure)
  return {
    url: base,
    token,
    send(method, path, content, headers = {}) {
      const body = content === undefined ? undefined : bytesOf(content)
      const ofBody = body && { 'content-type': 'application/json', 'content-length': `${body.length}` }
      const all = Object.entries({ ...ofBody, ...headers }).filter(([, value]) => value !== undefined)
      const sent = { method, path: `${prefix}${path}`, headers: Object.fromEntries(all), body }
      return exchange(base, sent, connections, timeout)
    },
  }
}

function afterHead(raw: Buffer): string {
  const end = raw.lastIndexOf('HTTP/1.1 ') >= 0 ? raw.indexOf('\r\n\r\n', raw.lastIndexOf('HTTP/1.1 ')) : -1
  return end < 0 ? '' : raw.subarray(end + 4).toString()
}

function newAgent(url: string, insecure = false): Agent {
  const options = { keepAlive: true, timeout: 1000 }
  return url.startsWith('https:') ? new SecureAgent({ ...options, rejectUnauthorized: !insecure }) : new Agent(options)
}

function bytesOf(content: unknown): Uint8Array {
  if (content instanceof Uint8Array) return content
  return Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
}

function exchange(url: string, sent: Sent, agent: Agent, timeout: number): Promise<Received> {
  const { method, path, headers, body } = sent
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      isDecided = true
      clearTimeout(timer)
      socket?.off('data', keep)
      outgoing.destroy()
      reject(new NoAnswer(reason, sent))
    }
    /** Set once an answer has begun, or there will be none: errors after that change nothing. */
    let isDecided = false
    let raw = Buffer.alloc(0)
    let socket: Socket | undefined
    const keep = (bytes: Buffer) => {
      if (raw.length < 65_536) raw = Buffer.concat([raw, bytes])
    }
    const outgoing = send(url, { method, path, headers, agent }, (incoming) => {
      isDecided = true
      const chunks: Buffer[] = []
      let length = 0
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > sizeLimit) fail(`the answer has more than ${sizeLimit} bytes`)
      })
      incoming.on('error', () => fail('the connection was cut in the middle of the answer'))
      incoming.on('end', () => {
        clearTimeout(timer)
        const { statusCode: status = 0, headers: received } = incoming
        const finish = (text: string) => {
          socket?.off('data', keep)
          resolve({ sent, status, headers: received, text })
        }
        // Node leaves out a body that must not be there; it comes over the wire all the same, right behind the head.
        if (status === 204 || method === 'HEAD') setTimeout(() => finish(afterHead(raw)), 2)
        else finish(Buffer.concat(chunks).toString())
      })
    })
    const timer = setTimeout(() => fail(`no whole answer within ${timeout} ms`), timeout)
    outgoing.on('error', ({ message, code }: NodeJS.ErrnoException) => {
      // An answer may come before the body is sent; what then becomes of the body does not matter.
      if (isDecided) return
      // A server may close a connection that nobody uses, just when it is used again.
      if (outgoing.reusedSocket && code === 'ECONNRESET') {
        clearTimeout(timer)
        resolve(exchange(url, sent, agent, timeout))
      } else fail(code?.startsWith('HPE_') ? `the answer is not HTTP: ${message}` : message)
    })
    outgoing.once('socket', (used) => {
      socket = used.prependListener('data', keep)
    })
    outgoing.end(body)
  })
}
