import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Client } from 'pg'
import { isNumbered, type Numbered, port } from './items.ts'

/** The statements of this service through the same driver, pipelined on as many connections, without a store or a queue. */
const clients = Array.from({ length: 10 }, () => new Client({ connectionString: process.argv[3], pipeline: true }))
await Promise.all(clients.map((client) => client.connect()))
let last = 0
const query = (name: string, text: string, values: unknown[] = []) => {
  last = (last + 1) % clients.length
  return (clients[last] as Client).query({ name, text, values })
}
const collection = '/api/todoitems'
const inCollection = "space = '' and collection = 'a'"
const inDocument = `${inCollection} and place = $1`

function send(response: ServerResponse, status: number, text: string, location?: string): void {
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, location ? { ...headers, location } : headers).end(text)
}

async function readBody(request: IncomingMessage): Promise<Numbered> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString())
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const { method, url = '' } = request
  const id = url.slice(collection.length + 1)
  if (method === 'GET' && !id) {
    const { rows } = await query(
      'list',
      `select '[' || coalesce(string_agg(content, ',' order by place), '') || ']' as json
      from todo.documents where ${inCollection}`,
    )
    return send(response, 200, rows[0].json)
  }
  if (method === 'GET') {
    const { rows } = await query('get', `select content, version from todo.documents where ${inDocument}`, [id])
    return rows[0] ? send(response, 200, rows[0].content) : response.writeHead(404).end()
  }
  if (method === 'DELETE') {
    const { rowCount } = await query('delete', `delete from todo.documents where ${inDocument}`, [id])
    return response.writeHead(rowCount ? 204 : 404).end()
  }
  const body = await readBody(request)
  if (!isNumbered(body)) return response.writeHead(400).end()
  const { name, isComplete } = body
  const version = Math.floor(Math.random() * 2 ** 52)
  const members = `"name":${JSON.stringify(name)},"isComplete":${isComplete}}`
  if (method === 'POST') {
    const { rows } = await query(
      'create',
      `with counted as (update todo.collections set last = last + 1 where ${inCollection} returning last)
      insert into todo.documents (space, collection, place, version, content)
      select '', 'a', last, $1::bigint, '{"id":' || last || ',' || $2 from counted returning place`,
      [version, members],
    )
    const { place } = rows[0]
    return send(response, 201, `{"id":${place},${members}`, `http://${request.headers.host}${collection}/${place}`)
  }
  const { rowCount } = await query(
    'update',
    `update todo.documents set content = $2, version = $3 where ${inDocument}`,
    [id, `{"id":${id},${members}`, version],
  )
  return response.writeHead(rowCount ? 204 : 404).end()
}

createServer((request, response) => {
  handle(request, response).catch(() => response.writeHead(500).end())
}).listen(port, '127.0.0.1')
