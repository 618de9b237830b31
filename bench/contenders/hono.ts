import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { add, isNamed, isNumbered, type Named, type Numbered, named, numbered, port, profile } from './items.ts'

const app = new Hono()
const items = '/api/todoitems'

if (profile === 'b') {
  app.get(items, (c) => c.json([...named.values()]))
  app.post(items, async (c) => {
    const body = await c.req.json<Named>()
    if (!isNamed(body)) return c.body(null, 400)
    if (named.has(body.id)) return c.text('TodoItemIDInUse', 409)
    named.set(body.id, body)
    return c.json(body)
  })
  app.put(items, async (c) => {
    const body = await c.req.json<Named>()
    if (!isNamed(body)) return c.body(null, 400)
    if (!named.has(body.id)) return c.text('RecordNotFound', 404)
    named.set(body.id, body)
    return c.body(null, 204)
  })
  app.delete(`${items}/:id`, (c) => c.body(null, named.delete(c.req.param('id')) ? 204 : 404))
} else {
  app.get(items, (c) => c.json([...numbered.values()]))
  app.post(items, async (c) => {
    const body = await c.req.json<Numbered>()
    if (!isNumbered(body)) return c.body(null, 400)
    const created = add(body)
    return c.json(created, 201, { location: `http://${c.req.header('host')}${items}/${created.id}` })
  })
  app.get(`${items}/:id`, (c) => {
    const found = numbered.get(Number(c.req.param('id')))
    return found ? c.json(found) : c.body(null, 404)
  })
  app.put(`${items}/:id`, async (c) => {
    const [id, body] = [Number(c.req.param('id')), await c.req.json<Numbered>()]
    if (!isNumbered(body) || body.id !== id) return c.body(null, 400)
    if (!numbered.has(id)) return c.body(null, 404)
    numbered.set(id, { id, name: body.name, isComplete: body.isComplete })
    return c.body(null, 204)
  })
  app.delete(`${items}/:id`, (c) => c.body(null, numbered.delete(Number(c.req.param('id'))) ? 204 : 404))
}

serve({ fetch: app.fetch, port, hostname: '127.0.0.1' })
