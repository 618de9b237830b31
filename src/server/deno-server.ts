import { closingResponse, FetchExchange, type FetchServer, fetchListening, fetchServer } from './fetch-exchange.ts'
import type { Bind } from './runtime.ts'

/** What is used of Deno: https://docs.deno.com/api/deno/~/Deno.serve. */
declare const Deno: {
  serve(
    options: object,
    handler: (request: globalThis.Request, info: Info) => globalThis.Response | Promise<globalThis.Response>,
  ): { readonly addr: { readonly port: number }; readonly finished: Promise<void>; shutdown(): Promise<void> }
}

interface Info {
  readonly remoteAddr: { readonly hostname: string; readonly port: number }
}

/** A port of a client is not used again so soon (TIME_WAIT). */
const closingMs = 1_000

/** Clients that got a final response. Deno keeps their connection open: requests behind it are refused here. */
const closing = new Set<string>()
const clientOf = ({ remoteAddr: { hostname, port } }: Info) => `${hostname} ${port}`

class DenoExchange extends FetchExchange {
  readonly #info: Info

  constructor(request: globalThis.Request, target: string, host: string | undefined, server: FetchServer, info: Info) {
    super(request, target, host, server)
    this.#info = info
  }

  get remoteAddress(): string {
    return this.#info.remoteAddr.hostname
  }

  protected override onFinalResponse(): void {
    // HTTP/2, where no request is behind another.
    if (this.header('host') === undefined) return
    const client = clientOf(this.#info)
    closing.add(client)
    setTimeout(() => closing.delete(client), closingMs).unref()
  }
}

/** Deno.serve. */
export const bind: Bind = (handler, { host, port, credentials }, limits, overload, now) => {
  const state = fetchServer(handler, limits, overload, now, credentials !== undefined)
  const scheme = state.isEncrypted ? 'https://' : 'http://'
  const abort = new AbortController()
  const listening = Deno.serve(
    // `::` is every interface, as in Node.
    { hostname: host ?? '::', port, ...credentials, signal: abort.signal, onListen: () => {}, onError },
    (request, info) => {
      if (closing.size > 0 && closing.has(clientOf(info))) return closingResponse(400)
      const named = request.headers.get('host') ?? undefined
      return new DenoExchange(request, targetOf(request.url, scheme, named), named, state, info).handle()
    },
  )
  state.localPort = listening.addr.port
  return fetchListening(state, {
    stop: () => listening.shutdown(),
    async destroy() {
      abort.abort()
      await listening.finished
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
