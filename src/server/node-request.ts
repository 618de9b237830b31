import type { ServerResponse } from 'node:http'
import type { ErrorCode } from '../http/errors.ts'
import type { Ending, Request } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import { type Message, nullReceiver } from './node-message.ts'
import { isValidHost, type ServerState } from './server.ts'
import { Upload } from './uploads.ts'

/** A header takes more memory than its bytes. */
export const maxHeaders = 200
/** Rejected bodies are discarded up to these limits, so that the client can read the response. */
const maxDiscardedBytes = 32 * 2 ** 20
const discardTimeoutMs = 5_000
const discardIdleTimeoutMs = 2_000

/** What a request needs of its connection. */
interface Connection {
  readonly shared: ServerState
  /** The error of a body that cannot be received, because the bytes on the connection are no HTTP. */
  readonly bodyError: ErrorCode | undefined
  /** The body that is being received. */
  upload: Upload | undefined
  respond(request: NodeRequest, response: Response): void
  onEnd(request: NodeRequest, ended: (how: Ending) => void): void
  abort(withReset: boolean): void
}

/** A request of node:http, with the ServerResponse for its response. */
export class NodeRequest implements Request {
  readonly incoming: Message
  readonly outgoing: ServerResponse
  readonly method: string
  readonly target: string
  readonly protocolError: ErrorCode | undefined
  readonly overloadReason: string | undefined
  readonly isEncrypted: boolean
  readonly isHttp10: boolean
  readonly hasBody: boolean
  /** Whether the client waits for 100 Continue. Node closes the connection after any other response. */
  expectsContinue: boolean
  contentLength = 0
  isChunked = false
  readonly #connection: Connection

  constructor(
    incoming: Message,
    outgoing: ServerResponse,
    connection: Connection,
    overloadReason: string | undefined,
    expectsContinue: boolean,
  ) {
    this.incoming = incoming
    this.outgoing = outgoing
    this.#connection = connection
    this.method = incoming.method ?? ''
    this.target = incoming.url ?? ''
    this.overloadReason = overloadReason
    this.isEncrypted = connection.shared.isEncrypted
    this.isHttp10 = incoming.httpVersionMinor === 0
    this.expectsContinue = expectsContinue
    this.protocolError = this.#inspectHead()
    this.hasBody = this.contentLength > 0 || this.isChunked
    if (!this.hasBody) incoming.receiver = nullReceiver
  }

  #inspectHead(): ErrorCode | undefined {
    const { httpVersionMajor, rawHeaders, headers } = this.incoming
    let headerCount = 0
    for (const _ in headers) headerCount++
    let error: ErrorCode | undefined
    if (httpVersionMajor !== 1) error = 'request-incomplete'
    else if (rawHeaders.length > 2 * maxHeaders) error = 'headers-too-many'
    else if (rawHeaders.length !== 2 * headerCount && isSingletonRepeated(rawHeaders)) error = 'header-repeated'
    const { host, 'content-length': contentLength, 'transfer-encoding': coding } = headers
    if (contentLength !== undefined) this.contentLength = Number(contentLength)
    if (coding !== undefined) {
      this.isChunked = true
      // Servers differ in how they read other codings, and chunked in HTTP/1.0 (RFC 9112, 6.1).
      if (this.isHttp10 || coding.toLowerCase() !== 'chunked') error ??= 'framing-ambiguous'
    }
    const isValid = host === undefined ? this.isHttp10 : isValidHost(host, this.#connection.shared)
    return isValid ? error : (error ?? 'host-malformed')
  }

  get remoteAddress(): string {
    return this.incoming.socket.remoteAddress ?? ''
  }

  get localPort(): number {
    return this.incoming.socket.localPort ?? 0
  }

  get rawHeaders(): readonly string[] {
    return this.incoming.rawHeaders
  }

  get isAborted(): boolean {
    return this.incoming.socket.destroyed
  }

  header(name: string): string | undefined {
    // Node makes an array only of Set-Cookie, which is a response header.
    return this.incoming.headers[name] as string | undefined
  }

  readBody(limitBytes: number, done: (body: Buffer | ErrorCode) => void): void {
    const { bodyError, shared } = this.#connection
    const { incoming, contentLength } = this
    if (contentLength > limitBytes) done('body-too-large')
    else if (bodyError && !incoming.complete) done(bodyError)
    else {
      if (this.expectsContinue) this.outgoing.writeContinue()
      this.expectsContinue = false
      if (!this.hasBody) {
        done(Buffer.alloc(0))
        return
      }
      const upload = new Upload(shared.uploads, limitBytes, done, contentLength)
      this.#connection.upload = upload
      if (this.isChunked) this.#receiveInTurns()
      else if (incoming.receiveBody(upload)) return
      incoming.on('data', (piece: Buffer) => upload.append(piece)).on('end', () => upload.end())
    }
  }

  /** Reads the rest of the body, then ends the response: closing earlier could reset the connection (RFC 9112, 9.6). */
  discardBody(): void {
    const { incoming, outgoing } = this
    outgoing.flushHeaders()
    let discardedBytes = 0
    const finish = () => {
      clearTimeout(timeout)
      clearTimeout(idleTimeout)
      incoming.off('data', onData).off('end', finish).off('close', finish)
      outgoing.end()
    }
    const onData = (piece: Buffer) => {
      idleTimeout.refresh()
      discardedBytes += piece.length
      if (discardedBytes > maxDiscardedBytes) finish()
    }
    const timeout = setTimeout(finish, discardTimeoutMs)
    const idleTimeout = setTimeout(finish, discardIdleTimeoutMs)
    if (this.isChunked && incoming.listenerCount('readable') === 0) this.#receiveInTurns()
    incoming.on('data', onData).on('end', finish).on('close', finish)
  }

  /** Connections with a chunked body take turns: after each packet, the socket is paused until its next turn. */
  #receiveInTurns(): void {
    const { incoming } = this
    const { socket } = incoming
    const { turns } = this.#connection.shared
    let isWaiting = false
    // Node resumes the socket whenever it wants more of the body.
    const keepPaused = () => socket.pause()
    incoming.on('readable', () => {
      // read() emits `data`.
      incoming.read()
      if (incoming.complete || isWaiting) return
      isWaiting = true
      socket.on('resume', keepPaused).pause()
      turns.wait(() => {
        isWaiting = false
        socket.off('resume', keepPaused).resume()
      })
    })
  }

  respond(response: Response): void {
    this.#connection.respond(this, response)
  }

  onEnd(ended: (how: Ending) => void): void {
    this.#connection.onEnd(this, ended)
  }

  abort(withReset: boolean): void {
    this.#connection.abort(withReset)
  }
}

/** Headers that may occur only once: if one is repeated, a proxy and this service could use different values. */
const singletons = ['host', 'expect', 'if-match', 'content-type', 'authorization', 'if-none-match', 'content-length']

function isSingletonRepeated(rawHeaders: readonly string[]): boolean {
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())
  return singletons.some((name) => names.indexOf(name) !== names.lastIndexOf(name))
}
