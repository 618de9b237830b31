// node --test examples/node-test/todo.test.js
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { start } from 'todo-item-service'

/** The client that is tested: it tries once more when the service is unavailable. */
async function createItem(url, name) {
  const send = () =>
    fetch(`${url}/api/todoitems`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name, isComplete: false }),
    })
  const response = await send()
  return response.status === 503 ? send() : response
}

let server
before(async () => {
  server = await start({ profile: 'a' })
})
beforeEach(() => server.reset())
after(() => server.close())

test('the list has the items of the service', async () => {
  await server.putItems([{ id: 7, name: 'walk the dog', isComplete: true }])
  const response = await fetch(`${server.url}/api/todoitems`)
  assert.deepEqual(await response.json(), [{ id: 7, name: 'walk the dog', isComplete: true }])
})

test('a request that fails is sent again', async () => {
  await server.addFault({ method: 'POST', times: 1, code: 503 })
  const response = await createItem(server.url, 'buy milk')
  assert.deepEqual(await response.json(), { id: 1, name: 'buy milk', isComplete: false })
  assert.deepEqual(
    server.requests().map(({ method, status }) => `${method} ${status}`),
    ['POST 503', 'POST 201'],
  )
})
