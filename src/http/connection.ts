import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Answer } from './answer.ts'
import { isMisread, refuseBytes } from './broken.ts'
import { header } from './header.ts'
import { send } from './send.ts'
import { hasBody, isSmall, letGo } from './unread.ts'

/** Answers a request, at once or later, and always once; with a refusal where there is too much to do. */
export type Handler = (request: IncomingMessage, reply: Reply, isOverloaded: boolean) => void
export type Reply = (answer: Answer) => void

/** Node's parser of a connection. It goes on through all that came in one go, unless it is told that there is an error. */
interface Parser {
  onIncoming?: (request: IncomingMessage, isKeptAlive: boolean) => number
}
const parserError = -1

/** Requests on a connection that may come in one go, or wait for the one before them: always so many … */
const fewAtOnce = 20
/** … and so many while others do not do the same. */
const mostAtOnce = 1_000

/** What the connections of a server have in common. */
export interface Common {
  readonly handler: Handler
  /** Whether there is too much to do. */
  isOverloaded(): boolean
  /** Whether the server stops: answers are the last ones of their connections. */
  isClosing: boolean
  /** How many requests may come in one go, beyond a few, until somebody sets it anew. */
  spare: number
}

/** How long, in milliseconds, a connection may do nothing. */
export interface Patience {
  /** Between requests. */
  readonly keepAliveTimeout: number
  /** While an answer waits to be taken. */
  readonly stalledTimeout: number
}

/** A client's connection: its requests take effect one after the other, and their answers go out in that order. */
export class Connection {
  readonly #socket: Socket
  readonly #common: Common
  /** There is no room for it: it is told so, and ends. */
  readonly #isSurplus: boolean
  #isUnused = true
  /** Its last answer is given, or is the next to come: what follows is never handled. */
  #isEnded = false
  #bytesRead = 0
  #atOnce = 0
  /** The newest request, and what answers it. */
  #request: IncomingMessage | undefined
  #response: ServerResponse | undefined
  /** What came behind a request that is at work; undefined while none is. */
  #behind: (() => void)[] | undefined
  #written = 0
  #looks = 0

  constructor(socket: Socket, common: Common, isSurplus: boolean) {
    this.#socket = socket
    this.#common = common
    this.#isSurplus = isSurplus
    const parser = (socket as { parser?: Parser }).parser
    const take = parser?.onIncoming
    if (parser && take)
      parser.onIncoming = (request, isKeptAlive) => (this.#isOpen() ? take(request, isKeptAlive) : parserError)
  }

  /** Whether nothing has come on it yet. */
  get isUnused(): boolean {
    return this.#isUnused && this.#socket.bytesRead === 0
  }

  /** With a status, the request is not handled: the connection ends with that. */
  take(request: IncomingMessage, response: ServerResponse, status?: number): void {
    if (this.#isEnded) return
    // Node reads nothing of what comes in with an upgrade, which nobody offers: the rest must not be taken for a request.
    if (!response.shouldKeepAlive || header(request, 'upgrade') !== undefined) this.#end(response)
    const refused = status ?? (this.#isUnused && isMisread(request) ? 400 : undefined)
    this.#isUnused = false
    this.#request = request
    this.#response = response
    if (refused) this.#decline(request, response, refused)
    else if (this.#behind) this.#behind.push(() => this.#respond(request, response))
    else this.#respond(request, response)
  }

  /** What came is no request, or took too long: that is said in its place, behind the answers that are due. */
  refuse(status: number): void {
    const [socket, request, response] = [this.#socket, this.#request, this.#response]
    if (!socket.writable) socket.destroy()
    else if (response && request && !request.complete) {
      this.#end(response)
      if (!response.headersSent) send({ status }, response)
      else if (response.writableFinished) socket.destroy()
    } else if (!this.#isEnded) {
      this.#isEnded = true
      if (!response || response.writableFinished) refuseBytes(socket, status)
      else response.once('finish', () => refuseBytes(socket, status))
    }
  }

  /** What waits is not handled any more. */
  drop(): void {
    this.#behind = undefined
  }

  cut(): void {
    this.#socket.destroy()
  }

  /** Looks at it, once every so many milliseconds, and cuts it if it has done nothing for too long. */
  look({ keepAliveTimeout, stalledTimeout }: Patience, beat: number): void {
    const { bytesWritten, writableLength } = this.#socket
    if (this.#response?.writableFinished) this.#request = this.#response = undefined
    // What Node has taken but could not send counts as written, too. What comes in does not count: bytes are no request.
    const written = bytesWritten - writableLength
    this.#looks = written !== this.#written ? 0 : this.#looks + 1
    this.#written = written
    const patience = writableLength > 0 ? stalledTimeout : this.#behind ? Infinity : keepAliveTimeout
    if (this.#looks * beat > patience) this.cut()
  }

  /** Whether one more request may come. */
  #isOpen(): boolean {
    const { bytesRead } = this.#socket
    this.#atOnce = bytesRead === this.#bytesRead ? this.#atOnce + 1 : 1
    this.#bytesRead = bytesRead
    const count = Math.max(this.#atOnce, this.#behind?.length ?? 0)
    if (count > fewAtOnce && (count > mostAtOnce || --this.#common.spare < 0) && !this.#isEnded) {
      this.#end(this.#response)
      this.#socket.pause()
    }
    return !this.#isEnded
  }

  #decline(request: IncomingMessage, response: ServerResponse, status: number): void {
    this.#end(response)
    send({ status }, response)
    letGo(request)
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    let isAnswered = false
    const reply = (answer: Answer) => {
      if (isAnswered) return
      isAnswered = true
      this.#answer(request, response, answer)
      const next = this.#behind?.shift()
      if (next) next()
      else this.#behind = undefined
    }
    this.#common.handler(request, reply, this.#isSurplus || this.#common.isOverloaded())
    if (!isAnswered) this.#behind ??= []
  }

  #answer(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
    // Refused half-way.
    if (response.headersSent) return
    const isUnread = !request.complete && !request.destroyed && hasBody(request)
    const isLast = answer.isLast || this.#isSurplus || (isUnread && !isSmall(request))
    if (isLast || (this.#common.isClosing && !this.#behind?.length)) {
      this.#end(response)
      this.drop()
    }
    try {
      send(answer, response)
    } catch {
      response.destroy()
    }
    if (isUnread) letGo(request)
  }

  #end(response: ServerResponse | undefined): void {
    this.#isEnded = true
    if (!response) return
    response.shouldKeepAlive = false
    if (response.writableFinished) this.#socket.destroySoon()
    else if (response.headersSent) response.once('finish', () => this.#socket.destroySoon())
  }
}
