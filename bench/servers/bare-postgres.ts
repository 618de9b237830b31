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

interface Row {
  id: string
  name: string | null
  isComplete: boolean
}
const item = ({ id, name, isComplete }: Row) => ({ id: Number(id), name, isComplete })

function json(response: ServerResponse, status: number, value: unknown, location?: string): void {
  const text = JSON.stringify(value)
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
      `select id, name, is_complete as "isComplete" from todo.items_a where space = '' order by id`,
    )
    return json(response, 200, rows.map(item))
  }
  if (method === 'GET') {
    const { rows } = await query(
      'get',
      `select id, name, is_complete as "isComplete", version from todo.items_a where space = '' and id = $1`,
      [id],
    )
    return rows[0] ? json(response, 200, item(rows[0])) : response.writeHead(404).end()
  }
  if (method === 'DELETE') {
    const { rowCount } = await query('delete', "delete from todo.items_a where space = '' and id = $1", [id])
    return response.writeHead(rowCount ? 204 : 404).end()
  }
  const body = await readBody(request)
  if (!isNumbered(body)) return response.writeHead(400).end()
  const { name, isComplete } = body
  const version = Math.floor(Math.random() * 2 ** 53)
  if (method === 'POST') {
    const { rows } = await query(
      'create',
      `with counted as (update todo.spaces set last_id = last_id + 1 where space = '' returning last_id)
      insert into todo.items_a (space, id, name, is_complete, version)
      select '', last_id, $1::text, $2::boolean, $3::bigint from counted returning id`,
      [name, isComplete, version],
    )
    const created = { id: Number(rows[0].id), name, isComplete }
    return json(response, 201, created, `http://${request.headers.host}${collection}/${created.id}`)
  }
  const { rowCount } = await query(
    'update',
    "update todo.items_a set name = $2, is_complete = $3, version = $4 where space = '' and id = $1",
    [id, name, isComplete, version],
  )
  return response.writeHead(rowCount ? 204 : 404).end()
}

createServer((request, response) => {
  handle(request, response).catch(() => response.writeHead(500).end())
}).listen(port, '127.0.0.1')
