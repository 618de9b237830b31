import { createServer, type Server } from 'node:http'

interface Reply {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

export interface ExampleServer {
  handle(method: string, path: string, body: Record<string, unknown>): Reply
}

export function toHttp(server: ExampleServer): Server {
  return createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const { status, body, headers } = server.handle(
      request.method ?? '',
      request.url ?? '',
      text ? JSON.parse(text) : {},
    )
    const type = body === undefined ? {} : { 'content-type': 'application/json; charset=utf-8' }
    response.writeHead(status, { ...type, ...headers }).end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const notFound = { status: 404 }

interface Item {
  id: number
  name: string | null
  isComplete: boolean
}

/** The finished program of the tutorial. */
export class MinimalApi implements ExampleServer {
  readonly items = new Map<number, Item>()
  #lastId = 0

  handle(method: string, path: string, body: Partial<Item>): Reply {
    const [, collection, id, ...rest] = path.split('/')
    if (collection !== 'todoitems' || rest.length > 0) return notFound
    if (id === undefined) return method === 'GET' ? this.list() : this.create(body)
    if (id === 'complete') return this.complete()
    const item = this.items.get(Number(id))
    if (!item) return this.missing(method)
    if (method === 'GET') return this.read(item)
    return method === 'PUT' ? this.replace(item, body) : this.remove(item)
  }

  list(): Reply {
    return { status: 200, body: [...this.items.values()] }
  }

  read(item: Item): Reply {
    return { status: 200, body: item }
  }

  complete(): Reply {
    return { status: 200, body: [...this.items.values()].filter(({ isComplete }) => isComplete) }
  }

  create({ name = null, isComplete = false }: Partial<Item>): Reply {
    const id = ++this.#lastId
    const item = { id, name, isComplete }
    this.items.set(id, item)
    return { status: 201, body: item, headers: { location: `/todoitems/${id}` } }
  }

  replace(item: Item, { name = null, isComplete = false }: Partial<Item>): Reply {
    Object.assign(item, { name, isComplete })
    return { status: 204 }
  }

  remove({ id }: Item): Reply {
    this.items.delete(id)
    return { status: 204 }
  }

  missing(_method: string): Reply {
    return notFound
  }
}

interface Todo {
  id: number
  title: string
  completed: boolean
  order?: number
}

/** A server that keeps the specification of Todo-Backend. */
export class TodoBackend implements ExampleServer {
  readonly todos = new Map<number, Todo>()
  #lastId = 0

  handle(method: string, path: string, body: Partial<Todo>): Reply {
    const reply = method === 'OPTIONS' ? this.preflight() : this.respond(method, path.slice(1), body)
    return { ...reply, headers: { 'access-control-allow-origin': '*', ...reply.headers } }
  }

  respond(method: string, id: string, body: Partial<Todo>): Reply {
    if (id === '') {
      if (method === 'GET') return this.list()
      return method === 'POST' ? this.create(body) : this.clear()
    }
    const todo = this.todos.get(Number(id))
    if (!todo) return notFound
    if (method === 'DELETE') return this.remove(todo)
    return method === 'PATCH' ? this.change(todo, body) : { status: 200, body: this.view(todo) }
  }

  preflight(): Reply {
    const headers = { 'access-control-allow-methods': 'GET, POST, PATCH, DELETE' }
    return { status: 204, headers: { ...headers, 'access-control-allow-headers': 'Content-Type' } }
  }

  view({ id, ...members }: Todo): object {
    return { ...members, url: `http://todo.example/${id}` }
  }

  list(): Reply {
    return { status: 200, body: [...this.todos.values()].map((todo) => this.view(todo)) }
  }

  create({ title = '', order }: Partial<Todo>): Reply {
    const todo = { id: ++this.#lastId, title, completed: false, ...(order !== undefined && { order }) }
    this.todos.set(todo.id, todo)
    return { status: 201, body: this.view(todo) }
  }

  change(todo: Todo, { title, completed, order }: Partial<Todo>): Reply {
    if (title !== undefined) todo.title = title
    if (completed !== undefined) todo.completed = completed
    if (order !== undefined) todo.order = order
    return { status: 200, body: this.view(todo) }
  }

  remove({ id }: Todo): Reply {
    this.todos.delete(id)
    return { status: 204 }
  }

  clear(): Reply {
    this.todos.clear()
    return { status: 204 }
  }
}

export type { Item, Reply, Todo }
