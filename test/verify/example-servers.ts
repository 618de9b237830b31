import { createServer, type Server } from 'node:http'

interface Reply {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

export interface ExampleServer {
  handle(method: string, path: string, body: Record<string, unknown>, authorization?: string): Reply
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
      request.headers.authorization,
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

interface ArticleMembers {
  title: string
  description: string
  body: string
  tagList: string[]
}

interface Article extends ArticleMembers {
  slug: string
  createdAt: string
  author: string
  readonly favoriteOf: Set<string>
}

/** Of the two users that a Conduit has. */
export const conduitTokens = { ada: 'secret-of-ada.7f3a91', bob: 'secret-of-bob.c40e2d' } as const
type User = keyof typeof conduitTokens

const unauthorized = { status: 401, body: { errors: { token: ['is missing'] } } }
const forbidden = { status: 403, body: { errors: { article: ['forbidden'] } } }

/** The articles of the RealWorld API. */
export class Conduit implements ExampleServer {
  readonly articles = new Map<string, Article>()
  #created = 0

  handle(method: string, path: string, content: { article?: Partial<ArticleMembers> }, authorization?: string): Reply {
    const { pathname, searchParams } = new URL(path, 'http://conduit.example')
    const [, api, collection, slug, action] = pathname.split('/')
    if (api !== 'api' || collection !== 'articles') return notFound
    return this.respond(method, slug, action, searchParams, content.article ?? {}, this.userOf(authorization))
  }

  respond(
    method: string,
    slug: string | undefined,
    action: string | undefined,
    query: URLSearchParams,
    members: Partial<ArticleMembers>,
    user: User | undefined,
  ): Reply {
    if (method === 'GET' && slug === undefined) return this.list(query, user)
    if (method !== 'GET' && !user) return this.deny(method)
    if (slug === undefined) return this.create(members, user as User)
    const article = this.articles.get(slug)
    if (!article) return this.missing(method)
    if (method === 'GET') return this.read(article, user)
    if (action === 'favorite') return this.favorite(article, user as User, method === 'POST')
    if (!this.mayChange(article, user as User)) return forbidden
    return method === 'PUT' ? this.change(article, members, user as User) : this.remove(article)
  }

  userOf(authorization: string | undefined): User | undefined {
    const users = Object.keys(conduitTokens) as User[]
    return users.find((user) => authorization === `Token ${conduitTokens[user]}`)
  }

  deny(_method: string): Reply {
    return unauthorized
  }

  mayChange({ author }: Article, user: User): boolean {
    return author === user
  }

  slugOf(title: string): string {
    return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  }

  view({ favoriteOf, author, ...members }: Article, user: User | undefined): object {
    const profile = { username: author, bio: null, image: null, following: false }
    const favorited = user !== undefined && favoriteOf.has(user)
    return { ...members, favorited, favoritesCount: favoriteOf.size, author: profile }
  }

  list(query: URLSearchParams, user: User | undefined): Reply {
    const matching = this.ordered().filter((article) => this.matches(article, query))
    const page = matching.slice(0, Number(query.get('limit') ?? 20))
    const articles = page.map((article) => ({ ...this.view(article, user), body: undefined }))
    return { status: 200, body: { articles, articlesCount: matching.length } }
  }

  ordered(): Article[] {
    return [...this.articles.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  }

  matches({ author, tagList }: Article, query: URLSearchParams): boolean {
    const tag = query.get('tag')
    return author === (query.get('author') ?? author) && (tag === null || tagList.includes(tag))
  }

  read(article: Article, user: User | undefined): Reply {
    return { status: 200, body: { article: this.view(article, user) } }
  }

  create({ title, description, body, tagList = [] }: Partial<ArticleMembers>, author: User): Reply {
    if (!title || !description || !body) return { status: 422, body: { errors: { body: ["can't be empty"] } } }
    const slug = this.slugOf(title)
    const createdAt = new Date(Date.UTC(2026, 0, 1) + ++this.#created).toISOString()
    const article = { slug, title, description, body, tagList, createdAt, author, favoriteOf: new Set<string>() }
    this.articles.set(slug, article)
    return { status: 201, body: { article: this.view(article, author) } }
  }

  change(article: Article, { title, description, body }: Partial<ArticleMembers>, user: User): Reply {
    this.articles.delete(article.slug)
    if (title !== undefined) Object.assign(article, { title, slug: this.slugOf(title) })
    if (description !== undefined) article.description = description
    if (body !== undefined) article.body = body
    this.articles.set(article.slug, article)
    return this.read(article, user)
  }

  remove({ slug }: Article): Reply {
    this.articles.delete(slug)
    return { status: 204 }
  }

  favorite(article: Article, user: User, isFavorite: boolean): Reply {
    if (isFavorite) article.favoriteOf.add(user)
    else article.favoriteOf.delete(user)
    return this.read(article, user)
  }

  missing(_method: string): Reply {
    return notFound
  }
}

export type { Article, ArticleMembers, Item, Reply, Todo, User }
