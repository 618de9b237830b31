import type { IncomingMessage, ServerResponse } from 'node:http'
import { add, isNamed, isNumbered, type Named, type Numbered, named, numbered } from './items.ts'

const collection = '/api/todoitems'

function json(response: ServerResponse, status: number, value: unknown, location?: string): void {
  const text = JSON.stringify(value)
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, location ? { ...headers, location } : headers).end(text)
}

const end = (response: ServerResponse, status: number) => response.writeHead(status).end()

function withBody<T>(request: IncomingMessage, response: ServerResponse, then: (body: T) => void): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    try {
      then(JSON.parse(Buffer.concat(chunks).toString()))
    } catch {
      end(response, 400)
    }
  })
}

export function profileA(request: IncomingMessage, response: ServerResponse): void {
  const { method, url = '' } = request
  if (url === collection) {
    if (method === 'GET') json(response, 200, [...numbered.values()])
    else if (method === 'POST')
      withBody<Numbered>(request, response, (body) => {
        if (!isNumbered(body)) return end(response, 400)
        const item = add(body)
        json(response, 201, item, `http://${request.headers.host}${collection}/${item.id}`)
      })
    else end(response, 405)
    return
  }
  const id = url.startsWith(`${collection}/`) ? Number(url.slice(collection.length + 1)) : Number.NaN
  if (!Number.isSafeInteger(id)) return void end(response, 404)
  if (method === 'GET') {
    const item = numbered.get(id)
    if (item) json(response, 200, item)
    else end(response, 404)
  } else if (method === 'PUT')
    withBody<Numbered>(request, response, (body) => {
      if (!isNumbered(body) || body.id !== id) return end(response, 400)
      const { name, isComplete } = body
      if (!numbered.has(id)) return end(response, 404)
      numbered.set(id, { id, name, isComplete })
      end(response, 204)
    })
  else if (method === 'DELETE') end(response, numbered.delete(id) ? 204 : 404)
  else end(response, 405)
}

export function profileB(request: IncomingMessage, response: ServerResponse): void {
  const { method, url = '' } = request
  if (url === collection) {
    if (method === 'GET') json(response, 200, [...named.values()])
    else if (method === 'POST' || method === 'PUT')
      withBody<Named>(request, response, (body) => {
        if (!isNamed(body)) return end(response, 400)
        const { id, name, notes, done = false } = body
        const item = { id, name, notes, done }
        if (method === 'POST' && named.has(id)) return end(response, 409)
        if (method === 'PUT' && !named.has(id)) return end(response, 404)
        named.set(id, item)
        if (method === 'POST') json(response, 200, item)
        else end(response, 204)
      })
    else end(response, 405)
  } else if (method === 'DELETE' && url.startsWith(`${collection}/`))
    end(response, named.delete(decodeURIComponent(url.slice(collection.length + 1))) ? 204 : 404)
  else end(response, 404)
}
