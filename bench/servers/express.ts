import { createRequire } from 'node:module'
import { add, isNumbered, numbered, port } from './items.ts'

// Without types: they are a package of their own.
const express = createRequire(import.meta.url)('express')
const app = express()
const items = '/api/todoitems'

interface Request {
  readonly body: never
  readonly params: { readonly id: string }
  get(name: string): string
}

interface Response {
  json(value: unknown): void
  sendStatus(status: number): void
  status(status: number): Response
  location(url: string): Response
}

app.disable('x-powered-by')
app.use(express.json())
app.get(items, (_: Request, response: Response) => response.json([...numbered.values()]))
app.post(items, (request: Request, response: Response) => {
  if (!isNumbered(request.body)) return response.sendStatus(400)
  const created = add(request.body)
  response
    .status(201)
    .location(`http://${request.get('host')}${items}/${created.id}`)
    .json(created)
})
app.get(`${items}/:id`, ({ params }: Request, response: Response) => {
  const stored = numbered.get(Number(params.id))
  if (stored) response.json(stored)
  else response.sendStatus(404)
})
app.put(`${items}/:id`, ({ params, body }: Request, response: Response) => {
  if (!isNumbered(body)) return response.sendStatus(400)
  const { id, name, isComplete } = body as { id: number; name: string | null; isComplete: boolean }
  if (id !== Number(params.id)) return response.sendStatus(400)
  if (!numbered.has(id)) return response.sendStatus(404)
  numbered.set(id, { id, name, isComplete })
  response.sendStatus(204)
})
app.delete(`${items}/:id`, ({ params }: Request, response: Response) =>
  response.sendStatus(numbered.delete(Number(params.id)) ? 204 : 404),
)
app.listen(port, '127.0.0.1')
