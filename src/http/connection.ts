import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Answer } from './answer.ts'
import { isMisread, refusalOf } from './broken.ts'
import { watchChunks } from './crumbs.ts'
import { header, isTooMany } from './header.ts'
import { type Allowance, Pace } from './pace.ts'
import { Row } from './row.ts'
import { send } from './send.ts'
import { type Patience, Stillness } from './stillness.ts'
import { hasBody, isSmall, letGo } from './unread.ts'

export interface Handler {
  /** Answers a request, at once or later, and always once; with a refusal where there is too much to do. */
  handle(request: IncomingMessage, reply: Reply, isOverloaded: boolean): void
  /** Told of what was no request. */
  refused(status: number, reason: string): void
}
/** Gives the answer, and tells the status that went out: the request may have been refused half-way. */
export type Reply = (answer: Answer) => number

/** Node's parser of a connection. It goes on through all that came in one go, unless it is told that there is an error. */
interface Parser {
  onIncoming?: (request: IncomingMessage, isKeptAlive: boolean) => number
  /** What it has read of a head so far. */
  _headers?: readonly string[]
}
const parserError = -1

/** What the connections of a server have in common. */
export interface Common {
  readonly handler: Handler
  /** Whether there is too much to do. */
  isOverloaded(): boolean
  /** Whether the server stops: answers are the last ones of their connections. */
  isClosing: boolean
  readonly requests: Allowance
  readonly chunks: Allowance
}

/** Requests on a connection that may come in one go, or wait for the one before them: always so many … */
const fewRequests = 20
/** … and so many while others do not do the same. */
const mostRequests = 1_000
/** What is wrong with a request that is not handled. */
const reasons: Readonly<Record<number, string>> = { 417: 'Unknown expectation', 431: 'Too many headers' }
/** How long a client has to take its last answer, in milliseconds. */
const lingering = 1_000

/** A client's connection: its requests take effect one after the other, and their answers go out in that order. */
export class Connection {
  readonly #socket: Socket
  readonly #common: Common
  /** There is no room for it: it is told so, and ends. */
  readonly #isSurplus: boolean
  #isNew = true
  /** Its last answer is given, or is the next to come: what follows is never handled. */
  #isEnded = false
  readonly #pace = new Pace(fewRequests, mostRequests)
  readonly #stillness = new Stillness()
  /** The newest request, and what answers it. */
  #request: IncomingMessage | undefined
  #response: ServerResponse | undefined
  readonly #row = new Row<[IncomingMessage, ServerResponse]>(([request, response], done) =>
    this.#handle(request, response, done),
  )

  constructor(socket: Socket, common: Common, isSurplus: boolean) {
    this.#socket = socket
    this.#common = common
    this.#isSurplus = isSurplus
    // Node calls this behind a last answer. It would not wait until the client has it.
    socket.destroySoon = () => this.#leave()
    const parser = this.#parser
    const take = parser?.onIncoming
    if (parser && take)
      parser.onIncoming = (request, isKeptAlive) => (this.#admits(request) ? take(request, isKeptAlive) : parserError)
  }

  get #parser(): Parser | undefined {
    return (this.#socket as { parser?: Parser }).parser
  }

  /** Whether nothing has come on it yet. */
  get isUnused(): boolean {
    return this.#socket.bytesRead === 0
  }

  /** Whether the client has not taken all that was sent. */
  get hasMoreToTake(): boolean {
    return this.#socket.writableLength > 0
  }

  /** With a status, the request is not handled: the connection ends with that. */
  take(request: IncomingMessage, response: ServerResponse, status?: number): void {
    if (this.#isEnded) return
    // Nobody offers an upgrade, and Node does not read what comes in with one as requests.
    if (!response.shouldKeepAlive || header(request, 'upgrade') !== undefined) this.#end(response)
    const refused =
      status ?? (isTooMany(request.rawHeaders) ? 431 : this.#isNew && isMisread(request) ? 400 : undefined)
    this.#isNew = false
    this.#request = request
    this.#response = response
    if (header(request, 'transfer-encoding') !== undefined)
      watchChunks(request, this.#common.chunks, () => this.refuse(413, 'Too many chunks'))
    if (refused) this.#decline(request, response, refused)
    else this.#row.add([request, response])
  }

  /** What came is no request, or took too long: that is said in its place, behind the answers that are due. */
  refuse(status: number, reason: string): void {
    const [socket, request, response] = [this.#socket, this.#request, this.#response]
    if (!socket.writable) {
      if (this.#isEnded) socket.pause()
      else socket.destroy()
    } else if (response && request && !request.complete) {
      if (response.headersSent) {
        if (response.writableFinished && !this.#isEnded) socket.destroy()
        return
      }
      if (this.#row.waiting.some(([waiting]) => waiting === request)) this.#common.handler.refused(status, reason)
      this.#end(response)
      // Whatever else comes of it, it must not become whole; and Node does not tell those who wait for that.
      request.push = () => false
      socket.once('close', () => request.destroy())
      send({ status }, response)
    } else if (!this.#isEnded) {
      this.#common.handler.refused(status, reason)
      this.#end()
      if (!response || response.writableFinished) this.#leave(refusalOf(status))
      else response.once('finish', () => this.#leave(refusalOf(status)))
    }
  }

  /** HTTPS: what has been decrypted comes even while Node pauses. It waits until Node goes on. */
  putOff(bytes: Buffer | undefined): void {
    // Whoever pushes is asked for more. Node reads on by itself when it goes on.
    this.#socket._read = () => {}
    if (bytes) this.#socket.push(bytes)
  }

  /** Nothing more comes. Node does not see, while it pauses, that a request is cut off by that. */
  finish(): void {
    if (this.#request?.complete === false) this.refuse(400, 'Cut off')
  }

  /** What waits is not handled any more. */
  drop(): void {
    this.#row.drop()
  }

  cut(): void {
    this.#socket.destroy()
  }

  /** Looks at it, once every so many milliseconds, and cuts it if it has done nothing for too long. */
  look(patience: Patience, beat: number): void {
    if (this.#response?.writableFinished) this.#request = this.#response = undefined
    if (this.#stillness.isTooLong(this.#socket, this.#row.isBusy, patience, beat)) this.cut()
  }

  /** Whether one more request may come. */
  #admits(request: IncomingMessage): boolean {
    if (this.#isEnded) return false
    if (request.method === 'CONNECT') {
      // Node would take its hands off the connection, and nobody would see to the answers that are due.
      Object.assign(request, { upgrade: false })
      this.refuse(501, 'CONNECT')
    } else if (this.#pace.isTooFast(this.#socket.bytesRead, this.#common.requests, this.#row.waiting.length))
      this.#end(this.#response)
    return !this.#isEnded
  }

  #decline(request: IncomingMessage, response: ServerResponse, status: number): void {
    this.#common.handler.refused(status, reasons[status] ?? 'Invalid request line')
    this.#end(response)
    send({ status }, response)
    letGo(request)
  }

  #handle(request: IncomingMessage, response: ServerResponse, done: () => void): void {
    // Refused while it waited.
    if (response.headersSent) {
      done()
      return
    }
    const reply = (answer: Answer) => {
      this.#answer(request, response, answer)
      done()
      return response.statusCode
    }
    this.#common.handler.handle(request, reply, this.#isSurplus || this.#common.isOverloaded())
  }

  #answer(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
    // Refused half-way.
    if (response.headersSent) return
    const isUnread = !request.complete && !request.destroyed && hasBody(request)
    // Node ends a connection of HTTP/1.0 behind an answer without a length.
    const isOpenEnded = request.httpVersionMinor === 0 && (answer.status === 204 || answer.status === 304)
    const isTooLong = isTooMany(request.rawTrailers) || (isUnread && !isSmall(request))
    const isLast = answer.isLast || this.#isSurplus || isOpenEnded || isTooLong
    if (isLast || (this.#common.isClosing && this.#row.waiting.length === 0)) this.#end(response)
    try {
      send(answer, response)
    } catch {
      response.destroy()
    }
    if (!response.shouldKeepAlive) {
      this.#end()
      this.drop()
    }
    if (isUnread) letGo(request)
  }

  /** The answer is the last one; without one, the last is given already. */
  #end(response?: ServerResponse): void {
    this.#isEnded = true
    if (!response) return
    response.shouldKeepAlive = false
    if (response.writableFinished) this.#leave()
    else if (response.headersSent) response.once('finish', () => this.#leave())
  }

  /** Ends it from this side, and gives the client time to take what was sent: a reset would take that away. */
  #leave(lastWords = ''): void {
    if (this.#socket.writableEnded) return
    this.#socket.end(lastWords)
    if (this.#parser) this.#parser._headers = []
    const timer = setTimeout(() => this.cut(), lingering)
    this.#socket.once('close', () => clearTimeout(timer))
  }
}
