import {
  closingResponse,
  everyInterface,
  FetchRequest,
  type FetchServer,
  fetchListening,
  fetchServer,
} from './fetch.ts'
import type { Bind } from './server.ts'

/** The members of Deno that this file uses: https://docs.deno.com/api/deno/~/Deno.serve. */
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

/** In this time no new connection comes from the port of a closed one (TIME_WAIT). */
const closingMs = 1_000
/** The time between two attempts to listen again, when Deno has stopped listening. */
const reopenDelayMs = 100
const pieceBytes = 16 * 1024
const clientOf = ({ remoteAddr: { hostname, port } }: ConnectionInfo) => `${hostname} ${port}`

class DenoRequest extends FetchRequest {
  readonly #info: ConnectionInfo
  /** Clients that got `Connection: close`. Deno keeps the connections open, so further requests are refused. */
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
    // Without Host this is HTTP/2, where no request waits for the response to another one.
    if (this.header('host') === undefined) return
    const client = clientOf(this.#info)
    const closing = this.#closing
    closing.add(client)
    setTimeout(() => closing.delete(client), closingMs).unref()
  }

  protected override pieces(): AsyncIterable<Uint8Array> {
    const { body } = this.request
    try {
      if (body) return readPieces(body.getReader({ mode: 'byob' }))
    } catch {
      // Deno has received the body already.
    }
    return super.pieces()
  }
}

/** Reads into one buffer again and again: Deno keeps the buffer of a pending read, even when the client has left. */
async function* readPieces(reader: ReadableStreamBYOBReader): AsyncIterable<Uint8Array> {
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

/** Serves requests by Deno.serve(). */
export const bind: Bind = (handler, { host = everyInterface, port, credentials }, context) => {
  const state = fetchServer(handler, context, credentials !== undefined)
  const scheme = state.isEncrypted ? 'https://' : 'http://'
  const abort = new AbortController()
  const closing = new Set<string>()
  /** The server that listens, and those that no longer listen but still have connections. */
  const servers = new Set<DenoServer>()
  let isStopping = false
  let giveUp: (() => void) | undefined

  function open(listenPort: number): number {
    const server = Deno.serve(
      { hostname: host, port: listenPort, ...credentials, signal: abort.signal, onListen: () => {}, onError },
      (request, info) => {
        if (closing.size > 0 && closing.has(clientOf(info))) return closingResponse(400)
        const hostHeader = request.headers.get('host') ?? undefined
        const target = targetOf(request.url, scheme, hostHeader)
        return new DenoRequest(request, target, hostHeader, state, info, closing).handle()
      },
    )
    servers.add(server)
    const finished = () => servers.delete(server)
    // Deno stops listening when no file descriptor is left. shutdown() closes idle connections, which frees some.
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

/** Deno calls this when the body of a response fails, also if the service cuts it off on purpose. */
const onError = () => new Response(null, { status: 500 })

/** Returns the target as sent, without the scheme and Host that Deno adds, except to absolute-form and in HTTP/2. */
function targetOf(url: string, scheme: string, host: string | undefined): string {
  if (host === undefined) return url
  const start = scheme.length + host.length
  return url.startsWith(host, scheme.length) && url.charAt(start) === '/' ? url.slice(start) : url
}
