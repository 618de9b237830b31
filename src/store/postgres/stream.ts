import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** Thrown if the server does not speak PostgreSQL's protocol as the driver knows it. */
export class ProtocolError extends Error {}

/**
 * The driver's stream over a connected socket. The driver parses data in a listener, and throws if it cannot. This
 * stream catches the exception and is destroyed, so that the process goes on.
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

  /** Called by the driver, which then waits for `connect`. */
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
/** Only messages of `longTypes` may be longer, as in libpq. */
const maxShortLength = 30_000
const longTypes = 'TDENA'
/** PostgreSQL sends no longer message. */
const maxLength = 2 ** 30
/** AuthenticationOk, CommandComplete, EmptyQueryResponse and ErrorResponse. */
const readyAfter = 'RCIE'

/**
 * Checks the messages of a server before the driver parses them: the driver would wait for gigabytes if a length says
 * so, and loop forever over an ErrorResponse without an end. The formats are documented at
 * https://www.postgresql.org/docs/current/protocol-message-formats.html.
 */
class MessageCheck {
  /** The head of a message: its type as a byte, its length as an int32 that counts itself. */
  readonly #head = Buffer.alloc(headBytes)
  #receivedHeadBytes = 0
  #missingBodyBytes = 0
  /** The last two bytes of the body; 0xffff if it is empty. */
  #lastBytes = 0
  /** Whether ReadyForQuery may come: once after authentication, a result or an error. */
  #mayBeReady = false

  /** Checks bytes in which messages may be incomplete. Throws a ProtocolError. */
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
    // Each field ends with a zero byte, and the message with one more.
    if ((type === 'E' || type === 'N') && this.#lastBytes !== 0) throw new ProtocolError(notPostgres)
    // The driver would take this ReadyForQuery for the end of the next statement, and then mix up results.
    if (type === 'Z' && !this.#mayBeReady) throw new ProtocolError(notPostgres)
    if (type === 'Z') this.#mayBeReady = false
    else if (readyAfter.includes(type)) this.#mayBeReady = true
    this.#receivedHeadBytes = 0
  }
}
