import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { port } from './items.ts'

/*
 * The lower limit on a runtime: reads of each request what this service reads, parses its body, and sends a constant.
 * Profile A.
 */

declare const Bun: { serve(options: object): void } | undefined
declare const Deno: { serve(options: object, handler: (request: Request) => unknown): void } | undefined

const type = 'application/json; charset=utf-8'
const itemJson = '{"id":1,"name":"walk the dog 1","isComplete":false}'
const etag = '"constant"'
const listJson = `[${Array(10).fill(itemJson).join()}]`
const headersRead = ['host', 'origin', 'if-match', 'if-none-match']
const bodyHeadersRead = ['host', 'origin', 'if-match', 'content-type', 'content-length']

/** Kept, so that no read can be left out as unused. */
export let last: unknown

const noContent = new Response(null, { status: 204 })

function ok(body: string): Response {
  const response = new Response(body)
  response.headers.set('content-type', type)
  response.headers.set('etag', etag)
  return response
}

const created = (location: string) =>
  new Response(itemJson, { status: 201, headers: { 'content-type': type, etag, location } })

function handle(request: Request & { readonly params?: object }): Response | Promise<Response> {
  const { method, url, headers, params } = request
  for (const name in params) last = name
  for (const name of method === 'GET' ? headersRead : bodyHeadersRead) last = headers.get(name)
  if (method === 'GET') return ok(url.endsWith('/todoitems') ? listJson : itemJson)
  if (method === 'DELETE') return noContent
  return request.arrayBuffer().then((bytes) => {
    last = JSON.parse(Buffer.from(bytes).toString())
    return method === 'PUT' ? noContent : created(`${url}/1`)
  })
}

function handleOnNode(request: IncomingMessage, response: ServerResponse): void {
  const { method, url = '', headers } = request
  for (const name of method === 'GET' ? headersRead : bodyHeadersRead) last = headers[name]
  if (method === 'GET') {
    const text = url.endsWith('/todoitems') ? listJson : itemJson
    response.writeHead(200, { 'content-type': type, etag, 'content-length': text.length }).end(text)
  } else if (method === 'DELETE') response.writeHead(204).end()
  else
    request.on('data', (bytes) => {
      last = JSON.parse(bytes.toString())
      if (method === 'PUT') response.writeHead(204).end()
      else
        response
          .writeHead(201, { 'content-type': type, etag, location: `${url}/1`, 'content-length': itemJson.length })
          .end(itemJson)
    })
}

if (typeof Deno !== 'undefined') Deno.serve({ hostname: '127.0.0.1', port, onListen: () => {} }, handle)
else if (typeof Bun === 'undefined') createServer({ keepAliveTimeout: 0 }, handleOnNode).listen(port, '127.0.0.1')
else {
  const routes = Object.fromEntries(['/:p0/:p1', '/:p0/:p1/:p2'].map((pattern) => [pattern, handle]))
  Bun.serve({ hostname: '127.0.0.1', port, development: false, routes, fetch: handle })
}
