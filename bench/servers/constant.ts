import { port } from './items.ts'

/*
 * The lower limit on Bun and Deno: reads of each request what this service reads, parses its body, and sends a constant.
 * Profile A.
 */

declare const Bun: { serve(options: object): void } | undefined
declare const Deno: { serve(options: object, handler: (request: Request) => unknown): void }

const type = 'application/json; charset=utf-8'
const itemJson = '{"id":1,"name":"walk the dog 1","isComplete":false}'
const listJson = `[${Array(10).fill(itemJson).join()}]`
const headersRead = ['host', 'origin', 'if-match', 'if-none-match']
const bodyHeadersRead = ['host', 'origin', 'if-match', 'content-type', 'content-length']

/** Kept, so that no read can be left out as unused. */
export let last: unknown

function respond(status: number, body: string, headers: Record<string, string> = {}): Response {
  const response = new Response(body, { status })
  response.headers.set('content-type', type)
  response.headers.set('etag', '"constant"')
  for (const name in headers) response.headers.set(name, headers[name] as string)
  return response
}

function handle(request: Request & { readonly params?: object }): Response | Promise<Response> {
  const { method, url, headers, params } = request
  for (const name in params) last = name
  for (const name of method === 'GET' ? headersRead : bodyHeadersRead) last = headers.get(name)
  if (method === 'GET') return respond(200, url.endsWith('/todoitems') ? listJson : itemJson)
  if (method === 'DELETE') return new Response(null, { status: 204 })
  return request.arrayBuffer().then((bytes) => {
    last = JSON.parse(Buffer.from(bytes).toString())
    return method === 'PUT' ? new Response(null, { status: 204 }) : respond(201, itemJson, { location: `${url}/1` })
  })
}

if (typeof Bun === 'undefined') Deno.serve({ hostname: '127.0.0.1', port, onListen: () => {} }, handle)
else {
  const routes = Object.fromEntries(['/:p0/:p1', '/:p0/:p1/:p2'].map((pattern) => [pattern, handle]))
  Bun.serve({ hostname: '127.0.0.1', port, development: false, routes, fetch: handle })
}
