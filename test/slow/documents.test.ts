import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { assertFails, type Mutation, ruleOf, titles, verifyFaulty } from '../support/faulty-server.ts'
import { hasPath, mutateText, replaceResponse, setHeader } from '../verify/faults.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests change any part of a document.
type Part = any

const isDocument = hasPath(/swagger\.json/)
const isForecast = hasPath(/forecast/)
const isPage = hasPath(/swagger\/index\.html/)
const itemsPath = '/api/todoitems'

const changeDocument = (change: (document: Part) => unknown): Mutation =>
  mutateText(
    (request, response) => isDocument(request, response) && response.status === 200,
    (text) => {
      const document = JSON.parse(text)
      change(document)
      return JSON.stringify(document)
    },
  )
const changeSchema = (name: string, change: (schema: Part) => unknown) =>
  changeDocument(({ components }) => change(components.schemas[name]))
const changeForecast = (change: (entries: Part[]) => unknown): Mutation =>
  mutateText(isForecast, (text) => {
    const entries = JSON.parse(text)
    change(entries)
    return JSON.stringify(entries)
  })
const changePage = (text: string) =>
  replaceResponse((request) => isPage(request, { status: 200, headers: {}, text: '' }), {
    status: 200,
    headers: { 'content-type': 'text/html' },
    text,
  })
const withToken = (name: string, text: (request: Part) => string) =>
  mutateText(
    (request, { status }) => request.path === name && status === 200,
    (original) => text(original),
  )

const both =
  (first: Mutation, second: Mutation): Mutation =>
  (request, forward) =>
    first(request, (passed) => second(passed, forward))

let greetings = 0

const faultsOfA: Record<string, Mutation> = {
  'S1 a date does not exist': changeForecast(([first]) => {
    first.date = '2026-02-30T12:00:00+00:00'
  }),
  'S1 a date is of another week': changeForecast((entries) => {
    entries[4].date = entries[4].date.replace(/^\d{4}/, '2099')
  }),
  'S1 a date is a number': changeForecast(([first]) => {
    first.date = Date.now()
  }),
  'S1 the temperatures are the same in each forecast': changeForecast((entries) => {
    entries.forEach((entry, index) => {
      entry.temperatureC = 20 * index - 20
      entry.temperatureF = 32 + Math.trunc(entry.temperatureC / 0.5556)
    })
  }),
  'S1 the temperatures of a forecast are the same': changeForecast((entries) => {
    for (const entry of entries) Object.assign(entry, { ...entries[0], date: entry.date })
  }),
  'S1 the forecast is text': setHeader(isForecast, 'content-type', 'text/plain'),
  'S1 the forecast declares another charset': setHeader(isForecast, 'content-type', 'application/json; charset=latin1'),
  'S2 the greeting declares another charset': setHeader(hasPath(/^\/$/), 'content-type', 'text/plain; charset=utf-16'),
  'S3 /secret has no phrase': withToken('/secret', () => 'Hello ada!'),
  'S3 /secret has another phrase each time': withToken('/secret', (text) => `${text}${Math.random()}`),
  'S3 /secret has another phrase each fifth time': withToken('/secret', (text) =>
    ++greetings % 5 === 0 ? `${text}!` : text,
  ),
  'S3 /secret needs no token in upper case': replaceResponse(({ path }) => path === '/SECRET', {
    status: 200,
    headers: { 'content-type': 'text/plain' },
    text: 'Hello . My secret is safe.',
  }),
  'S4 a reference leads nowhere': changeSchema('WeatherForecast', (schema) => {
    schema.properties.summary = { $ref: '#/components/schemas/Summary' }
  }),
  'S4 a type is that of OpenAPI 3.1': changeSchema('TodoItem', ({ properties }) => {
    properties.name = { type: ['string', 'null'] }
  }),
  'S4 an operation has no responses': changeDocument(({ paths }) => {
    delete paths['/secret'].get.responses
  }),
  'S4 two operations have the same operationId': changeDocument(({ paths }) => {
    paths['/'].get.operationId = paths['/secret'].get.operationId
  }),
  'S4 the path parameter is not declared': changeDocument(({ paths }) => {
    paths[`${itemsPath}/{id}`].delete.parameters = []
  }),
  'S4 the success of POST is 200': changeDocument(({ paths }) => {
    const { responses } = paths[itemsPath].post
    responses[200] = responses[201]
    delete responses[201]
  }),
  'S4 an id is a string': changeSchema('TodoItem', ({ properties }) => {
    properties.id = { type: 'string' }
  }),
  'S4 an id has 32 bits': changeSchema('TodoItem', ({ properties }) => {
    properties.id.format = 'int32'
  }),
  'S4 a name is never null': changeSchema('TodoItem', ({ properties }) => {
    delete properties.name.nullable
  }),
  'S4 an item has no types': changeSchema('TodoItem', (schema) => {
    schema.properties = {}
  }),
  'S4 an item has a secret': changeSchema('TodoItem', ({ properties }) => {
    properties.secret = { type: 'string' }
  }),
  'S4 a summary is one of nine': changeSchema('WeatherForecast', ({ properties }) => {
    properties.summary.enum.shift()
  }),
  'S4 a new item needs an id': changeSchema('NewTodoItem', ({ properties, required }) => {
    properties.id = { type: 'integer' }
    required.push('id')
  }),
  'S4 isComplete is optional': changeSchema('TodoItemUpdate', (schema) => {
    schema.required = ['id']
  }),
  'S4 POST has a form': changeDocument(({ paths }) => {
    const { requestBody } = paths[itemsPath].post
    requestBody.content = { 'application/x-www-form-urlencoded': requestBody.content['application/json'] }
  }),
  'S4 the list needs a page': changeDocument(({ paths }) => {
    const page = { name: 'page', in: 'query', required: true, schema: { type: 'integer' } }
    paths[itemsPath].get.parameters.push(page)
  }),
  'S4 an error is XML': changeDocument(({ paths }) => {
    paths[`${itemsPath}/{id}`].get.responses[404].content = { 'application/xml': {} }
  }),
  'S4 204 has a body': changeDocument(({ paths }) => {
    const { put, get } = paths[`${itemsPath}/{id}`]
    put.responses[204] = get.responses[200]
  }),
  'S4 /secret needs no token by the document': changeDocument(({ paths }) => {
    paths['/secret'].get.security = []
  }),
  'S4 /secret needs a password by the document': changeDocument(({ components }) => {
    components.securitySchemes.bearer = { type: 'http', scheme: 'basic' }
  }),
  'S4 the forecast needs a token by the document': changeDocument((document) => {
    document.security = [{ bearer: [] }]
    delete document.paths['/weatherforecast'].get.security
  }),
  'S4 the servers have another path': changeDocument((document) => {
    document.servers = [{ url: '/v2' }]
  }),
  'S4 PATCH is described and not served': changeDocument(({ paths }) => {
    const path = paths[`${itemsPath}/{id}`]
    path.patch = { ...path.put, operationId: 'patchItem', responses: { 204: { description: 'Changed.' } } }
  }),
  'S5 the page has no operations': changePage('<!doctype html><title>To-do items</title>'),
  'S5 the page has a script that is not served': changePage('<script src="missing.js"></script>'),
  'S5 the page lists operations without DELETE, and links the document': changePage(
    `<a href="/swagger/v1/swagger.json">OpenAPI</a> <form>GET POST ${itemsPath} <button>Try</button></form>
    <form>GET PUT ${itemsPath}/{id} /weatherforecast / /secret <button>Try</button></form>`,
  ),
  'S5 the page shows another document': changePage('<script>SwaggerUIBundle({ url: "/v2/swagger.json" })</script>'),
  'S5 every path has the same page': replaceResponse(({ path }) => /^\/swagger\/[^v]/.test(path), {
    status: 200,
    headers: { 'content-type': 'text/html' },
    text: '<!doctype html><div id="root"></div><script src="https://cdn.example/app.js"></script>',
  }),
}

const faultsOfB: Record<string, Mutation> = {
  'S4 an error is one of other codes': changeDocument(({ paths }) => {
    paths[itemsPath].post.responses[409].content['text/plain'].schema.enum = ['InUse']
  }),
  'S4 done is required': changeSchema('SentTodoItem', ({ required }) => {
    required.push('done')
  }),
  'S4 notes are optional': changeSchema('SentTodoItem', (schema) => {
    schema.required = ['id', 'name']
  }),
  'S4 an item can be read by the document': changeDocument(({ paths }) => {
    const [path, { delete: operation }] = [`${itemsPath}/{id}`, paths[`${itemsPath}/{id}`]]
    paths[path].get = { ...operation, operationId: 'getItem', responses: { 200: { description: 'The item.' } } }
  }),
}

/** What other generators write. */
const accepted: Record<string, Mutation> = {
  'S4 schemas in place of references, and other names': changeDocument((document) => {
    const inline = (value: Part): Part => {
      if (Array.isArray(value)) return value.map(inline)
      if (typeof value !== 'object' || value === null) return value
      if (value.$ref) return inline(document.components.schemas[value.$ref.split('/').at(-1)])
      return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, inline(member)]))
    }
    const { [`${itemsPath}/{id}`]: item, ...others } = inline(document.paths)
    for (const operation of Object.values<Part>(item)) operation.parameters[0].name = 'todoId'
    document.paths = { ...others, '/api/TodoItems/{todoId}': item }
    for (const path of Object.values<Part>(document.paths))
      for (const one of Object.values<Part>(path)) delete one.operationId
    delete document.components.schemas
  }),
  'S4 parameters of the path, ranges of statuses and several media types': changeDocument(({ paths }) => {
    const item = paths[`${itemsPath}/{id}`]
    const [parameter] = item.get.parameters
    for (const { parameters } of [item.get, item.put, item.delete]) parameters.shift()
    item.parameters = [parameter]
    item.get.responses = { 200: item.get.responses[200], '4XX': { description: 'An error.' } }
    item.delete.responses = { '2XX': { description: 'Deleted.' }, default: { description: 'An error.' } }
    const { content } = paths[itemsPath].post.responses[201]
    content['text/json'] = content['application/json']
    content['text/plain'] = content['application/json']
  }),
  'S4 items by allOf, and an id that is readOnly in one schema for all': changeDocument(({ components, paths }) => {
    const { TodoItem } = components.schemas
    TodoItem.properties.id.readOnly = true
    components.schemas.Item = { allOf: [{ $ref: '#/components/schemas/TodoItem' }] }
    const schema = { $ref: '#/components/schemas/Item' }
    paths[itemsPath].post.requestBody.content['application/json'].schema = schema
    paths[`${itemsPath}/{id}`].get.responses[200].content['application/json'].schema = { oneOf: [schema] }
  }),
  'S4 servers of a path and of an operation': changeDocument((document) => {
    const { [itemsPath]: items, '/secret': secret, ...others } = document.paths
    document.paths = { ...others, '/todoitems': { ...items, servers: [{ url: '/api' }] }, '/secret': secret }
    document.servers = [{ url: '/v2' }]
    for (const path of Object.values<Part>(others)) path.servers = [{ url: '/' }]
    secret.get.servers = [{ url: '/' }]
  }),
  'S4 members beyond the specification, which are sent': both(
    changeForecast((entries) => {
      for (const entry of entries) entry.station = 'Berlin'
    }),
    changeSchema('WeatherForecast', ({ properties }) => {
      properties.station = { type: 'string' }
    }),
  ),
  'S4 security by default, and OAuth 2.0': changeDocument((document) => {
    const flows = { clientCredentials: { tokenUrl: 'https://login.example/token', scopes: {} } }
    document.components.securitySchemes.bearer = { type: 'oauth2', flows }
    document.security = [{ bearer: [] }]
    delete document.paths['/secret'].get.security
  }),
  'S5 the page loads its scripts from elsewhere': changePage(
    '<div id="ui"></div><script src="https://cdn.example/swagger-ui-bundle.js"></script>',
  ),
  'S5 the page is a list of forms': changePage(
    `<form>GET POST ${itemsPath} <button>Try</button></form>
    <form>GET PUT DELETE ${itemsPath}/{id} /weatherforecast / /secret <button>Try</button></form>`,
  ),
}

/** Left out, not wrong. */
const deviations: Record<string, Mutation> = {
  'S4 404 of GET is not described': changeDocument(({ paths }) => {
    delete paths[`${itemsPath}/{id}`].get.responses[404]
  }),
  'S4 no member is required': changeDocument(({ components }) => {
    for (const schema of Object.values<Part>(components.schemas)) delete schema.required
  }),
  'S4 an id has no format': changeSchema('TodoItem', ({ properties }) => {
    delete properties.id.format
  }),
  'S4 the items need a token only by the document': changeDocument(({ paths }) => {
    paths[itemsPath].get.security = [{ bearer: [] }]
  }),
}

suite('verify fails servers whose samples or OpenAPI document break a rule', { concurrency: 4 }, () => {
  for (const [profile, faults] of [
    ['a', faultsOfA],
    ['b', faultsOfB],
  ] as const)
    for (const [title, mutate] of Object.entries(faults))
      test(`${title}, profile ${profile}`, async (t) => {
        assertFails(await verifyFaulty(t, profile, mutate, { only: [ruleOf(title)] }), title)
      })
})

suite('verify accepts documents and pages of other generators', { concurrency: 4 }, () => {
  for (const [title, mutate] of Object.entries(accepted))
    test(title, async (t) => {
      const verification = await verifyFaulty(t, 'a', mutate, { only: [ruleOf(title)], strict: true })
      assert.deepEqual(
        verification.outcomes.filter(({ status }) => status === 'failed').map(({ failure }) => failure),
        [],
      )
    })

  for (const [title, mutate] of Object.entries(deviations))
    test(`${title}, unless it is strict`, async (t) => {
      const verification = await verifyFaulty(t, 'a', mutate, { only: ['S4'] })
      assert.deepEqual([titles(verification, 'failed'), titles(verification, 'deviates').length], [[], 1])
    })

  test('S4 schemas that refer to themselves come to an end', async (t) => {
    const mutate = changeSchema('TodoItem', (schema) => {
      schema.allOf = Array(1000).fill({ $ref: '#/components/schemas/TodoItem' })
      schema.properties.name.pattern = '^(\\w+)+$'
    })
    const { complete, failed } = await verifyFaulty(t, 'a', mutate, { only: ['S4'] })
    assert.deepEqual([complete, failed], [true, 0])
  })

  test('S4 a document that is no object is one failure', async (t) => {
    const verification = await verifyFaulty(
      t,
      'a',
      mutateText(isDocument, (text) => text && JSON.stringify(text)),
    )
    assert.deepEqual(titles(verification, 'failed'), ['S4 the OpenAPI document is valid'])
  })
})
