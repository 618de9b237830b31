// npx vitest run --root examples/vitest
import { start, type TodoServer } from 'todo-item-service'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

/** The client that is tested: it tries once more when the service is unavailable. */
async function createItem(url: string, name: string): Promise<Response> {
  const send = () =>
    fetch(`${url}/api/todoitems`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: name, name, notes: 'none' }),
    })
  const response = await send()
  return response.status === 400 && (await response.text()) === 'CouldNotCreateItem' ? send() : response
}

let server: TodoServer<'b'>
beforeAll(async () => {
  server = await start({ profile: 'b' })
})
beforeEach(() => server.reset())
afterAll(() => server.close())

test('the list has the items of the service', async () => {
  await server.putItems([{ id: 'milk', name: 'Buy milk', notes: '2 litres' }])
  const response = await fetch(`${server.url}/api/todoitems`)
  expect(await response.json()).toEqual([{ id: 'milk', name: 'Buy milk', notes: '2 litres', done: false }])
})

test('a request that fails is sent again', async () => {
  await server.fail({ method: 'POST', times: 1 })
  const response = await createItem(server.url, 'milk')
  expect(response.status).toBe(200)
  expect(server.requests().map(({ method, status }) => `${method} ${status}`)).toEqual(['POST 400', 'POST 200'])
  expect(await server.items()).toHaveLength(4)
})
