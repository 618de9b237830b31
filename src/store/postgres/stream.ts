import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** The server does not speak PostgreSQL's protocol, or not as the driver knows it. */
export class ProtocolError extends Error {}

/**
 * What the driver reads from and writes to: a socket that is connected. The driver parses data in a listener, and throws
 * there what it cannot parse. Then the stream is destroyed, and the process lives.
 */
export class DriverStream extends Duplex {
  readonly #socket: Socket
  readonly #messages = new MessageCheck()

  constructor(socket: Socket) {
    super()
    this.#socket = socket
    socket.on('data', (data) => this.#receive(data))
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
  }

  #receive(data: Buffer): void {
    try {
      this.#messages.receive(data)
      this.emit('data', data)
    } catch (cause) {
      this.destroy(cause instanceof ProtocolError ? cause : toProtocolError(cause as Error))
    }
  }

  /** Called by the driver, which waits for the event. */
  connect(): this {
    setImmediate(() => this.emit('connect'))
    return this
  }

  setNoDelay(): this {
    this.#socket.setNoDelay()
    return this
  }

  override write(data: Buffer, callback?: unknown): boolean {
    return this.#socket.write(data, callback as () => void)
  }

  override cork(): void {
    this.#socket.cork()
  }

  override uncork(): void {
    this.#socket.uncork()
  }

  override end(): this {
    this.#socket.end()
    return this
  }

  override _read(): void {}

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    this.#socket.destroy()
    destroyed(error)
  }
}

function toProtocolError(cause: Error): ProtocolError {
  const message = cause.message.startsWith('Unknown authentication')
    ? 'The server requires an unsupported authentication method: set scram-sha-256 in pg_hba.conf'
    : `${notPostgres} (${cause.message})`
  return new ProtocolError(message, { cause })
}

const notPostgres = "The server does not speak PostgreSQL's protocol"
const headBytes = 5
/** As in libpq: only these types have longer messages. */
const maxShortLength = 30_000
const longTypes = 'TDENA'
/** PostgreSQL makes no longer message. */
const maxLength = 2 ** 30
/** AuthenticationOk, CommandComplete, EmptyQueryResponse and ErrorResponse. */
const readyAfter = 'RCIE'

/**
 * Checks the messages of a server before the driver parses them: it would wait for gigabytes where a length says so, and
 * never return from an ErrorResponse without an end. The formats are those of
 * https://www.postgresql.org/docs/current/protocol-message-formats.html.
 */
class MessageCheck {
  /** A byte for the type, and the length as int32, which counts itself. */
  readonly #head = Buffer.alloc(headBytes)
  #receivedHeadBytes = 0
  #missingBodyBytes = 0
  /** The last two bytes of the body; 0xffff where it is empty. */
  #lastBytes = 0
  /** Whether ReadyForQuery may come: after authentication, a result or an error, once. */
  #mayBeReady = false

  /** Throws a ProtocolError. A message may come in several parts. */
  receive(data: Buffer): void {
    for (let at = 0; at < data.length; ) {
      if (this.#receivedHeadBytes < headBytes) {
        this.#head[this.#receivedHeadBytes++] = data.readUInt8(at++)
        if (this.#receivedHeadBytes < headBytes) continue
        this.#beginBody()
      }
      const end = Math.min(data.length, at + this.#missingBodyBytes)
      this.#missingBodyBytes -= end - at
      for (at = Math.max(at, end - 2); at < end; at++)
        this.#lastBytes = ((this.#lastBytes << 8) | data.readUInt8(at)) & 0xffff
      if (this.#missingBodyBytes === 0) this.#endMessage()
    }
  }

  get #type(): string {
    return String.fromCharCode(this.#head.readUInt8())
  }

  #beginBody(): void {
    const length = this.#head.readUInt32BE(1)
    if (length < 4 || length > (longTypes.includes(this.#type) ? maxLength : maxShortLength))
      throw new ProtocolError(notPostgres)
    this.#missingBodyBytes = length - 4
    this.#lastBytes = length === 4 ? 0xffff : 0
  }

  #endMessage(): void {
    const type = this.#type
    // Each field ends with a zero byte, and the last one is followed by another.
    if ((type === 'E' || type === 'N') && this.#lastBytes !== 0) throw new ProtocolError(notPostgres)
    // The driver would take the message for the end of the next statement, and give it the result of another.
    if (type === 'Z' && !this.#mayBeReady) throw new ProtocolError(notPostgres)
    if (type === 'Z') this.#mayBeReady = false
    else if (readyAfter.includes(type)) this.#mayBeReady = true
    this.#receivedHeadBytes = 0
  }
}
