// npx vitest run --root examples/vitest
import { start, type TodoServer, type TodoSpace } from 'todo-item-service'
import { afterAll, test as base, beforeAll } from 'vitest'

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
afterAll(() => server.close())

/** Each test has a space of its own on the server, so they run at the same time. */
const test = base.extend<{ space: TodoSpace<'b'> }>({
  space: ({ task }, use) => use(server.space(task.id)),
})

test.concurrent('the list has the items of the service', async ({ space, expect }) => {
  await space.putItems([{ id: 'milk', name: 'Buy milk', notes: '2 litres' }])
  const response = await fetch(`${space.url}/api/todoitems`)
  expect(await response.json()).toEqual([{ id: 'milk', name: 'Buy milk', notes: '2 litres', done: false }])
})

test.concurrent('a request that fails is sent again', async ({ space, expect }) => {
  await space.addFault({ method: 'POST', times: 1 })
  const response = await createItem(space.url, 'milk')
  expect(response.status).toBe(200)
  expect(space.requests().map(({ method, status }) => `${method} ${status}`)).toEqual(['POST 400', 'POST 200'])
  expect(await space.items()).toHaveLength(4)
})
