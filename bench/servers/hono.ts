import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { add, isNumbered, type Numbered, numbered, port } from './items.ts'

const app = new Hono()
const items = '/api/todoitems'

app.get(items, (context) => context.json([...numbered.values()]))
app.post(items, async (context) => {
  const body = await context.req.json<Numbered>()
  if (!isNumbered(body)) return context.body(null, 400)
  const created = add(body)
  return context.json(created, 201, { location: `http://${context.req.header('host')}${items}/${created.id}` })
})
app.get(`${items}/:id`, (context) => {
  const stored = numbered.get(Number(context.req.param('id')))
  return stored ? context.json(stored) : context.body(null, 404)
})
app.put(`${items}/:id`, async (context) => {
  const body = await context.req.json<Numbered>()
  if (!isNumbered(body) || body.id !== Number(context.req.param('id'))) return context.body(null, 400)
  const { id, name, isComplete } = body
  if (!numbered.has(id)) return context.body(null, 404)
  numbered.set(id, { id, name, isComplete })
  return context.body(null, 204)
})
app.delete(`${items}/:id`, (context) =>
  context.body(null, numbered.delete(Number(context.req.param('id'))) ? 204 : 404),
)
serve({ fetch: app.fetch, port, hostname: '127.0.0.1' })
