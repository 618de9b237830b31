import express from 'express'
import { add, isNamed, isNumbered, named, numbered, port, profile } from './items.ts'

const app = express()
const items = '/api/todoitems'
app.use(express.json())

if (profile === 'b') {
  app.get(items, (_, response) => void response.json([...named.values()]))
  app.post(items, ({ body }, response) => {
    if (!isNamed(body)) return void response.sendStatus(400)
    if (named.has(body.id)) return void response.status(409).send('TodoItemIDInUse')
    named.set(body.id, body)
    response.json(body)
  })
  app.put(items, ({ body }, response) => {
    if (!isNamed(body)) return void response.sendStatus(400)
    if (!named.has(body.id)) return void response.status(404).send('RecordNotFound')
    named.set(body.id, body)
    response.status(204).end()
  })
  app.delete(`${items}/:id`, ({ params }, response) => void response.status(named.delete(params.id) ? 204 : 404).end())
} else {
  app.get(items, (_, response) => void response.json([...numbered.values()]))
  app.post(items, (request, response) => {
    if (!isNumbered(request.body)) return void response.sendStatus(400)
    const created = add(request.body)
    response.status(201).location(`http://${request.headers.host}${items}/${created.id}`).json(created)
  })
  app.get(`${items}/:id`, ({ params }, response) => {
    const found = numbered.get(Number(params.id))
    if (found) response.json(found)
    else response.sendStatus(404)
  })
  app.put(`${items}/:id`, ({ params, body }, response) => {
    const id = Number(params.id)
    if (!isNumbered(body) || body.id !== id) return void response.sendStatus(400)
    if (!numbered.has(id)) return void response.sendStatus(404)
    numbered.set(id, { id, name: body.name, isComplete: body.isComplete })
    response.status(204).end()
  })
  app.delete(
    `${items}/:id`,
    ({ params }, response) => void response.status(numbered.delete(Number(params.id)) ? 204 : 404).end(),
  )
}

app.listen(port, '127.0.0.1')
