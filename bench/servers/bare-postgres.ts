import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import postgres from 'postgres'
import { isNumbered, type Numbered, port } from './items.ts'

/** The statements of this service through the same driver, without a store or a pool of our own. */
const sql = postgres(process.argv[3] as string, { max: 10, fetch_types: false, onnotice: () => {} })
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
    const rows = await sql<Row[]>`select id, name, is_complete as "isComplete" from todo.numbered_items order by id`
    return json(response, 200, rows.map(item))
  }
  if (method === 'GET') {
    const [row] = await sql<
      Row[]
    >`select id, name, is_complete as "isComplete", version from todo.numbered_items where id = ${id}`
    return row ? json(response, 200, item(row)) : response.writeHead(404).end()
  }
  if (method === 'DELETE') {
    const { count } = await sql`delete from todo.numbered_items where id = ${id}`
    return response.writeHead(count ? 204 : 404).end()
  }
  const body = await readBody(request)
  if (!isNumbered(body)) return response.writeHead(400).end()
  const { name, isComplete } = body
  if (method === 'POST') {
    const [row] =
      await sql`insert into todo.numbered_items (name, is_complete) values (${name}, ${isComplete}) returning id, version`
    const created = { id: Number(row?.id), name, isComplete }
    return json(response, 201, created, `http://${request.headers.host}${collection}/${created.id}`)
  }
  const { count } =
    await sql`update todo.numbered_items set name = ${name}, is_complete = ${isComplete}, version = version + 1 where id = ${id}`
  return response.writeHead(count ? 204 : 404).end()
}

createServer((request, response) => {
  handle(request, response).catch(() => response.writeHead(500).end())
}).listen(port, '127.0.0.1')
