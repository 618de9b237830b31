import Fastify from 'fastify'
import { add, type Named, type Numbered, named, numbered, port, profile } from './items.ts'

const string = { type: 'string' } as const
const boolean = { type: 'boolean' } as const
const fields = { name: { type: 'string', nullable: true }, isComplete: boolean } as const
const item = { type: 'object', properties: { id: { type: 'integer' }, ...fields } } as const
const newItem = { type: 'object', required: ['isComplete'], properties: fields } as const
const fullItem = { ...item, required: ['id', 'isComplete'] } as const
const namedItem = { type: 'object', properties: { id: string, name: string, notes: string, done: boolean } } as const
const nonEmpty = { type: 'string', minLength: 1 } as const
const sentItem = {
  type: 'object',
  required: ['id', 'name', 'notes'],
  properties: { id: nonEmpty, name: nonEmpty, notes: nonEmpty, done: { type: 'boolean', default: false } },
} as const
const params = { type: 'object', properties: { id: { type: 'integer' } } } as const

const app = Fastify()
const items = '/api/todoitems'

if (profile === 'b') {
  app.get(items, { schema: { response: { 200: { type: 'array', items: namedItem } } } }, () => [...named.values()])
  app.post<{ Body: Named }>(items, { schema: { body: sentItem, response: { 200: namedItem } } }, (request, reply) => {
    if (named.has(request.body.id)) return reply.code(409).send('TodoItemIDInUse')
    named.set(request.body.id, request.body)
    return reply.send(request.body)
  })
  app.put<{ Body: Named }>(items, { schema: { body: sentItem } }, (request, reply) => {
    if (!named.has(request.body.id)) return reply.code(404).send('RecordNotFound')
    named.set(request.body.id, request.body)
    return reply.code(204).send()
  })
  app.delete<{ Params: { id: string } }>(`${items}/:id`, (request, reply) =>
    reply.code(named.delete(request.params.id) ? 204 : 404).send(),
  )
} else {
  app.get(items, { schema: { response: { 200: { type: 'array', items: item } } } }, () => [...numbered.values()])
  app.post<{ Body: Numbered }>(items, { schema: { body: newItem, response: { 201: item } } }, (request, reply) => {
    const created = add(request.body)
    return reply.code(201).header('location', `http://${request.headers.host}${items}/${created.id}`).send(created)
  })
  app.get<{ Params: { id: number } }>(
    `${items}/:id`,
    { schema: { params, response: { 200: item } } },
    (request, reply) => {
      const stored = numbered.get(request.params.id)
      return stored ? reply.send(stored) : reply.code(404).send()
    },
  )
  app.put<{ Params: { id: number }; Body: Numbered }>(
    `${items}/:id`,
    { schema: { params, body: fullItem } },
    (request, reply) => {
      const { id, name, isComplete } = request.body
      if (id !== request.params.id) return reply.code(400).send()
      if (!numbered.has(id)) return reply.code(404).send()
      numbered.set(id, { id, name, isComplete })
      return reply.code(204).send()
    },
  )
  app.delete<{ Params: { id: number } }>(`${items}/:id`, { schema: { params } }, (request, reply) =>
    reply.code(numbered.delete(request.params.id) ? 204 : 404).send(),
  )
}

await app.listen({ port, host: '127.0.0.1' })
