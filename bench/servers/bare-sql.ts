import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isNumbered, type Numbered, port } from './items.ts'

/** What a bare server executes for each operation: one statement, the same as that of this service. */
export interface Statements {
  list(): Promise<string> | string
  get(id: string): Promise<string | undefined> | string | undefined
  /** `members` follows the id: `"name":"x","isComplete":true}`. Returns the id. */
  create(members: string): Promise<number> | number
  /** These return how many items were changed. */
  update(id: string, json: string): Promise<number> | number
  remove(id: string): Promise<number> | number
}

const collection = '/api/todoitems'

function send(response: ServerResponse, status: number, text: string, location?: string): void {
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, location ? { ...headers, location } : headers).end(text)
}

async function readBody(request: IncomingMessage): Promise<Numbered> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString())
}

async function handle(statements: Statements, request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const { method, url = '' } = request
  const id = url.slice(collection.length + 1)
  if (method === 'GET' && !id) return send(response, 200, await statements.list())
  if (method === 'GET') {
    const json = await statements.get(id)
    return json === undefined ? response.writeHead(404).end() : send(response, 200, json)
  }
  if (method === 'DELETE') return response.writeHead((await statements.remove(id)) > 0 ? 204 : 404).end()
  const body = await readBody(request)
  if (!isNumbered(body)) return response.writeHead(400).end()
  const { name, isComplete } = body
  const members = `"name":${JSON.stringify(name)},"isComplete":${isComplete}}`
  if (method === 'POST') {
    const place = await statements.create(members)
    return send(response, 201, `{"id":${place},${members}`, `http://${request.headers.host}${collection}/${place}`)
  }
  const changed = await statements.update(id, `{"id":${id},${members}`)
  return response.writeHead(changed > 0 ? 204 : 404).end()
}

export const serve = (statements: Statements) =>
  createServer((request, response) => {
    handle(statements, request, response).catch(() => response.writeHead(500).end())
  }).listen(port, '127.0.0.1')
