import {
  closingResponse,
  everyInterface,
  FetchRequest,
  type FetchServer,
  fetchListening,
  fetchServer,
} from './fetch.ts'
import type { Bind } from './server.ts'

/** What is used of Deno: https://docs.deno.com/api/deno/~/Deno.serve. */
declare const Deno: {
  serve(
    options: object,
    handler: (request: globalThis.Request, info: ConnectionInfo) => globalThis.Response | Promise<globalThis.Response>,
  ): { readonly addr: { readonly port: number }; readonly finished: Promise<void>; shutdown(): Promise<void> }
}

type DenoServer = ReturnType<typeof Deno.serve>

interface ConnectionInfo {
  readonly remoteAddr: { readonly hostname: string; readonly port: number }
}

/** A port of a client is not used again so soon (TIME_WAIT). */
const closingMs = 1_000

/** After Deno has stopped to listen. */
const reopenDelayMs = 100
const pieceBytes = 16 * 1024
const clientOf = ({ remoteAddr: { hostname, port } }: ConnectionInfo) => `${hostname} ${port}`

class DenoRequest extends FetchRequest {
  readonly #info: ConnectionInfo
  /** Clients that got a final response. Deno keeps their connection open: requests behind it are refused here. */
  readonly #closing: Set<string>

  constructor(
    request: globalThis.Request,
    target: string,
    host: string | undefined,
    server: FetchServer,
    info: ConnectionInfo,
    closing: Set<string>,
  ) {
    super(request, target, host, server)
    this.#info = info
    this.#closing = closing
  }

  get remoteAddress(): string {
    return this.#info.remoteAddr.hostname
  }

  protected override onFinalResponse(): void {
    // HTTP/2, where no request is behind another.
    if (this.header('host') === undefined) return
    const client = clientOf(this.#info)
    const closing = this.#closing
    closing.add(client)
    setTimeout(() => closing.delete(client), closingMs).unref()
  }

  protected override pieces(): AsyncIterable<Uint8Array> {
    const { body } = this.request
    try {
      if (body) return piecesOf(body.getReader({ mode: 'byob' }))
    } catch {
      // It has been received already.
    }
    return super.pieces()
  }
}

/** Reads into one buffer: Deno keeps that of a read which stays pending, after the client has left too. */
async function* piecesOf(reader: ReadableStreamBYOBReader): AsyncIterable<Uint8Array> {
  let view = new Uint8Array(pieceBytes)
  try {
    for (;;) {
      const { done, value } = await reader.read(view)
      if (done || !value) return
      yield Buffer.from(value)
      view = new Uint8Array(value.buffer)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** Deno.serve. */
export const bind: Bind = (handler, { host = everyInterface, port, credentials }, context) => {
  const state = fetchServer(handler, context, credentials !== undefined)
  const scheme = state.isEncrypted ? 'https://' : 'http://'
  const abort = new AbortController()
  const closing = new Set<string>()
  /** The one that listens, and those that have stopped and have connections. */
  const servers = new Set<DenoServer>()
  let isStopping = false
  let giveUp: (() => void) | undefined

  function open(at: number): number {
    const server = Deno.serve(
      { hostname: host, port: at, ...credentials, signal: abort.signal, onListen: () => {}, onError },
      (request, info) => {
        if (closing.size > 0 && closing.has(clientOf(info))) return closingResponse(400)
        const named = request.headers.get('host') ?? undefined
        return new DenoRequest(request, targetOf(request.url, scheme, named), named, state, info, closing).handle()
      },
    )
    servers.add(server)
    const finished = () => servers.delete(server)
    // When no file descriptor is left, Deno stops listening. Its idle connections are closed, which frees some.
    server.finished.then(finished, () => {
      server.shutdown().then(finished, finished)
      reopen()
    })
    return server.addr.port
  }

  function reopen(): void {
    if (isStopping) return
    try {
      open(state.localPort)
    } catch {
      setTimeout(reopen, reopenDelayMs)
    }
  }

  state.localPort = open(port)
  return fetchListening(state, host, {
    stop() {
      isStopping = true
      const gaveUp = new Promise<void>((resolve) => {
        giveUp = resolve
      })
      return Promise.race([gaveUp, Promise.all([...servers].map((server) => server.shutdown()))])
    },
    async destroy() {
      isStopping = true
      // After shutdown() an abort would be an uncaught exception.
      if (giveUp) giveUp()
      else abort.abort()
    },
  })
}

/** Deno calls it for a response that is cut off, too. */
const onError = () => new Response(null, { status: 500 })

/** As sent: Deno puts scheme and Host in front of it. An absolute-form target has an authority of its own, HTTP/2 no Host. */
function targetOf(url: string, scheme: string, host: string | undefined): string {
  if (host === undefined) return url
  const start = scheme.length + host.length
  return url.startsWith(host, scheme.length) && url.charAt(start) === '/' ? url.slice(start) : url
}
