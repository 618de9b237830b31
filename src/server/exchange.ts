import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { ErrorCode } from '../http/errors.ts'
import { isAuthority } from '../http/proxy.ts'
import type { Request } from '../http/request.ts'
import { byteLengthOf, type Response } from '../http/response.ts'
import { receiveBody } from './body.ts'
import type { HeldMemory, Holder } from './held-memory.ts'
import type { Upload, UploadBudget } from './uploads.ts'

interface Transport extends Holder {
  readonly uploads: UploadBudget
  readonly held: HeldMemory
  waitForTurn(): void
  /** Set where the rest of the connection's bytes cannot be parsed. */
  readonly parseError: ErrorCode | undefined
  upload: Upload | undefined
  respond(exchange: Exchange, response: Response): void
  abort(withReset: boolean): void
}

/** Each header costs more than its bytes. */
export const maxHeaders = 200
/** Larger bodies are written as the client reads them. */
const writeSizeBytes = 256 * 1024

/** Headers that may occur once: with two of them, two servers could disagree about which one counts. */
const singletons = ['Host', 'Expect', 'If-Match', 'Content-Type', 'Authorization', 'If-None-Match', 'Content-Length']
/** In the two usual spellings, so that most names need not be lower-cased. */
const singletonBits = new Map(
  singletons.flatMap((name, index) => [
    [name, 1 << index],
    [name.toLowerCase(), 1 << index],
  ]),
)
/** `Upgrade` and `Transfer-Encoding` have lengths of their own. */
const singletonLengths = singletons.reduce((mask, { length }) => mask | (1 << length), 0)
const [hostBit, contentLengthBit] = [singletonBits.get('host'), singletonBits.get('content-length')]

/** A request, as dispatch sees it, and its response. */
export class Exchange implements Request {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly method: string
  readonly target: string
  readonly protocolError: ErrorCode | undefined
  readonly overloadReason: string | undefined
  readonly isHttp10: boolean
  readonly hasBody: boolean
  /** Whether the client waits for 100 Continue before it sends the body. */
  readonly expectsContinue: boolean
  contentLength: number
  isChunked: boolean
  hasUpgrade: boolean
  readonly #transport: Transport

  constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    transport: Transport,
    overloadReason: string | undefined,
    expectsContinue = false,
    protocolError?: ErrorCode,
  ) {
    this.incoming = incoming
    this.outgoing = outgoing
    this.#transport = transport
    this.method = incoming.method ?? ''
    this.target = incoming.url ?? ''
    this.overloadReason = overloadReason
    this.isHttp10 = incoming.httpVersionMinor === 0
    this.expectsContinue = expectsContinue
    this.contentLength = 0
    this.isChunked = false
    this.hasUpgrade = false
    const headError = this.#inspectHead()
    this.protocolError = protocolError ?? headError
    this.hasBody = this.contentLength > 0 || this.isChunked
  }

  /** One pass over the headers takes less time than a look-up of each name. */
  #inspectHead(): ErrorCode | undefined {
    const { httpVersionMajor, httpVersionMinor, rawHeaders } = this.incoming
    let error: ErrorCode | undefined
    if (httpVersionMajor !== 1 || httpVersionMinor > 1) error = 'version-unsupported'
    else if (rawHeaders.length > 2 * maxHeaders) error = 'headers-too-many'
    let seen = 0
    let host: string | undefined
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index] as string
      const value = rawHeaders[index + 1] as string
      const { length } = name
      if (length < 31 && singletonLengths & (1 << length)) {
        const bit = singletonBits.get(name) ?? singletonBits.get(name.toLowerCase()) ?? 0
        if (seen & bit) error ??= 'header-repeated'
        seen |= bit
        if (bit === hostBit) host = value
        else if (bit === contentLengthBit) this.contentLength = Number(value)
      } else if (length === 7 && name.toLowerCase() === 'upgrade') this.hasUpgrade = true
      else if (length === 17 && name.toLowerCase() === 'transfer-encoding') {
        this.isChunked = true
        // Another coding, or chunked in HTTP/1.0, is read differently by different servers (RFC 9112, 6.1).
        if (this.isHttp10 || value.toLowerCase() !== 'chunked') error ??= 'framing-ambiguous'
      }
    }
    const isValid = host === undefined ? this.isHttp10 : isAuthority(host)
    if (!isValid) error ??= 'host-malformed'
    return error
  }

  get isEncrypted(): boolean {
    return (this.incoming.socket as Partial<TLSSocket>).encrypted === true
  }

  get remoteAddress(): string {
    return this.incoming.socket.remoteAddress ?? ''
  }

  get localPort(): number {
    return this.incoming.socket.localPort ?? 0
  }

  header(name: string): string | undefined {
    // Only Set-Cookie, which no request has, is an array.
    return this.incoming.headers[name] as string | undefined
  }

  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void {
    const { parseError } = this.#transport
    if (this.contentLength > limitBytes) done('body-too-large')
    else if (parseError && !this.incoming.complete) done(parseError)
    else {
      if (this.expectsContinue) this.outgoing.writeContinue()
      receiveBody(this.incoming, this, limitBytes, this.#transport, done)
    }
  }

  respond(response: Response): void {
    this.#transport.respond(this, response)
  }

  abort(withReset: boolean): void {
    this.#transport.abort(withReset)
  }

  get rawHeaders(): readonly string[] {
    return this.incoming.rawHeaders
  }

  /** Writes the response, and ends it unless `end` is to do that. */
  write({ status, headers, body = '', isTruncated }: Response, closesConnection: boolean, end?: () => void): void {
    const { outgoing } = this
    const list: string[] = []
    for (const name in headers) list.push(name, headers[name] as string)
    if (closesConnection) list.push('connection', 'close')
    if (typeof body === 'function') {
      outgoing.writeHead(status, list)
      if (this.method === 'HEAD') {
        outgoing.end()
        return
      }
      outgoing.flushHeaders()
      const { onDrain, onClose } = body(
        (text) => !outgoing.writableEnded && outgoing.write(text),
        () => outgoing.end(),
      )
      outgoing.on('drain', onDrain)
      outgoing.once('close', onClose)
      return
    }
    if (status !== 204 && status !== 304) {
      const length = byteLengthOf(body)
      list.push('content-length', `${length}`)
      outgoing.writeHead(status, list)
      if (isTruncated) {
        const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.concat(body)
        outgoing.write(bytes.subarray(0, length >> 1), () => outgoing.destroy())
        return
      }
      if (length > writeSizeBytes) {
        writeInPieces(outgoing, typeof body === 'string' ? [Buffer.from(body)] : body, this.#transport, end)
        return
      }
      if (typeof body !== 'string' && body.length === 1 && !end) {
        outgoing.end(body[0])
        return
      }
      // Head and body in one write: of a string, `end(body)` makes two.
      outgoing.socket?.cork()
      if (typeof body !== 'string') for (const part of body) outgoing.write(part)
      else if (length > 0) outgoing.write(body, length === body.length ? 'latin1' : 'utf8')
      outgoing.socket?.uncork()
    } else outgoing.writeHead(status, list)
    if (end) end()
    else outgoing.end()
  }
}

/**
 * The response is ended when its last piece is flushed: `server.close()` takes a connection for idle, and destroys it, once
 * its response is ended, even if the client has not read it.
 */
async function writeInPieces(
  outgoing: ServerResponse,
  body: readonly Buffer[],
  transport: Transport,
  end: () => void = () => outgoing.end(),
): Promise<void> {
  const { held } = transport
  let corkedBytes = 0
  let isDrained = true
  const flush = async () => {
    outgoing.socket?.uncork()
    if (!isDrained) await new Promise((drained) => outgoing.once('drain', drained))
    corkedBytes = 0
  }
  held.addBuffers(transport, body)
  for (const part of body) {
    for (let start = 0; start < part.length; start += writeSizeBytes) {
      const piece = part.subarray(start, start + writeSizeBytes)
      if (corkedBytes === 0) outgoing.socket?.cork()
      isDrained = outgoing.write(piece)
      corkedBytes += piece.length
      if (corkedBytes >= writeSizeBytes) await flush()
    }
    held.removeBuffer(transport, part)
  }
  await flush()
  end()
}
