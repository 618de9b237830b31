import { IncomingMessage } from 'node:http'
import type { Upload } from './uploads.ts'

type Receiver = Pick<Upload, 'append' | 'end'>

/**
 * A request whose body can be received without the events of a stream, which take more CPU time than the rest of a
 * request: Node's parser calls `push` with each piece, and then with null. Node does not document that, so bodies are
 * read as streams until one has come in this way.
 */
export class Message extends IncomingMessage {
  static isBodyPushed = false
  /** Gets what is pushed; undefined where the body is read as a stream. */
  receiver: Receiver | undefined = undefined
  /** Whether the end was passed to a receiver, so that the stream does not end. */
  #isReceived = false
  #pushedBytes = 0

  /**
   * Passes the body to `receiver`. Returns false if it must be read as a stream: also if a part of it is in the buffer of
   * the stream already.
   */
  receiveBody(receiver: Receiver): boolean {
    if (!Message.isBodyPushed || this.complete || this.readableLength > 0) return false
    this.receiver = receiver
    return true
  }

  override push(piece: Buffer | null): boolean {
    const receiver = this.receiver
    if (receiver === undefined) {
      if (piece !== null) this.#pushedBytes += piece.length
      else if (this.#pushedBytes > 0 && `${this.#pushedBytes}` === this.headers['content-length'])
        Message.isBodyPushed = true
      return super.push(piece)
    }
    if (piece !== null) receiver.append(piece)
    else {
      this.receiver = undefined
      this.#isReceived = true
      receiver.end()
    }
    return true
  }

  /** Node calls this after the response, so that no body remains unread. */
  override resume(): this {
    return this.#isReceived ? this : super.resume()
  }

  /** Until this is true, or the next request has begun, Node keeps the request in memory. */
  // @ts-expect-error The types of Node declare a property, which an accessor may not override.
  override get readableEnded(): boolean {
    // @ts-expect-error For the same reason.
    return this.#isReceived || super.readableEnded
  }
}

/** Ignores the end of a request without a body, for which no event is needed. */
export const nullReceiver: Receiver = { append() {}, end() {} }
